"""Templates: ``{name}`` in commands, file names and machine names.

``{{`` and ``}}`` are braces; ``${...}`` and braces that hold no plain name (``awk '{print $1}'``) stay as
they are. Names that are known only when a machine has been chosen (``{nodes}``, ``{machine.arch}``) stay for
a later turn.

Names of files that stand for several: wildcards (``part.*``), and folders, which end with a slash.
"""

from __future__ import annotations

import fnmatch
import functools
import re
import shlex
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.expressions import Value

__all__ = [
    "LATE_NAMES",
    "TemplateField",
    "fill_template",
    "format_value",
    "is_late",
    "is_pattern",
    "list_fields",
    "match_names",
    "split_template",
]


LATE_NAMES = ("inputs", "outputs", "nodes", "cores", "memory_mb", "iteration", "task")
"""Names filled in when a task is about to start; so are ``machine.*`` and results of other tasks."""

_BRACES = {"{{": "{", "}}": "}"}
_PIECE = re.compile(r"\$\{[^}]*\}|\{\{|\}\}|\{([A-Za-z_]\w*(?:\.\w+)*)(:raw)?\}")


@dataclass(frozen=True, slots=True)
class TemplateField:
    """One ``{name}``; ``raw`` is not shell-quoted."""

    name: str
    raw: bool


@functools.lru_cache(maxsize=4096)
def split_template(text: str) -> tuple[str | TemplateField, ...]:
    """Take a template apart: names in braces, and what stands between them."""
    found: list[str | TemplateField] = []
    end = 0
    for match in _PIECE.finditer(text):
        found.append(text[end : match.start()])
        found.append(TemplateField(match[1], match[2] is not None) if match[1] else match[0])
        end = match.end()
    found.append(text[end:])
    return tuple(piece for piece in found if piece != "")


def list_fields(text: str) -> list[TemplateField]:
    """List the names a template uses."""
    return (
        [piece for piece in split_template(text) if isinstance(piece, TemplateField)] if "{" in text else []
    )


def is_late(name: str) -> bool:
    """Say whether a name gets its value only when the task is about to start."""
    return name in LATE_NAMES or "." in name


def format_value(value: Value) -> str:
    """Write a value as it appears in names: 3, 0.4, true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def fill_template(text: str, values: Mapping[str, Value], *, quote: bool = False, last: bool = True) -> str:
    """Replace the names that have a value; others stay, braces and all.

    The last turn makes ``{{`` and ``}}`` plain braces; an earlier one leaves them, lest the next turn take
    what stands between them for a name. With ``quote`` every replacement is quoted for the shell, save
    ``{name:raw}``.
    """
    if "{" not in text and "}" not in text:
        return text
    parts = []
    for piece in split_template(text):
        if isinstance(piece, str):
            parts.append(_BRACES.get(piece, piece) if last else piece)
        elif piece.name in values:
            parts.append(_replacement(values[piece.name], quote and not piece.raw))
        else:
            parts.append("{" + piece.name + (":raw" if piece.raw else "") + "}")
    return "".join(parts)


def _replacement(value: Value, quote: bool) -> str:
    """Write a value; the entries of a list (``{inputs}``) one after the other."""
    words = [format_value(entry) for entry in (value if isinstance(value, list) else [value])]
    return " ".join(shlex.quote(word) if quote else word for word in words)


_LAST_SIGN = "\U0010ffff"


def is_pattern(name: str) -> bool:
    """Say whether a name stands for several files."""
    return "*" in name or "?" in name or name.endswith("/")


def match_names(names: Sequence[str], pattern: str) -> list[str]:
    """List those of some sorted names that a pattern stands for; only those that begin alike are tried."""
    beginning = re.split(r"[*?[]", pattern, maxsplit=1)[0]
    first = bisect_left(names, beginning)
    last = bisect_left(names, beginning + _LAST_SIGN, first)
    whole = pattern + "*" if pattern.endswith("/") else pattern
    return [name for name in names[first:last] if fnmatch.fnmatchcase(name, whole)]
