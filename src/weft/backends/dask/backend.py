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
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, ClassVar

from weft.backends.attempt.backend import ProgramBackend
from weft.backends.backend import Capabilities, ProjectContext, find_unknown_keys
from weft.backends.bundle import bundle_name, make_bundle
from weft.backends.dask.connection import (
    LEASE_SHARE,
    SILENCE_S,
    WorkerConnection,
    WorkerConnections,
    WorkerSettings,
)
from weft.backends.layout import path_component
from weft.backends.ssh.backend import SshMachine, SshRunners
from weft.backends.ssh.host import HostError, HostFailure
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
            index: DaskMachine(context, index, self._connections) for index in range(len(context.machines))
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
    silence = stated.get("silence", SILENCE_S)
    is_number = isinstance(silence, int | float) and not isinstance(silence, bool)
    if not (is_number and _SHORTEST_SILENCE_S <= float(str(silence)) < math.inf):
        rule = f"must be a number of seconds, at least {_SHORTEST_SILENCE_S:g}"
        yield Problem(what=f"{where}: silence {shorten(silence)}", rule=rule)


class DaskMachine(SshMachine):
    """One machine: its worker, its bridge and its disk."""

    settings: WorkerSettings

    def __init__(self, context: ProjectContext, index: int, connections: WorkerConnections) -> None:
        machine = context.machines[index]
        self.shared = machine.backend.get("shared") is True
        self._local_sandbox = context.layout.sandbox(machine)
        super().__init__(context, index, connections)  # type: ignore[arg-type]

    def _read_settings(self, machine: Machine) -> WorkerSettings:
        if problems := list(_find_problems(machine)):
            raise InvalidInput(problems)
        stated = machine.backend
        scheduler, worker = str(stated["scheduler"]), str(stated["worker"])
        return WorkerSettings(
            host=f"{worker} (Dask worker at {scheduler})",
            scheduler=scheduler,
            worker=worker,
            silence_s=float(str(stated.get("silence", SILENCE_S))),
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
