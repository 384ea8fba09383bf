"""Costs of schedules, a lower bound of the cost, and sequential execution as a reference."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from weft.instance.instance import Instance, ModeGroup
from weft.records import dataclass
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices

_CHUNK = 1_000_000
"""Approximate number of costs (variables x machines) summed at a time."""


def schedule_cost(schedule: Schedule, instance: Instance) -> float:
    """Return the price of all node-seconds of a schedule."""
    taken = (schedule.finish_s - schedule.start_s) * schedule.nodes
    return float((taken * instance.price_per_node_s[schedule.machine]).sum())


def relative_prices(instance: Instance) -> Floats:
    """Return the price of each machine divided by the mean price of a node; 1 if all prices are 0."""
    price, capacity = instance.price_per_node_s, instance.capacity
    mean = float((price * capacity).sum()) / max(1.0, float(capacity.sum()))
    return price / mean if mean > 0 else np.ones(len(price))


def cheapest_cost(instance: Instance) -> float:
    """Return the least possible cost: every variable on its cheapest machine, with the cheapest node counts.

    Waiting is free, so without a deadline or a budget some plan has this cost.
    """
    if not instance.price_per_node_s.any():
        return 0.0
    compute = np.flatnonzero(instance.graph.kind == COMPUTE).astype(np.uint32)
    by_variable = compute[np.argsort(instance.graph.variable[compute], kind="stable")]
    variables, first = np.unique(instance.graph.variable[by_variable], return_index=True)
    rows = max(1, _CHUNK // max(1, len(instance.machines)))
    total = 0.0
    for start in range(0, len(variables), rows):
        stop = min(start + rows, len(variables))
        end = len(by_variable) if stop == len(variables) else int(first[stop])
        total += _cheapest(instance, variables[start:stop], by_variable[int(first[start]) : end])
    return total


def _cheapest(instance: Instance, variables: Indices, tasks: Indices) -> float:
    """Return the least cost of compute tasks if all tasks of a binding variable run on one machine.

    ``variables`` are the sorted binding variables of ``tasks``.
    """
    costs = np.zeros((len(variables), len(instance.machines)))
    row = np.searchsorted(variables, instance.graph.variable[tasks])
    number = instance.group[tasks]
    for index in np.unique(number).tolist():
        mine = number == index
        machine, least = _least_costs(instance, instance.groups[index], tasks[mine])
        impossible = np.ones(len(instance.machines), dtype=bool)
        impossible[machine] = False
        costs[np.ix_(row[mine], np.flatnonzero(impossible))] = np.inf
        np.add.at(costs, (row[mine][:, None], machine[None, :]), least)
    for position, variable in enumerate(variables.tolist()):
        if variable in instance.pinned:
            costs[position] = costs[position, instance.pinned[variable]]
    return float(costs.min(axis=1).sum())


def _least_costs(instance: Instance, group: ModeGroup, tasks: Indices) -> tuple[Indices, Floats]:
    """Return the machines of a mode group, and the least cost of each task on each of them.

    The costs are a table (tasks x machines).
    """
    machine, first = np.unique(group.machine, return_index=True)
    price = instance.price_per_node_s[group.machine] * group.nodes
    # Modes are sorted by machine, so the modes of a machine are adjacent columns.
    return machine, np.minimum.reduceat(group.seconds_of(tasks) * price, first, axis=1)


_cached: WeakKeyDictionary[Instance, _SequentialTimes] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialExecution:
    """Time and node-seconds of running one task after another, without transfers."""

    time_s: float
    node_seconds: float


def sequential_execution(instance: Instance, machines: Indices | None = None) -> SequentialExecution:
    """Return time and node-seconds of sequential execution on the best of the given machines.

    If ``machines`` is None, all machines are considered. Sequential execution runs all compute tasks one
    after another, each on one node, on the machine where that is fastest. Speed-up is the sequential time on
    the machines of the schedule (``T_seq`` in docs/papers/dynamic-grid.md, section 7) divided by the
    makespan. The fitness functions of docs/papers/moldable.md, section 4, divide time and cost by those of
    sequential execution on any machine (``t_max`` and ``c_min``).

    Deviations: if one node is not allowed, the smallest allowed count is used. Machines that cannot run some
    task are excluded; if no machine can run all tasks, each task takes its fastest machine. O(v k) for v
    tasks of k modes, once per instance; if none of the given machines can run all tasks, at every call.
    """
    if instance not in _cached:
        _cached[instance] = _run_sequentially(instance)
    known = _cached[instance]
    return known.anywhere if machines is None else known.on_one_of(machines) or _mix(instance, machines)


class _SequentialTimes(NamedTuple):
    """Sequential execution on each machine, and on the best machine of all."""

    time_s: Floats
    """Per machine: seconds; infinity where some task cannot run."""
    node_seconds: Floats
    anywhere: SequentialExecution = SequentialExecution(time_s=0.0, node_seconds=0.0)

    def on_one_of(self, machines: Indices) -> SequentialExecution | None:
        """Return sequential execution on the best of these machines; None if none can run all tasks."""
        least = float(self.time_s[machines].min(initial=np.inf))
        if not np.isfinite(least):
            return None
        chosen = int(machines[self.time_s[machines].argmin()])
        return SequentialExecution(time_s=least, node_seconds=float(self.node_seconds[chosen]))


def _run_sequentially(instance: Instance) -> _SequentialTimes:
    time, taken = np.zeros(len(instance.machines)), np.zeros(len(instance.machines))
    for group in instance.groups:
        # The first mode of a machine has its smallest count.
        machine, first = np.unique(group.machine, return_index=True)
        able = np.zeros(len(time), dtype=bool)
        able[machine] = True
        time[~able] = np.inf
        for _, seconds in group.chunks():
            spent = seconds[:, first].sum(axis=0)
            time[machine] += spent
            taken[machine] += spent * group.nodes[first]
    found = _SequentialTimes(time, taken)
    every = np.arange(len(instance.machines), dtype=np.uint32)
    return found._replace(anywhere=found.on_one_of(every) or _mix(instance, every))


def _mix(instance: Instance, machines: Indices) -> SequentialExecution:
    """Return sequential execution with each task on the fastest of these machines that can run it."""
    fastest_s = fastest_taken = 0.0
    for group in instance.groups:
        machine, first = np.unique(group.machine, return_index=True)
        first = first[np.isin(machine, machines)]
        for _, seconds in group.chunks() if len(first) else ():
            least = seconds[:, first]
            fastest_s += float(least.min(axis=1).sum())
            fastest_taken += float((least.min(axis=1) * group.nodes[first][least.argmin(axis=1)]).sum())
    return SequentialExecution(time_s=fastest_s, node_seconds=fastest_taken)
