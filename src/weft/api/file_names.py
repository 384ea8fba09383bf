"""Check the file names of a workflow before it is run.

Only transfers and tasks with a program are checked; workflows that are planned or simulated may use any
names. Names that contain values unknown before the run are checked completely when a task starts.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path

import numpy as np

from weft.backends.attempt.external_files import file_url_path
from weft.backends.attempt.inputs import ProducerIndex
from weft.backends.attempt.safe_paths import StagingProblem, quote_name, split_name
from weft.backends.attempt.trees import is_wildcard
from weft.documents import locate_problems
from weft.errors import DocumentPath as Keys
from weft.errors import InvalidInput, Problem, shorten
from weft.formats.services import STATED_IN
from weft.platform.platform import Platform, planned_machines
from weft.redaction import has_secret, redact
from weft.units import format_count
from weft.urls import is_url
from weft.workflow.task import Input, Task, TaskKind
from weft.workflow.task_graph import TRANSFER, TaskGraph
from weft.workflow.templates import fill_template, list_fields, split_template
from weft.workflow.workflow import Workflow

_OUTPUT_ADVICE = "use a name inside the task directory; `to:` sets the destination"
_SHOWN_NAMES = 5
_INPUT_ADVICE = "use a name inside the task directory; `from:` sets the source"


def check_file_names(workflow: Workflow) -> None:
    """Raise InvalidInput if an input or output name of a task is outside the task directory."""
    checked = [task for task in workflow.tasks if task.job is not None or task.transfer is not None]
    found = [problem for task in checked for problem in _name_problems(task)]
    if found:
        raise InvalidInput(list(locate_problems(found, workflow.document)))


def _name_problems(task: Task) -> Iterator[Problem]:
    for position, given in enumerate(task.inputs):
        yield from _path_problems(given.file, _input_keys(task, given, position), _INPUT_ADVICE)
    for output in task.outputs:
        yield from _path_problems(output.file, ("tasks", task.name, "outputs"), _OUTPUT_ADVICE)
    if task.transfer is not None:
        advice = "use the name of an output of another task"
        yield from _path_problems(task.transfer.file, ("tasks", task.name, "file"), advice)


def _path_problems(name: str, keys: Keys, advice: str) -> Iterator[Problem]:
    try:
        # "x" is a placeholder for values that are filled in later.
        split_name("".join(piece if isinstance(piece, str) else "x" for piece in split_template(name)))
    except StagingProblem as problem:
        yield Problem(what=f"{quote_name(name)} {problem.what}", rule=problem.why, advice=advice, path=keys)


def find_missing_inputs(graph: TaskGraph, folder: Path) -> list[Problem]:
    """Return a problem for each local input file that does not exist and that no task produces.

    ``folder`` is the folder of the workflow. Only the first missing file of each input entry is reported.
    """
    found = []
    for described, position, name in _missing_inputs(graph, folder, lambda task: range(len(task.inputs))):
        what = f"{name} does not exist and no task produces it"
        keys = _input_keys(described, described.inputs[position], position)
        found.append(Problem(what=what, advice="create it before the task starts", path=keys))
    return list(locate_problems(found, graph.workflow.document))


def check_staged_files(graphs: Mapping[str, TaskGraph], folders: Mapping[str, Path]) -> None:
    """Raise InvalidInput if a file that a run needs does not exist and no task produces it.

    Such files are programs that are inputs of their tasks, and the files of DIET ports. ``folders`` gives the
    folder of each workflow. Programs are the first words of the task's command lines.
    """
    found = list[Problem]()
    for key, graph in graphs.items():
        missing = [
            _missing_file(described, position, name)
            for described, position, name in _missing_inputs(graph, folders[key], _list_needed)
        ]
        found += locate_problems(missing, graph.workflow.document)
    if found:
        raise InvalidInput(found)


def _missing_file(task: Task, position: int, name: str) -> Problem:
    path = _input_keys(task, task.inputs[position], position)
    if "ports" in task.attributes:
        what = f"{name}, an input of task {task.name!r}, does not exist and no task produces it"
        rule, advice = "a constant or item of type DIET_FILE names a file", "create it, or correct its name"
        return Problem(what=what, rule=rule, advice=advice, path=path)
    return Problem(
        what=f"{name}, a program of task {task.name!r}, does not exist and no task produces it",
        rule="a program that is an input is copied to the machine of the task",
        advice="create it, or correct its name",
        path=path,
    )


def _missing_inputs(
    graph: TaskGraph, folder: Path, select: Callable[[Task], Sequence[int]]
) -> Iterator[tuple[Task, int, str]]:
    """Yield (task, position of the input, quoted file name) for the first missing file of each input.

    ``select`` is a function that returns the positions of the task's inputs to check.
    """
    tasks = graph.workflow.tasks
    selected = [select(task) if task.job is not None else () for task in tasks]
    if not any(selected):
        return
    makers, judged = ProducerIndex(graph), set[tuple[int, int]]()
    for task, template in enumerate(graph.template.tolist()):
        described = tasks[template]
        for position in selected[template]:
            given = described.inputs[position]
            text = given.source or given.file
            if (template, position) in judged or _is_read_later(described, text):
                continue
            if "{" not in text:
                judged.add((template, position))  # the same file for every point of a sweep
            name = fill_template(text, graph.context(task), last=False)
            if given.source is None and (makers.of_reader(name, task) or _matches_file(name, folder)):
                continue
            if _may_exist(name, folder):
                continue
            judged.add((template, position))
            yield described, position, quote_name(fill_template(name, {}))


def _list_needed(task: Task) -> Sequence[int]:
    """Return the positions of those inputs of a task that must exist before a run.

    These are the inputs that its command lines run as programs; of a task with DIET ports, all inputs.
    """
    job = task.job
    if job is None or not task.inputs:
        return ()
    if "ports" in task.attributes:
        return range(len(task.inputs))
    lines = (job.command, job.prolog, job.wrapper, job.epilog, job.evaluator_program)
    programs = {posixpath.normpath(word) for line in lines if line and "/" in (word := _first_word(line))}
    return [at for at, given in enumerate(task.inputs) if posixpath.normpath(given.file) in programs]


def _first_word(line: str | Sequence[str]) -> str:
    """Return the program of a command line; for ``env A=1 program``, the first word without ``=``."""
    try:
        words = shlex.split(line) if isinstance(line, str) else line
    except ValueError:
        return ""  # the shell on the machine may accept the line
    rest = iter(words)
    first = next(rest, "")
    return next((word for word in rest if "=" not in word), "") if first == "env" else first


def check_result_references(graph: TaskGraph) -> None:
    """Raise InvalidInput if a text refers to a result that is not known when its task starts.

    The other task must end before, and be one subtask of a sweep.
    """
    if found := [*_ambiguous_results(graph), *_unordered_results(graph)]:
        raise InvalidInput(list(locate_problems(found, graph.workflow.document)))


def _ambiguous_results(graph: TaskGraph) -> Iterator[Problem]:
    tasks = {task.name: (place, task) for place, task in enumerate(graph.workflow.tasks)}
    for task in graph.workflow.tasks:
        for key, text in _job_texts(task):
            for name in dict.fromkeys(field.name.partition(".")[0] for field in list_fields(text)):
                place, other = tasks.get(name, (-1, task))
                if other is task or other.sweep is None:
                    continue
                # Subtasks with a common variable are compared when the task starts.
                if task.sweep is not None and set(task.sweep.names) & set(other.sweep.names):
                    continue
                if (count := int(np.count_nonzero(graph.template == place))) > 1:
                    yield Problem(
                        what=f"{shorten(text)!r} refers to the result of {name}, which has {count} subtasks",
                        rule="the common sweep variables must identify one subtask",
                        advice=f"give the task the sweep variables of {name}",
                        path=("tasks", task.name, key),
                    )


def _unordered_results(graph: TaskGraph) -> Iterator[Problem]:
    """Yield a problem for each text with the result of a task that need not have ended when the text is used.

    Inside a loop, a text may use the result of the iteration before.
    """
    places = {task.name: place for place, task in enumerate(graph.workflow.tasks)}
    before: list[set[int]] | None = None
    for place, task in enumerate(graph.workflow.tasks):
        for key, text in _job_texts(task):
            for name in dict.fromkeys(field.name.partition(".")[0] for field in list_fields(text)):
                other = places.get(name)
                if other is None or other == place:
                    continue
                before = before or _list_earlier_templates(graph)
                if other not in before[place]:
                    used = f"{shorten(text)!r} uses the result of {name}"
                    yield Problem(
                        what=f"{used}, but {task.name} does not run after {name}",
                        rule="a result is known when its task has ended",
                        advice=f"add `after: {name}` to the task",
                        path=("tasks", task.name, key),
                    )


def _list_earlier_templates(graph: TaskGraph) -> list[set[int]]:
    """Return for each task of the workflow the tasks that end before it, or are in a common loop with it."""
    template = graph.template.astype(np.int64)
    behind = np.repeat(template, np.diff(graph.predecessor_pointer))
    edges = np.unique(np.stack([template[graph.predecessor], behind]), axis=1)
    direct: list[set[int]] = [set() for _ in graph.workflow.tasks]
    for earlier, later in edges.T.tolist():
        direct[later].add(earlier)
    for body in graph.loops:
        members = set(template[body.tasks].tolist())
        for member in members:
            direct[member] |= members
    found = []
    for start in range(len(direct)):
        known, waiting = set(direct[start]), list(direct[start])
        while waiting:
            fresh = direct[waiting.pop()] - known
            known |= fresh
            waiting.extend(fresh)
        found.append(known)
    return found


def _job_texts(task: Task) -> Iterator[tuple[str, str]]:
    """Yield (key, text) for the texts of a task that may contain results of other tasks."""
    if (job := task.job) is None:
        return
    command = (job.command,) if isinstance(job.command, str) else job.command or ()
    yield from (("command", text) for text in command)
    yield from (("arguments", text) for text in job.arguments)
    yield from (("env", text) for text in job.env.values())
    yield from (
        (key, text) for key in ("stdin", "stdout", "stderr") if (text := getattr(job, key)) is not None
    )


def check_runnable(graphs: Iterable[TaskGraph], platform: Platform) -> None:
    """Raise InvalidInput if workflows cannot be run on a platform; the error lists all problems.

    Problems are results that are not known when a task starts, compute tasks without a program, tasks
    that read a source without data, and transfers of files that no task writes.
    None of them prevents planning or simulation.
    """
    if found := [problem for graph in graphs for problem in _find_run_problems(graph, platform)]:
        raise InvalidInput(found)


def _find_run_problems(graph: TaskGraph, platform: Platform) -> Iterator[Problem]:
    workflow = graph.workflow
    other = ", or use `weft simulate`" if _offers_services(platform, workflow) else ""
    found = [
        *_ambiguous_results(graph),
        *_unordered_results(graph),
        *_unwritten_transfers(graph),
        *_tasks_without_data(workflow, other),
        *_tasks_without_program(workflow, other),
    ]
    yield from locate_problems(found, workflow.document)


def _offers_services(platform: Platform, workflow: Workflow) -> bool:
    """Return whether each service of a workflow's tasks is offered by a machine, as simulations require."""
    services = {task.service for task in workflow.tasks if task.service is not None}
    machines = planned_machines(platform) if services else ()
    return all(any(machine.offers(service) for machine in machines) for service in services)


def _unwritten_transfers(graph: TaskGraph) -> Iterator[Problem]:
    makers, judged = ProducerIndex(graph), set[str]()
    for task in np.flatnonzero(graph.kind == TRANSFER).tolist():
        described = graph.description(task)
        assert described.transfer is not None
        name = fill_template(described.transfer.file, graph.context(task), last=False)
        if described.name not in judged and not makers.of_transfer(name, task):
            judged.add(described.name)
            what = f"{described.name} moves {quote_name(fill_template(name, {}))}, which no task writes"
            rule = "a transfer copies a file that a task of the run has written"
            advice = "add it to the `outputs` of a task; for a file of the project, use `inputs` instead"
            yield Problem(what=what, rule=rule, advice=advice, path=("tasks", described.name, "file"))


def _tasks_without_data(workflow: Workflow, other: str) -> Iterator[Problem]:
    """Yield a problem for each reason why tasks have a port without data; ``other``: end of the advice."""
    by_reason: dict[str, list[str]] = {}
    for task in workflow.tasks:
        if "unbound" in task.attributes:
            by_reason.setdefault(str(task.attributes["unbound"]), []).append(task.name)
    for reason, names in by_reason.items():
        what = f"{format_count(len(names), 'task')} without input data ({_list_names(names)})"
        yield Problem(what=what, advice=f"{reason}{other}", path=("tasks", names[0]))


def _tasks_without_program(workflow: Workflow, other: str) -> Iterator[Problem]:
    """Yield one problem that names the compute tasks with neither a command nor a function to call.

    ``other``: end of the advice.
    """
    tasks = [
        task
        for task in workflow.tasks
        if task.kind is TaskKind.COMPUTE
        and not (task.job and (task.job.command or task.job.call))
        # Decisions of loops and branches without data have no service; they are reported with their data.
        and ("unbound" not in task.attributes or (task.service and STATED_IN not in task.attributes))
    ]
    if not tasks:
        return
    names = [task.name for task in tasks]
    services = list(dict.fromkeys(task.service for task in tasks if task.service is not None))
    advice = "add `command` or `call` (`weft convert FILE --to weft` writes a file to edit)"
    if services:
        advice = _advise_services(services, workflow.services_file)
    yield Problem(
        what=f"{format_count(len(names), 'task')} without a program ({_list_names(names)})",
        rule="a run executes the program of every task; a task without work has `kind: virtual`",
        advice=f"{advice}{other}",
        path=("tasks", names[0]),
    )


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(map(shorten, names[:_SHOWN_NAMES])) + (", …" if len(names) > _SHOWN_NAMES else "")


def _advise_services(services: Sequence[str], file: str | None) -> str:
    """Return where to state the programs of services; ``file``: as ``Workflow.services_file``."""
    entries = ", ".join(f"{shorten(name)}: {{command: ...}}" for name in services[:_SHOWN_NAMES])
    stated = f"`services: {{{entries}{', …' if len(services) > _SHOWN_NAMES else ''}}}`"
    if file is None:
        return f"state the program of each service in the platform: {stated}"
    where = f"in {file}" if Path(file).is_file() else f"in a new file {file}, after `weft: 1`"
    return f"state the program of each service {where}: {stated} (the platform may state it, too)"


def find_open_secrets(workflow: Workflow) -> list[Problem]:
    """Return a problem for each text in a workflow that has a password, token or signature in a URL."""
    found = []
    for path, text in _texts(workflow):
        if has_secret(text):
            rule = "weft stores the text of a workflow in `.weft`"
            advice = "declare `secrets: [TOKEN]` and write {TOKEN} in its place"
            what = f"{redact(shorten(text, 200))!r} contains a secret"
            found.append(Problem(what=what, rule=rule, advice=advice, path=path))
    return list(locate_problems(found, workflow.document))


def _texts(workflow: Workflow) -> Iterator[tuple[Keys, str]]:
    """Yield (path of keys in the document, text) for the texts of a workflow that may contain URLs."""
    for name, value in workflow.params.items():
        yield ("params", name), value if isinstance(value, str) else ""
    for task in workflow.tasks:
        for position, given in enumerate(task.inputs):
            yield _input_keys(task, given, position), given.source or given.file
        for output in task.outputs:
            yield ("tasks", task.name, "outputs", output.file), output.target or ""
        if task.job is not None:
            command = (task.job.command,) if isinstance(task.job.command, str) else task.job.command or ()
            for key, texts in (("command", command), ("arguments", task.job.arguments)):
                yield from ((("tasks", task.name, key), text) for text in texts)
            yield from ((("tasks", task.name, "env", name), text) for name, text in task.job.env.items())


def _is_read_later(task: Task, text: str) -> bool:
    """Return whether a file name depends on lines of a file that another task writes during the run."""
    names = task.sweep.from_file if task.sweep is not None else ()
    return any(field.name in names for field in list_fields(text))


def _matches_file(name: str, folder: Path) -> bool:
    """Return whether a name is a wildcard that matches a file in the workflow's folder."""
    pattern = fill_template(name, {})
    return is_wildcard(pattern) and bool(glob(pattern, root_dir=folder, recursive=True))  # noqa: PTH207


def _may_exist(name: str, folder: Path) -> bool:
    """Return whether a file exists or may exist: a remote file or an incomplete name cannot be checked."""
    if list_fields(name):
        return True
    try:
        stated = file_url_path(name) if is_url(name) else fill_template(name, {})
        return stated is None or (folder / stated).exists()
    except (StagingProblem, OSError, ValueError):
        return False


def _input_keys(task: Task, given: Input, position: int) -> Keys:
    return ("tasks", task.name, "inputs", position if given.entry is None else given.entry)
