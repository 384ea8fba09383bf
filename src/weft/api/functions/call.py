"""A call of a task: a handle for a value that is still to come.

The handles among its arguments are tasks before it. All calls behind a handle make one workflow; a call is
named after its function and what it is given, so that a later run of another program finds it done.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from weft.api.functions.child import CALL, VALUE
from weft.api.functions.outcome import exception_of, value_of
from weft.api.functions.shipping import shipped
from weft.api.functions.values import Reference, UnfitValue, encoded
from weft.backends.layout import Layout
from weft.errors import InvalidInput, Problem, WeftError
from weft.formats.files import save_text
from weft.workflow.builder import Builder
from weft.workflow.records.workflow import Workflow

__all__ = ["Call", "Gathered", "gather"]

_CHILD = "weft.api.functions.child:call"
_FOLDER = ".weft/functions"
_KEY = 12


class Call:
    """One call of a task."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        facets: Mapping[str, Any],
    ) -> None:
        """Use ``task``."""
        _check(function, args, kwargs)
        self.function = function
        self.args = tuple(args)
        self.kwargs = dict(kwargs)
        self.facets = facets
        self._name = ""
        self._layout: Layout | None = None
        self._workflow = ""

    def build_in(self, layout: Layout) -> Workflow:
        """Make the workflow of all calls behind this one, and the files that they are described in."""
        return _built([self], self.function.__name__, layout)

    def result(self, **how: Any) -> Any:
        """Give the value; if it is not there yet, run what is missing, with the options of ``weft.run``.

        An exception of the function is raised here too, with the traceback of the other process.
        """
        return _results([self], self, how)[0]

    @property
    def name(self) -> str:
        """Name the task; "": no workflow was made from it yet."""
        return self._name

    def __repr__(self) -> str:
        return f"{self.function.__name__}(...)"

    def _repr_html_(self) -> str:
        done = "not run yet" if self._layout is None else f"task {self._name} of {self._layout.project}"
        return f"<code>{escape(repr(self))}</code> <i>{escape(done)}</i>"


class Gathered:
    """Several calls that are run together."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = tuple(calls)

    def build_in(self, layout: Layout) -> Workflow:
        """Make the workflow of all calls behind these."""
        return _built(self.calls, "gathered", layout)

    def result(self, **how: Any) -> list[Any]:
        """Give the values, in the order of the calls."""
        return _results(self.calls, self, how)


def gather(*calls: Call) -> Gathered:
    """Run several calls together: ``gather(*[f(x) for x in range(8)]).result()``."""
    if not calls or not all(isinstance(each, Call) for each in calls):
        raise InvalidInput(Problem(what="gather(...)", rule="takes calls of tasks, at least one"))
    return Gathered(calls)


def _check(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse at once, where the call stands, what Python would refuse too."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}: {error}") from None


def _results(calls: Sequence[Call], source: Call | Gathered, how: Mapping[str, Any]) -> list[Any]:
    missing = object()
    found = [value_of(each._layout, each._workflow, each.name, missing) for each in calls]  # noqa: SLF001
    if all(each is not missing for each in found):
        return found
    from weft.api.executions.running import run

    ran = run(source, **how)
    if not ran.completed:
        error = exception_of(ran)
        raise error if error is not None else WeftError(f"{ran.outcome}\n{ran}")
    found = [value_of(ran.layout, each._workflow, each.name, missing) for each in calls]  # noqa: SLF001
    if any(each is missing for each in found):
        raise WeftError("what a call has made was changed or removed")
    return found


def _built(roots: Sequence[Call], name: str, layout: Layout) -> Workflow:
    """Make the workflow of all calls behind these, and write what describes them."""
    flow = Builder(name)
    places = [str(Path(each or ".").resolve()) for each in sys.path]
    save_text(json.dumps(places), _made(layout, "places.json"))
    texts: dict[int, str] = {}
    seen: Counter[str] = Counter()
    for call in _in_order(roots):
        described = texts.get(id(call.function))
        if described is None:
            described = texts[id(call.function)] = json.dumps(shipped(call.function), sort_keys=True)
        needed = list(dict.fromkeys(_handles((call.args, call.kwargs))))
        content = described.encode() + b"\n" + _arguments(call)
        key = hashlib.blake2b(content, digest_size=20).hexdigest()
        plain = f"{call.function.__name__}-{key[:_KEY]}"
        seen[plain] += 1
        call._name = plain if seen[plain] == 1 else f"{plain}-{seen[plain]}"  # noqa: SLF001
        call._layout, call._workflow = layout, name  # noqa: SLF001
        Path(_made(layout, f"{key}{CALL}")).write_bytes(content)
        described_in = {"file": f"{call.name}{CALL}", "from": f"{_FOLDER}/{key}{CALL}"}
        value = f"{call.name}{VALUE}"
        flow.task(
            call.name,
            call=_CHILD,
            inputs=[described_in, *(f"{each.name}{VALUE}" for each in needed)],
            # What nobody reads would be brought to the project's folder, where it only stands in the way.
            outputs={value: {"to": f".weft/values/{value}"}} if call in roots else [value],
            attributes={"program": call.function.__name__},
            **call.facets,
        )
    return flow.build()


def _made(layout: Layout, name: str) -> str:
    folder = layout.project / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder / name)


def _arguments(call: Call) -> bytes:
    what = f"an argument of {call.function.__name__!r}"
    try:
        return encoded(_referring([list(call.args), call.kwargs]), what)
    except UnfitValue as error:
        raise InvalidInput(Problem(what=str(error), rule="a task runs in another process")) from None


def _handles(value: Any) -> Iterator[Call]:
    """List the calls that a value holds, in lists, tuples and mappings."""
    if isinstance(value, Call):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from _handles(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _handles(item)


def _referring(value: Any) -> Any:
    """Give a value with references in the place of calls."""
    if isinstance(value, Call):
        return Reference(f"{value.name}{VALUE}")
    if type(value) in (list, tuple):
        return type(value)(map(_referring, value))
    return {key: _referring(item) for key, item in value.items()} if type(value) is dict else value


def _in_order(roots: Sequence[Call]) -> list[Call]:
    """List all calls behind these, each after those that it needs."""
    found: dict[int, Call] = {}
    todo: list[tuple[Call, bool]] = [(root, False) for root in reversed(roots)]
    while todo:
        call, ready = todo.pop()
        if id(call) in found:
            continue
        if ready:
            found[id(call)] = call
        else:
            todo.append((call, True))
            todo += [(each, False) for each in _handles((call.args, call.kwargs))]
    return list(found.values())
