"""Run a task function in the task process, and encode its arguments and result.

Every task process imports this module, so it imports only small modules. Values are stored as JSON if that
preserves them, else as a pickle. Reading a pickle can run code, so callers read only files written by weft or
by a task of the project.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import pickle
import sys
import traceback
from base64 import b64decode
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_JSON, _PICKLE = b"weft json 1\n", b"weft pickle 1\n"
_MARK = "$weft"
"""Key of the JSON object that stands for a ValueReference."""


class UnsupportedValue(Exception):
    """A value cannot be sent to another process; the message says which and why."""


class ValueReference:
    """Reference to the value of another task, stored in a file."""

    __slots__ = ("file",)

    def __init__(self, file: str) -> None:
        self.file = file


def encode_value(value: Any, what: str = "the value") -> bytes:
    """Return a value as bytes for a file; ``what`` names the value in error messages."""
    if _is_plain(value):
        return _JSON + json.dumps(_encode_references(value)).encode()
    stream = io.BytesIO()
    try:
        _ValuePickler(stream, what).dump(value)
    except UnsupportedValue:
        raise
    except Exception as error:
        raise UnsupportedValue(f"{what} ({type(value).__name__}) cannot be pickled: {error}") from None
    return _PICKLE + stream.getvalue()


def decode_value(content: bytes, resolve: Callable[[str], Any]) -> Any:
    """Return the value that ``encode_value`` encoded; ``resolve`` returns the value in another file."""
    if content.startswith(_JSON):
        return _resolve_references(json.loads(content[len(_JSON) :]), resolve)
    if content.startswith(_PICKLE):
        return _ValueUnpickler(io.BytesIO(content[len(_PICKLE) :]), resolve).load()
    raise UnsupportedValue("the value file was not written by weft: its first line is unknown")


def _is_plain(value: Any) -> bool:
    """Return whether JSON preserves a value exactly; False for a tuple, which would become a list."""
    kind = type(value)
    if value is None or kind in (bool, int, str, ValueReference):
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


def _encode_references(value: Any) -> Any:
    if type(value) is ValueReference:
        return {_MARK: value.file}
    if type(value) is list:
        return [_encode_references(item) for item in value]
    return {key: _encode_references(item) for key, item in value.items()} if type(value) is dict else value


def _resolve_references(value: Any, resolve: Callable[[str], Any]) -> Any:
    if type(value) is list:
        return [_resolve_references(item, resolve) for item in value]
    if type(value) is not dict:
        return value
    if _MARK in value:
        return resolve(value[_MARK])
    return {key: _resolve_references(item, resolve) for key, item in value.items()}


class _ValuePickler(pickle.Pickler):
    """Pickler that rejects classes and functions that another process cannot import."""

    def __init__(self, stream: io.BytesIO, what: str) -> None:
        super().__init__(stream, protocol=5)
        self._what = what

    def persistent_id(self, found: Any) -> str | None:
        return found.file if type(found) is ValueReference else None

    def reducer_override(self, found: Any) -> Any:
        module = getattr(found, "__module__", None) if callable(found) else None
        if module is None or not (isinstance(found, type) or hasattr(found, "__qualname__")):
            return NotImplemented
        home = sys.modules.get(module)
        if module == "__main__" or home is None or "<locals>" in found.__qualname__:
            raise UnsupportedValue(
                f"{self._what} holds {found.__qualname__!r} of {module!r}, which another process cannot "
                "import; define it in a module of its own"
            )
        return NotImplemented


class _ValueUnpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, resolve: Callable[[str], Any]) -> None:
        super().__init__(stream)
        self._resolve = resolve

    def persistent_load(self, file: str) -> Any:
        return self._resolve(file)


CALL, VALUE = ".call", ".value"
"""Suffixes of the file that describes a call and of the file with its result."""

EXCEPTION = "weft-exception: "
"""Prefix of the line in the task's standard error that reports an exception to the caller."""

_LOAD_FAILED = 2
_PLACES = ".weft/functions/places.json"
"""File in the project with the caller's ``sys.path``."""


def call(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Call the function that the first input file describes, and write its result to the only output."""
    _extend_path()
    described, _, given = Path(inputs[0]).read_bytes().partition(b"\n")
    try:
        function = _load_function(json.loads(described))
        args, kwargs = decode_value(given, _read_value)
    except Exception as error:
        traceback.print_exc()
        sys.stderr.write(f"weft: cannot load the function or its arguments: {error}\n")
        raise SystemExit(_LOAD_FAILED) from None
    try:
        value = function(*args, **kwargs)
    except Exception as error:
        _report_exception(error)
        raise SystemExit(1) from None
    try:
        content = encode_value(value, "the returned value")
    except UnsupportedValue as error:
        _report_exception(TypeError(str(error)))
        raise SystemExit(1) from None
    Path(outputs[0]).write_bytes(content)


def _extend_path() -> None:
    import os

    try:
        places = json.loads(Path(os.environ.get("WEFT_FOLDER", "."), _PLACES).read_bytes())
    except (OSError, ValueError):
        return
    sys.path.extend(str(each) for each in places if each not in sys.path)


def _read_value(file: str) -> Any:
    return decode_value(Path(file).read_bytes(), _read_value)


def _load_function(described: dict[str, Any]) -> Callable[..., Any]:
    if "import" in described:
        found = _import_object(described["import"])
        function: Callable[..., Any] = getattr(found, "__weft_function__", found)
        return function
    home = ModuleType("weft_shipped")
    sys.modules[home.__name__] = home
    for part in described["parts"]:
        _load_part(part, home)
    made: Callable[..., Any] = getattr(home, described["name"])
    return made


def _load_part(part: dict[str, Any], home: ModuleType) -> None:
    if "import" in part:
        setattr(home, part["as"], importlib.import_module(part["import"]))
    elif "from" in part:
        found = _import_object(part["from"])
        setattr(home, part["as"], getattr(found, "__weft_function__", found))
    elif "same" in part:
        setattr(home, part["as"], getattr(home, part["same"]))
    elif "value" in part:
        setattr(home, part["as"], decode_value(b64decode(part["value"]), _read_value))
    else:
        name, source = part["def"], part["source"]
        _cache_source(name, source)
        code = compile(f"from __future__ import annotations\n{source}", f"<{name}>", "exec")
        exec(code, home.__dict__)  # noqa: S102 -- the user's own function
        function = getattr(home, name)
        function.__defaults__, function.__kwdefaults__ = decode_value(
            b64decode(part["defaults"]), _read_value
        )


def _cache_source(name: str, source: str) -> None:
    """Store the source of a function that is in no file, so that tracebacks show it."""
    import linecache

    lines = f"from __future__ import annotations\n{source}\n".splitlines(keepends=True)
    linecache.cache[f"<{name}>"] = (len(source), None, lines, f"<{name}>")


def _import_object(text: str) -> Any:
    module, _, path = text.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _report_exception(error: BaseException) -> None:
    """Write an exception to the standard error: one line for the caller, then the traceback."""
    kind = type(error)
    record: dict[str, Any] = {"module": kind.__module__, "name": kind.__qualname__, "text": str(error)}
    try:
        record["args"] = json.loads(json.dumps(error.args))
    except (TypeError, ValueError):
        record["args"] = None
    sys.stderr.write(f"{EXCEPTION}{json.dumps(record)}\n")
    own = error.__traceback__.tb_next if error.__traceback__ is not None else None
    traceback.print_exception(kind, error, own)
