"""Packing: nodes and countable amounts as fields of one integer (read by ``weft.kernels.shared_annealing``).

A dimension that never runs out takes no field. Whole numbers, and decimals with few digits, are packed as
they are, divided by what they have in common. Others become shares of the whole, what is needed rounded up
and what is free rounded down: what fits packed fits in truth.

Ways: the modes of all tasks written out, without those that are never better than another.

The instance as the search on shared machines reads it: see ``weft.kernels.shared_annealing``.

Where the search on shared machines starts: at a schedule, or at modes that use little of the budgets.

The search on shared machines: moldable tasks, countable resources, budgets, several machines with data.

Annealing over orders, node counts and machines together (``weft.kernels.shared_annealing``), in
cycles. Each cycle begins with the best plan so far and cools down from one of several heats; a heat that has
found something is kept, else the next is tried, and after all have failed cycles become twice as long. The
coldest comes first: list planners are good, and what they miss is mostly near.

Deviations: cooling goes by evaluations, so that the same seed and steps give the same plan; a cycle that
would take too large a share of the budget is hurried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible
from weft.instance.instance import BusyInterval, Instance, find_exceeded, largest_consumption
from weft.kernels import compilation
from weft.kernels import problem as kernel
from weft.kernels.shared_annealing import (
    DRAWS,
    SharedGoal,
    SharedLinks,
    SharedModes,
    SharedMoves,
    SharedProblem,
    SharedSchedule,
    SharedScore,
    SharedScratch,
    SharedState,
    anneal_shared,
)
from weft.planners.decoding import encode_schedule
from weft.planners.evaluation import LinearObjective
from weft.planners.planner import Budget, Plan, PlanProgress
from weft.planners.problem import compile_problem
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices, TaskGraph

__all__ = [
    "Packing",
    "SharedWorkspace",
    "WayTable",
    "build_workspace",
    "encode_state",
    "initial_state",
    "list_ways",
    "pack",
    "search_shared",
]


_BITS = 63
"""Of a signed integer that is not negative."""
_SCALES = (1.0, 2.0, 4.0, 10.0, 100.0, 1000.0)
"""By which amounts may become whole numbers."""
_PARTS_OF_TOTAL = (720720, 55440, 5040, 840, 60, 12, 2, 1)
"""Into how many parts a total is divided else: numbers that many others divide."""
_PACKING_ROUNDING = 1e-9

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Dimension:
    """Nodes or one resource: what ways need and machines have."""

    need: Floats
    """Per way."""
    total: Floats
    """Per machine; infinite where it never runs out."""
    unit: Floats
    """Per machine: how much one is."""
    most: int
    """The largest total in units."""

    @property
    def width(self) -> int:
        return self.most.bit_length() + 1

    def needed(self, machine: NDArray[np.uint32]) -> _Integers:
        """Give the needs of ways in units, rounded up; nothing where the total never runs out."""
        unlimited = np.isinf(self.total[machine])
        exact = np.where(unlimited, 0.0, self.need) / self.unit[machine]
        return np.ceil(exact * (1 - _PACKING_ROUNDING) - _PACKING_ROUNDING).astype(np.int64)

    def free(self, machine: int, taken: float) -> int:
        """Give what a machine has left in units, rounded down."""
        if math.isinf(self.total[machine]):
            return 0
        left = max(0.0, float(self.total[machine]) - taken) / float(self.unit[machine])
        return min(self.most, math.floor(left * (1 + _PACKING_ROUNDING) + _PACKING_ROUNDING))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Packing:
    """Packed needs of ways, and what machines have free before anything is planned (CSR)."""

    guard: int
    need: _Integers
    pointer: _Integers
    time_s: Floats
    free: _Integers


def pack(
    instance: Instance, task: NDArray[np.int64], machine: NDArray[np.uint32], needs: list[Floats]
) -> Packing:
    """Pack what ways (task and machine of each) need of nodes and of every resource."""
    totals = [instance.capacity.astype(np.float64), *instance.amounts.T]
    columns = zip(needs, totals, strict=True)
    limited = [(need, _limited(instance, task, machine, need, total)) for need, total in columns]
    dimensions = [_dimension(need, total, machine) for need, total in limited]
    while sum(found.width for found in dimensions) > _BITS:
        widest = max(range(len(dimensions)), key=lambda index: dimensions[index].width)
        dimensions[widest] = _coarser(dimensions[widest])
    shifts = np.cumsum([0, *(found.width for found in dimensions)]).tolist()
    packed = np.zeros(len(task), dtype=np.int64)
    for found, shift in zip(dimensions, shifts, strict=False):
        packed |= found.needed(machine) << shift
    pointer, time_s, free = _beginning(instance, dimensions, shifts)
    return Packing(
        guard=sum(1 << (shift - 1) for shift in shifts[1:]),
        need=packed,
        pointer=pointer,
        time_s=time_s,
        free=free,
    )


def _limited(
    instance: Instance, task: NDArray[np.int64], machine: NDArray[np.uint32], need: Floats, total: Floats
) -> Floats:
    """Give the totals, infinite where all tasks together cannot exhaust them."""
    largest = np.zeros((len(instance.machines), len(instance)))
    np.maximum.at(largest, (machine, task), need)
    plenty = largest.sum(axis=1) <= total
    plenty[[held.machine for held in instance.busy]] = False
    return np.where(plenty, np.inf, total)


def _dimension(need: Floats, total: Floats, machine: NDArray[np.uint32]) -> _Dimension:
    """Find the unit in which needs are whole numbers, else a share of the total."""
    counted = np.unique(need[np.isfinite(total[machine]) & (need > 0)])
    finite = total[np.isfinite(total)]
    for scale in _SCALES:
        whole = np.rint(counted * scale)
        if len(counted) and (np.abs(whole - counted * scale) > _PACKING_ROUNDING * whole).any():
            continue
        if whole.max(initial=0.0) > 2.0**53:
            break
        common = math.gcd(*whole.astype(np.int64).tolist()) or 1
        unit = np.full(len(total), common / scale)
        most = math.floor(finite.max(initial=0.0) / (common / scale) * (1 + _PACKING_ROUNDING))
        return _Dimension(need=need, total=total, unit=unit, most=most)
    return _in_shares(need, total, _PARTS_OF_TOTAL[0])


def _in_shares(need: Floats, total: Floats, parts: int) -> _Dimension:
    unit = np.where(np.isfinite(total) & (total > 0), total, parts) / parts
    return _Dimension(need=need, total=total, unit=unit, most=parts)


def _coarser(found: _Dimension) -> _Dimension:
    parts = next(parts for parts in _PARTS_OF_TOTAL if parts.bit_length() + 1 < found.width)
    return _in_shares(found.need, found.total, parts)


def _beginning(
    instance: Instance, dimensions: list[_Dimension], shifts: list[int]
) -> tuple[_Integers, Floats, _Integers]:
    """Give the steps of every machine: what is free beside what is busy beforehand."""
    pointer, times, free = [0], [], []
    for machine in range(len(instance.machines)):
        held = [one for one in instance.busy if one.machine == machine]
        ends = {moment for one in held for moment in _stretch(one)}
        for moment in sorted({0.0, *(end for end in ends if math.isfinite(end))}):
            beside = [one for one in held if _stretch(one)[0] <= moment < _stretch(one)[1]]
            left = [found.free(machine, _taken(beside, place)) for place, found in enumerate(dimensions)]
            times.append(moment)
            free.append(sum(amount << shift for amount, shift in zip(left, shifts, strict=False)))
        pointer.append(len(times))
    return np.array(pointer), np.array(times, dtype=np.float64), np.array(free, dtype=np.int64)


def _stretch(held: BusyInterval) -> tuple[float, float]:
    """Give begin and end as decoders count them: what is over does not matter."""
    begin_s = max(0.0, held.start_s)
    return begin_s, begin_s + max(0.0, held.finish_s - begin_s)


def _taken(held: list[BusyInterval], dimension: int) -> float:
    if dimension == 0:
        return float(sum(one.nodes for one in held))
    return sum(one.amounts[dimension - 1] for one in held if one.amounts)


_MAX_WAYS = 8_000_000
"""Ways above which an instance is not written out."""


class WayTable(NamedTuple):
    """The ways of all tasks, by task, then machine, then count."""

    first: Indices
    """Per task and one more: its first way."""
    task: NDArray[np.int64]
    mode: Indices
    """Positions among the modes of the task's group."""
    machine: Indices
    nodes: Floats
    seconds: Floats
    amounts: Floats
    """Ways x resources."""
    use: Floats
    """Ways x budgets that can be exceeded: which share of the whole a way uses up."""


def list_ways(instance: Instance, *, efficient: bool) -> WayTable | None:
    """List them; ``efficient``: only ways that are faster than all with fewer nodes on the same machine.

    Where amounts depend on the node count all ways are kept. None: there are too many.
    """
    if sum(len(group) * len(group.tasks) for group in instance.groups) > _MAX_WAYS:
        return None
    graph = instance.graph
    binding = np.flatnonzero(find_exceeded(graph, largest_consumption(graph, instance.groups)))
    # An empty part in front fixes shapes and types where there are no compute tasks.
    none = np.zeros(0, dtype=np.uint32)
    empty = WayTable(
        first=none,
        task=none.astype(np.int64),
        mode=none,
        machine=none,
        nodes=np.zeros(0),
        seconds=np.zeros(0),
        amounts=np.zeros((0, len(graph.resource_names))),
        use=np.zeros((0, len(binding))),
    )
    parts = [empty, *_parts(instance, binding, efficient=efficient)]
    joined = WayTable(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.lexsort((joined.mode, joined.task))
    first = np.concatenate([[0], np.cumsum(np.bincount(joined.task, minlength=len(instance)))])
    return WayTable(
        first=first.astype(np.uint32),
        task=joined.task[order],
        mode=joined.mode[order],
        machine=joined.machine[order],
        nodes=joined.nodes[order],
        seconds=joined.seconds[order],
        amounts=joined.amounts[order],
        use=joined.use[order],
    )


def _parts(instance: Instance, binding: NDArray[np.intp], *, efficient: bool) -> Iterator[WayTable]:
    graph, problem = instance.graph, compile_problem(instance)
    resources, whole = len(graph.resource_names), graph.budgets[binding]
    amounts = problem.tasks.amount.reshape(-1, resources) if resources else np.zeros((1, 0))
    for index, group in enumerate(instance.groups):
        begin, end = problem.modes.first[index : index + 2].tolist()
        shift = problem.modes.shift[begin:end]
        varied = group.demand is not None or group.consumption is not None
        for tasks, seconds in group.chunks():
            kept = np.ones(seconds.shape, dtype=np.bool_)
            if efficient and not varied:
                kept = _efficient(group.machine, seconds)
            row, mode = np.nonzero(kept)
            task = tasks[row].astype(np.int64)
            need = problem.tasks.need[task].astype(np.int64) + shift[mode]
            used = graph.consumption[task] if group.consumption is None else group.consumption[mode]
            yield WayTable(
                first=np.zeros(0, dtype=np.uint32),
                task=task,
                mode=mode.astype(np.uint32),
                machine=group.machine[mode],
                nodes=group.nodes[mode].astype(np.float64),
                seconds=seconds[row, mode],
                amounts=amounts[need if resources else np.zeros(len(need), dtype=np.int64)],
                use=used[:, binding] / np.where(whole > 0, whole, 1.0),
            )


def _efficient(machine: Indices, seconds: Floats) -> NDArray[np.bool_]:
    """Mark tasks x modes that are faster than all with fewer nodes on the same machine."""
    kept = np.ones(seconds.shape, dtype=np.bool_)
    first = np.unique(machine, return_index=True)[1].tolist()
    for begin, end in zip(first, [*first[1:], len(machine)], strict=True):
        own = seconds[:, begin:end]
        kept[:, begin + 1 : end] = own[:, 1:] < np.minimum.accumulate(own, axis=1)[:, :-1]
    return kept


_DRAG = 0.3
"""How much node-seconds, spread over all nodes, weigh against the makespan where tasks are moldable."""
_JUSTIFIED, _MOLDED, _TAKEN, _BOTH = 0.02, 0.5, 0.3, 0.5
"""Shares of the moves (``SharedMoves``), where they are possible."""
_MAX_DESCENDANT_TASKS = 3000
"""Tasks up to which it is worked out who descends from whom."""
_TAIL_ROUNDING = 1e-9


class SharedWorkspace(NamedTuple):
    """Everything the kernel reads, and where it works."""

    shop: SharedProblem
    links: SharedLinks
    ways: SharedModes
    mode: Indices
    """Per way: its position among the modes of the task's group."""
    goal: SharedGoal
    moves: SharedMoves
    layout: SharedSchedule
    scratch: SharedScratch


def build_workspace(instance: Instance, aim: LinearObjective) -> SharedWorkspace | None:
    """Lay the instance out; None: it has too many ways."""
    listed = list_ways(instance, efficient=aim.per_node_s >= 0 and aim.per_price >= 0)
    if listed is None:
        return None
    problem = compile_problem(instance)
    descends = _descendants(instance.graph)
    ways, shop = _ways_and_shop(instance, aim, listed, descends)
    links = _links(problem)
    tasks = problem.tasks.number
    return SharedWorkspace(
        shop=shop,
        links=links,
        ways=ways,
        mode=listed.mode,
        goal=_goal(aim, ways),
        moves=_moves(instance, listed, descends, backwards=links.far == 0 and not instance.busy),
        layout=_layout(shop),
        scratch=SharedScratch(
            changed=np.zeros(tasks, dtype=np.uint32),
            old_way=np.zeros(tasks, dtype=np.uint32),
            order=np.zeros(tasks, dtype=np.uint32),
            used=np.zeros(ways.budgets),
        ),
    )


def _ways_and_shop(
    instance: Instance, aim: LinearObjective, listed: WayTable, descends: NDArray[np.bool_] | None
) -> tuple[SharedModes, SharedProblem]:
    problem = compile_problem(instance)
    tasks, machines = problem.tasks, problem.machines
    packing = pack(instance, listed.task, listed.machine, [listed.nodes, *listed.amounts.T])
    node_s = listed.nodes * listed.seconds
    price = node_s * machines.price[listed.machine]
    moldable = len(_moldable(listed)) > 0
    ways = SharedModes(
        first=listed.first,
        machine=listed.machine,
        seconds=listed.seconds,
        need=packing.need,
        charge=node_s * aim.per_node_s + price * aim.per_price,
        drag=node_s * (_DRAG * aim.per_second / float(instance.capacity.sum()) if moldable else 0.0),
        price=price,
        budgets=listed.use.shape[1],
        use=listed.use.reshape(-1),
    )
    shop = SharedProblem(
        tasks=tasks.number,
        machines=machines.number,
        variables=tasks.variables,
        guard=packing.guard,
        variable=tasks.variable,
        earliest=tasks.earliest,
        tail=_tails(instance, listed, descends),
        pointer=tasks.pointer,
        before=tasks.before,
        after_pointer=tasks.after_pointer,
        after=tasks.after,
        open=(machines.form == kernel.OPEN).astype(np.uint8),
        step_pointer=packing.pointer,
        step_time=packing.time_s,
        step_free=packing.free,
    )
    return ways, shop


def _links(problem: kernel.ProblemArrays) -> SharedLinks:
    tasks, machines = problem.tasks, problem.machines
    return SharedLinks(
        far=int(machines.hosts > 1),
        locations=machines.locations,
        source=tasks.source,
        moved=tasks.moved,
        size=tasks.size,
        files=tasks.files,
        fixed=tasks.fixed,
        host=machines.host,
        location=machines.location,
        latency=machines.latency,
        inverse=machines.inverse,
    )


def _goal(aim: LinearObjective, ways: SharedModes) -> SharedGoal:
    counted = ways.charge.any() or ways.drag.any() or math.isfinite(aim.max_cost) or ways.budgets > 0
    return SharedGoal(
        base=aim.base,
        per_second=aim.per_second,
        deadline=aim.deadline_s,
        max_cost=aim.max_cost,
        penalty=0.0,
        drag=1.0,
        counted=int(counted),
    )


def _descendants(graph: TaskGraph) -> NDArray[np.bool_] | None:
    """Give tasks x tasks which descend from which; None: there are too many."""
    if len(graph) > _MAX_DESCENDANT_TASKS:
        return None
    descends = np.zeros((len(graph), len(graph)), dtype=np.bool_)
    for task in range(len(graph) - 1, -1, -1):
        for after in graph.successors(task).tolist():
            descends[task] |= descends[after]
            descends[task, after] = True
    return descends


def _tails(instance: Instance, listed: WayTable, descends: NDArray[np.bool_] | None) -> Floats:
    """Give per task what passes at least after its end: a path of fastest ways, or all that must still run.

    What descends from a task takes node-seconds, and as much of every resource for a time; on a single
    machine, so much takes so long.
    """
    graph, shortest = instance.graph, instance.shortest_s()
    tail = np.zeros(len(graph))
    for task in range(len(graph) - 1, -1, -1):
        after = graph.successors(task)
        if len(after):
            tail[task] = (shortest[after] + tail[after]).max()
    if descends is not None and len(instance.machines) == 1 and not instance.unlimited.any():
        totals = [float(instance.capacity[0]), *instance.amounts[0].tolist()]
        for need, total in zip([listed.nodes, *listed.amounts.T], totals, strict=True):
            if 0 < total < math.inf:
                least = np.full(len(graph), np.inf)
                np.minimum.at(least, listed.task, need * listed.seconds)
                least[np.isinf(least)] = 0.0
                tail = np.maximum(tail, descends @ least / total)
    # Rounding must not make it too large.
    return tail * (1 - _TAIL_ROUNDING)


def _moldable(listed: WayTable) -> NDArray[np.intp]:
    """Give the tasks that have several ways on some machine."""
    again = (listed.task[1:] == listed.task[:-1]) & (listed.machine[1:] == listed.machine[:-1])
    return np.unique(listed.task[1:][again])


def _moves(
    instance: Instance, listed: WayTable, descends: NDArray[np.bool_] | None, *, backwards: bool
) -> SharedMoves:
    tasks, number = compile_problem(instance).tasks, len(instance)
    shifted = np.arange(number)
    if descends is not None:
        related = descends.sum(axis=0) + descends.sum(axis=1)
        shifted = np.flatnonzero(related < number - 1)
    molded = _moldable(listed)
    taken = [
        variable
        for variable in range(tasks.variables)
        if variable not in instance.pinned and len(instance.candidates_of(variable)) > 1
    ]
    members = np.bincount(tasks.variable, minlength=tasks.variables)
    return SharedMoves(
        shifts=len(shifted),
        shifted=shifted.astype(np.uint32),
        molds=len(molded),
        molded=molded.astype(np.uint32),
        takes=len(taken),
        taken=np.array(taken, dtype=np.uint32),
        candidate_pointer=tasks.candidate_pointer,
        candidate=tasks.candidate,
        candidate_set=tasks.candidate_set,
        member_pointer=np.concatenate([[0], np.cumsum(members)]).astype(np.uint32),
        member=np.argsort(tasks.variable, kind="stable").astype(np.uint32),
        **_shares(len(shifted), len(molded), len(taken), backwards=backwards),
    )


def _shares(shifts: int, molds: int, takes: int, *, backwards: bool) -> dict[str, float]:
    """Give the shares of the moves; what is not possible leaves its share to the others."""
    justify = _JUSTIFIED if backwards and shifts else 0.0
    mold = (_MOLDED if shifts or takes else 1.0) if molds else 0.0
    take = (_TAKEN if shifts else 1.0) if takes else 0.0
    rest = 1.0 - justify
    mold, take = mold * rest, min(take, 1.0 - mold) * rest
    return {
        "justify_share": justify,
        "mold_share": mold,
        "take_share": take,
        "both_share": _BOTH if shifts else 0.0,
    }


def _layout(shop: SharedProblem) -> SharedSchedule:
    steps = len(shop.step_time) + 2 * shop.tasks
    return SharedSchedule(
        start=np.zeros(shop.tasks),
        finish=np.zeros(shop.tasks),
        first=np.zeros(shop.machines, dtype=np.int64),
        last=np.zeros(shop.machines, dtype=np.int64),
        time=np.zeros(steps),
        free=np.zeros(steps, dtype=np.int64),
    )


def encode_state(instance: Instance, workshop: SharedWorkspace, schedule: Schedule) -> SharedState:
    """Give the state of a schedule; a mode that is no way becomes the way that is better than it."""
    genome, ways = encode_schedule(instance, schedule), workshop.ways
    # Ways stand by task and mode: the last one up to the mode, which is on the same machine.
    number = len(instance)
    task = np.repeat(np.arange(number), np.diff(ways.first.astype(np.int64)))
    most = int(max(workshop.mode.max(initial=0), genome.modes.max(initial=0))) + 1
    keys, asked = task * most + workshop.mode, np.arange(number) * most + genome.modes
    found = np.searchsorted(keys, asked, side="right") - 1
    way = np.where(np.diff(ways.first.astype(np.int64)) > 0, found, ways.first[1:])
    return _state(genome.order, way, genome.bound)


def initial_state(instance: Instance, workshop: SharedWorkspace) -> SharedState:
    """Give every task the way that uses least of the budgets, the fastest if several; longest paths first.

    Variables are bound to the machines where that is least for all their tasks.
    """
    ways, graph = workshop.ways, instance.graph
    task = np.repeat(np.arange(len(graph)), np.diff(ways.first.astype(np.int64)))
    used = ways.use.reshape(len(task), -1).sum(axis=1) if ways.budgets else np.zeros(len(task))
    best = np.lexsort((np.arange(len(task)), ways.seconds, used))
    bound = _bindings(instance, task, ways.machine, used, ways.seconds)
    way = ways.first[1:].astype(np.int64)
    # The best comes last, so that it stays.
    for chosen in best[::-1].tolist():
        owner = int(task[chosen])
        if ways.machine[chosen] == bound[graph.variable[owner]]:
            way[owner] = chosen
    seconds = np.zeros(len(graph))
    computes = way < ways.first[1:]
    seconds[computes] = ways.seconds[way[computes]]
    # A task of no seconds has no more left than its successors: ties go by index.
    left = workshop.shop.tail + seconds
    for index in range(len(graph) - 1, -1, -1):
        after = graph.successors(index)
        if len(after):
            left[index] = max(left[index], seconds[index] + left[after].max())
    order = np.lexsort((np.arange(len(graph)), -left)).astype(np.uint32)
    return _state(order, way, bound)


def _bindings(
    instance: Instance, task: NDArray[np.intp], machine: Indices, used: Floats, seconds: Floats
) -> Indices:
    """Bind every variable to the machine of least use, then of least seconds, then of the least index."""
    graph, machines = instance.graph, len(instance.machines)
    least = np.full((2, len(graph), machines), np.inf)
    np.minimum.at(least[0], (task, machine), used)
    np.minimum.at(least[1], (task, machine), seconds)
    bound = np.zeros(len(graph.variables), dtype=np.uint32)
    for variable in range(len(bound)):
        candidates = instance.candidates_of(variable)
        members = np.flatnonzero((graph.variable == variable) & (instance.group >= 0))
        use, spent = least[:, members][:, :, candidates].sum(axis=1)
        bound[variable] = instance.pinned.get(variable, candidates[np.lexsort((spent, use))[0]])
    return bound


def _state(order: Indices, way: NDArray[np.int64], bound: Indices) -> SharedState:
    place = np.empty(len(order), dtype=np.uint32)
    place[order] = np.arange(len(order))
    return SharedState(order=order.copy(), place=place, way=way.astype(np.uint32), bound=bound.copy())


_COLDEST, _HEATS, _COOLING = 0.03, (1.0, 4.0, 16.0, 64.0), 0.15
"""Heat at the begin of a cycle, as a share of the objective: the coldest for one task (it is divided by their
number), the factors of the others, and the heat at the end as a share of that at the begin."""
_GAIN = 1e-3
"""Share by which a cycle must make the best plan better for another one of its kind to follow."""
_DRAGS = (1.0, 0.0)
"""Drags of moldable tasks: with it the search is quicker, without it nothing is left out."""
_CYCLE = 4000
"""Evaluations per task in the first cycle."""
_MOST_OF_BUDGET = 0.125
"""Share of the budget that a cycle may take."""
_PENALTY = 20.0
"""How many times the objective it costs to miss a limit by the whole of it."""
_TASK_S, _EDGE_S = 60e-9, 5e-9
"""What laying a task and looking at an edge take compiled, about."""
_PLAIN = 60.0
"""How many times longer that takes in plain Python."""
_BATCH_S = 0.03
_LEAST_BATCH = 16
_ROUNDING = 1e-9


def search_shared(
    instance: Instance,
    aim: LinearObjective,
    start: Schedule | None,
    budget: Budget,
    rng: np.random.Generator,
    *,
    by: str = "weave",
) -> Plan:
    """Give a plan that is not worse than the one to start from, if there is one that keeps the budgets.

    Raises Infeasible if no plan is found that keeps them.
    """
    workshop = build_workspace(instance, aim)
    if workshop is None:
        return _unchanged(instance, start)
    state = initial_state(instance, workshop) if start is None else encode_state(instance, workshop, start)
    if start is not None and workshop.ways.budgets and _overused(workshop, state):
        start, state = None, initial_state(instance, workshop)
    search = _SharedSearch(instance=instance, aim=aim, workshop=workshop, budget=budget, rng=rng, by=by)
    cut = search.run(state)
    if workshop.ways.budgets and _overused(workshop, search.best):
        raise Infeasible(
            f"no plan was found that keeps within {', '.join(instance.binding_budgets())}: "
            "this is no proof that there is none, more time may help"
        )
    found = search.schedule()
    if start is not None and aim.loss(instance, start) <= aim.loss(instance, found):
        found = start
    return Plan(schedule=found, steps=search.steps, cut=cut)


def _unchanged(instance: Instance, start: Schedule | None) -> Plan:
    if start is None or instance.binding_budgets():
        raise Infeasible(f"{len(instance)} tasks with all their modes are too many to keep within budgets")
    return Plan(schedule=start, steps=0)


def _overused(workshop: SharedWorkspace, state: SharedState) -> bool:
    ways = workshop.ways
    chosen = state.way[state.way < ways.first[1:]]
    used = ways.use.reshape(-1, ways.budgets)[chosen].sum(axis=0)
    return bool((used > 1.0 + _ROUNDING).any())


def _nothing_known() -> SharedScore:
    return SharedScore(*(np.full(1, math.inf) for _ in SharedScore._fields))


class _SharedCycle(NamedTuple):
    """A stretch of cooling."""

    heat: float
    length: int
    first_step: int
    first_share: float

    def heat_at(self, step: int, share: float) -> float | None:
        """Give the heat; None: the cycle is over."""
        done = max((step - self.first_step) / self.length, (share - self.first_share) / _MOST_OF_BUDGET)
        return None if done >= 1.0 else float(self.heat * _COOLING**done)


@dataclass(slots=True, kw_only=True)
class _SharedSearch:
    """One search: where it is, and the best it has found."""

    instance: Instance
    aim: LinearObjective
    workshop: SharedWorkspace
    budget: Budget
    rng: np.random.Generator
    by: str
    steps: int = 0
    state: SharedState = field(init=False)
    best: SharedState = field(init=False)
    score: SharedScore = field(init=False)
    whole_s: float = math.inf
    """What the clock had left at the begin."""

    def run(self, state: SharedState) -> bool:
        """Search from a state on until the budget is spent; say whether the clock ended it."""
        self.state, self.best = state, SharedState(*(part.copy() for part in state))
        self._assess()
        shop, moves = self.workshop.shop, self.workshop.moves
        if shop.tasks == 0 or not (moves.shifts or moves.molds or moves.takes):
            return False
        try:
            if self.budget.left is not None:
                self.whole_s = max(self.budget.left(), 1e-9)
            self._cycles()
        except KeyboardInterrupt:
            return True
        return self.budget.steps is None or self.steps < self.budget.steps

    def _assess(self) -> None:
        """Find out what the state to start from is worth."""
        self.score = _nothing_known()
        self._lay(self.state, self.score)
        self.steps = 1
        scale = abs(float(self.score.value[0])) or 1.0
        goal = self.workshop.goal._replace(penalty=_PENALTY * scale)
        self.workshop = self.workshop._replace(goal=goal)

    @property
    def _evaluation_s(self) -> float:
        shop = self.workshop.shop
        return shop.tasks * _TASK_S + len(shop.before) * _EDGE_S

    def _share(self) -> float:
        """Give the share of the budget that is spent, of steps or time, whichever is more."""
        by_steps = self.steps / self.budget.steps if self.budget.steps else 0.0
        by_clock = 1.0 - self.budget.left() / self.whole_s if self.budget.left is not None else 0.0
        return max(by_steps, by_clock)

    def _cycles(self) -> None:
        coldest = _COLDEST / self.workshop.shop.tasks
        goal, length = self.workshop.goal, _CYCLE * self.workshop.shop.tasks
        kinds = list(product(_HEATS, _DRAGS if self.workshop.ways.drag.any() else (0.0,)))
        kind, failed = 0, 0
        while self.budget.allows(self.steps):
            known = self._worth()
            scale = abs(float(self.score.best_value[0])) or 1.0
            factor, drag = kinds[kind]
            heat = coldest * factor * scale
            self.workshop = self.workshop._replace(goal=goal._replace(drag=drag))
            self._cool(
                _SharedCycle(heat=heat, length=length, first_step=self.steps, first_share=self._share())
            )
            missed, value = self._worth()
            if missed < known[0] or value < known[1] - _GAIN * scale:
                failed = 0
                continue
            failed, kind = failed + 1, (kind + 1) % len(kinds)
            if failed % len(kinds) == 0:
                length *= 2

    def _worth(self) -> tuple[float, float]:
        return float(self.score.best_missed[0]), float(self.score.best_value[0])

    def _cool(self, cycle: _SharedCycle) -> None:
        """Go through a cycle, from the best state on."""
        for part, best in zip(self.state, self.best, strict=True):
            part[:] = best
        self.score.missed[0], self.score.value[0] = self._worth()
        batch = max(_LEAST_BATCH, min(int(_BATCH_S / self._evaluation_s), cycle.length // 50))
        while self.budget.allows(self.steps):
            heat = cycle.heat_at(self.steps, self._share())
            if heat is None:
                return
            if self.budget.steps is not None:
                # A hundredth, so that little budgets cool down as well; at least one.
                batch = max(1, min(batch, self.budget.steps - self.steps, 1 + self.budget.steps // 100))
            self._batch(heat, batch)

    def _batch(self, heat: float, number: int) -> None:
        known = self._worth()
        uniform, exponential = self.rng.random(DRAWS * number), self.rng.standard_exponential(number)
        self.steps += self._anneal(heat, uniform, exponential, (self.state, self.best, self.score))
        if self.budget.on_progress is not None and self._worth() < known:
            self._report()

    def _lay(self, state: SharedState, score: SharedScore) -> None:
        """Lay a state, and write down what it is worth."""
        self._anneal(0.0, np.zeros(DRAWS), np.zeros(1), (state, self.best, score), fresh=True)

    def _anneal(
        self,
        heat: float,
        uniform: Floats,
        exponential: Floats,
        states: tuple[SharedState, SharedState, SharedScore],
        *,
        fresh: bool = False,
    ) -> int:
        shop, links, ways, _, goal, moves, layout, scratch = self.workshop
        number = len(exponential)
        spent: int = compilation.run_kernel(
            anneal_shared,
            (shop, links, ways, goal, moves, int(fresh), heat, number, uniform, exponential, scratch),
            (layout, *states),
            work_s=number * self._evaluation_s * _PLAIN,
        )
        return spent

    def _report(self) -> None:
        assert self.budget.on_progress is not None
        value, makespan_s = float(self.score.best_value[0]), self.schedule().makespan_s
        self.budget.on_progress(
            PlanProgress(by=self.by, value=value, makespan_s=makespan_s, bound_s=0.0, steps=self.steps)
        )

    def schedule(self) -> Schedule:
        """Lay the best state once more and give it as a schedule."""
        instance, layout = self.instance, self.workshop.layout
        # A copy is laid: where the search goes on does not depend on who looks.
        self._lay(SharedState(*(part.copy() for part in self.best)), _nothing_known())
        compute = instance.graph.kind == COMPUTE
        modes = compile_problem(instance).modes
        chosen = modes.first[modes.group[compute]] + self.workshop.mode[self.best.way[compute]]
        nodes = np.zeros(len(instance), dtype=np.uint32)
        nodes[compute] = modes.nodes[chosen]
        return Schedule(
            tasks=instance.graph.names,
            machines=tuple(machine.name for machine in instance.machines),
            machine=self.best.bound[instance.graph.variable],
            nodes=nodes,
            start_s=layout.start.copy(),
            finish_s=layout.finish.copy(),
        )
