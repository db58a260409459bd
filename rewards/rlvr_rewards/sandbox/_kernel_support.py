"""Whether this machine's system call numbers are known; importable everywhere, unlike the kernel module itself."""

import os

from rlvr_rewards.sandbox._syscalls import AUDIT_ARCH


def supported_machine() -> bool:
    """Return whether the filter can be built for this processor."""
    return hasattr(os, "uname") and os.uname().machine in AUDIT_ARCH
