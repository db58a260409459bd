"""Entry point of the `grpo-rlvr` command and of `python -m grpo_rlvr`."""

import sys


def main() -> int:
    """Run the command line. Returns the exit code: 0 fine, 1 findings or a closed gate, 2 the user's mistake."""
    try:
        # The verbs are imported here, so that a missing extra is told from a bug in a verb.
        from grpo_rlvr.cli import parser as _parser  # noqa: F401
        from grpo_rlvr.cli import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in {"grpo_rlvr", "rlvr_rewards"}:
            raise
        print(
            f"grpo-rlvr: the package '{error.name}' is missing. Install the server extra: "
            "pip install 'grpo-rlvr-training[server]'",
            file=sys.stderr,
        )
        return 2
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
