"""The text of a completion: of its last message, behind its thinking, in its last block."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Completion = str | Sequence[Mapping[str, Any]]

# Tokens with which chat templates end a message; what follows one is no part of the answer.
END_TOKEN = re.compile(
    r"<\|(?:im_end|im_start|eot_id|eom_id|endoftext|end_of_text|end|return)\|>|</s>|<end_of_turn>|<eos>"
)
_THINKING_MARKS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
)
# What decoding without special tokens leaves of harmony: the channel's name glued to the first word of its message.
_BARE_CHANNEL = re.compile(r"analysis(?=[A-Z][\w'’]*,?\s+[A-Za-z(])")


def text_of(completion: Completion) -> str:
    """Return the final text of a completion: the string itself, or the content of its last assistant message.

    A conversation that does not end with the assistant (it stopped after a tool's reply) has no final text.
    """
    if isinstance(completion, str):
        return completion
    if not completion:
        return ""
    last = completion[-1]
    if last.get("role", "assistant") != "assistant":
        return ""
    return content_text(last.get("content"))


def content_text(content: Any) -> str:
    """Return the text of a message's content, which is a string, None or a list of content blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (block.get("text") if isinstance(block, Mapping) else block for block in content)
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def after_thinking(text: str) -> str | None:
    """Return the text after the last `</think>`, or None when a `<think>` is still open there.

    What other families write in its place counts alike: `[THINK]`, `<seed:think>`, and the channels of harmony, whose
    answer is the last message of the channel "final".
    """
    for opening, closing in _THINKING_MARKS:
        text = text.rpartition(closing)[2]
        if opening in text:
            return None
    if "<|channel|>" in text:
        _, final, tail = text.rpartition("<|channel|>final<|message|>")
        return None if not final or "<|channel|>" in tail else tail
    if _BARE_CHANNEL.match(text):
        _, final, tail = text.rpartition("assistantfinal")
        return tail if final else None
    return text


def last_block(text: str, tag: str) -> str | None:
    """Return the content of the last block of a tag, or None when there is none or the last one is not closed."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    end = text.rfind(closing)
    start = text.rfind(opening, 0, max(end, 0))
    return None if end < 0 or start < 0 or opening in text[end:] else text[start + len(opening) : end]
