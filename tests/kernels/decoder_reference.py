"""Slow reference implementation of the decoder: machines have lists of intervals, and every start is tried.

Works from the instance and the records of the graph, not from the arrays that kernels read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from weft.workflow.task_graph import COMPUTE, TRANSFER

__all__ = ["decode_by_reference"]


@dataclass
class Held:
    """An interval of time on a machine."""

    start: float
    finish: float
    nodes: int
    amounts: tuple[float, ...]


@dataclass
class Place:
    """A machine: its totals, its busy intervals and its tasks."""

    nodes: int
    totals: tuple[float, ...]
    busy: list[Held] = field(default_factory=list)
    tasks: list[Held] = field(default_factory=list)

    def fits_at(self, held, moment, nodes, amounts):
        running = [one for one in held if one.start <= moment < one.finish]
        if sum(one.nodes for one in running) + nodes > self.nodes:
            return False
        return all(
            sum(one.amounts[index] for one in running) + amount <= self.totals[index] * (1 + 1e-9)
            for index, amount in enumerate(amounts)
            if amount > 0
        )

    def fits(self, held, start, finish, nodes, amounts):
        moments = {start} | {one.start for one in held if start < one.start < finish}
        return all(self.fits_at(held, moment, nodes, amounts) for moment in moments)

    def earliest_start(self, held, ready, seconds, nodes, amounts):
        """Return the first feasible start among the ready time and the ends of all intervals."""
        moments = [ready, *sorted({one.finish for one in held if one.finish > ready})]
        fitting = (at for at in moments if self.fits(held, at, at + seconds, nodes, amounts))
        return next(fitting, math.inf)


def start_on(place, rule, ready, seconds, nodes, amounts):
    """Return the earliest start of a task on a machine."""
    if rule == "unlimited":
        return ready
    if rule == "insertion":
        return place.earliest_start(place.busy + place.tasks, ready, seconds, nodes, amounts)
    if rule == "exclusive":
        ready = max([ready, *(one.finish for one in place.tasks)])
    else:
        ready = place.earliest_start(place.tasks, ready, math.inf, nodes, amounts)
    return place.earliest_start(place.busy + place.tasks, ready, seconds, nodes, amounts)


def decode_by_reference(made, order, bound, modes, rule, seconds=None):
    """Return start and finish per task, node-seconds and cost."""
    graph = made.graph
    places = [
        Place(nodes=int(nodes), totals=tuple(totals))
        for nodes, totals in zip(made.capacity, made.amounts.tolist(), strict=True)
    ]
    for one in made.busy:
        start = max(0.0, one.start_s)
        # Add the duration to the computed sum, not to the stored end.
        finish = start + max(0.0, one.finish_s - start)
        amounts = one.amounts or (0.0,) * len(graph.resource_names)
        places[one.machine].busy.append(Held(start, finish, one.nodes, amounts))
    starts, finishes = [math.nan] * len(graph), [math.nan] * len(graph)
    used, paid = {}, {}
    for task in order:
        machine = bound[graph.variable[task]]
        kind, reading, spent = graph.kind[task], machine, 0.0
        if kind == COMPUTE:
            mode = made.modes(task)
            assert mode.machine[modes[task]] == machine
            nodes = int(mode.nodes[modes[task]])
            spent = float(mode.seconds[modes[task]]) if seconds is None else seconds[task]
            used[task] = nodes * spent
            paid[task] = used[task] * float(made.price_per_node_s[machine])
        elif kind == TRANSFER:
            reading = bound[graph.source_variable[task]]
            spent = made.transfer_s(task, reading, machine)
        ready = float(made.earliest_start_s[task])
        for edge, before in enumerate(
            graph.predecessors(task).tolist(), start=int(graph.predecessor_pointer[task])
        ):
            moving = made.edge_s(edge, bound[graph.variable[before]], reading)
            ready = max(ready, finishes[before] + moving)
        if kind == COMPUTE and spent > 0 and not made.unlimited[machine]:
            amounts = tuple(graph.demand_of(task, int(mode.count[modes[task]])).tolist())
            ready = start_on(places[machine], rule, ready, spent, nodes, amounts)
            places[machine].tasks.append(Held(ready, ready + spent, nodes, amounts))
        starts[task], finishes[task] = ready, ready + spent
    in_order = [task for task in order if task in used]
    return starts, finishes, sum(used[task] for task in in_order), sum(paid[task] for task in in_order)
