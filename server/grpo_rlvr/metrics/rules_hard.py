"""Rules on facts that need no statistics: nan, explosions, constants, everything at the cap, levels beyond sense."""

from grpo_rlvr.metrics.context import Context
from grpo_rlvr.metrics.finding import finding
from grpo_rlvr.metrics.limits import (
    CLIP_FRAC_HIGH,
    CUT_SHARE,
    GRAD_EXPLODED,
    KL_EXPLODED,
    KL_HIGH,
    MISMATCH_KL_DENSE,
    MISMATCH_KL_MOE,
)
from grpo_rlvr.metrics.signals import FEW, WEAK, Signal, Signals
from grpo_rlvr.models.recommend import Confidence, Evidence, LabelFinding

_MUST_BE_FINITE = ("loss", "grad_norm", "kl", "entropy", "reward", "policy_kl")


def not_finite(s: Signals, c: Context) -> LabelFinding | None:
    """nan or inf in the loss, gradient, KL, entropy or reward, unless it was a rare event that passed."""
    bad = []
    for name in _MUST_BE_FINITE:
        series = s.log.series.get(name)
        if series is None or not series.nonfinite.count:
            continue
        record, rows = series.nonfinite, max(s.log.rows, 1)
        ongoing = record.last >= rows - max(3, rows // 10)
        if (record.count >= max(2, 0.05 * rows) or ongoing) and not _passed(s, name, ongoing):
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


def _passed(s: Signals, name: str, ongoing: bool) -> bool:
    """Whether nan in a gradient was skipped, or in KL or entropy merely logged: loss finite, reward holding.

    Loss scaling skips a step whose gradient overflows, and trainers print a mean over rows that hold no token.
    """
    loss, grad, reward = s.log.series.get("loss"), s.log.series.get("grad_norm"), s.get("reward")
    if loss is None or loss.nonfinite.count or grad is None or reward is None or reward.series.nonfinite.count:
        return False
    holds = reward.n >= WEAK and not reward.falls and reward.direction != "down" and reward.end >= 0.9 * reward.start
    skipped = grad.nonfinite.count <= 0.25 * len(grad) and len(grad) >= WEAK
    if not holds or reward.end <= 0.0 or not skipped:
        return False
    return name in ("kl", "policy_kl", "entropy") or (name == "grad_norm" and not ongoing)


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

    largest = float(kl.values.max())
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
    reward = s.get("reward")
    gains = reward is not None and reward.direction == "up"
    left = kl.n >= FEW and kl.end > 10 * max(kl.start, 1e-6) and kl.end > (2.0 if gains else 1.0)
    high = kl.n >= FEW and kl.end > KL_HIGH and kl.start < kl.end / 3
    if not left and not high:
        return None
    return finding(
        "kl_blowup",
        "high" if kl.end > KL_HIGH or kl.end > 100 * kl.start else "medium",
        "KL to the reference has left its range and stays there.",
        kl.evidence(f"kl goes from {kl.start:.3g} to {kl.end:.3g}"),
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
    if grad is None or grad.n < 2 or float(np.abs(grad.values).max()) > 0.0:
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
    recent = cut.end if cut.unordered else float(np.median(cut.values[-max(3, cut.n // 5) :]))
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


def offpolicy_mismatch(s: Signals, c: Context) -> LabelFinding | None:
    """Sampler and trainer disagree about the same tokens."""
    facts: list[Evidence] = []
    gap, kl, ratio, ess, clip = (s.get(name) for name in ("logp_gap", "mismatch_kl", "is_mean", "ess", "clip_frac"))
    limit = MISMATCH_KL_MOE if c.moe else MISMATCH_KL_DENSE
    level = False
    grown = kl is not None and kl.enough and kl.ratio > 3.0 and kl.end > limit / 5
    if kl is not None and (_recent(kl) > limit or grown):
        level = True
        facts.append(
            kl.evidence(f"KL between sampler and trainer {kl.start:.3g} to {_recent(kl):.3g}, expected below {limit:g}")
        )
    if gap is not None and (_recent(gap) > 0.1 or (gap.n >= FEW and gap.ratio > 3.0 and gap.end > 0.02)):
        facts.append(gap.evidence(f"log-probability gap {gap.start:.3g} to {gap.end:.3g}"))
    if ratio is not None and ratio.n >= 2 and _recent(ratio) < 0.5:
        facts.append(
            ratio.evidence(f"mean importance ratio {ratio.start:.3g} to {ratio.end:.3g}: most samples are thrown away")
        )
    if ess is not None and _recent(ess) < 0.3:
        facts.append(ess.evidence(f"effective sample size {_recent(ess):.2g}"))
    # Where nothing says whose ratios are clipped, GSPO's may be: with nothing else amiss that is no sign.
    reward = s.get("reward")
    explained = c.sequence_level or (not c.given and not facts and reward is not None and reward.direction == "up")
    if clip is not None and clip.n >= 3 and not explained and clip.start > CLIP_FRAC_HIGH:
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
