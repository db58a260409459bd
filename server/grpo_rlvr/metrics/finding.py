"""Making one label."""

from grpo_rlvr.models.recommend import Confidence, Evidence, Label, LabelFinding


def finding(label: Label, confidence: Confidence, summary: str, *evidence: Evidence) -> LabelFinding:
    """A label with its evidence; remedies are added from their table."""
    return LabelFinding(label=label, confidence=confidence, summary=summary, evidence=list(evidence))
