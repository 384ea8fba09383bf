"""The least: on which machine, and in which modes, the tasks of a binding variable take or cost least.

A weight per mode turns seconds into what is to be small: 1 leaves seconds, price times nodes makes costs.
Whoever is equally good within rounding is kept, so that placement may choose. O(v k) for v tasks of k modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.instance.modes import ModeGroup
from weft.kernels.problem import Problem
from weft.planners.narrowing import Part, narrowed, parts_of, patterns, with_candidates
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import COMPUTE, Floats, Indices

__all__ = ["Weight", "least_machines", "least_modes", "price_weight", "seconds_weight"]

Weight = Callable[[Instance, ModeGroup], Floats]
"""Gives what a second of each mode of a group weighs."""

_CHUNK = 1_000_000
"""How many modes (variables x modes) are looked at at a time."""
_ROUNDING = 1e-12
"""Share by which equal sums may differ."""


class _Stretch(NamedTuple):
    """Some binding variables with all their compute tasks."""

    variables: Indices
    tasks: Indices
    row: NDArray[np.intp]
    """Per task: the position of its variable."""
    totals: Floats
    """Variables x machines: what the best modes of all tasks come to; inf: some task cannot run there."""


def seconds_weight(instance: Instance, group: ModeGroup) -> Floats:  # noqa: ARG001
    """Weigh a second as a second."""
    return np.ones(len(group))


def price_weight(instance: Instance, group: ModeGroup) -> Floats:
    """Weigh a second by the price of the nodes taken."""
    return instance.price_per_node_s[group.machine] * group.nodes


def least_machines(instance: Instance, weight: Weight) -> Indices:
    """Give per variable the machine of least total, the first if several; their number: nothing runs."""
    bound = np.full(len(instance.graph.variables), len(instance.machines), dtype=np.uint32)
    for stretch in _stretches(instance, weight):
        bound[stretch.variables] = stretch.totals.argmin(axis=1)
    return bound


def least_modes(instance: Instance, weight: Weight) -> Problem:
    """Give the problem in which tasks keep only their best modes, on the best machines of their variable."""
    parts: list[Part] = []
    candidates: list[tuple[Indices, NDArray[np.intp]]] = []
    for stretch in _stretches(instance, weight):
        totals = stretch.totals
        best = totals <= totals.min(axis=1, keepdims=True) * (1 + _ROUNDING)
        candidates.extend((stretch.variables[rows], machines) for rows, machines in patterns(best))
        for index, mine in _by_group(instance, stretch.tasks):
            group, tasks = instance.groups[index], stretch.tasks[mine]
            weighed = group.seconds_of(tasks) * weight(instance, group)
            least = _least_there(group, weighed)
            kept = (weighed <= least * (1 + _ROUNDING)) & best[stretch.row[mine]][:, group.machine]
            parts.extend(parts_of(index, tasks, kept))
    return with_candidates(narrowed(problem_of(instance), parts), candidates)


def _stretches(instance: Instance, weight: Weight) -> Iterator[_Stretch]:
    """Add up per variable and machine, for not too many variables at once."""
    graph, machines = instance.graph, len(instance.machines)
    compute = np.flatnonzero(graph.kind == COMPUTE).astype(np.uint32)
    by_variable = compute[np.argsort(graph.variable[compute], kind="stable")]
    variables, first = np.unique(graph.variable[by_variable], return_index=True)
    ends = np.append(first[1:], len(by_variable))
    rows = max(1, _CHUNK // max(map(len, instance.groups), default=1))
    for start in range(0, len(variables), rows):
        own = variables[start : start + rows]
        tasks = by_variable[int(first[start]) : int(ends[start + len(own) - 1])]
        row = np.searchsorted(own, graph.variable[tasks])
        totals = np.zeros((len(own), machines))
        for index, mine in _by_group(instance, tasks):
            group = instance.groups[index]
            there, columns = np.unique(group.machine, return_index=True)
            weighed = group.seconds_of(tasks[mine]) * weight(instance, group)
            absent = np.ones(machines, dtype=bool)
            absent[there] = False
            totals[np.ix_(row[mine], np.flatnonzero(absent))] = np.inf
            np.add.at(totals, (row[mine][:, None], there), np.minimum.reduceat(weighed, columns, axis=1))
        _heed_pins(instance, own, totals)
        yield _Stretch(variables=own, tasks=tasks, row=row, totals=totals)


def _by_group(instance: Instance, tasks: Indices) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Give the groups of some tasks, and where their tasks stand."""
    number = instance.group[tasks]
    for index in np.unique(number).tolist():
        yield index, np.flatnonzero(number == index)


def _heed_pins(instance: Instance, variables: Indices, totals: Floats) -> None:
    for position, variable in enumerate(variables.tolist()) if instance.pinned else ():
        pin = instance.pinned.get(variable)
        if pin is not None:
            there = totals[position, pin]
            totals[position] = np.inf
            totals[position, pin] = there


def _least_there(group: ModeGroup, weighed: Floats) -> Floats:
    """Give per mode the least of all modes on its machine."""
    _, columns, number = np.unique(group.machine, return_index=True, return_inverse=True)
    found: Floats = np.minimum.reduceat(weighed, columns, axis=1)[:, number]
    return found
