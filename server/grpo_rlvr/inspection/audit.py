"""Attacks on the user's own reward, made from the user's own rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.inspection.judging import Judge, Scores
from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.inspection.scoring import Called, RewardChild
from grpo_rlvr.models.score import Audit

NOTE = "Holding against these attacks is no proof: a policy tries far more than this list."


@dataclass(frozen=True)
class AttackRow:
    """A completion that was rewarded although it should not be; it goes to the reader, who decides."""

    attack: str
    sample: int
    completion: Any
    scores: Scores


@dataclass(frozen=True)
class Found:
    """What the audit found."""

    audit: Audit
    rows: list[AttackRow] = field(default_factory=list)


def reads_row(child: RewardChild, samples: Samples, calls: Sequence[Called]) -> list[bool | None]:
    """Return for each reward whether its score depends on the row."""
    return [None] * len(calls)


def audit(child: RewardChild, samples: Samples, calls: Sequence[Called], judge: Judge, names: Sequence[str]) -> Found:
    """Attack the rewards."""
    return Found(Audit(verdict="not_run", attacks=[], note=NOTE))
