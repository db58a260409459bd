"""From scores to the answer: per reward, per group, and the route."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median, pstdev
from typing import Any

from grpo_rlvr.inspection import intervals
from grpo_rlvr.inspection.judging import Judge
from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.inspection.scoring import Called
from grpo_rlvr.models.score import Composite, Groups, PredictedSignal, PromptSummary, RewardScore, Route

GROUP_SIZES = (2, 4, 8, 16, 32)
# Below this many prompts listed, a person can look at each; more would drown the answer.
LISTED = 20
# A reward that names more reasons than this gives no classes but texts.
REASONS = 20
# With no success at all the true rate may still be this high; above it more samples are needed before saying "never".
CERTAIN = 0.1
BINS = 10
OVERLAP = "The weights let wrong answers earn as much as right ones"


def reward_score(name: str, judge: Judge, index: int, called: Called, reads_row: bool | None) -> RewardScore:
    """Return what one reward did."""
    values = [score for score in called.scores if score is not None]
    faulty = sum(error.rows for error in called.errors) if values else len(called.scores) if called.errors else 0
    span = judge.ranges[index]
    n = len(values)
    return RewardScore(
        name=name,
        weight=judge.weights[index],
        scored=n,
        ungraded=len(called.scores) - n - faulty,
        errors=faulty,
        mean=fmean(values) if n else None,
        std=pstdev(values) if n else None,
        low=min(values, default=None),
        high=max(values, default=None),
        floor_share=sum(v <= span.low + 1e-9 for v in values) / n if n else None,
        ceiling_share=sum(v >= span.high - 1e-9 for v in values) / n if n else None,
        distinct=len({round(v, 9) for v in values}),
        ms_per_sample=called.seconds * 1000 / len(called.scores) if n else None,
        reads_row=reads_row,
        reasons=dict(Counter(called.reasons).most_common(REASONS)),
        logged=dict(called.logged),
    )


def composite(totals: Sequence[float | None], judge: Judge, names: Sequence[str], samples: Samples) -> Composite:
    """Return the weighted sum over the samples."""
    pairs = [(total, float(len(samples.completion_text(row)))) for row, total in enumerate(totals) if total is not None]
    values = [total for total, _ in pairs]
    low, high = min(values, default=None), max(values, default=None)
    return Composite(
        mean=fmean(values) if values else None,
        std=pstdev(values) if values else None,
        distinct=len({round(value, 9) for value in values}),
        histogram=_histogram(values),
        low=low,
        high=high,
        judged_by=[names[i] for i in judge.primary],
        threshold=judge.threshold,
        length_correlation=intervals.correlation(values, [length for _, length in pairs]),
    )


def _histogram(values: Sequence[float]) -> list[int]:
    counts = [0] * BINS
    if values:
        low, width = min(values), (max(values) - min(values)) / BINS
        for value in values:
            counts[min(BINS - 1, int((value - low) / width)) if width > 0 else 0] += 1
    return counts


def groups(
    samples: Samples,
    totals: Sequence[float | None],
    rewarded: Sequence[bool | None],
    config: Mapping[str, Any],
) -> Groups:
    """Return the samples by prompt."""
    members: dict[str, list[int]] = {}
    for row, group in enumerate(samples.groups):
        members.setdefault(group, []).append(row)
    sizes = [len(rows) for rows in members.values()]
    sums = [[t for row in rows if (t := totals[row]) is not None] for rows in members.values()]
    spreads = [pstdev(values) for values in sums if len(values) > 1]
    counts = {
        group: (sum(bool(rewarded[row]) for row in rows), sum(rewarded[row] is not None for row in rows))
        for group, rows in members.items()
    }
    flat = sum(spread < 1e-9 for spread in spreads)
    never = [group for group, (hits, trials) in counts.items() if trials and hits == 0]
    always = [group for group, (hits, trials) in counts.items() if trials and hits == trials]

    def listed(found: list[str]) -> list[PromptSummary]:
        return [
            PromptSummary(
                group=group,
                samples=counts[group][1],
                rewarded=counts[group][0],
                prompt=samples.prompt_text(members[group][0])[:200],
            )
            for group in found[:LISTED]
        ]

    return Groups(
        count=len(members),
        smallest=min(sizes),
        largest=max(sizes),
        mean_std=fmean(spreads) if spreads else None,
        no_gradient_share=intervals.wilson(flat, len(spreads)) if spreads else None,
        predicted=_predicted(list(counts.values()), config),
        never=listed(never),
        always=listed(always),
        never_count=len(never),
        always_count=len(always),
        clipped_share=_clipped(samples, config),
    )


def _predicted(counts: list[tuple[int, int]], config: Mapping[str, Any]) -> list[PredictedSignal]:
    own = config.get("num_generations")
    sizes = {*GROUP_SIZES, *([own] if isinstance(own, int) and own > 1 else [])}
    found = [(size, intervals.no_gradient(counts, size)) for size in sorted(sizes)]
    return [PredictedSignal(num_generations=size, no_gradient_share=share) for size, share in found if share]


def _clipped(samples: Samples, config: Mapping[str, Any]) -> float | None:
    reasons = [row.get("finish_reason") for row in samples.rows]
    if any(reasons):
        cut = reasons.count("length")
        return cut / len(reasons)
    limit = config.get("max_completion_length")
    if samples.has_ids and isinstance(limit, int):
        lengths: list[int] = [len(row["completion_ids"]) for row in samples.rows]
        return sum(length >= limit for length in lengths) / len(lengths)
    return None


def route(samples: Samples, rewarded: Sequence[bool | None], broken: Sequence[str]) -> Route:
    """Return whether GRPO applies, from the share of rewarded samples."""
    outcomes: dict[str, list[bool]] = {}
    for group, outcome in zip(samples.groups, rewarded, strict=True):
        if outcome is not None:
            outcomes.setdefault(group, []).append(outcome)
    rate = intervals.clustered(outcomes)
    if broken or rate is None:
        cause = f"{', '.join(broken)} failed" if broken else "no sample has a score"
        return Route(
            route="unknown",
            success_rate=None,
            why=f"The success rate is unknown: {cause}.",
            next="Mend the reward, then score again.",
        )
    hits = sum(any(values) for values in outcomes.values())
    return Route(
        success_rate=rate,
        pass_at_k=hits / len(outcomes),
        k=int(median(len(values) for values in outcomes.values())),
        **_choose(rate.value, rate.low, rate.high, rate.n, Counter(bool(any(v)) for v in outcomes.values())),
    )


def _choose(value: float, low: float, high: float, n: int, prompts: Counter[bool]) -> dict[str, Any]:
    span = f"{value:.1%} of {n} samples were rewarded (95 % interval {low:.1%} to {high:.1%})"
    solved = f"{prompts[True]} of {sum(prompts.values())} prompts have a rewarded sample"
    if value == 0 and high <= CERTAIN:
        return {
            "route": "sft_first",
            "why": f"{span}. Groups without a single success give no gradient.",
            "next": "Fine-tune on worked answers first, take easier prompts, or loosen a reward that is too strict.",
        }
    if value == 1 and low >= 1 - CERTAIN:
        return {
            "route": "nothing_to_learn",
            "why": f"{span}. Groups that always succeed give no gradient.",
            "next": "Take harder prompts, or check that the reward is not too lenient.",
        }
    if value in (0, 1):
        return {
            "route": "unknown",
            "why": f"{span}: too few samples to say whether it is so always.",
            "next": "Sample more completions over more prompts.",
        }
    low_rate = value < 0.02
    return {
        "route": "grpo",
        "why": f"{span}; {solved}.",
        "next": (
            "Success is rare: use a larger num_generations, easier prompts, or a short SFT first; read the samples."
            if low_rate
            else "Read the samples."
        ),
    }


def overlap(totals: Sequence[float | None], rewarded: Sequence[bool | None]) -> list[str]:
    """Say so when a sample that counts as wrong earns as much as one that counts as right: training follows the sum."""
    right = [total for total, yes in zip(totals, rewarded, strict=True) if yes and total is not None]
    wrong = [total for total, yes in zip(totals, rewarded, strict=True) if yes is False and total is not None]
    if not right or not wrong or max(wrong) < min(right):
        return []
    return [
        f"{OVERLAP}: a sample that counts as wrong earns {max(wrong):g}, one that counts as right {min(right):g}. "
        "Raise the weight of the deciding reward, or pay for format only when the answer is right."
    ]
