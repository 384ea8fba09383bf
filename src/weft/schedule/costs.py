"""What schedules cost, and what they cost at least: the price of all node-seconds taken."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.instance.modes import ModeGroup
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import COMPUTE, Floats, Indices

__all__ = ["cheapest_cost", "cost_of", "relative_prices"]

_CHUNK = 1_000_000
"""How many costs (variables x machines) are added up at a time."""


def cost_of(schedule: Schedule, instance: Instance) -> float:
    """Give the price of all node-seconds a schedule takes."""
    taken = (schedule.finish_s - schedule.start_s) * schedule.nodes
    return float((taken * instance.price_per_node_s[schedule.machine]).sum())


def relative_prices(instance: Instance) -> Floats:
    """Give per machine its price over that of a mean node of the platform; 1 everywhere without prices."""
    price, capacity = instance.price_per_node_s, instance.capacity
    mean = float((price * capacity).sum()) / max(1.0, float(capacity.sum()))
    return price / mean if mean > 0 else np.ones(len(price))


def cheapest_cost(instance: Instance) -> float:
    """Give a cost below which no schedule is: every binding variable on the machine that is cheapest for it.

    There each of its tasks takes its cheapest node count. Waiting costs nothing, so it takes a deadline or a
    budget to make every plan dearer.
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
    """Add up the least costs of some variables, whose compute tasks are given."""
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
    """Give the machines of a group, and tasks x machines what the cheapest count costs there."""
    machine, first = np.unique(group.machine, return_index=True)
    price = instance.price_per_node_s[group.machine] * group.nodes
    # Modes stand by machine, so the least of each machine is that of a stretch of columns.
    return machine, np.minimum.reduceat(group.seconds_of(tasks) * price, first, axis=1)
