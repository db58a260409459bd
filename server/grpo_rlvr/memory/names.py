"""What a model's name alone tells: whether it sees images, and which known model it may be a slip of."""

import re
from difflib import SequenceMatcher

from grpo_rlvr.memory import known

VISION_NAME = re.compile(
    r"(?:^|[-_/.\d])(?:vl|vlm|vision|llava|internvl|pixtral|paligemma|idefics\d?|smolvlm\d?|molmo|minicpm-v|moondream\d?|mllama"
    r"|qvq|ovis\d?|fuyu|glm-4\.\dv|glm-4v)(?:$|[-_/.\d])",
    re.IGNORECASE,
)
_SIZE = re.compile(r"(?:^|(?<=[-_]))\d+(?:\.\d+)?(?:x\d+)?[bm](?:-a\d+b)?(?=$|[-_])")
# One slip in a family's letters: "lama" for "llama" is 0.89 alike.
_ALIKE = 0.85


def hint(name: str) -> str:
    """Return ` (did you mean 'x'?)` for a known model of the same family and size, else the family's known sizes.

    A model of another family or size is no answer to a name that is not known, so none is offered: an empty string.
    """
    family, size = _parts(known.normalise(name))
    vision = bool(VISION_NAME.search(name))
    rows = [row for row in known.KNOWN if bool(VISION_NAME.search(row)) is vision and _same(family, _parts(row)[0])]
    if not rows:
        return ""
    if twins := [row for row in rows if _parts(row)[1] == size]:
        return f" (did you mean '{max(twins, key=lambda row: _likeness(known.normalise(name), row))}'?)"
    sizes = ", ".join(_parts(row)[1] for row in rows)
    return f" (known sizes of {_parts(rows[0])[0]}: {sizes})" if size else ""


def _parts(key: str) -> tuple[str, str]:
    """Family and size of a normalised name: qwen3 and 8b. The whole name is the family when it states no size."""
    found = _SIZE.search(key)
    return (key[: found.start()].strip("-"), found.group()) if found else (key, "")


def _same(one: str, other: str) -> bool:
    """Whether two families are one but for a slip in the letters; their version numbers must agree."""
    numbers = [re.sub(r"\D", "", family) for family in (one, other)]
    letters = [re.sub(r"[^a-z]", "", family) for family in (one, other)]
    return numbers[0] == numbers[1] and _likeness(*letters) >= _ALIKE


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()
