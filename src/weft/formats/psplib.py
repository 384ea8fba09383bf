"""PSPLIB, the project scheduling library: single-mode (``.sm``) and multi-mode (``.mm``) projects, read only.

R. Kolisch, A. Sprecher, PSPLIB: a project scheduling problem library, European Journal of Operational
Research 96(1), 1997. A job is a task and its duration its work; a renewable resource is one of the machine, a
non-renewable one a budget. Mode k of a job is the node count k: its duration stands in the table of measured
seconds, its amounts in tables by node count. The file is a platform, too (``--on FILE``): one machine with
the renewable resources and so many nodes that they never run out. Jobs without duration and amounts become
virtual tasks. Horizon, due date and tardiness cost are not read.
"""

from __future__ import annotations

from weft.documents import Document
from weft.errors import InvalidInput, Problem
from weft.formats.complaints import Complaints
from weft.formats.format import Source
from weft.formats.ordering import refuse_cycle
from weft.formats.psplib_tables import PRECEDENCE, Job, Project, read_project
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.records.amount import Amount
from weft.workflow.records.dependency import Dependency
from weft.workflow.records.moldable import Measured
from weft.workflow.records.task import Kind, Task
from weft.workflow.records.workflow import Workflow

__all__ = ["Psplib"]


class Psplib:
    """Projects of the project scheduling library, and the machine they run on."""

    name = "psplib"
    title = "PSPLIB projects, single-mode and multi-mode"
    extensions: tuple[str, ...] = (".sm", ".mm")
    reads = True
    writes = False

    def recognises(self, source: Source) -> bool:
        """Look for the heading of the precedence relations."""
        return PRECEDENCE.search(source.head) is not None

    def read(self, source: Source) -> Workflow:
        """Read a project as a workflow. Raises InvalidInput."""
        project = read_project(source)
        _check_durations(source, project)
        index = {job.number: position for position, job in enumerate(project.jobs)}
        parents: list[list[int]] = [[] for _ in project.jobs]
        for position, job in enumerate(project.jobs):
            for successor in dict.fromkeys(job.successors):
                parents[index[successor]].append(position)
        refuse_cycle(source, [str(job.number) for job in project.jobs], parents)
        edges = [Dependency(task=str(job.number)) for job in project.jobs]
        tasks = [
            _task(job, project, tuple(edges[parent] for parent in above))
            for job, above in zip(project.jobs, parents, strict=True)
        ]
        return Workflow(
            name=source.stem,
            tasks=tuple(tasks),
            budgets=_totals(project, "N"),
            document=Document(file=source.name),
        )

    def read_platform(self, source: Source) -> Platform:
        """Read the machine a project runs on. Raises InvalidInput."""
        project = read_project(source)
        # If all jobs ran at once in their last modes they would take so many nodes.
        nodes = sum(len(job.modes) for job in project.jobs)
        resources = {name: float(total) for name, total in _totals(project, "R").items()}
        machine = Machine(name="project", nodes=nodes, resources=resources)
        return Platform(name=source.stem, machines=(machine,), document=Document(file=source.name))

    def write(self, workflow: Workflow) -> str:
        """Refuse: nobody asks for new ones."""
        advice = "write weft's own format instead"
        raise InvalidInput(Problem(what=f"{workflow.name} cannot be written as {self.name}", advice=advice))


def _names(project: Project) -> list[str]:
    """Name the resources as the file does, by kind and number: r1, r2, n1."""
    return [
        f"{kind.lower()}{project.kinds[: position + 1].count(kind)}"
        for position, kind in enumerate(project.kinds)
    ]


def _totals(project: Project, kind: str) -> dict[str, int]:
    columns = zip(_names(project), project.kinds, project.totals, strict=True)
    return {name: total for name, of_kind, total in columns if of_kind == kind}


def _check_durations(source: Source, project: Project) -> None:
    complaints = Complaints(source)
    for job in project.jobs:
        durations = [mode.seconds for mode in job.modes]
        if len(durations) > 1 and min(durations) == 0:
            rule = "each of several modes takes some time"
            complaints.add(f"job {job.number} has a mode of duration 0", rule=rule, line=job.line)
    complaints.finish()


def _task(job: Job, project: Project, after: tuple[Dependency, ...]) -> Task:
    seconds = {count: float(mode.seconds) for count, mode in enumerate(job.modes, start=1)}
    resources, consumes = _amounts(job, project, "R"), _amounts(job, project, "N")
    if seconds == {1: 0.0} and not resources and not consumes:
        return Task(name=str(job.number), kind=Kind.VIRTUAL, after=after)
    return Task(
        name=str(job.number),
        after=after,
        work=seconds[1],
        nodes=tuple(seconds),
        speedup=Measured(seconds=seconds) if len(seconds) > 1 else None,
        resources=resources,
        consumes=consumes,
    )


def _amounts(job: Job, project: Project, kind: str) -> dict[str, Amount]:
    """Give what a job takes of the resources of one kind, by name; zeros are left out."""
    columns = zip(*(mode.amounts for mode in job.modes), strict=True)
    listed = zip(_names(project), project.kinds, columns, strict=True)
    return {name: _amount(by_mode) for name, of_kind, by_mode in listed if of_kind == kind and any(by_mode)}


def _amount(by_mode: tuple[int, ...]) -> Amount:
    """Give one amount where all modes take the same, else the amounts by node count."""
    if len(set(by_mode)) == 1:
        return by_mode[0]
    return dict(enumerate(by_mode, start=1))
