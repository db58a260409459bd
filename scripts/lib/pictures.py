"""Make the pictures of the README from a finished demo: the reading page and the report, in a headless Chromium.

    python scripts/lib/pictures.py DEMO_FOLDER          # writes references/pictures/{reading,report}.png

DEMO_FOLDER is what `scripts/demo` wrote. It is not touched: in a copy the samples are scored again, and the report
of the last training run is written again. The browser is driven as the tests drive it.
"""

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from grpo_rlvr.inspection import score, serve_page
from grpo_rlvr.interpreter import training_interpreter
from grpo_rlvr.models.run import RunSpec
from grpo_rlvr.report import write
from grpo_rlvr.runs import list_runs
from grpo_rlvr.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "references" / "pictures"
WIDTH = 1200
DRIVER = ROOT / "tests" / "inspection" / "chromium.py"


def browser() -> Any:
    """Start a browser."""
    spec = importlib.util.spec_from_file_location("chromium", DRIVER)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    binary = module.find()
    if binary is None:
        raise SystemExit("No Chromium or Chrome was found: install one.")
    return module.Chromium(binary)


def picture_of_reading(window: Any, workspace: Workspace, path: Path) -> None:
    """Score the demo's samples with its own rewards, and picture the first row as a person sees it."""
    samples = sorted(workspace.readings.glob("*/samples.jsonl"))[-1]
    spec = RunSpec.model_validate_json((workspace.root / "run.json").read_text(encoding="utf-8"))
    scored = score(samples, spec.rewards, workspace, interpreter=training_interpreter(workspace))
    address, server = serve_page(scored.reading_id, workspace)
    try:
        window.size(WIDTH, 560)
        window.open(address)
        window.until("document.activeElement && document.activeElement.tagName === 'INPUT'")
        window.type("Ann")
        window.press("Enter")
        window.until("document.querySelectorAll('button').length > 1 && !document.querySelector('input:focus')")
        window.run("new Promise(done => setTimeout(done, 500))")
        window.screenshot(path)
    finally:
        server.stop()


def picture_of_report(window: Any, workspace: Workspace, path: Path) -> None:
    """Write the report of the last finished training run again, and picture its top."""
    run = next(run for run in list_runs(workspace).runs if run.kind == "train" and run.stage == "full")
    page = workspace.root / write(run.run_id, workspace, "pictured.html", []).path
    window.size(WIDTH, 1120)
    window.open(page.as_uri())
    window.until("document.readyState === 'complete' && document.querySelector('svg')")
    window.screenshot(path)


def main() -> int:
    """Make both pictures."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "run.json").is_file():
        print(__doc__, file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # The demo's records are sealed with this user's key, so the pictures are made by the user who ran the demo.
        copy = Path(folder) / "demo"
        shutil.copytree(sys.argv[1], copy)
        workspace, window = Workspace.open(copy), browser()
        try:
            picture_of_report(window, workspace, OUT / "report.png")
            picture_of_reading(window, workspace, OUT / "reading.png")
        finally:
            window.close()
    print(
        "\n".join(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} kB" for path in sorted(OUT.glob("*.png")))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
