"""When a kwarg arrived and when it left, seen from one pair of TRL and transformers releases."""

from dataclasses import dataclass

from grpo_rlvr.config.tables import Table, known_versions, lifetimes, transformers_history
from grpo_rlvr.config.versions import release


@dataclass(frozen=True)
class Lifetime:
    """What is known of a name that a table lacks.

    `arrives` and `removed` are texts such as `TRL 0.18`; `last` is the last release that had it.
    """

    arrives: str | None = None
    removed: str | None = None
    last: str | None = None

    @property
    def known(self) -> bool:
        """Whether some release has or had the name."""
        return self.arrives is not None or self.removed is not None


def minor(version: str) -> str:
    """Return the minor of a version, e.g. 1.16."""
    return ".".join(version.split(".")[:2])


def lifetime(name: str, table: Table) -> Lifetime:
    """Return when `name`, which the table lacks, arrives or was removed."""
    return _in_trl(name, table) or _in_transformers(name, table) or Lifetime()


def _in_trl(name: str, table: Table) -> Lifetime | None:
    span = lifetimes().get(name)
    if span is None:
        return None
    versions = known_versions()
    here = release(table.trl)
    if release(span[0]) > here:
        return Lifetime(arrives=f"TRL {minor(span[0])}")
    if release(span[1]) < here:
        after = versions[versions.index(span[1]) + 1]
        return Lifetime(removed=f"TRL {minor(after)}", last=minor(span[1]))
    return None


def _in_transformers(name: str, table: Table) -> Lifetime | None:
    history = transformers_history()
    spans, releases = history["fields"].get(name), history["releases"]
    if not spans:
        return None
    first, last = releases[spans[0][0]], releases[spans[-1][1]]
    if release(first).release[:2] > release(table.transformers).release[:2]:
        return Lifetime(arrives=f"transformers {minor(first)}")
    if last != releases[-1]:
        after = releases[spans[-1][1] + 1]
        return Lifetime(removed=f"transformers {minor(after)}", last=minor(last))
    return None
