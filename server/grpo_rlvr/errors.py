"""What a user can cause, as exceptions.

GrpoError
├── UserError            one clear sentence: what was wrong, where, what to do (a tool error, exit code 2)
│   ├── InputError       an argument or file that cannot be used as it is
│   ├── NotFoundError    an id or path that names nothing
│   ├── MissingPackageError  a package that the wanted step needs, with the command that installs it
│   └── RefusedError     a launch or reading that the gate or the policy does not allow (exit code 1)

Everything else that is raised is a bug and keeps its traceback on stderr.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class GrpoError(Exception):
    """Base of all exceptions of this package."""


class UserError(GrpoError):
    """A mistake that the caller can mend.

    Args:
        message: What was wrong, with the value found.
        where: The argument, file or field it was found in, e.g. `argument 'path'` or `config.json line 3`.
        remedy: What to do next, as an instruction.
    """

    exit_code = 2

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        self.message, self.where, self.remedy = message, where, remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head.rstrip('.')}. {self.remedy}".rstrip() if self.remedy else head


class InputError(UserError):
    """An argument or a file that cannot be used as it is."""


class NotFoundError(UserError):
    """An id or a path that names nothing."""


class MissingPackageError(UserError):
    """A package that the wanted step needs is not installed."""


class RefusedError(UserError):
    """The gate or the policy does not allow this step."""

    exit_code = 1


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the known name nearest to `name`, or an empty string."""
    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{matches[0]}'?)" if matches else ""
