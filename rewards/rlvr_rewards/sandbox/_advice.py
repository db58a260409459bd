"""What to tell a user about the protection of a machine: facts, and steps that fit what was detected."""

import functools
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlvr_rewards.sandbox._launch import find_bwrap

APPARMOR_SWITCH = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")

# Text in what a stack said when it failed, and the step that mends it.
CAUSES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("bubblewrap is not installed",),
        "install bubblewrap (apt install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)",
    ),
    (
        ("No permissions to create new namespace", "Creating new namespace failed"),
        "bubblewrap may not create namespaces here: a container's seccomp profile (Docker's default does this) or the "
        "sysctl kernel.unprivileged_userns_clone=0; the level landlock+seccomp needs neither",
    ),
    (
        ("setting up uid map", "RTM_NEWADDR"),
        "AppArmor keeps bubblewrap from user namespaces (Ubuntu 23.10 and later): install apparmor-profiles, copy "
        "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict to /etc/apparmor.d/, load it with apparmor_parser -r",
    ),
    (
        ("Failed to make / slave", "Failed to mount"),
        "the container's AppArmor profile keeps bubblewrap from mounting; the level landlock+seccomp needs no mounts",
    ),
    (
        ("Landlock is not available",),
        "use a kernel from Linux 5.13 on with Landlock in its list of security modules (lsm=landlock,...); in a "
        "container, one whose seccomp profile knows the landlock calls",
    ),
    (
        ("seccomp:",),
        "the kernel refuses seccomp filters (CONFIG_SECCOMP_FILTER); no stack works without them",
    ),
)  # fmt: skip


def facts() -> dict[str, Any]:
    """Return what this machine is, as plain data."""
    bwrap = find_bwrap() if hasattr(os, "geteuid") else None
    return {
        "system": platform.system(), "kernel": platform.release(), "machine": platform.machine(),
        "user": os.geteuid() if hasattr(os, "geteuid") else None, "cores": cores(),
        "container": any(Path(mark).exists() for mark in CONTAINER_MARKS),
        "bwrap": bwrap, "bwrap_version": _version(bwrap) if bwrap else None,
        "apparmor_restricts_namespaces": _reads_one(APPARMOR_SWITCH),
    }  # fmt: skip


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@functools.cache
def workers_that_fit(memory_mb: int) -> int:
    """Return how many programs can run at once: one a processor, as long as two processes each fit into free memory."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        free_kb = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return cores()
    return max(1, min(cores(), free_kb // (2 * memory_mb * 1024)))


def _version(bwrap: str) -> str | None:
    try:
        done = subprocess.run([bwrap, "--version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip().removeprefix("bubblewrap ") or None


def _reads_one(path: Path) -> bool:
    try:
        return path.read_text(encoding="utf-8").strip() == "1"
    except OSError:
        return False


def unsupported(system: str, known_machine: bool) -> str | None:
    """Return why programs can never be run on such a machine, or None."""
    if system == "darwin":
        return "macOS has no equivalent of the boundary (no seccomp, no Landlock, no namespaces)"
    if system == "win32":
        return "Windows has no equivalent of the boundary"
    if not system.startswith("linux"):
        return f"{system} has no equivalent of the boundary"
    if not known_machine:
        return f"the system call numbers of {platform.machine()} are not known (x86_64 and aarch64 are)"
    return None


def platform_advice(system: str) -> tuple[str, ...]:
    """Return what to use instead on a machine that is not supported."""
    if system == "darwin":
        return ("grade programs on Linux: a Linux machine, a virtual machine, or a container (Docker Desktop, Colima)",)
    if system == "win32":
        return ("grade programs in WSL2 with a kernel of 5.13 or later, or on a Linux machine",)
    return ("grade programs on Linux on x86_64 or aarch64",)


def steps(tried: Mapping[str, str], found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the steps that fit what the stacks said when they failed."""
    said = "\n".join(tried.values())
    fitting = [step for marks, step in CAUSES if any(mark in said for mark in marks)]
    if tried and not fitting:
        fitting = ["report this with the output of `grpo-rlvr doctor`; nothing is run without protection"]
    if found.get("apparmor_restricts_namespaces") and found.get("bwrap") not in (None, "/usr/bin/bwrap"):
        fitting.append("use the distribution's /usr/bin/bwrap: AppArmor profiles name that path")
    return tuple(fitting)


def refusal(tried: Mapping[str, str], advice: tuple[str, ...]) -> str:
    """Return the message of the error: nothing was run, what was tried, and what to do."""
    lines = ["model-written programs are not run here, because no protection works:"]
    lines += [f"  {level}: {reason}" for level, reason in tried.items()]
    lines += ["what to do:", *(f"  - {step}" for step in advice)]
    return "\n".join(lines)
