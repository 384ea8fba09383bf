"""An executed run in WfFormat 1.5: tasks, machines, times, and files with measured sizes.

Only completed tasks are listed. The successors of a task that never ran (a branch not taken, a virtual task)
depend on its predecessors instead. Every iteration of a loop is a task (``lapw1[3]#2``) that depends on the
iteration before it. The time of a task is the time of all attempts that contributed to its result; for a
reused task, the time of the original run. weft reads the file as a workflow whose work is the measured time.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from weft import __version__
from weft.backends.backend import Product
from weft.engine.history import AttemptRecord, RunSummary
from weft.engine.state.run import RunState
from weft.errors import InvalidInput
from weft.formats.wfformat import (
    RUNTIME_SYSTEM,
    UNKNOWN_TIME,
    SubtaskFiles,
    file_table,
    format_command,
    json_lines,
    json_text,
    make_file_ids,
    make_ids,
)
from weft.platform.machine import Machine
from weft.records import dataclass
from weft.reports.critical_path import find_sources
from weft.reports.execution import ExecutedRun, is_reused

_SYSTEMS = ("linux", "macos", "windows")


def write_wfformat(executed: ExecutedRun, run: int | None = None) -> str:
    """Return one run (default: the only reported one) in WfFormat; InvalidInput if no task completed."""
    if run is None and executed.several:
        advice = f"choose a run from 0 to {len(executed.history.runs) - 1}"
        what = f"{len(executed.run_summaries)} runs cannot be written to one WfFormat file"
        raise InvalidInput(what, rule="a WfFormat file holds one run", advice=advice)
    story = executed.history.runs[executed.run_summaries[0].index if run is None else run]
    graph = _ExecutionGraph(executed, executed.state.runs[story.index])
    if not graph.instances:
        what = f"run {story.index} ({story.workflow}) has no task that completed"
        raise InvalidInput(what, rule="a WfFormat file has at least one task")
    return _document(executed, story, graph)


@dataclass(slots=True, kw_only=True)
class _WfFormatInstance:
    """One execution of a task; a task in a loop has one execution per iteration."""

    task: int
    number: int
    """Number of the execution of the task, from 1."""
    tries: list[AttemptRecord]
    last: AttemptRecord
    """The last completed attempt; there are several if lost outputs were produced again."""
    begun_n: int
    completed_n: int
    parents: list[int] = field(default_factory=list)
    """Positions of the executions that this one depends on, in the list of all executions."""
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)


class _ExecutionGraph:
    """The executions of the tasks of a run, with their dependencies and files."""

    def __init__(self, executed: ExecutedRun, run: RunState) -> None:
        self._executed = executed
        self._run = run
        self.graph = run.compiled.graph
        self._files = SubtaskFiles(self.graph)
        self.instances: list[_WfFormatInstance] = []
        self._of_task: dict[int, list[int]] = {}
        self._find_instances()
        self.sizes: dict[str, float | None] = {}
        self._writers = {
            name: task for task, names in enumerate(self._files.writes) for name in reversed(names)
        }
        for instance in self.instances:
            instance.parents = list(dict.fromkeys(self._parents(instance)))
            instance.writes = [self._written(instance, *pair) for pair in self._made(instance)]
        for instance in self.instances:
            instance.reads = list(dict.fromkeys(self._read(instance)))

    def name(self, instance: _WfFormatInstance) -> str:
        """Return the name of an execution: the task's name, with a number from the second execution on."""
        name = self.graph.names[instance.task]
        return name if instance.number == 1 else f"{name}#{instance.number}"

    def product(self, instance: _WfFormatInstance) -> Product | None:
        """Return the product of an execution; None if it is unknown."""
        return self._executed.records.products.get(instance.last.number)

    def _find_instances(self) -> None:
        index = {name: task for task, name in enumerate(self.graph.names)}
        tries: dict[int, list[AttemptRecord]] = {}
        for attempt in self._executed.history.attempts.values():
            if attempt.run == self._run.index and attempt.task in index:
                tries.setdefault(index[attempt.task], []).append(attempt)
        for task in sorted(tries):
            for group in self._groups(tries[task]):
                done = [each for each in group if each.completed_n is not None]
                if done:
                    self._add(task, group, done)

    @staticmethod
    def _groups(tries: list[AttemptRecord]) -> Iterator[list[AttemptRecord]]:
        """Yield the attempts of each execution of a task: those in the same iteration of its loops."""
        groups: dict[tuple[int, ...], list[AttemptRecord]] = {}
        for attempt in tries:
            groups.setdefault(attempt.counters, []).append(attempt)
        yield from groups.values()

    def _add(self, task: int, tries: list[AttemptRecord], done: list[AttemptRecord]) -> None:
        # The order is that of the first completion, even if lost outputs were produced again.
        first = done[0]
        assert first.completed_n is not None
        positions = self._of_task.setdefault(task, [])
        positions.append(len(self.instances))
        self.instances.append(
            _WfFormatInstance(
                task=task,
                number=len(positions),
                tries=tries,
                last=done[-1],
                begun_n=first.completed_n if first.begun_n is None else first.begun_n,
                completed_n=first.completed_n,
            )
        )

    def _parents(self, instance: _WfFormatInstance) -> Iterator[int]:
        run = self._run
        for task in find_sources(run, instance.task, self._of_task.__contains__):
            yield from self._latest(task, instance)
        for index in run.loops.around.get(instance.task, ()):
            body = run.loops.bodies[index]
            inside = set(body.tasks)
            if instance.number > 1 and not inside.intersection(run.compiled.before(instance.task)):
                for last in body.lasts:
                    yield from self._latest(last, instance)

    def _latest(self, task: int, instance: _WfFormatInstance) -> Iterator[int]:
        """Yield the position of the last execution of ``task`` that completed before ``instance`` began."""
        positions = [
            position
            for position in self._of_task.get(task, ())
            if self.instances[position].completed_n <= instance.begun_n
            and self.instances[position] is not instance
        ]
        if positions:
            yield positions[-1]

    def _made(self, instance: _WfFormatInstance) -> Iterator[tuple[str, float | None]]:
        if (product := self.product(instance)) is not None:
            yield from ((made.name, float(made.size_bytes)) for made in product.files)
        else:
            yield from ((name, self._files.sizes[name]) for name in self._files.writes[instance.task])

    def _written(self, instance: _WfFormatInstance, name: str, size: float | None) -> str:
        file = _version(name, instance.number)
        self.sizes[file] = size
        return file

    def _read(self, instance: _WfFormatInstance) -> Iterator[str]:
        for name in self._files.reads[instance.task]:
            if (writer := self._writers.get(name)) is None or not self._of_task.get(writer):
                self.sizes.setdefault(name, self._files.sizes[name])
                yield name
                continue
            for position in self._latest(writer, instance):
                made = self.instances[position]
                plain = [_plain(file, made.number) for file in made.writes]
                cover = f"{name}*" if name.endswith("/") else name
                chosen = [file for file in plain if file == name or fnmatch.fnmatchcase(file, cover)]
                yield from (_version(file, made.number) for file in chosen)


def _version(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"


def _plain(file: str, number: int) -> str:
    return file if number == 1 else file.removesuffix(f"#{number}")


def _document(executed: ExecutedRun, story: RunSummary, graph: _ExecutionGraph) -> str:
    workflow = graph.graph.workflow
    wall = executed.records.wall
    began, ended = wall(story.arrival_s), wall(story.ended_s)
    head: dict[str, Any] = {"name": workflow.name}
    if workflow.description:
        head["description"] = workflow.description
    head["createdAt"] = UNKNOWN_TIME if ended is None else ended.isoformat()
    head["schemaVersion"] = "1.5"
    head["runtimeSystem"] = {"name": RUNTIME_SYSTEM, "version": __version__}
    end_s = executed.end_s if story.ended_s is None else story.ended_s
    execution = {
        "makespanInSeconds": end_s - story.arrival_s,
        "executedAt": UNKNOWN_TIME if began is None else began.isoformat(),
    }
    ids = make_ids([graph.name(instance) for instance in graph.instances])
    file_ids = make_file_ids(graph.sizes)
    used = sorted({instance.last.machine for instance in graph.instances})
    hosts = dict(zip(used, make_ids([executed.machine_names[machine] for machine in used]), strict=True))
    sections = [
        f'"tasks": {json_lines(_tasks(graph, ids, file_ids))}',
        f'"files": {json_lines(file_table(graph.sizes, file_ids))}',
    ]
    ran = (
        _execution_entry(executed, graph, instance, ids[at], hosts)
        for at, instance in enumerate(graph.instances)
    )
    machines = (_machine(executed.machines[machine], host) for machine, host in hosts.items())
    text = f'{json_text(head)[:-1]}, "workflow": {{"specification": {{{", ".join(sections)}}}'
    text += f', "execution": {json_text(execution)[:-1]}, "tasks": {json_lines(ran)}'
    return f'{text}, "machines": {json_lines(machines)}}}}}}}\n'


def _tasks(graph: _ExecutionGraph, ids: list[str], file_ids: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    children: list[list[str]] = [[] for _ in ids]
    for at, instance in enumerate(graph.instances):
        for parent in instance.parents:
            children[parent].append(ids[at])
    for at, instance in enumerate(graph.instances):
        yield {
            "name": graph.name(instance),
            "id": ids[at],
            "parents": [ids[parent] for parent in instance.parents],
            "children": children[at],
            "inputFiles": [file_ids[file] for file in instance.reads],
            "outputFiles": [file_ids[file] for file in instance.writes],
        }


def _execution_entry(
    executed: ExecutedRun,
    graph: _ExecutionGraph,
    instance: _WfFormatInstance,
    ident: str,
    hosts: Mapping[int, str],
) -> dict[str, Any]:
    last, product = instance.last, graph.product(instance)
    machine, measured = executed.machines[last.machine], executed.measured(last.number)
    over = is_reused(last)
    seconds = (product.seconds if product else 0.0) if over else sum(each.useful_s for each in instance.tries)
    entry: dict[str, Any] = {"id": ident, "runtimeInSeconds": seconds}
    if (started := executed.records.wall(last.started_s)) is not None:
        entry["executedAt"] = started.isoformat()
    if (command := format_command(graph.graph, instance.task)) is not None:
        entry["command"] = command
    if last.nodes > 0:
        entry["coreCount"] = last.nodes * (1 if machine.node_is_core else machine.cores)
    if measured.cpu_s is not None and last.ran_s > 0:
        entry["avgCPU"] = 100 * measured.cpu_s / last.ran_s
    if measured.max_rss_bytes is not None:
        entry["memoryInBytes"] = measured.max_rss_bytes
    entry["machines"] = [hosts[last.machine]]
    return entry


def _machine(machine: Machine, host: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"nodeName": host}
    if (system := (machine.os or "").lower()) in _SYSTEMS:
        entry["system"] = system
    if machine.arch:
        entry["architecture"] = machine.arch
    if machine.memory is not None and machine.memory >= 1:
        entry["memoryInBytes"] = round(machine.memory)
    cores = machine.nodes if machine.node_is_core else machine.nodes * machine.cores
    return entry | {"cpu": {"coreCount": cores}}
