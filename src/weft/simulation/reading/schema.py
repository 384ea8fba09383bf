"""The JSON Schema of scenario files, made from the tables of keys that the reader uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.formats.schema import published
from weft.formats.schema_shapes import (
    AT_LEAST_0,
    EXPRESSION,
    QUANTITY,
    TEXT,
    Shape,
    choice,
    either,
    listing,
    mapping,
    record,
)
from weft.simulation.reading import keys
from weft.simulation.scenario import FAILURE_WORDS, NETWORKS, SILENT_PARTS

__all__ = ["scenario_schema"]

_NOTHING: Shape = {"type": "null"}
_ABOVE_0: Shape = {"type": "number", "exclusiveMinimum": 0}
_TIME_ABOVE_0: Shape = {"type": ["number", "string"], "exclusiveMinimum": 0}
_AT_LEAST_1: Shape = {"type": "integer", "minimum": 1}
_SPAN: Shape = {"type": ["number", "string"], "minimum": 1}
_MACHINES: dict[str, Shape] = {"machine": listing(TEXT), "machines": listing(TEXT)}


def scenario_schema() -> Shape:
    """Describe a scenario file."""
    shapes: dict[str, Shape] = {
        "weft": {"const": keys.VERSION},
        "name": TEXT,
        "description": TEXT,
        "arrivals": listing(_arrival()),
        "durations": _durations(),
        "perturbations": listing(_perturbation()),
        "failures": listing(_failure()),
        "loads": listing(_load()),
        "silences": listing(_silence()),
        "suspensions": listing(_suspension()),
        "cancellations": listing(
            _entry(keys.CANCELLATION_KEYS, {"task": TEXT, "at": QUANTITY}, ("task", "at"))
        ),
        "requirements": listing(_requirement()),
        "exit_codes": mapping(_at_least_one(_end())),
        "results": mapping(_at_least_one(mapping({"type": ["string", "number", "boolean", "null"]}))),
        "iterations": mapping(_AT_LEAST_1),
        "lines": mapping({"type": "integer", "minimum": 0}),
        "network": choice(NETWORKS),
        "overhead_per_task": QUANTITY,
        "stage_latency": QUANTITY,
        "profiles": mapping(_AT_LEAST_1),
        "denied": listing(TEXT),
        "replanning": _entry(keys.REPLANNING_KEYS, {"seconds_per_point": QUANTITY}),
    }
    return published("scenario", _entry(keys.SCENARIO_KEYS, shapes, ("weft",)))


def _entry(table: Mapping[str, str], shapes: Mapping[str, Shape], required: Sequence[str] = ()) -> Shape:
    """Describe a mapping; a key without a value counts as not written, if it need not be there."""
    open_keys = {key: shape if key in required else either(shape, _NOTHING) for key, shape in shapes.items()}
    return record(table, open_keys, required)


def _at_least_one(item: Shape) -> Shape:
    return either(item, {"type": "array", "items": item, "minItems": 1})


def _arrival() -> Shape:
    shapes = {
        "workflow": TEXT,
        "mix": {**mapping(_AT_LEAST_1), "minProperties": 1},
        "order": _at_least_one(TEXT),
        "trace": TEXT,
        "count": _AT_LEAST_1,
        "at": QUANTITY,
        "every": QUANTITY,
        "poisson": QUANTITY,
        "from": QUANTITY,
        "owner": TEXT,
    }
    what = [{"required": [key]} for key in ("workflow", "mix", "order", "trace")]
    return {**_entry(keys.ARRIVAL_KEYS, shapes), "oneOf": what}


def _durations() -> Shape:
    own = {"noise": AT_LEAST_0, "bias": _ABOVE_0}
    tasks = mapping(_entry(keys.TASK_DURATION_KEYS, own))
    return _entry(keys.DURATION_KEYS, {**own, "tasks": tasks})


def _perturbation() -> Shape:
    shapes = {
        **_MACHINES,
        "slowdown": _SPAN,
        "lasting": QUANTITY,
        "at": QUANTITY,
        "every": _TIME_ABOVE_0,
        "from": QUANTITY,
        "until": QUANTITY,
    }
    return _entry(keys.PERTURBATION_KEYS, shapes, ("slowdown",))


def _failure() -> Shape:
    shapes = {**_MACHINES, "at": QUANTITY, "mtbf": _TIME_ABOVE_0, "repair": QUANTITY}
    return _of_machines(_entry(keys.FAILURE_KEYS, shapes))


def _load() -> Shape:
    shapes = {**_MACHINES, "processes": _AT_LEAST_1, "at": QUANTITY, "until": QUANTITY}
    return _of_machines(_entry(keys.LOAD_KEYS, shapes))


def _silence() -> Shape:
    shapes = {**_MACHINES, "at": QUANTITY, "lasting": QUANTITY, "what": choice(SILENT_PARTS)}
    return _of_machines(_entry(keys.SILENCE_KEYS, shapes))


def _of_machines(entry: Shape) -> Shape:
    return {**entry, "oneOf": [{"required": ["machine"]}, {"required": ["machines"]}]}


def _suspension() -> Shape:
    shapes = {"task": TEXT, "at": QUANTITY, "lasting": QUANTITY}
    return _entry(keys.SUSPENSION_KEYS, shapes, ("task", "at"))


def _requirement() -> Shape:
    share: Shape = {**AT_LEAST_0, "maximum": 1}
    shapes = {"task": TEXT, "after": share, "expression": EXPRESSION, "rank": EXPRESSION}
    either_key = [{"required": ["expression"]}, {"required": ["rank"]}]
    return {**_entry(keys.REQUIREMENT_KEYS, shapes, ("task", "after")), "anyOf": either_key}


def _end() -> Shape:
    return either({"type": "integer", "minimum": 0, "maximum": 255}, choice(FAILURE_WORDS))
