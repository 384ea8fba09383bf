"""Reading WfFormat 1.1 to 1.5: a parsed JSON document becomes the columns of a trace.

What changed between the versions: the list of tasks is ``jobs`` (to 1.2), ``tasks`` (1.3, 1.4), or split into
``specification`` and ``execution`` (1.5); files stand with their task (to 1.4) or in a table of their own (1.5);
parents are names (to 1.4) or ids (1.5); keys gained their units in 1.4. The schemas before 1.4 call sizes kilobytes,
but the published files hold bytes (the same run has the same numbers in 1.2 and 1.4), so they are read as bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import Path, shorten
from weft.formats.complaints import Complaints
from weft.formats.json_values import complain_unknown, describe, kind_of, read_number, read_object, read_objects
from weft.formats.trace import Trace, literal
from weft.workflow.records.job import Job

__all__ = ["VERSIONS", "WRITTEN_BY_US", "read_trace"]

VERSIONS = ("1.1", "1.2", "1.3", "1.4", "1.5")

WRITTEN_BY_US = "weft"
"""Name of the runtime system in files we write; there the names of tasks are exact and the ids only made from them."""

_KEPT = ("coreCount", "cores", "memoryInBytes", "memory")
"""Measurements kept as attributes: recorded, not asked for, so that a trace can be planned on any platform."""

_NOTHING: Mapping[str, Any] = {}
_NO_FILES: Sequence[str] = ()


def read_trace(document: Any, complaints: Complaints) -> Trace:
    """Read the tasks of a document. Raises InvalidInput with everything that was found."""
    _check_version(document, complaints)
    workflow = document.get("workflow")
    if type(workflow) is not dict:
        complaints.add(describe(workflow), rule="must be an object with the tasks", path=("workflow",))
        complaints.finish()
    if "specification" in workflow:
        trace = _read_split(document, workflow, complaints)
    else:
        trace = _read_joined(workflow, complaints)
    complaints.finish()
    return trace


def _check_version(document: Any, complaints: Complaints) -> None:
    if type(document) is not dict:
        complaints.add(f"the file holds {kind_of(document)}", rule="a WfFormat file is one JSON object")
        complaints.finish()
    version = document.get("schemaVersion")
    if version is not None and version not in VERSIONS:
        rule = f"weft reads {', '.join(VERSIONS)}"
        complaints.add(f"version {shorten(version)} of WfFormat", rule=rule, path=("schemaVersion",))
        complaints.finish()


def _read_split(document: Mapping[str, Any], workflow: Mapping[str, Any], complaints: Complaints) -> Trace:
    """Read the form of 1.5: what the tasks are, and how they ran."""
    specification = read_object(workflow, "specification", ("workflow",), complaints)
    execution = read_object(workflow, "execution", ("workflow",), complaints)
    path: Path = ("workflow", "specification", "tasks")
    entries = read_objects(specification.get("tasks"), path, complaints, required=True)
    index_of = _read_ids(entries, path, complaints)
    trace = Trace(names=list(index_of))
    ran_path: Path = ("workflow", "execution", "tasks")
    ran = read_objects(execution.get("tasks"), ran_path, complaints)
    measured: list[Mapping[str, Any]] = [_NOTHING] * len(entries)
    paths: list[Path] = [path] * len(entries)
    for position, entry in enumerate(ran):
        index = index_of.get(entry.get("id"), -1) if type(entry.get("id")) is str else -1
        if index < 0:
            complain_unknown(entry.get("id"), index_of, (*ran_path, position, "id"), complaints)
        else:
            measured[index] = entry
            paths[index] = (*ran_path, position)
    _read_sizes(trace, specification.get("files"), complaints)
    trace.reads = _read_lists(entries, "inputFiles", path, complaints)
    trace.writes = _read_lists(entries, "outputFiles", path, complaints)
    _read_edges(trace, entries, path, index_of, complaints)
    _read_measurements(trace, entries, measured, paths, complaints)
    system = document.get("runtimeSystem")
    if type(system) is dict and system.get("name") == WRITTEN_BY_US:
        trace.names = _exact_names(entries, trace.names)
    return trace


def _read_joined(workflow: Mapping[str, Any], complaints: Complaints) -> Trace:
    """Read the form up to 1.4: everything stands with its task."""
    key = "tasks" if "tasks" in workflow else "jobs"
    path: Path = ("workflow", key)
    entries = read_objects(workflow.get(key), path, complaints, required=True)
    index_of = _read_ids(entries, path, complaints)
    trace = Trace(names=list(index_of))
    for position, entry in enumerate(entries):
        _read_own_files(trace, entry.get("files"), (*path, position, "files"), complaints)
    _read_edges(trace, entries, path, index_of, complaints)
    paths: list[Path] = [(*path, position) for position in range(len(entries))]
    _read_measurements(trace, entries, entries, paths, complaints)
    return trace


def _read_ids(entries: Sequence[Mapping[str, Any]], path: Path, complaints: Complaints) -> dict[str, int]:
    """Find the id (else the name) of every task. Without them nothing else can be read."""
    index_of: dict[str, int] = {}
    for index, entry in enumerate(entries):
        key = "id" if entry.get("id") is not None else "name"
        ident = entry.get(key)
        if type(ident) is not str or not ident:
            rule = "every task has an id (or name): text, not empty"
            complaints.add(describe(ident), rule=rule, path=(*path, index, key))
        elif index_of.setdefault(ident, index) != index:
            what = f"task {shorten(ident)!r} again, first at {index_of[ident]}"
            complaints.add(what, rule="ids of tasks are unique", path=(*path, index, key))
    complaints.finish()
    return index_of


def _exact_names(entries: Sequence[Mapping[str, Any]], ids: list[str]) -> list[str]:
    names = [entry.get("name") for entry in entries]
    exact = [name for name in names if type(name) is str and name]
    return exact if len(set(exact)) == len(ids) else ids


def _read_edges(
    trace: Trace, entries: Sequence[Mapping[str, Any]], path: Path, index_of: Mapping[str, int], complaints: Complaints
) -> None:
    """Read parents and children; an edge that only one of the two ends lists counts too."""
    lookup = {**_unique_names(entries), **index_of}
    above: list[list[int]] = [[] for _ in entries]
    for key in ("parents", "children"):
        lists = _read_lists(entries, key, path, complaints)
        for index, listed in enumerate(lists):
            for place, name in enumerate(listed):
                other = lookup.get(name)
                if other is None:
                    complain_unknown(name, index_of, (*path, index, key, place), complaints)
                elif key == "parents":
                    above[index].append(other)
                else:
                    above[other].append(index)
    trace.parents = [list(dict.fromkeys(indices)) if len(indices) > 1 else indices for indices in above]


def _unique_names(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Index tasks by name, leaving out names that several share (a reference to one would mean nothing)."""
    found: dict[str, int] = {}
    shared = set()
    for index, entry in enumerate(entries):
        name = entry.get("name")
        if type(name) is str and found.setdefault(name, index) != index:
            shared.add(name)
    return {name: index for name, index in found.items() if name not in shared} if shared else found


def _read_lists(
    entries: Sequence[Mapping[str, Any]], key: str, path: Path, complaints: Complaints
) -> list[Sequence[str]]:
    """Read one list of texts per task."""
    lists: list[Sequence[str]] = []
    for index, entry in enumerate(entries):
        listed = entry.get(key, _NO_FILES)
        if type(listed) is list:
            for text in listed:
                if type(text) is not str or not text:
                    place = listed.index(text)
                    complaints.add(describe(text), rule="must be text, not empty", path=(*path, index, key, place))
                    listed = _NO_FILES
                    break
        elif listed is None:
            listed = _NO_FILES
        elif listed is not _NO_FILES:
            complaints.add(describe(listed), rule="must be a list", path=(*path, index, key))
            listed = _NO_FILES
        lists.append(listed)
    return lists


def _read_sizes(trace: Trace, table: Any, complaints: Complaints) -> None:
    """Read the table of files of 1.5."""
    path: Path = ("workflow", "specification", "files")
    sizes = trace.sizes
    for position, entry in enumerate(read_objects(table, path, complaints)):
        file = entry.get("id")
        if type(file) is not str or not file:
            complaints.add(describe(file), rule="every file has an id: text, not empty", path=(*path, position, "id"))
            continue
        size = entry.get("sizeInBytes")
        if type(size) is int and 0 <= size < 1 << 63:
            sizes[file] = size
        else:
            read_number(sizes, file, size, (*path, position, "sizeInBytes"), complaints)


def _read_own_files(trace: Trace, table: Any, path: Path, complaints: Complaints) -> None:
    """Read the files of one task, up to 1.4."""
    reads: list[str] = []
    writes: list[str] = []
    for position, entry in enumerate(read_objects(table, path, complaints)):
        file, link = entry.get("name"), entry.get("link")
        if type(file) is not str or not file:
            complaints.add(describe(file), rule="every file has a name: text, not empty", path=(*path, position, "name"))
            continue
        if link == "input":
            reads.append(file)
        elif link == "output":
            writes.append(file)
        else:
            complaints.add(describe(link), rule="must be input or output", path=(*path, position, "link"))
        key = "sizeInBytes" if "sizeInBytes" in entry else "size"
        # The writer knows the size best; readers' words count where nobody writes the file.
        if link == "output" or file not in trace.sizes:
            read_number(trace.sizes, file, entry.get(key), (*path, position, key), complaints)
    trace.reads.append(reads)
    trace.writes.append(writes)


def _read_measurements(
    trace: Trace,
    entries: Sequence[Mapping[str, Any]],
    measured: Sequence[Mapping[str, Any]],
    paths: Sequence[Path],
    complaints: Complaints,
) -> None:
    """Read what is known of the tasks' runs: the time, the command, and what we keep without reading."""
    for index, (entry, ran) in enumerate(zip(entries, measured, strict=True)):
        key = "runtimeInSeconds" if "runtimeInSeconds" in ran else "runtime"
        seconds = ran.get(key)
        if type(seconds) is float and 0.0 <= seconds < math.inf:
            trace.work.append(seconds)
        else:
            found: dict[str, float] = {}
            read_number(found, key, seconds, (*paths[index], key), complaints)
            trace.work.append(found.get(key))
        command = ran.get("command")
        trace.jobs.append(None if command is None else _read_command(command, paths[index], complaints))
        program = _program(entry, command)
        attributes: dict[str, object] = {"program": program} if program else {}
        for key in _KEPT:
            if type(ran.get(key)) in (int, float):
                attributes[key] = ran[key]
        trace.attributes.append(attributes or _NOTHING)


def _program(entry: Mapping[str, Any], command: Any) -> str | None:
    """Name the kind of a task: its category, else its name where that is not the id, else its program."""
    choices = [entry.get("category")]
    if entry.get("name") != entry.get("id"):
        choices.append(entry.get("name"))
    if type(command) is dict:
        choices.append(command.get("program"))
    choices.append(entry.get("name"))
    return next((choice for choice in choices if type(choice) is str and choice), None)


def _read_command(command: Any, path: Path, complaints: Complaints) -> Job | None:
    program = command.get("program") if type(command) is dict else command
    if program is None or program == "":
        return None
    arguments = command.get("arguments") or [] if type(command) is dict else []
    if type(arguments) is not list:
        complaints.add(describe(arguments), rule="must be a list", path=(*path, "command", "arguments"))
        return None
    words = [program, *arguments]
    for word in words:
        if type(word) is not str:
            complaints.add(describe(word), rule="program and arguments are texts", path=(*path, "command"))
            return None
    return Job(command=tuple([literal(word) for word in words]))
