"""Why reward and reader disagree on a row: what the row itself shows, then what the audit found that fits it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.inspection.batch_checks import EXPLAIN_ALL, UNGRADED
from grpo_rlvr.inspection.references import gold_column, gold_texts, mention
from grpo_rlvr.inspection.rows import Reading, Row

# What fits a paid wrong completion in which the right answer stands somewhere, the likeliest first.
NAMING = (
    "answer_in_reasoning", "answer_outside", "tags_injected", "answer_first", "answer_embedded", "all_answers",
)  # fmt: skip
# Attacks that say little for themselves, and a lot of a right answer that was not paid.
SHAPES = ("answer_spaced", "answer_case", "answer_shapes")
# Reward and reader that are so much less alike than chance say the opposite of each other.
OPPOSITE, ENOUGH = -0.3, 20
TURNED = "it pays the wrong ones and not the right ones: a sign or a comparison is probably turned round"
FOUND = "The audit found: "
LONGEST = 60


@dataclass(frozen=True)
class Evidence:
    """What is known of a reading beyond one row.

    Args:
        audit: The stored audit.
        golds: Each sample's right answer as text, None where it is not known.
        number: A reference that is a number and no text, as the reward gets it; None if there is none.
        kappa: Agreement beyond chance of reward and readers, with the rows behind it.
        judged: Rows behind `kappa`.
        nothing: Whether not one of the rows read is rewarded.
        right: Lowest sum of the rows that reward and reader both call right; None if there is none.
    """

    audit: Mapping[str, Any]
    golds: Sequence[str | None]
    number: float | None
    kappa: float | None
    judged: int
    nothing: bool
    right: float | None

    @classmethod
    def of(
        cls, reading: Reading, audit: Mapping[str, Any], right: Sequence[Row], kappa: float | None, judged: int
    ) -> "Evidence":
        """Gather it; `right` are the rows that reward and reader both call right."""
        rewarded: list[bool | None] = [None] * len(reading.samples.rows)
        for row in reading.rows:
            if row.sampled:
                rewarded[row.sample] = row.rewarded
        name = gold_column(reading.samples, rewarded)
        value = reading.samples.rows[0].get(name) if name else None
        totals = [row.total for row in right if row.total is not None]
        return cls(
            audit=audit,
            golds=gold_texts(reading.samples, rewarded),
            number=value if isinstance(value, int | float) and not isinstance(value, bool) else None,
            kappa=kappa,
            judged=judged,
            nothing=not any(row.rewarded for row in reading.rows),
            right=min(totals, default=None),
        )

    def cause(self, row: Row) -> str:
        """Return the likely cause of a disagreement on a row; empty when nothing points to one."""
        if not row.sampled:
            own = row.source.partition(":")[2]
            return next((attack["why"] for attack in self._attacks() if attack["attack"] == own), "")
        if self.kappa is not None and self.kappa < OPPOSITE and self.judged >= ENOUGH:
            return TURNED
        general = sorted((a for a in self._failed() if _explains(a)), key=lambda a: a["outcome"] != "changed")
        if general:
            return FOUND + str(general[0]["why"])
        return self._paid(row) if row.rewarded else self._unpaid(row)

    def _paid(self, row: Row) -> str:
        if self.right is not None and row.total is not None and row.total < self.right - 1e-9:
            return (
                f"it earns {row.total:.3g}, and right ones earn {self.right:.3g} and more: partial credit is too high"
            )
        gold = self.golds[row.sample]
        named = gold is not None and gold in row.completion
        found = [attack for attack in self._failed() if attack["outcome"] == "paid"]
        found.sort(
            key=lambda a: (
                a["severity"] != "error",
                gold is not None and (a["attack"] in NAMING) != named,
                -a["bad"] / max(1, a["tried"]),
                NAMING.index(a["attack"]) if a["attack"] in NAMING else 0,
            )
        )
        return FOUND + str(found[0]["why"]) if found else ""

    def _unpaid(self, row: Row) -> str:
        gold = self.golds[row.sample]
        matches = list(mention(gold).finditer(row.completion)) if gold else []
        start, end = matches[-1].span() if matches else (0, 0)
        shown = row.completion[start:end]
        if self.nothing and self.number is not None:
            return (
                f"nothing is rewarded, and the reference is the number {self.number:g}, not a text: "
                "the reward may compare it with the text of the answer"
            )
        if gold and shown and shown != gold and len(gold) <= LONGEST:
            return f"the right answer stands there as {shown!r}, and the reference writes {gold!r}"
        if self.nothing:
            return (
                "nothing is rewarded at all: the reward may read a column that is not there, look for another form, or "
                "swallow an exception"
            )
        spaced = bool(shown) and row.completion[start - 1 : start].isspace() and row.completion[end : end + 1].isspace()
        unlike = {"answer_case"} | (set() if spaced else {"answer_spaced"})
        lost = [a for a in self._attacks() if a["outcome"] == "lost" and a["attack"] in SHAPES]
        lost = [a for a in self._failed() if a["outcome"] == "lost" and a["attack"] not in SHAPES] + lost
        found = [a for a in lost if not (gold and a["attack"] in unlike)]
        return FOUND + str(found[0]["why"]) if found else ""

    def _attacks(self) -> list[Mapping[str, Any]]:
        return list(self.audit.get("attacks", []))

    def _failed(self) -> list[Mapping[str, Any]]:
        return [
            a
            for a in self._attacks()
            if a["outcome"] in ("paid", "lost", "changed", "failed") and a["severity"] != "info"
        ]


def _explains(attack: Mapping[str, Any]) -> bool:
    return attack["severity"] == "error" and (
        (attack["outcome"] == "changed" and attack["attack"] != UNGRADED.attack)
        or str(attack["why"]).endswith(EXPLAIN_ALL)
    )
