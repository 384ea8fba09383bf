"""Predictions by users: seconds of a kind of task, by machine, node count and parameters."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any

from weft.documents import DocumentNode, Reader
from weft.errors import DocumentPath, Problem, nearest, shorten, suggest
from weft.fields import QUANTITY_SHAPE, TEXT_SHAPE, Shape, ValueType, any_of, list_shape
from weft.records import dataclass
from weft.units import parse_bytes, parse_seconds

EVERY_MACHINE = "*"
"""Machine name in predictions that hold for all machines; they state seconds at speed 1."""
INPUT_BYTES = "input_bytes"
"""Name of the column with the bytes of all inputs of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One measured or predicted time of a kind of task."""

    kind: str
    """Name of the task."""
    seconds: float
    machine: str = EVERY_MACHINE
    nodes: int = 1
    parameters: Mapping[str, float] = field(default_factory=dict)
    """Values of the parameters for which the time holds; ``input_bytes`` is the size of the inputs."""
    p90_seconds: float | None = None
    memory_bytes: float | None = None
    place: str = field(default="", compare=False)
    """File and line, for messages."""


@dataclass(frozen=True, slots=True)
class PredictionColumn:
    """A column of a prediction file: function that reads a value, rule for messages, and help text."""

    read: Any
    rule: str
    help: str


def _whole(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and number >= 1 and number == int(number) else None


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if finite else None  # type: ignore[arg-type]


def _time(value: object) -> float | None:
    number = parse_seconds(value) if isinstance(value, str) else _number(value)
    return number if number is not None and number > 0 else None


def _size(value: object) -> float | None:
    number = parse_bytes(value) if isinstance(value, str) else _number(value)
    return number if number is not None and number >= 0 else None


def _text(value: object) -> str | None:
    text = "" if value is None or isinstance(value, list | dict | bool) else str(value).strip()
    return text or None


COLUMNS: Mapping[str, PredictionColumn] = {
    "kind": PredictionColumn(_text, "must be the name of a task", "name of the task"),
    "machine": PredictionColumn(
        _text, "must be the name of a machine, or *", "machine; `*`: all machines, with seconds at speed 1"
    ),
    "nodes": PredictionColumn(_whole, "must be a whole number, at least 1", "node count"),
    "seconds": PredictionColumn(_time, "must be a time above 0", "measured or predicted time"),
    "p90_seconds": PredictionColumn(_time, "must be a time above 0", "time that 90 % do not exceed"),
    "memory_bytes": PredictionColumn(_size, "must be a size, at least 0", "peak memory"),
}
"""The columns with a fixed meaning; all others are numeric parameters."""
_REQUIRED = ("kind", "seconds")


def make_prediction(
    stated: Mapping[str, object], place: str, path: DocumentPath = ()
) -> tuple[Prediction | None, list[Problem]]:
    """Return (prediction, []) for a valid row, (None, problems) for an invalid one.

    ``place`` is the beginning of messages, ``path`` the path of the row in its document.
    """
    values: dict[str, Any] = {}
    parameters: dict[str, float] = {}
    problems = []
    for name, value in stated.items():
        column = COLUMNS.get(name)
        found = _number(value) if column is None else column.read(value)
        if found is None:
            rule = "must be a finite number" if column is None else column.rule
            shown = "is missing" if value in (None, "") else f"is {shorten(repr(value))}"
            problems.append(Problem(what=f"{place}{name} {shown}", rule=rule, path=(*path, name)))
        elif column is None:
            parameters[name] = found
        else:
            values[name] = int(found) if name == "nodes" else found
    problems += [
        Problem(what=f"{place}{name} is missing", rule=COLUMNS[name].rule, path=path)
        for name in _REQUIRED
        if name not in stated
    ]
    if not problems and values.get("p90_seconds", math.inf) < values["seconds"]:
        what = f"{place}p90_seconds {values['p90_seconds']:g} is below seconds {values['seconds']:g}"
        problems.append(Problem(what=what, rule="must be at least the value of 'seconds'", path=path))
    if problems:
        return None, problems
    return Prediction(**values, parameters=parameters, place=place), []


def write_prediction(row: Prediction) -> dict[str, Any]:
    """Return a prediction as plain data with the keys of a file."""
    found: dict[str, Any] = {"kind": row.kind}
    if row.machine != EVERY_MACHINE:
        found["machine"] = row.machine
    found |= {"nodes": row.nodes, **row.parameters, "seconds": row.seconds}
    optional = {"p90_seconds": row.p90_seconds, "memory_bytes": row.memory_bytes}
    return found | {name: value for name, value in optional.items() if value is not None}


def _read_predictions(reader: Reader, node: DocumentNode) -> tuple[Prediction | str, ...]:
    """Return the items of the key ``predictions``: rows as Prediction, names of prediction files as text."""
    found: list[Prediction | str] = []
    for item in reader.listing(node):
        if not isinstance(item.value, dict):
            if (name := reader.text(item)) is not None:
                found.append(name)
            continue
        row, problems = make_prediction(item.to_plain(), "")
        for problem in problems:
            reader.add_problem(item, problem.what, rule=problem.rule)
        found += [] if row is None else [row]
    return tuple(found)


def _write_predictions(rows: Iterable[Prediction | str]) -> list[Any]:
    return [row if isinstance(row, str) else write_prediction(row) for row in rows]


_ROW_SHAPE: Shape = {
    "type": "object",
    "properties": {
        "kind": TEXT_SHAPE,
        "machine": TEXT_SHAPE,
        "nodes": {"type": "integer", "minimum": 1},
        "seconds": QUANTITY_SHAPE,
        "p90_seconds": QUANTITY_SHAPE,
        "memory_bytes": QUANTITY_SHAPE,
    },
    "additionalProperties": {"type": "number"},
    "required": list(_REQUIRED),
}
PREDICTIONS = ValueType(
    "file, or list of files and rows",
    any_of(TEXT_SHAPE, list_shape(any_of(TEXT_SHAPE, _ROW_SHAPE))),
    _read_predictions,
    _write_predictions,
)


def unresolved_files(rows: Iterable[Prediction | str]) -> list[str]:
    """Return the names of files whose rows have not been read yet."""
    return [row for row in rows if isinstance(row, str)]


def find_parameter_problems(
    rows: Iterable[Prediction | str], known: Mapping[str, Iterable[str]]
) -> Iterable[Problem]:
    """Yield a problem for each column of predictions that is not a parameter of its kind of task.

    ``known``: names of the parameters and sweep variables of a kind of task, by kind. Rows of other kinds are
    not checked, because they may be for other workflows.
    """
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if isinstance(row, str) or row.kind not in known:
            continue
        names = [*known[row.kind], INPUT_BYTES]
        for name in row.parameters:
            if name not in names and (row.kind, name) not in seen:
                seen.add((row.kind, name))
                what = f"{row.place}column {name!r} of the predictions of {row.kind!r}"
                advice = suggest(name, names, f"known: {', '.join(names)}")
                rule = "must be a parameter or sweep variable of the task, or input_bytes"
                yield Problem(what=what, rule=rule, advice=advice, path=("predictions",))


_SHOWN_UNUSED = 5


def note_unused(
    rows: Iterable[Prediction | str], kinds: Collection[str] | None, machines: Collection[str] | None
) -> list[str]:
    """Return notes about predictions without effect, because their kind or machine does not exist.

    ``kinds``: names of all tasks; None: kinds are not checked. ``machines``: names of all machines; None:
    machines are not checked.
    """
    found: dict[str, None] = {}
    for row in rows:
        if isinstance(row, str):
            continue
        if kinds is not None and row.kind not in kinds:
            found[_unused_text("task", row.kind, kinds)] = None
        elif machines is not None and row.machine not in (EVERY_MACHINE, *machines):
            found[_unused_text("machine", row.machine, machines)] = None
    more = len(found) - _SHOWN_UNUSED
    notes = list(found)[:_SHOWN_UNUSED]
    return [*notes, f"{more} more names in predictions match no task or machine"] if more > 0 else notes


def _unused_text(what: str, name: str, known: Collection[str]) -> str:
    near = nearest(name, known)
    advice = f"; did you mean {near!r}?" if near else ""
    return f"predictions of {what} {shorten(name, 40)!r} have no effect: there is no such {what}{advice}"
