"""The rules that name what a run does: one function a cause, each from its own evidence, hard facts before trends."""

from collections.abc import Callable

from grpo_rlvr.metrics.context import Context
from grpo_rlvr.metrics.signals import FEW, WEAK, Signal, Signals
from grpo_rlvr.models.recommend import Confidence, Evidence, Label, LabelFinding

Rule = Callable[[Signals, Context], LabelFinding | None]

# Gradient norms and KL that no healthy run keeps (hard rules: no statistics needed).
GRAD_EXPLODED, KL_EXPLODED, KL_HIGH = 1000.0, 100.0, 10.0
# Sampler and trainer: k3 KL is 1e-5..1e-3 for dense models and up to 1e-1 for a mixture of experts.
MISMATCH_KL_DENSE, MISMATCH_KL_MOE = 0.01, 0.1
# Share of clipped tokens that no ratio of a small update explains (sequence-level ratios clip 10-30 % by design).
CLIP_FRAC_HIGH = 0.1
# Share of answers cut at the cap from which the cap, not the policy, is judged.
CUT_SHARE = 0.5
# Entropy or length below a quarter of its start is spent; length half as long again has grown.
QUARTER, THIRD, GROWN = 0.25, 1 / 3, 1.25
# Near the top of a 0-1 reward there is nothing left to gain, and low entropy is convergence.
SATURATED = 0.9
_MUST_BE_FINITE = ("loss", "grad_norm", "kl", "entropy", "reward", "policy_kl")


def finding(label: Label, confidence: Confidence, summary: str, *evidence: Evidence) -> LabelFinding:
    """A label with its evidence; remedies are added from their table."""
    return LabelFinding(label=label, confidence=confidence, summary=summary, evidence=list(evidence))


def not_finite(s: Signals, c: Context) -> LabelFinding | None:
    """nan or inf in the loss, gradient, KL, entropy or reward, unless it was a rare event that passed."""
    bad = []
    for name in _MUST_BE_FINITE:
        series = s.log.series.get(name)
        if series is None or not series.nonfinite.count:
            continue
        record, rows = series.nonfinite, max(s.log.rows, 1)
        ongoing = record.last >= rows - max(3, rows // 10)
        if record.count >= max(2, 0.05 * rows) or ongoing:
            bad.append(
                Evidence(
                    metric=name,
                    column=series.column,
                    rows=record.count,
                    break_row=record.first + 1,
                    text=f"'{series.column}' is nan or inf on {record.count} of {rows} rows, "
                    f"first on row {record.first + 1}",
                )
            )
    if not bad:
        return None
    return finding("divergence_nan", "high", "The run prints nan or inf: no update after that is worth anything.", *bad)


def gradient_explosion(s: Signals, c: Context) -> LabelFinding | None:
    """A gradient norm above 1000 that is not a spike the run got over."""
    grad, reward = s.get("grad_norm"), s.get("reward")
    if grad is None or float(grad.values.max()) <= GRAD_EXPLODED:
        return None
    import numpy as np

    usual = float(np.median(grad.values))
    recovered = grad.n >= FEW and grad.end < 10 * max(usual, 1e-9) and grad.end < GRAD_EXPLODED / 10
    if recovered and not (reward and (reward.falls or reward.peak <= 0.05)):
        return None
    if grad.n >= FEW and usual > GRAD_EXPLODED / 3 and float(grad.values.max()) < 20 * usual:
        return None
    worst = int(np.argmax(grad.values))
    return finding(
        "divergence_nan",
        "high" if grad.n >= 2 else "medium",
        "The gradient explodes.",
        grad.evidence(
            f"grad_norm reaches {grad.values[worst]:.4g} on row {int(grad.series.rows[worst])}, median {usual:.3g}"
        ),
    )


def kl_blowup(s: Signals, c: Context) -> LabelFinding | None:
    """KL to the reference far beyond its own median and staying there, or beyond any sense."""
    kl = s.get("kl")
    if kl is None:
        return None
    import numpy as np

    largest, median = float(kl.values.max()), float(np.median(kl.values))
    exploded = int((kl.values > KL_EXPLODED).sum())
    if (
        exploded >= max(2, 0.02 * kl.n)
        or (kl.n < FEW and largest > KL_HIGH)
        or (exploded and kl.values[-1] > KL_EXPLODED)
    ):
        first = int(kl.series.rows[int(np.argmax(kl.values > min(KL_EXPLODED, KL_HIGH)))])
        return finding(
            "kl_blowup",
            "high",
            "The policy is far from the reference, beyond what an update can mean.",
            kl.evidence(f"kl reaches {largest:.4g} (row {first})"),
        )
    early = float(np.median(kl.values[: max(3, kl.n // 2)]))
    stays = kl.n >= FEW and kl.end > 10 * max(early, 1e-6) and kl.end > 1.0
    high = kl.n >= FEW and kl.end > KL_HIGH and kl.start < kl.end / 3
    if not stays and not high:
        return None
    return finding(
        "kl_blowup",
        "high" if kl.end > KL_HIGH else "medium",
        "KL to the reference has left its range and stays there.",
        kl.evidence(f"kl goes from {kl.start:.3g} to {kl.end:.3g} (median of the first half {early:.3g})"),
    )


def policy_falls_apart(s: Signals, c: Context) -> LabelFinding | None:
    """The reward falls; with it, usually, entropy, KL, gradients or the sampler gap move."""
    reward = s.get("reward")
    if reward is None or reward.n < FEW or not reward.falls:
        return _dies_at_once(s, reward) or _entropy_runs_away(s)
    company = [e for e in map(lambda name: _moved_away(s, name), ("entropy", "logp_gap", "kl", "grad_norm")) if e]
    best = max(reward.peak, reward.start)
    dead = reward.end <= 0.5 * best if best > 0 else best - reward.end > 3 * reward.noise_sd
    row = reward.break_row
    where = f", breaking at row {row}" if row else ""
    text = f"reward falls from {best:.3g} (best fifth) to {reward.end:.3g}{where}"
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
    entropy = s.get("entropy")
    if reward is None or entropy is None or reward.n < WEAK or entropy.n < WEAK:
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


def _moved_away(s: Signals, name: str) -> Evidence | None:
    signal = s.get(name)
    if signal is None or signal.n < FEW or signal.start <= 0 or signal.ratio < 3.0:
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


def no_signal(s: Signals, c: Context) -> LabelFinding | None:
    """Every group uniform: exactly constant reward, or next to no success and no group that differs."""
    reward, uniform = s.get("reward"), s.get("zero_std") or s.get("all_wrong")
    spread = s.get("reward_std")
    if reward is None:
        return _all_uniform(uniform)
    constant = float(reward.values.max()) == float(reward.values.min())
    all_equal = (uniform is not None and float(uniform.values.min()) >= 0.999) or (
        spread is not None and float(spread.values.max()) == 0.0
    )
    if constant and reward.n >= 5 and (all_equal or (uniform is None and spread is None)):
        what = f"reward is exactly {reward.values[0]:.4g} on all {reward.n} rows"
        extra = [uniform.evidence("no group has two different rewards")] if uniform and all_equal else []
        return finding(
            "no_signal",
            "high",
            "No group of answers differs in reward, so there is no gradient.",
            reward.evidence(what),
            *extra,
        )
    if all_equal and reward.n >= FEW:
        return finding(
            "no_signal",
            "high",
            "Every group is uniform, so there is no gradient.",
            reward.evidence("the reward differs between prompts, never within a group"),
        )
    return _hopeless(s, reward, uniform) or _no_gradient(s)


def _all_uniform(uniform: Signal | None) -> LabelFinding | None:
    if uniform is None or uniform.n < 5 or float(uniform.values.min()) < 0.999:
        return None
    return finding(
        "no_signal",
        "medium",
        "Every group is uniform, so there is no gradient.",
        uniform.evidence("no group has two different rewards"),
    )


def _hopeless(s: Signals, reward: Signal, uniform: Signal | None) -> LabelFinding | None:
    """Nearly all groups uniform and nearly no reward, for the second half of the run."""
    import numpy as np

    if uniform is None or uniform.n < 5 or reward.n < 5:
        return None
    late = float(np.median(uniform.values[uniform.n // 2 :]))
    level = float(np.median(reward.values[reward.n // 2 :]))
    if late < 0.95 or not 0.0 <= level < 0.05 or reward.direction == "up":
        return None
    return finding(
        "no_signal",
        "high",
        "Almost every group fails as a whole, so almost no answer teaches anything.",
        uniform.evidence(f"{late:.0%} of the groups are uniform in the second half"),
        reward.evidence(f"reward is {level:.3g} there"),
    )


def _no_gradient(s: Signals) -> LabelFinding | None:
    """Gradient exactly 0 although rewards differ within the batch: the update does not reach the weights."""
    import numpy as np

    grad, spread, uniform = s.get("grad_norm"), s.get("reward_std"), s.get("zero_std")
    if grad is None or grad.n < 5 or float(np.abs(grad.values).max()) > 0.0:
        return None
    alive = uniform is not None and float(np.median(uniform.values)) < 0.9
    if not alive and not (uniform is None and spread is not None and float(np.median(spread.values)) > 0.0):
        return None
    return finding(
        "no_signal",
        "high",
        "Rewards differ, and yet the gradient is exactly 0: the loss does not reach the weights.",
        grad.evidence(f"grad_norm is 0 on all {grad.n} rows"),
    )


def truncation(s: Signals, c: Context) -> LabelFinding | None:
    """Most answers are cut at the cap."""
    import numpy as np

    cut, reward = s.get("clipped"), s.get("reward")
    low, mean, high = s.get("length_min"), s.get("length"), s.get("length_max")
    if low and mean and high and low.n == high.n and float(mean.values.min()) > 1:
        same = np.isclose(low.values, high.values).mean()
        if (
            same > 0.9
            and (low.n >= 2 or (cut is not None and cut.start >= CUT_SHARE))
            and float(np.ptp(high.values)) <= 0.03 * high.start
        ):
            return finding(
                "truncation",
                "high",
                "Every answer has the same length: all are cut at the cap.",
                mean.evidence(f"shortest, mean and longest answer are {mean.end:.4g} tokens"),
            )
    if cut is None:
        return _at_known_cap(mean, c)
    recent = float(np.median(cut.values[-max(3, cut.n // 5) :]))
    if recent <= CUT_SHARE or (cut.n == 1 and cut.end < 0.99):
        return None
    if cut.direction == "down" and reward is not None and reward.direction == "up":
        return None
    rose = cut.n >= FEW and cut.start < CUT_SHARE / 2
    text = f"{recent:.0%} of the answers are cut at the cap" + (f", {cut.start:.0%} at the start" if rose else "")
    return finding(
        "truncation",
        "high" if cut.n >= 2 else "medium",
        "Most answers are cut at the cap and cannot be scored fairly.",
        cut.evidence(text),
        *([mean.evidence(f"mean length {mean.end:.4g} tokens")] if mean else []),
    )


def _at_known_cap(length: Signal | None, c: Context) -> LabelFinding | None:
    if length is None or c.cap is None or length.n < 3 or length.end < 0.98 * c.cap:
        return None
    return finding(
        "truncation",
        "high",
        "The mean length is the cap: nearly every answer is cut.",
        length.evidence(f"mean length {length.end:.4g} of a cap of {c.cap:.4g} tokens"),
    )


def reward_hacking(s: Signals, c: Context) -> LabelFinding | None:
    """The trained reward rises or stays while an independent measure of the task falls, or does not follow."""
    reward = s.get("reward")
    if reward is None or reward.falls:
        return None
    tasks = [signal for signal in s.accuracies if signal.series.quantity == "accuracy" or signal.n >= 3]
    tasks += [signal for signal in s.components if _is_task(signal.series.detail)]
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
                task.evidence(f"'{name}' {task.start:.3g} to {task.end:.3g}"),
            )
    return None


def _is_task(name: str) -> bool:
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
    if length is None or reward is None or length.n < FEW or reward.n < FEW:
        return None
    if length.direction != "up" or length.ratio < GROWN or reward.direction == "up":
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
    if length is None or reward is None or length.n < FEW or length.start <= 0:
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
    """Entropy below a quarter of its start, bought for nothing: the reward is flat or falls, and is not near its top."""
    entropy, reward = s.get("entropy"), s.get("reward")
    if entropy is None or reward is None or entropy.n < FEW or entropy.start <= 0:
        return None
    # A falling reward is evidence of its own: then a third is enough.
    losing = reward.falls or (reward.n < FEW and reward.end < reward.start)
    if entropy.ratio > (THIRD if losing else QUARTER) or entropy.direction != "down":
        return None
    gained = reward.direction == "up" or (reward.n < FEW and reward.end > reward.start)
    if gained or saturated(reward):
        return None
    sure = entropy.n >= WEAK and reward.n >= WEAK
    return finding(
        "entropy_collapse",
        "high" if sure else "medium",
        "Exploration is spent without any gain in reward.",
        entropy.evidence(f"entropy {entropy.start:.3g} to {entropy.end:.3g} ({entropy.ratio:.2g} of its start)"),
        reward.evidence(f"reward {reward.start:.3g} to {reward.end:.3g}"),
    )


def saturated(reward: Signal) -> bool:
    """A reward that stays within 0 and 1 and ends near 1."""
    return float(reward.values.min()) >= -1e-6 and float(reward.values.max()) <= 1.0 + 1e-6 and reward.end >= SATURATED


def offpolicy_mismatch(s: Signals, c: Context) -> LabelFinding | None:
    """Sampler and trainer disagree about the same tokens."""
    facts: list[Evidence] = []
    gap, kl, ratio, ess, clip = (s.get(name) for name in ("logp_gap", "mismatch_kl", "is_mean", "ess", "clip_frac"))
    limit = MISMATCH_KL_MOE if c.moe else MISMATCH_KL_DENSE
    level = False
    if kl is not None and _recent(kl) > limit:
        level = True
        facts.append(kl.evidence(f"KL between sampler and trainer is {_recent(kl):.3g}, expected below {limit:g}"))
    if gap is not None and (_recent(gap) > 0.1 or (gap.n >= FEW and gap.ratio > 3.0 and gap.end > 0.02)):
        facts.append(gap.evidence(f"log-probability gap {gap.start:.3g} to {gap.end:.3g}"))
    if ratio is not None and ratio.n >= 2 and _recent(ratio) < 0.5:
        facts.append(
            ratio.evidence(f"mean importance ratio {ratio.start:.3g} to {ratio.end:.3g}: most samples are thrown away")
        )
    if ess is not None and _recent(ess) < 0.3:
        facts.append(ess.evidence(f"effective sample size {_recent(ess):.2g}"))
    if clip is not None and clip.n >= 3 and not c.sequence_level and clip.start > CLIP_FRAC_HIGH:
        facts.append(
            clip.evidence(
                f"{clip.start:.0%} of the tokens are clipped from the first rows on: no small update does that"
            )
        )
    if not facts:
        return None
    confidence: Confidence = "high" if len(facts) > 1 or level else "medium"
    return finding(
        "offpolicy_mismatch", confidence, "The engine that samples and the one that trains disagree.", *facts
    )


def _recent(signal: Signal) -> float:
    return signal.end if signal.n > 2 else float(signal.values.mean())


# The order is that of causes: what is first explains what follows.
RULES: tuple[Rule, ...] = (
    not_finite,
    gradient_explosion,
    kl_blowup,
    policy_falls_apart,
    no_signal,
    reward_hacking,
    length_collapse,
    truncation,
    offpolicy_mismatch,
    length_bias,
    entropy_collapse,
)
