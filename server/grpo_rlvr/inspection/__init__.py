"""Scoring samples, auditing rewards, the reading by a person, and the gate. Imported on first use of a name."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_rlvr.inspection.elicit_forms import form_for, message_for, next_rows, record_form, record_refusal
    from grpo_rlvr.inspection.gate import check_gate, reward_digest
    from grpo_rlvr.inspection.listing import list_readings, newest_reading, reading_ids
    from grpo_rlvr.inspection.page import app_call, app_page_html, app_ticket, read_on_page, serve_page
    from grpo_rlvr.inspection.policy import policy_in_force
    from grpo_rlvr.inspection.reading import reading_status, start_reading
    from grpo_rlvr.inspection.samples import load_samples
    from grpo_rlvr.inspection.scores import audit_rewards, score
    from grpo_rlvr.inspection.shown import read_rows, score_result
    from grpo_rlvr.inspection.terminal import read_in_terminal

__all__ = [
    "app_call",
    "app_page_html",
    "app_ticket",
    "audit_rewards",
    "check_gate",
    "form_for",
    "list_readings",
    "load_samples",
    "message_for",
    "newest_reading",
    "next_rows",
    "policy_in_force",
    "read_in_terminal",
    "read_on_page",
    "read_rows",
    "reading_ids",
    "reading_status",
    "record_form",
    "record_refusal",
    "reward_digest",
    "score",
    "score_result",
    "serve_page",
    "start_reading",
]

_HOMES = {
    "app_call": "page",
    "app_page_html": "page",
    "app_ticket": "page",
    "audit_rewards": "scores",
    "check_gate": "gate",
    "form_for": "elicit_forms",
    "list_readings": "listing",
    "load_samples": "samples",
    "message_for": "elicit_forms",
    "newest_reading": "listing",
    "next_rows": "elicit_forms",
    "policy_in_force": "policy",
    "read_in_terminal": "terminal",
    "read_on_page": "page",
    "read_rows": "shown",
    "reading_ids": "listing",
    "reading_status": "reading",
    "record_form": "elicit_forms",
    "record_refusal": "elicit_forms",
    "reward_digest": "gate",
    "score": "scores",
    "score_result": "shown",
    "serve_page": "page",
    "start_reading": "reading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(module, name)
