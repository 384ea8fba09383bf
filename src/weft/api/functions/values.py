"""Values in files: JSON where that keeps them as they are, else a pickle.

The process of a task reads this module too: it imports light modules of the standard library only. A pickle
can run any code when it is read: only files that weft, or a task of the project, has written are read by it,
which whoever reads a file must make sure of.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["Reference", "UnfitValue", "decoded", "encoded"]

_JSON, _PICKLE = b"weft json 1\n", b"weft pickle 1\n"
_MARK = "$weft"
"""The key under which a reference stands in JSON."""


class UnfitValue(Exception):
    """A value cannot be brought to another process; the text says which and why."""


class Reference:
    """Stands for the value of another task, which lies in a file."""

    __slots__ = ("file",)

    def __init__(self, file: str) -> None:
        self.file = file


def encoded(value: Any, what: str = "the value") -> bytes:
    """Write a value; ``what`` names it in messages."""
    if _is_plain(value):
        return _JSON + json.dumps(_marked(value)).encode()
    stream = io.BytesIO()
    try:
        _Pickler(stream, what).dump(value)
    except UnfitValue:
        raise
    except Exception as error:
        raise UnfitValue(f"{what} ({type(value).__name__}) cannot be pickled: {error}") from None
    return _PICKLE + stream.getvalue()


def decoded(content: bytes, resolve: Callable[[str], Any]) -> Any:
    """Read a value; ``resolve`` gives the value that lies in another file."""
    if content.startswith(_JSON):
        return _unmarked(json.loads(content[len(_JSON) :]), resolve)
    if content.startswith(_PICKLE):
        return _Unpickler(io.BytesIO(content[len(_PICKLE) :]), resolve).load()
    raise UnfitValue("it was not written by weft")


def _is_plain(value: Any) -> bool:
    """Say whether JSON gives back exactly this: a tuple would come back as a list."""
    kind = type(value)
    if value is None or kind in (bool, int, str, Reference):
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(_is_plain, value))
    return (
        kind is dict
        and _MARK not in value
        and all(type(key) is str and _is_plain(value[key]) for key in value)
    )


def _marked(value: Any) -> Any:
    if type(value) is Reference:
        return {_MARK: value.file}
    if type(value) is list:
        return [_marked(item) for item in value]
    return {key: _marked(item) for key, item in value.items()} if type(value) is dict else value


def _unmarked(value: Any, resolve: Callable[[str], Any]) -> Any:
    if type(value) is list:
        return [_unmarked(item, resolve) for item in value]
    if type(value) is not dict:
        return value
    if _MARK in value:
        return resolve(value[_MARK])
    return {key: _unmarked(item, resolve) for key, item in value.items()}


class _Pickler(pickle.Pickler):
    """Refuses at once what the other process could not find: classes and functions of the main program."""

    def __init__(self, stream: io.BytesIO, what: str) -> None:
        super().__init__(stream, protocol=5)
        self._what = what

    def persistent_id(self, found: Any) -> str | None:
        return found.file if type(found) is Reference else None

    def reducer_override(self, found: Any) -> Any:
        module = getattr(found, "__module__", None) if callable(found) else None
        if module is None or not (isinstance(found, type) or hasattr(found, "__qualname__")):
            return NotImplemented
        home = sys.modules.get(module)
        if module == "__main__" or home is None or "<locals>" in found.__qualname__:
            raise UnfitValue(
                f"{self._what} holds {found.__qualname__!r} of {module!r}, which another process cannot "
                "import; define it in a module of its own"
            )
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, resolve: Callable[[str], Any]) -> None:
        super().__init__(stream)
        self._resolve = resolve

    def persistent_load(self, file: str) -> Any:
        return self._resolve(file)
