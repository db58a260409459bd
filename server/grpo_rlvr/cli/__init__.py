"""The command line: the same verbs and the same JSON as the tools."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from grpo_rlvr.errors import MissingPackageError, UserError

OWN = {"grpo_rlvr", "rlvr_rewards"}


def run(argv: list[str]) -> int:
    """Run one command. Returns 0 fine, 1 findings or a closed gate, 2 the user's mistake, 130 interrupted."""
    from grpo_rlvr.cli.parser import parse

    try:
        options = parse(argv)
        return int(_load(options.verb)(options))
    except UserError as error:
        print(f"grpo-rlvr: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing more to say, and no traceback at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _load(where: str) -> Callable[[Any], int]:
    """Return a verb's function. Its module is imported only now, so that the server starts without tables and colours.

    Raises:
        MissingPackageError: the server extra is not installed.
    """
    module, _, name = where.partition(".")
    try:
        found: Callable[[Any], int] = getattr(import_module(f"grpo_rlvr.cli.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in OWN:
            raise
        raise MissingPackageError(
            f"the package '{error.name}' is missing", remedy="Install: pip install 'grpo-rlvr-training[server]'"
        ) from None
    return found
