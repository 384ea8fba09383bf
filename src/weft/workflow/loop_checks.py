"""Checks of loops: their names are their own, their tasks exist, their conditions speak of known things.

Whether their bodies hold together and nest is seen when the workflow is unfolded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.errors import Path, Problem, nearest
from weft.workflow.records.loop import Loop
from weft.workflow.records.task import Task
from weft.workflow.records.workflow import Workflow
from weft.workflow.task_checks import unknown_problems

__all__ = ["loop_problems"]


def loop_problems(workflow: Workflow) -> Iterator[Problem]:
    """List what is wrong with the loops."""
    if not workflow.loops:
        return
    tasks = {task.name: task for task in workflow.tasks}
    results = {f"{name}.{part}": 0 for name in tasks for part in ("exit_code", "result")}
    seen: set[str] = set()
    for loop in workflow.loops:
        path: Path = ("loops", loop.name)
        yield from (replace(problem, path=(*path, *problem.path)) for problem in loop.faults())
        if loop.name in tasks:
            yield Problem(what=f"{loop.name!r} is both a task and a loop", rule="names are unique", path=path)
        if loop.name in seen:
            yield Problem(what=f"two loops are called {loop.name!r}", rule="names are unique", path=path)
        seen.add(loop.name)
        for key, name in (("from", loop.last), ("to", loop.first)):
            if name not in tasks:
                close = nearest(name, tasks)
                advice = f"did you mean {close!r}?" if close else ""
                yield Problem(what=f"loop {loop.name}: no task {name!r}", advice=advice, path=(*path, key))
        known = {**results, **workflow.params, "iteration": 0, "exit_code": 0, "result": 0}
        yield from unknown_problems(loop.until, {**known, **_variables(tasks, loop)}, (*path, "until"))
        for key, quantity in (("max_iterations", loop.max_iterations), ("expect", loop.expect)):
            yield from unknown_problems(quantity, workflow.params, (*path, key))


def _variables(tasks: dict[str, Task], loop: Loop) -> dict[str, None]:
    """Name the sweep variables of the last task: a loop inside a sweep runs, and ends, per point."""
    last = tasks.get(loop.last)
    return dict.fromkeys(last.sweep.names if last is not None and last.sweep is not None else ())
