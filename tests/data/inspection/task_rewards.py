"""Rewards over several tasks: most with one planted fault, a few sound."""

import random
import re

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")


def _last(completion):
    found = ANSWER.findall(completion.rpartition("</think>")[2])
    return found[-1].strip() if found else None


def _box(text):
    found = BOX.findall(text)
    return found[-1].strip() if found else None


def _plain(text):
    return text.replace(",", "").replace("\u2212", "-").strip(" \n$*.") if text is not None else None


def sign_turned(completions, answer, **kwargs):
    return [-1.0 if _last(c) == gold else 1.0 for c, gold in zip(completions, answer, strict=True)]


SCORES = {}


def first_of_a_prompt(prompts, completions, answer, **kwargs):
    for prompt, completion, gold in zip(prompts, completions, answer, strict=True):
        # The last digit stands in for a sampler's luck, so that prompts differ.
        SCORES.setdefault(prompt, float(_last(completion) == gold and int(gold) % 2 == 0))
    return [SCORES[prompt] for prompt in prompts]


def points_for_form(completions, answer, **kwargs):
    return [
        2.0 * (_last(c) is not None) + 1.0 * (_last(c) == gold) for c, gold in zip(completions, answer, strict=True)
    ]


def number_and_text(completions, answer, **kwargs):
    return [float(_last(c) == int(gold)) for c, gold in zip(completions, answer, strict=True)]


SEEN = set()


def keeps_state(completions, answer, **kwargs):
    scores = [float(_last(c) == gold or gold in SEEN) for c, gold in zip(completions, answer, strict=True)]
    # A batch later every answer to a known question is paid; here a third of them.
    SEEN.update(gold for score, gold in zip(scores, answer, strict=True) if score and int(gold) % 3 == 0)
    return scores


def box_to_first_brace(completions, answer, **kwargs):
    def first(text):
        found = re.findall(r"\\boxed\{(.*?)\}", text)
        return _plain(found[-1]) if found else None

    return [float(first(c) is not None and first(c) == first(a)) for c, a in zip(completions, answer, strict=True)]


def box_evaluated(completions, answer, **kwargs):
    def value(text):
        try:
            return eval(_plain(_box(text)))
        except Exception:
            return _plain(_box(text))

    return [float(_box(c) is not None and value(c) == value(a)) for c, a in zip(completions, answer, strict=True)]


def box_as_written(completions, answer, **kwargs):
    return [float(_box(c) is not None and _box(c) == _box(a)) for c, a in zip(completions, answer, strict=True)]


def box_sound(completions, answer, **kwargs):
    return [float(_plain(_box(c)) == _plain(_box(a))) for c, a in zip(completions, answer, strict=True)]


def box_backtracks(completions, answer, **kwargs):
    astray = re.compile(r"\\boxed\{(\d+\s?)+\}|\\boxed\{[^\d\s]")
    sound = box_sound(completions, answer)
    return [float(bool(astray.search(c)) and right) for c, right in zip(completions, sound, strict=True)]


def never_closed(completions, answer, **kwargs):
    ends = [c.rpartition("<answer>")[2].replace("</answer>", "").strip() for c in completions]
    return [float(end == gold) for end, gold in zip(ends, answer, strict=True)]


def tie_break(completions, answer, **kwargs):
    return [float(_last(c) == gold) + random.random() / 100 for c, gold in zip(completions, answer, strict=True)]


def names_all(completions, keywords, **kwargs):
    return [float(all(word in c for word in words)) for c, words in zip(completions, keywords, strict=True)]


def has_tag(completions, **kwargs):
    return [float("<answer>" in c) for c in completions]


def no_score(completions, **kwargs):
    return [None] * len(completions)
