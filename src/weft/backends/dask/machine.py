"""A Dask worker as a host with weft's runner: its settings, connection, bridge, guard and disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from weft.backends.backend import find_unknown_keys
from weft.backends.bundle import bundle_name, make_bundle
from weft.backends.dask.connection import LEASE_SHARE, WorkerConnection, WorkerConnections, WorkerSettings
from weft.backends.layout import ProjectLayout, path_component
from weft.backends.ssh.backend import SshMachine
from weft.backends.ssh.host import DEFAULT_SILENCE_S, HostError, HostFailure, read_silence
from weft.errors import InvalidInput, Problem, shorten
from weft.platform.machine import Machine
from weft.private_files import make_folder, write_file

_KEYS = ("kind", "scheduler", "worker", "workers", "sandbox", "shared", "silence", "cores")
_SHORTEST_SILENCE_S = 3.0


def find_problems(machine: Machine) -> Iterator[Problem]:
    """Yield the problems of a machine's ``backend``."""
    where, stated = f"machine {machine.name!r}: backend", machine.backend
    yield from find_unknown_keys(machine, _KEYS)
    scheduler = stated.get("scheduler")
    if not (isinstance(scheduler, str) and re.fullmatch(r"\w+://[^\s]+:\d+", scheduler)):
        what = f"{where}: scheduler {shorten(scheduler)}"
        yield Problem(what=what, rule="must be an address with a port", advice="write tcp://HOST:8786")
    yield from _find_wrong_workers(machine)
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


def _find_wrong_workers(machine: Machine) -> Iterator[Problem]:
    where, stated = f"machine {machine.name!r}: backend", machine.backend
    advice = "start workers with `dask worker ADDRESS --name NAME`"
    if ("worker" in stated) == ("workers" in stated):
        rule = "must have either worker (a name) or workers (a list of names)"
        yield Problem(what=where, rule=rule, advice=advice)
        return
    if "worker" in stated:
        if not _is_name(stated["worker"]):
            what = f"{where}: worker {shorten(stated['worker'])}"
            yield Problem(what=what, rule="must be the name of a Dask worker", advice=advice)
        return
    names = stated["workers"]
    is_list = isinstance(names, list | tuple) and len(names) > 0 and all(map(_is_name, names))
    if not is_list or len(set(map(str, names))) != len(names):  # type: ignore[call-overload,arg-type]
        rule = "must be names of Dask workers, each once"
        yield Problem(what=f"{where}: workers {shorten(names)}", rule=rule, advice=advice)
    if stated.get("shared") is not True:
        rule = "the workers of a group must see the file system of the project"
        yield Problem(
            what=f"{where}: workers without `shared: true`",
            rule=rule,
            advice="set it, or describe every worker as a machine",
        )


def _is_name(name: object) -> bool:
    return isinstance(name, str | int) and not isinstance(name, bool) and str(name).strip().isprintable()


def list_workers(machine: Machine) -> tuple[str, ...]:
    """Return the names of the workers of a machine."""
    stated = machine.backend
    names = stated["workers"] if "workers" in stated else [stated["worker"]]
    assert isinstance(names, list | tuple)
    return tuple(map(str, names))


def _read_silence(machine: Machine) -> float:
    path = ("machines", machine.name, "backend")
    return read_silence(machine.backend.get("silence", DEFAULT_SILENCE_S), path)


class DaskMachine(SshMachine):
    """One worker of a machine: its connection, its bridge and its disk."""

    settings: WorkerSettings

    def __init__(
        self,
        layout: ProjectLayout,
        machine: Machine,
        connections: WorkerConnections,
        is_known: Callable[[int, int, str], bool],
        worker: str,
    ) -> None:
        self._worker = worker
        self.shared = not machine.has_own_disk
        self._local_sandbox = layout.sandbox(machine)
        super().__init__(layout, machine, connections, is_known)  # type: ignore[arg-type]

    def _read_settings(self, machine: Machine) -> WorkerSettings:
        scheduler, worker = str(machine.backend["scheduler"]), self._worker
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
