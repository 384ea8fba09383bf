"""Checks of loops: their tasks exist, their bodies hold together, they nest, their conditions speak of known things."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.errors import Path, Problem, nearest
from weft.expressions import Expression, unknown_names
from weft.workflow.records.loop import Loop
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.cycles import reachable

__all__ = ["body_of", "loop_problems"]


def loop_problems(workflow: Workflow) -> Iterator[Problem]:
    """List what is wrong with the loops."""
    if not workflow.loops:
        return
    index = {task.name: position for position, task in enumerate(workflow.tasks)}
    successors = _description_successors(workflow, index)
    bodies: list[tuple[Loop, set[int]]] = []
    for loop in workflow.loops:
        path: Path = ("loops", loop.name)
        yield from (replace(problem, path=(*path, *problem.path)) for problem in loop.faults())
        if loop.name in index:
            yield Problem(what=f"{loop.name!r} is both a task and a loop", rule="names are unique", path=path)
        unknown = [
            (key, name) for key, name in (("from", loop.last), ("to", loop.first)) if name not in index
        ]
        for key, name in unknown:
            close = nearest(name, index)
            advice = f"did you mean {close!r}?" if close else ""
            yield Problem(what=f"loop {loop.name}: no task {name!r}", advice=advice, path=(*path, key))
        if unknown:
            continue
        yield from _condition_problems(workflow, loop, path)
        body = body_of(loop, index, successors)
        if not body:
            what = f"loop {loop.name}: {loop.last} does not come after {loop.first}"
            advice = "`to` is the first task of the body, `from` the last"
            yield Problem(what=what, rule="the body leads from `to` to `from`", advice=advice, path=path)
        bodies.append((loop, body))
    yield from _nesting_problems(bodies)


def _description_successors(workflow: Workflow, index: dict[str, int]) -> list[list[int]]:
    """Connect descriptions by ``after`` and by files whose names have the same text."""
    successors: list[set[int]] = [set() for _ in workflow.tasks]
    ends = {loop.name: index[loop.last] for loop in workflow.loops if loop.last in index}
    writers: dict[str, list[int]] = {}
    for position, task in enumerate(workflow.tasks):
        for output in task.outputs:
            writers.setdefault(_shape(output.file), []).append(position)
        if task.transfer is not None:
            writers.setdefault(_shape(task.transfer.file), []).append(position)
    for position, task in enumerate(workflow.tasks):
        for dependency in task.after:
            source = index.get(dependency.task, ends.get(dependency.task))
            if source is not None:
                successors[source].add(position)
        read = [given.file for given in task.inputs] + ([task.transfer.file] if task.transfer else [])
        for name in read:
            for writer in writers.get(_shape(name), ()):
                if writer != position:
                    successors[writer].add(position)
    return [sorted(children) for children in successors]


def _shape(name: str) -> str:
    """Make names comparable whose placeholders are called differently."""
    import re

    return re.sub(r"\{[^}]*\}", "{}", name)


def body_of(loop: Loop, index: dict[str, int], successors: list[list[int]]) -> set[int]:
    """Collect the descriptions on a way from the loop's first to its last task; empty if there is none."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for node, children in enumerate(successors):
        for child in children:
            predecessors[child].append(node)
    forward = reachable(successors, [index[loop.first]])
    if index[loop.last] not in forward:
        return set()
    return forward & reachable(predecessors, [index[loop.last]])


def _condition_problems(workflow: Workflow, loop: Loop, path: Path) -> Iterator[Problem]:
    if loop.until is not None:
        tasks = {f"{task.name}.{part}" for task in workflow.tasks for part in ("exit_code", "result")}
        known = {*tasks, *workflow.params, "iteration", "exit_code", "result"}
        yield from _unknown(loop.until, known, (*path, "until"))
    for key, quantity in (("max_iterations", loop.max_iterations), ("expect", loop.expect)):
        if isinstance(quantity, Expression):
            yield from _unknown(quantity, set(workflow.params), (*path, key))


def _unknown(expression: Expression, known: set[str], path: Path) -> Iterator[Problem]:
    for error in unknown_names(expression, known):
        yield from (replace(problem, path=path, place=None) for problem in error.problems)


def _nesting_problems(bodies: list[tuple[Loop, set[int]]]) -> Iterator[Problem]:
    for position, (outer, outer_body) in enumerate(bodies):
        for inner, inner_body in bodies[position + 1 :]:
            shared = outer_body & inner_body
            if shared and not (outer_body <= inner_body or inner_body <= outer_body):
                what = f"loops {outer.name} and {inner.name} overlap"
                rule = "loops nest only if one contains the other"
                yield Problem(what=what, rule=rule, path=("loops", inner.name))
