"""Shapes of values in our files, as pieces of JSON Schema: what a number, a name or a list may look like.

The JSON Schema of workflow files, made from the tables of keys that the reader uses.

The JSON Schema of platform files, made from the tables of keys that the reader uses.

The JSON Schemas of our files: editors complete and check what users write.

They are made from the tables of keys that the readers use, and published beside this file. After a change of
keys, ``python -m weft.formats.schema`` writes them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput, Problem, nearest
from weft.platform.file_format import (
    LINK_KEYS,
    LINKS_KEYS,
    MACHINE_KEYS,
    PAIR_KEYS,
    PLATFORM_KEYS,
    SHARE_KEYS,
    VERSION,
)
from weft.platform.machine import OCCUPANCIES, QUEUES
from weft.workflow import keys
from weft.workflow.task import CAUSES, ON_FAILURE, TaskKind
from weft.workflow.workflow import ON_EXHAUSTED

__all__ = [
    "ANYTHING",
    "AT_LEAST_0",
    "COUNT",
    "EXPRESSION",
    "FLAG",
    "KINDS",
    "NUMBER",
    "QUANTITY",
    "TEXT",
    "Shape",
    "add_schema_header",
    "build_schema",
    "choice",
    "describe_keys",
    "either",
    "listing",
    "mapping",
    "platform_schema",
    "record",
    "reference",
    "schema_text",
    "workflow_schema",
    "write_schemas",
]


Shape = dict[str, Any]

ANYTHING: Shape = {}
FLAG: Shape = {"type": "boolean"}
NUMBER: Shape = {"type": "number"}
AT_LEAST_0: Shape = {"type": "number", "minimum": 0}
TEXT: Shape = {"type": ["string", "number"]}
"""Names, commands, paths; a number is taken as it is written."""
QUANTITY: Shape = {"type": ["number", "string"], "minimum": 0}
"""A number, a quantity with unit, or an expression."""
COUNT: Shape = {"type": ["number", "string"], "minimum": 1}
"""A whole number or an expression."""
EXPRESSION: Shape = {"type": ["string", "number", "boolean"]}


def choice(words: Sequence[str]) -> Shape:
    """One of a few words."""
    return {"enum": list(words)}


def either(*shapes: Shape) -> Shape:
    """Whichever of several shapes fits."""
    return {"anyOf": list(shapes)}


def listing(item: Shape) -> Shape:
    """A list, or its only entry alone; nothing is an empty list."""
    return either(item, {"type": "array", "items": item}, {"type": "null"})


def mapping(values: Shape) -> Shape:
    """Any names, each with a value of one shape."""
    return {"type": "object", "additionalProperties": values}


def reference(name: str) -> Shape:
    """A shape described once, under ``$defs``."""
    return {"$ref": f"#/$defs/{name}"}


def describe_keys(keys: Mapping[str, str], shapes: Mapping[str, Shape]) -> Shape:
    """Give every key of a table its shape and the table's line about it. The two must name the same keys."""
    if keys.keys() != shapes.keys():
        raise ValueError(f"keys without shape or shapes without key: {sorted(keys.keys() ^ shapes.keys())}")
    return {key: {"description": line, **shapes[key]} for key, line in keys.items()}


def record(keys: Mapping[str, str], shapes: Mapping[str, Shape], required: Sequence[str] = ()) -> Shape:
    """A mapping with these keys and no others."""
    found: Shape = {
        "type": "object",
        "properties": describe_keys(keys, shapes),
        "additionalProperties": False,
    }
    return {**found, "required": list(required)} if required else found


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
                "defaults": reference("task"),
                "budgets": mapping(QUANTITY),
                "tasks": {**mapping(either(reference("task"), {"type": "null"})), "minProperties": 1},
                "loops": mapping(reference("loop")),
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
        "kind": choice([kind.value for kind in TaskKind]),
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


_NOTHING: Shape = {"type": "null"}
_AT_LEAST_1: Shape = {"type": "integer", "minimum": 1}
_SPEED: Shape = {**NUMBER, "exclusiveMinimum": 0}
_RATE: Shape = {"type": ["number", "string"], "exclusiveMinimum": 0}


def platform_schema() -> Shape:
    """Describe a platform file."""
    return {
        **record(
            PLATFORM_KEYS,
            {
                "weft": {"enum": [VERSION, None]},
                "name": either(TEXT, _NOTHING),
                "machines": {**mapping(either(reference("machine"), _NOTHING)), "minProperties": 1},
                "sites": either(mapping(record(LINK_KEYS, _link())), _NOTHING),
                "links": either(_links(), _NOTHING),
                "virtual": listing(_share()),
            },
            required=("machines",),
        ),
        "$defs": {"machine": _machine()},
    }


def _machine() -> Shape:
    shapes = {
        "nodes": _AT_LEAST_1,
        "cores": _AT_LEAST_1,
        "memory": QUANTITY,
        "disk": QUANTITY,
        "gpus": {"type": "integer", "minimum": 0},
        "speed": either(_SPEED, mapping(_SPEED)),
        "price_per_node_hour": AT_LEAST_0,
        "services": listing(TEXT),
        "arch": TEXT,
        "os": TEXT,
        "site": TEXT,
        "availability": {**_SPEED, "maximum": 1},
        "queue": choice(QUEUES),
        "occupancy": choice(OCCUPANCIES),
        "attributes": mapping({"type": ["string", "number", "boolean", "null"]}),
        "backend": mapping(ANYTHING),
        "resources": mapping(AT_LEAST_0),
    }
    # A key without a value counts as not written.
    return record(MACHINE_KEYS, {key: either(shape, _NOTHING) for key, shape in shapes.items()})


def _link() -> dict[str, Shape]:
    return {"bandwidth": _RATE, "latency": QUANTITY}


def _links() -> Shape:
    pair = {"pair": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}, **_link()}
    between = listing(record(PAIR_KEYS, pair, required=("pair",)))
    return record(LINKS_KEYS, {"default": record(LINK_KEYS, _link()), "between": between})


def _share() -> Shape:
    shapes = {"machine": TEXT, "service": TEXT, "nodes": _AT_LEAST_1, "name": TEXT}
    return record(SHARE_KEYS, shapes, required=("machine", "service"))


_BUILDERS: dict[str, Callable[[], Shape]] = {"workflow": workflow_schema, "platform": platform_schema}

KINDS = tuple(_BUILDERS)
"""The kinds of files whose schemas are published here."""


def schema_text(kind: str) -> str:
    """Read the published schema of a kind of file."""
    _check_kind(kind)
    return files("weft.formats").joinpath("schema", f"{kind}.json").read_text(encoding="utf-8")


def build_schema(kind: str) -> Shape:
    """Make the schema (draft 2020-12) of a kind of file from the reader's tables of keys."""
    _check_kind(kind)
    return add_schema_header(kind, _BUILDERS[kind]())


def add_schema_header(kind: str, shape: Shape) -> Shape:
    """Put over the description of a kind of file what makes it a schema of its own."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"weft {kind}, version 1",
        **shape,
    }


def _check_kind(kind: str) -> None:
    if kind not in _BUILDERS:
        close = nearest(kind, KINDS)
        advice = f"did you mean {close!r}?" if close else f"known: {', '.join(KINDS)}"
        raise InvalidInput(Problem(what=f"no schema of {kind!r}", advice=advice))


def write_schemas(folder: Path) -> None:
    """Write every schema into a folder, as it is published."""
    folder.mkdir(exist_ok=True)
    for kind in KINDS:
        text = json.dumps(build_schema(kind), indent=2, ensure_ascii=False) + "\n"
        (folder / f"{kind}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(__file__).with_name("schema"))
