"""The sections of a report. Each takes the facts and returns HTML, or nothing when its facts are not there."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from grpo_rlvr.models.check import CheckResult
from grpo_rlvr.models.common import Interval
from grpo_rlvr.models.memory import MemoryEstimate
from grpo_rlvr.models.reading import ReadingStatus
from grpo_rlvr.models.recommend import Recommendation
from grpo_rlvr.models.run import RunGate, RunSpec, RunStatus
from grpo_rlvr.models.score import ScoreResult
from grpo_rlvr.report.chart import Series, bar_chart, finite, interval_chart, line_chart, number
from grpo_rlvr.report.parts import pill, prose, share, table, text

READ_ROWS_SHOWN = 12
QUIET_LABELS = {"healthy", "plateau", "too_short_to_tell"}
TONE = {"error": "bad", "warning": "warn", "info": "soft"}
MEMORY_TONE = {"fits": "good", "tight": "warn", "does_not_fit": "bad", "unknown": "soft"}


@dataclass(frozen=True)
class Facts:
    """Everything a report is made of; None or empty where it is not known."""

    status: RunStatus
    spec: RunSpec
    notes: list[str]
    check: CheckResult | None
    score: ScoreResult | None
    reading: ReadingStatus | None
    gate: RunGate | None
    read_rows: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    early: list[dict[str, Any]]
    late: list[dict[str, Any]]
    diagnosis: Recommendation | None
    # SVG elements that the engines drew, empty where there is nothing to draw.
    diagnosis_picture: str
    memory: MemoryEstimate | None
    memory_picture: str


@dataclass(frozen=True)
class Section:
    """One titled part of the page."""

    title: str
    anchor: str
    html: str


def tiles(facts: Facts) -> str:
    """The four numbers that people look for first."""
    made: list[tuple[str, str, str]] = [("run", facts.status.state, facts.status.message)]
    if facts.status.evaluation:
        change = headline(facts)
        made.append(
            (
                f"held-out {change.reward}",
                f"{change.before.value:.0%} → {change.after.value:.0%}",
                f"{change.before.n} prompts, {facts.status.evaluation.samples_per_prompt} samples each",
            )
        )
    if facts.score and facts.score.route.success_rate:
        rate = facts.score.route.success_rate
        made.append(("base success rate", f"{rate.value:.0%}", f"{share(rate)}; route {facts.score.route.route}"))
    if facts.gate:
        made.append(("gate at launch", "open" if facts.gate.open else "closed", _who_read(facts)))
    if facts.diagnosis and facts.diagnosis.labels:
        label = facts.diagnosis.labels[0]
        made.append(("diagnosis", label.label.replace("_", " "), f"variant: {facts.diagnosis.recommendation.variant}"))
    cells = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(more)}</span></div>'
        for name, value, more in made
    )
    return f'<div class="tiles">{cells}</div>'


def headline(facts: Facts) -> Any:
    """The reward change to show first: the one that is a share of right answers, else the first."""
    rows = facts.status.evaluation.rewards if facts.status.evaluation else []
    return next(
        (row for row in rows if _is_share(row.before) and _is_share(row.after) and row.reward == "correct"), rows[0]
    )


def config_section(facts: Facts) -> Section | None:
    """What the config does, and what the rules say."""
    if facts.check is None:
        return None
    lines = (
        "".join(f"<li>{prose(line)}</li>" for line in facts.check.effective.summary) if facts.check.effective else ""
    )
    findings = table(
        ("severity", "rule", "what"),
        (
            (
                pill(finding.severity, TONE[finding.severity]),
                f"<code>{escape(finding.rule)}</code>",
                prose(finding.message),
            )
            for finding in facts.check.findings
        ),
    )
    values = table(
        ("option", "value"),
        (
            (f"<code>{escape(key)}</code>", f"<code>{escape(repr(value))}</code>")
            for key, value in facts.spec.config.items()
        ),
    )
    html = (
        f"<p>TRL {escape(facts.check.trl_version)}: verdict "
        f"{pill(facts.check.verdict, TONE.get(facts.check.verdict, 'good'))}</p>"
        f"<ul>{lines}</ul>{findings or '<p>No rule found anything.</p>'}"
        f"<details><summary>The whole config</summary>{values}</details>"
    )
    return Section("Config: what this run really does", "config", html)


def route_section(facts: Facts) -> Section | None:
    """Base rate, groups, rewards, audit."""
    if facts.score is None:
        return None
    score = facts.score
    rewards = table(
        ("reward", "weight", "mean", "at floor", "at ceiling", "distinct", "errors"),
        (
            (f"<code>{escape(r.name)}</code>", number(r.weight), _number(r.mean), _percent(r.floor_share),
             _percent(r.ceiling_share), str(r.distinct), str(r.errors))
            for r in score.rewards
        ),
    )  # fmt: skip
    broken = [attack for attack in score.audit.attacks if attack.outcome not in {"held", "not_applicable"}]
    attacks = table(
        ("attack", "outcome", "rows", "text", "what it means"),
        (
            (escape(a.attack), pill(a.outcome, TONE[a.severity]), f"{a.bad}/{a.tried}", text(a.text), prose(a.why))
            for a in broken
        ),
    )
    held = sum(attack.outcome == "held" for attack in score.audit.attacks)
    notes = "".join(f"<li>{prose(note)}</li>" for note in score.notes)
    notes = f"<ul>{notes}</ul>" if notes else ""
    html = (
        f"<p>{prose(score.route.why)} {prose(score.route.next)}</p>{rewards}{notes}"
        f"<p>{score.groups.count} prompts; groups that would give no gradient: "
        f"{share(score.groups.no_gradient_share)}.</p>"
        f"<p>Audit: {held} attacks held, {len(broken)} did not. "
        f'<span class="soft">{prose(score.audit.note)}</span></p>{attacks}'
    )
    return Section("Route: does reinforcement learning apply?", "route", html)


def reading_section(facts: Facts) -> Section | None:
    """Confusion matrix, histogram, the rows that were read."""
    if facts.reading is None:
        return None
    agreed = facts.reading.agreement
    matrix = table(
        ("", "read as correct", "read as wrong"),
        (
            ("rewarded", str(agreed.both_correct), _alarm(agreed.false_positives)),
            ("not rewarded", _alarm(agreed.false_negatives), str(agreed.both_wrong)),
        ),
    )
    histogram = ""
    if facts.score and facts.score.composite.low is not None and facts.score.composite.high is not None:
        drawn = bar_chart(
            "Samples by score", facts.score.composite.histogram, facts.score.composite.low, facts.score.composite.high
        )
        histogram = f"<figure><figcaption>Samples by score</figcaption>{drawn}</figure>"
    who = table(
        ("reader", "kind", "channel", "client", "rows", "median s a row"),
        (
            (escape(r.name), r.kind, r.channel, escape(r.client), str(r.rows), _number(r.median_seconds))
            for r in facts.reading.readers
        ),
    )
    reasons = "".join(f"<li>{prose(r.message)}. {prose(r.remedy)}</li>" for r in facts.reading.gate.reasons)
    since = f"<p>Since then it has closed:</p><ul>{reasons}</ul>" if reasons else ""
    state = _gate_pill(facts.gate.open) if facts.gate else pill("not recorded", "warn")
    policy = facts.reading.gate.policy
    html = (
        f"<p>Gate at launch {state}. {facts.reading.decided} rows decided; policy: {policy.rows} rows, readers "
        f"{', '.join(policy.readers)}, pace {policy.min_median_seconds:g} s, agreement {policy.agreement:.0%}.</p>"
        f'{since}{who}<div class="charts"><figure><figcaption>Reward against reader, agreement '
        f"{share(agreed.agreement)}</figcaption>{matrix}</figure>{histogram}</div>{_read_rows(facts.read_rows)}"
    )
    return Section("Reading: is the reward right?", "reading", html)


def training_section(facts: Facts) -> Section | None:
    """The curves."""
    if len(facts.rows) < 2:
        return None
    keys = sorted({key for row in facts.rows for key in row})
    rewards = [key for key in keys if key.startswith("rewards/") and key.endswith("/mean")]
    charts = [
        ("Reward", "weighted sum", [_series(facts.rows, "reward", "reward")], 0.0),
        ("Each reward", "mean", [_series(facts.rows, key, key.split("/")[1]) for key in rewards], 0.0),
        ("Entropy", "nats a token", [_series(facts.rows, "entropy", "entropy")], 0.0),
        ("Completion length", "tokens", [
            _series(facts.rows, "completions/mean_length", "mean"),
            _series(facts.rows, "completions/max_length", "max"),
        ], 0.0),
        ("Groups without gradient", "share", [_series(facts.rows, "frac_reward_zero_std", "share")], 0.0),
        ("KL to the reference", "nats", [_series(facts.rows, "kl", "kl")], 0.0),
    ]  # fmt: skip
    figures = ""
    for title, unit, series, floor in charts:
        drawn = line_chart(f"{title} by step", unit, series, floor=floor)
        if drawn:
            figures += f"<figure><figcaption>{escape(title)}</figcaption>{drawn}</figure>"
    note = "Faint: every logged step. Strong: running median of nine. The last value stands at the line."
    return Section("Training", "training", f'<p class="soft">{note}</p><div class="charts">{figures}</div>')


def evaluation_section(facts: Facts) -> Section | None:
    """Before and after on held-out prompts."""
    evaluation = facts.status.evaluation
    if evaluation is None:
        return None
    figures = ""
    for row in evaluation.rewards:
        if _is_share(row.before) and _is_share(row.after):
            drawn = interval_chart(
                f"{row.reward} before and after",
                [("before training", row.before.value, row.before.low, row.before.high),
                 ("after training", row.after.value, row.after.low, row.after.high)],
            )  # fmt: skip
            figures += (
                f"<figure class=one><figcaption>{escape(row.reward)} on held-out prompts</figcaption>{drawn}</figure>"
            )
    numbers = table(
        ("reward", "before", "after", "difference, paired"),
        (
            (f"<code>{escape(r.reward)}</code>", share(r.before), share(r.after), share(r.difference))
            for r in evaluation.rewards
        ),
    )
    method = f'<p class="soft">{prose(evaluation.method)}</p>'
    return Section(
        "Held-out prompts, before and after", "evaluation", f'<div class="charts">{figures}</div>{numbers}{method}'
    )


def completions_section(facts: Facts) -> Section | None:
    """What the policy wrote early and late."""
    if not facts.early and not facts.late:
        return None
    html = ""
    for title, rows in (("Early", facts.early), ("Late", facts.late)):
        html += f"<h3>{title}</h3>" + table(
            ("step", "prompt", "completion", "rewards"),
            (
                (str(row.get("step", "")), text(_plain(row.get("prompt"))), text(_plain(row.get("completion"))),
                 escape(", ".join(f"{k} {_number(v)}" for k, v in (row.get("rewards") or {}).items())))
                for row in rows
            ),
        )  # fmt: skip
    return Section("Completions", "completions", html)


def diagnosis_section(facts: Facts) -> Section | None:
    """Labels with evidence, and the decision."""
    if facts.diagnosis is None:
        return None
    html = ""
    for label in facts.diagnosis.labels:
        tone = "good" if label.label in QUIET_LABELS else "warn"
        evidence = "".join(f"<li>{prose(fact.text)}</li>" for fact in label.evidence)
        remedies = "".join(f"<li>{prose(remedy.action)}</li>" for remedy in label.remedies)
        html += f"<p>{pill(label.label, tone)} {label.confidence} confidence. {prose(label.summary)}</p>"
        html += f"<ul>{evidence}</ul>"
        html += f"<p>What to do:</p><ol>{remedies}</ol>" if remedies else ""
    html += f'<figure class="drawn">{facts.diagnosis_picture}</figure>' if facts.diagnosis_picture else ""
    advice = facts.diagnosis.recommendation
    changes = ", ".join(f"{key}={value!r}" for key, value in advice.kwargs.items())
    html += f"<p><b>Variant: {escape(advice.variant)}.</b> {prose(advice.why)}</p>"
    html += f"<p><code>{escape(changes)}</code></p>" if changes else ""
    html += f'<p class="soft">{prose(facts.diagnosis.caveat)}</p>'
    return Section("Diagnosis", "diagnosis", html)


def memory_section(facts: Facts) -> Section | None:
    """Estimated memory by phase, and what was assumed."""
    if facts.memory is None:
        return None
    estimate = facts.memory
    card = f" of {estimate.card_gb:.1f} GB" if estimate.card_gb else ""
    assumed = "".join(
        f"<li><code>{escape(item.input)}</code> = {escape(str(item.value))}: {prose(item.to_know)}</li>"
        for item in estimate.assumed
    )
    notes = "".join(f"<li>{prose(note)}</li>" for note in estimate.notes)
    html = (
        f"<p>{pill(estimate.verdict, MEMORY_TONE[estimate.verdict])} Estimated peak {estimate.peak_gb:.2f} GB{card}, "
        f"most of it {escape(estimate.dominating)}.</p>"
        f'<figure class="drawn">{facts.memory_picture}</figure><ul>{notes}</ul>'
    )
    html += f"<details><summary>What the estimate assumed</summary><ul>{assumed}</ul></details>" if assumed else ""
    return Section("Memory, estimated", "memory", html)


ALL: tuple[Callable[[Facts], Section | None], ...] = (
    evaluation_section,
    config_section,
    route_section,
    reading_section,
    memory_section,
    training_section,
    completions_section,
    diagnosis_section,
)


def _read_rows(rows: list[dict[str, Any]]) -> str:
    """The most instructive rows: disagreements first, then rows of every score level."""
    ranked = sorted(rows, key=lambda row: (row["rewarded"] == (row["verdict"] == "correct"), row["source"] == "sample"))
    disagree = [row for row in ranked if row["rewarded"] != (row["verdict"] == "correct")]
    rest: list[dict[str, Any]] = []
    levels: set[Any] = set()
    for row in ranked[len(disagree) :]:
        if row["total"] not in levels:
            levels.add(row["total"])
            rest.insert(0, row)
        else:
            rest.append(row)
    shown = (disagree + rest)[:READ_ROWS_SHOWN]
    made = table(
        ("prompt", "completion", "score", "read as", "note"),
        (
            (text(row["prompt"]), text(row["completion"]), _number(row["total"]),
             pill(row["verdict"], "good" if row["verdict"] == "correct" else "soft"), escape(row["note"]))
            for row in shown
        ),
    )  # fmt: skip
    return f"<details open><summary>{len(shown)} of {len(rows)} rows read</summary>{made}</details>" if made else ""


def _who_read(facts: Facts) -> str:
    if facts.reading is None:
        return "no reading"
    who = ", ".join(sorted({f"{reader.name} ({reader.kind})" for reader in facts.reading.readers}))
    return f"agreement {share(facts.reading.agreement.agreement)}; read by {who or 'nobody'}"


def _gate_pill(is_open: bool) -> str:
    return pill("open", "good") if is_open else pill("closed", "bad")


def _series(rows: list[dict[str, Any]], key: str, name: str) -> Series:
    return Series(name, finite([(row.get("step", index), row.get(key)) for index, row in enumerate(rows)]))


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(f"{message.get('role', '')}: {message.get('content', '')}" for message in value)
    return str(value)


def _is_share(interval: Interval) -> bool:
    return interval.low >= 0 and interval.high <= 1


def _alarm(count: int) -> str:
    return f'<b class="bad">{count}</b>' if count else "0"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else "-"
