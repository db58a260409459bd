"""Lines that say nothing of a run, remembered by their shape: a log repeats its warnings with other numbers in them."""

import re

# A number of its own; one that is part of a name, as in `pass@8` or `f1`, may decide what the name means.
_NUMBER = re.compile(r"(?<![\w@/])\d+(?!\w)")
# Longer lines hardly repeat, and so many shapes cover the noise of any program.
_LONGEST, _MOST = 400, 20_000


class Prose:
    """Shapes of lines in which nothing was found: what differs from one in its numbers alone holds nothing either."""

    def __init__(self) -> None:
        self._shapes: set[str] = set()

    def add(self, line: str) -> None:
        """Remember a line in which nothing was found."""
        if len(line) <= _LONGEST and len(self._shapes) < _MOST:
            self._shapes.add(_shape(line))

    def __contains__(self, line: str) -> bool:
        return len(line) <= _LONGEST and bool(self._shapes) and _shape(line) in self._shapes


def _shape(line: str) -> str:
    return _NUMBER.sub("0", line)
