"""Files of predictions: CSV with a header, or YAML with a list of rows."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from weft.documents import Reader
from weft.errors import InvalidInput, Problem, SourceLocation, nearest
from weft.formats.files import open_source
from weft.formats.format import SourceFile
from weft.platform.platform import Platform
from weft.predictions import COLUMNS, PREDICTIONS, Prediction, make_prediction, unresolved_files
from weft.workflow.workflow import Workflow

_Holder = TypeVar("_Holder", Workflow, Platform)
_MOST_ROWS = 1_000_000


def read_predictions(file: str | Path) -> tuple[Prediction, ...]:
    """Return the predictions in a file; raise InvalidInput with the problems of the file."""
    source = open_source(file)
    if Path(source.name).suffix in (".yaml", ".yml", ".json"):
        return read_yaml_predictions(source)
    return read_csv_predictions(source)


def resolve_predictions(holder: _Holder, folder: Path, first: Iterable[str | Path] = ()) -> _Holder:
    """Return a workflow or platform in which the names of prediction files are replaced by their rows.

    File names in the workflow or platform are relative to ``folder``. ``first`` are further files, relative
    to the current directory; if they have rows for a kind of task, all other rows for this kind are dropped.
    """
    if not (first := list(first)) and not unresolved_files(holder.predictions):
        return holder
    rows = [row for file in first for row in read_predictions(file)]
    replaced = {row.kind for row in rows}
    for item in holder.predictions:
        own = [item] if isinstance(item, Prediction) else read_predictions(folder / item)
        rows += [row for row in own if row.kind not in replaced]
    return replace(holder, predictions=tuple(rows))


def read_yaml_predictions(source: SourceFile) -> tuple[Prediction, ...]:
    """Return the rows of a YAML file; raise InvalidInput with all its problems."""
    from weft.formats.yaml_document import parse_document

    document = parse_document(source.text(), source.name)
    root = document.root
    assert root is not None, "parse_document returns a root or raises"
    reader = Reader()
    entries = reader.mapping(root, ("weft", "predictions"))
    rows = PREDICTIONS.read(reader, entries["predictions"]) if "predictions" in entries else ()
    if not rows and not reader.problems:
        reader.add_problem(
            root, "the file has no predictions", advice="add `predictions:` with a list of rows"
        )
    reader.finish(document)
    if files := unresolved_files(rows):
        what = f"the row {files[0]!r} is a text"
        location = SourceLocation(file=source.name)
        raise InvalidInput(what, rule="a row is a mapping such as {kind: a, seconds: 5}", location=location)
    return tuple(rows)


def is_csv_predictions(source: SourceFile) -> bool:
    """Return whether a file is a table of predictions: it is a .csv file, or has the required columns."""
    lines = (line.strip() for line in source.head.splitlines())
    header = next((line for line in lines if line and not line.startswith("#")), "")
    names = [name.strip().strip('"') for name in header.split(",")]
    return Path(source.name).suffix == ".csv" or (len(names) > 1 and {"kind", "seconds"} <= {*names})


def read_csv_predictions(source: SourceFile) -> tuple[Prediction, ...]:
    """Return the rows of a CSV file; raise InvalidInput with its problems."""
    lines = source.text().splitlines()
    used = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    used = [(number, line) for number, line in used if not line.lstrip().startswith("#")]
    if len(used) > _MOST_ROWS:
        what = f"{len(used):,} rows"
        raise InvalidInput(what, rule=f"at most {_MOST_ROWS:,}", location=SourceLocation(file=source.name))
    table = csv.reader((line for _, line in used), skipinitialspace=True)
    names = [name.strip() for name in next(table, [])]
    problems = list(_header_problems(source, names, used[0][0] if used else 1))
    if problems:
        raise InvalidInput(problems)
    rows: list[Prediction] = []
    for (number, _), cells in zip(used[1:], table, strict=False):
        location = SourceLocation(file=source.name, line=number)
        if len(cells) != len(names):
            what = f"{len(cells)} cells"
            rule = f"the header has {len(names)} columns"
            problems.append(Problem(what=what, rule=rule, location=location))
            continue
        # An empty cell of an optional column means "not stated"; an empty parameter is an error.
        stated = {
            name: cell.strip()
            for name, cell in zip(names, cells, strict=True)
            if cell.strip() or name not in ("machine", "nodes", "p90_seconds", "memory_bytes")
        }
        row, found = make_prediction(stated, "")
        problems += [replace(problem, location=location, path=()) for problem in found]
        rows += [] if row is None else [replace(row, place=f"{source.name}:{number}: ")]
    if not rows and not problems:
        what, location = "the file has no predictions", SourceLocation(file=source.name)
        problems.append(Problem(what=what, advice="add rows below the header", location=location))
    if problems:
        raise InvalidInput(problems[:20])
    return tuple(rows)


def _header_problems(source: SourceFile, names: list[str], line: int) -> Iterator[Problem]:
    location = SourceLocation(file=source.name, line=line)
    for name in ("kind", "seconds"):
        if name not in names:
            near = nearest(name, [each for each in names if each not in COLUMNS])
            advice = f"rename column {near!r}" if near else f"write the header: {','.join(COLUMNS)}"
            yield Problem(what=f"there is no column {name!r}", advice=advice, location=location)
    for name in names:
        if not name or names.count(name) > 1:
            yield Problem(what=f"column {name!r} occurs twice, or has no name", location=location)
            return
