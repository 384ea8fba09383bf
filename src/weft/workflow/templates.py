"""Templates: ``{name}`` in commands, file names and machine names.

``{{`` and ``}}`` are braces; ``${...}`` and braces that hold no plain name (``awk '{print $1}'``) stay as
they are. Names that are known only when a machine has been chosen (``{nodes}``, ``{machine.arch}``) stay for
a later turn.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from weft.expressions import Value

__all__ = ["LATE_NAMES", "Field", "fields", "fill", "is_late", "pieces", "shown"]

LATE_NAMES = ("inputs", "outputs", "nodes", "cores", "memory_mb", "iteration", "task")
"""Names filled in when a task is about to start; so are ``machine.*`` and results of other tasks."""

_BRACES = {"{{": "{", "}}": "}"}
_PIECE = re.compile(r"\$\{[^}]*\}|\{\{|\}\}|\{([A-Za-z_]\w*(?:\.\w+)*)(:raw)?\}")


@dataclass(frozen=True, slots=True)
class Field:
    """One ``{name}``; ``raw`` is not shell-quoted."""

    name: str
    raw: bool


@functools.lru_cache(maxsize=4096)
def pieces(text: str) -> tuple[str | Field, ...]:
    """Take a template apart: names in braces, and what stands between them."""
    found: list[str | Field] = []
    end = 0
    for match in _PIECE.finditer(text):
        found.append(text[end : match.start()])
        found.append(Field(match[1], match[2] is not None) if match[1] else match[0])
        end = match.end()
    found.append(text[end:])
    return tuple(piece for piece in found if piece != "")


def fields(text: str) -> list[Field]:
    """List the names a template uses."""
    return [piece for piece in pieces(text) if isinstance(piece, Field)] if "{" in text else []


def is_late(name: str) -> bool:
    """Say whether a name gets its value only when the task is about to start."""
    return name in LATE_NAMES or "." in name


def shown(value: Value) -> str:
    """Write a value as it appears in names: 3, 0.4, true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def fill(text: str, values: Mapping[str, Value], *, quote: bool = False, last: bool = True) -> str:
    """Replace the names that have a value; others stay, braces and all.

    The last turn makes ``{{`` and ``}}`` plain braces; an earlier one leaves them, lest the next turn take
    what stands between them for a name. With ``quote`` every replacement is quoted for the shell, save
    ``{name:raw}``.
    """
    if "{" not in text and "}" not in text:
        return text
    parts = []
    for piece in pieces(text):
        if isinstance(piece, str):
            parts.append(_BRACES.get(piece, piece) if last else piece)
        elif piece.name in values:
            parts.append(_replacement(values[piece.name], quote and not piece.raw))
        else:
            parts.append("{" + piece.name + (":raw" if piece.raw else "") + "}")
    return "".join(parts)


def _replacement(value: Value, quote: bool) -> str:
    """Write a value; the entries of a list (``{inputs}``) one after the other."""
    words = [shown(entry) for entry in (value if isinstance(value, list) else [value])]
    return " ".join(shlex.quote(word) if quote else word for word in words)
