"""The tables of a PSPLIB file, read and checked: jobs, their modes and successors, and the resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from weft.errors import shorten
from weft.formats.complaints import Complaints
from weft.formats.format import Source, damaged

__all__ = ["PRECEDENCE", "Job", "Mode", "Project", "read_project"]

PRECEDENCE = re.compile(r"^[ \t]*PRECEDENCE RELATIONS[ \t]*:", re.MULTILINE | re.IGNORECASE)
"""The heading every file has."""

_WHOLE = re.compile(r"[0-9]{1,9}")
_COLUMN = re.compile(r"([RND])\s*[0-9]+")
_HEADINGS = {
    "PRECEDENCERELATIONS": "precedence",
    "REQUESTS/DURATIONS": "requests",
    "RESOURCEAVAILABILITIES": "availabilities",
}
_Line = tuple[int, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way to do a job."""

    seconds: int
    amounts: tuple[int, ...]
    """Per resource, in the order of the project's ``kinds``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One activity, its modes in the order of their numbers."""

    number: int
    line: int
    modes: tuple[Mode, ...]
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A whole file."""

    kinds: str
    """Per resource: R (renewable) or N (non-renewable), such as ``RRNN``."""
    totals: tuple[int, ...]
    jobs: tuple[Job, ...]


def read_project(source: Source) -> Project:
    """Read the tables. Raises InvalidInput."""
    sections = _sections(source.text())
    for heading, name in _HEADINGS.items():
        if name not in sections:
            raise damaged(source, f"no section {heading}", advice="the file may be cut off")
    complaints = Complaints(source)
    kinds, totals = _availabilities(source, sections["availabilities"])
    modes = _modes(sections["requests"], len(kinds), complaints)
    jobs = _jobs(sections["precedence"], modes, complaints)
    complaints.finish()
    if not jobs:
        raise damaged(source, "no jobs", rule="a project has at least one job")
    return Project(kinds=kinds, totals=totals, jobs=jobs)


def _sections(text: str) -> dict[str, list[_Line]]:
    """Give the lines of the sections that are read, as words."""
    found: dict[str, list[_Line]] = {}
    current: list[_Line] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.split()
        heading = "".join(words).upper().rstrip(":")
        if heading in _HEADINGS:
            current = found.setdefault(_HEADINGS[heading], [])
        elif heading.startswith("***"):
            current = None
        elif current is not None and words:
            current.append((number, words))
    return found


def _availabilities(source: Source, lines: list[_Line]) -> tuple[str, tuple[int, ...]]:
    """Read the kinds of the resources from the line of their names, and the totals from the numbers below."""
    kinds, words = "", list[str]()
    first, last = (lines[0][0], lines[-1][0]) if lines else (None, None)
    for _, given in lines:
        if _WHOLE.fullmatch(given[0]):
            words += given
        else:
            kinds += "".join(_COLUMN.findall(" ".join(given).upper()))
    if "D" in kinds:
        rule = "resources are renewable (R) or non-renewable (N)"
        raise damaged(source, "a doubly constrained resource (D)", rule=rule, line=first)
    if len(words) != len(kinds) or not all(map(_WHOLE.fullmatch, words)):
        what = f"{shorten(' '.join(words))!r} as the totals of {len(kinds)} resources"
        raise damaged(source, what, rule="one whole number per resource", line=last)
    return kinds, tuple(map(int, words))


def _rows(lines: list[_Line], complaints: Complaints) -> Iterator[tuple[int, list[int]]]:
    """Give the lines that begin with a digit, as whole numbers; others are headings of columns."""
    for number, words in lines:
        if words[0][0].isdigit():
            bad = next((word for word in words if not _WHOLE.fullmatch(word)), None)
            if bad is None:
                yield number, [int(word) for word in words]
            else:
                complaints.add(f"{shorten(bad)!r}", rule="must be a whole number, at least 0", line=number)


def _modes(lines: list[_Line], resources: int, complaints: Complaints) -> dict[int, list[Mode]]:
    """Read the modes by job; only the first mode of a job names it."""
    found: dict[int, list[Mode]] = {}
    current: list[Mode] | None = None
    for number, row in _rows(lines, complaints):
        if len(row) == resources + 3:
            if row[0] in found:
                complaints.add(f"job {row[0]} again", rule="the modes of a job stand together", line=number)
            current = found[row[0]] = []
            row = row[1:]
        if len(row) != resources + 2 or current is None:
            rule = f"a line is: job (in its first line), mode, duration, {resources} amounts"
            complaints.add(f"{len(row)} numbers", rule=rule, line=number)
            continue
        if row[0] != len(current) + 1:
            complaints.add(f"mode {row[0]}", rule=f"mode {len(current) + 1} comes next", line=number)
        current.append(Mode(seconds=row[1], amounts=tuple(row[2:])))
    return found


def _jobs(lines: list[_Line], modes: dict[int, list[Mode]], complaints: Complaints) -> tuple[Job, ...]:
    """Read the jobs with their successors, and find their modes."""
    jobs: dict[int, Job] = {}
    for number, row in _rows(lines, complaints):
        if len(row) < 3 or len(row) != row[2] + 3:
            rule = "a line is: job, number of modes, number of successors, successors"
            complaints.add(f"{len(row)} numbers", rule=rule, line=number)
            continue
        name, stated, successors = row[0], row[1], tuple(row[3:])
        if name in jobs:
            complaints.add(f"job {name} again", rule="numbers of jobs are unique", line=number)
        if stated != len(modes.get(name, ())) or not stated:
            what = f"job {name} has {len(modes.get(name, ()))} modes, but this line says {stated}"
            complaints.add(what, rule="every job has its modes under REQUESTS/DURATIONS", line=number)
        jobs[name] = Job(number=name, line=number, modes=tuple(modes.get(name, ())), successors=successors)
    for job in jobs.values():
        for successor in job.successors:
            if successor not in jobs:
                what = f"job {job.number} has the successor {successor}"
                complaints.add(what, rule="no job has this number", line=job.line)
    for name in modes:
        if name not in jobs:
            complaints.add(f"job {name} has modes, but is not under PRECEDENCE RELATIONS")
    return tuple(jobs.values())
