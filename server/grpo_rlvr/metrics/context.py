"""What the config and the setup say about a run, whatever framework they are written for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.metrics.dialects import DIALECTS, Dialect
from grpo_rlvr.models.setup import Setup

NEWEST_TRL = (1, 16)
# Options under which trainers name GSPO, whose ratios are of sequences.
_NAMES_OF_A_LOSS = (
    "loss_type", "loss_mode", "policy_loss", "policy_loss_type", "advantage_estimator", "adv_estimator", "variant",
    "algorithm",
)  # fmt: skip
# Options that only one family of trainers has, with which a config says whose it is.
_VERL_OPTIONS = frozenset(("actor_rollout_ref", "loss_agg_mode", "ppo_mini_batch_size", "adv_estimator"))
_TRL_ARGUMENTS = frozenset(
    ("per_device_train_batch_size", "steps_per_generation", "num_iterations", "scale_rewards", "vllm_mode")
)


@dataclass(frozen=True)
class Context:
    """Facts about the run; None is unknown, never a default.

    `off_policy` says whether a batch is used for more than one update; `given` are the arguments of the config, `named`
    the same with each nested or dotted one also under the ends of its path. `trainer` is whose log or config it is, ""
    when nothing says so: then TRL is assumed. `dialect` are that trainer's names for TRL's arguments, where known.
    """

    trl: tuple[int, ...]
    trl_stated: bool
    trainer: str
    given: Mapping[str, Any]
    named: Mapping[str, Any]
    moe: bool | None
    cap: float | None
    beta: float | None
    loss_type: str | None
    sequence_level: bool
    off_policy: bool | None
    learning_rate: float | None
    num_generations: float | None

    @property
    def is_trl(self) -> bool:
        return self.trainer in ("", "trl")

    @property
    def dialect(self) -> Dialect | None:
        return DIALECTS.get(self.trainer)


def read_context(
    config: Mapping[str, Any] | None, setup: Setup | None, trl_version: str | None, frameworks: tuple[str, ...] = ()
) -> Context:
    """Read config and setup; unknown keys are nobody's fault here and are ignored."""
    named = _by_every_name(config or {})
    setup = setup or Setup()
    stated = trl_version or _text(named.get("trl_version")) or _text(setup.get("versions.trl"))
    version = _version(stated) or NEWEST_TRL
    trainer = _trainer(config or {}, frameworks)
    is_trl = trainer in ("", "trl")
    loss = _loss_type(named, version, is_trl)
    sequence = "sequence" in str(named.get("importance_sampling_level", "")) or any(
        "gspo" in str(named.get(key, "")).lower() for key in _NAMES_OF_A_LOSS
    )
    return Context(
        trl=version,
        trl_stated=stated is not None,
        trainer=trainer,
        given=dict(config or {}),
        named=named,
        moe=_moe(named, setup),
        cap=_number(
            named,
            "max_completion_length",
            "max_response_length",
            "generate_max_len",
            "max_new_tokens",
            "rollout_max_response_len",
            "data.max_response_length",
            "max_tokens",
        ),
        beta=_number(named, "beta", "kl_coef", "init_kl_coef", "kl_loss_coef"),
        loss_type=loss,
        sequence_level=sequence,
        off_policy=_off_policy(named, is_trl or trainer == "ms-swift"),
        learning_rate=_number(named, "learning_rate", "lr", "actor_learning_rate"),
        num_generations=_number(named, "num_generations", "rollout.n", "n_samples_per_prompt", "n", "group_size"),
    )


def _by_every_name(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with each nested or dotted option also under the ends of its path, the shortest path first.

    verl states `actor_rollout_ref.actor.policy_loss.loss_mode`, or the same as objects in each other.
    """
    paths = dict(_paths(config))
    given = dict(config)
    for path in sorted(paths, key=lambda path: path.count(".")):
        parts = path.split(".")
        for start in range(len(parts)):
            given.setdefault(".".join(parts[start:]), paths[path])
    return given


def _paths(config: Mapping[str, Any], before: str = "", depth: int = 6) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        path = f"{before}{key}"
        if isinstance(value, Mapping) and depth:
            yield from _paths(value, f"{path}.", depth - 1)
        else:
            yield path, value


def _trainer(given: Mapping[str, Any], frameworks: tuple[str, ...]) -> str:
    """Whose log it is: by the names it prints, unless the config is written in names that settle it."""
    printed = frameworks[0] if frameworks else ""
    keys = {str(key) for key in given}
    verls = bool({key.split(".")[0] for key in keys} & _VERL_OPTIONS)
    if verls or any("." in key or key.startswith(("actor_", "rollout_")) for key in keys):
        return printed if printed not in ("", "trl") else "verl" if verls else "unknown"
    if keys & _TRL_ARGUMENTS and printed != "ms-swift":
        return "trl"
    return printed


def _loss_type(given: Mapping[str, Any], version: tuple[int, ...], is_trl: bool) -> str | None:
    """The loss: as stated, by the aggregation that other frameworks name, or TRL's default of that version."""
    if isinstance(given.get("loss_type"), str):
        return str(given["loss_type"])
    aggregation = str(given.get("loss_agg_mode", ""))
    if aggregation:
        return {"token-mean": "dapo", "seq-mean-token-mean": "grpo", "seq-mean-token-sum-norm": "dr_grpo"}.get(
            aggregation
        )
    if str(given.get("advantage_estimator", "")).lower() == "dr_grpo":
        return "dr_grpo"
    if not is_trl or not given:
        return None
    return "grpo" if version < (0, 17) else "bnpo" if version < (0, 22) else "dapo"


def _off_policy(given: Mapping[str, Any], is_trl: bool) -> bool | None:
    """True when ratios can leave 1. In TRL: accumulation is no multiple of steps_per_generation x num_iterations."""
    mini, whole = (
        _number(given, "ppo_mini_batch_size", "mini_batch_size"),
        _number(given, "train_batch_size", "rollout_batch_size"),
    )
    if mini is not None and whole is not None:
        return mini < whole
    if not is_trl:
        return True if "async" in str(given.get("mode", "")).lower() else None
    if not given:
        return None
    accumulation = _number(given, "gradient_accumulation_steps") or 1.0
    iterations = _number(given, "num_iterations") or 1.0
    steps = _number(given, "steps_per_generation")
    batch, generation = _number(given, "per_device_train_batch_size"), _number(given, "generation_batch_size")
    if steps is None and generation and batch:
        steps = generation / batch
    return accumulation % ((steps or accumulation) * iterations) != 0


def _moe(given: Mapping[str, Any], setup: Setup) -> bool | None:
    for value in (setup.get("model.moe"), given.get("moe")):
        if isinstance(value, bool):
            return value
    if isinstance(experts := setup.get("model.experts"), int):
        return experts > 1
    name = " ".join(
        str(v) for v in (setup.get("model.name"), setup.get("model.class"), given.get("model_name")) if v
    ).lower()
    if not name:
        return None
    marks = (
        "moe",
        "-a3b",
        "-a22b",
        "-a4b",
        "-a17b",
        "mixtral",
        "deepseek-v3",
        "deepseek-r1-0",
        "gpt-oss",
        "gptoss",
        "olmoe",
    )
    return True if any(mark in name for mark in marks) else None


def _number(given: Mapping[str, Any], *keys: str) -> float | None:
    for key in keys:
        value = given.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None


def _text(value: Any) -> str | None:
    return str(value) if value is not None else None


def _version(text: str | None) -> tuple[int, ...] | None:
    parts = [int(part) for part in (text or "").split(".")[:3] if part.isdecimal()]
    return tuple(parts) or None
