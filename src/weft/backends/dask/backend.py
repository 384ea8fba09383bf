"""The Dask backend: each machine is a named worker of a Dask cluster.

On every worker weft's own runner is started (``local/runner.py``), so that limits, signals and the records of
ends are those of the other backends, and programs survive the engine. Dask only carries the messages: nothing
is submitted to its queue. The transport is that of ssh hosts, over another connection. A guard ends the
programs of a worker that was killed or stopped before the engine reports it as lost.

If ``shared`` is true, the worker sees the project's file system at the same path, and files are used in
place. Otherwise the worker has a disk of its own, and files pass through calls on the worker.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from weft.backends.attempt.backend import ProgramBackend
from weft.backends.backend import Capabilities, ProjectContext, find_unknown_keys
from weft.backends.bundle import bundle_name, make_bundle
from weft.backends.dask.connection import (
    LEASE_SHARE,
    WorkerConnection,
    WorkerConnections,
    WorkerSettings,
)
from weft.backends.layout import ProjectLayout, path_component
from weft.backends.ssh.backend import SshMachine, SshRunners, clean_host
from weft.backends.ssh.host import DEFAULT_SILENCE_S, HostError, HostFailure, read_silence
from weft.errors import InvalidInput, Problem, shorten
from weft.platform.machine import Machine
from weft.private_files import make_folder, write_file

_KEYS = ("kind", "scheduler", "worker", "sandbox", "shared", "silence", "cores")
_SHORTEST_SILENCE_S = 3.0


class DaskBackend(ProgramBackend):
    """Runs programs on the hosts of Dask workers."""

    kind: ClassVar[str] = "dask"
    capabilities: ClassVar[Capabilities] = Capabilities(
        runs_programs=True,
        virtual_time=False,
        reattaches=True,
        limits_time=True,
        limits_memory=True,
        signals=True,
        own_disk=True,
    )

    def __init__(self, context: ProjectContext, *, grace_s: float = math.inf) -> None:
        self._connections = WorkerConnections()
        self._workers = {
            index: DaskMachine(context.layout, machine, self._connections, context.is_known)
            for index, machine in enumerate(context.machines)
        }
        disks = {index: worker.disk for index, worker in self._workers.items() if not worker.shared}
        transport = partial(SshRunners, context, self._workers)
        super().__init__(context, transport, grace_s=grace_s, disks=disks)

    @staticmethod
    def check_machines(machines: Iterable[Machine]) -> None:
        """Raise InvalidInput for wrong settings, and if Dask is not installed.

        A scheduler or worker that does not answer is no problem: it may answer later.
        """
        problems = [problem for machine in machines for problem in _find_problems(machine)]
        if not problems and importlib.util.find_spec("distributed") is None:
            what = "backend kind 'dask' needs the package distributed, which is not installed"
            problems.append(Problem(what=what, advice="pip install 'weft[dask]'"))
        if problems:
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
        worker = DaskMachine(layout, machine, connections, lambda *_: False)
        try:
            return clean_host(worker, layout, machine, executions, spared, dry_run=dry_run)
        finally:
            worker.close(wait_s=0.0)
            connections.close()

    def close(self, *, stop: bool) -> None:
        """Disconnect from the workers; if ``stop`` is False, programs continue to run."""
        for worker in self._workers.values():
            worker.give_up()
        super().close(stop=stop)
        self._connections.close()


def _find_problems(machine: Machine) -> Iterator[Problem]:
    where, stated = f"machine {machine.name!r}: backend", machine.backend
    yield from find_unknown_keys(machine, _KEYS)
    scheduler = stated.get("scheduler")
    if not (isinstance(scheduler, str) and re.fullmatch(r"\w+://[^\s]+:\d+", scheduler)):
        what = f"{where}: scheduler {shorten(scheduler)}"
        yield Problem(what=what, rule="must be an address with a port", advice="write tcp://HOST:8786")
    worker = stated.get("worker")
    if isinstance(worker, bool) or not isinstance(worker, str | int) or not str(worker).isprintable():
        yield Problem(
            what=f"{where}: worker {shorten(worker)}",
            rule="must be the name of a Dask worker",
            advice="start workers with `dask worker ADDRESS --name NAME`",
        )
    sandbox = stated.get("sandbox")
    if sandbox is not None and not (isinstance(sandbox, str) and sandbox and sandbox.isprintable()):
        yield Problem(what=f"{where}: sandbox {shorten(sandbox)}", rule="must be a path")
    if not isinstance(stated.get("shared", False), bool):
        yield Problem(what=f"{where}: shared {shorten(stated['shared'])}", rule="must be true or false")
    try:
        silence_s = _read_silence(machine)
    except InvalidInput as error:
        yield from error.problems
    else:
        if silence_s < _SHORTEST_SILENCE_S:
            rule = f"must be at least {_SHORTEST_SILENCE_S:g} s"
            yield Problem(what=f"{where}: silence {silence_s:g} s", rule=rule)


def _read_silence(machine: Machine) -> float:
    path = ("machines", machine.name, "backend")
    return read_silence(machine.backend.get("silence", DEFAULT_SILENCE_S), path)


class DaskMachine(SshMachine):
    """One machine: its worker, its bridge and its disk."""

    settings: WorkerSettings

    def __init__(
        self,
        layout: ProjectLayout,
        machine: Machine,
        connections: WorkerConnections,
        is_known: Callable[[int, int, str], bool],
    ) -> None:
        self.shared = not machine.has_own_disk
        self._local_sandbox = layout.sandbox(machine)
        super().__init__(layout, machine, connections, is_known)  # type: ignore[arg-type]

    def _read_settings(self, machine: Machine) -> WorkerSettings:
        if problems := list(_find_problems(machine)):
            raise InvalidInput(problems)
        stated = machine.backend
        scheduler, worker = str(stated["scheduler"]), str(stated["worker"])
        return WorkerSettings(
            host=f"{worker} (Dask worker at {scheduler})",
            scheduler=scheduler,
            worker=worker,
            silence_s=_read_silence(machine),
        )

    def _read_words(self, machine: Machine) -> tuple[str, str]:
        if self.shared:
            return str(self._local_sandbox), ""
        # Workers of one host share its home folder; each has a sandbox of its own.
        default = f".cache/weft/sandbox/{path_component(machine.host_name)}"
        return str(machine.backend.get("sandbox", default)), ""

    def _name_disk(self) -> str:
        address = self.settings.scheduler.partition("://")[2]
        return f"dask://{address}/{path_component(self.settings.worker)}"

    def _copy_bundle(self, connection: WorkerConnection) -> str:  # type: ignore[override]
        self._python, path = connection.install(bundle_name(), make_bundle())
        if self.shared:
            self._check_sharing(connection)
        return path

    def _check_sharing(self, connection: WorkerConnection) -> None:
        """Raise HostError if the worker does not see a file that was just written to the sandbox."""
        text = os.urandom(8).hex()
        make_folder(self._local_sandbox)
        probe = self._local_sandbox / f".shared-{text}"
        write_file(probe, text.encode())
        try:
            if connection.call("read_text", str(probe)) != text:
                what = f"it does not see the file system of this project at {self._local_sandbox}"
                advice = "mount it there, or set `shared: false`, then files are sent to the worker"
                raise HostError(self.settings.host, HostFailure.INVALID_CONFIG, what, advice)
        finally:
            probe.unlink(missing_ok=True)

    def _serve_bridge(
        self, greeting: Callable[[], dict[str, Any]], deliver: Callable[[dict[str, Any]], None]
    ) -> None:
        def guarded() -> dict[str, Any]:
            place = greeting()
            folder = f"{self.disk.sandbox}/{place['folder']}"
            lease_s = LEASE_SHARE * self.settings.silence_s
            words = [self._python, "-I", "-S", self._bundle, "guard", folder, f"{lease_s:g}"]
            settings = json.dumps({"token": place["token"], "scope": place["scope"]}).encode()
            connection: Any = self._connect()
            connection.guard(words, folder, settings)
            return place

        super()._serve_bridge(guarded, deliver)
