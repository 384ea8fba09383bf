"""Growth: a sweep over the lines of a file is unfolded when the file exists (format: "Growth")."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from weft.workflow.records.sweep import Sweep, growth_file
from weft.workflow.records.task import Task
from weft.workflow.records.workflow import Workflow

__all__ = ["growing_files", "with_lines"]


def growing_files(workflow: Workflow) -> dict[str, str]:
    """Give the files whose lines some sweep waits for, each with the first task that sweeps over it."""
    found: dict[str, str] = {}
    for task in workflow.tasks:
        for _, values in task.sweep.variables if task.sweep is not None else ():
            name = growth_file(values)
            if name is not None:
                found.setdefault(name, task.name)
    return found


def with_lines(workflow: Workflow, lines: Mapping[str, Sequence[str]]) -> Workflow:
    """Give the workflow with the lines of some files in place of the sweeps that waited for them."""
    return dataclasses.replace(workflow, tasks=tuple(_grown(task, lines) for task in workflow.tasks))


def _grown(task: Task, lines: Mapping[str, Sequence[str]]) -> Task:
    if task.sweep is None:
        return task
    variables, said = [], list(task.sweep.said)
    for name, values in task.sweep.variables:
        file = growth_file(values)
        known = file is not None and file in lines
        variables.append((name, tuple(lines[file]) if known and file is not None else values))
        said += [name] if known else []
    if tuple(variables) == task.sweep.variables:
        return task
    sweep = Sweep(variables=tuple(variables), paired=task.sweep.paired, said=tuple(said))
    return dataclasses.replace(task, sweep=sweep)
