"""Writing WfFormat 1.5: one task per subtask of the unfolded workflow.

Nothing is taken from a clock, so the same workflow gives the same text: the run that the format asks for
is dated 1970 and took no time. Ids hold few characters in this format, so they are made from the names;
the exact names stand beside them. What the format has no word for (node counts, requirements, shell
commands) is left out.
"""

from __future__ import annotations

import fnmatch
import json
import math
import re
from collections.abc import Iterable
from typing import Any

from weft.errors import InvalidInput, Problem
from weft.expressions import Expression
from weft.formats.plain_graph import PlainGraph, plain_graph
from weft.formats.wfformat_reader import WRITTEN_BY_US
from weft.workflow.records.quantity import Quantity, value_of
from weft.workflow.records.workflow import Workflow
from weft.workflow.templates import fill
from weft.workflow.unfolding.task_graph import TaskGraph

__all__ = ["write_wfformat"]

_LONG_AGO = "1970-01-01T00:00:00+00:00"
_NOT_IN_IDS = re.compile(r"[^0-9a-zA-Z._-]+")
_NOT_IN_FILES = re.compile(r"[^0-9a-zA-Z._/:-]+")


def write_wfformat(workflow: Workflow) -> str:
    """Write a workflow as WfFormat 1.5. Raises InvalidInput for what the format cannot say."""
    plain = plain_graph(workflow, "WfFormat")
    if any(edge.seconds > 0 for edges in plain.edges for edge in edges):
        what = "transfers that take fixed seconds"
        rule = "WfFormat has only the bytes of files"
        raise InvalidInput(Problem(what=what, rule=rule, advice="write dot instead: its edges are seconds"))
    ids = _safe(plain.graph.names, _NOT_IN_IDS)
    head: dict[str, Any] = {"name": workflow.name}
    if workflow.description:
        head["description"] = workflow.description
    head["createdAt"] = _LONG_AGO
    head["schemaVersion"] = "1.5"
    head["runtimeSystem"] = {"name": WRITTEN_BY_US, "version": "1"}
    files = _Files(plain.graph)
    sections = [f'"tasks": {_listing(_tasks(plain, files, ids))}', f'"files": {_listing(files.table())}']
    text = f'{_json(head)[:-1]}, "workflow": {{"specification": {{{", ".join(sections)}}}'
    if ran := _ran(plain, ids):
        run = _json({"makespanInSeconds": 0, "executedAt": _LONG_AGO})
        text += f', "execution": {run[:-1]}, "tasks": {_listing(ran)}}}'
    return text + "}}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _listing(items: Iterable[object]) -> str:
    """Write a list with one line per item: readable, and far faster than indented output."""
    return "[\n" + ",\n".join(map(_json, items)) + "\n]"


class _Files:
    """The files of every subtask, by the names their templates give."""

    def __init__(self, graph: TaskGraph) -> None:
        described = [graph.workflow.tasks[index] for index in graph.template.tolist()]
        self.sizes: dict[str, float | None] = {}
        self.writes: list[list[str]] = []
        for index, task in enumerate(described):
            names = [_filled(graph, index, output.file) for output in task.outputs]
            for name, output in zip(names, task.outputs, strict=True):
                self.sizes[name] = _bytes(graph, index, output.size)
            self.writes.append(names)
        self._patterns = [name for name in self.sizes if "*" in name or "?" in name or name.endswith("/")]
        written = frozenset(self.sizes)
        self.reads: list[list[str]] = []
        for index, task in enumerate(described):
            found: dict[str, None] = {}
            for given in task.inputs:
                name = self._writer_of(_filled(graph, index, given.file))
                found[name] = None
                if name not in written:
                    self.sizes[name] = _bytes(graph, index, given.size)
            self.reads.append(list(found))
        self.ids = dict(zip(self.sizes, _safe(self.sizes, _NOT_IN_FILES), strict=True))

    def _writer_of(self, name: str) -> str:
        """Name the output that gives an input: the same name, else a wildcard or directory that covers it."""
        if name in self.sizes:
            return name
        covers = (pattern + "*" if pattern.endswith("/") else pattern for pattern in self._patterns)
        pairs = zip(self._patterns, covers, strict=True)
        return next((pattern for pattern, cover in pairs if fnmatch.fnmatchcase(name, cover)), name)

    def table(self) -> list[dict[str, Any]]:
        """List the files whose size is known."""
        known = (
            (file, size) for file, size in self.sizes.items() if size is not None and math.isfinite(size)
        )
        return [{"id": self.ids[file], "sizeInBytes": round(size)} for file, size in known]


def _filled(graph: TaskGraph, index: int, text: str) -> str:
    return fill(text, graph.context(index)) if "{" in text or "}" in text else text


def _bytes(graph: TaskGraph, index: int, size: Quantity | None) -> float | None:
    if isinstance(size, Expression):
        return value_of(size, graph.context(index))
    return size


def _tasks(plain: PlainGraph, files: _Files, ids: list[str]) -> list[dict[str, Any]]:
    children: list[list[str]] = [[] for _ in ids]
    for index, edges in enumerate(plain.edges):
        for edge in edges:
            children[edge.source].append(ids[index])
    return [
        {
            "name": name,
            "id": ids[index],
            "parents": [ids[edge.source] for edge in plain.edges[index]],
            "children": children[index],
            "inputFiles": [files.ids[file] for file in files.reads[index]],
            "outputFiles": [files.ids[file] for file in files.writes[index]],
        }
        for index, name in enumerate(plain.graph.names)
    ]


def _ran(plain: PlainGraph, ids: list[str]) -> list[dict[str, Any]]:
    """List the times that are known; a task without one is not in the list."""
    entries = []
    for index, seconds in enumerate(plain.seconds):
        if math.isnan(seconds):
            continue
        task = plain.graph.description(index)
        entry: dict[str, Any] = {"id": ids[index], "runtimeInSeconds": seconds}
        if task.job is not None and isinstance(task.job.command, tuple):
            program, *arguments = (_filled(plain.graph, index, word) for word in task.job.command)
            entry["command"] = {"program": program, "arguments": [word for word in arguments if word]}
        entry |= {
            key: task.attributes[key] for key in ("coreCount", "memoryInBytes") if key in task.attributes
        }
        entries.append(entry)
    return entries


def _safe(names: Iterable[str], unsafe: re.Pattern[str]) -> list[str]:
    """Make ids of names: other characters than allowed become one dot, and a number keeps them unlike."""
    ids: dict[str, None] = {}
    repeats: dict[str, int] = {}
    for name in names:
        base = ident = (unsafe.sub(".", name).strip(".") or "x") if unsafe.search(name) else name
        while ident in ids:
            repeats[base] = repeats.get(base, 1) + 1
            ident = f"{base}.{repeats[base]}"
        ids[ident] = None
    return list(ids)
