"""Until: the part of a workflow that some of its tasks need, and nothing after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.errors import InvalidInput, Problem, nearest
from weft.workflow.checks import checked_graph
from weft.workflow.records.workflow import Workflow

__all__ = ["only_until"]


def only_until(workflow: Workflow, names: Sequence[str]) -> Workflow:
    """Keep the tasks of these names and what they need; without names all of them.

    A loop stays if its body is needed; what is needed of a sweep is all of it.
    """
    if not names:
        return workflow
    described = {task.name for task in workflow.tasks}
    for name in names:
        if name not in described:
            _refuse_part(name, described)
            near = nearest(name, described)
            advice = f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(described))}"
            raise InvalidInput(Problem(what=f"no task {name!r} in {workflow.name!r}", advice=advice))
    needed = _needed(workflow, set(names))
    return replace(
        workflow,
        tasks=tuple(task for task in workflow.tasks if task.name in needed),
        loops=tuple(loop for loop in workflow.loops if {loop.first, loop.last} <= needed),
    )


def _refuse_part(name: str, described: set[str]) -> None:
    """Refuse one point of a sweep, or one iteration of a loop: what is described is run as a whole."""
    for sign, word in (("[", "one point of a sweep"), ("#", "one iteration of a loop")):
        whole = name.partition(sign)[0]
        if sign in name and whole in described:
            rule = "what is run of a task is all of it"
            raise InvalidInput(
                Problem(what=f"{name!r} is {word}", rule=rule, advice=f"name the task: {whole!r}")
            )


def _needed(workflow: Workflow, wanted: set[str]) -> set[str]:
    graph = checked_graph(workflow)
    bodies = [{graph.description(int(task)).name for task in body.tasks} for body in graph.loops]
    before: dict[str, set[str]] = {}
    for task in range(len(graph)):
        names = {graph.description(int(each)).name for each in graph.predecessors(task)}
        before.setdefault(graph.description(task).name, set()).update(names)
    needed: set[str] = set()
    todo = list(wanted)
    while todo:
        name = todo.pop()
        if name in needed:
            continue
        needed.add(name)
        todo += before.get(name, ())
        todo += [member for body in bodies if name in body for member in body]
    return needed
