"""Helpers of planning tests: small instances, their plans, and schedules as plain data."""

from __future__ import annotations

from weft.instance import compile_instance
from weft.planners import PLANNERS
from weft.planners.planner import Budget, PlanRequest
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.platform.short_forms import parse_short_form
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.workflow.builder import Builder
from weft.workflow.unfold import unfold

MB_PER_S = Link(bandwidth_Bps=1e6)
MAKESPAN = make_objective("makespan")


def workflow(tasks, loops=(), **head):
    """Build a workflow from the keys of its tasks by name, and of its loops by name."""
    flow = Builder("small", **head)
    for name, keys in tasks.items():
        flow.task(name, **keys)
    for name, keys in dict(loops).items():
        flow.loop(name, **keys)
    return flow.build()


def platform(*machines, link=MB_PER_S, **more):
    """Return a platform of machines m0, m1, ... given by their keys."""
    named = [Machine(**{"name": f"m{index}"} | keys) for index, keys in enumerate(machines)]
    return Platform(machines=tuple(named), default_link=link, **more)


def instance(tasks, on, loops=(), budgets=None, **options):
    """Return the instance of tasks on a platform, which may be given as a short form."""
    where = parse_short_form(on) if isinstance(on, str) else on
    return compile_instance(unfold(workflow(tasks, loops, budgets=budgets)), where, **options)


def planned(made, planner="heft"):
    """Return a planner's schedule of an instance."""
    found = PLANNERS.load(planner)()
    return found.plan(
        PlanRequest(instance=made, objective=MAKESPAN, budget=Budget(), rng=generator(0, "test"))
    ).schedule


def lines(schedule):
    """Return a schedule as {task: (machine, nodes, start, finish)}."""
    return {line.task: (line.machine, line.nodes, line.start_s, line.finish_s) for line in schedule}


def matrix_tasks(seconds, communication):
    """Return tasks with seconds per machine P1, P2, ... and fixed seconds per edge, as in the literature."""
    tasks = {}
    for index, row in enumerate(seconds, start=1):
        tasks[f"n{index}"] = {
            "seconds": {f"P{column}": value for column, value in enumerate(row, start=1)},
            "inputs": [f"n{a}-n{b}" for a, b in communication if b == index],
            "outputs": {
                f"n{a}-n{b}": {"seconds": cost} for (a, b), cost in communication.items() if a == index
            },
        }
    return tasks


def processors(number):
    """Return machines P1, P2, ... of one node."""
    return Platform(machines=tuple(Machine(name=f"P{index}") for index in range(1, number + 1)))
