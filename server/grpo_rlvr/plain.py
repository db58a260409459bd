"""Text of others on a terminal: models' and users' words must not steer it."""


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters: of a longer one the beginning and the end."""
    head, tail = (most - 3) // 2, most - 3 - (most - 3) // 2
    return text if len(text) <= most else f"{text[:head]} … {text[-tail:]}"


def visible(text: str) -> str:
    """Return text whose control and invisible characters are spelled out; line breaks and tabs stay."""
    return "".join(
        c if c in "\n\t" or (c.isprintable()) else f"⟨U+{ord(c):04X}⟩" if ord(c) > 0xFF else f"\\x{ord(c):02x}"
        for c in text
    )
