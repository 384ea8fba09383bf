"""The JSON Schema of platform files, made from the tables of keys that the reader uses."""

from __future__ import annotations

from weft.formats.schema_shapes import (
    ANYTHING,
    AT_LEAST_0,
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
from weft.platform.machine import OCCUPANCIES, QUEUES
from weft.platform.reading import (
    LINK_KEYS,
    LINKS_KEYS,
    MACHINE_KEYS,
    PAIR_KEYS,
    PLATFORM_KEYS,
    SHARE_KEYS,
    VERSION,
)

__all__ = ["platform_schema"]

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
                "machines": {**mapping(either(named("machine"), _NOTHING)), "minProperties": 1},
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
