"""How busy machines are: over the whole schedule, and from moment to moment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["busy_seconds", "busy_shares", "occupation", "tasks_by_machine"]


def busy_seconds(schedule: Schedule) -> Floats:
    """Give the node-seconds taken on each machine."""
    taken = schedule.nodes * (schedule.finish_s - schedule.start_s)
    sums = np.bincount(schedule.machine, weights=taken, minlength=len(schedule.machines))
    return sums.astype(np.float64)


def busy_shares(schedule: Schedule, machine_nodes: Sequence[int]) -> Floats:
    """Give the share of each machine's node-seconds, from 0 to the makespan, that is taken."""
    offered = np.asarray(machine_nodes, dtype=np.float64) * schedule.makespan_s
    return np.divide(busy_seconds(schedule), offered, out=np.zeros(len(offered)), where=offered > 0)


def tasks_by_machine(schedule: Schedule) -> list[NDArray[np.intp]]:
    """Give, per machine, its tasks that take nodes, by start and then by index."""
    order = np.lexsort((schedule.start_s, schedule.machine))
    order = order[schedule.nodes[order] > 0]
    bounds = np.searchsorted(schedule.machine[order], np.arange(len(schedule.machines) + 1))
    return [order[low:high] for low, high in pairwise(bounds.tolist())]


def occupation(schedule: Schedule, tasks: NDArray[np.intp], capacity: int, edges_s: Floats) -> Floats:
    """Give the share of a machine's nodes that is taken, on average, between one edge and the next.

    The node-seconds taken before a moment are a sum over starts minus a sum over finishes; both come from
    prefix sums over the sorted times, so that n tasks and w edges cost O((n + w) log n).
    """
    nodes = schedule.nodes[tasks].astype(np.float64)
    before = _area(schedule.start_s[tasks], nodes, edges_s) - _area(schedule.finish_s[tasks], nodes, edges_s)
    shares: Floats = np.clip(np.diff(before) / (np.diff(edges_s) * max(capacity, 1)), 0.0, 1.0)
    return shares


def _area(times_s: Floats, nodes: Floats, edges_s: Floats) -> Floats:
    """Sum nodes * (edge - time) over the times before each edge."""
    order = np.argsort(times_s, kind="stable")
    count = np.searchsorted(times_s[order], edges_s)
    heights = np.concatenate([[0.0], np.cumsum(nodes[order])])[count]
    moments = np.concatenate([[0.0], np.cumsum(nodes[order] * times_s[order])])[count]
    area: Floats = heights * edges_s - moments
    return area
