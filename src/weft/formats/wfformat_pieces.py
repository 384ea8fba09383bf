"""Pieces of WfFormat 1.5 that described and executed workflows share: files, safe ids, lists."""

from __future__ import annotations

import fnmatch
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from weft.expressions import Expression
from weft.workflow.records.quantity import Quantity, value_of
from weft.workflow.templates import fill
from weft.workflow.unfolding.task_graph import TaskGraph

__all__ = [
    "LONG_AGO",
    "Files",
    "command_of",
    "file_table",
    "json_text",
    "listing",
    "safe_file_ids",
    "safe_ids",
]

LONG_AGO = "1970-01-01T00:00:00+00:00"
"""When everything happened of which nobody knows when."""

_NOT_IN_IDS = re.compile(r"[^0-9a-zA-Z._-]+")
_NOT_IN_FILES = re.compile(r"[^0-9a-zA-Z._/:-]+")


def json_text(value: object) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def listing(items: Iterable[object]) -> str:
    """Write a list with one line per item: readable, and far faster than indented output."""
    return "[\n" + ",\n".join(map(json_text, items)) + "\n]"


class Files:
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
        self.ids = safe_file_ids(self.sizes)

    def _writer_of(self, name: str) -> str:
        """Name the output that gives an input: the same name, else a wildcard or directory that covers it."""
        if name in self.sizes:
            return name
        covers = (pattern + "*" if pattern.endswith("/") else pattern for pattern in self._patterns)
        pairs = zip(self._patterns, covers, strict=True)
        return next((pattern for pattern, cover in pairs if fnmatch.fnmatchcase(name, cover)), name)

    def table(self) -> list[dict[str, Any]]:
        """List the files whose size is known."""
        return file_table(self.sizes, self.ids)


def file_table(sizes: Mapping[str, float | None], ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """List the files whose size is known."""
    known = ((file, size) for file, size in sizes.items() if size is not None and math.isfinite(size))
    return [{"id": ids[file], "sizeInBytes": round(size)} for file, size in known]


def command_of(graph: TaskGraph, index: int) -> dict[str, Any] | None:
    """Give the command of a task as the format has it; None: it has none, or is a text for the shell."""
    job = graph.description(index).job
    if job is None or not isinstance(job.command, tuple):
        return None
    program, *arguments = (_filled(graph, index, word) for word in job.command)
    return {"program": program, "arguments": [word for word in arguments if word]}


def _filled(graph: TaskGraph, index: int, text: str) -> str:
    return fill(text, graph.context(index)) if "{" in text or "}" in text else text


def _bytes(graph: TaskGraph, index: int, size: Quantity | None) -> float | None:
    if isinstance(size, Expression):
        return value_of(size, graph.context(index))
    return size


def safe_ids(names: Iterable[str]) -> list[str]:
    """Make ids of the names of tasks or machines."""
    return _safe(names, _NOT_IN_IDS)


def safe_file_ids(names: Iterable[str]) -> dict[str, str]:
    """Make ids of the names of files, by name."""
    listed = list(names)
    return dict(zip(listed, _safe(listed, _NOT_IN_FILES), strict=True))


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
