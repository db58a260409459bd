"""The inside of the killable worker: the only place where sympy sees what a model wrote."""

import functools
import json
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

# Address space of the worker; sympy needs about 0.3 GB of it.
MEMORY_BYTES = 3 * 1024**3
# Processor seconds for reading a gold, which is no model's text: the parser learns each new shape of formula only once,
# but slowly, and an answer has mostly the shape of its gold.
GOLD_SECONDS = 4.0
CACHED_GOLDS = 256
# Digits to which two numbers are compared, and how far they may differ in their last ones.
DIGITS = 50
DIFFERENCE = "1e-40"
WARM_UP = {"gold": "\\frac{n^2+n}{2}", "answer": "\\sum_{k=1}^{n} k"}


def main() -> None:
    """Answer one JSON request a line until standard input ends."""
    _limit_memory()
    # Parsers and tables load on first use; the time limit of the first request is not meant for that.
    with suppress(ImportError):
        _same_mathematics(WARM_UP, 0)
    # Standard output carries the protocol; whatever a library prints must not reach it.
    protocol, sys.stdout = sys.stdout, sys.stderr
    protocol.write("ready\n")
    protocol.flush()
    for line in sys.stdin:
        task, payload, seconds = json.loads(line)
        _end_after(seconds)
        try:
            answer = ["done", TASKS[task](payload, seconds)]
        except MemoryError:
            answer = ["failed", "MemoryError"]
        except Exception as error:
            answer = ["failed", type(error).__name__]
        _end_after(0)
        protocol.write(json.dumps(answer) + "\n")
        protocol.flush()


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _end_after(seconds: float) -> None:
    """Let the system end this process once it has computed for so long, even inside one long C call; 0 lifts the limit.

    Processor time, not wall time: a busy machine must not change a verdict.
    """
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _same_mathematics(payload: Mapping[str, str], seconds: float) -> bool:
    """Return whether math-verify holds gold and answer to be equal, and their digits agree where they are numbers."""
    from math_verify import verify

    _end_after(GOLD_SECONDS if seconds else 0)
    gold = _gold(payload["gold"])
    _end_after(seconds)
    answer = _parsed(payload["answer"])
    if not gold or not answer:
        return False
    if not verify(gold, answer, float_rounding=15, numeric_precision=DIGITS, strict=True, timeout_seconds=None):
        return False
    return _digits_agree(gold[0], answer[0])


def _digits_agree(gold: Any, answer: Any) -> bool:
    from sympy import Expr, Float

    if not (isinstance(gold, Expr) and isinstance(answer, Expr)) or gold.free_symbols or answer.free_symbols:
        return True
    values = [value.evalf(DIGITS) for value in (gold, answer)]
    difference = abs(values[0] - values[1]).evalf(DIGITS)
    size = max(abs(values[0]), abs(values[1]))
    return bool(difference <= size * Float(DIFFERENCE, DIGITS))


def _can_read(payload: Mapping[str, str], seconds: float) -> bool:
    """Return whether math-verify reads a gold."""
    _end_after(GOLD_SECONDS)
    return bool(_gold(payload["gold"]))


@functools.lru_cache(maxsize=CACHED_GOLDS)
def _gold(formula: str) -> list[Any]:
    return _parsed(formula)


def _parsed(formula: str) -> list[Any]:
    """Return what math-verify makes of a formula: nothing where it cannot read it."""
    from math_verify import LatexExtractionConfig, parse

    # Its own timeout needs the main thread: _end_after bounds the time. Its type hint leaves out the documented None.
    options: dict[str, Any] = {"parsing_timeout": None, "fallback_mode": "no_fallback"}
    found: list[Any] = parse(
        f"\\boxed{{{formula}}}", extraction_config=[LatexExtractionConfig(boxed_match_priority=0)], **options
    )
    return found


def _schema_valid(payload: Mapping[str, Any], seconds: float) -> bool:
    """Return whether a document is valid, for schemas whose patterns could hang the Python engine."""
    from rlvr_rewards._validators import compiled_here

    return compiled_here(payload["schema"], payload["assert_formats"])(payload["document"])


TASKS: Mapping[str, Callable[[Any, float], bool]] = {
    "same": _same_mathematics,
    "read": _can_read,
    "schema": _schema_valid,
}
