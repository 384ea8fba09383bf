"""What is wrong with a foreign file, gathered while reading goes on."""

from __future__ import annotations

from weft.errors import InvalidInput, Path, Place, Problem
from weft.formats.format import Source

__all__ = ["MAX_COMPLAINTS", "Complaints"]

MAX_COMPLAINTS = 20
"""Reading stops after so many: the rest would mostly repeat the first."""


class Complaints:
    """Collects the problems of one file; ``finish`` raises them all."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []

    def add(self, what: str, *, rule: str = "", advice: str = "", path: Path = (), line: int | None = None,
            column: int | None = None) -> None:  # fmt: skip
        """Note one problem; the last that is allowed raises."""
        place = Place(file=self.source.name, line=line, column=column)
        self.problems.append(Problem(what=what, rule=rule, advice=advice, path=path, place=place))
        if len(self.problems) >= MAX_COMPLAINTS:
            self.finish()

    def finish(self) -> None:
        """Raise everything that was found, if anything was."""
        if self.problems:
            raise InvalidInput(self.problems)
