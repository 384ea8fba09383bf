"""Validation of workflows: all problems at once, each with its location, value, rule and advice.

Records validate themselves (``find_problems``). The checks here need several records: names that must exist,
templates and formulas whose names must be defined. Problems that depend on values (empty sweeps, cycles) come
from unfolding.
"""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from weft.documents import locate_problems
from weft.errors import DocumentPath, InvalidInput, Problem, nearest, shorten, suggest
from weft.expressions import Expression, find_unknown_names, limit_document_entries
from weft.predictions import find_parameter_problems
from weft.workflow.command_checks import command_problems
from weft.workflow.quantity import COUNT_NAME, Range, constant_value, is_growing, stated_quantities
from weft.workflow.task import NO_RECOVERY, Dependency, IndexRange, Input, JobSpec, Task
from weft.workflow.task_graph import TaskGraph
from weft.workflow.templates import is_late, list_fields
from weft.workflow.unfold import try_unfold
from weft.workflow.workflow import Loop, Workflow

_TEMPLATE_KEYS = ("stdin", "stdout", "stderr", "prolog", "wrapper", "epilog", "evaluator")
_TEMPLATE_PATHS: tuple[DocumentPath, ...] = tuple((key,) for key in _TEMPLATE_KEYS)
_template_texts = attrgetter(*_TEMPLATE_KEYS)
_FILE_NAMES = ("iteration", "task", "machine.name", "machine.arch", "machine.os")
_LATE_NAMES: Mapping[str | int, tuple[str, ...]] = {
    **dict.fromkeys(("inputs", "outputs"), _FILE_NAMES),
    **dict.fromkeys(("progress", "checkpoint"), ("task",)),
    **dict.fromkeys(("machine", "from", "to", "file"), ()),
}
"""By key of a task: the names defined at the start of the task that texts under this key may contain.

Texts under other keys may contain all names that are defined at the start of a task.
"""
_VALUE_OF_TASK = re.compile(r"exit_code|result\.\w+(\.\w+)*")
_NO_VARIABLES: Mapping[str, object] = {}


def unknown_name_problems(value: object, known: Container[str], path: DocumentPath) -> Iterator[Problem]:
    """Yield a problem for each undefined name of a formula; none for a value that is not a formula."""
    if isinstance(value, Expression):
        for error in find_unknown_names(value, known):
            yield from (replace(problem, path=path, location=None) for problem in error.problems)


class _TaskChecks:
    """Validates tasks against the names that their workflow defines."""

    def __init__(self, workflow: Workflow) -> None:
        self.names = {task.name: task for task in workflow.tasks}
        self._params = workflow.params
        self._secrets = {secret.name: "" for secret in workflow.secrets}
        self._lists = {
            "inputs",
            "outputs",
            *(name for name, value in workflow.params.items() if isinstance(value, list)),
        }
        ends = {loop.name: self.names.get(loop.last) for loop in workflow.loops}
        self._targets: ChainMap[str, Task | None] = ChainMap({**self.names}, ends)

    def problems(self, task: Task) -> list[Problem]:
        """Return the problems of a task; most checks are skipped for tasks without formulas and templates."""
        found = [
            replace(problem, path=("tasks", task.name, *problem.path)) for problem in task.find_problems()
        ]
        for position, dependency in enumerate(task.after):
            if dependency.task not in self.names or dependency.task == task.name or _is_special(dependency):
                entry = position if dependency.entry is None else dependency.entry
                found += self._dependency_problems(task, dependency, ("tasks", task.name, "after", entry))
        formulas, templates = _formulas(task), _templates(task)
        if formulas or templates or task.sweep is not None or task.resources or task.consumes:
            variables = dict.fromkeys(task.sweep.names) if task.sweep is not None else _NO_VARIABLES
            known = {**self._params, **variables}
            for path, formula in formulas:
                found += unknown_name_problems(formula, known, ("tasks", task.name, *path))
            if task.resources or task.consumes:
                found += _amount_problems(task, known)
            addresses = _addresses(task) if self._secrets else ()
            for path, text in templates:
                with_secrets = {**known, **self._secrets} if text in addresses else known
                found += self._template_problems(text, with_secrets, ("tasks", task.name, *path))
            found += self._sweep_problems(task)
        if task.job is not None:
            if templates or task.job.env:
                found += self._command_problems(task)
            found += _fixed_text_problems(task.name, task.job)
            found += self._secret_problems(task, task.job.secrets or ())
        return found + _size_problems(task)

    def _secret_problems(self, task: Task, names: Iterable[str]) -> Iterator[Problem]:
        for name in names:
            if name not in self._secrets:
                advice = suggest(name, self._secrets, f"add `secrets: [{shorten(name)}]` to the workflow")
                what = f"{task.name} receives the secret {shorten(repr(name))}, which is not declared"
                rule = "a task can receive only secrets that the workflow declares"
                yield Problem(what=what, rule=rule, advice=advice, path=("tasks", task.name, "secrets"))

    def _command_problems(self, task: Task) -> Iterator[Problem]:
        for problem in command_problems(task, self._lists):
            yield replace(problem, path=("tasks", task.name, *problem.path))

    def _dependency_problems(
        self, task: Task, dependency: Dependency, path: DocumentPath
    ) -> Iterator[Problem]:
        if dependency.task not in self._targets:
            advice = suggest(dependency.task, sorted(self._targets))
            what = f"{task.name} depends on {shorten(dependency.task)!r}, which does not exist"
            yield Problem(what=what, rule="`after` must name a task or a loop", advice=advice, path=path)
            return
        if dependency.task == task.name and dependency.index is None and dependency.pairs is None:
            advice = "to repeat the task, declare a loop from it to itself"
            yield Problem(what=f"{task.name} depends on itself", advice=advice, path=path)
        source = self._targets[dependency.task]
        swept = source is not None and source.sweep is not None
        known = {**self._params, **dict.fromkeys(task.sweep.names if task.sweep is not None else ())}
        for part in dependency.index or ():
            for expression in (part.low, part.high) if isinstance(part, IndexRange) else (part,):
                yield from unknown_name_problems(expression, known, path)
        if dependency.index is not None and not swept:
            what = f"{dependency.task}[...] has an index, but {dependency.task} has no sweep"
            yield Problem(what=what, advice=f"write `after: {dependency.task}`", path=path)
        if dependency.pairs is not None and not (swept and task.sweep is not None):
            name = task.name if swept else dependency.task
            yield Problem(
                what=f"`pairs` refers to {name}, which has no sweep",
                rule="`pairs` needs a sweep in both tasks",
                path=path,
            )
        yield from unknown_name_problems(dependency.condition, {**known, "exit_code": 0, "result": {}}, path)

    def _sweep_problems(self, task: Task) -> Iterator[Problem]:
        for name, values in task.sweep.variables if task.sweep is not None else ():
            path: DocumentPath = ("tasks", task.name, "sweep", name)
            if name in self._params or name in self._secrets:
                other = "parameter" if name in self._params else "secret"
                what = f"sweep variable {name!r} has the name of a {other}"
                yield Problem(what=what, advice="rename one of them", path=path)
            for part in (values.low, values.high, values.step) if isinstance(values, Range) else (values,):
                if isinstance(part, Expression) and not is_growing(part):
                    yield from unknown_name_problems(part, self._params, path)

    def _template_problems(
        self, text: str, known: Mapping[str, object], path: DocumentPath
    ) -> Iterator[Problem]:
        for field in list_fields(text):
            head, dot, rest = field.name.partition(".")
            if field.name in known:
                continue
            if field.name in self._secrets:
                yield _secret_in_text(field.name, text, path)
            elif is_late(field.name) and (not dot or head in ("machine", *self.names)):
                yield from _late_name_problems(field.name, text, path)
                if dot and head != "machine" and not _VALUE_OF_TASK.fullmatch(rest):
                    rule = "other tasks provide {TASK.exit_code} and {TASK.result.NAME}"
                    what = f"{{{field.name}}} in {shorten(text)!r} is unknown"
                    yield Problem(what=what, rule=rule, path=path)
            else:
                close = nearest(field.name, known)
                yield Problem(
                    what=f"{{{field.name}}} in {shorten(text)!r} is unknown",
                    rule="names in braces are parameters, sweep variables or names that weft defines",
                    advice=f"did you mean {{{close}}}?" if close else "write {{ and }} for literal braces",
                    path=path,
                )


def _late_name_problems(name: str, text: str, path: DocumentPath) -> Iterator[Problem]:
    """Yield a problem if texts under the task key ``path[2]`` must not contain this name.

    The name is one that is defined only when the task starts.
    """
    if (allowed := _LATE_NAMES.get(path[2])) is None or name in allowed:
        return
    listed = ", ".join(f"{{{each}}}" for each in allowed)
    also = f", and {listed}" if listed else ""
    advice = "pass it to the program in `command` or `env`" if allowed else "write a parameter"
    if path[2] == "inputs":
        advice += ", or write the names to a file and sweep over its lines"
    yield Problem(
        what=f"{{{name}}} in {shorten(text)!r} has no value there",
        rule=f"a text of `{path[2]}` may contain parameters, sweep variables{also}",
        advice=advice,
        path=path,
    )


def _fixed_text_problems(task: str, job: JobSpec) -> Iterator[Problem]:
    """Yield a problem for each ``{field}`` in texts where fields are not replaced, such as ``version``."""
    environment = job.environment
    if not (job.call or job.version or environment or job.isolate):
        return
    texts: list[tuple[DocumentPath, str | None]] = [(("call",), job.call), (("version",), job.version)]
    if environment is not None:
        texts += [(("environment", "container"), environment.container)]
        texts += [(("environment", "conda"), environment.conda)]
        texts += [(("environment", "modules"), name) for name in environment.modules]
    if job.isolate is not None:
        texts += [(("isolate", "read"), name) for name in job.isolate.read]
    for path, text in texts:
        for field in list_fields(text or ""):
            yield Problem(
                what=f"{{{field.name}}} in {shorten(text)!r} would not be replaced",
                rule=f"fields in braces are not replaced in `{path[-1]}`",
                advice="write the value itself",
                path=("tasks", task, *path),
            )


def _secret_in_text(name: str, text: str, path: DocumentPath) -> Problem:
    return Problem(
        what=f"{{{name}}} in {shorten(text)!r} is a secret",
        rule="in braces, a secret may stand only in `from` of an input and in `to` of an output",
        advice=f'use the environment variable, "${name}"',
        path=path,
    )


def _addresses(task: Task) -> set[str | None]:
    """Return the sources of inputs and targets of outputs: in these texts, secrets are replaced."""
    return {*(given.source for given in task.inputs), *(output.target for output in task.outputs)}


def _is_special(dependency: Dependency) -> bool:
    return dependency.index is not None or dependency.pairs is not None or dependency.condition is not None


def _formulas(task: Task) -> list[tuple[DocumentPath, Expression]]:
    """Return the formulas of a task, each with the path of its key in the task."""
    found: list[tuple[DocumentPath, object]] = [(("work",), task.work)] if task.work is not None else []
    if task.cores is not None:
        found.append((("cores",), task.cores))
    if isinstance(task.seconds, Mapping):
        found += [(("seconds", machine), seconds) for machine, seconds in task.seconds.items()]
    elif task.seconds is not None:
        found.append((("seconds",), task.seconds))
    if task.nodes != (1,):
        found += [(("nodes",), part) for count in task.nodes for part in _parts(count)]
    for output in task.outputs:
        if output.size.__class__ is Expression or output.seconds is not None:
            found += [(("outputs", output.file), part) for part in (output.size, output.seconds)]
    for position, given in enumerate(task.inputs):
        if given.size is not None:
            found.append(((*_input_path(given, position), "size"), given.size))
    if task.transfer is not None:
        found.append((("size",), task.transfer.size))
    if task.recovery is not NO_RECOVERY:
        found.append((("time_limit",), task.recovery.time_limit))
        if task.recovery.checkpoint is not None:
            found.append((("checkpoint", "every"), task.recovery.checkpoint.every))
    return [(path, value) for path, value in found if isinstance(value, Expression)]


def _amount_problems(task: Task, known: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem for each undefined name in the amounts of a task, which may also use the node count."""
    with_count = {**known, COUNT_NAME: 0}
    for _, path, amount in task.amounts():
        for keys, quantity in stated_quantities(amount):
            yield from unknown_name_problems(quantity, with_count, ("tasks", task.name, *path, *keys))


def _parts(count: object) -> Iterable[object]:
    return (count.low, count.high, count.step) if isinstance(count, Range) else (count,)


def _input_path(given: Input, position: int) -> DocumentPath:
    return ("inputs", position if given.entry is None else given.entry)


def _templates(task: Task) -> list[tuple[DocumentPath, str]]:
    """Return the templates of a task, each with the path of its key in the task."""
    found: list[tuple[DocumentPath, str | None]] = []
    for position, given in enumerate(task.inputs):
        if "{" in given.file or given.source is not None:
            found += [(_input_path(given, position), text) for text in (given.file, given.source)]
    for output in task.outputs:
        if "{" in output.file or output.target is not None:
            found += [(("outputs", output.file), text) for text in (output.file, output.target)]
    if task.machine is not None:
        found.append((("machine",), task.machine))
    if task.transfer is not None:
        moved = task.transfer
        found += [(("from",), moved.source), (("to",), moved.target), (("file",), moved.file)]
    if task.job is not None:
        found += _job_templates(task.job)
    if task.recovery is not NO_RECOVERY:
        found.append((("progress",), task.recovery.progress))
        if (checkpoint := task.recovery.checkpoint) is not None:
            found += [(("checkpoint", "files"), file) for file in checkpoint.files]
            found.append((("checkpoint", "url"), checkpoint.url))
    return [(path, text) for path, text in found if text is not None and "{" in text]


def _job_templates(job: JobSpec) -> list[tuple[DocumentPath, str | None]]:
    words = (job.command,) if isinstance(job.command, str) else job.command or ()
    found: list[tuple[DocumentPath, str | None]] = [(("command",), word) for word in words if "{" in word]
    if job.arguments:
        found += [(("arguments",), word) for word in job.arguments]
    if job.env:
        found += [(("env", name), value) for name, value in job.env.items()]
    texts = _template_texts(job)
    return found + list(zip(_TEMPLATE_PATHS, texts, strict=True)) if any(texts) else found


def _size_problems(task: Task) -> list[Problem]:
    found: list[Problem] = []
    for output in task.outputs:
        for number in (output.size, output.seconds):
            if isinstance(number, int | float) and not number >= 0:
                path: DocumentPath = ("tasks", task.name, "outputs", output.file)
                found.append(Problem(what=f"size {number}", rule="must be at least 0", path=path))
    return found


def _loop_problems(workflow: Workflow) -> Iterator[Problem]:
    if not workflow.loops:
        return
    tasks = {task.name: task for task in workflow.tasks}
    results = {f"{name}.{part}": 0 for name in tasks for part in ("exit_code", "result")}
    seen: set[str] = set()
    for loop in workflow.loops:
        path: DocumentPath = ("loops", loop.name)
        yield from (replace(problem, path=(*path, *problem.path)) for problem in loop.find_problems())
        if loop.name in tasks:
            yield Problem(
                what=f"{loop.name!r} is both a task and a loop", rule="names must be unique", path=path
            )
        if loop.name in seen:
            yield Problem(what=f"two loops are named {loop.name!r}", rule="names must be unique", path=path)
        seen.add(loop.name)
        for key, name in (("from", loop.last), ("to", loop.first)):
            if name not in tasks:
                advice = suggest(name, tasks)
                yield Problem(
                    what=f"loop {loop.name}: there is no task {name!r}", advice=advice, path=(*path, key)
                )
        known = {**results, **workflow.params, "iteration": 0, "exit_code": 0, "result": 0}
        yield from unknown_name_problems(loop.until, {**known, **_variables(tasks, loop)}, (*path, "until"))
        for key, quantity in (("max_iterations", loop.max_iterations), ("expect", loop.expect)):
            yield from unknown_name_problems(quantity, workflow.params, (*path, key))


def _variables(tasks: dict[str, Task], loop: Loop) -> dict[str, None]:
    """Return the sweep variables of a loop's last task as keys; the loop runs separately for each point."""
    last = tasks.get(loop.last)
    return dict.fromkeys(last.sweep.names if last is not None and last.sweep is not None else ())


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _secret_problems(workflow: Workflow) -> Iterator[Problem]:
    """Yield the problems of the declared secrets."""
    seen: set[str] = set()
    for secret in workflow.secrets:
        path: DocumentPath = ("secrets", secret.name)
        for name in (secret.name, secret.source):
            if not _VARIABLE.fullmatch(name):
                rule = "must be a name of letters, digits and _, like that of an environment variable"
                yield Problem(what=f"secret {shorten(repr(name))}", rule=rule, path=path)
        if is_late(secret.name) or secret.name.startswith("WEFT_"):
            yield Problem(
                what=f"a secret is named {secret.name!r}", rule="weft defines this name itself", path=path
            )
        if secret.name in workflow.params or secret.name in seen:
            other = "parameter" if secret.name in workflow.params else "secret"
            yield Problem(what=f"two values are named {secret.name!r}: a secret and a {other}", path=path)
        if secret.variable is not None and secret.file is not None:
            what = f"secret {secret.name!r} has both env and file"
            yield Problem(what=what, rule="a secret has one source", advice="remove one of them", path=path)
        seen.add(secret.name)


def _budget_problems(workflow: Workflow) -> Iterator[Problem]:
    """Yield the problems of the budgets and of the tasks that consume them."""
    for name, budget in workflow.budgets.items():
        path: DocumentPath = ("budgets", name)
        yield from unknown_name_problems(budget, workflow.params, path)
        if not 0 <= (constant_value(budget) or 0) < math.inf:
            yield Problem(what=f"budget {budget}", rule="must be a number, at least 0", path=path)
    for task in workflow.tasks:
        for name in task.consumes:
            if name not in workflow.budgets:
                yield _unknown_budget(workflow, task.name, name)


def _unknown_budget(workflow: Workflow, task: str, name: str) -> Problem:
    advice = suggest(name, workflow.budgets, f"add `budgets: {{{shorten(name)}: AMOUNT}}`")
    what = f"{task} consumes {shorten(repr(name))}, which has no budget"
    rule = "a task can consume only what `budgets:` of the workflow lists"
    return Problem(what=what, rule=rule, advice=advice, path=("tasks", task, "consumes", name))


def check_and_unfold(workflow: Workflow) -> TaskGraph:
    """Validate a workflow and return its task graph, or raise InvalidInput with every problem."""
    graph, found = _check_all(workflow, ())
    if graph is None or found:
        raise InvalidInput(found)
    return graph


def check(workflow: Workflow) -> None:
    """Validate a workflow; raise InvalidInput with every problem if there are any."""
    check_and_unfold(workflow)


def find_problems(workflow: Workflow, earlier: Iterable[Problem] = ()) -> list[Problem]:
    """Return every problem, including ``earlier`` ones from reading, once and in the order of the file."""
    return _check_all(workflow, earlier)[1]


@limit_document_entries()
def _check_all(workflow: Workflow, earlier: Iterable[Problem]) -> tuple[TaskGraph | None, list[Problem]]:
    found = list(earlier)
    if workflow.tasks or not found:  # without tasks, the problems of reading explain why
        found += _static_problems(workflow)
    reported = {problem.path for problem in found}
    graph, dynamic = try_unfold(workflow, strictly=True)
    found += [problem for problem in dynamic if problem.path not in reported]
    unique: dict[tuple[DocumentPath, str], Problem] = {}
    for problem in locate_problems(found, workflow.document):
        unique.setdefault((problem.path, problem.what), problem)
    return graph, sorted(unique.values(), key=_reading_order)


def _reading_order(problem: Problem) -> tuple[int, int]:
    place = problem.location
    return (place.line or 0, place.column or 0) if place is not None else (0, 0)


def _static_problems(workflow: Workflow) -> Iterator[Problem]:
    if not workflow.tasks:
        yield Problem(
            what=f"workflow {workflow.name} has no tasks", rule="a workflow must have at least one task"
        )
    for name, value in workflow.params.items():
        yield from unknown_name_problems(value, workflow.params, ("params", name))
    checks = _TaskChecks(workflow)
    if len(checks.names) < len(workflow.tasks):
        yield from _duplicates(workflow.tasks)
    for task in workflow.tasks:
        yield from checks.problems(task)
    yield from _loop_problems(workflow)
    yield from _budget_problems(workflow)
    yield from _secret_problems(workflow)
    yield from find_prediction_problems(workflow)


def find_prediction_problems(workflow: Workflow) -> Iterator[Problem]:
    """Yield a problem for each column of predictions that is no parameter or sweep variable of the task."""
    names = {
        task.name: (*workflow.params, *(task.sweep.names if task.sweep else ())) for task in workflow.tasks
    }
    yield from find_parameter_problems(workflow.predictions, names)


def _duplicates(tasks: Iterable[Task]) -> Iterator[Problem]:
    seen: set[str] = set()
    for task in tasks:
        if task.name in seen:
            path = ("tasks", task.name)
            yield Problem(what=f"two tasks are named {task.name!r}", rule="names must be unique", path=path)
        seen.add(task.name)
