"""Why samples earned nothing: the reasons that rewards give, and right answers that stand in them all the same."""

from collections.abc import Sequence
from dataclasses import dataclass

from grpo_rlvr.inspection.judging import Judge
from grpo_rlvr.inspection.references import gold_texts, look, mention, message_text, stands_in
from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.inspection.scoring import Called
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.score import Route
from grpo_rlvr.plain import shortened

# Reasons that tell of a completion's form and leave open whether its answer is right: what they say, and what to do.
FORM = {
    "no_answer": (
        "hold no answer where it looks for one",
        "Ask for that form in the prompt, or tell the reward by its arguments where answers stand.",
    ),
    "bad_format": (
        "do not have the declared structure",
        "Show the structure in the prompt; where the chat template writes the opening tag, set prefilled=true.",
    ),
    "not_json": ("hold no valid JSON", "Ask for one JSON document, and leave it room below the completion cap."),
    "hedge": ("give several answers where one is asked for", "Ask for one final answer."),
}
# Where the rewards of the library look for an answer by default.
READS = {
    "exact": "the last <answer>...</answer> (argument answer_tag)",
    "math": "the last \\boxed{...}, or what follows 'answer is', 'answer:', 'final answer' or '####'; "
    "<answer>...</answer> with the argument answer_tag='answer', or in a composite whose format has that tag",
    "schema": "one JSON document, fenced or bare",
    "tool_call": "calls in the chat format of the model",
    "unit_test": "the last fenced block of code",
}
# Share of all samples from which a reason is worth a note, and from which the success rate says nothing.
NOTED, BLIND = 0.25, 0.5
# The right answer counts as seen in so many samples, where it stands so many times as often as another row's does.
SEEN, TIMES = 5, 3.0
EXCERPT = 120
# Samples that a note lists by number, examples it shows, and characters beside an answer that make them look unlike.
NUMBERED, EXAMPLES, NEAR = 8, 3, 12


@dataclass(frozen=True)
class Unrewarded:
    """What is known of samples that earned nothing.

    Args:
        notes: One sentence a finding, with numbers, an example and what to do.
        blind: Why the success rate may say nothing about the model; empty where it does.
    """

    notes: list[str]
    blind: str


def unrewarded(
    samples: Samples,
    calls: Sequence[Called],
    judge: Judge,
    specs: Sequence[RewardSpec],
    names: Sequence[str],
    rewarded: Sequence[bool | None],
) -> Unrewarded:
    """Return why samples earned nothing, as far as reasons and reference columns tell."""
    notes, blind = [], ""
    for index in judge.primary:
        for reason, (meaning, advice) in FORM.items():
            rows = [row for row, given in enumerate(calls[index].reasons) if given == reason and not rewarded[row]]
            if len(rows) < NOTED * len(samples.rows) or not rows:
                continue
            said = f"{len(rows)} of {len(samples.rows)} samples {meaning}"
            example = f"{_example(samples, rows)}.{_cut(samples, rows)}"
            notes.append(f"{names[index]}: {said} ({reason}), {example}{_reads(specs[index], reason)} {advice}")
            blind = said if len(rows) >= BLIND * len(samples.rows) else blind
    golds = gold_texts(samples, rewarded)
    if seen := _seen(samples, golds, rewarded):
        said = f"{len(seen)} of {len(samples.rows)} samples hold their right answer and earn nothing"
        notes.append(
            f"{said} ({_numbers(seen)}): {_unlike(samples, golds, seen)}. "
            "Read some: where they are right, the reward reads them wrongly."
        )
        blind = blind or (said if len(seen) >= NOTED * len(samples.rows) else "")
    return Unrewarded(notes, blind)


def without_never(route: Route, found: Unrewarded) -> Route:
    """Withdraw "never succeeds" where the form of the samples, or the reward, may be all that is wrong."""
    if route.route != "sft_first" or not found.blind:
        return route
    return route.model_copy(
        update={
            "route": "unknown",
            "why": f"{route.why} But {found.blind}, so whether the model never succeeds is not known.",
            "next": "Do what the notes say, then sample and score again. If the model still cannot keep the form, "
            "teach it by SFT.",
        }
    )


def _seen(samples: Samples, golds: Sequence[str | None], rewarded: Sequence[bool | None]) -> list[int]:
    """Return unrewarded rows that hold their right answer, if clearly more do than hold another row's by chance."""
    rows = [row for row, outcome in enumerate(rewarded) if outcome is False and golds[row]]
    distinct = list(dict.fromkeys(gold for gold in golds if gold))
    if len(distinct) < 2 or not rows:
        return []
    after = dict(zip(distinct, [*distinct[1:], distinct[0]], strict=True))
    own, other = [], 0
    for row in rows:
        text, gold = message_text(samples.rows[row]["completion"]), golds[row] or ""
        own += [row] if stands_in(text, gold) else []
        other += stands_in(text, after[gold])
    return own if len(own) >= SEEN and len(own) >= TIMES * other else []


def _reads(spec: RewardSpec, reason: str) -> str:
    answer = spec.args.get("answer") if spec.reward == "composite" else None
    name = answer.get("reward") if isinstance(answer, dict) else spec.reward
    return f" It reads {READS[name]}." if reason == "no_answer" and name in READS else ""


def _example(samples: Samples, rows: Sequence[int]) -> str:
    text = " ".join(message_text(samples.rows[rows[0]]["completion"]).split())
    return f"e.g. sample {rows[0]}: {shortened(text, EXCERPT)!r}"


def _numbers(rows: Sequence[int]) -> str:
    more = "" if len(rows) <= NUMBERED else f" and {len(rows) - NUMBERED} more"
    return f"sample{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:NUMBERED]))}{more}"


def _unlike(samples: Samples, golds: Sequence[str | None], rows: Sequence[int]) -> str:
    """Return the right answers of a few samples with the text around them, as unlike each other as there are any."""
    found: dict[str, int] = {}
    ranked = []
    for row in rows:
        text = message_text(samples.rows[row]["completion"])
        *_, last = mention(golds[row] or "").finditer(text)
        start, end = last.span()
        near = look(text[max(0, start - NEAR) : start]), look(text[end : end + NEAR])
        # First answers that are written in unlike ways, then those in unlike surroundings.
        for shape in (own := look(last.group()), around := " ".join((own, *near))):
            found[shape] = found.get(shape, 0) + 1
        excerpt = " ".join(text[max(0, start - EXCERPT // 2) : end + EXCERPT // 3].split())
        ranked.append((found[own], found[around], row, excerpt))
    different = [entry for entry in ranked if entry[1] == 1]
    return "; ".join(f"sample {row}: {excerpt!r}" for _, _, row, excerpt in sorted(different)[:EXAMPLES])


def _cut(samples: Samples, rows: Sequence[int]) -> str:
    cut = sum(samples.rows[row].get("finish_reason") == "length" for row in rows)
    return f" {cut} of them were cut at the length limit: raise max_completion_length first." if cut else ""
