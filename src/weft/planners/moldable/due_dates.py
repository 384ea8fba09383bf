"""Due dates: when tasks must end so that those behind them can start when they do; placement by them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels.moldable.due_dates import place_by_due
from weft.kernels.problem import Problem
from weft.planners.lists.placing import plain_seconds, schedule_of, scratch_of
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER, Floats, Indices

__all__ = ["latest_finish_s", "place_in_time"]


def place_in_time(instance: Instance, problem: Problem, order: Indices, due_s: Floats) -> Schedule:
    """Place tasks in the mode of least charge that ends by their due date, else in the one that ends first.

    A mode is charged its node-seconds times the price of its machine in ``problem``.
    """
    lines, arrivals, board = scratch_of(problem)
    stuck = forms.run(
        place_by_due, (problem, due_s, order), (lines, arrivals, board), work_s=plain_seconds(problem)
    )
    return schedule_of(instance, board, stuck)


def latest_finish_s(schedule: Schedule, instance: Instance) -> Floats:
    """Give per task how late it could end with all compute tasks behind it where and when they are."""
    graph = instance.graph
    latest = np.full(len(graph), schedule.makespan_s)
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    moving = _edge_seconds(schedule, instance, target)
    # Transfers and virtual tasks start when they can; how late they could is known from the last one on.
    start = schedule.start_s.copy()
    for task in np.flatnonzero(graph.kind != COMPUTE)[::-1].tolist():
        behind = slice(int(graph.successor_pointer[task]), int(graph.successor_pointer[task + 1]))
        after, edges = graph.successor[behind], graph.successor_edge[behind]
        end = float((start[after] - moving[edges]).min(initial=schedule.makespan_s))
        start[task] = end - float(schedule.finish_s[task] - schedule.start_s[task])
    np.minimum.at(latest, graph.predecessor, start[target] - moving)
    return latest


def _edge_seconds(schedule: Schedule, instance: Instance, target: NDArray[np.integer]) -> Floats:
    """Give how long the data of every edge take between the machines of a schedule."""
    graph, network = instance.graph, instance.network
    if len(network.host) == 1:
        return np.zeros(graph.edge_count)
    bound = np.zeros(len(graph.variables) + 1, dtype=np.int64)
    bound[graph.variable] = schedule.machine
    # A transfer reads where it starts from.
    here = np.where(graph.kind == TRANSFER, bound[graph.source_variable], schedule.machine)[target]
    there = schedule.machine[graph.predecessor]
    link = network.location[there], network.location[here]
    seconds = graph.edge_seconds + graph.edge_files * network.latency_s[link]
    seconds = seconds + graph.edge_bytes * network.inverse_bandwidth[link]
    return np.where(network.host[there] == network.host[here], 0.0, seconds)
