"""Rewards without a fault, of many shapes."""

import re

ANSWER = re.compile(r"<answer>([^<>]*)</answer>")


def _last(completion):
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    text = text.rpartition("</think>")[2] if "<think>" in text else text
    found = ANSWER.findall(text)
    return found[-1].strip() if found else None


def _right(completion, gold):
    return (_last(completion) or "").casefold() == str(gold).casefold()


def correct(completions, answer, **kwargs):
    return [float(_right(c, gold)) for c, gold in zip(completions, answer, strict=True)]


def well_formed(completions, **kwargs):
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    pattern = re.compile(r"\s*<think>[^<>]+</think>\s*<answer>[^<>]+</answer>\s*")
    return [float(bool(pattern.fullmatch(text))) for text in texts]


def numeric(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        try:
            scores.append(float(float(_last(completion)) == float(gold)))
        except (TypeError, ValueError):
            scores.append(0.0)
    return scores


def plus_minus_one(completions, answer, **kwargs):
    return [1.0 if _right(c, gold) else -1.0 for c, gold in zip(completions, answer, strict=True)]


def two_points(completions, answer, **kwargs):
    return [2.0 if _right(c, gold) else 0.0 for c, gold in zip(completions, answer, strict=True)]


def half_a_point(completions, answer, **kwargs):
    return [0.5 if _right(c, gold) else 0.0 for c, gold in zip(completions, answer, strict=True)]


def shorter_is_better(completions, answer, **kwargs):
    return [
        (1.0 - min(0.2, len(str(c)) / 5000)) if _right(c, gold) else 0.0
        for c, gold in zip(completions, answer, strict=True)
    ]


def credit_for_form(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        scores.append(1.0 if _right(completion, gold) else 0.1 if _last(completion) is not None else 0.0)
    return scores


async def waits(completions, answer, **kwargs):
    import asyncio

    await asyncio.sleep(0)
    return [float(_right(c, gold)) for c, gold in zip(completions, answer, strict=True)]


class Configured:
    def __init__(self):
        self.__name__ = "configured"

    def __call__(self, completions, answer, log_extra, log_metric, **kwargs):
        log_extra("extracted", [_last(c) for c in completions])
        log_metric("answered", sum(_last(c) is not None for c in completions) / len(completions))
        return [float(_right(c, gold)) for c, gold in zip(completions, answer, strict=True)]


configured = Configured()
