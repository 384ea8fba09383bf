"""Views of small plans for the tests of reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.reports.report import GanttView
from weft.schedule.schedule import Schedule

Line = tuple[str, int, int, float, float, str]
"""Task, machine, nodes, start, finish, kind."""


def view_of(lines: Sequence[Line], machine_nodes: Sequence[int], **more: Any) -> GanttView:
    names, machine, nodes, start, finish, kinds = zip(*lines, strict=True) if lines else [()] * 6
    machines = more.pop("machines", tuple(f"m{index + 1}" for index in range(len(machine_nodes))))
    schedule = Schedule(
        tasks=tuple(names),
        machines=tuple(machines),
        machine=np.array(machine, dtype=np.uint32),
        nodes=np.array(nodes, dtype=np.uint32),
        start_s=np.array(start, dtype=np.float64),
        finish_s=np.array(finish, dtype=np.float64),
    )
    title = more.pop("title", "a plan")
    return GanttView(
        title=title, schedule=schedule, kinds=tuple(kinds), machine_nodes=tuple(machine_nodes), **more
    )


HEFT: list[Line] = [
    ("n1", 2, 1, 0, 9, "a"),
    ("n2", 0, 1, 27, 40, "b"),
    ("n3", 2, 1, 9, 28, "b"),
    ("n4", 1, 1, 18, 26, "b"),
    ("n5", 2, 1, 28, 38, "b"),
    ("n6", 1, 1, 26, 42, "b"),
    ("n7", 2, 1, 38, 49, "c"),
    ("n8", 0, 1, 57, 62, "c"),
    ("n9", 1, 1, 56, 68, "c"),
    ("n10", 1, 1, 73, 80, "d"),
]
"""A plan of ten tasks on three machines, 80 s long."""


def packed(rng: np.random.Generator, tasks: int, machine_nodes: Sequence[int]) -> list[Line]:
    """Draw a valid plan: every task starts when enough nodes of its machine are free."""
    free = [np.zeros(nodes) for nodes in machine_nodes]
    lines: list[Line] = []
    for index in range(tasks):
        machine = int(rng.integers(len(machine_nodes)))
        nodes = int(rng.integers(1, machine_nodes[machine] + 1))
        chosen = np.argsort(free[machine], kind="stable")[:nodes]
        start = float(free[machine][chosen].max())
        finish = start + float(rng.integers(1, 20))
        free[machine][chosen] = finish
        lines.append((f"t{index}", machine, nodes, start, finish, f"k{index % 3}"))
    return lines
