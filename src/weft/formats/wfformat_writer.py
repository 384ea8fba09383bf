"""Writing WfFormat 1.5: one task per subtask of the unfolded workflow.

Nothing is taken from a clock, so the same workflow gives the same text: the run that the format asks for is dated
1970 and took no time. Node counts, requirements and the like have no word in the format and are left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from weft.errors import InvalidInput, Problem, shorten
from weft.formats.plain_graph import PlainGraph, plain_graph
from weft.formats.wfformat_reader import WRITTEN_BY_US
from weft.workflow.records.workflow import Workflow

__all__ = ["write_wfformat"]

_LONG_AGO = "1970-01-01T00:00:00+00:00"
_NOT_IN_IDS = re.compile(r"[^0-9a-zA-Z._-]+")
_NOT_IN_FILES = re.compile(r"[^0-9a-zA-Z._/:-]+")


def write_wfformat(workflow: Workflow) -> str:
    """Write a workflow as WfFormat 1.5. Raises InvalidInput for what the format cannot say."""
    graph = plain_graph(workflow, "WfFormat")
    if any(seconds > 0 for seconds in graph.edge_seconds):
        what = "transfers that take fixed seconds"
        rule = "WfFormat has only the bytes of files"
        raise InvalidInput(Problem(what=what, rule=rule, advice="write dot instead: its edges are seconds"))
    document: dict[str, Any] = {"name": workflow.name}
    if workflow.description:
        document["description"] = workflow.description
    document["createdAt"] = _LONG_AGO
    document["schemaVersion"] = "1.5"
    document["runtimeSystem"] = {"name": WRITTEN_BY_US, "version": "1"}
    ids = _safe(graph.names, _NOT_IN_IDS)
    document["workflow"] = {"specification": _specification(graph, ids)}
    if ran := _ran(graph, ids):
        document["workflow"]["execution"] = {"makespanInSeconds": 0, "executedAt": _LONG_AGO, "tasks": ran}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _specification(graph: PlainGraph, ids: list[str]) -> dict[str, Any]:
    file_ids = dict(zip(graph.sizes, _safe(graph.sizes, _NOT_IN_FILES), strict=True))
    children: list[list[str]] = [[] for _ in ids]
    for index, parents in enumerate(graph.parents):
        for parent in parents:
            children[parent].append(ids[index])
    tasks = [
        {
            "name": name,
            "id": ids[index],
            "parents": [ids[parent] for parent in graph.parents[index]],
            "children": children[index],
            "inputFiles": [file_ids[file] for file in graph.reads[index]],
            "outputFiles": [file_ids[file] for file in graph.writes[index]],
        }
        for index, name in enumerate(graph.names)
    ]
    files = [
        {"id": file_ids[file], "sizeInBytes": _whole(file, size)}
        for file, size in graph.sizes.items()
        if size is not None
    ]
    return {"tasks": tasks, "files": files}


def _ran(graph: PlainGraph, ids: list[str]) -> list[dict[str, Any]]:
    """List the times that are known; a task without one is not in the list."""
    entries = []
    for index, seconds in enumerate(graph.work):
        if math.isnan(seconds):
            continue
        entry: dict[str, Any] = {"id": ids[index], "runtimeInSeconds": seconds}
        command = graph.commands[index]
        if command:
            program, *arguments = command
            entry["command"] = {"program": program, "arguments": [word for word in arguments if word]}
        entries.append(entry)
    return entries


def _whole(file: str, size: float) -> int:
    """Give a size as the whole number the format wants; a formula may have given a fraction of a byte."""
    if not 0 <= size < math.inf:
        raise InvalidInput(Problem(what=f"file {shorten(file)!r} of {size} bytes", rule="must be a number, at least 0"))
    return round(size)


def _safe(names: Iterable[str], unsafe: re.Pattern[str]) -> list[str]:
    """Make ids of names: other characters than allowed become one dot, and a number keeps them unlike."""
    ids: dict[str, None] = {}
    for name in names:
        base = ident = unsafe.sub(".", name).strip(".") or "x"
        again = 2
        while ident in ids:
            ident = f"{base}.{again}"
            again += 1
        ids[ident] = None
    return list(ids)
