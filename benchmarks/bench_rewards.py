"""How fast the rewards are, as ratios in one run.

    python benchmarks/bench_rewards.py [--json]

math: our reward against math-verify called one by one (gold in a box, its own time limits), on 500 answers: 89 %
usual, 10 % hard forms, 1 % hostile ones. The share of right verdicts of both is counted on the same mix.
schema: our reward against `jsonschema.validate` a call, on a flat schema and on an order with eight items.
batch: seconds for 512 completions of each reward, and the share of a training step of 20 s.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import jsonschema

from rlvr_rewards import Composite, Exact, Format, LengthPenalty, Math, Schema, SoftOverlong, ToolCall

STEP_SECONDS = 20.0
BATCH = 512
SEED = 7

# Gold, answer, equal?
HARD = (
    ("[2,5)", "2 \\le x < 5", True),
    ("x^2+2x+1", "(x+1)^2", True),
    ("\\{1,3\\}\\cup\\{2,4\\}", "\\{1,2,3,4\\}", True),
    ("\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}", True),
    ("\\begin{pmatrix}1 & 2\\\\3 & 4\\end{pmatrix}", "\\begin{bmatrix}1 & 2\\\\3 & 4\\end{bmatrix}", True),
    ("\\frac{1}{2004!}", "\\frac{1}{2006!}", False),
    ("e^{-50}", "e^{-60}", False),
    ("x^2=-1", "x^2=-4", False),
    ("(1,2)", "\\{1,2\\}", False),
    ("110_2", "110", False),
    ("10\\text{ cm}", "10\\text{ m}", False),
    ("\\frac{n(n+1)}{2}", "\\sum_{k=1}^{n} k", True),
)
HOSTILE = (
    "3^{1500000000}",
    "10^{(5^{5^{5^{5^{5}}} \\cdot \\log_{10}(5)} - 4)}",
    "(10^{8})!",
    "2^{30^{5}}",
    "9^{9^{9^{9}}}",
)
Mix = list[tuple[str, str, bool]]


def usual(source: random.Random) -> tuple[str, str, bool]:
    """Return a gold and an answer of the forms that most data sets hold."""
    n, d, shift = source.randint(-999, 9999), source.randint(2, 99), source.random() < 0.5
    m = n + shift
    forms: tuple[Callable[[int], str], ...] = (
        str,
        lambda value: f"{value / 4}",
        lambda value: f"\\frac{{{value}}}{{{d}}}",
        lambda value: f"{d}\\sqrt{{{abs(value) + 2}}}",
        lambda value: f"{value:,}",
        lambda value: f"{value}\\%",
        lambda value: f"({value}, {d})",
        lambda value: f"{value}, {d}",
    )
    form = source.choice(forms)
    gold, answer = form(n), form(m)
    return gold, answer, gold == answer or (form is forms[3] and abs(n) == abs(m))


def mix(count: int, hostile: bool) -> Mix:
    """Return a mix of answers: 10 % hard, 1 % hostile, the rest usual."""
    source = random.Random(SEED)
    rows: Mix = []
    for index in range(count):
        if index % 100 == 50:
            rows.append(("3", HOSTILE[index // 100 % len(HOSTILE)], False) if hostile else usual(source))
        else:
            rows.append(source.choice(HARD) if index % 10 == 5 else usual(source))
    return rows


def seconds(work: Callable[[], Any]) -> float:
    """Return the wall seconds of one run."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def math_verify_verdicts(rows: Mix) -> list[bool]:
    """Judge a mix with math-verify, one answer after the other."""
    from math_verify import parse, verify

    return [bool(verify(parse(f"\\boxed{{{gold}}}"), parse(f"So \\boxed{{{answer}}}."))) for gold, answer, _ in rows]


def our_verdicts(rows: Mix) -> list[bool]:
    """Judge a mix with our reward."""
    texts = [f"So \\boxed{{{answer}}}." for _, answer, _ in rows]
    return [score == 1.0 for score in Math()(completions=texts, gold=[gold for gold, _, _ in rows])]


def bench_math(count: int = 500) -> dict[str, Any]:
    """Compare with math-verify, without and with hostile answers; start-up of both is left out."""
    our_verdicts([HARD[-1]])
    math_verify_verdicts([HARD[-1]])
    found: dict[str, Any] = {}
    for name, hostile in (("without_hostile", False), ("with_hostile", True)):
        rows = mix(count, hostile)
        _forget()
        verdicts: dict[str, list[bool]] = {}
        ours = seconds(lambda rows=rows, into=verdicts: into.update(ours=our_verdicts(rows)))
        theirs = seconds(lambda rows=rows, into=verdicts: into.update(theirs=math_verify_verdicts(rows)))
        right = {
            side: sum(said == wanted for said, (_, _, wanted) in zip(given, rows, strict=True))
            for side, given in verdicts.items()
        }
        found[name] = {"ratio": round(theirs / ours, 1), "ours_s": round(ours, 3), "right": right, "of": count}
    return found


def _forget() -> None:
    """Empty the caches, so that nothing is remembered from a run before."""
    from rlvr_rewards import _math

    for cached in (_math._gold_form, _math._gold_problem, _math._judged):
        cached.cache_clear()


FLAT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ITEM = {
    "type": "object",
    "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}, "price": {"type": "number"}},
    "required": ["sku", "count", "price"],
}
ORDER = {"type": "object", "properties": {"id": {"type": "string"}, "items": {"type": "array", "items": ITEM}}}
DOCUMENTS: tuple[tuple[str, Any, Any], ...] = (
    ("flat", FLAT, {"name": "Ada", "age": 36}),
    ("order", ORDER, {"id": "o1", "items": [{"sku": f"s{index}", "count": index, "price": 1.5} for index in range(8)]}),
)


def bench_schema(count: int = 400) -> dict[str, Any]:
    """Compare with `jsonschema.validate` a call, both reading the document from its text."""
    found = {}
    for name, schema, document in DOCUMENTS:
        text, reward = json.dumps(document), Schema()
        columns = {"schema": [json.dumps(schema)] * count}
        reward(completions=[text], schema=[json.dumps(schema)])
        ours = min(seconds(lambda: reward(completions=[text] * count, **columns)) for _ in range(3))  # noqa: B023
        theirs = seconds(lambda: [jsonschema.validate(json.loads(text), schema) for _ in range(count)])  # noqa: B023
        found[name] = {"ratio": round(theirs / ours, 1), "ours_us": round(ours / count * 1e6, 1)}
    return found


def bench_batches() -> dict[str, Any]:
    """Time 512 completions of each reward."""
    texts = [f"<think>count {index}</think><answer>\\boxed{{{index}}}</answer>" for index in range(BATCH)]
    golds = [str(index) for index in range(BATCH)]
    call = '<tool_call>{"name": "f", "arguments": {"a": %d}}</tool_call>'
    calls = [[{"name": "f", "arguments": {"a": index}}] for index in range(BATCH)]
    tools = [[{"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}}]] * BATCH
    documents = [json.dumps(DOCUMENTS[1][2])] * BATCH
    rows = mix(BATCH, hostile=True)
    ids = [[1] * 600] * BATCH
    work: Sequence[tuple[str, Any, list[str], dict[str, Any]]] = (
        ("format", Format(), texts, {}),
        ("exact", Exact(), texts, {"gold": golds}),
        ("math", Math(), [f"\\boxed{{{answer}}}" for _, answer, _ in rows], {"gold": [gold for gold, _, _ in rows]}),
        ("schema", Schema(), documents, {"schema": [json.dumps(ORDER)] * BATCH}),
        ("tool_call", ToolCall(), [call % index for index in range(BATCH)], {"gold": calls, "tools": tools}),
        ("length_penalty", LengthPenalty(Exact()), texts, {"gold": golds, "completion_ids": ids}),
        ("soft_overlong", SoftOverlong(700, 200), texts, {"completion_ids": ids}),
        ("composite", Composite(Math()), texts, {"gold": golds}),
    )
    found = {}
    for name, reward, completions, columns in work:
        _forget()
        took = seconds(lambda: reward(completions=completions, **columns))  # noqa: B023
        found[name] = {"seconds": round(took, 4), "share_of_step": round(took / STEP_SECONDS, 5)}
    return found


def main() -> None:
    """Run all and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = {"math": bench_math(), "schema": bench_schema(), "batches_of_512": bench_batches()}
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for name, figures in found.items():
        for part, values in figures.items():
            print(f"{name:<16} {part:<18} {', '.join(f'{key} {value}' for key, value in values.items())}")


if __name__ == "__main__":
    main()
