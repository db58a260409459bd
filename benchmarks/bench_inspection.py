"""Cost of scoring, of opening the reading page, and of a verdict, next to what the same machine takes for a bare start.

Run: python benchmarks/bench_inspection.py [--no-browser]. Prints one JSON object; exit code 1 when a limit is broken.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SAMPLES, GROUP = 100, 5
# Seconds beyond the rewards' own time, seconds to the first row that can be judged, milliseconds from key to next row.
LIMIT_SCORE_S, LIMIT_OPEN_S, LIMIT_VERDICT_MS = 2.0, 1.0, 50.0
VERDICTS = 50
REWARDS = """
def contains(completions, answer, **kwargs):
    return [float(gold in text) for text, gold in zip(completions, answer)]

def exact(completions, answer, **kwargs):
    return [float(text.endswith(f"<answer>{gold}</answer>")) for text, gold in zip(completions, answer)]

def formatted(completions, **kwargs):
    return [float(text.count("<answer>") == 1) for text in completions]
"""


def write_workspace(root: Path) -> None:
    """Write rewards and 100 samples of about 2,000 characters."""
    (root / "r.py").write_text(REWARDS, encoding="utf-8")
    lines = []
    for index in range(SAMPLES):
        group, turn = divmod(index, GROUP)
        answer = group + 10 + (turn % 2)
        text = f"<think>{'Step by step, with care. ' * 80}{index}</think><answer>{answer}</answer>"
        row = {"prompt": f"What is {group} + 10?", "completion": text, "answer": str(group + 10)}
        lines.append(json.dumps(row))
    (root / "samples.jsonl").write_text("\n".join(lines), encoding="utf-8")


def bare_start() -> float:
    """Seconds that a Python process takes to start and end."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(time.perf_counter() - started)
    return median(times)


def score(root: Path) -> tuple[float, float, str]:
    """Seconds of scoring 100 samples with 3 rewards, the rewards' own seconds for it, and the reading's id."""
    from grpo_rlvr import inspection
    from grpo_rlvr.models.common import RewardSpec
    from grpo_rlvr.workspace import Workspace

    specs = [RewardSpec(reward=f"r.py:{name}") for name in ("contains", "exact", "formatted")]
    inspection.score("samples.jsonl", specs, Workspace.open(root))
    started = time.perf_counter()
    result = inspection.score("samples.jsonl", specs, Workspace.open(root))
    wall = time.perf_counter() - started
    return wall, sum((r.ms_per_sample or 0) * SAMPLES / 1000 for r in result.rewards), result.reading_id


def read(root: Path, reading_id: str) -> tuple[float, list[float]]:
    """Seconds to open the page to its first question, and milliseconds from key to next row as the page measures it."""
    from grpo_rlvr import inspection
    from grpo_rlvr.workspace import Workspace

    found = importlib.util.spec_from_file_location("chromium", ROOT / "tests" / "inspection" / "chromium.py")
    assert found is not None and found.loader is not None
    chromium: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(chromium)
    url, server = inspection.serve_page(reading_id, Workspace.open(root))
    browser = chromium.Chromium(chromium.find())
    try:
        started = time.perf_counter()
        browser.open(url)
        browser.until("document.activeElement && document.activeElement.id === 'reader-name'")
        opened = time.perf_counter() - started
        browser.type("bench")
        browser.press("Enter")
        browser.until("document.getElementById('completion').textContent")
        browser.run(
            "window.times = []; new MutationObserver(() => { if (window.pressed) { "
            "window.times.push(performance.now() - window.pressed); window.pressed = 0; } })"
            ".observe(document.getElementById('completion'), {childList: true});"
            "document.addEventListener('keydown', () => { window.pressed = performance.now(); }, true)"
        )
        for done in range(1, VERDICTS + 1):
            browser.press("cw"[done % 2])
            browser.until(f"window.times.length >= {done}")
        times: list[float] = browser.run("window.times")
        browser.until("state.queue.length === 0")
    finally:
        browser.close()
        server.stop()
    return opened, times


def main() -> int:
    """Measure, print, and compare with the limits."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["GRPO_RLVR_HOME"] = str(root / "home")
        write_workspace(root)
        bare = bare_start()
        wall, own, reading_id = score(root)
        found: dict[str, Any] = {
            "bare_start_s": round(bare, 3),
            "score_beyond_rewards_s": round(wall - own, 3),
            "score_beyond_rewards_in_bare_starts": round((wall - own) / bare, 1),
        }
        fine = wall - own < LIMIT_SCORE_S
        if "--no-browser" not in sys.argv[1:]:
            opened, times = read(root, reading_id)
            times.sort()
            found |= {
                "page_open_s": round(opened, 3),
                "page_open_in_bare_starts": round(opened / bare, 1),
                "verdict_ms_median": round(median(times), 1),
                "verdict_ms_p95": round(times[int(len(times) * 0.95)], 1),
            }
            fine = fine and opened < LIMIT_OPEN_S and times[int(len(times) * 0.95)] < LIMIT_VERDICT_MS
    print(json.dumps(found | {"within_limits": fine}))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
