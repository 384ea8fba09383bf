"""Checks: everything that is wrong with a workflow, at once, each with its place, value, rule and advice.

Records check themselves (``faults``); here stands what needs several of them: names that must exist, loops that must
nest, templates and formulas whose names must be known. What only values show (empty sweeps, cycles) comes from the
attempt to unfold.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from weft.documents import placed
from weft.errors import InvalidInput, Path, Problem, nearest
from weft.expressions import Expression, unknown_names
from weft.workflow.loop_checks import loop_problems
from weft.workflow.records.dependency import Dependency, IndexRange
from weft.workflow.records.sweep import Range, Sweep, growing
from weft.workflow.records.task import Task
from weft.workflow.records.workflow import Workflow
from weft.workflow.templates import fields, is_late
from weft.workflow.unfolding.task_graph import TaskGraph
from weft.workflow.unfolding.unfold import try_unfold

__all__ = ["check", "checked_graph", "problems_of"]


def checked_graph(workflow: Workflow) -> TaskGraph:
    """Check a workflow and unfold it, in one pass. Raises InvalidInput with every problem it has."""
    graph, found = _judge(workflow, ())
    if graph is None or found:
        raise InvalidInput(found)
    return graph


def check(workflow: Workflow) -> None:
    """Raise InvalidInput with every problem of a workflow, if it has any."""
    checked_graph(workflow)


def problems_of(workflow: Workflow, earlier: Iterable[Problem] = ()) -> list[Problem]:
    """List every problem, those found earlier (while reading) first, each once and in reading order."""
    return _judge(workflow, earlier)[1]


def _judge(workflow: Workflow, earlier: Iterable[Problem]) -> tuple[TaskGraph | None, list[Problem]]:
    found = [*earlier, *_static_problems(workflow)]
    reported = {problem.path for problem in found}
    graph, dynamic = try_unfold(workflow)
    found += [problem for problem in dynamic if problem.path not in reported]
    unique: dict[tuple[Path, str], Problem] = {}
    for problem in placed(found, workflow.document):
        unique.setdefault((problem.path, problem.what), problem)
    return graph, sorted(unique.values(), key=_reading_order)


def _reading_order(problem: Problem) -> tuple[int, int]:
    place = problem.place
    return (place.line or 0, place.column or 0) if place is not None else (0, 0)


def _static_problems(workflow: Workflow) -> Iterator[Problem]:
    names = {task.name for task in workflow.tasks}
    if not workflow.tasks:
        yield Problem(what=f"workflow {workflow.name} has no tasks", rule="a workflow has at least one task")
    if len(names) < len(workflow.tasks):
        yield from _duplicates(workflow.tasks)
    targets = names | {loop.name for loop in workflow.loops}
    sweeps = {task.name: task.sweep for task in workflow.tasks if task.sweep is not None}
    yield from _param_problems(workflow)
    for task in workflow.tasks:
        yield from _task_problems(workflow, task, targets, names, sweeps)
    yield from loop_problems(workflow)
    if not workflow.loops:
        yield from _writer_problems(workflow.tasks)


def _duplicates(tasks: Iterable[Task]) -> Iterator[Problem]:
    seen: set[str] = set()
    for task in tasks:
        if task.name in seen:
            yield Problem(
                what=f"two tasks are called {task.name!r}", rule="names are unique", path=("tasks", task.name)
            )
        seen.add(task.name)


def _param_problems(workflow: Workflow) -> Iterator[Problem]:
    for name, value in workflow.params.items():
        if isinstance(value, Expression):
            yield from _unknown(value, workflow.params, ("params", name))


def _task_problems(workflow: Workflow, task: Task, targets: set[str], names: set[str],
                   sweeps: Mapping[str, Sweep]) -> Iterator[Problem]:  # fmt: skip
    for problem in task.faults():
        yield replace(problem, path=("tasks", task.name, *problem.path))
    for position, dependency in enumerate(task.after):
        if dependency.task not in targets:
            yield _unknown_task(task, position, dependency, targets)
    # Tasks without formulas, templates or sweeps (most files of other systems) end here.
    known = _Known(workflow.params, task)
    for position, dependency in enumerate(task.after):
        if dependency.index is not None or dependency.pairs is not None or dependency.condition is not None:
            yield from _dependency_problems(task, position, dependency, known, sweeps)
    yield from _formula_problems(task, known)
    yield from _template_problems(task, known, names)


class _Known:
    """The names a task's formulas may use: parameters and its own sweep variables."""

    def __init__(self, params: Mapping[str, object], task: Task) -> None:
        self.params = params
        self.variables = task.sweep.names if task.sweep is not None else ()

    def __contains__(self, name: object) -> bool:
        return name in self.params or name in self.variables

    def __iter__(self) -> Iterator[str]:
        yield from self.params
        yield from self.variables


def _unknown(expression: Expression, known: Container[str], path: Path) -> Iterator[Problem]:
    for error in unknown_names(expression, known):
        for problem in error.problems:
            yield replace(problem, path=path, place=None)


def _unknown_task(task: Task, position: int, dependency: Dependency, targets: set[str]) -> Problem:
    close = nearest(dependency.task, sorted(targets))
    return Problem(
        what=f"{task.name} comes after {dependency.task!r}, which does not exist",
        rule="after names a task or a loop",
        advice=f"did you mean {close!r}?" if close else "",
        path=("tasks", task.name, "after", position),
    )


def _dependency_problems(task: Task, position: int, dependency: Dependency, known: _Known,
                         sweeps: Mapping[str, Sweep]) -> Iterator[Problem]:  # fmt: skip
    path: Path = ("tasks", task.name, "after", position)
    for part in dependency.index or ():
        for expression in (part.low, part.high) if isinstance(part, IndexRange) else (part,):
            if isinstance(expression, Expression):
                yield from _unknown(expression, known, path)
    if dependency.index is not None and dependency.task not in sweeps:
        what = f"{dependency.task}[...] has an index, but {dependency.task} has no sweep"
        yield Problem(what=what, advice=f"write `after: {dependency.task}`", path=path)
    if dependency.pairs is not None:
        for name in (dependency.task, task.name):
            if name not in sweeps:
                yield Problem(
                    what=f"pairs with {name}, which has no sweep", rule="pairs join sweeps", path=path
                )
    if dependency.condition is not None:
        yield from _unknown(dependency.condition, {"exit_code", "result", *known}, path)


def _formula_problems(task: Task, known: _Known) -> Iterator[Problem]:
    for key, quantity in _formulas(task):
        if isinstance(quantity, Expression):
            yield from _unknown(quantity, known, ("tasks", task.name, *key))
    if task.sweep is None:
        return
    for name, values in task.sweep.variables:
        path: Path = ("tasks", task.name, "sweep", name)
        if name in known.params:
            what = f"sweep variable {name!r} has the name of a parameter"
            yield Problem(what=what, advice="give one of them another name", path=path)
        parts = (values.low, values.high, values.step) if isinstance(values, Range) else (values,)
        for part in parts:
            if isinstance(part, Expression) and not growing(part):
                yield from _unknown(part, known.params, path)


def _formulas(task: Task) -> Iterator[tuple[Path, object]]:
    yield ("work",), task.work
    yield ("cores",), task.cores
    yield ("time_limit",), task.recovery.time_limit
    if isinstance(task.seconds, Mapping):
        for machine, seconds in task.seconds.items():
            yield ("seconds", machine), seconds
    else:
        yield ("seconds",), task.seconds
    for name, amount in task.resources.items():
        yield (name,) if name in ("memory", "gpus") else ("resources", name), amount
    for count in task.nodes:
        if isinstance(count, Range):
            yield from ((("nodes",), part) for part in (count.low, count.high, count.step))
        else:
            yield ("nodes",), count
    for output in task.outputs:
        yield ("outputs", output.file), output.size
        yield ("outputs", output.file), output.seconds
    for position, given in enumerate(task.inputs):
        yield ("inputs", position, "size"), given.size
    if task.transfer is not None:
        yield ("size",), task.transfer.size


def _template_problems(task: Task, known: _Known, names: set[str]) -> Iterator[Problem]:
    for key, text in _templates(task):
        if "{" not in text:
            continue
        for field in fields(text):
            head = field.name.partition(".")[0]
            late = is_late(field.name) and ("." not in field.name or head == "machine" or head in names)
            if field.name not in known and not late:
                close = nearest(field.name, known)
                yield Problem(
                    what=f"{{{field.name}}} in {text[:60]!r} is unknown",
                    rule="names in braces are parameters, sweep variables, or filled in by weft",
                    advice=f"did you mean {{{close}}}?" if close else "write {{ and }} for plain braces",
                    path=("tasks", task.name, *key),
                )


def _templates(task: Task) -> Iterator[tuple[Path, str]]:
    if task.machine is not None:
        yield ("machine",), task.machine
    for position, given in enumerate(task.inputs):
        yield ("inputs", position), given.file
    for output in task.outputs:
        yield ("outputs", output.file), output.file
    if task.transfer is not None:
        yield ("from",), task.transfer.source
        yield ("to",), task.transfer.target
        yield ("file",), task.transfer.file
    if task.job is not None:
        command = task.job.command
        if command is not None:
            yield from (
                (("command",), part) for part in ((command,) if isinstance(command, str) else command)
            )
        yield from ((("arguments",), part) for part in task.job.arguments)
        for key in ("stdin", "stdout", "stderr", "prolog", "wrapper", "epilog"):
            text = getattr(task.job, key)
            if text is not None:
                yield (key,), text


def _writer_problems(tasks: Iterable[Task]) -> Iterator[Problem]:
    """Without loops or branches a file has one writer; sweeps are told apart by their names in braces."""
    writers: dict[str, Task] = {}
    for task in tasks:
        branching = any(dependency.condition is not None for dependency in task.after)
        for output in task.outputs:
            first = writers.setdefault(output.file, task)
            if first is not task and not branching and "{" not in output.file:
                yield Problem(
                    what=f"{output.file!r} is written by {first.name} and by {task.name}",
                    rule="a file has one writer",
                    advice="give the files different names",
                    path=("tasks", task.name, "outputs", output.file),
                )
        if task.sweep is not None and not task.sweep.paired:
            yield from _sweep_writer_problems(task)


def _sweep_writer_problems(task: Task) -> Iterator[Problem]:
    assert task.sweep is not None
    for output in task.outputs:
        used = {field.name for field in fields(output.file)}
        if not used & set(task.sweep.names) and "*" not in output.file:
            yield Problem(
                what=f"every subtask of {task.name} writes {output.file!r}",
                rule="a file has one writer",
                advice=f"put a sweep variable into the name, such as {{{task.sweep.names[0]}}}",
                path=("tasks", task.name, "outputs", output.file),
            )
