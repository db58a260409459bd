"""Entry point of the `grpo-rlvr` command and of `python -m grpo_rlvr`."""

import sys

from grpo_rlvr.cli import run


def main() -> int:
    """Run the command line. Returns the exit code: 0 fine, 1 findings or a closed gate, 2 the user's mistake."""
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
