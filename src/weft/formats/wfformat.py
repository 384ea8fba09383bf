"""WfFormat, the JSON of the WfCommons execution traces: reads 1.1 to 1.5, writes 1.5.

A task's id becomes its name, its measured runtime its work on a machine of speed 1 (a task without one has no
known work), its parents and files the edges by the rules of ``trace``. Cores and memory were measured, not
asked for: they are kept as attributes and demand nothing.

What a WfFormat file knows of the runs of its tasks: times, commands, and measurements we only keep.

Reading WfFormat 1.1 to 1.5: a parsed JSON document becomes the columns of a trace.

What changed between the versions: the list of tasks is ``jobs`` (to 1.2), ``tasks`` (1.3, 1.4), or split
into ``specification`` and ``execution`` (1.5); files stand with their task (to 1.4) or in a table of
their own (1.5); parents are names (to 1.4) or ids (1.5); keys gained their units in 1.4. The schemas
before 1.4 call sizes kilobytes, but the published files hold bytes (the same run has the same numbers in
1.2 and 1.4), so they are read as bytes.

Pieces of WfFormat 1.5 that described and executed workflows share: files, safe ids, lists.

Writing WfFormat 1.5: one task per subtask of the unfolded workflow.

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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.errors import DocumentPath, InvalidInput, Problem, shorten
from weft.expressions import Expression
from weft.formats.format import (
    ProblemCollector,
    SourceFile,
    add_unknown_task,
    describe_value,
    name_json_type,
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

__all__ = [
    "LONG_AGO",
    "VERSIONS",
    "WRITTEN_BY_US",
    "SubtaskFiles",
    "WfFormat",
    "file_table",
    "format_command",
    "json_lines",
    "json_text",
    "make_file_ids",
    "make_ids",
    "read_measurements",
    "read_trace",
    "write_wfformat",
]


_MARK = re.compile(r'"schemaVersion"\s*:|"workflow"\s*:\s*\{')
_OURS = re.compile(r'"weft"\s*:')  # the version key of our own files, which may be JSON too


class WfFormat:
    """Execution traces of WfCommons."""

    name = "wfformat"
    title = "WfCommons execution trace (WfFormat JSON)"
    extensions: tuple[str, ...] = (".json",)
    reads = True
    writes = True

    def recognises(self, source: SourceFile) -> bool:
        """Say whether a file is a JSON object that names the schema or holds a ``workflow`` object."""
        head = source.head
        if not head.lstrip().startswith("{") or _OURS.search(head[:2000]):
            return False
        return _MARK.search(head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Read a trace. Raises InvalidInput."""
        from weft.formats.format import ProblemCollector, load_json, pause_garbage_collection

        with pause_garbage_collection():
            document = load_json(source)
            trace = read_trace(document, ProblemCollector(source))
            name, description = document.get("name"), document.get("description")
            return trace.workflow(
                source,
                name=name if isinstance(name, str) and name else None,
                description=description if isinstance(description, str) and description else None,
            )

    def write(self, workflow: Workflow) -> str:
        """Write the unfolded workflow. Raises InvalidInput for what the format cannot say."""
        return write_wfformat(workflow)


_KEPT = ("coreCount", "cores", "memoryInBytes", "memory")
"""Measurements kept as attributes: recorded, not asked for, so that a trace fits any platform."""

_NO_ATTRIBUTES: Mapping[str, Any] = {}
_TEXT_TYPES = {str}


def read_measurements(
    trace: RecordedWorkflow,
    entries: Sequence[Mapping[str, Any]],
    measured: Sequence[Mapping[str, Any]],
    places: tuple[DocumentPath, Sequence[int]],
    complaints: ProblemCollector,
) -> None:
    """Read what is known of the tasks' runs: the time, the command, and what we keep without reading."""
    path, positions = places
    work, jobs = trace.work, trace.jobs
    for index, (entry, ran) in enumerate(zip(entries, measured, strict=True)):
        key = "runtimeInSeconds" if "runtimeInSeconds" in ran else "runtime"
        seconds = ran.get(key)
        if type(seconds) is float and 0.0 <= seconds < math.inf:
            work.append(seconds)
        else:
            found: dict[str, float] = {}
            read_number(found, key, seconds, (*path, positions[index], key), complaints)
            work.append(found.get(key))
        command = ran.get("command")
        if command is None:
            jobs.append(None)
        else:
            jobs.append(_read_command(command, (*path, positions[index], "command"), complaints))
        trace.attributes.append(_attributes(entry, ran, command))


def _attributes(entry: Mapping[str, Any], ran: Mapping[str, Any], command: Any) -> Mapping[str, object]:
    program = _program(entry, command)
    kept: dict[str, object] = {"program": program} if program else {}
    for key in _KEPT:
        if key in ran and type(ran[key]) in (int, float):
            kept[key] = ran[key]
    return kept or _NO_ATTRIBUTES


def _program(entry: Mapping[str, Any], command: Any) -> str | None:
    """Name the kind of a task: its category, else its name; where that is only the id, its program."""
    category, name = entry.get("category"), entry.get("name")
    if type(category) is str and category:
        return category
    if type(command) is dict and name == entry.get("id"):
        program = command.get("program")
        if type(program) is str and program:
            return program
    return name if type(name) is str and name else None


def _read_command(command: Any, path: DocumentPath, complaints: ProblemCollector) -> JobSpec | None:
    program = command.get("program") if type(command) is dict else command
    if program is None or program == "":
        return None
    arguments = command.get("arguments") or [] if type(command) is dict else []
    if type(arguments) is not list:
        complaints.add(describe_value(arguments), rule="must be a list", path=(*path, "arguments"))
        return None
    words = [program, *arguments]
    if set(map(type, words)) != _TEXT_TYPES:
        rule = "program and arguments are texts"
        complaints.add(
            describe_value(next(word for word in words if type(word) is not str)), rule=rule, path=path
        )
        return None
    return JobSpec(command=tuple([escape_braces(word) for word in words]))


VERSIONS = ("1.1", "1.2", "1.3", "1.4", "1.5")

WRITTEN_BY_US = "weft"
"""Name of the runtime system in files we write: there names are exact, and ids only made from them."""

_NOTHING: Mapping[str, Any] = {}
_NO_FILES: Sequence[str] = ()
_TEXTS = {str}


def read_trace(document: Any, complaints: ProblemCollector) -> RecordedWorkflow:
    """Read the tasks of a document. Raises InvalidInput with everything that was found."""
    _check_version(document, complaints)
    workflow = document.get("workflow")
    if type(workflow) is not dict:
        complaints.add(describe_value(workflow), rule="must be an object with the tasks", path=("workflow",))
        complaints.finish()
    if "specification" in workflow:
        trace = _read_split(document, workflow, complaints)
    else:
        trace = _read_joined(workflow, complaints)
    complaints.finish()
    return trace


def _check_version(document: Any, complaints: ProblemCollector) -> None:
    if type(document) is not dict:
        complaints.add(
            f"the file holds {name_json_type(document)}", rule="a WfFormat file is one JSON object"
        )
        complaints.finish()
    version = document.get("schemaVersion")
    if version is not None and version not in VERSIONS:
        rule = f"weft reads {', '.join(VERSIONS)}"
        complaints.add(f"version {shorten(version)} of WfFormat", rule=rule, path=("schemaVersion",))
        complaints.finish()


def _read_split(
    document: Mapping[str, Any], workflow: Mapping[str, Any], complaints: ProblemCollector
) -> RecordedWorkflow:
    """Read the form of 1.5: what the tasks are, and how they ran."""
    specification = read_object(workflow, "specification", ("workflow",), complaints)
    execution = read_object(workflow, "execution", ("workflow",), complaints)
    path: DocumentPath = ("workflow", "specification", "tasks")
    entries = read_objects(specification.get("tasks"), path, complaints, required=True)
    index_of = _read_ids(entries, path, complaints)
    trace = RecordedWorkflow(names=list(index_of))
    ran_path: DocumentPath = ("workflow", "execution", "tasks")
    ran = read_objects(execution.get("tasks"), ran_path, complaints)
    measured: list[Mapping[str, Any]] = [_NOTHING] * len(entries)
    positions = [0] * len(entries)
    for position, entry in enumerate(ran):
        ident = entry.get("id")
        index = index_of.get(ident, -1) if isinstance(ident, str) else -1
        if index < 0:
            add_unknown_task(ident, index_of, (*ran_path, position, "id"), complaints)
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


def _read_joined(workflow: Mapping[str, Any], complaints: ProblemCollector) -> RecordedWorkflow:
    """Read the form up to 1.4: everything stands with its task."""
    key = "tasks" if "tasks" in workflow else "jobs"
    path: DocumentPath = ("workflow", key)
    entries = read_objects(workflow.get(key), path, complaints, required=True)
    index_of = _read_ids(entries, path, complaints)
    trace = RecordedWorkflow(names=list(index_of))
    for position, entry in enumerate(entries):
        _read_own_files(trace, entry.get("files"), (*path, position, "files"), complaints)
    _read_edges(trace, entries, path, index_of, complaints)
    read_measurements(trace, entries, entries, (path, range(len(entries))), complaints)
    return trace


def _read_ids(
    entries: Sequence[Mapping[str, Any]], path: DocumentPath, complaints: ProblemCollector
) -> dict[str, int]:
    """Find the id (else the name) of every task. Without them nothing else can be read."""
    index_of: dict[str, int] = {}
    for index, entry in enumerate(entries):
        key = "id" if entry.get("id") is not None else "name"
        ident = entry.get(key)
        if type(ident) is not str or not ident:
            rule = "every task has an id (or name): text, not empty"
            complaints.add(describe_value(ident), rule=rule, path=(*path, index, key))
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
    trace: RecordedWorkflow,
    entries: Sequence[Mapping[str, Any]],
    path: DocumentPath,
    index_of: Mapping[str, int],
    complaints: ProblemCollector,
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
    names: Sequence[str], lookup: Mapping[str, int], path: DocumentPath, complaints: ProblemCollector
) -> list[int]:
    """Find tasks by id or name, complaining of those that don't exist."""
    found = []
    for place, name in enumerate(names):
        index = lookup.get(name)
        if index is None:
            add_unknown_task(name, lookup, (*path, place), complaints)
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
    entries: Sequence[Mapping[str, Any]], key: str, path: DocumentPath, complaints: ProblemCollector
) -> list[Sequence[str]]:
    """Read one list of texts per task."""
    lists: list[Sequence[str]] = []
    for index, entry in enumerate(entries):
        listed = entry.get(key)
        if not listed:
            lists.append(_NO_FILES)
            if listed is not None and type(listed) is not list:
                complaints.add(describe_value(listed), rule="must be a list", path=(*path, index, key))
        elif type(listed) is list and all(listed) and set(map(type, listed)) == _TEXTS:
            lists.append(listed)
        else:
            lists.append(_NO_FILES)
            _add_list_problem(listed, (*path, index, key), complaints)
    return lists


def _add_list_problem(listed: Any, path: DocumentPath, complaints: ProblemCollector) -> None:
    if type(listed) is not list:
        complaints.add(describe_value(listed), rule="must be a list", path=path)
        return
    for place, text in enumerate(listed):
        if type(text) is not str or not text:
            complaints.add(describe_value(text), rule="must be text, not empty", path=(*path, place))


def _read_sizes(trace: RecordedWorkflow, table: Any, complaints: ProblemCollector) -> None:
    """Read the table of files of 1.5."""
    path: DocumentPath = ("workflow", "specification", "files")
    sizes = trace.sizes
    for position, entry in enumerate(read_objects(table, path, complaints)):
        file = entry.get("id")
        if type(file) is not str or not file:
            complaints.add(
                describe_value(file),
                rule="every file has an id: text, not empty",
                path=(*path, position, "id"),
            )
            continue
        size = entry.get("sizeInBytes")
        if type(size) is int and 0 <= size < 1 << 63:
            sizes[file] = size
        else:
            read_number(sizes, file, size, (*path, position, "sizeInBytes"), complaints)


def _read_own_files(
    trace: RecordedWorkflow, table: Any, path: DocumentPath, complaints: ProblemCollector
) -> None:
    """Read the files of one task, up to 1.4."""
    reads: list[str] = []
    writes: list[str] = []
    for position, entry in enumerate(read_objects(table, path, complaints)):
        file, link = entry.get("name"), entry.get("link")
        if type(file) is not str or not file:
            complaints.add(
                describe_value(file),
                rule="every file has a name: text, not empty",
                path=(*path, position, "name"),
            )
            continue
        if link == "input":
            reads.append(file)
        elif link == "output":
            writes.append(file)
        else:
            complaints.add(
                describe_value(link), rule="must be input or output", path=(*path, position, "link")
            )
        key = "sizeInBytes" if "sizeInBytes" in entry else "size"
        # The writer knows the size best; readers' words count where nobody writes the file.
        if link == "output" or file not in trace.sizes:
            read_number(trace.sizes, file, entry.get(key), (*path, position, key), complaints)
    trace.reads.append(reads)
    trace.writes.append(writes)


LONG_AGO = "1970-01-01T00:00:00+00:00"
"""When everything happened of which nobody knows when."""

_NOT_IN_IDS = re.compile(r"[^0-9a-zA-Z._-]+")
_NOT_IN_FILES = re.compile(r"[^0-9a-zA-Z._/:-]+")


def json_text(value: object) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def json_lines(items: Iterable[object]) -> str:
    """Write a list with one line per item: readable, and far faster than indented output."""
    return "[\n" + ",\n".join(map(json_text, items)) + "\n]"


class SubtaskFiles:
    """The files of every subtask, by the names their templates give."""

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
                name = self._writer_of(_fill_template(graph, index, given.file))
                found[name] = None
                if name not in written:
                    self.sizes[name] = _bytes(graph, index, given.size)
            self.reads.append(list(found))
        self.ids = make_file_ids(self.sizes)

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


def format_command(graph: TaskGraph, index: int) -> dict[str, Any] | None:
    """Give the command of a task as the format has it; None: it has none, or is a text for the shell."""
    job = graph.description(index).job
    if job is None or not isinstance(job.command, tuple):
        return None
    program, *arguments = (_fill_template(graph, index, word) for word in job.command)
    return {"program": program, "arguments": [word for word in arguments if word]}


def _fill_template(graph: TaskGraph, index: int, text: str) -> str:
    return fill_template(text, graph.context(index)) if "{" in text or "}" in text else text


def _bytes(graph: TaskGraph, index: int, size: Quantity | None) -> float | None:
    if isinstance(size, Expression):
        return evaluate_quantity(size, graph.context(index))
    return size


def make_ids(names: Iterable[str]) -> list[str]:
    """Make ids of the names of tasks or machines."""
    return _make_unique_ids(names, _NOT_IN_IDS)


def make_file_ids(names: Iterable[str]) -> dict[str, str]:
    """Make ids of the names of files, by name."""
    listed = list(names)
    return dict(zip(listed, _make_unique_ids(listed, _NOT_IN_FILES), strict=True))


def _make_unique_ids(names: Iterable[str], unsafe: re.Pattern[str]) -> list[str]:
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


def write_wfformat(workflow: Workflow) -> str:
    """Write a workflow as WfFormat 1.5. Raises InvalidInput for what the format cannot say."""
    plain = export_graph(workflow, "WfFormat")
    if any(edge.seconds > 0 for edges in plain.edges for edge in edges):
        what = "transfers that take fixed seconds"
        rule = "WfFormat has only the bytes of files"
        raise InvalidInput(Problem(what=what, rule=rule, advice="write dot instead: its edges are seconds"))
    ids = make_ids(plain.graph.names)
    head: dict[str, Any] = {"name": workflow.name}
    if workflow.description:
        head["description"] = workflow.description
    head["createdAt"] = LONG_AGO
    head["schemaVersion"] = "1.5"
    head["runtimeSystem"] = {"name": WRITTEN_BY_US, "version": "1"}
    files = SubtaskFiles(plain.graph)
    sections = [f'"tasks": {json_lines(_tasks(plain, files, ids))}', f'"files": {json_lines(files.table())}']
    text = f'{json_text(head)[:-1]}, "workflow": {{"specification": {{{", ".join(sections)}}}'
    if ran := _execution_times(plain, ids):
        run = json_text({"makespanInSeconds": 0, "executedAt": LONG_AGO})
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
    """List the times that are known; a task without one is not in the list."""
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
