"""Answers as tables for people. Every number here stands in the JSON too."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table
from rich.text import Text

from grpo_rlvr.models.check import ChangedDefault, CheckResult
from grpo_rlvr.models.common import Interval
from grpo_rlvr.models.environment import Environment
from grpo_rlvr.models.memory import Alternative, Lever, MemoryEstimate, MemoryMeasurement
from grpo_rlvr.models.recommend import Comparison, Recommendation
from grpo_rlvr.models.report import ReportWritten
from grpo_rlvr.models.run import LaunchResult, RunList, RunLogs, RunStarted, RunStatus
from grpo_rlvr.plain import visible

COLOURS = {
    "error": "red", "warning": "yellow", "info": "blue", "missing": "red", "ok": "green", "fits": "green",
    "tight": "yellow", "does_not_fit": "red", "unknown": "yellow", "finished": "green", "failed": "red", "lost": "red",
}  # fmt: skip
# Facts named in the line on rules that wait; the whole list is `missing_facts` of the JSON.
MOST_MISSED = 5
# Names of up to so many cells do not fold.
NAME_WIDTH = 20
VERDICTS = ("fits", "tight", "does_not_fit", "unknown")
console = Console(highlight=False, soft_wrap=False)


def escape(text: str) -> str:
    """Text of others, which is neither markup nor a command to the terminal."""
    return escape_markup(visible(text))


def coloured(word: str) -> str:
    """A word in its colour, as rich markup."""
    return f"[{COLOURS[word]}]{word}[/]" if word in COLOURS else word


def share(interval: Interval | None) -> str:
    """A proportion as `0.20 (0.13 to 0.29, n 128)`."""
    if interval is None:
        return "unknown"
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f}, n {interval.n})"


def number(value: float | None) -> str:
    """A number with four digits, or a dash."""
    return "-" if value is None else f"{value:.4g}"


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]], title: str = "") -> None:
    """Print a table whose cells are plain text, or Text with its own colours; columns fold rather than cut."""
    made = Table(*columns, title=title or None, title_justify="left", title_style="bold", header_style="bold")
    cells = [[cell if isinstance(cell, Text) else Text(visible(str(cell))) for cell in row] for row in rows]
    for column in made.columns:
        column.overflow = "fold"
    # The names stay whole where they can, whatever stands beside them.
    made.columns[0].no_wrap = max((row[0].cell_len for row in cells), default=0) <= NAME_WIDTH
    for row in cells:
        made.add_row(*row)
    if made.row_count:
        console.print(made)


def paragraphs(title: str, lines: Iterable[str]) -> None:
    """Print a list under a title; nothing where it is empty."""
    found = list(lines)
    if found:
        console.print(f"[bold]{title}[/]")
        for line in found:
            indented(escape(line), mark="  - ")


def indented(markup: str, mark: str = "  ") -> None:
    """Print a paragraph whose further lines stand under its first word."""
    lines = Text.from_markup(markup).wrap(console, max(20, console.width - len(mark)))
    for number, line in enumerate(lines):
        console.print(Text.assemble(" " * len(mark) if number else mark, line))


def check(result: CheckResult) -> None:
    """Findings, then what the config does, what it left to defaults, and what could not be judged."""
    console.print(
        f"{coloured(result.verdict)} for TRL {result.trl_version} ({escape(result.trl_version_source)}), transformers "
        f"{result.transformers_version} ({escape(result.transformers_version_source)})"
    )
    for finding in result.findings:
        place = f" {finding.file or ''}:{finding.line}" if finding.line else ""
        console.print(
            f"\n{coloured(finding.severity)} [bold]{finding.rule}[/]{escape(place)}  {', '.join(finding.fields)}"
        )
        indented(f"{escape(finding.message)}\n[dim]{escape(finding.why)}[/]")
        if finding.fix:
            changes = [f"{key} = {value!r}" for key, value in finding.fix.set.items()]
            changes += [f"remove {key}" for key in finding.fix.unset]
            kind = "safe fix" if finding.fix.safe else "possible fix (may change the run)"
            indented(f"[green]{kind}:[/] {escape('; '.join(changes))}")
    if result.effective:
        paragraphs("\nWhat this config does", result.effective.summary)
    _releases(result)
    paragraphs("Defaults that changed", (_changed_default(change) for change in result.defaults_changed))
    paragraphs("Could not be read statically (tell them with --set NAME=VALUE)", result.unread)
    paragraphs("Setup keys that nothing reads", result.unused_setup)
    paragraphs("Notes", result.notes)
    _waiting(result)
    if result.deep:
        state = f"ran through {', '.join(result.deep.stages) or 'nothing'}" if result.deep.ran else result.deep.reason
        paragraphs("Deep check", [str(state), *(f"{f.stage} {f.kind}: {f.text}" for f in result.deep.findings)])


def _releases(result: CheckResult) -> None:
    """One row for releases of which the same is said; what is said of all of them stands once, below."""
    said = [[*outcome.errors, *outcome.warnings] for outcome in result.releases]
    common = [line for line in said[0] if all(line in lines for lines in said)] if len(said) > 1 else []
    table(("TRL", "verdict", "with safe fixes", "errors and warnings"), (
        (
            _span(outcome.trl_versions), Text.from_markup(coloured(outcome.verdict)),
            Text.from_markup(coloured(outcome.verdict_after_safe_fixes)),
            "\n".join(line for line in lines if line not in common) or ("nothing else" if common else "-"),
        )
        for outcome, lines in zip(result.releases, said, strict=True)
    ), title="In each release")  # fmt: skip
    paragraphs("In every one of them", common)


def _span(versions: list[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]} ({len(versions)})"


def _changed_default(change: ChangedDefault) -> str:
    before, after = repr(change.before), repr(change.after) if change.exists_after else "gone"
    if not change.existed_before:
        before = "absent" if change.before is None else f"absent, behaved as {before}"
    return f"{change.field}: {before} -> {after}. {change.note}"


def _waiting(result: CheckResult) -> None:
    """One line on the rules that wait for facts of the setup, with the facts most of them wait for."""
    waiting = sum(any(fact in reason for fact in result.missing_facts) for reason in result.not_applicable.values())
    if not waiting:
        return
    most = ", ".join(f"{fact} ({count})" for fact, count in list(result.missing_facts.items())[:MOST_MISSED])
    rules = "1 rule waits" if waiting == 1 else f"{waiting} rules wait"
    console.print(f"{rules} for facts that the setup does not state, most often: {escape(most)}")


def memory(result: MemoryEstimate) -> None:
    """Verdict, phases, levers, assumptions."""
    card = f" of {result.card_gb:.1f} GB" if result.card_gb else ""
    console.print(
        f"{coloured(result.verdict)}: peak {result.peak_gb:.1f} GB{card} on each GPU, TRL {result.trl_version}"
    )
    console.print(f"Most of it: {escape(result.dominating)}")
    table(("phase", "peak GB", "largest terms"), (
        (phase.name, f"{phase.peak_gb:.1f}", ", ".join(f"{t.name} {t.gb:.1f}" for t in _largest(phase.terms)))
        for phase in result.phases
    ))  # fmt: skip
    _pool(result)
    paragraphs("Notes", result.notes)
    _levers(result)
    if result.solved:
        table(("solved", "value"), result.solved.model_dump(exclude={"notes"}).items())
        paragraphs("Solved with", result.solved.notes)
    paragraphs("Assumed", (f"{a.input} = {a.value!r}: {a.to_know}" for a in result.assumed))


def _pool(result: MemoryEstimate) -> None:
    pool = result.vllm
    if pool is not None and pool.pool_gb:
        console.print(
            f"vLLM's share is {pool.pool_gb:.1f} GB: it needs {pool.needs_gb:.1f} to start, and holds {pool.sequences} "
            f"of {pool.wanted_sequences} sequences at full length"
        )


def _levers(result: MemoryEstimate) -> None:
    """The changes that help, as lines: names of options stay whole. Few where nothing has to change."""
    fits = result.verdict == "fits"
    # What lets it fit comes first.
    ranked = sorted(result.levers, key=lambda lever: (not lever.safe, VERDICTS.index(lever.verdict)))
    inside, outside = ranked[: 3 if fits else 8], result.alternatives[: 0 if fits else 6]
    if inside:
        console.print(f"[bold]Levers in the config{', should you need room' if fits else ''}[/]")
    for lever in inside:
        indented(escape(_saved(lever)), mark="  - ")
        indented(f"[green]{escape(_change(lever.set, lever.unset))}[/]\n[dim]{escape(lever.cost)}[/]", mark="    ")
    if outside:
        console.print("[bold]Outside the config[/]")
    for other in outside:
        indented(escape(_saved(other)), mark="  - ")
        fields = f"[green]{escape(_change(other.set, other.unset))}[/]\n" if other.set else ""
        indented(f"{fields}[dim]{escape(other.cost)}[/]", mark="    ")
    more = len(result.levers) + len(result.alternatives) - len(inside) - len(outside)
    if more:
        console.print(f"  {more} more with --json")


def _saved(change: Lever | Alternative) -> str:
    saves = f"saves {change.saves_gb:.1f} GB, then" if change.saves_gb >= 0.05 else "then"
    return f"{change.change}: {saves} {change.verdict}"


def measurement(result: MemoryMeasurement) -> None:
    """Measured beside estimated."""
    console.print(f"{result.steps} steps on {escape(result.device)}")
    table(("quantity", "estimated GB", "measured GB", "error"), (
        (c.name, f"{c.estimated_gb:.2f}", f"{c.measured_gb:.2f}", f"{c.error:+.0%}") for c in result.comparison
    ))  # fmt: skip


def started(result: RunStarted) -> None:
    """A run that was just started."""
    console.print(f"run [bold]{result.run_id}[/] ({result.kind}) {result.state}: {escape(result.message)}")
    console.print(f"  grpo-rlvr status {result.run_id} --watch")


def launch(result: LaunchResult) -> None:
    """What was or would be launched."""
    console.print(f"{escape(result.message)}")
    if result.run_id:
        console.print(
            f"run [bold]{result.run_id}[/] {result.stage} {result.state}; grpo-rlvr status {result.run_id} --watch"
        )
    paragraphs("Refused", (f"{r.rule}: {sentences(r.message, r.remedy)}" for r in result.refusals))
    paragraphs("Warnings", result.warnings)
    if not result.run_id:
        paragraphs("Commands", (" ".join(command.argv) for command in result.commands))


def status_line(result: RunStatus) -> str:
    """One line on a run."""
    parts = [f"{result.run_id} {result.state}"]
    if result.progress:
        total = f"/{result.progress.total}" if result.progress.total else ""
        parts.append(f"{result.progress.phase} {result.progress.done}{total} {result.progress.unit}")
    parts += [f"{key} {number(value)}" for key, value in _main_metrics(result.metrics)]
    return ", ".join(parts)


def status(result: RunStatus) -> None:
    """A run, now."""
    console.print(
        f"[bold]{result.run_id}[/] {result.kind} {result.stage or ''} {coloured(result.state)}: "
        f"{escape(result.message)}"
    )
    console.print(escape(status_line(result)))
    if result.evaluation:
        table(("held-out reward", "before", "after", "difference"), (
            (r.reward, share(r.before), share(r.after), share(r.difference)) for r in result.evaluation.rewards
        ))  # fmt: skip
    paragraphs("Diagnosis so far", result.diagnosis or [])
    paragraphs("End of the log", result.log_tail)
    console.print(f"folder {escape(result.folder)}")


def logs(result: RunLogs) -> None:
    """Log lines as they are."""
    for line in result.lines:
        console.print(visible(line), markup=False)


def runs(result: RunList) -> None:
    """One line a run."""
    table(("run", "kind", "stage", "state", "created", "message"), (
        (r.run_id, r.kind, r.stage or "", r.state, r.created, r.message[:80]) for r in result.runs
    ))  # fmt: skip
    console.print(f"{len(result.runs)} of {result.total} runs")


def report(result: ReportWritten) -> None:
    """Where the report lies."""
    console.print(f"report: {result.path} ({result.bytes:,} bytes)", markup=False)
    paragraphs("Not shown", result.missing)


def recommendation(result: Recommendation) -> None:
    """Labels with evidence, then the decision."""
    parsed, advice = result.parsed, result.recommendation
    rows = "1 row" if parsed.rows == 1 else f"{parsed.rows} rows"
    trainers = ", ".join(parsed.frameworks) or "an unknown framework"
    console.print(f"{rows} from {escape(trainers)} ({escape(parsed.source)})")
    for label in result.labels:
        console.print(f"\n[bold]{label.label}[/] ({label.confidence}) {escape(label.summary)}")
        for fact in label.evidence:
            indented(escape(fact.text), mark="  - ")
        for remedy in label.remedies:
            indented(f"[green]do:[/] {escape(remedy.action)}")
    console.print(f"\nvariant [bold]{advice.variant}[/]: {escape(advice.why)}")
    change = "Change" if advice.arguments_of == "trl" else f"Change in {advice.arguments_of}"
    paragraphs(change, (f"{key} = {value!r}" for key, value in advice.kwargs.items()))
    paragraphs("Only if", advice.preconditions)
    paragraphs("Also possible", advice.alternatives)
    paragraphs("Missing", result.missing)
    paragraphs("Not understood", (f"line {line.line}: {line.text}" for line in parsed.unread[:5]))
    if result.comparison:
        _comparison(result.comparison)
    console.print(f"[dim]{escape(result.caveat)}[/]")


def doctor(result: Environment) -> None:
    """What was looked at."""
    console.print(f"grpo-rlvr {result.server_version} on {escape(result.server_python)}")
    console.print(f"trains with {escape(result.training_python)} ({escape(result.training_source)})")
    table(("what", "state", "found", "what to do"), (
        (c.name, Text.from_markup(coloured(c.state)), c.detail, c.remedy) for c in result.checks
    ))  # fmt: skip


def _comparison(result: Comparison) -> None:
    """Two runs side by side."""
    console.print(f"[bold]{result.verdict}[/]: {escape(result.why)}")
    rows = ((d.metric, number(d.first), number(d.second), number(d.noise), d.verdict) for d in result.differences)
    table(("metric", "first", "second", "noise", "second is"), rows)
    paragraphs("Notes", result.notes)


def sentences(message: str, remedy: str) -> str:
    """What is so, then what to do."""
    return f"{message}{'' if message.endswith(('.', '!', '?')) else '.'} {remedy}"


def _largest(terms: Any) -> Any:
    return sorted(terms, key=lambda term: -term.gb)[:3]


def _change(changes: dict[str, Any], removed: list[str]) -> str:
    return "; ".join([*(f"{key}={value!r}" for key, value in changes.items()), *(f"drop {key}" for key in removed)])


def _main_metrics(metrics: dict[str, Any]) -> list[tuple[str, float]]:
    wanted = ("reward", "entropy", "completions/mean_length", "kl")
    return [(key, metrics[key]) for key in wanted if isinstance(metrics.get(key), int | float)]
