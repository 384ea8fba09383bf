"""The keys of a scenario file with one line on each: the reader, the JSON Schema and the docs share them.

The JSON Schema of scenario files, made from the tables of keys that the reader uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.backends.simulation.scenario import FAILURE_WORDS, NETWORKS, SILENT_PARTS
from weft.formats.schema import (
    AT_LEAST_0,
    EXPRESSION,
    QUANTITY,
    TEXT,
    Shape,
    add_schema_header,
    choice,
    either,
    listing,
    mapping,
    record,
)

__all__ = [
    "ARRIVAL_KEYS",
    "CANCELLATION_KEYS",
    "DURATION_KEYS",
    "FAILURE_KEYS",
    "LOAD_KEYS",
    "PERTURBATION_KEYS",
    "REPLANNING_KEYS",
    "REQUIREMENT_KEYS",
    "SCENARIO_KEYS",
    "SILENCE_KEYS",
    "SUSPENSION_KEYS",
    "TASK_DURATION_KEYS",
    "VERSION",
    "scenario_schema",
]


VERSION = 1
"""The version of the file format: ``weft: 1``."""

SCENARIO_KEYS = {
    "weft": "version of the format: 1",
    "name": "name of the scenario; default: the file's name",
    "description": "free text",
    "arrivals": "which workflows are submitted when, and by whom",
    "durations": "how long tasks really take, relative to their estimate",
    "perturbations": "machines that become slower for a time",
    "failures": "machines that fail, and when they are back",
    "loads": "competing processes on machines: n of them leave 1/(n + 1) of the speed",
    "silences": "machines that compute but do not answer",
    "suspensions": "tasks that the remote side suspends",
    "cancellations": "tasks that the remote side cancels",
    "requirements": "tasks that ask for other machines when they have done a part of their work",
    "exit_codes": f"by task: how its attempts end, codes or {', '.join(FAILURE_WORDS)}; the last is kept",
    "results": "by task: what its attempts write as their result; the last is kept",
    "iterations": "by loop: how often it really runs",
    "lines": "by file: how many lines a growing sweep finds in it",
    "network": f"whether transfers share the bandwidth of links: {', '.join(NETWORKS)}",
    "overhead_per_task": "seconds that every attempt takes besides its work (0)",
    "stage_latency": "seconds every stage takes besides moving data; cancelling and cleaning up half (0)",
    "profiles": "by task: how many iterations its application has and reports",
    "denied": "machines to which access is refused: names, wildcards, ranges",
    "replanning": "what a re-plan costs",
}

ARRIVAL_KEYS = {
    "workflow": "the file of a workflow, from the folder of the scenario",
    "mix": "files of workflows and how many of each; their order is drawn",
    "order": "files of workflows in the order in which they arrive",
    "trace": "a CSV file with the columns workflow, at and owner",
    "count": "how often the workflow arrives (1)",
    "at": "when it is submitted (0); several are submitted together",
    "every": "the interval between two arrivals",
    "poisson": "the mean interval between two arrivals, each drawn anew",
    "from": "when a series begins (0)",
    "owner": "whose workflows they are",
}

TASK_DURATION_KEYS = {
    "noise": "standard deviation of the true time, as a share of its mean (0)",
    "bias": "mean of the true time, relative to the estimate (1)",
}

DURATION_KEYS = {**TASK_DURATION_KEYS, "tasks": "by task: noise and bias that differ from these"}

_MACHINES = {
    "machine": "the name of a machine",
    "machines": 'names of machines: wildcards ("altix*"), ranges ("altix{1..4}"), a list of them',
}

PERTURBATION_KEYS = {
    **_MACHINES,
    "slowdown": "how many times slower, a number or a range to draw from: 3..10",
    "lasting": "how long, a time or a range to draw from: 100s..600s; for good by default",
    "at": "when all these machines are slowed, once (0)",
    "every": "the mean interval after which one of them, drawn at random, is slowed",
    "from": "with every: when that begins (0)",
    "until": "with every: when that ends",
}

FAILURE_KEYS = {
    **_MACHINES,
    "at": "when they fail, once (0)",
    "mtbf": "mean time from the start or a repair to the next failure of each",
    "repair": "how long the repair takes, its mean with mtbf; for good by default",
}

LOAD_KEYS = {
    **_MACHINES,
    "processes": "how many processes compete with ours (1)",
    "at": "when they begin (0)",
    "until": "when they end",
}

SILENCE_KEYS = {
    **_MACHINES,
    "at": "when it begins (0)",
    "lasting": "how long; for good by default",
    "what": f"what does not answer: {', '.join(SILENT_PARTS)}",
}

SUSPENSION_KEYS = {
    "task": "the task whose running attempts are suspended",
    "at": "when",
    "lasting": "how long; for good by default",
}

CANCELLATION_KEYS = {"task": "the task whose running attempts are cancelled", "at": "when"}

REQUIREMENT_KEYS = {
    "task": "the task that changes its mind",
    "after": "when this share of its work is done, 0 to 1",
    "expression": "its requirements from then on",
    "rank": "its rank from then on",
}

REPLANNING_KEYS = {"seconds_per_point": "seconds per schedule the planner looks at (0)"}


_NOTHING: Shape = {"type": "null"}
_ABOVE_0: Shape = {"type": "number", "exclusiveMinimum": 0}
_TIME_ABOVE_0: Shape = {"type": ["number", "string"], "exclusiveMinimum": 0}
_AT_LEAST_1: Shape = {"type": "integer", "minimum": 1}
_SPAN: Shape = {"type": ["number", "string"], "minimum": 1}
_MACHINE_SHAPES: dict[str, Shape] = {"machine": listing(TEXT), "machines": listing(TEXT)}


def scenario_schema() -> Shape:
    """Describe a scenario file."""
    shapes: dict[str, Shape] = {
        "weft": {"const": VERSION},
        "name": TEXT,
        "description": TEXT,
        "arrivals": listing(_arrival()),
        "durations": _durations(),
        "perturbations": listing(_perturbation()),
        "failures": listing(_failure()),
        "loads": listing(_load()),
        "silences": listing(_silence()),
        "suspensions": listing(_suspension()),
        "cancellations": listing(_entry(CANCELLATION_KEYS, {"task": TEXT, "at": QUANTITY}, ("task", "at"))),
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
        "replanning": _entry(REPLANNING_KEYS, {"seconds_per_point": QUANTITY}),
    }
    return add_schema_header("scenario", _entry(SCENARIO_KEYS, shapes, ("weft",)))


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
    return {**_entry(ARRIVAL_KEYS, shapes), "oneOf": what}


def _durations() -> Shape:
    own = {"noise": AT_LEAST_0, "bias": _ABOVE_0}
    tasks = mapping(_entry(TASK_DURATION_KEYS, own))
    return _entry(DURATION_KEYS, {**own, "tasks": tasks})


def _perturbation() -> Shape:
    shapes = {
        **_MACHINE_SHAPES,
        "slowdown": _SPAN,
        "lasting": QUANTITY,
        "at": QUANTITY,
        "every": _TIME_ABOVE_0,
        "from": QUANTITY,
        "until": QUANTITY,
    }
    return _entry(PERTURBATION_KEYS, shapes, ("slowdown",))


def _failure() -> Shape:
    shapes = {**_MACHINE_SHAPES, "at": QUANTITY, "mtbf": _TIME_ABOVE_0, "repair": QUANTITY}
    return _of_machines(_entry(FAILURE_KEYS, shapes))


def _load() -> Shape:
    shapes = {**_MACHINE_SHAPES, "processes": _AT_LEAST_1, "at": QUANTITY, "until": QUANTITY}
    return _of_machines(_entry(LOAD_KEYS, shapes))


def _silence() -> Shape:
    shapes = {**_MACHINE_SHAPES, "at": QUANTITY, "lasting": QUANTITY, "what": choice(SILENT_PARTS)}
    return _of_machines(_entry(SILENCE_KEYS, shapes))


def _of_machines(entry: Shape) -> Shape:
    return {**entry, "oneOf": [{"required": ["machine"]}, {"required": ["machines"]}]}


def _suspension() -> Shape:
    shapes = {"task": TEXT, "at": QUANTITY, "lasting": QUANTITY}
    return _entry(SUSPENSION_KEYS, shapes, ("task", "at"))


def _requirement() -> Shape:
    share: Shape = {**AT_LEAST_0, "maximum": 1}
    shapes = {"task": TEXT, "after": share, "expression": EXPRESSION, "rank": EXPRESSION}
    either_key = [{"required": ["expression"]}, {"required": ["rank"]}]
    return {**_entry(REQUIREMENT_KEYS, shapes, ("task", "after")), "anyOf": either_key}


def _end() -> Shape:
    return either({"type": "integer", "minimum": 0, "maximum": 255}, choice(FAILURE_WORDS))
