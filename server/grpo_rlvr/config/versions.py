"""Versions of packages, compared by release: 1.16.0.dev0 has the options of 1.16.0."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from grpo_rlvr.errors import InputError


@lru_cache(maxsize=512)
def release(text: str) -> Version:
    """Return the release part of a version, e.g. 0.15 for 0.15.0.dev0.

    Raises:
        InputError: not a version.
    """
    try:
        return Version(Version(text).base_version)
    except (InvalidVersion, TypeError):
        raise InputError(
            f"not a version: {str(text)[:80]!r}", where="TRL or package version", remedy="Write it like 1.16.0."
        ) from None


@lru_cache(maxsize=2048)
def in_range(version: str, spec: str) -> bool:
    """Return whether a version's release lies in a range such as `>=0.18,<1.10`.

    Raises:
        InputError: not a version.
    """
    return SpecifierSet(spec).contains(release(version))


@dataclass(frozen=True)
class Versions:
    """Package versions as the setup states them, with TRL's own resolved. An unstated package is None.

    `came_from` is the TRL version that the config was written for, where the caller names one.
    """

    trl: str
    stated: Mapping[str, Any]
    came_from: str | None = None

    def get(self, package: str) -> str | None:
        """Return the stated version of a package, None when it is not stated."""
        value = self.trl if package == "trl" else self.stated.get(package)
        return str(value) if value is not None else None

    def within(self, package: str, spec: str) -> bool | None:
        """Return whether a package's version lies in a range such as `>=0.22,<0.32`; None when it is not stated."""
        value = self.get(package)
        return None if value is None else in_range(value, spec)

    def trl_is(self, spec: str) -> bool:
        """Return whether the TRL version lies in a range such as `>=0.18`."""
        return in_range(self.trl, spec)
