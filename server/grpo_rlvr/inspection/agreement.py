"""Reward against readers: the confusion matrix, kappa, and the rows on which they disagree."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grpo_rlvr.inspection import intervals
from grpo_rlvr.inspection.causes import Evidence
from grpo_rlvr.inspection.rows import Reading, Row
from grpo_rlvr.inspection.verdicts import VERDICTS, Reader
from grpo_rlvr.models.reading import Agreement, Disagreement, ScoreHistogram, Verdict
from grpo_rlvr.plain import shortened

EXCERPT = 400
BINS = 10


def judged(rows: Iterable[Row], reader: Reader) -> list[tuple[Row, bool]]:
    """Return the rows on which both reward and reader say correct or wrong, with what the reader says."""
    found = []
    for row in rows:
        verdict = reader.final(row.row)
        if row.rewarded is not None and verdict in ("correct", "wrong"):
            found.append((row, verdict == "correct"))
    return found


def agreement(reading: Reading, readers: Sequence[Reader]) -> Agreement:
    """Return the agreement over the sampled rows; rows that the audit made would distort every share."""
    pairs = [
        (bool(row.rewarded), said) for reader in readers for row, said in judged(reading.rows, reader) if row.sampled
    ]
    both = sum(reward and said for reward, said in pairs)
    neither = sum(not reward and not said for reward, said in pairs)
    paid_wrong = sum(reward and not said for reward, said in pairs)
    unpaid_right = sum(said and not reward for reward, said in pairs)
    paid, unpaid = both + paid_wrong, neither + unpaid_right
    return Agreement(
        judged=len(pairs),
        both_correct=both,
        both_wrong=neither,
        false_positives=paid_wrong,
        false_negatives=unpaid_right,
        agreement=intervals.wilson(both + neither, len(pairs)) if pairs else None,
        false_positive_rate=intervals.wilson(paid_wrong, paid) if paid else None,
        false_negative_rate=intervals.wilson(unpaid_right, unpaid) if unpaid else None,
        kappa=intervals.kappa(both, paid_wrong, unpaid_right, neither),
    )


def histograms(reading: Reading, readers: Sequence[Reader]) -> list[ScoreHistogram]:
    """Return each reward's scores on the sampled rows in bins, apart by what the reader said."""
    found = []
    for name in reading.sealed["names"]:
        pairs = [
            (score, reader.final(row.row))
            for reader in readers
            for row in reading.rows
            if row.sampled and reader.final(row.row) and (score := row.scores[name]) is not None
        ]
        if not pairs:
            continue
        low, high = min(score for score, _ in pairs), max(score for score, _ in pairs)
        width = (high - low) / BINS
        counts: dict[str, list[int]] = {verdict: [0] * BINS for verdict in VERDICTS}
        for score, verdict in pairs:
            counts[verdict or ""][min(BINS - 1, int((score - low) / width)) if width > 0 else 0] += 1
        found.append(ScoreHistogram(reward=name, low=low, high=high, **counts))
    return found


def decided(reading: Reading, readers: Sequence[Reader]) -> int:
    """Return the number of sampled rows with a verdict of correct or wrong by any of the readers."""
    return len({row.row for reader in readers for row, _ in judged(reading.rows, reader) if row.sampled})


def disagreements(reading: Reading, readers: Sequence[Reader], audit: Mapping[str, Any]) -> list[Disagreement]:
    """Return the disagreements that stand, the paid ones first."""
    said = [(row, reader, word) for reader in readers for row, word in judged(reading.rows, reader)]
    differing = [(row, reader) for row, reader, word in said if word != row.rewarded]
    if not differing:
        return []
    figures = agreement(reading, readers)
    right = [row for row, _, word in said if word and row.rewarded]
    evidence = Evidence.of(reading, audit, right, figures.kappa, figures.judged)
    return _most_instructive([_disagreement(row, reader, evidence.cause(row)) for row, reader in differing])


def _most_instructive(found: list[Disagreement]) -> list[Disagreement]:
    """Order: paid ones first, samples before attacks, and of every prompt one before a second."""
    seen: dict[str, int] = {}
    ranked = []
    for entry in found:
        seen[entry.prompt] = seen.get(entry.prompt, 0) + 1
        ranked.append((entry.kind == "false_negative", entry.source != "sample", seen[entry.prompt], entry))
    return [entry for *_, entry in sorted(ranked, key=lambda rank: rank[:3])]


def resolved(reading: Reading, readers: Sequence[Reader]) -> int:
    """Return how many disagreements a later look took back."""
    count = 0
    for reader in readers:
        for row in reading.rows:
            looks = reader.looks.get(row.row, [])
            opinions = [_disagrees(row, look["verdict"]) for look in looks]
            count += bool(opinions) and any(opinions[:-1]) and not opinions[-1]
    return count


def _disagrees(row: Row, verdict: Verdict) -> bool:
    return row.rewarded is not None and verdict in ("correct", "wrong") and (verdict == "correct") != row.rewarded


def _disagreement(row: Row, reader: Reader, cause: str) -> Disagreement:
    paid = bool(row.rewarded)
    return Disagreement(
        row=row.row,
        kind="false_positive" if paid else "false_negative",
        reader=reader.name,
        note=reader.looks[row.row][-1]["note"],
        prompt=row.prompt[:EXCERPT],
        completion=shortened(row.completion, EXCERPT),
        scores=dict(row.scores),
        source=row.source,
        cause=cause,
    )
