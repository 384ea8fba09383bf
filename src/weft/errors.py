"""Errors that weft raises, and the problems they report.

Every message says four things: what was found and where, the value, the rule it violates, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.records import dataclass
from weft.redaction import redact_start

if TYPE_CHECKING:
    from typing import TypeAlias

DocumentPath: TypeAlias = "tuple[str | int, ...]"
"""Keys and indices that lead to a value inside a document: ``("tasks", "lapw1", "after", 0)``."""


def format_path(path: DocumentPath) -> str:
    """Return a path as text: ``tasks.lapw1.after[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text if text.isprintable() else repr(text)[1:-1]


def shorten(value: object, limit: int = 60) -> str:
    """Return a value as one line of at most ``limit`` characters, for messages."""
    if isinstance(value, int) and value.bit_length() > 10_000:
        return f"a whole number of {value.bit_length()} bits"  # Python does not convert such numbers to text
    text = value if isinstance(value, str) else repr(value)
    if len(text) > limit:
        text = redact_start(text, limit + 1)  # before the text is cut: a part of a secret is not recognised
    text = text.replace("\n", "\\n")
    return text if len(text) <= limit else text[: limit - 1] + "…"


_PREFIX = 3
"""Minimum length of a word for which ``nearest`` suggests known words that begin with it."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the shortest known word that begins with ``word``, else the most similar known word.

    Return None if no known word is similar enough, or if ``word`` has more than 100 characters.
    """
    if len(word) > 100:
        return None
    words = list(known)[:5000]
    longer = [each for each in words if each.startswith(word)] if len(word) >= _PREFIX else ()
    if longer:
        return min(longer, key=len)
    import difflib

    matches = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the advice ``did you mean 'x'?`` for the most similar known word, or ``otherwise``."""
    close = nearest(word, known)
    return f"did you mean {close!r}?" if close else otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A position in a file or in Python code. Lines and columns count from 1."""

    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [self.file or "<input>", self.line, self.column]
        return ":".join(str(part) for part in parts if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error in the user's input."""

    what: str
    """What was found; the text contains the offending name or value."""
    rule: str = ""
    """Rule that the input violates."""
    advice: str = ""
    """How to correct the input."""
    path: DocumentPath = ()
    location: SourceLocation | None = None

    def __str__(self) -> str:
        where = ""
        if self.location is not None and self.location != SourceLocation():
            where += f"{self.location}: "
        if self.path:
            where += f"{format_path(self.path)}: "
        tail = "".join(f"; {part}" for part in (self.rule, self.advice) if part)
        return f"{where}{self.what}{tail}"

    def as_record(self) -> dict[str, object]:
        """Return the problem as a JSON object for ``--json``."""
        location = self.location or SourceLocation()
        return {
            "file": location.file,
            "line": location.line,
            "column": location.column,
            "path": format_path(self.path),
            "what": self.what,
            "rule": self.rule,
            "advice": self.advice,
        }


class WeftError(Exception):
    """Base class of the errors of weft; ``exit_code`` is the exit code of the command."""

    exit_code = 1


class InvalidInput(WeftError):
    """Invalid input. ``problems`` holds every problem found, not only the first.

    Instead of problems, the fields of a single ``Problem`` can be passed; the first argument is then its
    ``what``.
    """

    exit_code = 2

    def __init__(
        self,
        problems: Problem | Sequence[Problem] | str,
        *,
        rule: str = "",
        advice: str = "",
        path: DocumentPath = (),
        location: SourceLocation | None = None,
    ) -> None:
        if isinstance(problems, str):
            problems = Problem(what=problems, rule=rule, advice=advice, path=path, location=location)
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@contextmanager
def collect_problems(found: list[Problem]) -> Iterator[None]:
    """Context manager that appends the problems of InvalidInput to a list instead of raising the error."""
    try:
        yield
    except InvalidInput as error:
        found += [each for each in error.problems if each not in found]


class Infeasible(WeftError):
    """The input is valid, but no feasible plan exists on this platform."""

    exit_code = 3


class Locked(WeftError):
    """Another process holds the lock of this project."""

    exit_code = 4
