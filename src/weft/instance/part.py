"""A part of an instance as an instance of its own: some tasks, on machines as they are believed to be now.

Machines keep their numbers, so that a plan of the part speaks of the same machines; one that may not be used
is no candidate of anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible
from weft.instance.candidates import Candidates
from weft.instance.instance import Busy, Instance
from weft.instance.modes import group_modes
from weft.instance.shapes import mode_shapes
from weft.predictors.rescaling import rescaled
from weft.workflow.unfolding.task_graph import COMPUTE, Floats, Indices, TaskGraph

__all__ = ["part_of"]


def part_of(
    whole: Instance,
    graph: TaskGraph,
    tasks: Indices,
    *,
    left: Floats,
    speed: Floats,
    usable: NDArray[np.bool_],
    pinned: Mapping[int, int],
    earliest_start_s: Floats,
    busy: tuple[Busy, ...],
) -> Instance:
    """Make the instance of a part ``graph`` whose rows are some ``tasks`` of the whole.

    ``left``: per row, the share of its work that is left; ``speed``, ``usable``: per machine. A pinned
    variable keeps its machine even where that is not usable. Infeasible if a task can run nowhere.
    """
    seconds = rescaled(whole.seconds, tasks, left, speed)
    candidates = _candidates(whole, graph, tasks, usable, pinned)
    groups, group = group_modes(
        graph,
        seconds,
        mode_shapes(seconds, len(graph)),
        candidates,
        whole.capacity,
        whole.amounts,
        np.array([machine.node_is_core for machine in whole.machines], dtype=np.bool_),
    )
    return replace(
        whole,
        graph=graph,
        seconds=seconds,
        candidate_sets=candidates.sets,
        candidates=candidates.of_variable,
        groups=groups,
        group=group,
        pinned=dict(pinned),
        earliest_start_s=earliest_start_s,
        busy=busy,
    )


def _candidates(
    whole: Instance,
    graph: TaskGraph,
    tasks: Indices,
    usable: NDArray[np.bool_],
    pinned: Mapping[int, int],
) -> Candidates:
    """Intersect what the variables of all compute rows accept, without machines that may not be used."""
    machines = len(whole.machines)
    accepted = np.zeros((len(whole.candidate_sets), machines), dtype=np.bool_)
    for row, found in enumerate(whole.candidate_sets):
        accepted[row, found] = True
    masks = np.ones((len(graph.variables), machines), dtype=np.bool_)
    compute = np.flatnonzero(graph.kind == COMPUTE)
    of_row = whole.candidates[whole.graph.variable[tasks]]
    for row in compute.tolist():
        masks[graph.variable[row]] &= accepted[of_row[row]]
    masks &= usable
    for variable, machine in pinned.items():
        masks[variable, machine] = True
    empty = np.flatnonzero(~masks.any(axis=1))
    if len(empty):
        members = [graph.names[row] for row in np.flatnonzero(graph.variable == empty[0]).tolist()]
        raise Infeasible(f"no machine that is up can run {', '.join(members[:6])}")
    numbers: dict[bytes, int] = {}
    of_variable = [numbers.setdefault(mask.tobytes(), len(numbers)) for mask in masks]
    sets = tuple(np.flatnonzero(np.frombuffer(key, dtype=np.bool_)).astype(np.uint32) for key in numbers)
    return Candidates(sets=sets, of_variable=np.array(of_variable, dtype=np.uint32))
