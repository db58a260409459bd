"""Run judged cases of one kind through the public interface.

    python tests/run_cases.py config|logs|rewards|hacks|memory PATH [--json]

PATH is a file of cases or a folder of such files. One line a case, last line `N right, N wrong`; exit 1 when something
is wrong, 2 when the cases cannot be read. A case that raises, or that nothing handles yet, counts as wrong.

Each kind is judged by `judge_<kind>.py` beside this file: `judge(path) -> Iterator[tuple[id, right, text]]`.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

KINDS = ("config", "logs", "rewards", "hacks", "memory")


def outcomes(kind: str, path: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield the id, whether the answer was right, and what was answered, for every case."""
    here = str(Path(__file__).resolve().parent)
    if here not in sys.path:
        sys.path.insert(0, here)
    yield from importlib.import_module(f"judge_{kind}").judge(path)


def main(arguments: list[str] | None = None) -> int:
    """Print the outcomes and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("path", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    options = parser.parse_args(arguments)
    if not options.path.exists():
        print(f"no such file or folder: {options.path}", file=sys.stderr)
        return 2
    results = []
    for identifier, right, text in outcomes(options.kind, options.path):
        results.append({"id": identifier, "right": right, "text": text})
        if not options.json:
            print(f"{'right' if right else 'WRONG'}  {identifier:<14} {text}", flush=True)
    wrong = sum(not result["right"] for result in results)
    if options.json:
        print(
            json.dumps(
                {"kind": options.kind, "right": len(results) - wrong, "wrong": wrong, "cases": results}, indent=1
            )
        )
    if not results:
        print(f"no cases of kind {options.kind} in {options.path}", file=sys.stderr)
        return 2
    if not options.json:
        print(f"{len(results) - wrong} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
