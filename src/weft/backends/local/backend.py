"""The local backend: named machines on this host, each with a sandbox and a runner process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar

from weft.backends.attempt.backend import BackendPart, ProgramBackend
from weft.backends.backend import ProjectContext, find_unknown_keys
from weft.backends.local.link import RunnerPool
from weft.errors import InvalidInput, Problem
from weft.platform.machine import Machine

_KEYS = ("kind", "cores", "sandbox")


class LocalBackend(ProgramBackend):
    """Runs programs on this host."""

    kind: ClassVar[str] = "local"

    @classmethod
    def part(cls, context: ProjectContext, machines: Sequence[int]) -> BackendPart:
        """Return the transport to these machines."""
        connect = partial(RunnerPool, context, machines=machines)
        return BackendPart(capabilities=cls.capabilities, connect=connect)

    @staticmethod
    def check_machines(machines: Iterable[Machine]) -> None:
        """Raise InvalidInput for unknown keys, unavailable cores and invalid sandboxes of machines."""
        available = sorted(os.sched_getaffinity(0))
        problems = [problem for machine in machines for problem in _problems(machine, available)]
        if problems:
            raise InvalidInput(problems)


def _problems(machine: Machine, available: list[int]) -> Iterator[Problem]:
    where = f"machine {machine.name!r}: backend"
    yield from find_unknown_keys(machine, _KEYS)
    cores, sandbox = machine.backend.get("cores"), machine.backend.get("sandbox")
    listed = isinstance(cores, list | tuple) and bool(cores) and all(core in available for core in cores)
    if cores is not None and not listed:
        rule = f"must be a list of cores that weft may use here ({', '.join(map(str, available))})"
        yield Problem(what=f"{where}: cores {cores!r}", rule=rule)
    if sandbox is not None and not (isinstance(sandbox, str) and sandbox):
        yield Problem(what=f"{where}: sandbox {sandbox!r}", rule="must name a directory")
