"""The planner Shuffle, and the layers and machine queues of parameter sweeps, which xDCP uses too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels.problem import make_arrays, select_fields
from weft.kernels.xdcp import SubtaskGraph, SubtaskQueues, SubtaskScratch, SubtaskTimes, move_subtasks
from weft.planners.planner import BasePlanner, Budget, Plan, PlanRequest, Unsupported
from weft.planners.problem import compile_problem, make_schedule
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, TRANSFER, Indices

Sharing = Literal["own", "shared"]
"""Whether every layer has its own machines, or all layers share all machines."""
InitialQueues = Literal["shuffle", "sequential"]
"""The initial assignment of the tasks of a layer: to its machines in turn, or all to the first machine."""

_PLAIN_S = 1e-6
"""Approximate seconds per step and task or edge in plain Python."""
_ELEMENTS_PER_CALL = 5_000_000
"""Number of tasks and edges processed between two checks of the clock, in about a tenth of a second."""

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerAssignment:
    """The layer of every task; a task is in a higher layer than its predecessors."""

    layer: Indices
    """Per task: its layer, from 0."""
    position: _Integers
    """Per task: its position, from 0, among the compute tasks of its layer with the same machines."""


def check_sweep_support(instance: Instance, objective: Objective, pool: Sharing) -> Unsupported | None:
    """Return why an instance cannot be planned as layers of sweeps; None if it can."""
    if objective.name != "makespan":
        reason = f"sweep planners do not support the objective {objective.name!r}, only makespan"
        return Unsupported(reason=reason)
    if (violation := next(_model_violations(instance), None)) is not None:
        return Unsupported(reason=violation)
    found = find_layers(instance, pool)
    return found if isinstance(found, Unsupported) else None


def _model_violations(instance: Instance) -> Iterator[str]:
    """Yield a reason for each property that sweep planners cannot model (resources need no check)."""
    graph, network = instance.graph, instance.network
    if (graph.kind == TRANSFER).any():
        name = _first_name(instance, graph.kind == TRANSFER)
        yield f"{name} is a transfer, but this planner models no communication"
    shared = np.bincount(graph.variable, minlength=len(graph.variables))[graph.variable] > 1
    if shared.any():
        yield f"{_first_name(instance, shared)} shares an abstract machine with another task: not supported"
    slow_s = graph.edge_files * network.latency_s.max(initial=0.0) + graph.edge_seconds
    slow_s = slow_s + graph.edge_bytes * network.inverse_bandwidth.max(initial=0.0)
    if (slow_s > 0).any():
        yield "data are moved between tasks, but this planner models no communication"
    if instance.busy:
        yield "machines are busy beforehand, but the queues of this planner begin empty"
    for group in instance.groups:
        wide = (instance.capacity[group.machine] > 1) | instance.unlimited[group.machine]
        if wide.any():
            machine = instance.machines[int(group.machine[np.argmax(wide)])].name
            yield f"{machine} can run several tasks at once, but this planner needs machines of one node"
        if len(np.unique(group.machine)) < len(group.machine):
            yield f"{graph.names[int(group.tasks[0])]} has several node counts on one machine: not supported"


def _first_name(instance: Instance, chosen: NDArray[np.bool_]) -> str:
    return instance.graph.names[int(np.argmax(chosen))]


def find_layers(instance: Instance, pool: Sharing) -> LayerAssignment | Unsupported:
    """Return the layers of the tasks; Unsupported if layers need their own machines but share some."""
    graph = instance.graph
    pools = _pools(instance)
    if pool == "own":
        if (conflict := _layer_conflict(instance, pools)) is not None:
            return Unsupported(reason=f"{conflict}; pool=shared allows that")
        nodes = np.where(graph.kind == COMPUTE, pools, len(instance.groups) + np.arange(len(graph)))
    else:
        nodes = np.arange(len(graph))
    levels = _levels(nodes[graph.predecessor], np.repeat(nodes, np.diff(graph.predecessor_pointer)))
    if levels is None:
        return Unsupported(
            reason="layers with their own machines depend on each other; pool=shared allows that"
        )
    layer = np.array([levels.get(node, 0) for node in nodes.tolist()], dtype=np.int64)
    return LayerAssignment(layer=layer.astype(np.uint32), position=_positions_in_layer(layer, pools))


def _pools(instance: Instance) -> _Integers:
    """Return for each compute task the index of its set of machines; -1 for other tasks."""
    numbers: dict[bytes, int] = {}
    of_group = [numbers.setdefault(group.machine.tobytes(), len(numbers)) for group in instance.groups]
    return np.array([*of_group, -1], dtype=np.int64)[instance.group]


def _layer_conflict(instance: Instance, pools: _Integers) -> str | None:
    """Return a message about two tasks that share machines but cannot form a layer; None if none do."""
    graph = instance.graph
    owner: dict[int, int] = {}
    distinct = {int(pools[group.tasks[0]]): group for group in instance.groups}
    for group in distinct.values():
        task = int(group.tasks[0])
        for machine in group.machine.tolist():
            other = owner.setdefault(machine, task)
            if pools[other] != pools[task]:
                both = f"{graph.names[other]} and {graph.names[task]}"
                return f"{both} share {instance.machines[machine].name} but not all their machines"
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    inside = (pools[graph.predecessor] == pools[target]) & (pools[target] >= 0)
    if inside.any():
        edge = int(np.argmax(inside))
        names = graph.names[int(target[edge])], graph.names[int(graph.predecessor[edge])]
        return f"{names[0]} depends on {names[1]} but runs on the same machines"
    return None


def _levels(source: _Integers, target: _Integers) -> dict[int, int] | None:
    """Return the number of edges on the longest path to every node; None if the edges form a cycle."""
    followers: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for before, after in np.unique(np.stack([source, target], axis=1), axis=0).tolist():
        followers.setdefault(before, []).append(after)
        waiting[after] = waiting.get(after, 0) + 1
    levels = dict.fromkeys((node for node in followers if node not in waiting), 0)
    ready = list(levels)
    for node in ready:
        for after in followers.get(node, ()):
            levels[after] = max(levels.get(after, 0), levels[node] + 1)
            waiting[after] -= 1
            if waiting[after] == 0:
                ready.append(after)
    return None if any(waiting.values()) else levels


def _positions_in_layer(layer: _Integers, pools: _Integers) -> _Integers:
    """Return the position of each task among the tasks of its layer with the same set of machines."""
    by_layer = np.lexsort((pools, layer))
    changes = (np.diff(layer[by_layer]) != 0) | (np.diff(pools[by_layer]) != 0)
    first = np.concatenate(([0], np.flatnonzero(changes) + 1))
    lengths = np.diff(np.concatenate((first, [len(layer)])))
    positions = np.empty(len(layer), dtype=np.int64)
    positions[by_layer] = np.arange(len(layer)) - np.repeat(first, lengths)
    return positions


class SweepQueues:
    """The task queue of every machine, and the resulting times; starts from a simple assignment."""

    def __init__(self, instance: Instance, pool: Sharing, *, start: InitialQueues) -> None:
        layers = find_layers(instance, pool)
        assert not isinstance(layers, Unsupported), layers
        problem = compile_problem(instance)
        tasks, modes = problem.tasks, problem.modes
        number = tasks.number
        self.instance = instance
        self.modes = modes
        bound = tasks.pinned[tasks.variable]
        machines = problem.machines.number
        self.sweep = select_fields(SubtaskGraph, tasks, machines=machines, layer=layers.layer, bound=bound)
        self.compute = instance.graph.kind == COMPUTE
        nothing = np.full(number, number, dtype=np.uint32)
        self.queues = make_arrays(
            SubtaskQueues,
            number,
            previous=nothing,
            following=nothing.copy(),
            head=np.full(machines, number, dtype=np.uint32),
            # Layer by layer is a topological order of dependencies and queues.
            order=np.lexsort((np.arange(number), layers.layer)).astype(np.uint32),
        )
        self._fill(layers, start)
        self.placed = np.ones(number, dtype=np.uint8)
        self.times = make_arrays(SubtaskTimes, number)
        self.move_tasks(0)

    @property
    def length_s(self) -> float:
        """Return the makespan of the present queues."""
        return float(self.times.finish.max(initial=0.0))

    def improve(self, budget: Budget) -> bool:
        """Run a pass in which every task may move once; return False if the clock ended it early."""
        self.placed[:] = ~self.compute
        left = int(self.compute.sum())
        per_call = max(1, _ELEMENTS_PER_CALL // (len(self.placed) + len(self.sweep.before)))
        while left:
            left -= self.move_tasks(min(left, per_call))
            if left and budget.left is not None and budget.left() <= 0:
                return False
        return True

    def schedule(self) -> Schedule:
        """Return the schedule that the present queues produce."""
        instance, machine = self.instance, self.sweep.bound.copy()
        machine[self.compute] = self.modes.machine[self.queues.mode[self.compute]]
        for task in np.flatnonzero(machine == self.sweep.machines).tolist():  # virtual and not bound
            machine[task] = instance.candidates_of(int(instance.graph.variable[task]))[0]
        return make_schedule(
            instance,
            machine=machine,
            nodes=self.compute.astype(np.uint32),
            start_s=self.times.start.copy(),
            finish_s=self.times.finish.copy(),
        )

    def move_tasks(self, limit: int) -> int:
        """Move up to ``limit`` tasks to better positions and update all times; return the number of moves."""
        number = self.sweep.number
        inputs = (self.sweep, self.modes, limit, make_arrays(SubtaskScratch, number))
        outputs = (self.placed, self.queues, self.times)
        work_s = _PLAIN_S * (1 + limit) * (number + len(self.sweep.before))
        moved: int = compilation.run_kernel(move_subtasks, inputs, outputs, work_s=work_s)
        return moved

    def _fill(self, layers: LayerAssignment, start: InitialQueues) -> None:
        """Choose the initial mode of every task, and queue the tasks by layer, then by index."""
        modes, bound, queues = self.modes, self.sweep.bound, self.queues
        queued = queues.order[self.compute[queues.order]]
        first = modes.first.astype(np.int64)
        begin, end = first[modes.group[queued]], first[modes.group[queued] + 1]
        queues.mode[queued] = begin + (layers.position[queued] % (end - begin) if start == "shuffle" else 0)
        for index in np.flatnonzero(bound[queued] < self.sweep.machines).tolist():
            own = modes.machine[begin[index] : end[index]]
            queues.mode[queued[index]] = begin[index] + int(np.argmax(own == bound[queued[index]]))
        machine = modes.machine[queues.mode[queued]]
        by_machine = np.argsort(machine, kind="stable")
        queued, machine = queued[by_machine], machine[by_machine]
        same = machine[1:] == machine[:-1]
        queues.previous[queued[1:][same]] = queued[:-1][same]
        queues.following[queued[:-1][same]] = queued[1:][same]
        heads = np.concatenate(([True], ~same))[: len(queued)]
        queues.head[machine[heads]] = queued[heads]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle(BasePlanner):
    """Assigns the subtasks of every layer in turn to its machines.

    T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
    Tasks on Global Grids, sections on the model and on xDCP (docs/papers/parameter-sweeps.md, section 1).
    Sweeps follow each other in layers, and every layer has its own machines. Shuffle assigns the subtasks of
    every layer to its machines in turn, by index; xDCP starts from this schedule and is compared with it.

    Deviations: subtasks that can run on the same machines form a layer. A dependency may skip layers (no
    virtual subtasks are needed), and layers need not form a chain, as long as none depends on itself. In a
    shared pool, the future work of the paper, any two tasks may compete for a machine; a layer is then a
    level of the graph. Machines are counted from 0, which only renumbers them. A pinned subtask keeps its
    machine.

    Complexity O(v + e) for v tasks and e edges.
    """

    name = "shuffle"
    title = "Shuffle, the subtasks of a layer in turn over its machines (Ma and Buyya)"
    label = "Shuffle"

    pool: Sharing = "own"
    """Whether every layer has its own machines, or all layers share all machines."""

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Refuse all but layers of sweeps on machines of one node, without communication."""
        return check_sweep_support(instance, objective, self.pool)

    def plan(self, request: PlanRequest) -> Plan:
        """Return the plan with the subtasks of every layer assigned to its machines in turn."""
        queues = SweepQueues(request.instance, self.pool, start="shuffle")
        return Plan(schedule=queues.schedule(), steps=1)
