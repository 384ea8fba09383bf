"""Planning instances in JSON, for comparisons of planners: tasks with their machines, read only."""

from __future__ import annotations

import re
from typing import Any

from weft.documents import Document
from weft.errors import DocumentPath
from weft.formats.format import (
    ProblemCollector,
    ReadOnlyFormat,
    SourceFile,
    describe_value,
    file_error,
    load_json,
    pause_garbage_collection,
)
from weft.formats.graph import check_acyclic
from weft.platform.machine import MOST, Machine
from weft.platform.platform import Link, NamedPair, Platform
from weft.workflow.task import Dependency, Input, MeasuredSeconds, Output, Task
from weft.workflow.workflow import Workflow

_MARK = re.compile(r'"kind"\s*:\s*"(?:hetero-dag|moldable)"|"cost"\s*:\s*\[\s*[0-9]|"t"\s*:\s*\[\s*\[')
_OTHERS = re.compile(r'"weft"\s*:|"schemaVersion"\s*:|"workflow"\s*:')
_MOST = 1e300
_Edge = tuple[int, int, float]


class InstanceJson(ReadOnlyFormat):
    """Planning instances: tasks on heterogeneous machines, or moldable tasks on a cluster.

    There are two kinds. For heterogeneous machines ``cost[i]`` is the work of task i, ``speed[k]`` the speed
    of machine k, ``edges`` lists ``[from, to, size]``, and between machines k and l a file takes size over
    ``bw[k][l]`` seconds. For one cluster of ``P`` nodes ``t[i][r-1]`` is the time of the moldable task i on r
    nodes, and ``edges`` lists ``[from, to]``. Tasks become t0, t1, ..., machines m0, m1, ...; ``--on FILE``
    reads the machines. Other keys are ignored.
    """

    name = "instance-json"
    title = "planning instance with its machines (JSON: cost, speed, edges, bw; or t, P, edges)"
    extensions: tuple[str, ...] = (".json",)

    def recognises(self, source: SourceFile) -> bool:
        """Return whether a file is a JSON object with a known kind, or with costs or times of tasks."""
        head = source.head
        if not head.lstrip().startswith("{") or _OTHERS.search(head):
            return False
        return _MARK.search(head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return the tasks as a workflow. Raises InvalidInput."""
        with pause_garbage_collection():
            values = _load_instance(source)
            make = _heterogeneous_tasks if "cost" in values else _moldable_tasks
            tasks = make(values, ProblemCollector(source))
            return Workflow(name=source.stem, tasks=tasks, document=Document(file=source.name))

    def read_platform(self, source: SourceFile) -> Platform:
        """Return the machines as a platform. Raises InvalidInput."""
        values = _load_instance(source)
        problems = ProblemCollector(source)
        machines = (
            _heterogeneous_machines(values, problems) if "cost" in values else _cluster(values, problems)
        )
        links = _read_links(values, len(machines), problems) if "cost" in values else ()
        problems.finish()
        return Platform(name=source.stem, machines=machines, links=links, document=Document(file=source.name))


def _load_instance(source: SourceFile) -> dict[str, Any]:
    values = load_json(source)
    if type(values) is not dict or not ("cost" in values or "t" in values):
        rule = "must be an object with cost, speed, edges and bw, or with t, P and edges"
        raise file_error(source, describe_value(values), rule=rule)
    return values


def _heterogeneous_tasks(values: dict[str, Any], problems: ProblemCollector) -> tuple[Task, ...]:
    cost = _read_numbers(values["cost"], ("cost",), problems)
    problems.finish()
    edges = _read_edges(values, len(cost), 3, problems)
    inputs: list[list[Input]] = [[] for _ in cost]
    outputs: list[list[Output]] = [[] for _ in cost]
    for source, target, size in edges:
        file = f"{source}-{target}"
        outputs[source].append(Output(file=file, size=size))
        inputs[target].append(Input(file=file))
    return tuple(
        [
            Task(name=f"t{index}", work=work, inputs=tuple(inputs[index]), outputs=tuple(outputs[index]))
            for index, work in enumerate(cost)
        ]
    )


def _moldable_tasks(values: dict[str, Any], problems: ProblemCollector) -> tuple[Task, ...]:
    times = values["t"] if type(values["t"]) is list else []
    if not times:
        problems.add(describe_value(values["t"]), rule="must be a list of lists, at least one", path=("t",))
    tables = [_read_numbers(row, ("t", index), problems, above_0=True) for index, row in enumerate(times)]
    problems.finish()
    edges = _read_edges(values, len(tables), 2, problems)
    after: list[list[Dependency]] = [[] for _ in tables]
    for source, target, _ in edges:
        after[target].append(Dependency(task=f"t{source}"))
    return tuple(
        Task(
            name=f"t{index}",
            work=table[0],
            nodes=tuple(range(1, len(table) + 1)),
            speedup=MeasuredSeconds(seconds=dict(enumerate(table, start=1))) if len(table) > 1 else None,
            after=tuple(after[index]),
        )
        for index, table in enumerate(tables)
    )


def _heterogeneous_machines(values: dict[str, Any], problems: ProblemCollector) -> tuple[Machine, ...]:
    speeds = _read_numbers(values.get("speed"), ("speed",), problems, above_0=True)
    return tuple(Machine(name=f"m{index}", speed=speed) for index, speed in enumerate(speeds))


def _cluster(values: dict[str, Any], problems: ProblemCollector) -> tuple[Machine, ...]:
    nodes = values.get("P")
    if type(nodes) is not int or not 1 <= nodes <= MOST:
        problems.add(describe_value(nodes), rule="must be a number of nodes, at least 1", path=("P",))
        return ()
    return (Machine(name="m0", nodes=nodes),)


def _read_links(values: dict[str, Any], machines: int, problems: ProblemCollector) -> tuple[NamedPair, ...]:
    """Return one link for each pair of machines; the bandwidth is the same in both directions."""
    rates: Any = values.get("bw")
    square = type(rates) is list and len(rates) == machines
    if not square or not all(type(row) is list and len(row) == machines for row in rates):
        rule = f"must be {machines} lists of {machines} numbers"
        problems.add(describe_value(rates), rule=rule, path=("bw",))
        return ()
    found = []
    for a in range(machines):
        for b in range(a):
            rate = rates[a][b]
            if type(rate) not in (int, float) or not 1 / _MOST < rate < _MOST:
                problems.add(describe_value(rate), rule="must be a number above 0", path=("bw", a, b))
            elif rates[b][a] != rate:
                what = f"{describe_value(rates[b][a])}, but {rate} in the other direction"
                problems.add(what, rule="links must be the same in both directions", path=("bw", b, a))
            else:
                found.append((f"m{a}", f"m{b}", Link(bandwidth_Bps=float(rate))))
    return tuple(found)


def _read_numbers(
    values: Any, path: DocumentPath, problems: ProblemCollector, *, above_0: bool = False
) -> list[float]:
    """Return a list of numbers; add a problem for each invalid number and replace it by 1."""
    if type(values) is not list or not values:
        problems.add(describe_value(values), rule="must be a list of numbers, at least one", path=path)
        return [1.0]
    least = 1 / _MOST if above_0 else 0
    found = []
    for index, value in enumerate(values):
        sound = type(value) in (int, float) and least <= value < _MOST
        if not sound:
            rule = "must be a number above 0" if above_0 else "must be a number, at least 0"
            problems.add(describe_value(value), rule=rule, path=(*path, index))
        found.append(float(value) if sound else 1.0)
    return found


def _read_edges(values: dict[str, Any], tasks: int, width: int, problems: ProblemCollector) -> list[_Edge]:
    """Return the edges as (source, target, size); if ``width`` is 2, edges in the file have no size."""
    given: Any = values.get("edges")
    if type(given) is not list:
        problems.add(describe_value(given), rule="must be a list of edges", path=("edges",))
        given = []
    form = "[from, to, size]" if width == 3 else "[from, to]"
    parents: list[list[int]] = [[] for _ in range(tasks)]
    seen: set[tuple[int, int]] = set()
    edges: list[_Edge] = []
    for index, edge in enumerate(given):
        if type(edge) is not list or len(edge) != width or not _is_edge(edge, tasks):
            rule = f"must be {form} with tasks from 0 to {tasks - 1}"
            problems.add(describe_value(edge), rule=rule, path=("edges", index))
            continue
        source, target = edge[0], edge[1]
        if (source, target) in seen:
            problems.add(f"a second edge from {source} to {target}", path=("edges", index))
        seen.add((source, target))
        parents[target].append(source)
        edges.append((source, target, float(edge[2]) if width == 3 else 0.0))
    problems.finish()
    check_acyclic(problems.source, [f"t{index}" for index in range(tasks)], parents)
    return edges


def _is_edge(edge: list[Any], tasks: int) -> bool:
    source, target = edge[0], edge[1]
    if type(source) is not int or type(target) is not int:
        return False
    if not (0 <= source < tasks and 0 <= target < tasks):
        return False
    return len(edge) == 2 or (type(edge[2]) in (int, float) and 0 <= edge[2] < _MOST)
