"""Checks of the names in a scenario against a platform and workflows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from weft.backends.simulation.scenario import (
    Arrival,
    ArrivalTrace,
    Scenario,
    Series,
    SubmissionTerms,
    match_positions,
)
from weft.documents import locate_problems
from weft.errors import DocumentPath, InvalidInput, Problem, nearest, shorten
from weft.instance.preferences import TURNAROUND_NAMES
from weft.platform.arrays import machine_columns
from weft.platform.machine import LIVE_NAMES
from weft.platform.platform import Platform, planned_machines
from weft.workflow.checks import check_and_unfold, unknown_name_problems
from weft.workflow.quantity import growth_file
from weft.workflow.task import Task
from weft.workflow.workflow import Workflow

_SECTIONS = ("perturbations", "failures", "loads", "silences")


def list_submissions(entry: Arrival | Series | ArrivalTrace) -> Iterator[tuple[str, SubmissionTerms]]:
    """Yield the workflow file and the terms of every arrival that an entry of ``arrivals`` describes."""
    match entry:
        case Arrival(workflow=workflow):
            yield workflow, entry
        case Series(workflows=workflows):
            yield from ((workflow, entry) for workflow in workflows)
        case ArrivalTrace(arrivals=arrivals):
            yield from ((arrival.workflow, arrival) for arrival in arrivals)


def workflow_keys(entry: Arrival | Series | ArrivalTrace) -> Iterator[str]:
    """Yield the key of the workflow of every arrival that an entry of ``arrivals`` describes."""
    return (terms.name_key(workflow) for workflow, terms in list_submissions(entry))


def check_scenario(
    scenario: Scenario, platform: Platform | None, workflows: Mapping[str, Workflow] | None
) -> None:
    """Raise InvalidInput with one problem per unknown name in a scenario.

    ``workflows`` are all workflows of the simulation, by key (see ``SubmissionTerms.name_key``). If
    ``platform`` is None, machine names are not checked; if ``workflows`` is None, names of tasks, loops and
    files are not checked.
    """
    problems: list[Problem] = []
    if platform is not None:
        problems += _unknown_machines(scenario, [machine.name for machine in platform.machines])
    if workflows is not None:
        # Names of tasks in a missing workflow would be reported a second time.
        problems += [*_unknown_workflows(scenario, workflows)] or _unknown_parts(scenario, workflows)
    if platform is not None and workflows is not None:
        problems += _unknown_in_expressions(scenario, platform, workflows.values())
    if problems:
        raise InvalidInput(list(locate_problems(problems, scenario.document)))


def _unknown_parts(scenario: Scenario, workflows: Mapping[str, Workflow]) -> list[Problem]:
    names = _WorkflowNames(workflows.values())
    return [
        *_unknown_tasks(scenario, names),
        *_find_unknown("loop", scenario.iterations, names.loops, ("iterations",)),
        *_find_unknown("file of a growing sweep", scenario.lines, names.files, ("lines",)),
    ]


def _unknown_workflows(scenario: Scenario, workflows: Mapping[str, Workflow]) -> Iterator[Problem]:
    for index, entry in enumerate(scenario.arrivals):
        for key in dict.fromkeys(workflow_keys(entry)):
            if key not in workflows:
                yield _describe_missing("workflow", key, workflows, ("arrivals", index))


def _unknown_machines(scenario: Scenario, names: list[str]) -> Iterator[Problem]:
    for section in _SECTIONS:
        for index, entry in enumerate(getattr(scenario, section)):
            for pattern in entry.machines:
                if not match_positions((pattern,), names):
                    yield _describe_missing(
                        "machine",
                        pattern,
                        names,
                        (section, index, _find_machine_key(scenario, section, index)),
                    )

    for pattern in scenario.denied:
        if not match_positions((pattern,), names):
            yield _describe_missing("machine", pattern, names, ("denied",))


def _find_machine_key(scenario: Scenario, section: str, index: int) -> str:
    """Return the key (``machine`` or ``machines``) under which an entry of a section names its machines."""
    node = scenario.document.root if scenario.document is not None else None
    for part in (section, index):
        if node is not None and isinstance(node.value, dict) and part in node.value:
            node = node.value[str(part)]
        elif node is not None and isinstance(node.value, list) and isinstance(part, int):
            node = node.value[part]
    written = node.value if node is not None and isinstance(node.value, dict) else {}
    return "machine" if "machine" in written else "machines"


class _WorkflowNames:
    """The names of tasks, subtasks, loops and growing files of all workflows."""

    def __init__(self, workflows: Iterable[Workflow]) -> None:
        self._workflows = tuple(workflows)
        self.tasks = [task.name for each in self._workflows for task in each.tasks]
        self.loops = [loop.name for each in self._workflows for loop in each.loops]
        self.files = [file for each in self._workflows for task in each.tasks for file in _growth_files(task)]
        self._subtasks: frozenset[str] | None = None

    def has_task(self, name: str) -> bool:
        """Return whether a task or subtask exists; any subtask of a growing sweep counts as existing."""
        if name in self.tasks:
            return True
        template = name.partition("[")[0]
        if template == name or template not in self.tasks:
            return False
        described = (task for each in self._workflows for task in each.tasks if task.name == template)
        if any(True for task in described for _ in _growth_files(task)):
            return True
        if self._subtasks is None:  # unfolded only if the scenario names subtasks
            self._subtasks = frozenset(
                label for each in self._workflows for label in check_and_unfold(each).names
            )
        return name in self._subtasks

    def candidates(self, name: str) -> Iterable[str]:
        """Return the known names that an unknown name could mean: subtasks of its task, or all tasks."""
        template = name.partition("[")[0]
        return (self._subtasks or ()) if template in self.tasks else self.tasks


def _growth_files(task: Task) -> Iterator[str]:
    for _, values in task.sweep.variables if task.sweep is not None else ():
        if (file := growth_file(values)) is not None:
            yield file


def _unknown_tasks(scenario: Scenario, names: _WorkflowNames) -> Iterator[Problem]:
    for section in ("suspensions", "cancellations", "requirements"):
        for index, entry in enumerate(getattr(scenario, section)):
            if not names.has_task(entry.task):
                yield _describe_missing(
                    "task", entry.task, names.candidates(entry.task), (section, index, "task")
                )
    for path, tasks in (
        (("exit_codes",), scenario.exit_codes),
        (("results",), scenario.results),
        (("profiles",), scenario.profiles),
        (("durations", "tasks"), scenario.durations.tasks),
    ):
        for task in tasks:
            if not names.has_task(task):
                yield _describe_missing("task", task, names.candidates(task), (*path, task))


def _unknown_in_expressions(
    scenario: Scenario, platform: Platform, workflows: Iterable[Workflow]
) -> Iterator[Problem]:
    """Yield a problem for each unknown name in the expressions of changed requirements and ranks."""
    if not scenario.requirements:
        return
    of_machines = {*machine_columns(planned_machines(platform)), *LIVE_NAMES}
    meant = [(each, task) for each in workflows for task in each.tasks]
    for index, change in enumerate(scenario.requirements):
        name = change.task.partition("[")[0]
        known = {
            key for each, task in meant if task.name == name for key in (*each.params, *_sweep_names(task))
        }
        known |= of_machines
        yield from unknown_name_problems(change.requirements, known, ("requirements", index, "expression"))
        known |= set(TURNAROUND_NAMES)
        yield from unknown_name_problems(change.rank, known, ("requirements", index, "rank"))


def _sweep_names(task: Task) -> tuple[str, ...]:
    return task.sweep.names if task.sweep is not None else ()


def _find_unknown(what: str, found: Iterable[str], known: list[str], path: DocumentPath) -> Iterator[Problem]:
    return (_describe_missing(what, name, known, (*path, name)) for name in found if name not in known)


def _describe_missing(what: str, name: str, known: Iterable[str], path: DocumentPath) -> Problem:
    """Return the problem about an unknown name; the nearest known name is its advice."""
    names = sorted(dict.fromkeys(known))
    close = nearest(name, names)
    advice = f"did you mean {close!r}?" if close else _list_known(what, names)
    return Problem(what=f"no {what} {shorten(repr(name))}", advice=advice, path=path)


def _list_known(what: str, names: list[str]) -> str:
    if not names:
        return f"there is no {what}"
    shown = ", ".join(names[:10])
    return f"known: {shown}{', …' if len(names) > 10 else ''}"
