"""Plain names: other systems allow task names that our files cannot say; those are replaced when writing.

``lapw1[3]`` becomes ``lapw1_3_``, made unique by a number where that is taken. Dependencies and loops follow.
"""

from __future__ import annotations

import re
from dataclasses import replace

from weft.workflow.records.task import Task
from weft.workflow.records.workflow import Workflow

__all__ = ["plainly_named"]

_UNSAYABLE = re.compile(r"[\[\]{},\n]")


def plainly_named(workflow: Workflow) -> Workflow:
    """Give every task a name that can be written as a key and read in ``after``."""
    taken = {task.name for task in workflow.tasks} | {loop.name for loop in workflow.loops}
    names: dict[str, str] = {}
    for task in workflow.tasks:
        if _UNSAYABLE.search(task.name) or not task.name:
            names[task.name] = _free(_UNSAYABLE.sub("_", task.name) or "task", taken)
            taken.add(names[task.name])
    if not names:
        return workflow
    loops = tuple(
        replace(loop, first=names.get(loop.first, loop.first), last=names.get(loop.last, loop.last))
        for loop in workflow.loops
    )
    return replace(workflow, tasks=tuple(_renamed(task, names) for task in workflow.tasks), loops=loops)


def _free(name: str, taken: set[str]) -> str:
    number = 2
    found = name
    while found in taken:
        found = f"{name}_{number}"
        number += 1
    return found


def _renamed(task: Task, names: dict[str, str]) -> Task:
    after = tuple(replace(d, task=names.get(d.task, d.task)) for d in task.after)
    return replace(task, name=names.get(task.name, task.name), after=after)
