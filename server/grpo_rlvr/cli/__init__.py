"""The command line: the same verbs and the same JSON as the tools."""

import os
import sys

from grpo_rlvr.errors import UserError


def run(argv: list[str]) -> int:
    """Run one command. Returns 0 fine, 1 findings or a closed gate, 2 the user's mistake, 130 interrupted."""
    from grpo_rlvr.cli.parser import parse

    try:
        options = parse(argv)
        return int(options.verb(options))
    except UserError as error:
        print(f"grpo-rlvr: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing more to say, and no traceback at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
