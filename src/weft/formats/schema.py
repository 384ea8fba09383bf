"""The JSON Schemas of our files: editors complete and check what users write.

They are made from the tables of keys that the readers use, and published beside this file. After a change of
keys, ``python -m weft.formats.schema`` writes them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from weft.errors import InvalidInput, Problem, nearest
from weft.formats.platform_schema import platform_schema
from weft.formats.schema_shapes import Shape
from weft.formats.workflow_schema import workflow_schema

__all__ = ["KINDS", "build_schema", "published", "schema_text", "write_schemas"]

_BUILDERS: dict[str, Callable[[], Shape]] = {"workflow": workflow_schema, "platform": platform_schema}

KINDS = tuple(_BUILDERS)
"""The kinds of files whose schemas are published here."""


def schema_text(kind: str) -> str:
    """Read the published schema of a kind of file."""
    _check(kind)
    return files("weft.formats").joinpath("schema", f"{kind}.json").read_text(encoding="utf-8")


def build_schema(kind: str) -> Shape:
    """Make the schema (draft 2020-12) of a kind of file from the reader's tables of keys."""
    _check(kind)
    return published(kind, _BUILDERS[kind]())


def published(kind: str, shape: Shape) -> Shape:
    """Put over the description of a kind of file what makes it a schema of its own."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"weft {kind}, version 1",
        **shape,
    }


def _check(kind: str) -> None:
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
