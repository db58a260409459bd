"""Text of others on a terminal: models' and users' words must not steer it."""


def visible(text: str) -> str:
    """Return text whose control and invisible characters are spelled out; line breaks and tabs stay."""
    return "".join(
        c if c in "\n\t" or (c.isprintable()) else f"⟨U+{ord(c):04X}⟩" if ord(c) > 0xFF else f"\\x{ord(c):02x}"
        for c in text
    )
