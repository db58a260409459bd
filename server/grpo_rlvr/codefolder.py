"""The code folder of a child process: our standard-library-only modules, copied.

A child runs in another interpreter. Putting the server's site-packages on its path would hand it the server's pydantic;
running a worker by file path would put the worker's siblings first on its path. A folder with exactly what the child
needs does neither, and it freezes the code that a run was started with.
"""

import shutil
from pathlib import Path

import rlvr_rewards

PACKAGE = Path(__file__).parent


def write_code_folder(target: Path, workers: tuple[str, ...]) -> Path:
    """Copy `rlvr_rewards` and the named modules of `grpo_rlvr` into `target`, keeping their import names.

    Args:
        target: The folder to make; it goes on the child's PYTHONPATH.
        workers: Paths inside the package, such as `runs/worker.py`.

    Returns:
        `target`.
    """
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(Path(rlvr_rewards.__file__).parent, target / "rlvr_rewards", ignore=ignore, dirs_exist_ok=True)
    for worker in ("__init__.py", *workers):
        destination = target / PACKAGE.name / worker
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PACKAGE / worker, destination)
        init = destination.parent / "__init__.py"
        if not init.exists():
            init.write_text("", encoding="utf-8")
    return target
