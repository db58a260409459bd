"""The gate's policy: the strict default, or what `[gate]` in the workspace's settings file states."""

from pydantic import ValidationError

from grpo_rlvr.errors import InputError
from grpo_rlvr.models.reading import GatePolicy
from grpo_rlvr.workspace import Workspace


def policy_in_force(workspace: Workspace) -> GatePolicy:
    """Return the policy of a workspace.

    Raises:
        InputError: the settings file cannot be used, or `[gate]` is no table, has an unknown key, or a value that is
            not allowed; file and line are named.
    """
    table = workspace.settings_table("gate", GatePolicy.model_fields)
    try:
        return GatePolicy.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{name}: {first['msg'].lower()}, got {first['input']!r}",
            where=workspace.settings_place("gate", str(first["loc"][0])),
            remedy="Mend the value.",
        ) from None


def loosened(now: GatePolicy, then: GatePolicy) -> list[str]:
    """Return what the policy now allows that it did not allow then, as phrases with both values."""
    found = []
    if now.rows < then.rows:
        found.append(f"rows {then.rows} to {now.rows}")
    if now.min_median_seconds < then.min_median_seconds:
        found.append(f"min_median_seconds {then.min_median_seconds:g} to {now.min_median_seconds:g}")
    if now.agreement < then.agreement:
        found.append(f"agreement {then.agreement:g} to {now.agreement:g}")
    if now.audit == "report" and then.audit == "must_hold":
        found.append("audit must_hold to report")
    found += [f"readers + {kind}" for kind in now.readers if kind not in then.readers]
    found += [f"channels + {channel}" for channel in now.channels if channel not in then.channels]
    # Neither value is stricter than the other, but the record was judged by the other one.
    if now.rewarded_at != then.rewarded_at:
        found.append(f"rewarded_at {then.rewarded_at:g} to {now.rewarded_at:g}")
    return found
