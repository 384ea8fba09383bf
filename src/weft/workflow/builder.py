"""The Python builder of workflows; it takes the keys of the file format.

>>> from weft import Builder
>>> flow = Builder("wien2k", params={"kpoints": 4, "w1": 10})
>>> lapw0 = flow.task("lapw0", work="0.5*w1", outputs={"potential": "100kB"})
>>> lapw1 = flow.task("lapw1", sweep={"k": "1..kpoints"}, inputs=["potential"], work="w1", nodes=[1, 2, 4])
>>> conv = flow.task("conv", after=lapw1, work=1)
>>> flow.loop("scf", last=conv, first=lapw0, until="conv.exit_code == 0", max_iterations=40)
>>> len(flow.build().tasks)
3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.documents import Document, DocumentNode, caller_location, from_python
from weft.errors import InvalidInput, SourceLocation
from weft.fields import VERSION
from weft.workflow.checks import find_problems
from weft.workflow.file_format import read_workflow
from weft.workflow.workflow import Workflow


class TaskHandle:
    """A reference to a task, for ``after``; an index selects subtasks (``lapw1["k"]``)."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, index: object) -> TaskHandle:
        text = ", ".join(map(str, index)) if isinstance(index, tuple) else str(index)
        return TaskHandle(f"{self.name}[{text}]")

    def when(self, condition: str) -> dict[str, str]:
        """Return a conditional dependency on this task (``when("exit_code == 0")``)."""
        return {"task": self.name, "if": condition}

    def __repr__(self) -> str:
        return f"TaskHandle({self.name!r})"


class Builder:
    """Collects tasks and loops; ``build`` validates them and returns the workflow."""

    def __init__(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        defaults: Mapping[str, object] | None = None,
        budgets: Mapping[str, object] | None = None,
        secrets: Mapping[str, object] | Sequence[str] | None = None,
        predictions: str | Sequence[object] | None = None,
        settings: Mapping[str, object] | None = None,
        description: str | None = None,
        owner: str | None = None,
    ) -> None:
        self._place = caller_location()
        given = {
            "name": name,
            "params": params,
            "defaults": defaults,
            "budgets": budgets,
            "secrets": list(secrets) if isinstance(secrets, tuple) else secrets,
            "predictions": predictions,
            "settings": settings,
            "description": description,
            "owner": owner,
        }
        self._head = {"weft": VERSION, **{key: value for key, value in given.items() if value is not None}}
        self._tasks: dict[str, DocumentNode] = {}
        self._loops: dict[str, DocumentNode] = {}
        self._places: dict[str, SourceLocation] = {}

    def task(self, name: str, **facets: Any) -> TaskHandle:
        """Add a task. Keyword arguments are the keys of the file format (``from_`` for ``from``)."""
        if name in self._tasks:
            raise InvalidInput(f"two tasks are named {name!r}")
        place = caller_location()
        entries = {key.rstrip("_"): _plain(value) for key, value in facets.items()}
        self._tasks[name] = from_python(entries, place, ("tasks", name))
        self._places[name] = place
        return TaskHandle(name)

    def loop(self, name: str, *, last: TaskHandle | str, first: TaskHandle | str, **facets: Any) -> None:
        """Add a loop from ``first`` to ``last``; keyword arguments are further keys of the file format."""
        if name in self._loops:
            raise InvalidInput(f"two loops are named {name!r}")
        entries = {"from": _plain(last), "to": _plain(first), **{key: _plain(v) for key, v in facets.items()}}
        self._loops[name] = from_python(entries, caller_location(), ("loops", name))

    def build(self) -> Workflow:
        """Return the workflow, or raise InvalidInput with every problem and its line."""
        root = from_python({**self._head, "tasks": {}, "loops": {}}, self._place)
        entries = dict(root.value) if isinstance(root.value, dict) else {}
        entries["tasks"] = DocumentNode(
            value=dict(self._tasks), location=self._place, path=("tasks",), key_locations=dict(self._places)
        )
        entries["loops"] = DocumentNode(value=dict(self._loops), location=self._place, path=("loops",))
        document = Document(file=self._place.file, root=DocumentNode(value=entries, location=self._place))
        workflow, reader = read_workflow(document)
        if problems := find_problems(workflow, reader.problems):
            raise InvalidInput(problems)
        return workflow


def _plain(value: object) -> object:
    if isinstance(value, TaskHandle):
        return value.name
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
