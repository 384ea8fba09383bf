"""Run a task function in the task process.

Every task process imports this module, so it imports only small modules.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import traceback
from base64 import b64decode
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.api.functions.values import UnsupportedValue, decode_value, encode_value

CALL, VALUE = ".call", ".value"
"""Suffixes of the file that describes a call and of the file with its result."""

EXCEPTION = "weft-exception: "
"""Prefix of the line in the task's standard error that reports an exception to the caller."""

_LOAD_FAILED = 2
_PLACES = ".weft/functions/places.json"
"""File in the project with the caller's ``sys.path``."""
KEY_LENGTH = 12
"""Number of hexadecimal digits of a call's hash in the name of its task."""


def call(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Call the function that the first input file describes, and write its result to the only output."""
    _extend_path()
    content = Path(inputs[0]).read_bytes()
    described, _, given = content.partition(b"\n")
    try:
        _check_call(inputs[0], content)
        description = json.loads(described)
        read = partial(_read_value, untrusted=description.get("untrusted", ()))
        function = _load_function(description)
        args, kwargs = decode_value(given, read, _check_sent)
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
        result = encode_value(value, "the returned value", _own_nonce())
    except UnsupportedValue as error:
        _report_exception(TypeError(str(error)))
        raise SystemExit(1) from None
    Path(outputs[0]).write_bytes(result)


def hash_call(content: bytes) -> str:
    """Return the hexadecimal hash of a call file; the names of the call's files and task contain it."""
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def _check_call(file: str, content: bytes) -> None:
    """Raise UnsupportedValue if the content of a call file does not match the hash in its name."""
    if f"-{hash_call(content)[:KEY_LENGTH]}" not in Path(file).name:
        raise UnsupportedValue(f"{file} was changed after the call")


def _own_nonce() -> str:
    """Return the nonce of this attempt, which identifies the pickles that it writes."""
    mark = os.environ.get("WEFT_MARK", "").split(".")
    return mark[3] if len(mark) > 3 else ""


def _check_sent(nonce: str) -> str:
    """Return the reason why a pickle in a call file is refused; "" if the caller wrote it."""
    return "it was written by a task" if nonce else ""


def _extend_path() -> None:
    try:
        places = json.loads(Path(os.environ.get("WEFT_FOLDER", "."), _PLACES).read_bytes())
    except (OSError, ValueError):
        return
    sys.path.extend(str(each) for each in places if each not in sys.path)


def _read_value(file: str, untrusted: Collection[str] = ()) -> Any:
    """Return the value in the result file of another task; refuse pickles in the files ``untrusted``."""

    def check(nonce: str) -> str:
        if file in untrusted:
            return (
                f"{file} is a pickle of a task with a different isolation: reading it can run code of that "
                "task here; use the same isolation for both, return a value of another type, or use "
                "@task(trust_pickle=True)"
            )
        return "" if nonce else f"{file} is a pickle without the nonce of an attempt"

    return decode_value(Path(file).read_bytes(), partial(_read_value, untrusted=untrusted), check)


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
        setattr(home, part["as"], decode_value(b64decode(part["value"]), _read_value, _check_sent))
    else:
        name, source = part["def"], part["source"]
        _cache_source(name, source)
        code = compile(f"from __future__ import annotations\n{source}", f"<{name}>", "exec")
        exec(code, home.__dict__)  # noqa: S102 -- the user's own function
        function = getattr(home, name)
        function.__defaults__, function.__kwdefaults__ = decode_value(
            b64decode(part["defaults"]), _read_value, _check_sent
        )


def _cache_source(name: str, source: str) -> None:
    """Add the source of a function to ``linecache``, so that tracebacks show it without a file."""
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
