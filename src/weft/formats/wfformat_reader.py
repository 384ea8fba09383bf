"""Reading WfFormat 1.1 to 1.5: a parsed JSON document becomes the columns of a trace.

What changed between the versions: the list of tasks is ``jobs`` (to 1.2), ``tasks`` (1.3, 1.4), or split
into ``specification`` and ``execution`` (1.5); files stand with their task (to 1.4) or in a table of
their own (1.5); parents are names (to 1.4) or ids (1.5); keys gained their units in 1.4. The schemas
before 1.4 call sizes kilobytes, but the published files hold bytes (the same run has the same numbers in
1.2 and 1.4), so they are read as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import Path, shorten
from weft.formats.complaints import Complaints
from weft.formats.json_values import (
    complain_unknown,
    describe,
    kind_of,
    read_number,
    read_object,
    read_objects,
)
from weft.formats.trace import Trace
from weft.formats.wfformat_measurements import read_measurements

__all__ = ["VERSIONS", "WRITTEN_BY_US", "read_trace"]

VERSIONS = ("1.1", "1.2", "1.3", "1.4", "1.5")

WRITTEN_BY_US = "weft"
"""Name of the runtime system in files we write: there names are exact, and ids only made from them."""

_NOTHING: Mapping[str, Any] = {}
_NO_FILES: Sequence[str] = ()
_TEXTS = {str}


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
    positions = [0] * len(entries)
    for position, entry in enumerate(ran):
        ident = entry.get("id")
        index = index_of.get(ident, -1) if isinstance(ident, str) else -1
        if index < 0:
            complain_unknown(ident, index_of, (*ran_path, position, "id"), complaints)
        else:
            measured[index] = entry
            positions[index] = position
    _read_sizes(trace, specification.get("files"), complaints)
    trace.reads = _read_lists(entries, "inputFiles", path, complaints)
    trace.writes = _read_lists(entries, "outputFiles", path, complaints)
    _read_edges(trace, entries, path, index_of, complaints)
    read_measurements(trace, entries, measured, (ran_path, positions), complaints)
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
    read_measurements(trace, entries, entries, (path, range(len(entries))), complaints)
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
    trace: Trace,
    entries: Sequence[Mapping[str, Any]],
    path: Path,
    index_of: Mapping[str, int],
    complaints: Complaints,
) -> None:
    """Read parents and children; an edge that only one of the two ends lists counts too."""
    lookup = index_of
    above: list[list[int]] = []
    for index, listed in enumerate(_read_lists(entries, "parents", path, complaints)):
        try:
            above.append([lookup[name] for name in listed])
        except KeyError:
            # Old files name parents by their names; a file that does so needs the longer table only once.
            lookup = lookup if lookup is not index_of else {**_unique_names(entries), **index_of}
            above.append(_resolve(listed, lookup, (*path, index, "parents"), complaints))
    for index, listed in enumerate(_read_lists(entries, "children", path, complaints)):
        if listed:
            lookup = lookup if lookup is not index_of else {**_unique_names(entries), **index_of}
            for child in _resolve(listed, lookup, (*path, index, "children"), complaints):
                above[child].append(index)
    trace.parents = above


def _resolve(
    names: Sequence[str], lookup: Mapping[str, int], path: Path, complaints: Complaints
) -> list[int]:
    """Find tasks by id or name, complaining of those that don't exist."""
    found = []
    for place, name in enumerate(names):
        index = lookup.get(name)
        if index is None:
            complain_unknown(name, lookup, (*path, place), complaints)
        else:
            found.append(index)
    return found


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
        listed = entry.get(key)
        if not listed:
            lists.append(_NO_FILES)
            if listed is not None and type(listed) is not list:
                complaints.add(describe(listed), rule="must be a list", path=(*path, index, key))
        elif type(listed) is list and all(listed) and set(map(type, listed)) == _TEXTS:
            lists.append(listed)
        else:
            lists.append(_NO_FILES)
            _complain_list(listed, (*path, index, key), complaints)
    return lists


def _complain_list(listed: Any, path: Path, complaints: Complaints) -> None:
    if type(listed) is not list:
        complaints.add(describe(listed), rule="must be a list", path=path)
        return
    for place, text in enumerate(listed):
        if type(text) is not str or not text:
            complaints.add(describe(text), rule="must be text, not empty", path=(*path, place))


def _read_sizes(trace: Trace, table: Any, complaints: Complaints) -> None:
    """Read the table of files of 1.5."""
    path: Path = ("workflow", "specification", "files")
    sizes = trace.sizes
    for position, entry in enumerate(read_objects(table, path, complaints)):
        file = entry.get("id")
        if type(file) is not str or not file:
            complaints.add(
                describe(file), rule="every file has an id: text, not empty", path=(*path, position, "id")
            )
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
            complaints.add(
                describe(file), rule="every file has a name: text, not empty", path=(*path, position, "name")
            )
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
