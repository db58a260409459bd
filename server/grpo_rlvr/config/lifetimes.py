"""When a kwarg arrived and when it left, seen from one pair of TRL and transformers releases."""

from dataclasses import dataclass
from typing import Any

from grpo_rlvr.config.names import RENAMED
from grpo_rlvr.config.tables import Table, known_versions, lifetimes, transformers_history
from grpo_rlvr.config.versions import release

# What a release without the option does, as the option's value (the first one; the others ask for the same).
BEFORE: dict[str, tuple[object, ...]] = {
    "loss_type": ("grpo",),
    "scale_rewards": ("group", True),
    "num_iterations": (1,),
    "importance_sampling_level": ("token",),
    "top_entropy_quantile": (1.0,),
    "top_p": (1.0,),
    "repetition_penalty": (1.0,),
    "mask_truncated_completions": (False,),
    "vllm_importance_sampling_correction": (False,),
    "use_bias_correction_kl": (False,),
    "vllm_enable_sleep_mode": (False,),
    "sync_ref_model": (False,),
    "router_aux_loss_coef": (0.0, None),
    "entropy_coef": (0.0,),
    "multi_objective_aggregation": ("sum_then_normalize",),
}


@dataclass(frozen=True)
class Lifetime:
    """What is known of a name that a table lacks.

    `arrives` and `removed` are texts such as `TRL 0.18`; `last` is the last release that had it.
    """

    arrives: str | None = None
    removed: str | None = None
    last: str | None = None

    @property
    def known(self) -> bool:
        """Whether some release has or had the name."""
        return self.arrives is not None or self.removed is not None


def minor(version: str) -> str:
    """Return the minor of a version, e.g. 1.16."""
    return ".".join(version.split(".")[:2])


def lifetime(name: str, table: Table) -> Lifetime:
    """Return when `name`, which the table lacks, arrives or was removed."""
    return _in_trl(name, table) or _in_transformers(name, table) or Lifetime()


def other_name(name: str, table: Table) -> str | None:
    """Return the name under which a release has an option that it lacks or deprecates by this one; else None."""
    renamed = RENAMED.get(name)
    if renamed is None or not renamed.safe or (name in table and not table.fields[name].get("deprecated")):
        return None
    return next((other for other in renamed.to if other in table), None)


def default_of(name: str, table: Table) -> Any:
    """Return an option's default, or the value that a release without the option behaves as; None when none says it."""
    if name in table:
        return table.default(name)
    if (other := other_name(name, table)) is not None:
        return table.default(other)
    if name == "vllm_mode" and release(table.trl) >= release("0.16"):
        return "server"
    if name == "vllm_importance_sampling_mode" and "vllm_importance_sampling_correction" in table:
        return "token_truncate"
    return BEFORE.get(name, (None,))[0]


def _in_trl(name: str, table: Table) -> Lifetime | None:
    span = lifetimes().get(name)
    if span is None:
        return None
    versions = known_versions()
    here = release(table.trl)
    if release(span[0]) > here:
        return Lifetime(arrives=f"TRL {minor(span[0])}")
    if release(span[1]) < here:
        after = versions[versions.index(span[1]) + 1]
        return Lifetime(removed=f"TRL {minor(after)}", last=minor(span[1]))
    return None


def _in_transformers(name: str, table: Table) -> Lifetime | None:
    history = transformers_history()
    spans, releases = history["fields"].get(name), history["releases"]
    if not spans:
        return None
    first, last = releases[spans[0][0]], releases[spans[-1][1]]
    if release(first).release[:2] > release(table.transformers).release[:2]:
        return Lifetime(arrives=f"transformers {minor(first)}")
    if last != releases[-1]:
        after = releases[spans[-1][1] + 1]
        return Lifetime(removed=f"transformers {minor(after)}", last=minor(last))
    return None
