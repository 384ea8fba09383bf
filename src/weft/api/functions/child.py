"""In the process of a task: calls the function that a ``.call`` file describes, and leaves its value.

It imports light modules only: it is started once per task.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from base64 import b64decode
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.api.functions.values import UnfitValue, decoded, encoded

__all__ = ["CALL", "EXCEPTION", "VALUE", "call"]

CALL, VALUE = ".call", ".value"
"""How the names of the files end."""

EXCEPTION = "weft-exception: "
"""How the line begins by which the caller learns of an exception."""

_NOT_OURS = 2
_PLACES = ".weft/functions/places.json"
"""Where the caller has written from where it imports, in the project."""


def call(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Call the function; its file is the first input, its value goes into the only output."""
    _look_where_the_caller_does()
    described, given = _described(Path(inputs[0]))
    try:
        function = _made(described)
        args, kwargs = decoded(given, _value)
    except Exception as error:
        traceback.print_exc()
        sys.stderr.write(f"weft: function or arguments cannot be had here: {error}\n")
        raise SystemExit(_NOT_OURS) from None
    try:
        value = function(*args, **kwargs)
    except Exception as error:
        _tell(error)
        raise SystemExit(1) from None
    try:
        content = encoded(value, "what it returns")
    except UnfitValue as error:
        _tell(TypeError(str(error)))
        raise SystemExit(1) from None
    Path(outputs[0]).write_bytes(content)


def _look_where_the_caller_does() -> None:
    import os

    try:
        places = json.loads(Path(os.environ.get("WEFT_FOLDER", "."), _PLACES).read_bytes())
    except (OSError, ValueError):
        return
    sys.path.extend(str(each) for each in places if each not in sys.path)


def _described(path: Path) -> tuple[dict[str, Any], bytes]:
    first, _, rest = path.read_bytes().partition(b"\n")
    return json.loads(first), rest


def _value(file: str) -> Any:
    return decoded(Path(file).read_bytes(), _value)


def _made(described: dict[str, Any]) -> Callable[..., Any]:
    if "import" in described:
        found = _imported(described["import"])
        function: Callable[..., Any] = getattr(found, "__weft_function__", found)
        return function
    home = ModuleType("weft_shipped")
    sys.modules[home.__name__] = home
    for part in described["parts"]:
        _make(part, home)
    made: Callable[..., Any] = getattr(home, described["name"])
    return made


def _make(part: dict[str, Any], home: ModuleType) -> None:
    if "import" in part:
        setattr(home, part["as"], importlib.import_module(part["import"]))
    elif "from" in part:
        found = _imported(part["from"])
        setattr(home, part["as"], getattr(found, "__weft_function__", found))
    elif "same" in part:
        setattr(home, part["as"], getattr(home, part["same"]))
    elif "value" in part:
        setattr(home, part["as"], decoded(b64decode(part["value"]), _value))
    else:
        name, source = part["def"], part["source"]
        _remember(name, source)
        code = compile(f"from __future__ import annotations\n{source}", f"<{name}>", "exec")
        exec(code, home.__dict__)  # noqa: S102 -- the user's own function
        function = getattr(home, name)
        function.__defaults__, function.__kwdefaults__ = decoded(b64decode(part["defaults"]), _value)


def _remember(name: str, source: str) -> None:
    """Let tracebacks show the lines of a function that lies in no file."""
    import linecache

    lines = f"from __future__ import annotations\n{source}\n".splitlines(keepends=True)
    linecache.cache[f"<{name}>"] = (len(source), None, lines, f"<{name}>")


def _imported(text: str) -> Any:
    module, _, path = text.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _tell(error: BaseException) -> None:
    """Say what went wrong, for the caller in one line, for readers as usual."""
    kind = type(error)
    record: dict[str, Any] = {"module": kind.__module__, "name": kind.__qualname__, "text": str(error)}
    try:
        record["args"] = json.loads(json.dumps(error.args))
    except (TypeError, ValueError):
        record["args"] = None
    sys.stderr.write(f"{EXCEPTION}{json.dumps(record)}\n")
    own = error.__traceback__.tb_next if error.__traceback__ is not None else None
    traceback.print_exception(kind, error, own)
