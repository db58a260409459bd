"""Rewards with one planted fault each."""

import random
import re

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
NUMBER = re.compile(r"-?\d+")


def _last(completion):
    found = ANSWER.findall(completion)
    return found[-1].strip() if found else None


def always_one(completions, **kwargs):
    return [1.0] * len(completions)


def ignores_the_row(completions, **kwargs):
    return [float(_last(c) is not None) for c in completions]


def in_test_on_chat(completions, answer, **kwargs):
    return [float(gold in completion) for completion, gold in zip(completions, answer, strict=True)]


def contains(completions, answer, **kwargs):
    return [float(gold in completion) for completion, gold in zip(completions, answer, strict=True)]


def strips_the_answer(completions, answer, **kwargs):
    def digits(text):
        return re.sub(r"\D", "", text or "")

    return [float(digits(_last(c)) == digits(gold)) for c, gold in zip(completions, answer, strict=True)]


def off_by_one_row(completions, answer, **kwargs):
    shifted = [*answer[1:], answer[0]]
    return [float(_last(c) == gold) for c, gold in zip(completions, shifted, strict=True)]


def accepts_the_prompt_echo(prompts, completions, answer, **kwargs):
    return [
        float(_last(c) == a or c.strip() == p.strip()) for p, c, a in zip(prompts, completions, answer, strict=True)
    ]


def case_sensitive(completions, answer, **kwargs):
    return [float(_last(c) == gold) for c, gold in zip(completions, answer, strict=True)]


def first_number(completions, answer, **kwargs):
    return [float((NUMBER.findall(c) or [None])[0] == gold) for c, gold in zip(completions, answer, strict=True)]


def first_answer_block(completions, answer, **kwargs):
    return [float((ANSWER.findall(c) or [""])[0].strip() == gold) for c, gold in zip(completions, answer, strict=True)]


def pays_no_answer(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        try:
            scores.append(float(int(_last(completion)) == int(gold)))
        except TypeError:
            scores.append(1.0)
        except ValueError:
            scores.append(0.0)
    return scores


def pays_any_of_a_list(completions, answer, **kwargs):
    return [float(gold in NUMBER.findall(_last(c) or "")) for c, gold in zip(completions, answer, strict=True)]


def pays_length(completions, **kwargs):
    return [min(1.0, len(c) / 80) for c in completions]


def throws_dice(completions, answer, **kwargs):
    return [float(_last(c) == gold or random.random() < 0.3) for c, gold in zip(completions, answer, strict=True)]


def upside_down(completions, answer, **kwargs):
    return [float(_last(c) != gold) for c, gold in zip(completions, answer, strict=True)]


def none_when_wrong(completions, answer, **kwargs):
    return [1.0 if _last(c) == gold else None for c, gold in zip(completions, answer, strict=True)]


def too_tolerant(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        found = NUMBER.findall(_last(completion) or "")
        scores.append(float(bool(found) and abs(int(found[-1]) - int(gold)) <= 10))
    return scores


def too_strict(completions, answer, **kwargs):
    return [float(c.endswith(f"<answer>{gold}</answer>")) for c, gold in zip(completions, answer, strict=True)]


def reads_another_column(completions, level, **kwargs):
    return [float(_last(c) == str(value)) for c, value in zip(completions, level, strict=True)]


def raises_without_a_tag(completions, answer, **kwargs):
    return [float(ANSWER.search(c).group(1).strip() == gold) for c, gold in zip(completions, answer, strict=True)]


def one_score_a_prompt(prompts, answer, **kwargs):
    return [1.0 for _ in set(map(str, prompts))]


def not_a_number(completions, answer, **kwargs):
    return [1.0 if _last(c) == gold else float("nan") for c, gold in zip(completions, answer, strict=True)]


def greedy_block(completions, answer, **kwargs):
    blocks = [re.search(r"<answer>(.*)</answer>", c, re.DOTALL) for c in completions]
    return [float(bool(b) and gold in b.group(1)) for b, gold in zip(blocks, answer, strict=True)]


def cuts_decimals(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        found = re.findall(r"-?\d+(?:\.\d+)?", _last(completion) or "")
        scores.append(float(bool(found) and int(float(found[-1])) == int(gold)))
    return scores
