"""Writing WfFormat 1.5: one task per subtask of the unfolded workflow.

Nothing is taken from a clock, so the same workflow gives the same text: the run that the format asks for
is dated 1970 and took no time. Ids hold few characters in this format, so they are made from the names;
the exact names stand beside them. What the format has no word for (node counts, requirements, shell
commands) is left out.
"""

from __future__ import annotations

import math
from typing import Any

from weft.errors import InvalidInput, Problem
from weft.formats.plain_graph import PlainGraph, plain_graph
from weft.formats.wfformat_pieces import (
    LONG_AGO,
    Files,
    command_of,
    json_text,
    listing,
    safe_ids,
)
from weft.formats.wfformat_reader import WRITTEN_BY_US
from weft.workflow.records.workflow import Workflow

__all__ = ["write_wfformat"]


def write_wfformat(workflow: Workflow) -> str:
    """Write a workflow as WfFormat 1.5. Raises InvalidInput for what the format cannot say."""
    plain = plain_graph(workflow, "WfFormat")
    if any(edge.seconds > 0 for edges in plain.edges for edge in edges):
        what = "transfers that take fixed seconds"
        rule = "WfFormat has only the bytes of files"
        raise InvalidInput(Problem(what=what, rule=rule, advice="write dot instead: its edges are seconds"))
    ids = safe_ids(plain.graph.names)
    head: dict[str, Any] = {"name": workflow.name}
    if workflow.description:
        head["description"] = workflow.description
    head["createdAt"] = LONG_AGO
    head["schemaVersion"] = "1.5"
    head["runtimeSystem"] = {"name": WRITTEN_BY_US, "version": "1"}
    files = Files(plain.graph)
    sections = [f'"tasks": {listing(_tasks(plain, files, ids))}', f'"files": {listing(files.table())}']
    text = f'{json_text(head)[:-1]}, "workflow": {{"specification": {{{", ".join(sections)}}}'
    if ran := _ran(plain, ids):
        run = json_text({"makespanInSeconds": 0, "executedAt": LONG_AGO})
        text += f', "execution": {run[:-1]}, "tasks": {listing(ran)}}}'
    return text + "}}\n"


def _tasks(plain: PlainGraph, files: Files, ids: list[str]) -> list[dict[str, Any]]:
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
        if (command := command_of(plain.graph, index)) is not None:
            entry["command"] = command
        entry |= {
            key: task.attributes[key] for key in ("coreCount", "memoryInBytes") if key in task.attributes
        }
        entries.append(entry)
    return entries
