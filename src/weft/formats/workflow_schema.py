"""The JSON Schema of workflow files, made from the tables of keys that the reader uses."""

from __future__ import annotations

from weft.formats.schema_shapes import (
    ANYTHING,
    AT_LEAST_0,
    COUNT,
    EXPRESSION,
    FLAG,
    NUMBER,
    QUANTITY,
    TEXT,
    Shape,
    choice,
    either,
    listing,
    mapping,
    named,
    record,
)
from weft.workflow.reading import keys
from weft.workflow.records.loop import ON_EXHAUSTED
from weft.workflow.records.recovery import CAUSES, ON_FAILURE
from weft.workflow.records.task import Kind

__all__ = ["workflow_schema"]

_RETRIES: Shape = {"type": "integer", "minimum": 0}
_VALUES = either(
    {"type": ["string", "number"]}, {"type": "array", "items": {"type": ["string", "number", "boolean"]}}
)
"""The values of a sweep variable: a range, an expression, a list."""
_POINT = either(
    {"type": ["string", "number", "boolean"]},
    {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
)
_BY_COUNT: Shape = {**mapping(QUANTITY), "minProperties": 1, "propertyNames": {"pattern": "^[0-9]+$"}}
_AMOUNT = either(QUANTITY, _BY_COUNT)
_PAIR: Shape = {"type": "array", "items": _POINT, "minItems": 2, "maxItems": 2}


def workflow_schema() -> Shape:
    """Describe a workflow file."""
    return {
        **record(
            keys.WORKFLOW_KEYS,
            {
                "weft": {"const": keys.VERSION},
                "name": TEXT,
                "description": TEXT,
                "owner": TEXT,
                "params": mapping(ANYTHING),
                "defaults": named("task"),
                "budgets": mapping(QUANTITY),
                "tasks": {**mapping(either(named("task"), {"type": "null"})), "minProperties": 1},
                "loops": mapping(named("loop")),
            },
            required=("weft", "tasks"),
        ),
        "$defs": {"task": _task(), "loop": _loop()},
    }


def _loop() -> Shape:
    shapes = {
        "from": TEXT,
        "to": TEXT,
        "until": EXPRESSION,
        "max_iterations": COUNT,
        "expect": COUNT,
        "on_exhausted": choice(ON_EXHAUSTED),
    }
    return record(keys.LOOP_KEYS, shapes, required=("from", "to"))


def _task() -> Shape:
    return record(keys.TASK_KEYS, {**_planned(), **_executed(), **_watched()})


def _planned() -> dict[str, Shape]:
    """Shape the keys that planners read."""
    return {
        "description": TEXT,
        "kind": choice([kind.value for kind in Kind]),
        "sweep": {
            "type": "object",
            "properties": {"zip": FLAG},
            "additionalProperties": _VALUES,
            "minProperties": 1,
        },
        "zip": FLAG,
        "after": listing(either(TEXT, _dependency())),
        "inputs": listing(either(TEXT, _input())),
        "outputs": either(listing(TEXT), mapping(_output())),
        "work": QUANTITY,
        "seconds": either(QUANTITY, {**mapping(QUANTITY), "minProperties": 1}),
        "nodes": either(COUNT, {"type": "array", "items": COUNT, "minItems": 1}),
        "speedup": _speedup(),
        "machine": TEXT,
        "service": TEXT,
        "requirements": EXPRESSION,
        "rank": EXPRESSION,
        "cores": QUANTITY,
        "memory": _AMOUNT,
        "gpus": _AMOUNT,
        "resources": mapping(_AMOUNT),
        "consumes": mapping(_AMOUNT),
        "from": TEXT,
        "to": TEXT,
        "file": TEXT,
        "size": QUANTITY,
        "attributes": mapping(ANYTHING),
    }


def _executed() -> dict[str, Shape]:
    """Shape the keys that say what is run."""
    texts = (
        "call",
        "stdin",
        "stdout",
        "stderr",
        "prolog",
        "wrapper",
        "epilog",
        "selector",
        "evaluator",
        "version",
    )
    return {
        **dict.fromkeys(texts, TEXT),
        "command": either(TEXT, {"type": "array", "items": TEXT}),
        "arguments": listing(TEXT),
        "env": mapping(TEXT),
        "environment": record(
            keys.ENVIRONMENT_KEYS, {"container": TEXT, "conda": TEXT, "modules": listing(TEXT)}
        ),
    }


def _watched() -> dict[str, Shape]:
    """Shape the keys that say how it is watched and what happens when it fails."""
    checkpoint = {"files": listing(TEXT), "every": QUANTITY, "nodes": choice(("any", "same"))}
    contract = {"factor": AT_LEAST_0, "grace": QUANTITY}
    causes = {"type": "object", "properties": dict.fromkeys(CAUSES, _RETRIES), "additionalProperties": False}
    return {
        "time_limit": QUANTITY,
        "checkpoint": either(listing(TEXT), record(keys.CHECKPOINT_KEYS, checkpoint, required=("files",))),
        "progress": TEXT,
        "contract": either(AT_LEAST_0, {"enum": ["none", None]}, record(keys.CONTRACT_KEYS, contract)),
        "retries": either(_RETRIES, causes),
        "on_failure": choice(ON_FAILURE),
        "outcomes": listing({"type": "integer", "minimum": 0}),
    }


def _dependency() -> Shape:
    shapes = {"task": TEXT, "pairs": listing(_PAIR), "if": EXPRESSION}
    return record(keys.DEPENDENCY_KEYS, shapes, required=("task",))


def _input() -> Shape:
    shapes = {"file": TEXT, "from": TEXT, "size": QUANTITY, "shared": FLAG, "compressed": FLAG}
    return record(keys.INPUT_KEYS, shapes, required=("file",))


def _output() -> Shape:
    known = record(keys.OUTPUT_KEYS, {"size": QUANTITY, "seconds": QUANTITY, "to": TEXT})
    return either(QUANTITY, known, {"type": "null"})


def _speedup() -> Shape:
    shapes = {
        "amdahl": {**NUMBER, "minimum": 0, "maximum": 1},
        "roofline": {"type": "integer", "minimum": 1},
        "communication": AT_LEAST_0,
        "seconds": _BY_COUNT,
    }
    return {**record(keys.SPEEDUP_KEYS, shapes), "minProperties": 1, "maxProperties": 1}
