"""Rules on the course of a run: rewards that fall, lengths that grow, entropy that is spent."""

from grpo_rlvr.metrics.context import Context
from grpo_rlvr.metrics.finding import finding
from grpo_rlvr.metrics.limits import ALIKE, CUT_SHARE, GROWN, KL_USUAL, NOTHING_LEFT, QUARTER, SATURATED, SPENT
from grpo_rlvr.metrics.signals import FEW, WEAK, Signal, Signals
from grpo_rlvr.models.recommend import Confidence, Evidence, LabelFinding


def policy_falls_apart(s: Signals, c: Context) -> LabelFinding | None:
    """The reward falls; with it, usually, entropy, KL, gradients or the sampler gap move."""
    reward = s.get("reward")
    if reward is None or not reward.enough or not reward.falls:
        return _dies_at_once(s, reward) or _entropy_runs_away(s) or _sinks_in_a_sample(s, reward)
    company = [e for name in ("entropy", "logp_gap", "kl", "grad_norm") if (e := _moved_away(s, name))]
    best = max(reward.peak, reward.start)
    dead = reward.end <= 0.5 * best if best > 0 else best - reward.end > 3 * reward.noise_sd
    row = reward.break_row
    where = f", breaking at row {row}" if row else ""
    text = f"reward falls from {best:.3g} (best fifth) to {reward.end:.3g}{where}"
    if reward.n < FEW and not dead:
        return None
    if dead:
        return finding(
            "divergence_nan",
            "high" if reward.n >= WEAK else "medium",
            "The policy falls apart: the reward is lost.",
            reward.evidence(text),
            *company,
        )
    return finding(
        "divergence_nan",
        "medium" if company else "low",
        "The reward falls: the policy is getting worse.",
        reward.evidence(text),
        *company,
    )


def _dies_at_once(s: Signals, reward: Signal | None) -> LabelFinding | None:
    """The first rows earn more than any row of the second half ever does, and the entropy breaks out in between."""
    entropy, uniform = s.get("entropy"), s.get("zero_std")
    if reward is None or reward.n < FEW or reward.unordered:
        return None
    if uniform is not None and uniform.n == reward.n and float(uniform.values[0]) < 0.8:
        rest, alive = reward.values[1:], float(reward.values[0])
        if float(uniform.values[1:].min()) >= 0.95 and alive > 0.1 and float(rest.max()) < 0.1 * alive:
            return finding(
                "divergence_nan",
                "high",
                "The policy dies within the first row: one update too many or too large.",
                reward.evidence(f"reward {alive:.3g} on the first row, at most {float(rest.max()):.3g} after it"),
                uniform.evidence("from the second row on no group differs"),
            )
    if entropy is None or reward.n < WEAK or entropy.n < WEAK:
        return None
    late = reward.values[reward.n // 2 :]
    first, best = float(reward.values[:2].mean()), float(late.max())
    if first - best <= max(3.0 * float(late.std()), 0.5 * abs(first)):
        return None
    start, largest = float(entropy.values[:2].mean()), float(entropy.values.max())
    if start <= 0 or largest < 3.0 * start:
        return None
    return finding(
        "divergence_nan",
        "high",
        "The policy falls apart within the first rows and never comes back.",
        reward.evidence(f"reward {first:.3g} on the first two rows, at most {best:.3g} in the second half"),
        entropy.evidence(f"entropy leaps from {start:.3g} to {largest:.3g}, then ends at {entropy.end:.3g}"),
    )


def _sinks_in_a_sample(s: Signals, reward: Signal | None) -> LabelFinding | None:
    """A few rows picked from a long run, the last of which lost half the reward while the policy visibly broke.

    Fewer than ten rows carry no trend, but rows that are many steps apart are no noise about one level either when
    entropy, KL or the gradient says so too.
    """
    import numpy as np

    steps = s.get("step")
    if reward is None or steps is None or reward.unordered or not 5 <= reward.n < FEW or steps.n < reward.n:
        return None
    good, late = float(np.sort(reward.values[:-2])[-2]), float(reward.values[-2:].mean())
    if float(np.median(np.diff(steps.values))) < 3.0 or good <= 0.0 or late > 0.5 * good:
        return None
    company = [
        e for name, times in (("entropy", 2.5), ("kl", 2.0), ("policy_kl", 10.0)) if (e := _leapt(s, name, times))
    ]
    grad = s.get("grad_norm")
    if grad is not None and grad.n >= 5 and not grad.values[-2:].any() and grad.values[:-2].all():
        company.append(grad.evidence("the gradient is exactly 0 on the last rows"))
    if not company:
        return None
    return finding(
        "divergence_nan",
        "medium" if reward.n > 5 else "low",
        "The policy falls apart: the last rows have lost the reward.",
        reward.evidence(f"reward {good:.3g} before, {late:.3g} on the last two of {reward.n} rows"),
        *company,
    )


def _leapt(s: Signals, name: str, times: float) -> Evidence | None:
    signal = s.get(name)
    if signal is None or signal.n < 5:
        return None
    first, last = float(signal.values[:2].mean()), float(signal.values[-2:].mean())
    return signal.evidence(f"{name} {first:.3g} to {last:.3g}") if first > 0.0 and last >= times * first else None


def _moved_away(s: Signals, name: str) -> Evidence | None:
    signal = s.get(name)
    if signal is None or not signal.enough or signal.start <= 0 or signal.ratio < 3.0:
        return None
    if name == "kl" and signal.end < KL_USUAL:
        return None
    return signal.evidence(
        f"{name} rises to {signal.ratio:.3g} times its start ({signal.start:.3g} to {signal.end:.3g})"
    )


def _entropy_runs_away(s: Signals) -> LabelFinding | None:
    """Entropy at three times its start and rising, with no reward that would excuse it."""
    entropy, reward = s.get("entropy"), s.get("reward")
    if entropy is None or entropy.n < WEAK or entropy.direction != "up" or entropy.ratio < 3.0 or entropy.end < 1.0:
        return None
    if reward is not None and reward.direction != "down":
        return None
    return finding(
        "divergence_nan",
        "medium",
        "Entropy runs away: the policy tends to noise.",
        entropy.evidence(f"entropy rises to {entropy.ratio:.3g} times its start"),
    )


def reward_hacking(s: Signals, c: Context) -> LabelFinding | None:
    """The trained reward rises or stays while an independent measure of the task falls, or does not follow."""
    reward = s.get("reward")
    if reward is None or reward.falls:
        return None
    tasks = [signal for signal in s.accuracies if signal.series.quantity == "accuracy" or signal.n >= 3]
    tasks += [signal for signal in s.components if is_task(signal.series.detail)]
    for task in tasks:
        if task.n < 3 or (task.series.quantity != "reward" and _same_column(task, reward)):
            continue
        if task.direction == "down" or (task.n >= FEW and task.falls):
            name = task.series.detail or task.series.column
            rising = "rises" if reward.direction == "up" else "holds"
            confidence: Confidence = "high" if reward.direction == "up" else "medium"
            return finding(
                "reward_hacking",
                confidence,
                f"The reward {rising} while '{name}' falls: the reward is being gamed.",
                reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}"),
                _fall(s, name, task),
                *(
                    other.evidence(
                        f"'{other.series.detail}' {other.start:.3g} to {other.end:.3g}: what is paid instead"
                    )
                    for other in s.components
                    if other.series is not task.series and other.direction == "up"
                ),
            )
    return None


def _fall(s: Signals, name: str, task: Signal) -> Evidence:
    """From where to where a measure falls: from its best level on when it rose before."""
    fall = task.fell_from
    if task.direction == "down" or fall is None:
        return task.evidence(f"'{name}' {task.start:.3g} to {task.end:.3g}")
    steps = s.log.series.get("step")
    at = f"row {fall.row}"
    if steps is not None and fall.row in steps.rows:
        at += f" (step {steps.values[list(steps.rows).index(fall.row)]:g})"
    return task.fall_evidence(
        fall, f"'{name}' rises to {fall.level:.3g}, falls from about {at} on, ends at {task.end:.3g}"
    )


def is_task(name: str) -> bool:
    """Reward functions that judge the task itself, by their names."""
    return any(
        word in name.lower()
        for word in ("accura", "correct", "exact_match", "solve", "unit_test", "tests_pass", "gold")
    )


def _same_column(one: Signal, other: Signal) -> bool:
    import numpy as np

    return one.n == other.n and bool(np.allclose(one.values, other.values))


def length_bias(s: Signals, c: Context) -> LabelFinding | None:
    """Answers grow while the reward does not."""
    length, reward, cut = s.get("length"), s.get("reward"), s.get("clipped")
    if length is None or reward is None or not length.enough or not reward.enough:
        return None
    grown = GROWN if length.n >= WEAK else 1.5
    if length.direction != "up" or length.ratio < grown or _gained(reward):
        return None
    if cut is not None and cut.n >= FEW and cut.start > CUT_SHARE:
        return None
    strong = length.ratio >= 1.5 and length.n >= WEAK
    move = "falls" if reward.falls else "stays"
    return finding(
        "length_bias",
        "high" if strong and reward.falls else "medium" if strong else "low",
        f"Answers grow to {length.ratio:.2g} times their length while the reward {move}.",
        length.evidence(f"mean length {length.start:.4g} to {length.end:.4g} tokens"),
        reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}"),
    )


def length_collapse(s: Signals, c: Context) -> LabelFinding | None:
    """Answers shrink to under a quarter and the reward goes with them."""
    length, reward = s.get("length"), s.get("reward")
    if length is None or reward is None or not length.enough or length.start <= 0:
        return None
    shortest = float(length.blocks.min()) if length.n >= WEAK else length.end
    if shortest > QUARTER * length.start or not reward.falls:
        return None
    return finding(
        "length_collapse",
        "high" if length.n >= WEAK else "medium",
        "Answers shrink to almost nothing and the reward falls with them.",
        length.evidence(f"mean length {length.start:.4g}, down to {shortest:.4g} tokens"),
        reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}"),
    )


def entropy_collapse(s: Signals, c: Context) -> LabelFinding | None:
    """Entropy is spent for nothing: the reward is flat or falls, and is not near its top."""
    entropy, reward = s.get("entropy"), s.get("reward")
    if entropy is None or reward is None or not entropy.enough or entropy.start <= 0:
        return None
    if entropy.ratio > SPENT or not entropy.falls:
        return None
    if _gained(reward) or saturated(reward):
        return _spent_on_the_rest(s, entropy, reward)
    # The first rows of a healthy run spend most of its entropy, so a short log is not sure.
    sure = entropy.n >= 2 * WEAK and reward.n >= 2 * WEAK
    return finding(
        "entropy_collapse",
        "high" if sure else "medium",
        "Exploration is spent without any gain in reward.",
        entropy.evidence(f"entropy {entropy.start:.3g} to {entropy.end:.3g} ({entropy.ratio:.2g} of its start)"),
        reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}"),
    )


def _spent_on_the_rest(s: Signals, entropy: Signal, reward: Signal) -> LabelFinding | None:
    """The reward rises by what is not the task, and exploration is gone before the task began to move.

    Learning a format spends entropy in healthy runs too, so both it and the groups that still differ must be gone.
    """
    tasks, uniform = idle_tasks(s), s.get("zero_std")
    if not tasks or uniform is None or min(entropy.n, reward.n, uniform.n) < 2 * WEAK:
        return None
    if entropy.ratio > NOTHING_LEFT or uniform.end < ALIKE:
        return None
    return finding(
        "entropy_collapse",
        "medium",
        "Exploration is spent, and only what is not the task has gained.",
        entropy.evidence(f"entropy {entropy.start:.3g} to {entropy.end:.3g} ({entropy.ratio:.2g} of its start)"),
        uniform.evidence(f"{uniform.end:.0%} of the groups have equal rewards at the end: next to no gradient is left"),
        *(unmoved(task) for task in tasks),
    )


def idle_tasks(s: Signals) -> list[Signal]:
    """The reward functions that judge the task, where there are some and none of them gained or is near its top."""
    tasks = [task for task in s.components if is_task(task.series.detail) and task.n >= WEAK and task.enough]
    return [] if any(_gained(task) or saturated(task) for task in tasks) else tasks


def unmoved(task: Signal) -> Evidence:
    """That a reward function stays where it was."""
    return task.evidence(f"'{task.series.detail}' {task.start:.3g} to {task.end:.3g}")


def _gained(reward: Signal) -> bool:
    """The reward rose: by its trend, or between its ends where a dip in between hides the trend."""
    if reward.n < FEW:
        return reward.end > reward.start
    return reward.direction == "up" or reward.end - reward.start > max(reward.smallest, 2.0 * reward.noise_sd)


def saturated(reward: Signal) -> bool:
    """A reward that stays within 0 and 1 and ends near 1."""
    return float(reward.values.min()) >= -1e-6 and float(reward.values.max()) <= 1.0 + 1e-6 and reward.end >= SATURATED
