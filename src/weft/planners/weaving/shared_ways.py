"""Ways: the modes of all tasks written out, without those that are never better than another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.instance.budgets import exceeded, largest_consumption
from weft.instance.instance import Instance
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["Listed", "list_ways"]

_MOST_WAYS = 8_000_000
"""Ways above which an instance is not written out."""


class Listed(NamedTuple):
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


def list_ways(instance: Instance, *, efficient: bool) -> Listed | None:
    """List them; ``efficient``: only ways that are faster than all with fewer nodes on the same machine.

    Where amounts depend on the node count all ways are kept. None: there are too many.
    """
    if sum(len(group) * len(group.tasks) for group in instance.groups) > _MOST_WAYS:
        return None
    graph = instance.graph
    binding = np.flatnonzero(exceeded(graph, largest_consumption(graph, instance.groups)))
    # An empty part in front fixes shapes and types where there are no compute tasks.
    none = np.zeros(0, dtype=np.uint32)
    empty = Listed(
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
    joined = Listed(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.lexsort((joined.mode, joined.task))
    first = np.concatenate([[0], np.cumsum(np.bincount(joined.task, minlength=len(instance)))])
    return Listed(
        first=first.astype(np.uint32),
        task=joined.task[order],
        mode=joined.mode[order],
        machine=joined.machine[order],
        nodes=joined.nodes[order],
        seconds=joined.seconds[order],
        amounts=joined.amounts[order],
        use=joined.use[order],
    )


def _parts(instance: Instance, binding: NDArray[np.intp], *, efficient: bool) -> Iterator[Listed]:
    graph, problem = instance.graph, problem_of(instance)
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
            yield Listed(
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
