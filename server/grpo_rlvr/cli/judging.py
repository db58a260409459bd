"""Measuring a judge against a person's labels, so that it may serve as a reward."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_rlvr.cli.render import console, escape, table
from grpo_rlvr.errors import InputError
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.tools.sample import parse_reward_specs
from grpo_rlvr.workspace import Workspace

if TYPE_CHECKING:
    from rlvr_rewards import Judge

LABEL_REMEDY = 'Write one object a line: {"prompt": ..., "completion": ..., "label": true or false}.'


def calibrate(options: argparse.Namespace) -> int:
    """0 when the judge may serve as a reward from now on, 1 when it is not good enough.

    Raises:
        InputError: no judge, labels that are none, or an endpoint that cannot be used. NotFoundError: no such file.
    """
    from rlvr_rewards import NotCalibratedError, RewardError
    from rlvr_rewards import calibrate as measure

    place = Workspace.open(options.root, confined=False)
    spec = _spec(place, options.judge)
    labelled = _labels(place, options.labels)
    record = place.root / (options.record or spec.args.get("calibration") or "judge-calibration.json")
    try:
        found = measure(_judge(spec), labelled, record)
    except NotCalibratedError as error:
        console.print(f"[red]not calibrated[/]: {escape(str(error))}")
        return 1
    except RewardError as error:
        raise InputError(str(error), where="the judge", remedy="Mend the endpoint or the spec and try again.") from None
    _show(found, record, as_json=options.json)
    return 0


def _spec(place: Workspace, text: str) -> RewardSpec:
    spec, *more = parse_reward_specs(place, [text], "--judge")
    if more or spec.reward != "judge":
        remedy = 'Give {"reward": "judge", "args": {"rubric": [...], "client": {"base_url": ..., "model": ...}}}.'
        what = f"{len(more) + 1} specs are not one judge" if more else f"{spec.reward!r} is no judge"
        raise InputError(what, where="--judge", remedy=remedy)
    return spec


def _judge(spec: RewardSpec) -> "Judge":
    from rlvr_rewards import Judge, RewardSpecError

    try:
        return Judge(**spec.args)
    except (RewardSpecError, TypeError) as error:
        raise InputError(str(error), where="--judge", remedy="See the reward 'judge' in the references.") from None


def _labels(place: Workspace, name: str) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(place.read_text(name, "--labels").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"no JSON: {error}", where=f"{name}, line {number}", remedy=LABEL_REMEDY) from None
        if not isinstance(row, dict) or not {"prompt", "completion"} <= set(row) or type(row.get("label")) is not bool:
            raise InputError("not a labelled answer", where=f"{name}, line {number}", remedy=LABEL_REMEDY)
        rows.append(row)
    if not rows:
        raise InputError("there are no labels", where=name, remedy=LABEL_REMEDY)
    return rows


def _show(record: dict[str, Any], path: Path, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(record, indent=2))
        return
    console.print(f"[green]calibrated[/]: {escape(str(record['model']))}, {record['labels']['count']} labels")
    rows = []
    for part in ("dev", "test"):
        rates = record[part]
        good, bad = (rates["true_positives"], rates["positives"]), (rates["true_negatives"], rates["negatives"])
        rows.append((part, *(f"{hits} of {count}" for hits, count in (good, bad)), *_bounds(rates)))
    table(
        ("part", "good that pass", "bad that fail", "true-positive rate, at least", "true-negative rate, at least"),
        rows,
    )
    console.print(f"record: {escape(str(path))}; name it in the spec's argument 'calibration'")


def _bounds(rates: dict[str, Any]) -> tuple[str, str]:
    return f"{rates['tpr_low']:.3f}", f"{rates['tnr_low']:.3f}"
