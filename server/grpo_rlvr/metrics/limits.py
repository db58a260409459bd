"""The limits of the rules, each with its reason."""

# Gradient norms and KL that no healthy run keeps (hard rules: no statistics needed).
GRAD_EXPLODED, KL_EXPLODED, KL_HIGH = 1000.0, 100.0, 10.0
# KL to the reference starts at 0 and grows in every run that learns; up to here its growth is no sign of anything.
KL_USUAL = 0.1
# Sampler and trainer: k3 KL is 1e-5..1e-3 for dense models and up to 1e-1 for a mixture of experts.
MISMATCH_KL_DENSE, MISMATCH_KL_MOE = 0.01, 0.1
# Share of clipped tokens that no ratio of a small update explains (sequence-level ratios clip 10-30 % by design).
CLIP_FRAC_HIGH = 0.1
# Share of answers cut at the cap from which the cap, not the policy, is judged.
CUT_SHARE = 0.5
# Entropy under three tenths of its start is spent, length under a quarter has collapsed, a quarter more has grown.
QUARTER, SPENT, GROWN = 0.25, 0.3, 1.25
# Where a format is learned entropy falls in healthy runs too: only a tenth of it, with groups alike, is nothing left.
NOTHING_LEFT, ALIKE = 0.1, 0.8
# Near the top of a 0-1 reward there is nothing left to gain, and low entropy is convergence.
SATURATED = 0.9
