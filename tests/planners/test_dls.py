"""DLS: the dynamic level combines the path to the exit with the earliest finish."""

from __future__ import annotations

import numpy as np

from planning_examples import instance, lines, planned, platform
from weft.planners.ranks import median_seconds, static_levels


def test_task_with_the_longer_path_to_an_exit_is_placed_first():
    tasks = {"single": {"work": 1}, "head": {"work": 2}, "tail": {"work": 10, "after": "head"}}
    found = lines(planned(instance(tasks, "identical:1"), "dls"))
    assert [found[name][2] for name in ("head", "tail", "single")] == [0, 2, 12]


def test_pair_with_the_highest_dynamic_level_is_placed_next():
    """Compare with the definition over all ready tasks and machines: SL - start + (median - seconds)."""
    seconds = {"a": (2, 4, 9), "b": (3, 3, 8), "c": (1, 5, 6), "d": (7, 2, 5)}
    tasks = {
        name: {"seconds": {f"m{index}": value for index, value in enumerate(row)}}
        for name, row in seconds.items()
    }
    level = {name: sorted(row)[1] for name, row in seconds.items()}
    free, left, expected = [0.0] * 3, dict(seconds), {}
    while left:
        _, name, machine = max(
            (
                (level[name] - free[m] + (level[name] - row[m]), name, m)
                for name, row in left.items()
                for m in range(3)
            ),
            key=lambda entry: (entry[0], [-ord(entry[1])], -entry[2]),
        )
        expected[name] = (f"m{machine}", 1, free[machine], free[machine] + left[name][machine])
        free[machine] += left.pop(name)[machine]
    assert lines(planned(instance(tasks, platform({}, {}, {})), "dls")) == expected


def test_static_levels_are_sums_of_medians():
    tasks = {
        "a": {"seconds": {"m0": 1, "m1": 2, "m2": 9}, "outputs": {"x": "5MB"}},
        "b": {"seconds": {"m0": 4, "m1": 6}, "inputs": ["x"]},
        "wide": {"work": 8, "nodes": [1, 2], "speedup": {"amdahl": 0}, "requirements": "nodes == 2"},
        "end": {"kind": "virtual", "after": ["b", "wide"]},
    }
    made = instance(tasks, platform({}, {}, {}, {"nodes": 2}))
    by_name = dict(zip(made.graph.names, median_seconds(made).tolist(), strict=True))
    assert by_name == {"a": 2, "b": 5, "wide": 4, "end": 0}
    levels = dict(zip(made.graph.names, static_levels(made, median_seconds(made)).tolist(), strict=True))
    assert levels == {"a": 7, "b": 5, "wide": 4, "end": 0}
    assert np.all(static_levels(made) >= 0)
