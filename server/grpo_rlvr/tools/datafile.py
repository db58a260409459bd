"""What the first rows of a local dataset file show, so that nobody has to state it."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import UserError
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.workspace import Workspace

# Enough to see what prompts ask for; a check must stay quick and its inputs small.
SAMPLES = 50
MAX_LINE = 200_000
# Counting lines reads the whole file.
MAX_COUNTED_BYTES = 200_000_000
ROW_FILES = (".jsonl", ".ndjson")


def with_dataset_facts(setup: Setup, workspace: Workspace) -> Setup:
    """Add rows, columns, format and sample prompts of a JSON-lines file in `dataset.path`, where none is stated.

    A file that is not there, or that holds no objects, adds nothing: what cannot be seen stays unknown.
    """
    stated = setup.section("dataset")
    path = stated.get("path")
    if not isinstance(path, str) or not path.endswith(ROW_FILES):
        return setup
    try:
        file = workspace.file(path, "dataset.path")
        facts = _facts(file)
    except (UserError, OSError, ValueError, RecursionError):
        return setup
    return replace(setup, sections={**setup.sections, "dataset": {**facts, **stated}})


def _facts(file: Path) -> dict[str, Any]:
    with file.open(encoding="utf-8-sig") as opened:
        lines = (line for line in iter(lambda: opened.readline(MAX_LINE), "") if line.strip())
        rows = [json.loads(line) for line in islice(lines, SAMPLES)]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return {}
    facts: dict[str, Any] = {"columns": list(rows[0])}
    prompts = [row.get("prompt") for row in rows]
    kinds = {type(prompt) for prompt in prompts}
    if kinds <= {str, list} and len(kinds) == 1:
        facts["format"] = "string" if kinds == {str} else "conversational"
        facts["prompts"] = prompts
    if file.stat().st_size <= MAX_COUNTED_BYTES:
        with file.open("rb") as opened_bytes:
            facts["rows"] = sum(1 for line in opened_bytes if line.strip())
    return facts
