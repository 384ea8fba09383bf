"""What can go wrong, as types: a user's mistake, an impossible demand, and the places they point at.

Every message names four things: what was found and where, the value, the rule it breaks, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "DocumentPath",
    "Infeasible",
    "InvalidInput",
    "Locked",
    "Problem",
    "SourceLocation",
    "WeftError",
    "format_path",
    "nearest",
    "shorten",
]

DocumentPath = tuple[str | int, ...]
"""The way to a value inside a document: ``("tasks", "lapw1", "after", 0)``."""


def format_path(path: DocumentPath) -> str:
    """Write a path as users read it: ``tasks.lapw1.after[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def shorten(value: object, limit: int = 60) -> str:
    """Show a value in a message without flooding the terminal, however large it is."""
    if isinstance(value, int) and value.bit_length() > 10_000:
        return f"a whole number of {value.bit_length()} bits"  # Python refuses to print such numbers
    text = value if isinstance(value, str) else repr(value)
    text = text[: limit + 1].replace("\n", "\\n")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Find the known word that was probably meant, or None when nothing is close."""
    if len(word) > 100:
        return None
    matches = difflib.get_close_matches(word, list(known)[:5000], n=1, cutoff=0.6)
    return matches[0] if matches else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """Where in a file (or in a Python call) something was written. Lines and columns count from 1."""

    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [self.file or "<input>", self.line, self.column]
        return ":".join(str(part) for part in parts if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with what the user wrote."""

    what: str
    """What was found, with the offending name or value in it."""
    rule: str = ""
    """The rule it breaks."""
    advice: str = ""
    """What to do about it."""
    path: DocumentPath = ()
    place: SourceLocation | None = None

    def __str__(self) -> str:
        where = ""
        if self.place is not None:
            where += f"{self.place}: "
        if self.path:
            where += f"{format_path(self.path)}: "
        tail = "".join(f"; {part}" for part in (self.rule, self.advice) if part)
        return f"{where}{self.what}{tail}"

    def as_record(self) -> dict[str, object]:
        """Give the problem as plain data for ``--json``."""
        place = self.place or SourceLocation()
        return {
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "path": format_path(self.path),
            "what": self.what,
            "rule": self.rule,
            "advice": self.advice,
        }


class WeftError(Exception):
    """Base of everything weft raises on purpose; ``exit_code`` is what the shell sees."""

    exit_code = 1


class InvalidInput(WeftError):
    """The user's input breaks a rule. Carries every problem found, not only the first."""

    exit_code = 2

    def __init__(self, problems: Problem | Sequence[Problem] | str) -> None:
        if isinstance(problems, str):
            problems = Problem(what=problems)
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Infeasible(WeftError):
    """The input is valid, but no plan can exist on this platform."""

    exit_code = 3


class Locked(WeftError):
    """Another engine is at work in this project."""

    exit_code = 4
