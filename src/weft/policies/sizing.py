"""Sizing: on how many nodes a task runs.

What the run's plan says, if it has one. Else the local optimum of M. Jaros, J. Jaros, Performance-Cost
Optimization of Moldable Scientific Workflows (S2 section 4), capped by the nodes that are free: the count
with which the task takes least, whoever must wait for it (``fastest``). ``frugal`` is ours: the smallest
count that takes at most 5 % longer than that, as HEFT chooses.

Ties go to the smaller count. O(modes).
"""

from __future__ import annotations

from typing import Literal

from weft.policies.policy import Mode, RunView

__all__ = ["Sizing", "planned_count", "sized"]

Sizing = Literal["fastest", "frugal"]

_FRUGAL = 1.05
"""How many times its least seconds a task may take to save nodes."""


def sized(run: RunView, task: int, modes: list[Mode], sizing: Sizing) -> list[Mode]:
    """Choose one mode per machine out of those that are possible, which are listed by machine, then count."""
    if len(modes) < 2:
        return modes
    by_machine: dict[int, list[Mode]] = {}
    for mode in modes:
        by_machine.setdefault(mode.machine, []).append(mode)
    if len(by_machine) == len(modes):
        return modes
    planned = planned_count(run, task)
    return [
        next((mode for mode in there if mode.count == planned), None) or _best(there, sizing)
        for there in by_machine.values()
    ]


def _best(modes: list[Mode], sizing: Sizing) -> Mode:
    least = min(mode.seconds for mode in modes)
    limit = least * _FRUGAL if sizing == "frugal" else least
    return next(mode for mode in modes if mode.seconds <= limit)


def planned_count(run: RunView, task: int) -> int | None:
    """Give the node count of a task as its run's plan says; None: it says nothing of it."""
    line = None if run.plan is None else run.plan.line.get(task)
    return None if line is None else line.count
