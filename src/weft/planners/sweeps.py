"""The planner Shuffle, and the layers and machine queues of parameter sweeps, which xDCP uses, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels.problem import TABLE, ModeArrays, make_arrays, select_fields
from weft.kernels.xdcp import SubtaskGraph, SubtaskQueues, SubtaskScratch, SubtaskTimes, move_subtasks
from weft.planners.planner import BasePlanner, Budget, Plan, PlanRequest, Unsupported
from weft.planners.problem import compile_problem, make_schedule
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices

Sharing = Literal["auto", "own", "shared"]
"""``own``: every layer has its own machines; ``shared``: all layers share them; ``auto``: own if possible."""
InitialQueues = Literal["shuffle", "sequential"]
"""How the tasks of a layer are first assigned: to its machines in turn, or all to its first machine."""

_PLAIN_S = 1e-6
"""Approximate seconds per step and task or edge in plain Python."""
_ELEMENTS_PER_CALL = 5_000_000
"""Number of tasks and edges processed between two checks of the clock, in about a tenth of a second."""

_ROUNDING = 1e-9
"""Relative tolerance with which a sum of amounts is compared with a total."""
_MOST_CELLS = 10_000_000
"""Largest number of cells (subtasks x queues) of a table of seconds, for subtasks with individual times."""

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
    """Yield a reason for each property that sweep planners cannot model."""
    graph = instance.graph
    if (graph.kind == TRANSFER).any():
        name = _first_name(instance, graph.kind == TRANSFER)
        yield f"{name} is a transfer, but this planner queues subtasks only; use files with sizes instead"
    shared = np.bincount(graph.variable, minlength=len(graph.variables))[graph.variable] > 1
    if shared.any():
        yield f"{_first_name(instance, shared)} shares an abstract machine with another task: not supported"
    if instance.busy:
        yield "machines are busy beforehand, but the queues of this planner begin empty"
    for group in instance.groups:
        if (free := instance.unlimited[group.machine]).any():
            machine = instance.machines[int(group.machine[np.argmax(free)])].name
            yield f"{machine} runs any number of tasks at once, but this planner queues them"
        if len(np.unique(group.machine)) < len(group.machine):
            name = graph.names[int(group.tasks[0])]
            yield f"{name} has several node counts on one machine, but this planner chooses none: state one"
    queues = divide_machines(instance)
    cells = sum(len(group.tasks) * int(queues[group.machine].sum()) for group in instance.groups)
    if compile_problem(instance).modes.layout == TABLE and cells > _MOST_CELLS:
        yield f"this planner would need a table of {cells:,} times of subtasks on nodes"


def _first_name(instance: Instance, chosen: NDArray[np.bool_]) -> str:
    return instance.graph.names[int(np.argmax(chosen))]


def divide_machines(instance: Instance) -> _Integers:
    """Return the number of queues of each machine: how many subtasks of any kind it can run at a time.

    Every queue has the nodes and the resources that the largest subtask on the machine needs. There are not
    more queues than subtasks, and at least one.
    """
    graph, capacity = instance.graph, instance.capacity
    widest = np.ones(len(capacity), dtype=np.int64)
    largest, subtasks = np.zeros_like(instance.amounts), np.zeros(len(capacity), dtype=np.int64)
    for group in instance.groups:
        np.maximum.at(widest, group.machine, group.nodes)
        np.add.at(subtasks, group.machine, len(group.tasks))
        needed = graph.demand[group.tasks].max(axis=0) if group.demand is None else group.demand
        np.maximum.at(largest, group.machine, needed)
    with np.errstate(divide="ignore", invalid="ignore"):
        fitting = np.floor(instance.amounts * (1 + _ROUNDING) / largest)
    by_amounts = np.where(largest > 0, fitting, np.inf).min(axis=1, initial=np.inf)
    by_nodes = np.minimum(capacity // widest, subtasks)
    found: _Integers = np.maximum(1, np.minimum(by_nodes, by_amounts)).astype(np.int64)
    return found


def find_layers(instance: Instance, pool: Sharing) -> LayerAssignment | Unsupported:
    """Return the layers of the tasks; Unsupported if ``pool`` is "own" and layers cannot be separated."""
    graph = instance.graph
    if pool == "auto":
        own = find_layers(instance, "own")
        return find_layers(instance, "shared") if isinstance(own, Unsupported) else own
    pools = _pools(instance)
    if pool == "own":
        if (conflict := _layer_conflict(instance, pools)) is not None:
            return Unsupported(reason=f"{conflict}; use the option pool=shared")
        nodes = np.where(graph.kind == COMPUTE, pools, len(instance.groups) + np.arange(len(graph)))
    else:
        nodes = np.arange(len(graph))
    levels = _levels(nodes[graph.predecessor], np.repeat(nodes, np.diff(graph.predecessor_pointer)))
    if levels is None:
        return Unsupported(
            reason="the dependencies between layers (all tasks with the same set of machines) form a cycle; "
            "use the option pool=shared"
        )
    layer = np.array([levels.get(node, 0) for node in nodes.tolist()], dtype=np.int64)
    return LayerAssignment(layer=layer.astype(np.uint32), position=_positions_in_layer(layer, pools))


def _pools(instance: Instance) -> _Integers:
    """Return for each compute task an index of its set of machines; -1 for other tasks.

    Tasks with equal sets of machines have the same index.
    """
    numbers: dict[bytes, int] = {}
    of_group = [numbers.setdefault(group.machine.tobytes(), len(numbers)) for group in instance.groups]
    return np.array([*of_group, -1], dtype=np.int64)[instance.group]


def _layer_conflict(instance: Instance, pools: _Integers) -> str | None:
    """Return a message about two tasks that share machines but cannot form a layer; None without conflict."""
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
    """The queues of subtasks on every machine, and the times of the subtasks.

    The queues are first filled in turn or sequentially (``InitialQueues``).
    """

    def __init__(self, instance: Instance, pool: Sharing, *, start: InitialQueues) -> None:
        layers = find_layers(instance, pool)
        assert not isinstance(layers, Unsupported), layers
        problem = compile_problem(instance)
        self.instance = instance
        self.compute = instance.graph.kind == COMPUTE
        divided = divide_machines(instance)
        self.machine_of = np.repeat(np.arange(len(divided), dtype=np.uint32), divided)
        """The machine of each queue."""
        self.modes = _divide_modes(instance, problem.modes, divided)
        network = problem.machines
        self.sweep = select_fields(
            SubtaskGraph,
            problem.tasks,
            network,
            number=len(instance),
            layer=layers.layer,
            moving=int(_moves_data(instance)),
            location=network.location[self.machine_of],
            host=network.host[self.machine_of],
        )
        self.queues = self._fill(layers, start)
        self.placed = np.ones(len(instance), dtype=np.uint8)
        self.times = make_arrays(SubtaskTimes, len(instance))
        self.move_tasks(0)

    @property
    def length_s(self) -> float:
        """Return the makespan of the present queues."""
        return float(self.times.finish.max(initial=0.0))

    def improve(self, budget: Budget) -> bool:
        """Run a pass in which every task may move once; return False if the clock ended the pass early."""
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
        instance = self.instance
        nodes = np.zeros(len(instance), dtype=np.uint32)
        nodes[self.compute] = self.modes.nodes[self.queues.mode[self.compute]]
        return make_schedule(
            instance,
            machine=self.machine_of[self.queues.machine],
            nodes=nodes,
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

    def _fill(self, layers: LayerAssignment, start: InitialQueues) -> SubtaskQueues:
        """Return the initial queues: subtasks by layer (a topological order), then by index."""
        modes, number = self.modes, len(self.instance)
        nothing = np.full(number, number, dtype=np.uint32)
        found = make_arrays(
            SubtaskQueues,
            number,
            previous=nothing,
            following=nothing.copy(),
            head=np.full(len(self.machine_of), number, dtype=np.uint32),
            order=np.lexsort((np.arange(number), layers.layer)).astype(np.uint32),
        )
        queued = found.order[self.compute[found.order]]
        first = modes.first.astype(np.int64)
        begin, end = first[modes.group[queued]], first[modes.group[queued] + 1]
        found.mode[queued] = begin + (layers.position[queued] % (end - begin) if start == "shuffle" else 0)
        found.machine[queued] = modes.machine[found.mode[queued]]
        self._place_virtual(found)
        place = found.machine[queued]
        by_queue = np.argsort(place, kind="stable")
        queued, place = queued[by_queue], place[by_queue]
        same = place[1:] == place[:-1]
        found.previous[queued[1:][same]] = queued[:-1][same]
        found.following[queued[:-1][same]] = queued[1:][same]
        heads = np.concatenate(([True], ~same))[: len(queued)]
        found.head[place[heads]] = queued[heads]
        return found

    def _place_virtual(self, queues: SubtaskQueues) -> None:
        """Set the machines of virtual tasks, which are in no queue: the pinned machine or first candidate."""
        instance = self.instance
        for task in np.flatnonzero(~self.compute).tolist():
            variable = int(instance.graph.variable[task])
            machine = instance.pinned.get(variable, int(instance.candidates_of(variable)[0]))
            queues.machine[task] = int(np.searchsorted(self.machine_of, machine))


def _moves_data(instance: Instance) -> bool:
    """Return whether the data of some dependency take time between some machines."""
    graph, network = instance.graph, instance.network
    slow_s = graph.edge_files * network.latency_s.max(initial=0.0) + graph.edge_seconds
    return bool((slow_s + graph.edge_bytes * network.inverse_bandwidth.max(initial=0.0) > 0).any())


def _divide_modes(instance: Instance, modes: ModeArrays, divided: _Integers) -> ModeArrays:
    """Return the modes of subtasks on queues instead of machines.

    A pinned subtask has only the modes of its machine. ``divided`` is the number of queues of each machine.
    The modes of a group are sorted by queue.
    """
    first_queue = np.concatenate([[0], np.cumsum(divided)])
    group, parts = np.full(len(instance), 0, dtype=np.uint32), list[tuple[_Integers, Indices]]()
    for number, found in enumerate(instance.groups):
        of_variable = instance.graph.variable[found.tasks]
        pins = np.array([instance.pinned.get(each, -1) for each in of_variable.tolist()])
        for pin in np.unique(pins).tolist():
            own = np.arange(len(found)) if pin < 0 else np.flatnonzero(found.machine == pin)
            parts.append((int(modes.first[number]) + own, found.tasks[pins == pin]))
            group[parts[-1][1]] = len(parts) - 1
    group[instance.group < 0] = len(parts)
    chosen, lengths, queues = [], [], []
    for own, _ in parts:
        times = divided[modes.machine[own]]
        chosen.append(np.repeat(own, times))
        lengths.append(len(chosen[-1]))
        queues += [
            np.arange(first_queue[each], first_queue[each + 1]) for each in modes.machine[own].tolist()
        ]
    taken = np.concatenate([*chosen, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    row, cell = modes.row, modes.cell
    if modes.layout == TABLE:
        row, cell = _divide_cells(modes, parts, chosen)
    return modes._replace(
        groups=len(parts),
        group=group,
        first=first,
        machine=np.concatenate([*queues, np.zeros(0, dtype=np.int64)]).astype(np.uint32),
        count=modes.count[taken],
        nodes=modes.nodes[taken],
        rate=modes.rate[taken],
        gain=modes.gain[taken],
        sorted=np.arange(len(taken), dtype=np.uint32),
        moldable=np.zeros(len(parts), dtype=np.uint8),
        scaled=np.zeros(len(parts), dtype=np.uint8),
        shift=modes.shift[taken],
        row=row,
        cell=cell,
    )


def _divide_cells(
    modes: ModeArrays, parts: list[tuple[_Integers, Indices]], chosen: list[_Integers]
) -> tuple[_Integers, Floats]:
    """Return the first cell of each task, and the cells: seconds of every queue of every task."""
    row, cells, filled = modes.row.copy(), [np.zeros(0)], 0
    for (_, tasks), own in zip(parts, chosen, strict=True):
        start = modes.first[modes.group[tasks[0]]] if len(tasks) else 0
        seconds = modes.cell[modes.row[tasks][:, None] + (own - int(start))]
        row[tasks] = filled + np.arange(len(tasks)) * len(own)
        cells.append(seconds.reshape(-1))
        filled += seconds.size
    return row, np.concatenate(cells)


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
    level of the graph. A machine of several nodes has several queues, each as wide as the widest subtask that
    can run on it. Data between different hosts take time. Machines are counted from 0, which only renumbers
    them. A pinned subtask keeps its machine.

    Complexity O(v + e) for v tasks and e edges.
    """

    name = "shuffle"
    title = "Shuffle, the subtasks of a layer in turn over its machines (Ma and Buyya)"
    label = "Shuffle"

    pool: Sharing = "auto"
    """``own``: every layer has its own machines; ``shared``: layers share them; ``auto``: own if possible."""

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Refuse objectives other than the makespan, and instances that layers of sweeps cannot model."""
        return check_sweep_support(instance, objective, self.pool)

    def plan(self, request: PlanRequest) -> Plan:
        """Return the plan with the subtasks of every layer assigned to its machines in turn."""
        queues = SweepQueues(request.instance, self.pool, start="shuffle")
        return Plan(schedule=queues.schedule(), steps=1)
