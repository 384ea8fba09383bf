"""``@task``: a function whose calls are tasks.

>>> from weft.api import task
>>> @task(work=2)
... def double(x):
...     return 2 * x
>>> handle = double(21)
>>> handle
double(...)

``handle.result()`` runs it, in a process of its own, with everything it needs; handles may be arguments of
other calls, and so make a workflow. ``double.function(21)`` calls the function here and now.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from weft.api.functions.call import Call
from weft.errors import InvalidInput, Problem

__all__ = ["TaskFunction", "task"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_OURS = ("after", "attributes", "call", "command", "from", "inputs", "kind", "outputs", "sweep", "to", "zip")
"""Keys of a task that follow from the call."""


class TaskFunction(Generic[_P, _R]):
    """A function whose calls are tasks."""

    def __init__(self, function: Callable[_P, _R], facets: Mapping[str, Any]) -> None:
        self.function = function
        """The function itself."""
        self.facets = facets
        """The keys of the file format that its tasks have."""
        functools.update_wrapper(self, function)

    @property
    def __weft_function__(self) -> Callable[_P, _R]:
        """Give the function to the process that calls it."""
        return self.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make a handle for the value; inside of a task, call the function."""
        if os.environ.get("WEFT_TASK"):
            return self.function(*args, **kwargs)
        return Call(self.function, args, kwargs, self.facets)

    def __repr__(self) -> str:
        return f"<task {self.function.__qualname__}>"


@overload
def task(function: Callable[_P, _R], /) -> TaskFunction[_P, _R]: ...


@overload
def task(**facets: Any) -> Callable[[Callable[_P, _R]], TaskFunction[_P, _R]]: ...


def task(function: Callable[..., Any] | None = None, /, **facets: Any) -> Any:
    """Make the calls of a function tasks; keywords are the keys of the file format.

    ``work``, ``nodes``, ``speedup``, ``memory``, ``cores``, ``retries``, ``time_limit``, ``requirements``,
    ``env``, ``version`` ... A changed function is run again by itself; raise ``version`` if something has
    changed that it calls.
    """
    for key in facets:
        if key in _OURS:
            what = f"task(..., {key}=...)"
            raise InvalidInput(Problem(what=what, rule="it follows from the call", advice="leave it out"))
    if function is None:
        return lambda found: TaskFunction(found, facets)
    return TaskFunction(function, facets)
