"""The model card stub of a finished run: what it was trained with, on whose reading, and what it gained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grpo_rlvr.runs.measure import measure
from grpo_rlvr.runs.records import read_record


def write_card(folder: Path) -> None:
    """Write README.md into the final model's folder; nothing happens where there is no model."""
    model = folder / "model"
    if model.is_dir():
        (model / "README.md").write_text(card_text(folder), encoding="utf-8")


def card_text(folder: Path) -> str:
    """Return the card's text from the records of a run folder."""
    run, spec, gate = (read_record(folder / f"{name}.json") or {} for name in ("run", "spec", "gate"))
    base = str((run.get("spec") or {}).get("model", {}).get("path", "unknown"))
    parts = [
        "---",
        f"base_model: {json.dumps(base)}",
        "tags: [grpo, rlvr, trl]",
        "---",
        f"# {run.get('name') or run.get('run_id')}",
        "",
        f"Trained from `{base}` with GRPO (TRL {run.get('packages', {}).get('trl', 'unknown')}). "
        "This is a stub: say what the model is for and what it must not be used for.",
        "",
        "## Result on held-out prompts",
        "",
        *_result(measure(folder)),
        "",
        "## What let it start",
        "",
        *_gate(gate, run),
        "",
        "## Digests",
        "",
        f"- run: `{run.get('run_id')}`",
        f"- config, model, data and rewards: `{run.get('digest')}`",
        f"- reward code: `{run.get('reward_digest')}`",
        "",
        "## Config",
        "",
        "```json",
        json.dumps(spec.get("config", {}), indent=1, ensure_ascii=False, sort_keys=True),
        "```",
        "",
    ]
    return "\n".join(parts)


def _result(result: dict[str, Any] | None) -> list[str]:
    if result is None:
        return ["Not measured."]
    lines = ["| reward | before | after | difference |", "| --- | --- | --- | --- |"]
    for entry in result["rewards"]:
        cells = (_cell(entry[key]) for key in ("before", "after", "difference"))
        lines.append(f"| {entry['reward']} | {' | '.join(cells)} |")
    lines += ["", f"{result['prompts']} prompts, {result['samples_per_prompt']} completions each; {result['method']}."]
    return lines


def _cell(interval: dict[str, float]) -> str:
    return f"{interval['value']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"


def _gate(gate: dict[str, Any], run: dict[str, Any]) -> list[str]:
    lines = [f"- reading: `{gate.get('reading_id')}`, gate {'open' if gate.get('open') else 'closed'} at launch"]
    record = (gate.get("record") or {}).get("record") or {}
    for reader in record.get("readers", []):
        lines.append(f"- read by {reader['name']} ({reader['kind']}, {reader['channel']}): {reader['rows']} rows")
    if run.get("waived"):
        lines.append(f"- the smoke run was waived: {run['waived']}")
    return lines
