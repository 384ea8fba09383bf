"""PEFT's optimistic cost table equals its equation, and ready queues are ordered, compiled and plain."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from kernels.random_graphs import faceted, layered
from planning_examples import instance, platform
from weft.planners.peft import optimistic_table
from weft.planners.ranks import (
    least_seconds,
    mean_communication_s,
    mean_seconds,
    rank_by_priority,
    ready_order,
)
from weft.randomness import generator
from weft.workflow.task_graph import COMPUTE


def instances():
    for seed in range(4):
        for integers in (True, False):
            for layout in ("related", "classes", "table"):
                yield layered(generator(seed, "layered", layout), integers=integers, layout=layout)
            yield faceted(generator(seed, "faceted"), integers=integers)


def seconds_there(made, task):
    """Return {machine: seconds} of a task; transfers and virtual tasks have their mean on every machine."""
    if made.graph.kind[task] == COMPUTE:
        least = least_seconds(made, task).tolist()
        return {machine: spent for machine, spent in enumerate(least) if spent < math.inf}
    mean = float(mean_seconds(made)[task])
    return dict.fromkeys(made.candidates_of(int(made.graph.variable[task])).tolist(), mean)


def table(made):
    """Return the optimistic cost table as the paper defines it, for the machines that can run each task."""
    graph, moving = made.graph, mean_communication_s(made).tolist()
    spent = [seconds_there(made, task) for task in range(len(graph))]
    variable = graph.variable.tolist()
    edges = {}
    for task in range(len(graph)):
        for edge in range(int(graph.predecessor_pointer[task]), int(graph.predecessor_pointer[task + 1])):
            edges.setdefault(int(graph.predecessor[edge]), []).append((task, moving[edge]))

    @cache
    def cost(task, here):
        return max((best(task, after, here, seconds) for after, seconds in edges.get(task, ())), default=0.0)

    def best(task, after, here, seconds):
        if variable[task] == variable[after]:
            return cost(after, here) + spent[after][here]
        return min(
            cost(after, there) + own + (0.0 if there == here else seconds)
            for there, own in spent[after].items()
        )

    return [{machine: cost(task, machine) for machine in spent[task]} for task in range(len(graph))]


def test_optimistic_costs_equal_the_equation(form):
    for made in instances():
        costs, ranks = optimistic_table(made)
        expected = table(made)
        found = [{machine: costs[task, machine] for machine in row} for task, row in enumerate(expected)]
        assert found == expected
        assert ranks.tolist() == [sum(row[machine] for machine in sorted(row)) / len(row) for row in expected]


def test_a_pinned_task_has_one_machine():
    tasks = {"a": {"work": 2}, "b": {"work": 6, "machine": "B", "after": "a"}}
    where = platform({}, {"speed": 2.0})
    free = optimistic_table(instance(tasks, where))[0]
    pinned = optimistic_table(instance(tasks, where, pinned={"B": "m0"}))[0]
    assert free[0].tolist() == [3, 3]
    assert pinned[0].tolist() == [6, 6]


def test_the_ready_queue_returns_the_ready_task_of_highest_priority(form):
    for number, made in enumerate(instances()):
        rng = generator(number, "priorities")
        priority = rng.integers(0, 5, len(made)).astype(float)
        before = [set(made.graph.predecessors(task).tolist()) for task in range(len(made))]
        expected, left = [], set(range(len(made)))
        while left:
            ready = [task for task in left if not before[task] & left]
            expected.append(min(ready, key=lambda task: (-priority[task], task)))
            left.remove(expected[-1])
        assert ready_order(made, priority).tolist() == expected


def test_ties_of_priorities_are_broken_by_index():
    assert rank_by_priority(np.array([1.0, 3.0, 1.0, 3.0])).tolist() == [2, 0, 3, 1]
