"""What a platform file states of a machine of this computer under ``backend:``, and what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from weft.errors import InvalidInput, Problem, nearest
from weft.platform.machine import Machine

__all__ = ["refuse_misstated"]

_KEYS = ("kind", "cores", "sandbox")


def refuse_misstated(machines: Iterable[Machine]) -> None:
    """Refuse machines that ask for what this computer does not have, or in words that nobody knows."""
    there = sorted(os.sched_getaffinity(0))
    problems = [problem for machine in machines for problem in _problems(machine, there)]
    if problems:
        raise InvalidInput(problems)


def _problems(machine: Machine, there: list[int]) -> Iterator[Problem]:
    where = f"machine {machine.name!r}: backend"
    for key in machine.backend:
        if key not in _KEYS:
            near = nearest(key, _KEYS)
            advice = f"did you mean {near!r}?" if near else f"known: {', '.join(_KEYS)}"
            yield Problem(what=f"{where}: unknown key {key!r}", advice=advice)
    cores, sandbox = machine.backend.get("cores"), machine.backend.get("sandbox")
    if cores is not None and not _is_some_of(cores, there):
        rule = f"must be a list of cores that weft may use here ({', '.join(map(str, there))})"
        yield Problem(what=f"{where}: cores {cores!r}", rule=rule)
    if sandbox is not None and not (isinstance(sandbox, str) and sandbox):
        yield Problem(what=f"{where}: sandbox {sandbox!r}", rule="must name a directory")


def _is_some_of(cores: object, there: list[int]) -> bool:
    return isinstance(cores, list | tuple) and bool(cores) and all(core in there for core in cores)
