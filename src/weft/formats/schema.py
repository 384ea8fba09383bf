"""JSON Schemas of workflow, platform and profile files for editors, written by ``.ci/reference.py``."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

from weft.errors import InvalidInput, suggest
from weft.fields import Shape
from weft.formats.profiles import profile_schema
from weft.platform.file_format import platform_schema
from weft.workflow.file_format import workflow_schema

_BUILDERS: dict[str, Callable[[], Shape]] = {
    "workflow": workflow_schema,
    "platform": platform_schema,
    "profile": profile_schema,
}

KINDS = tuple(_BUILDERS)
"""The kinds of files whose schemas are stored in this package."""


def schema_text(kind: str) -> str:
    """Return the stored schema of a kind of file."""
    _check_kind(kind)
    return files("weft.formats").joinpath("schema", f"{kind}.json").read_text(encoding="utf-8")


def build_schema(kind: str) -> Shape:
    """Return the schema of a kind of file, built from the fields of its records."""
    _check_kind(kind)
    return add_schema_header(kind, _BUILDERS[kind]())


def add_schema_header(kind: str, shape: Shape) -> Shape:
    """Return the schema ``shape`` of a kind of file with the keys ``$schema`` and ``title`` in front."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"weft {kind}, version 1",
        **shape,
    }


def _check_kind(kind: str) -> None:
    if kind not in _BUILDERS:
        advice = suggest(kind, KINDS, f"known: {', '.join(KINDS)}")
        raise InvalidInput(f"there is no schema of {kind!r}", advice=advice)
