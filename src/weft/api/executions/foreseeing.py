"""Foreseeing: what would go wrong when a workflow is run here, and can be said before anything is.

Only tasks with a program are looked at: a workflow that is planned or simulated may name its files as it
likes. Names are judged as far as they are known by now; the rest is judged when a task begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from weft.backends.inputs import Makers
from weft.backends.sources.remote_files import is_url, path_of_url
from weft.backends.staging.problem import StagingProblem, quoted
from weft.backends.staging.safe_paths import parts_of
from weft.documents import placed
from weft.errors import InvalidInput, Problem
from weft.errors import Path as Keys
from weft.workflow.records.data import Input
from weft.workflow.records.task import Task
from weft.workflow.records.workflow import Workflow
from weft.workflow.templates import fields, fill, pieces
from weft.workflow.unfolding.task_graph import TaskGraph

__all__ = ["absent_inputs", "refuse_astray_names"]

_TO = "name it as it lies in the task's own directory; `to:` says where it goes"
_FROM = "name it as it shall lie in the task's own directory; `from:` says where it lies now"


def refuse_astray_names(workflow: Workflow) -> None:
    """Refuse names of inputs and outputs that lead out of the directories in which tasks work."""
    found = [problem for task in workflow.tasks if task.job is not None for problem in _astray(task)]
    if found:
        raise InvalidInput(list(placed(found, workflow.document)))


def _astray(task: Task) -> Iterator[Problem]:
    for position, given in enumerate(task.inputs):
        yield from _refused(given.file, _input_keys(task, given, position), _FROM)
    for output in task.outputs:
        yield from _refused(output.file, ("tasks", task.name, "outputs"), _TO)


def _refused(name: str, keys: Keys, advice: str) -> Iterator[Problem]:
    try:
        # What is filled in later stands for any plain word.
        parts_of("".join(piece if isinstance(piece, str) else "x" for piece in pieces(name)))
    except StagingProblem as problem:
        yield Problem(what=f"{quoted(name)} {problem.what}", rule=problem.why, advice=advice, path=keys)


def absent_inputs(graph: TaskGraph, folder: Path) -> list[Problem]:
    """List the files of this computer that tasks read, that no task makes, and that do not exist by now.

    ``folder`` is that of the workflow. Of what one entry stands for, the first file that is absent is named.
    """
    makers, found, judged = Makers(graph), list[Problem](), set[Keys]()
    tasks = graph.workflow.tasks
    for task, template in enumerate(graph.template.tolist()):
        described = tasks[template]
        for position, given in enumerate(described.inputs if described.job is not None else ()):
            keys = _input_keys(described, given, position)
            text = given.source or given.file
            if keys in judged or _is_said(described, text):
                continue
            if "{" not in text:
                judged.add(keys)  # it is the same for every point of a sweep
            name = fill(text, graph.context(task), last=False)
            if (given.source is None and makers.of(name)) or _may_be_there(name, folder):
                continue
            judged.add(keys)
            what = f"{quoted(fill(name, {}))} does not exist, and no task makes it"
            found.append(Problem(what=what, advice="it must be there when the task begins", path=keys))
    return list(placed(found, graph.workflow.document))


def _is_said(task: Task, text: str) -> bool:
    """Say whether a name speaks of lines that another task has yet to write."""
    said = task.sweep.said if task.sweep is not None else ()
    return any(field.name in said for field in fields(text))


def _may_be_there(name: str, folder: Path) -> bool:
    """Say whether a file exists, or cannot be looked for: it lies elsewhere, or its name is not known yet."""
    if fields(name):
        return True
    try:
        stated = path_of_url(name) if is_url(name) else fill(name, {})
        return stated is None or (folder / stated).exists()
    except (StagingProblem, OSError, ValueError):
        return False


def _input_keys(task: Task, given: Input, position: int) -> Keys:
    return ("tasks", task.name, "inputs", position if given.entry is None else given.entry)
