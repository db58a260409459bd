"""Gather what the store knows about a run, and write it as one HTML file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError, UserError
from grpo_rlvr.files import write_atomic
from grpo_rlvr.models.report import ReportWritten
from grpo_rlvr.models.run import RunSpec
from grpo_rlvr.models.setup import Setup, parse_setup
from grpo_rlvr.report import sections
from grpo_rlvr.report.page import page
from grpo_rlvr.report.sections import Facts, Section
from grpo_rlvr.workspace import Workspace

COMPLETIONS_SHOWN = 6


def write(run_id: str, workspace: Workspace, path: str | None = None, notes: Sequence[str] = ()) -> ReportWritten:
    """Write the report of a training run.

    Args:
        run_id: The run.
        workspace: Where it lies.
        path: HTML file to write; `.grpo-rlvr/reports/<run>.html` when not given.
        notes: Sentences to show on top.

    Raises:
        InputError: a sampling run, or a path that is no HTML file. NotFoundError: no such run.
    """
    target = _target(run_id, workspace, path)
    facts, missing = gather(run_id, workspace, notes)
    made: list[Section] = []
    for build in sections.ALL:
        section = build(facts)
        if section is not None:
            made.append(section)
    text = page(facts, made)
    write_atomic(target, text)
    inside = target.is_relative_to(workspace.root)
    return ReportWritten(
        path=str(target.relative_to(workspace.root)) if inside else str(target),
        bytes=len(text.encode()),
        sections=[section.title for section in made],
        missing=missing,
    )


def gather(run_id: str, workspace: Workspace, notes: Sequence[str]) -> tuple[Facts, list[str]]:
    """Collect the facts of a report. What is not there is named in the second value, never made up."""
    from grpo_rlvr import config as config_engine
    from grpo_rlvr import inspection, memory, metrics, runs

    status = runs.run_status(run_id, workspace)
    if status.kind != "train":
        raise InputError(f"run '{run_id}' is a sampling run", where="argument 'run_id'", remedy="Name a training run.")
    spec = runs.run_spec(run_id, workspace)
    setup = parse_setup(spec.setup)
    missing: list[str] = []

    def attempt(what: str, fn: Callable[[], Any]) -> Any:
        try:
            return fn()
        except UserError as error:
            missing.append(f"{what}: {error}")
            return None

    reading = status.reading_id
    folder = workspace.root / status.folder
    diagnosis = attempt("diagnosis", lambda: metrics.recommend(folder, config=spec.config, setup=setup))
    estimate = attempt("memory", lambda: memory.estimate(spec.config, with_model(setup, spec), workspace=workspace))
    facts = Facts(
        status=status,
        spec=spec,
        notes=list(notes),
        check=attempt("config", lambda: config_engine.check(spec.config, setup)),
        score=attempt("base rate", lambda: inspection.score_result(reading, workspace)) if reading else None,
        reading=attempt("reading", lambda: inspection.reading_status(reading, workspace)) if reading else None,
        gate=runs.run_gate(run_id, workspace),
        read_rows=attempt("rows read", lambda: inspection.read_rows(reading, workspace)) or [] if reading else [],
        rows=attempt("metrics", lambda: runs.metric_rows(run_id, workspace)) or [],
        early=runs.sampled_completions(run_id, workspace, "early", COMPLETIONS_SHOWN),
        late=runs.sampled_completions(run_id, workspace, "late", COMPLETIONS_SHOWN),
        diagnosis=diagnosis,
        diagnosis_picture=attempt("curves", lambda: metrics.picture_svg(metrics.parse(folder), diagnosis)) or "",
        memory=estimate,
        memory_picture=memory.picture_svg(estimate) if estimate else "",
    )
    missing += [
        f"{name}: none recorded" for name, value in (("reading", reading), ("metrics", facts.rows)) if not value
    ]
    if status.evaluation is None:
        missing.append("held-out accuracy: not measured, or not finished")
    return facts, missing


def with_model(setup: Setup, spec: RunSpec) -> Setup:
    """Return the setup with the run's own model folder, where the setup does not say which model it is."""
    stated = setup.section("model")
    if "path" in stated or "name" in stated:
        return setup
    return parse_setup({**setup.sections, "model": {**stated, "path": spec.model.path}})


def _target(run_id: str, workspace: Workspace, path: str | None) -> Path:
    if path is None:
        return workspace.reports / f"{run_id}.html"
    target = workspace.resolve(path, "path")
    if target.suffix.lower() not in {".html", ".htm"} or target.is_dir():
        raise InputError(
            f"'{path}' is not the name of an HTML file", where="argument 'path'", remedy="End it in .html."
        )
    return target
