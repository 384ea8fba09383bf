"""Arrivals from a trace: a CSV file with the columns ``workflow``, ``at`` and ``owner``."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import PurePath

from weft.documents import Node, Reader
from weft.errors import Place, Problem, nearest, shorten
from weft.simulation.scenario import Arrival, Trace
from weft.units import parse_seconds

__all__ = ["COLUMNS", "read_trace"]

COLUMNS = ("workflow", "at", "owner")
"""The columns of a trace; the owner may be left out."""


def read_trace(reader: Reader, node: Node, folder: PurePath, owner: str | None) -> Trace | None:
    """Read the file that an entry names; ``owner`` is that of rows without one."""
    from weft.formats.files import open_source

    name = reader.text(node)
    if name is None:
        return None
    source = reader.guard(node, lambda: open_source(str(folder / name)))
    text = None if source is None else reader.guard(node, source.text)
    if text is None:
        return None
    lines = csv.DictReader(io.StringIO(text), skipinitialspace=True, restkey="")
    found = _Rows(reader, source.name, owner)
    try:
        if found.knows(lines.fieldnames or ()):
            arrivals = [found.arrival(row, lines.line_num) for row in lines]
            return Trace(file=name, arrivals=tuple(each for each in arrivals if each is not None))
    except csv.Error as error:
        found.complain(lines.line_num, f"no CSV: {error}")
    return None


class _Rows:
    """Reads the rows of one file; what is wrong with them is noted with their line."""

    def __init__(self, reader: Reader, file: str, owner: str | None) -> None:
        self._reader, self._file, self._owner = reader, file, owner

    def complain(self, line: int, what: str, rule: str = "", advice: str = "") -> None:
        """Note a problem of a line."""
        place = Place(file=self._file, line=max(line, 1))
        self._reader.problems.append(Problem(what=what, rule=rule, advice=advice, place=place))

    def knows(self, names: object) -> bool:
        """Say whether the header names the columns that are needed, and no others."""
        header = [str(name).strip() for name in names] if isinstance(names, list) else []
        for name in header:
            if name not in COLUMNS:
                close = nearest(name, COLUMNS)
                advice = f"did you mean {close!r}?" if close else f"known: {', '.join(COLUMNS)}"
                self.complain(1, f"unknown column {shorten(repr(name))}", advice=advice)
        missing = [name for name in COLUMNS[:2] if name not in header]
        if missing:
            advice = "begin the file with the line workflow,at,owner"
            self.complain(1, f"no column {' and no column '.join(map(repr, missing))}", advice=advice)
        return not missing

    def arrival(self, row: Mapping[str, str | None], line: int) -> Arrival | None:
        """Read one row."""
        values = {key.strip(): (value or "").strip() for key, value in row.items() if key}
        if "" in row:
            self.complain(line, "more values than columns")
            return None
        at_s = parse_seconds(values["at"])
        if at_s is None or not math.isfinite(at_s):
            what = f"{shorten(repr(values['at']))} is not allowed"
            self.complain(line, what, rule="`at` must be a time such as 90 or 1h30m, at least 0")
        if not values["workflow"]:
            self.complain(line, "a row without a workflow", rule="`workflow` names its file")
        if at_s is None or not values["workflow"]:
            return None
        return Arrival(workflow=values["workflow"], at_s=at_s, owner=values.get("owner") or self._owner)
