"""Does the skill's description make an agent open it for the right requests, and only for those?

    python evals/triggers.py --prepare --out triggers   # writes prompt.md: an agent picks a skill for every query ...
    python evals/triggers.py --score --out triggers     # ... in answer.json, which is scored

The neighbours are skills that a request may belong to instead. Prints sensitivity (queries of ours that open ours) and
specificity (other queries that do not), and every query that went wrong.
"""

import argparse
import json
import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEIGHBOURS = {
    "sft-recipes": "Supervised fine-tuning with SFTTrainer: datasets, packing, LoRA, memory of plain fine-tuning.",
    "preference-optimisation": "DPO, KTO and reward models from chosen / rejected pairs or human preferences.",
    "eval-harness": "Benchmarks for language models: pass@k, HumanEval, MMLU, comparing checkpoints.",
    "serve-and-quantise": "Quantise models (AWQ, GPTQ) and serve them with vLLM or llama.cpp.",
    "classic-rl": "PPO, SAC and Q-learning in gymnasium environments, and the theory of reinforcement learning.",
    "python-testing": "Write and organise unit tests for Python code.",
}
TEXT = """\
These skills are installed. For every request below write the name of the one skill you would open for it, or null when
none fits, into answer.json: {"1": "name", "2": null, ...}. Judge by these descriptions alone.

## Skills

SKILLS

## Requests

REQUESTS
"""


def description() -> tuple[str, str]:
    """Return the skill's name and description."""
    head = (ROOT / "SKILL.md").read_text(encoding="utf-8").split("---")[1]
    found = dict(re.findall(r"^(name|description): (.*)$", head, re.MULTILINE))
    return found["name"], found["description"]


def queries() -> list[tuple[str, bool]]:
    """Return every query and whether it should open the skill, in a shuffled but fixed order."""
    stated = json.loads((ROOT / "evals" / "evals.json").read_text(encoding="utf-8"))["trigger_queries"]
    rows = [(row["query"], row["should_trigger"]) for row in stated]
    random.Random(0).shuffle(rows)
    return rows


def prompt() -> str:
    """Return what the agent is asked."""
    name, text = description()
    skills = sorted({**NEIGHBOURS, name: text}.items())
    requests = [f"{number}. {query}" for number, (query, _) in enumerate(queries(), 1)]
    return TEXT.replace("SKILLS", "\n".join(f"- {name}: {text}" for name, text in skills)).replace(
        "REQUESTS", "\n".join(requests)
    )


def score(answer: dict[str, str | None]) -> tuple[float, float, list[str]]:
    """Return sensitivity, specificity, and the queries that went wrong."""
    name, _ = description()
    hits: dict[bool, list[bool]] = {True: [], False: []}
    wrong = []
    for number, (query, ours) in enumerate(queries(), 1):
        right = (answer.get(str(number)) == name) == ours and str(number) in answer
        hits[ours].append(right)
        if not right:
            wrong.append(f"{number}. {query}: {answer.get(str(number), 'not answered')}")
    return sum(hits[True]) / len(hits[True]), sum(hits[False]) / len(hits[False]), wrong


def main() -> int:
    """Write the prompt, or score the answer; 1 when a query went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--prepare", action="store_true")
    how.add_argument("--score", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.prepare:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "prompt.md").write_text(prompt(), encoding="utf-8")
        return 0
    sensitivity, specificity, wrong = score(json.loads((options.out / "answer.json").read_text(encoding="utf-8")))
    print(f"sensitivity {sensitivity:.2f}, specificity {specificity:.2f}", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
