"""The Dask backend: each machine is a named worker of a Dask cluster, or a group of alike workers.

On every worker weft's own runner is started (``runner/runner.py``), so that limits, signals and the records
of ends are those of the other backends, and programs survive the engine. Dask only carries the messages:
nothing is submitted to its queue. The transport is that of ssh hosts, over another connection. A guard ends
the programs of a worker that was killed or stopped before the engine reports it as lost.

If ``shared`` is true, the worker sees the project's file system at the same path, and files are used in
place. Otherwise the worker has a disk of its own, and files pass through calls on the worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from weft.backends.attempt.backend import BackendPart, ProgramBackend
from weft.backends.backend import Capabilities, ProjectContext
from weft.backends.dask.connection import WorkerConnections
from weft.backends.dask.workers import (
    DaskMachine,
    WorkerGroups,
    find_missing_package,
    find_problems,
    list_workers,
)
from weft.backends.layout import ProjectLayout
from weft.backends.ssh.backend import clean_host
from weft.errors import InvalidInput
from weft.platform.machine import Machine


class DaskBackend(ProgramBackend):
    """Runs programs on the hosts of Dask workers."""

    kind: ClassVar[str] = "dask"
    capabilities: ClassVar[Capabilities] = replace(ProgramBackend.capabilities, own_disk=True)

    @classmethod
    def part(cls, context: ProjectContext, machines: Sequence[int]) -> BackendPart:
        """Return the transport to these machines, their disks, and the connections for both."""
        connections = WorkerConnections()
        groups = {
            index: [
                DaskMachine(
                    context.layout,
                    context.machines[index],
                    connections,
                    context.is_known,
                    name,
                    context.project,
                )
                for name in list_workers(context.machines[index])
            ]
            for index in machines
        }

        def give_up() -> None:
            for group in groups.values():
                for worker in group:
                    worker.give_up()

        return BackendPart(
            capabilities=cls.capabilities,
            connect=partial(WorkerGroups, context, groups),
            disks={index: group[0].disk for index, group in groups.items() if not group[0].shared},
            give_up=give_up,
            release=connections.close,
            find_silence=lambda machine: min(worker.unheard_s for worker in groups[machine]),
        )

    @staticmethod
    def check_machines(machines: Iterable[Machine]) -> None:
        """Raise InvalidInput for wrong settings, and if Dask is not installed.

        A scheduler or worker that does not answer is no problem: it may answer later.
        """
        problems = [problem for machine in machines for problem in find_problems(machine)]
        if problems := problems or list(find_missing_package()):
            raise InvalidInput(problems)

    @staticmethod
    def clean_machine(
        layout: ProjectLayout,
        machine: Machine,
        executions: Mapping[int, str],
        spared: Iterable[str],
        *,
        dry_run: bool,
    ) -> Mapping[str, Any]:
        """Remove the directories of finished executions on a worker; see ``SshBackend.clean_machine``."""
        connections = WorkerConnections()
        worker = DaskMachine(layout, machine, connections, lambda *_: False, list_workers(machine)[0])
        try:
            return clean_host(worker, layout, machine, executions, spared, dry_run=dry_run)
        finally:
            worker.close(wait_s=0.0)
            connections.close()
