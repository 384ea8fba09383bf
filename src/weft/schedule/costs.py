"""Costs of schedules, a lower bound of the cost, and sequential execution as a reference."""

from __future__ import annotations

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
    """Return the least possible cost: every variable on its cheapest machine, with cheapest node counts.

    Waiting is free, so without a deadline or a budget this cost can be reached.
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
    """Return the sum of the least costs of the given variables, which have the given compute tasks."""
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
    """Return the machines of a group, and the least costs of its tasks there (tasks x machines)."""
    machine, first = np.unique(group.machine, return_index=True)
    price = instance.price_per_node_s[group.machine] * group.nodes
    # Modes are sorted by machine, so the modes of a machine are adjacent columns.
    return machine, np.minimum.reduceat(group.seconds_of(tasks) * price, first, axis=1)


_cached: WeakKeyDictionary[Instance, SequentialExecution] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialExecution:
    """Time and node-seconds of running one task after another, without transfers."""

    time_s: float
    node_seconds: float


def sequential_execution(instance: Instance) -> SequentialExecution:
    """Return time and node-seconds of sequential execution, cached per instance.

    A cost is the price of all occupied node-seconds. Sequential execution runs all compute tasks one after
    another on the machine where that is fastest. Speed-up is measured against it (``T_seq`` in
    docs/papers/dynamic-grid.md, section 7), and the fitness functions of docs/papers/moldable.md, section 4,
    scale time and cost by it (``t_max`` and ``c_min``).

    Deviations: if one node is not allowed, the smallest allowed count is used. Machines that cannot run some
    task are excluded; if no machine can run all tasks, each task takes its fastest machine. O(v k) for v
    tasks of k modes, once per instance.
    """
    if instance not in _cached:
        _cached[instance] = _run_sequentially(instance)
    return _cached[instance]


def _run_sequentially(instance: Instance) -> SequentialExecution:
    time, taken = np.zeros(len(instance.machines)), np.zeros(len(instance.machines))
    fastest_s = fastest_taken = 0.0
    for group in instance.groups:
        # The first mode of a machine has its smallest count.
        machine, first = np.unique(group.machine, return_index=True)
        nodes = group.nodes[first]
        able = np.zeros(len(time), dtype=bool)
        able[machine] = True
        time[~able] = np.inf
        for _, seconds in group.chunks():
            least = seconds[:, first]
            spent = least.sum(axis=0)
            time[machine] += spent
            taken[machine] += spent * nodes
            best = least.argmin(axis=1)
            fastest_s += float(least.min(axis=1).sum())
            fastest_taken += float((least.min(axis=1) * nodes[best]).sum())
    if np.isfinite(time.min(initial=np.inf)):
        chosen = int(time.argmin())
        return SequentialExecution(time_s=float(time[chosen]), node_seconds=float(taken[chosen]))
    return SequentialExecution(time_s=fastest_s, node_seconds=fastest_taken)
