"""Orders of list planners beyond ranks: a ready queue by priority, medians, levels without communication."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels.lists.ordering import order_ready
from weft.planners.lists.ranks import upward_ranks
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["by_priority", "least_seconds", "median_seconds", "ready_order", "static_levels"]

_TASK_S = 3e-6
"""What one task takes in plain Python, about."""


def ready_order(instance: Instance, priority: Floats) -> Indices:
    """Order tasks as a ready queue would: the highest priority first, ties by the lower index."""
    tasks = problem_of(instance).tasks
    number = tasks.number
    order = np.zeros(number, dtype=np.uint32)
    scratch = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.uint32)
    inputs = (number, tasks.pointer, tasks.after_pointer, tasks.after, -priority, _indices(number), *scratch)
    forms.run(order_ready, inputs, (order,), work_s=_TASK_S * (number + len(tasks.after)))
    return order


def by_priority(priority: Floats) -> Indices:
    """Give the rank of every task among all, the highest priority first; ties by the lower index."""
    ranks = np.empty(len(priority), dtype=np.uint32)
    ranks[np.lexsort((np.arange(len(priority)), -priority))] = _indices(len(priority))
    return ranks


def static_levels(instance: Instance, seconds: Floats | None = None) -> Floats:
    """Give every task's longest way to the end, itself included, without communication.

    ``seconds`` gives the length of every task; by default its mean.
    """
    nothing = np.zeros(instance.graph.edge_count)
    return upward_ranks(instance, seconds=seconds, communication_s=nothing)


def median_seconds(instance: Instance) -> Floats:
    """Give every task's median over its machines of the fastest count there; 0 for what is no computation."""
    medians = np.zeros(len(instance))
    for group in instance.groups:
        firsts = np.flatnonzero(np.diff(group.machine.astype(np.int64), prepend=-1))
        for tasks, seconds in group.chunks():
            medians[tasks] = np.median(np.minimum.reduceat(seconds, firsts, axis=1), axis=1)
    return medians


def least_seconds(instance: Instance, task: int) -> Floats:
    """Give a compute task's least seconds on every machine; infinite where it cannot run."""
    modes = instance.modes(task)
    least = np.full(len(instance.machines), np.inf)
    np.minimum.at(least, modes.machine, modes.seconds)
    return least


def _indices(number: int) -> Indices:
    return np.arange(number, dtype=np.uint32)
