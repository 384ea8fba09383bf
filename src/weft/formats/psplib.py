"""PSPLIB, the project scheduling library: single-mode and multi-mode projects, read only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from weft.documents import Document
from weft.errors import shorten
from weft.formats.format import ProblemCollector, ReadOnlyFormat, SourceFile, file_error
from weft.formats.graph import check_acyclic
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.quantity import Amount
from weft.workflow.task import Dependency, MeasuredSeconds, Task, TaskKind
from weft.workflow.workflow import Workflow

_PRECEDENCE = re.compile(r"^[ \t]*PRECEDENCE RELATIONS[ \t]*:", re.MULTILINE | re.IGNORECASE)
"""Heading by which files are recognised."""

_WHOLE = re.compile(r"[0-9]{1,9}")
_COLUMN = re.compile(r"([RND])\s*[0-9]+")
_HEADINGS = {
    "PRECEDENCERELATIONS": "precedence",
    "REQUESTS/DURATIONS": "requests",
    "RESOURCEAVAILABILITIES": "availabilities",
}
_Line = tuple[int, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ActivityMode:
    seconds: int
    amounts: tuple[int, ...]
    """Amount per resource, in the order of the project's ``kinds``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Activity:
    """One job, with its modes in the order of their numbers."""

    number: int
    line: int
    modes: tuple[_ActivityMode, ...]
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ActivityNetwork:
    """The jobs and resources of a file."""

    kinds: str
    """One letter per resource, R (renewable) or N (non-renewable), such as ``RRNN``."""
    totals: tuple[int, ...]
    jobs: tuple[_Activity, ...]


def _read_project(source: SourceFile) -> _ActivityNetwork:
    """Return the jobs and resources of a file. Raises InvalidInput."""
    sections = _sections(source.text())
    for heading, name in _HEADINGS.items():
        if name not in sections:
            raise file_error(source, f"the section {heading} is missing", advice="the file may be cut off")
    problems = ProblemCollector(source)
    kinds, totals = _availabilities(source, sections["availabilities"])
    modes = _modes(sections["requests"], len(kinds), problems)
    jobs = _jobs(sections["precedence"], modes, problems)
    problems.finish()
    if not jobs:
        raise file_error(source, "the file has no jobs", rule="a project must have at least one job")
    return _ActivityNetwork(kinds=kinds, totals=totals, jobs=jobs)


def _sections(text: str) -> dict[str, list[_Line]]:
    """Return the lines of each section as (line number, words), by name of the section."""
    found: dict[str, list[_Line]] = {}
    current: list[_Line] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.split()
        if (heading := "".join(words).upper().rstrip(":")) in _HEADINGS:
            current = found.setdefault(_HEADINGS[heading], [])
        elif heading.startswith("***"):
            current = None
        elif current is not None and words:
            current.append((number, words))
    return found


def _availabilities(source: SourceFile, lines: list[_Line]) -> tuple[str, tuple[int, ...]]:
    """Return the kinds of the resources, such as ``RRN``, and their totals.

    Lines that begin with a number contain totals; other lines contain the names of resources.
    """
    kinds, words = "", list[str]()
    first, last = (lines[0][0], lines[-1][0]) if lines else (None, None)
    for _, given in lines:
        if _WHOLE.fullmatch(given[0]):
            words += given
        else:
            kinds += "".join(_COLUMN.findall(" ".join(given).upper()))
    if "D" in kinds:
        rule = "resources must be renewable (R) or non-renewable (N)"
        raise file_error(source, "the file has a doubly constrained resource (D)", rule=rule, line=first)
    if len(words) != len(kinds) or not all(map(_WHOLE.fullmatch, words)):
        what = f"the totals of {len(kinds)} resources are {shorten(' '.join(words))!r}"
        raise file_error(source, what, rule="there must be one whole number per resource", line=last)
    return kinds, tuple(map(int, words))


def _rows(lines: list[_Line], problems: ProblemCollector) -> Iterator[tuple[int, list[int]]]:
    """Yield (line number, integers) for each line that begins with a digit; skip headings."""
    for number, words in lines:
        if words[0][0].isdigit():
            bad = next((word for word in words if not _WHOLE.fullmatch(word)), None)
            if bad is None:
                yield number, [int(word) for word in words]
            else:
                problems.add(f"{shorten(bad)!r}", rule="must be a whole number, at least 0", line=number)


def _modes(lines: list[_Line], resources: int, problems: ProblemCollector) -> dict[int, list[_ActivityMode]]:
    """Return the modes by number of the job; only the line of a job's first mode states this number."""
    found: dict[int, list[_ActivityMode]] = {}
    current: list[_ActivityMode] | None = None
    for number, row in _rows(lines, problems):
        if len(row) == resources + 3:
            if row[0] in found:
                problems.add(
                    f"a second job {row[0]}", rule="the modes of a job are listed together", line=number
                )
            current = found[row[0]] = []
            row = row[1:]
        if len(row) != resources + 2 or current is None:
            rule = f"a line is: job (in its first line), mode, duration, {resources} amounts"
            problems.add(f"a line with {len(row)} numbers", rule=rule, line=number)
            continue
        if row[0] != len(current) + 1:
            problems.add(f"mode {row[0]}", rule=f"mode {len(current) + 1} must come next", line=number)
        current.append(_ActivityMode(seconds=row[1], amounts=tuple(row[2:])))
    return found


def _jobs(
    lines: list[_Line], modes: dict[int, list[_ActivityMode]], problems: ProblemCollector
) -> tuple[_Activity, ...]:
    jobs: dict[int, _Activity] = {}
    for number, row in _rows(lines, problems):
        if len(row) < 3 or len(row) != row[2] + 3:
            rule = "a line is: job, number of modes, number of successors, successors"
            problems.add(f"a line with {len(row)} numbers", rule=rule, line=number)
            continue
        name, stated, successors = row[0], row[1], tuple(row[3:])
        if name in jobs:
            problems.add(f"a second job {name}", rule="numbers of jobs must be unique", line=number)
        if stated != len(modes.get(name, ())) or not stated:
            what = f"job {name} has {len(modes.get(name, ()))} modes, but this line states {stated}"
            problems.add(what, rule="the modes of every job are listed under REQUESTS/DURATIONS", line=number)
        jobs[name] = _Activity(
            number=name, line=number, modes=tuple(modes.get(name, ())), successors=successors
        )
    for job in jobs.values():
        for successor in job.successors:
            if successor not in jobs:
                what = f"job {job.number} has the successor {successor}"
                problems.add(what, rule="no job has this number", line=job.line)
    for name in modes:
        if name not in jobs:
            problems.add(f"job {name} has modes, but is not under PRECEDENCE RELATIONS")
    return tuple(jobs.values())


class Psplib(ReadOnlyFormat):
    """Projects of the project scheduling library, with their machine.

    R. Kolisch, A. Sprecher, PSPLIB: a project scheduling problem library, European Journal of Operational
    Research 96(1), 1997. A job becomes a task whose work is its duration; a renewable resource becomes a
    resource of the machine, a non-renewable one a budget. Mode k of a job is the node count k: its duration
    is in the table of measured seconds, its amounts are in tables by node count. The file is a platform, too
    (``--on FILE``): one machine with the renewable resources and enough nodes for all jobs. Jobs without
    duration and amounts become virtual tasks. Horizon, due date and tardiness cost are not read.
    """

    name = "psplib"
    title = "PSPLIB projects, single-mode and multi-mode"
    extensions: tuple[str, ...] = (".sm", ".mm")

    def recognises(self, source: SourceFile) -> bool:
        """Return whether the heading of the precedence relations occurs."""
        return _PRECEDENCE.search(source.head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return a project as a workflow. Raises InvalidInput."""
        project = _read_project(source)
        _check_durations(source, project)
        index = {job.number: position for position, job in enumerate(project.jobs)}
        parents: list[list[int]] = [[] for _ in project.jobs]
        for position, job in enumerate(project.jobs):
            for successor in dict.fromkeys(job.successors):
                parents[index[successor]].append(position)
        check_acyclic(source, [str(job.number) for job in project.jobs], parents)
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

    def read_platform(self, source: SourceFile) -> Platform:
        """Return the machine of a project as a platform. Raises InvalidInput."""
        project = _read_project(source)
        # Enough for all jobs at once, each in its last mode.
        nodes = sum(len(job.modes) for job in project.jobs)
        resources = {name: float(total) for name, total in _totals(project, "R").items()}
        machine = Machine(name="project", nodes=nodes, resources=resources)
        return Platform(name=source.stem, machines=(machine,), document=Document(file=source.name))


def _names(project: _ActivityNetwork) -> list[str]:
    """Return the names of the resources in the order of the file: kind and number, such as r1, r2, n1."""
    return [
        f"{kind.lower()}{project.kinds[: position + 1].count(kind)}"
        for position, kind in enumerate(project.kinds)
    ]


def _totals(project: _ActivityNetwork, kind: str) -> dict[str, int]:
    columns = zip(_names(project), project.kinds, project.totals, strict=True)
    return {name: total for name, of_kind, total in columns if of_kind == kind}


def _check_durations(source: SourceFile, project: _ActivityNetwork) -> None:
    problems = ProblemCollector(source)
    for job in project.jobs:
        durations = [mode.seconds for mode in job.modes]
        if len(durations) > 1 and min(durations) == 0:
            rule = "each of several modes must take some time"
            problems.add(f"job {job.number} has a mode of duration 0", rule=rule, line=job.line)
    problems.finish()


def _task(job: _Activity, project: _ActivityNetwork, after: tuple[Dependency, ...]) -> Task:
    seconds = {count: float(mode.seconds) for count, mode in enumerate(job.modes, start=1)}
    resources, consumes = _amounts(job, project, "R"), _amounts(job, project, "N")
    if seconds == {1: 0.0} and not resources and not consumes:
        return Task(name=str(job.number), kind=TaskKind.VIRTUAL, after=after)
    return Task(
        name=str(job.number),
        after=after,
        work=seconds[1],
        nodes=tuple(seconds),
        speedup=MeasuredSeconds(seconds=seconds) if len(seconds) > 1 else None,
        resources=resources,
        consumes=consumes,
    )


def _amounts(job: _Activity, project: _ActivityNetwork, kind: str) -> dict[str, Amount]:
    """Return by name the amounts of resources of one kind (R or N) that a job uses; zeros are left out."""
    columns = zip(*(mode.amounts for mode in job.modes), strict=True)
    listed = zip(_names(project), project.kinds, columns, strict=True)
    return {name: _amount(by_mode) for name, of_kind, by_mode in listed if of_kind == kind and any(by_mode)}


def _amount(by_mode: tuple[int, ...]) -> Amount:
    """Return one amount if it is the same in all modes, else the amounts by node count (the mode number)."""
    return by_mode[0] if len(set(by_mode)) == 1 else dict(enumerate(by_mode, start=1))
