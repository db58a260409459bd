"""From signals to labels: which rules fired, in the order of causes, and what remains when none did."""

from grpo_rlvr.metrics.context import Context
from grpo_rlvr.metrics.finding import finding
from grpo_rlvr.metrics.limits import CUT_SHARE, QUARTER
from grpo_rlvr.metrics.rules import RULES
from grpo_rlvr.metrics.rules_trend import idle_tasks, saturated, unmoved
from grpo_rlvr.metrics.signals import FEW, WEAK, Signals
from grpo_rlvr.models.recommend import Evidence, LabelFinding

NO_ROWS = (
    "There is no row of metrics: paste the lines that the trainer prints, or name its log file or trainer_state.json."
)
ONLY_EVALUATION = "There are only rows of evaluations: paste the rows of training as well."
QUIET = frozenset({"healthy", "plateau", "too_short_to_tell"})
# Columns that a GRPO log may have in place of a reward; loss and gradients alone are those of supervised training.
_GRPO_COLUMNS = frozenset(
    ("kl", "completion_length", "completions/mean_length", "reward_std", "frac_reward_zero_std", "clip_ratio")
)
# What an instability of routing looks like from outside.
_ROUTING_SIGNS = frozenset({"kl_blowup", "divergence_nan", "offpolicy_mismatch"})


def diagnose(s: Signals, c: Context) -> list[LabelFinding]:
    """Return the labels that the signals support, the main cause first; never empty."""
    found: list[LabelFinding] = []
    for rule in RULES:
        result = rule(s, c)
        if result is None:
            continue
        same = next((other for other in found if other.label == result.label), None)
        if same is None:
            found.append(result)
        else:
            same.evidence += result.evidence
    found = _routing(s, c, _absorbed(s, found))
    # A reward that falls with nothing beside it is what follows from a cause, if one is named.
    found.sort(key=lambda item: item.label == "divergence_nan" and item.confidence == "low")
    if found and s.get("reward") is None and (kind := _other_kind(s)):
        found[0].summary += f" The columns are those of {kind}: only what is said of numbers and step size holds."
    return found or [_quiet(s)]


def _absorbed(s: Signals, found: list[LabelFinding]) -> list[LabelFinding]:
    """Drop what only repeats a cause: a policy in ruins has odd lengths and entropies anyway."""
    labels = {item.label for item in found}
    dropped: set[str] = set()
    if "divergence_nan" in labels:
        dropped.add("entropy_collapse")
        if not _earlier(s, "length", "reward"):
            dropped.add("length_bias")
    if "length_collapse" in labels:
        dropped.add("length_bias")
    return [item for item in found if item.label not in dropped]


def _earlier(s: Signals, one: str, other: str) -> bool:
    """True when the first quantity breaks before the second does."""
    first, second = s.get(one), s.get(other)
    rows = [signal.break_row if signal else None for signal in (first, second)]
    return rows[0] is not None and rows[1] is not None and rows[0] < rows[1]


def _routing(s: Signals, c: Context, found: list[LabelFinding]) -> list[LabelFinding]:
    """On a mixture of experts, put the routing first where its signs are the first cause."""
    if not c.moe or not found or found[0].label not in _ROUTING_SIGNS:
        return found
    if "nan or inf" in found[0].summary:
        return found
    cause = finding(
        "moe_instability",
        "medium" if found[0].confidence == "high" else "low",
        "A mixture of experts that shows the signs of unstable routing.",
        *found[0].evidence,
    )
    return [cause, *found]


def _other_kind(s: Signals) -> str:
    """Name the kind of training that the columns give away, empty when they could be GRPO's."""
    names = {name.lower() for name in (*s.log.columns, *s.log.unknown_columns)}
    if any("rewards/margins" in name or "rewards/chosen" in name or "logps/chosen" in name for name in names):
        return "preference training (DPO or a relative)"
    if any("objective/" in name or name.startswith("ppo/") for name in names):
        return "PPO with a value model"
    if "mean_token_accuracy" in names or ("loss" in names and not names & _GRPO_COLUMNS):
        return "supervised fine-tuning (SFT)"
    return ""


def levels_to_watch(s: Signals) -> list[Evidence]:
    """What a few rows already state and more rows of the same would make a finding."""
    uniform, cut, grad, high, low = (
        s.get(name) for name in ("zero_std", "clipped", "grad_norm", "advantage_max", "advantage_min")
    )
    facts = []
    if uniform is not None and float(uniform.values.min()) >= 0.999:
        facts.append(uniform.evidence("to watch: no group has two different rewards"))
    elif high is not None and low is not None and not high.values.any() and not low.values.any():
        facts.append(high.evidence("to watch: every advantage is 0"))
    if cut is not None and cut.end > CUT_SHARE:
        facts.append(cut.evidence(f"to watch: {cut.end:.0%} of the answers are cut at the cap"))
    for name in ("length", "entropy"):
        signal = s.get(name)
        if signal is not None and signal.n > 1 and not signal.unordered:
            first, last = float(signal.values[0]), float(signal.values[-1])
            if last < QUARTER * first:
                facts.append(signal.evidence(f"to watch: {name} {first:.4g} on the first row, {last:.4g} on the last"))
    if grad is not None and not grad.values.any():
        facts.append(grad.evidence("to watch: the gradient is exactly 0"))
    return facts


def _quiet(s: Signals) -> LabelFinding:
    """Nothing is wrong in these metrics: healthy, plateau, or too little to say even that."""
    reward = s.get("reward")
    if reward is None:
        rows = s.log.rows
        if not rows and s.log.evaluation:
            return finding("too_short_to_tell", "high", ONLY_EVALUATION)
        if kind := _other_kind(s):
            return finding("too_short_to_tell", "high", f"This is the log of {kind}, not of GRPO: it is not judged.")
        return finding(
            "too_short_to_tell",
            "high" if rows < FEW else "medium",
            "No reward column: no verdict on progress is possible." if rows else NO_ROWS,
            *levels_to_watch(s),
        )
    if reward.n < FEW:
        return finding(
            "too_short_to_tell",
            "high",
            f"{reward.n} rows carry no trend (at least {FEW} are needed)."
            if reward.n > 1
            else f"One row carries no trend (at least {FEW} rows are needed).",
            reward.evidence(f"reward {float(reward.values[0]):.3g} to {float(reward.values[-1]):.3g}, {reward.n} rows")
            if reward.n > 1
            else reward.evidence(f"reward {float(reward.values[0]):.3g}"),
            *levels_to_watch(s),
        )
    if s.log.kind == "runs":
        return finding(
            "too_short_to_tell", "medium", "The rows are different runs: there is no course over time to judge."
        )
    if reward.direction == "up" and (tasks := idle_tasks(s)):
        return finding(
            "plateau",
            "medium",
            "The reward rises, but what judges the task does not move: look at what is paid instead.",
            reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}"),
            *(unmoved(task) for task in tasks),
        )
    if reward.direction == "up":
        return finding(
            "healthy",
            "high" if reward.n >= WEAK else "low",
            "No sign of trouble in these metrics; the reward rises.",
            reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}"),
        )
    if reward.n < WEAK:
        return finding(
            "too_short_to_tell",
            "medium",
            f"{reward.n} rows show no trend, and could not show a small one.",
            reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}"),
        )
    if saturated(reward):
        return finding(
            "healthy",
            "medium",
            "No sign of trouble in these metrics; the reward is near its top.",
            reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}"),
        )
    return finding(
        "plateau",
        "medium",
        "The reward shows no trend.",
        reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}, noise sd {reward.noise_sd:.2g}"),
    )
