"""The error of a machine on which programs cannot be run safely."""

from rlvr_rewards._core import RewardError


class SandboxUnavailable(RewardError, RuntimeError):
    """No stack of protection works here, so nothing is run. The message says what was tried and what to do."""
