"""Reading: a schedule as hints of a model, and a solution as a schedule.

A solution's order, machines and modes are decoded by insertion with the true seconds. Number the tasks by
start, and start the i-th of them 2 i ticks late: what was rounded off (less than a tick per task and lag)
has room between any two that follow each other, so that nothing else changes. Decoding starts no task later
than that; a schedule is at most 2 ticks per task longer than its solution, where times are exact not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.planners.decoding import INSERTION, decode
from weft.planners.exact.case import Case
from weft.planners.exact.plan_model import PlanModel
from weft.planners.genomes import genome_of, modes_of
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import Indices

if TYPE_CHECKING:
    from weft.planners.exact.solver import Value

__all__ = ["hint", "schedule_of"]


def hint(built: PlanModel, schedule: Schedule) -> None:
    """Let the search start from a schedule, in which machines and tasks that are alike change places."""
    case, model = built.case, built.model
    begun = [case.grid.begun(moment) for moment in schedule.start_s.tolist()]
    plays = _parts(built, begun)
    places = _renamed(case, [int(schedule.machine[part]) for part in plays])
    modes = genome_of(case.instance, schedule).modes.tolist()
    model.hint(built.makespan, case.grid.begun(schedule.makespan_s))
    variable = case.instance.graph.variable.tolist()
    for task, part in enumerate(plays):
        model.hint(built.start[task], begun[part])
        for place, literal in built.placed[variable[task]].items():
            model.hint(literal, int(place == places[task]))
        if task in case.transfers:
            ended = case.grid.begun(schedule.finish_s[part])
        elif case.ways[task]:
            chosen = _way(built, task, places[task], int(schedule.nodes[part]), modes[part])
            for index, literal in enumerate(built.chosen[task]):
                model.hint(literal, int(index == chosen))
            ended = begun[part] + case.ticks[task][chosen]
        else:
            continue
        model.hint(built.end[task], ended)


def _parts(built: PlanModel, begun: list[int]) -> list[int]:
    """Say which task of the schedule each task plays, so that like tasks start in order."""
    parts = list(range(len(begun)))
    following = dict(built.twins)
    firsts = following.keys() - set(following.values())
    for first in sorted(firsts):
        chain = [first]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        for task, part in zip(chain, sorted(chain, key=lambda task: (begun[task], task)), strict=True):
            parts[task] = part
    return parts


def _renamed(case: Case, machines: list[int]) -> list[int]:
    """Give the place of every task, like places named in the order in which variables use them."""
    names: dict[int, int] = {}
    of_class = {place: found for found in case.places.alike for place in found}
    unused = {found: list(found) for found in case.places.alike}
    variable = case.instance.graph.variable
    placed = [case.places.of_machine[machine] for machine in machines]
    for task in np.argsort(variable, kind="stable").tolist():
        place = placed[task]
        if place not in names:
            names[place] = unused[of_class[place]].pop(0) if place in of_class else place
    return [names[place] for place in placed]


def _way(built: PlanModel, task: int, place: int, nodes: int, mode: int) -> int:
    """Find the way of a mode; one that another serves is not in the model, and the other stands for it."""
    ways = built.case.ways[task]
    there = [index for index, way in enumerate(ways) if way.place == place]
    same = [index for index in there if ways[index].mode == mode]
    return (same or [index for index in there if ways[index].nodes <= nodes] or there)[-1]


def schedule_of(built: PlanModel, value: Value) -> Schedule:
    """Decode a solution."""
    case = built.case
    start = [value(moment) for moment in built.start]
    end = [value(moment) for moment in built.end]
    order = sorted(range(len(start)), key=lambda task: (start[task], end[task], task))
    counts = [
        next((way.count for way, literal in zip(ways, literals, strict=True) if value(literal)), 0)
        for ways, literals in zip(case.ways, built.chosen, strict=True)
    ]
    bound = _bound(built, value, order, end)
    modes = modes_of(case.instance, bound, np.array(counts, dtype=np.uint32))
    return decode(case.instance, order, bound, modes, rule=INSERTION)


def _bound(built: PlanModel, value: Value, order: list[int], end: list[int]) -> Indices:
    """Give every variable its machine; of a place of several, the one that has been free for longest."""
    case = built.case
    places = [next(place for place, literal in placed.items() if value(literal)) for placed in built.placed]
    bound = np.array([case.places.machines[place][0] for place in places], dtype=np.uint32)
    free = dict.fromkeys(range(len(case.instance.machines)), 0)
    variable = case.instance.graph.variable.tolist()
    for task in order:
        machines = case.places.machines[places[variable[task]]]
        if len(machines) > 1 and case.ways[task]:
            machine = min(machines, key=lambda found: (free[found], found))
            bound[variable[task]], free[machine] = machine, end[task]
    return bound
