"""Templates (``{name}`` in commands, file and machine names) and file names with wildcards.

``{{`` and ``}}`` are literal braces, also after a dollar sign. ``${...}`` and braces without a plain name
(``awk '{print $1}'``) are left unchanged. Names that are defined only when a machine is selected
(``{nodes}``, ``{machine.arch}``) are kept for a later call of ``fill_template``. A file name with ``*`` or
``?``, or a directory with a final slash, means several files.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

from weft.expressions import Value
from weft.records import dataclass

_LATE_NAMES = ("inputs", "outputs", "nodes", "cores", "memory_mb", "iteration", "task")
"""Names that are defined when a task starts, as are ``machine.*`` and results of other tasks."""

_BRACES = {"{{": "{", "}}": "}"}
_PIECE = re.compile(r"\$\{(?!\{)[^}]*\}|\{\{|\}\}|\{([A-Za-z_]\w*(?:\.\w+)*)(:raw)?\}")


@dataclass(frozen=True, slots=True)
class TemplateField:
    """One field ``{name}``; with ``raw`` (``{name:raw}``) its value becomes text of a shell command."""

    name: str
    raw: bool


@functools.lru_cache(maxsize=4096)
def split_template(text: str) -> tuple[str | TemplateField, ...]:
    """Return the fields of a template and the texts between them, in order."""
    found: list[str | TemplateField] = []
    end = 0
    for match in _PIECE.finditer(text):
        found.append(text[end : match.start()])
        found.append(TemplateField(match[1], match[2] is not None) if match[1] else match[0])
        end = match.end()
    found.append(text[end:])
    return tuple(piece for piece in found if piece != "")


def list_fields(text: str) -> list[TemplateField]:
    """Return the fields of a template."""
    return (
        [piece for piece in split_template(text) if isinstance(piece, TemplateField)] if "{" in text else []
    )


def is_late(name: str) -> bool:
    """Return whether a name is defined only when the task starts."""
    return name in _LATE_NAMES or "." in name


def format_value(value: Value) -> str:
    """Return a value as it appears in names: 3, 0.4, true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def format_values(values: Sequence[Value]) -> Iterable[str]:
    """Return values as they appear in names."""
    return map(str if isinstance(values, range) else format_value, values)


def fill_template(text: str, values: Mapping[str, Value], *, last: bool = True) -> str:
    """Return a template with the fields of known names replaced; other fields are kept.

    If ``last``, ``{{`` and ``}}`` are also converted to braces. An earlier call must keep them; otherwise the
    next call would read the text between them as a field.
    """
    if "{" not in text and "}" not in text:
        return text
    return "".join([_fill_piece(piece, values, last=last) for piece in split_template(text)])


def fill_templates(
    text: str, values: Mapping[str, Value], names: Sequence[str], rows: Iterable[tuple[str, ...]]
) -> list[str]:
    """Return ``fill_template`` for many rows: ``rows`` have the texts of ``names``, which hide ``values``."""
    pieces: list[str] = []
    for piece in split_template(text):
        if isinstance(piece, TemplateField) and piece.name in names:
            pieces.append(f"{{{names.index(piece.name)}}}")
        else:
            pieces.append(_fill_piece(piece, values, last=True).replace("{", "{{").replace("}", "}}"))
    fill = "".join(pieces).format
    return [fill(*row) for row in rows]


def _fill_piece(piece: str | TemplateField, values: Mapping[str, Value], *, last: bool) -> str:
    if isinstance(piece, str):
        return _BRACES.get(piece, piece) if last else piece
    if piece.name in values:
        return _replacement(values[piece.name])
    return "{" + piece.name + (":raw" if piece.raw else "") + "}"


def _replacement(value: Value) -> str:
    """Return a value as text; the entries of a list (``{inputs}``) are separated by blanks."""
    return " ".join(format_value(entry) for entry in (value if isinstance(value, list) else [value]))


_LAST_CHARACTER = "\U0010ffff"


def is_pattern(name: str) -> bool:
    """Return whether a file name is a wildcard or a directory."""
    return "*" in name or "?" in name or name.endswith("/")


def match_names(names: Sequence[str], pattern: str) -> list[str]:
    """Return the names that match a pattern; ``names`` must be sorted, for a search by bisection."""
    matches = make_matcher(pattern + "*" if pattern.endswith("/") else pattern)
    return [name for name in candidate_names(names, pattern) if matches(name)]


def candidate_names(names: Sequence[str], pattern: str) -> Sequence[str]:
    """Return those of some sorted names that begin like a pattern, up to its first wildcard."""
    beginning = literal_beginning(pattern)
    first = bisect_left(names, beginning)
    return names[first : bisect_left(names, beginning + _LAST_CHARACTER, first)]


def literal_beginning(pattern: str) -> str:
    """Return the text before the first wildcard of a pattern."""
    return re.split(r"[*?[]", pattern, maxsplit=1)[0]


def make_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a name matches a pattern, as ``fnmatch.fnmatchcase``."""
    beginning, star, end = pattern.partition("*")
    if star and not re.search(r"[*?[]", beginning + end):
        # One asterisk, the usual case: to compile a pattern takes longer than to read a thousand names.
        least = len(beginning) + len(end)
        return lambda name: len(name) >= least and name.startswith(beginning) and name.endswith(end)
    found = re.compile(fnmatch.translate(pattern)).match
    return lambda name: found(name) is not None
