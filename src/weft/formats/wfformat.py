"""WfFormat, the JSON of the WfCommons execution traces: reads 1.1 to 1.5, writes 1.5."""

from __future__ import annotations

import fnmatch
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.errors import DocumentPath, InvalidInput, shorten
from weft.expressions import Expression
from weft.formats.format import (
    ProblemCollector,
    SourceFile,
    add_unknown_task,
    describe_value,
    load_json,
    name_json_type,
    pause_garbage_collection,
    read_number,
    read_object,
    read_objects,
)
from weft.formats.graph import ExportGraph, RecordedWorkflow, escape_braces, export_graph
from weft.workflow.quantity import Quantity, evaluate_quantity
from weft.workflow.task import JobSpec
from weft.workflow.task_graph import TaskGraph
from weft.workflow.templates import fill_template
from weft.workflow.workflow import Workflow

_MARK = re.compile(r'"schemaVersion"\s*:|"workflow"\s*:\s*\{')
_WEFT_KEY = re.compile(r'"weft"\s*:')  # the version key of weft's own files, which may be JSON


class WfFormat:
    """Execution traces of WfCommons.

    A task's id becomes its name and its measured runtime its work on a machine of speed 1 (without a runtime
    the work is unknown). Parents and files become edges by the rules of ``graph``. Cores and memory are
    measurements, not requirements: they are kept as attributes.

    Differences between the versions: the list of tasks is ``jobs`` (to 1.2), ``tasks`` (1.3, 1.4), or split
    into ``specification`` and ``execution`` (1.5); files are listed in their task (to 1.4) or in a table of
    their own (1.5); parents are names (to 1.4) or ids (1.5); keys have their units since 1.4. The schemas
    before 1.4 call sizes kilobytes, but the published files hold bytes (the same run has the same numbers in
    1.2 and 1.4), so they are read as bytes.

    The writer reads no clock, so the same workflow gives the same text: the run that the format requires is
    dated 1970 and took no time. Ids allow few characters, so they are derived from the names, which are
    written beside them. What the format cannot express (node counts, requirements, shell commands) is left
    out.
    """

    name = "wfformat"
    title = "WfCommons execution trace (WfFormat JSON)"
    extensions: tuple[str, ...] = (".json",)
    reads = True
    writes = True

    def recognises(self, source: SourceFile) -> bool:
        """Return whether a file is a JSON object with a schema version or a ``workflow`` object."""
        head = source.head
        if not head.lstrip().startswith("{") or _WEFT_KEY.search(head[:2000]):
            return False
        return _MARK.search(head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return the workflow of a trace. Raises InvalidInput."""
        with pause_garbage_collection():
            document = load_json(source)
            trace = _read_trace(document, ProblemCollector(source))
            name, description = document.get("name"), document.get("description")
            return trace.workflow(
                source,
                name=name if isinstance(name, str) and name else None,
                description=description if isinstance(description, str) and description else None,
            )

    def write(self, workflow: Workflow) -> str:
        """Return the unfolded workflow as WfFormat 1.5. Raises InvalidInput for what it cannot express."""
        return _write_wfformat(workflow)


_KEPT = ("coreCount", "cores", "memoryInBytes", "memory")
"""Measurements that become attributes of the task, not requirements."""

_NOTHING: Mapping[str, Any] = {}
_TEXTS = {str}


def _read_measurements(
    trace: RecordedWorkflow,
    entries: Sequence[Mapping[str, Any]],
    measured: Sequence[Mapping[str, Any]],
    places: tuple[DocumentPath, Sequence[int]],
    problems: ProblemCollector,
) -> None:
    """Append the measured time, the command and the kept attributes of every task to the trace."""
    path, positions = places
    work, jobs = trace.work, trace.jobs
    for index, (entry, ran) in enumerate(zip(entries, measured, strict=True)):
        key = "runtimeInSeconds" if "runtimeInSeconds" in ran else "runtime"
        seconds = ran.get(key)
        if type(seconds) is float and 0.0 <= seconds < math.inf:
            work.append(seconds)
        else:
            found: dict[str, float] = {}
            read_number(found, key, seconds, (*path, positions[index], key), problems)
            work.append(found.get(key))
        if (command := ran.get("command")) is None:
            jobs.append(None)
        else:
            jobs.append(_read_command(command, (*path, positions[index], "command"), problems))
        trace.attributes.append(_attributes(entry, ran, command))


def _attributes(entry: Mapping[str, Any], ran: Mapping[str, Any], command: Any) -> Mapping[str, object]:
    program = _program(entry, command)
    kept: dict[str, object] = {"program": program} if program else {}
    for key in _KEPT:
        if key in ran and type(ran[key]) in (int, float):
            kept[key] = ran[key]
    return kept or _NOTHING


def _program(entry: Mapping[str, Any], command: Any) -> str | None:
    """Return the kind of a task: its category; without a category, its name.

    If a task without a category has a name equal to its id, its kind is the program of its command.
    """
    category, name = entry.get("category"), entry.get("name")
    if type(category) is str and category:
        return category
    if type(command) is dict and name == entry.get("id"):
        program = command.get("program")
        if type(program) is str and program:
            return program
    return name if type(name) is str and name else None


def _read_command(command: Any, path: DocumentPath, problems: ProblemCollector) -> JobSpec | None:
    program = command.get("program") if type(command) is dict else command
    if program is None or program == "":
        return None
    arguments = command.get("arguments") or [] if type(command) is dict else []
    if type(arguments) is not list:
        problems.add(describe_value(arguments), rule="must be a list", path=(*path, "arguments"))
        return None
    words = [program, *arguments]
    if set(map(type, words)) != _TEXTS:
        rule = "program and arguments must be text"
        problems.add(
            describe_value(next(word for word in words if type(word) is not str)), rule=rule, path=path
        )
        return None
    return JobSpec(command=tuple([escape_braces(word) for word in words]))


_VERSIONS = ("1.1", "1.2", "1.3", "1.4", "1.5")

RUNTIME_SYSTEM = "weft"
"""Name of the runtime system in files that weft writes.

In such files task names are exact, and ids are derived from the names.
"""

_NO_FILES: Sequence[str] = ()


def _read_trace(document: Any, problems: ProblemCollector) -> RecordedWorkflow:
    """Return the tasks of a document. Raises InvalidInput with every problem found."""
    _check_version(document, problems)
    workflow = document.get("workflow")
    if type(workflow) is not dict:
        problems.add(describe_value(workflow), rule="must be an object with the tasks", path=("workflow",))
        problems.finish()
    if "specification" in workflow:
        trace = _read_split(document, workflow, problems)
    else:
        trace = _read_joined(workflow, problems)
    problems.finish()
    return trace


def _check_version(document: Any, problems: ProblemCollector) -> None:
    if type(document) is not dict:
        problems.add(f"the file holds {name_json_type(document)}", rule="a WfFormat file is one JSON object")
        problems.finish()
    if (version := document.get("schemaVersion")) is not None and version not in _VERSIONS:
        rule = f"weft reads {', '.join(_VERSIONS)}"
        problems.add(f"version {shorten(version)} of WfFormat", rule=rule, path=("schemaVersion",))
        problems.finish()


def _read_split(
    document: Mapping[str, Any], workflow: Mapping[str, Any], problems: ProblemCollector
) -> RecordedWorkflow:
    """Return the tasks of version 1.5, which separates their specification from their execution."""
    specification = read_object(workflow, "specification", ("workflow",), problems)
    execution = read_object(workflow, "execution", ("workflow",), problems)
    path: DocumentPath = ("workflow", "specification", "tasks")
    entries = read_objects(specification.get("tasks"), path, problems, required=True)
    index_of = _read_ids(entries, path, problems)
    trace = RecordedWorkflow(names=list(index_of))
    ran_path: DocumentPath = ("workflow", "execution", "tasks")
    ran = read_objects(execution.get("tasks"), ran_path, problems)
    measured: list[Mapping[str, Any]] = [_NOTHING] * len(entries)
    positions = [0] * len(entries)
    for position, entry in enumerate(ran):
        ident = entry.get("id")
        index = index_of.get(ident, -1) if isinstance(ident, str) else -1
        if index < 0:
            add_unknown_task(ident, index_of, (*ran_path, position, "id"), problems)
        else:
            measured[index] = entry
            positions[index] = position
    _read_sizes(trace, specification.get("files"), problems)
    trace.reads = _read_lists(entries, "inputFiles", path, problems)
    trace.writes = _read_lists(entries, "outputFiles", path, problems)
    _read_edges(trace, entries, path, index_of, problems)
    _read_measurements(trace, entries, measured, (ran_path, positions), problems)
    system = document.get("runtimeSystem")
    if type(system) is dict and system.get("name") == RUNTIME_SYSTEM:
        trace.names = _exact_names(entries, trace.names)
    return trace


def _read_joined(workflow: Mapping[str, Any], problems: ProblemCollector) -> RecordedWorkflow:
    """Return the tasks of the versions up to 1.4, where a task holds everything."""
    key = "tasks" if "tasks" in workflow else "jobs"
    path: DocumentPath = ("workflow", key)
    entries = read_objects(workflow.get(key), path, problems, required=True)
    index_of = _read_ids(entries, path, problems)
    trace = RecordedWorkflow(names=list(index_of))
    for position, entry in enumerate(entries):
        _read_own_files(trace, entry.get("files"), (*path, position, "files"), problems)
    _read_edges(trace, entries, path, index_of, problems)
    _read_measurements(trace, entries, entries, (path, range(len(entries))), problems)
    return trace


def _read_ids(
    entries: Sequence[Mapping[str, Any]], path: DocumentPath, problems: ProblemCollector
) -> dict[str, int]:
    """Return the index of every task by its id or, if it has no id, by its name.

    Raises InvalidInput if a task has neither, or if an id occurs twice.
    """
    index_of: dict[str, int] = {}
    for index, entry in enumerate(entries):
        key = "id" if entry.get("id") is not None else "name"
        ident = entry.get(key)
        if type(ident) is not str or not ident:
            rule = "every task must have an id (or name) that is not empty"
            problems.add(describe_value(ident), rule=rule, path=(*path, index, key))
        elif index_of.setdefault(ident, index) != index:
            what = f"a second task {shorten(ident)!r}, the first is number {index_of[ident]}"
            problems.add(what, rule="ids of tasks must be unique", path=(*path, index, key))
    problems.finish()
    return index_of


def _exact_names(entries: Sequence[Mapping[str, Any]], ids: list[str]) -> list[str]:
    names = [entry.get("name") for entry in entries]
    exact = [name for name in names if type(name) is str and name]
    return exact if len(set(exact)) == len(ids) else ids


def _read_edges(
    trace: RecordedWorkflow,
    entries: Sequence[Mapping[str, Any]],
    path: DocumentPath,
    index_of: Mapping[str, int],
    problems: ProblemCollector,
) -> None:
    """Set the parents of every task; an edge exists if the parent or the child lists it."""
    lookup = index_of
    above: list[list[int]] = []
    for index, listed in enumerate(_read_lists(entries, "parents", path, problems)):
        try:
            above.append([lookup[name] for name in listed])
        except KeyError:
            # Old files refer to parents by name; the larger table is built once, for such files only.
            lookup = lookup if lookup is not index_of else {**_unique_names(entries), **index_of}
            above.append(_resolve(listed, lookup, (*path, index, "parents"), problems))
    for index, listed in enumerate(_read_lists(entries, "children", path, problems)):
        if listed:
            lookup = lookup if lookup is not index_of else {**_unique_names(entries), **index_of}
            for child in _resolve(listed, lookup, (*path, index, "children"), problems):
                above[child].append(index)
    trace.parents = above


def _resolve(
    names: Sequence[str], lookup: Mapping[str, int], path: DocumentPath, problems: ProblemCollector
) -> list[int]:
    """Return the indices of the tasks with these ids or names; add a problem for every unknown one."""
    found = []
    for place, name in enumerate(names):
        if (index := lookup.get(name)) is None:
            add_unknown_task(name, lookup, (*path, place), problems)
        else:
            found.append(index)
    return found


def _unique_names(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the index of each task by its name; names that several tasks have are left out."""
    found: dict[str, int] = {}
    shared = set()
    for index, entry in enumerate(entries):
        name = entry.get("name")
        if type(name) is str and found.setdefault(name, index) != index:
            shared.add(name)
    return {name: index for name, index in found.items() if name not in shared} if shared else found


def _read_lists(
    entries: Sequence[Mapping[str, Any]], key: str, path: DocumentPath, problems: ProblemCollector
) -> list[Sequence[str]]:
    """Return, for every task, the list of texts under ``key``; an empty list if absent or invalid."""
    lists: list[Sequence[str]] = []
    for index, entry in enumerate(entries):
        if not (listed := entry.get(key)):
            lists.append(_NO_FILES)
            if listed is not None and type(listed) is not list:
                problems.add(describe_value(listed), rule="must be a list", path=(*path, index, key))
        elif type(listed) is list and all(listed) and set(map(type, listed)) == _TEXTS:
            lists.append(listed)
        else:
            lists.append(_NO_FILES)
            _add_list_problem(listed, (*path, index, key), problems)
    return lists


def _add_list_problem(listed: Any, path: DocumentPath, problems: ProblemCollector) -> None:
    if type(listed) is not list:
        problems.add(describe_value(listed), rule="must be a list", path=path)
        return
    for place, text in enumerate(listed):
        if type(text) is not str or not text:
            problems.add(describe_value(text), rule="must be text that is not empty", path=(*path, place))


def _read_sizes(trace: RecordedWorkflow, table: Any, problems: ProblemCollector) -> None:
    """Store the file sizes of version 1.5 in the trace."""
    path: DocumentPath = ("workflow", "specification", "files")
    sizes = trace.sizes
    for position, entry in enumerate(read_objects(table, path, problems)):
        file = entry.get("id")
        if type(file) is not str or not file:
            rule = "every file must have an id that is not empty"
            problems.add(describe_value(file), rule=rule, path=(*path, position, "id"))
            continue
        size = entry.get("sizeInBytes")
        if type(size) is int and 0 <= size < 1 << 63:
            sizes[file] = size
        else:
            read_number(sizes, file, size, (*path, position, "sizeInBytes"), problems)


def _read_own_files(
    trace: RecordedWorkflow, table: Any, path: DocumentPath, problems: ProblemCollector
) -> None:
    """Append to the trace the files that one task of a version up to 1.4 reads and writes."""
    reads: list[str] = []
    writes: list[str] = []
    for position, entry in enumerate(read_objects(table, path, problems)):
        file, link = entry.get("name"), entry.get("link")
        if type(file) is not str or not file:
            rule = "every file must have a name that is not empty"
            problems.add(describe_value(file), rule=rule, path=(*path, position, "name"))
            continue
        if link == "input":
            reads.append(file)
        elif link == "output":
            writes.append(file)
        else:
            problems.add(describe_value(link), rule="must be input or output", path=(*path, position, "link"))
        key = "sizeInBytes" if "sizeInBytes" in entry else "size"
        # The size stated by the writer of a file overrides sizes stated by its readers.
        if link == "output" or file not in trace.sizes:
            read_number(trace.sizes, file, entry.get(key), (*path, position, key), problems)
    trace.reads.append(reads)
    trace.writes.append(writes)


UNKNOWN_TIME = "1970-01-01T00:00:00+00:00"
"""The date of events without a known time."""

_NOT_IN_IDS = re.compile(r"[^0-9a-zA-Z._-]+")
_NOT_IN_FILES = re.compile(r"[^0-9a-zA-Z._/:-]+")


def json_text(value: object) -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def json_lines(items: Iterable[object]) -> str:
    """Return a JSON list with one line per item, which is much faster to make than indented JSON."""
    return "[\n" + ",\n".join(map(json_text, items)) + "\n]"


class SubtaskFiles:
    """Names of the files that every subtask reads and writes, with fields filled in."""

    def __init__(self, graph: TaskGraph) -> None:
        described = [graph.workflow.tasks[index] for index in graph.template.tolist()]
        self.sizes: dict[str, float | None] = {}
        self.writes: list[list[str]] = []
        for index, task in enumerate(described):
            names = [_fill_template(graph, index, output.file) for output in task.outputs]
            for name, output in zip(names, task.outputs, strict=True):
                self.sizes[name] = _bytes(graph, index, output.size)
            self.writes.append(names)
        self._patterns = [name for name in self.sizes if "*" in name or "?" in name or name.endswith("/")]
        written = frozenset(self.sizes)
        self.reads: list[list[str]] = []
        for index, task in enumerate(described):
            found: dict[str, None] = {}
            for given in task.inputs:
                name = self._find_output(_fill_template(graph, index, given.file))
                found[name] = None
                if name not in written:
                    self.sizes[name] = _bytes(graph, index, given.size)
            self.reads.append(list(found))
        self.ids = make_file_ids(self.sizes)

    def _find_output(self, name: str) -> str:
        """Return the output with this name, else a matching wildcard or directory output, else ``name``."""
        if name in self.sizes:
            return name
        covers = (pattern + "*" if pattern.endswith("/") else pattern for pattern in self._patterns)
        pairs = zip(self._patterns, covers, strict=True)
        return next((pattern for pattern, cover in pairs if fnmatch.fnmatchcase(name, cover)), name)

    def table(self) -> list[dict[str, Any]]:
        """Return the WfFormat entries (id, size) of the files whose size is known."""
        return file_table(self.sizes, self.ids)


def file_table(sizes: Mapping[str, float | None], ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the WfFormat entries (id, size) of the files whose size is known."""
    known = ((file, size) for file, size in sizes.items() if size is not None and math.isfinite(size))
    return [{"id": ids[file], "sizeInBytes": round(size)} for file, size in known]


def format_command(graph: TaskGraph, index: int) -> dict[str, Any] | None:
    """Return the program and arguments of a task; None if its command is absent or a shell command."""
    job = graph.description(index).job
    if job is None or not isinstance(job.command, tuple):
        return None
    program, *arguments = (_fill_template(graph, index, word) for word in job.command)
    return {"program": program, "arguments": [word for word in arguments if word]}


def _fill_template(graph: TaskGraph, index: int, text: str) -> str:
    return fill_template(text, graph.context(index)) if "{" in text or "}" in text else text


def _bytes(graph: TaskGraph, index: int, size: Quantity | None) -> float | None:
    return evaluate_quantity(size, graph.context(index)) if isinstance(size, Expression) else size


def make_ids(names: Iterable[str]) -> list[str]:
    """Return unique ids for the names of tasks or machines, in the same order."""
    return _make_unique_ids(names, _NOT_IN_IDS)


def make_file_ids(names: Iterable[str]) -> dict[str, str]:
    """Return a unique id for each file name, by name."""
    listed = list(names)
    return dict(zip(listed, _make_unique_ids(listed, _NOT_IN_FILES), strict=True))


def _make_unique_ids(names: Iterable[str], unsafe: re.Pattern[str]) -> list[str]:
    """Return unique ids: ``unsafe`` characters become a dot, and a number is appended to equal ids."""
    ids: dict[str, None] = {}
    repeats: dict[str, int] = {}
    for name in names:
        base = ident = (unsafe.sub(".", name).strip(".") or "x") if unsafe.search(name) else name
        while ident in ids:
            repeats[base] = repeats.get(base, 1) + 1
            ident = f"{base}.{repeats[base]}"
        ids[ident] = None
    return list(ids)


def _write_wfformat(workflow: Workflow) -> str:
    """Return the unfolded workflow as WfFormat 1.5. Raises InvalidInput for what it cannot express."""
    plain = export_graph(workflow, "WfFormat")
    if any(edge.seconds > 0 for edges in plain.edges for edge in edges):
        what = "the workflow has transfers that take fixed seconds"
        rule = "WfFormat has only the sizes of files"
        raise InvalidInput(what, rule=rule, advice="use the format dot: its edges have seconds")
    ids = make_ids(plain.graph.names)
    head: dict[str, Any] = {"name": workflow.name}
    if workflow.description:
        head["description"] = workflow.description
    head["createdAt"] = UNKNOWN_TIME
    head["schemaVersion"] = "1.5"
    head["runtimeSystem"] = {"name": RUNTIME_SYSTEM, "version": "1"}
    files = SubtaskFiles(plain.graph)
    sections = [f'"tasks": {json_lines(_tasks(plain, files, ids))}', f'"files": {json_lines(files.table())}']
    text = f'{json_text(head)[:-1]}, "workflow": {{"specification": {{{", ".join(sections)}}}'
    if ran := _execution_times(plain, ids):
        run = json_text({"makespanInSeconds": 0, "executedAt": UNKNOWN_TIME})
        text += f', "execution": {run[:-1]}, "tasks": {json_lines(ran)}}}'
    return text + "}}\n"


def _tasks(plain: ExportGraph, files: SubtaskFiles, ids: list[str]) -> list[dict[str, Any]]:
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


def _execution_times(plain: ExportGraph, ids: list[str]) -> list[dict[str, Any]]:
    """Return the ``execution`` entries of the tasks whose time is known."""
    entries = []
    for index, seconds in enumerate(plain.seconds):
        if math.isnan(seconds):
            continue
        task = plain.graph.description(index)
        entry: dict[str, Any] = {"id": ids[index], "runtimeInSeconds": seconds}
        if (command := format_command(plain.graph, index)) is not None:
            entry["command"] = command
        entry |= {
            key: task.attributes[key] for key in ("coreCount", "memoryInBytes") if key in task.attributes
        }
        entries.append(entry)
    return entries
