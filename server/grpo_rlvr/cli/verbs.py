"""What each verb does: call the tool, print its answer, turn it into an exit code."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from grpo_rlvr.cli import render, render_reading
from grpo_rlvr.errors import InputError
from grpo_rlvr.models.check import CheckResult
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.tools import check as check_tools
from grpo_rlvr.tools import diagnose, environment, run
from grpo_rlvr.tools import read as read_tools
from grpo_rlvr.tools import report as report_tools
from grpo_rlvr.tools import sample as sample_tools
from grpo_rlvr.tools.inputs import load_config_argument, load_json_file, load_setup
from grpo_rlvr.workspace import Workspace

POLL_S = 1.0
# What a setup file says of the training stays when another model is named; sizes and paths were the other model's.
HOW_TRAINED = frozenset(
    ("peft", "lora_r", "lora_alpha", "lora_targets", "quantized", "dtype", "attn_implementation", "attn")
)
# What a setup file says of its card, which is another one when a card is named.
OF_A_CARD = frozenset(("gpu_mem_gb", "gb_each", "kind"))


def workspace(options: argparse.Namespace) -> Workspace:
    """The workspace of a command; the person's own rights are its boundary."""
    return Workspace.open(options.root, confined=False)


def show(options: argparse.Namespace, result: BaseModel, table: Any) -> None:
    """Print a result as the tool's JSON, or as a table for people."""
    if options.json:
        print(result.model_dump_json(indent=2))
    else:
        table(result)


def check(options: argparse.Namespace) -> int:
    """0 without findings beyond information, in every release compared, else 1."""
    place = workspace(options)
    if options.compare_versions and options.format in {"sarif", "github"}:
        raise InputError(
            f"--format {options.format} states the findings of one release",
            where="--compare-versions",
            remedy="Leave one of the two out.",
        )
    if options.set and options.fix:
        raise InputError(
            "--fix writes into the file, and what --set tells stands on its command line",
            where="--set",
            remedy="Leave one of the two out.",
        )
    result = _checked(place, options)
    if options.fix and result.diff:
        from grpo_rlvr.config import apply_diff

        apply_diff(place.file(options.config, "FILE"), result)
        fixed = [finding.rule for finding in result.findings if finding.fix and finding.fix.safe]
        print(f"fixed in {options.config}: {', '.join(fixed)}. What is left:", file=sys.stderr)
        result = _checked(place, options)
    if options.format in {"sarif", "github"}:
        from grpo_rlvr.config import to_github, to_sarif

        print(to_sarif(result) if options.format == "sarif" else to_github(result))
    else:
        options.json = options.json or options.format == "json"
        show(options, result, render.check)
    return 0 if {result.verdict, *(release.verdict for release in result.releases)} == {"ok"} else 1


def _checked(place: Workspace, options: argparse.Namespace) -> CheckResult:
    told = {name: _value(text) for name, text in map(_pair, options.set)}
    return check_tools.check_config(
        place, told or None, path=options.config, setup=_stated_setup(place, options),
        trl_version=options.trl_version, from_version=options.from_version,
        compare_versions=options.compare_versions, deep=options.deep,
    )  # fmt: skip


def memory(options: argparse.Namespace) -> int:
    """0 when it fits, tightly or with no card known, else 1."""
    from grpo_rlvr import memory as engine

    place = workspace(options)
    config, setup = _config_and_setup(place, options)
    if options.measure:
        measured = engine.measure(config, setup, place, trl_version=options.trl_version)
        show(options, measured, render.measurement)
        return 0
    work = engine.solve if options.solve else engine.estimate
    result = work(config, setup, trl_version=options.trl_version, workspace=place)
    if options.picture:
        Path(options.picture).write_bytes(engine.picture_png(result))
    show(options, result, render.memory)
    return 1 if result.verdict == "does_not_fit" else 0


def explain(options: argparse.Namespace) -> int:
    """Print a rule's page."""
    from grpo_rlvr.config import explain as page

    print(page(options.rule))
    return 0


def sample(options: argparse.Namespace) -> int:
    """0 when started (or, with --wait, finished), else 1."""
    from grpo_rlvr.models.run import Endpoint

    place = workspace(options)
    endpoint = None
    if options.base_url:
        endpoint = Endpoint(base_url=options.base_url, model=options.model or "", api_key_env=options.api_key_env)
    config, _ = load_config_argument(place, None, options.config, required=False)
    started = sample_tools.sample_outputs(
        place, options.prompts or [], model=None if endpoint else options.model, endpoint=endpoint, config=config,
        num_per_prompt=options.num_per_prompt, limit=options.limit, seed=options.seed, resume=options.resume,
    )  # fmt: skip
    if not options.wait:
        show(options, started, render.started)
        return 0
    status = _wait(place, started.run_id, quiet=options.json)
    show(options, status, render.status)
    return 0 if status.state == "finished" else 1


def score(options: argparse.Namespace) -> int:
    """0 when no reward broke and the route is GRPO, else 1."""
    place = workspace(options)
    config, _ = load_config_argument(place, None, options.config, required=False)
    result = sample_tools.score_samples(
        place, sample_tools.parse_reward_specs(place, options.reward), path=options.samples, columns=_columns(options),
        config=config,
    )  # fmt: skip
    show(options, result, render_reading.score)
    return 0 if not result.errors and result.route.route == "grpo" else 1


def audit(options: argparse.Namespace) -> int:
    """0 when every attack held, else 1."""
    place = workspace(options)
    result = sample_tools.audit_rewards(
        place, sample_tools.parse_reward_specs(place, options.reward), path=options.samples, columns=_columns(options),
    )  # fmt: skip
    show(options, result, render_reading.audit)
    return 0 if result.verdict == "held" else 1


def _columns(options: argparse.Namespace) -> dict[str, str] | None:
    return dict(_pair(text) for text in options.column) or None


def read(options: argparse.Namespace) -> int:
    """0 when the gate is open afterwards (for the list of readings: always), else 1."""
    from grpo_rlvr import inspection

    place = workspace(options)
    if options.reading is None:
        if options.terminal or options.status or options.name:
            raise InputError("no reading is named", where="read", remedy="Give its id, or latest for the newest.")
        show(options, inspection.list_readings(place), render_reading.readings)
        return 0
    reading = inspection.newest_reading(place) if options.reading == "latest" else options.reading
    if options.terminal:
        inspection.read_in_terminal(reading, place, name=options.name)
    elif not options.status:
        inspection.read_on_page(reading, place, name=options.name, open_browser=not options.no_browser)
    result = read_tools.reading_status(place, reading)
    show(options, result, render_reading.reading)
    return 0 if result.gate.open else 1


def new_reward(options: argparse.Namespace) -> int:
    """Write the scaffold, name its files, and say what comes next."""
    import rlvr_rewards

    try:
        written = rlvr_rewards.new_reward(options.reward_name, Path(options.root))
    except (ValueError, FileExistsError) as error:
        raise InputError(str(error), where="new-reward") from None
    reward, test = written
    kind = "".join(part.capitalize() for part in reward.stem.split("_"))  # the class in the file
    there = "" if options.root == "." else f" --root {options.root}"
    print(f"{reward}\n{test}\n")
    print(f"Next: write what it judges, add cases to CASES, and run\n  python -m pytest {test}")
    print(
        f"Then score samples with it:\n  grpo-rlvr score{there} --samples samples.jsonl --reward {reward.name}:{kind}"
    )
    return 0


def launch(options: argparse.Namespace) -> int:
    """0 when started or startable; a refusal exits with 1."""
    from grpo_rlvr.runs import launch as start

    place = workspace(options)
    if options.resume:
        if options.spec or options.waive:
            raise InputError(
                "a resumed run keeps its own spec", where="--resume", remedy="Give nothing but the run's id."
            )
        result = run.launch_training(place, resume=options.resume, dry_run=options.dry_run)
    else:
        spec = run.load_run_spec(place, None, options.spec)
        result = start(spec, place, stage=options.stage, dry_run=options.dry_run, waive=options.waive or "")
    show(options, result, render.launch)
    return 1 if result.refusals else 0


def status(options: argparse.Namespace) -> int:
    """1 when the run failed or is lost, else 0."""
    place = workspace(options)
    result = (
        _wait(place, options.run_id, quiet=options.json) if options.watch else run.run_status(place, options.run_id)
    )
    show(options, result, render.status)
    return 1 if result.state in {"failed", "lost"} else 0


def logs(options: argparse.Namespace) -> int:
    """Print log lines."""
    result = run.run_logs(
        workspace(options), options.run_id, tail=options.tail, since=options.since, grep=options.grep,
        max_characters=1_000_000,
    )  # fmt: skip
    show(options, result, render.logs)
    return 0


def stop(options: argparse.Namespace) -> int:
    """Stop a run."""
    show(options, run.stop_run(workspace(options), options.run_id), render.status)
    return 0


def runs(options: argparse.Namespace) -> int:
    """List runs."""
    show(options, run.list_runs(workspace(options), options.limit, options.offset), render.runs)
    return 0


def report(options: argparse.Namespace) -> int:
    """Write a report and name its file."""
    show(options, report_tools.write_report(workspace(options), options.run_id, options.out), render.report)
    return 0


def recommend(options: argparse.Namespace) -> int:
    """Diagnose; a diagnosis is an answer, not a failure, so this exits with 0."""
    place = workspace(options)
    config, loaded = load_config_argument(place, None, options.config, required=False)
    setup = load_setup(_setup_file(place, options.setup), loaded.setup if loaded else None)
    given: dict[str, Any] = {"log": sys.stdin.read()} if options.log == "-" else {"path": options.log}
    result = diagnose.recommend_variant(
        place,
        **given,
        config=config or None,
        setup=dict(setup.sections),
        trl_version=options.trl_version,
        compare_with=options.compare_with,
    )
    if options.picture:
        Path(options.picture).write_bytes(diagnose.picture_of_log(place, result, given))
    show(options, result, render.recommendation)
    return 0


def doctor(options: argparse.Namespace) -> int:
    """0 when nothing is missing, else 1."""
    result = environment.check_environment(workspace(options), options.python)
    show(options, result, render.doctor)
    return 1 if any(check.state == "missing" for check in result.checks) else 0


def _setup_file(place: Workspace, path: str | None) -> Any:
    return load_json_file(place, path, "--setup") if path else None


def _config_and_setup(place: Workspace, options: argparse.Namespace) -> tuple[dict[str, Any], Setup]:
    config, loaded = load_config_argument(place, None, options.config, required=False)
    return config, load_setup(_stated_setup(place, options), loaded.setup if loaded else None)


def _stated_setup(place: Workspace, options: argparse.Namespace) -> Any:
    """The setup file, with what the command line says on top; None without either."""
    written = _setup_file(place, options.setup)
    said = {"model": {"name": options.model}, "hardware": {"gpu": options.gpu, "gpus": options.gpus}}
    said = {section: {k: v for k, v in facts.items() if v is not None} for section, facts in said.items()}
    said = {section: facts for section, facts in said.items() if facts}
    if not said:
        return written
    sections = dict(load_setup(written).sections)
    if options.model is not None:
        sections["model"] = {key: value for key, value in (sections.get("model") or {}).items() if key in HOW_TRAINED}
    if options.gpu is not None:
        hardware = sections.get("hardware") or {}
        sections["hardware"] = {key: value for key, value in hardware.items() if key not in OF_A_CARD}
    return dict(load_setup(said, sections).sections)


def _pair(text: str) -> tuple[str, str]:
    name, separator, target = text.partition("=")
    if not separator or not name or not target:
        raise InputError(f"'{text}' is not NAME=VALUE", where="command line")
    return name, target


def _value(text: str) -> Any:
    """The JSON value of a text such as 8, true or [1.0, 0.5]; the text itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _wait(place: Workspace, run_id: str, *, quiet: bool) -> Any:
    shown = ""
    while True:
        current = run.run_status(place, run_id)
        line = render.status_line(current)
        if line != shown and not quiet:
            print(line, file=sys.stderr)
            shown = line
        if current.state in run.ENDED:
            return current
        time.sleep(POLL_S)
