"""Names of files that stand for several: wildcards (``part.*``), and folders, which end with a slash."""

from __future__ import annotations

import fnmatch
import re
from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["is_pattern", "names_held"]

_LAST_SIGN = "\U0010ffff"


def is_pattern(name: str) -> bool:
    """Say whether a name stands for several files."""
    return "*" in name or "?" in name or name.endswith("/")


def names_held(names: Sequence[str], pattern: str) -> list[str]:
    """List those of some sorted names that a pattern stands for; only those that begin alike are tried."""
    beginning = re.split(r"[*?[]", pattern, maxsplit=1)[0]
    first = bisect_left(names, beginning)
    last = bisect_left(names, beginning + _LAST_SIGN, first)
    whole = pattern + "*" if pattern.endswith("/") else pattern
    return [name for name in names[first:last] if fnmatch.fnmatchcase(name, whole)]
