"""Values of a parsed JSON document, checked: load, look, and complain with the path."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from weft.errors import Path, nearest, shorten
from weft.formats.complaints import Complaints
from weft.formats.format import Source, damaged

__all__ = [
    "complain_unknown",
    "describe",
    "kind_of",
    "load_json",
    "read_number",
    "read_object",
    "read_objects",
]

_NOTHING: Mapping[str, Any] = {}
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_HINTS = 3
"""Complaints that get a "did you mean": the search looks at thousands of names."""


def load_json(source: Source) -> Any:
    """Parse a JSON file; whatever is wrong with it becomes InvalidInput with line and column."""
    text = source.text()
    try:
        document = json.loads(text)
        if _HALF_CHARACTER.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        advice = "the file may be cut off" if error.pos >= len(text.rstrip()) else ""
        raise damaged(source, what, line=error.lineno, column=error.colno, advice=advice) from None
    except RecursionError:
        raise damaged(
            source, "lists and objects are nested too deeply", rule="a workflow is a few levels"
        ) from None
    except UnicodeEncodeError:
        raise damaged(source, "half of a character", rule=r"\\uD800 to \\uDFFF come in pairs") from None
    except ValueError as error:
        raise damaged(source, f"a number that is too long: {shorten(str(error))}") from None
    return document


def read_number(into: dict[str, float], key: str, value: Any, path: Path, complaints: Complaints) -> None:
    """Read a number that may be missing."""
    if value is None:
        return
    if type(value) in (int, float) and 0 <= value < 1e300:
        into[key] = float(value)
    else:
        complaints.add(describe(value), rule="must be a number, at least 0", path=path)


def read_object(parent: Mapping[str, Any], key: str, path: Path, complaints: Complaints) -> Mapping[str, Any]:
    """Read an object inside another; a missing one is empty."""
    value = parent.get(key)
    if value is not None and type(value) is not dict:
        complaints.add(describe(value), rule="must be an object", path=(*path, key))
    return value if type(value) is dict else _NOTHING


def read_objects(
    value: Any, path: Path, complaints: Complaints, *, required: bool = False
) -> list[Mapping[str, Any]]:
    """Read a list of objects. Others would shift the positions of the rest, so they end the reading."""
    if value is None and not required:
        return []
    if type(value) is not list or (required and not value):
        rule = "must be a list of objects" + (", at least one" if required else "")
        complaints.add(describe(value), rule=rule, path=path)
        complaints.finish()
    for position, entry in enumerate(value):
        if type(entry) is not dict:
            complaints.add(describe(entry), rule="must be an object", path=(*path, position))
    complaints.finish()
    return list(value)


def complain_unknown(name: Any, known: Mapping[str, int], path: Path, complaints: Complaints) -> None:
    """Complain of a name that no task has."""
    if type(name) is not str:
        complaints.add(describe(name), rule="must be the id of a task", path=path)
        return
    close = nearest(name, known) if len(complaints.problems) < _HINTS else None
    advice = f"did you mean {close!r}?" if close else "name the id of a task in this file"
    complaints.add(f"no task {shorten(name)!r}", advice=advice, path=path)


def describe(value: Any) -> str:
    """Say what was found, for a message."""
    if value is None:
        return "nothing is given"
    if type(value) is str:
        return f"{shorten(value)!r}" if value else "empty text"
    return f"{shorten(value)} is {kind_of(value)}" if type(value) in (int, float, bool) else kind_of(value)


def kind_of(value: Any) -> str:
    """Name the type of a value as JSON knows it."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false", type(None): "nothing"}
    return names.get(type(value), "a number")
