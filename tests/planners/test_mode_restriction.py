"""Restricted problems: tasks keep the selected modes with the same durations, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.random_graphs import faceted, layered
from planning_examples import instance
from weft.kernels.placement import mode_seconds
from weft.kernels.problem import TABLE
from weft.planners.list_planner import place_tasks
from weft.planners.problem import (
    ModeSubset,
    compile_problem,
    group_equal_rows,
    restrict_candidates,
    restrict_modes,
    split_by_modes,
)
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.randomness import generator

LAYOUTS = ["related", "classes", "table", "facets"]


def made_of(layout, seed):
    rng = generator(seed, "narrowing", layout)
    if layout == "facets":
        return faceted(rng, integers=False)
    return layered(rng, integers=False, layout=layout)


def modes_of(problem, task):
    """Return (machine, count, nodes, row of amounts, seconds) of a task's modes, and whether they are sorted."""
    modes = problem.modes
    first, end = modes.first[modes.group[task]], modes.first[modes.group[task] + 1]
    listed = [
        (
            int(modes.machine[mode]),
            int(modes.count[mode]),
            int(modes.nodes[mode]),
            int(modes.shift[mode]),
            float(mode_seconds(modes, task, mode)),
        )
        for mode in range(first, end)
    ]
    by_seconds = [float(mode_seconds(modes, task, mode)) for mode in modes.sorted[first:end].tolist()]
    return listed, by_seconds


@pytest.mark.parametrize("layout", LAYOUTS)
def test_restricted_problem_has_only_the_selected_modes(layout):
    made = made_of(layout, 1)
    rng, before = generator(2, "kept", layout), compile_problem(made)
    parts, kept = [], {}
    for index, group in enumerate(made.groups):
        flags = rng.integers(2, size=(len(group.tasks), len(group))).astype(bool)
        flags[:, rng.integers(len(group))] = True
        parts += split_by_modes(index, group.tasks, flags)
        kept |= dict(zip(group.tasks.tolist(), flags, strict=True))
    after = restrict_modes(before, parts)
    for task, flags in kept.items():
        old, _ = modes_of(before, task)
        new, by_seconds = modes_of(after, task)
        assert new == [mode for mode, keeps in zip(old, flags, strict=True) if keeps]
        if after.modes.layout != TABLE:
            assert by_seconds == pytest.approx(sorted(by_seconds))
    own = [len({mode[1] for mode in modes_of(after, int(part.tasks[0]))[0]}) > 1 for part in parts]
    assert after.modes.moldable.tolist() == own


@pytest.mark.parametrize("layout", LAYOUTS)
def test_schedule_is_the_same_when_all_modes_are_kept(layout):
    made = made_of(layout, 3)
    parts = [
        ModeSubset(group=index, tasks=tasks, modes=np.arange(len(group)))
        for index, group in enumerate(made.groups)
        for tasks in np.array_split(group.tasks, 2)
    ]
    order = order_by_rank(upward_ranks(made))
    again = place_tasks(made, order, problem=restrict_modes(compile_problem(made), parts))
    assert again.finish_s.tolist() == place_tasks(made, order).finish_s.tolist()


def test_rows_with_equal_flags_are_grouped():
    flags = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 1]], dtype=bool)
    found = {tuple(columns.tolist()): rows.tolist() for rows, columns in group_equal_rows(flags)}
    assert found == {(0, 2): [0, 2], (1,): [1], (0, 1, 2): [3]}
    assert group_equal_rows(flags[:0]) == []


def test_destination_of_a_transfer_is_bound_to_a_remaining_candidate():
    tasks = {
        "a": {"seconds": {"m1": 1}, "machine": "A", "outputs": ["x"]},
        "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": 10},
        "end": {"kind": "virtual", "after": "move"},
        "b": {"work": 1, "machine": "B", "after": "end"},
    }
    made = instance(tasks, "identical:3")
    variable = made.graph.variables.index("B")
    problem = restrict_candidates(
        compile_problem(made), [(np.array([variable], dtype=np.uint32), np.array([2]))]
    )
    order = np.arange(len(made), dtype=np.uint32)
    names = place_tasks(made, order, problem=problem).machine.tolist()
    assert names[made.graph.names.index("move")] == names[made.graph.names.index("b")] == 2
    assert place_tasks(made, order).machine.tolist()[made.graph.names.index("move")] == 0
