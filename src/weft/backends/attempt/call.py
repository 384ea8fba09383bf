"""Run a Python function as the program of a task: ``python -m weft.backends.attempt.call MODULE:NAME JSON``.

The JSON object contains parameters and sweep variables of the workflow, and ``inputs``, ``outputs``,
``nodes``, ``cores``, ``memory_mb``, ``iteration`` and ``task``. The function receives those values whose
names match its parameters. Further words of the command line are positional arguments. The return value
becomes the task's result: a mapping is stored unchanged, any other value is stored under the name ``value``.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.task import result

_WRONG_CALL = 2
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def main(words: Sequence[str]) -> None:
    """Call the function that ``words`` name; exit with code 2 if it cannot be found or called."""
    name, given, *positional = words
    folder = os.environ.get("WEFT_FOLDER")
    # Packages are complete in the workflow's folder; only single files are staged to the task's directory.
    sys.path[:0] = [folder] if folder else []
    sys.path.append(str(Path.cwd()))
    function = _function(name)
    try:
        named = select_arguments(function, json.loads(given), positional)
    except TypeError as error:
        _end(f"{name} cannot be called: {error}")
    if (answer := function(*positional, **named)) is not None:
        result(**(answer if isinstance(answer, Mapping) else {"value": answer}))


def select_arguments(
    function: Callable[..., Any], values: Mapping[str, object], positional: Sequence[str] = ()
) -> dict[str, object]:
    """Return the values whose names match the parameters of a function.

    Raises TypeError if the function cannot be called with them.
    """
    signature = inspect.signature(function)
    taken = list(signature.parameters)[: len(positional)]
    everything = any(kind.kind is inspect.Parameter.VAR_KEYWORD for kind in signature.parameters.values())
    named = [name for name, kind in signature.parameters.items() if kind.kind in _NAMED and name not in taken]
    found = {name: values[name] for name in (values if everything else named) if name in values}
    signature.bind(*positional, **found)
    return found


def _function(name: str) -> Callable[..., Any]:
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # The module exists, but a module it imports does not.
        _end(f"no module {module!r} in the workflow's folder or on the path of this Python")
    for part in path.split("."):
        if not hasattr(found, part):
            _end(f"module {module!r} has no {path!r}")
        found = getattr(found, part)
    # A task object of a workflow written in Python refers to its function.
    function: Callable[..., Any] = getattr(found, "__weft_function__", found)
    return function


def _end(why: str) -> Any:
    sys.stderr.write(f"weft: {why}\n")
    raise SystemExit(_WRONG_CALL)


if __name__ == "__main__":
    main(sys.argv[1:])
