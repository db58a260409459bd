"""Run the task evals with any agent, with and without the skill and the server.

    python evals/run.py --agent 'my-agent --print "$(cat prompt.md)"' --out results [--arm both] [--task fix-config]
        [--repeat 3]
    python evals/run.py --prepare --out results     # an agent without a command: give it each folder's prompt.md ...
    python evals/run.py --score --out results       # ... and score what it left

For every task and arm a fresh folder is made (fixture, prompt.md; the skill and the server's settings where the arm has
them), the agent's command is run in it by a shell, and the folder's files are scored. An agent may leave `usage.json`
({"tool_calls": n, "tokens": n}); it is copied into the result. The command is yours: run it on a machine where an agent
may act freely, and without TRL installed, which is where a bundle can help.
"""

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import checkers
import demanding
import fixtures
from fixtures import write_json

ROOT = Path(__file__).resolve().parents[1]
ARMS = ("neither", "skill", "server", "both")
NAME = "grpo-rlvr-training"
MAKERS = fixtures.MAKERS | demanding.MAKERS
CHECKERS = checkers.CHECKERS | demanding.CHECKERS


class Cell(NamedTuple):
    """One run: a task in an arm, for the `number`-th time, in its folder."""

    task: dict[str, Any]
    arm: str
    number: int
    folder: Path


def tasks() -> list[dict[str, Any]]:
    """The tasks of evals.json."""
    return list(json.loads((ROOT / "evals" / "evals.json").read_text(encoding="utf-8"))["tasks"])


def prepare(task: dict[str, Any], arm: str, folder: Path) -> None:
    """Make the folder an agent starts in."""
    folder.mkdir(parents=True)
    MAKERS[task["id"]](folder)
    (folder / "prompt.md").write_text(task["prompt"] + "\n", encoding="utf-8")
    if arm in {"skill", "both"}:
        for place in (".claude/skills", ".agents/skills"):
            target = folder / place / NAME
            target.mkdir(parents=True)
            shutil.copyfile(ROOT / "SKILL.md", target / "SKILL.md")
            shutil.copytree(ROOT / "references", target / "references")
    if arm in {"server", "both"}:
        server = {"type": "stdio", "command": sys.executable, "args": ["-m", "grpo_rlvr", "serve"]}
        write_json(folder / ".mcp.json", {"mcpServers": {"grpo-rlvr": server}})


def run_agent(agent: str, folder: Path, timeout_s: float) -> tuple[float, int | str]:
    """Run an agent's command in its folder. Returns wall seconds and the exit code, or "timeout"."""
    started = time.monotonic()
    try:
        with (folder / "agent.log").open("w", encoding="utf-8") as log:
            done = subprocess.run(
                agent, shell=True, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=timeout_s,
                check=False,
            )  # fmt: skip
        code: int | str = done.returncode
    except subprocess.TimeoutExpired:
        code = "timeout"
    return time.monotonic() - started, code


def score(cell: Cell, seconds: float | None = None, code: int | str | None = None) -> dict[str, Any]:
    """Score what an agent left. Returns task, arm, run, score, lost points, seconds, exit code and usage.

    An agent that was not started by this runner may state its own seconds in usage.json.
    """
    found, lost = CHECKERS[cell.task["id"]](cell.folder)
    path = cell.folder / "usage.json"
    usage = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    if seconds is None and usage:
        seconds = usage.get("seconds")
    return {
        "task": cell.task["id"], "arm": cell.arm, "run": cell.number, "score": round(found, 3), "lost": lost,
        "seconds": None if seconds is None else round(seconds, 1), "exit": code, "usage": usage,
    }  # fmt: skip


def mean(values: list[float]) -> float | None:
    """The mean, or None of nothing: what an agent does not report stays unknown."""
    return sum(values) / len(values) if values else None


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each arm the means, and its difference in score to the arm with neither skill nor server."""
    rows = []
    for arm in ARMS:
        own = [result for result in results if result["arm"] == arm]
        if own:
            used = [result["usage"] or {} for result in own]
            row: dict[str, Any] = {"arm": arm, "runs": len(own), "score": mean([result["score"] for result in own])}
            row["seconds"] = mean([result["seconds"] for result in own if result["seconds"] is not None])
            for key in ("tool_calls", "tokens"):
                row[key] = mean([usage[key] for usage in used if isinstance(usage.get(key), int | float)])
            rows.append(row)
    base = next((row["score"] for row in rows if row["arm"] == "neither"), None)
    return [{**row, "score_gain": None if base is None else row["score"] - base} for row in rows]


def cells(options: argparse.Namespace) -> list[Cell]:
    """The runs that are asked for."""
    chosen = [task for task in tasks() if not options.task or task["id"] in options.task]
    arms = ARMS if options.arm == "all" else (options.arm,)
    return [
        Cell(task, arm, number, options.out / task["id"] / (arm if number == 1 else f"{arm}-{number}"))
        for task, number, arm in itertools.product(chosen, range(1, options.repeat + 1), arms)
    ]


def run(cell: Cell, options: argparse.Namespace) -> dict[str, Any] | None:
    """Prepare, run and score a cell, or only the part that is asked for."""
    if not options.score:
        shutil.rmtree(cell.folder, ignore_errors=True)
        prepare(cell.task, cell.arm, cell.folder)
    if options.prepare:
        print(cell.folder)
        return None
    result = score(cell) if options.score else score(cell, *run_agent(options.agent, cell.folder, options.timeout_s))
    seconds = "       -" if result["seconds"] is None else f"{result['seconds']:8.1f}"
    lost = "; ".join(result["lost"])[:120]
    print(f"{result['score']:.2f} {seconds} s  {cell.arm:<8} {cell.task['id']}  {lost}")
    return result


def main() -> int:
    """Run and print a line a task and arm, then the means of each arm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--agent", help="shell command, run in the task's folder beside prompt.md")
    how.add_argument("--prepare", action="store_true", help="only make the folders, for an agent without a command")
    how.add_argument("--score", action="store_true", help="only score the folders that --prepare made")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arm", choices=(*ARMS, "all"), default="all")
    parser.add_argument("--task", choices=sorted(CHECKERS), action="append")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each task and arm: one is an anecdote")
    parser.add_argument("--timeout-s", type=float, default=1800)
    options = parser.parse_args()
    results = [result for cell in cells(options) if (result := run(cell, options))]
    if not results:
        return 0
    write_json(options.out / "results.json", results)
    write_json(options.out / "summary.json", summary(results))
    for row in summary(results):
        shown = [f"{key} {value:.2f}" for key, value in row.items() if isinstance(value, float)]
        print(f"{row['arm']}: {', '.join(shown)} over {row['runs']} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
