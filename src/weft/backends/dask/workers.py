"""Dask workers as hosts with weft's runner, and the transport to machines that are groups of alike workers.

Every worker has a runner, and the transport of runners (``SshRunners``) treats every worker as a machine of
its own. ``WorkerGroups`` translates between machines and workers. A program gets the worker whose programs
use the fewest cores, the first of equals. A worker that is lost ends its own programs only; the machine is
lost when all its workers are. The workers of a group see the same files, so any of them can run any program.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import select
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.backends.attempt.attempt import ProgramReport
from weft.backends.attempt.backend import SurvivingPrograms
from weft.backends.attempt.command import RUN_MODULE
from weft.backends.attempt.modules import is_module_number
from weft.backends.backend import ProjectContext, RecoveredAttempt, find_unknown_keys
from weft.backends.bundle import bundle_name, make_bundle
from weft.backends.dask.connection import LEASE_SHARE, WorkerConnection, WorkerConnections, WorkerSettings
from weft.backends.layout import ProjectLayout, path_component
from weft.backends.ssh.backend import SshMachine, SshRunners
from weft.backends.ssh.connection import HostConnection
from weft.backends.ssh.host import DEFAULT_SILENCE_S, HostError, HostFailure, read_silence
from weft.errors import InvalidInput, Problem, shorten
from weft.platform.machine import Machine
from weft.private_files import make_folder, write_file

_KEYS = ("kind", "scheduler", "worker", "workers", "sandbox", "shared", "silence", "cores")
_SHORTEST_SILENCE_S = 3.0
_ABSENT_S = 5.0
"""Seconds after which a worker is lost if nothing has listened at the address of its scheduler so far."""


def find_problems(machine: Machine) -> Iterator[Problem]:
    """Yield the problems of a machine's ``backend``."""
    where, stated = f"machine {machine.name!r}: backend", machine.backend
    yield from find_unknown_keys(machine, _KEYS)
    yield from find_address_problems(stated.get("scheduler"), f"{where}: ")
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


def find_address_problems(scheduler: object, where: str = "") -> Iterator[Problem]:
    """Yield the problem of the address of a scheduler; ``where`` is the start of the message."""
    what = f"{where}scheduler {shorten(scheduler)}"
    found = re.fullmatch(r"\w+://[^\s]+:([0-9]+)", scheduler) if isinstance(scheduler, str) else None
    if found is None:
        yield Problem(what=what, rule="must be an address with a port", advice="write tcp://HOST:8786")
    elif not 0 < int(found[1][:9]) < 65536:
        yield Problem(what=what, rule="its port must be from 1 to 65535", advice="write tcp://HOST:8786")


def find_missing_package() -> Iterator[Problem]:
    """Yield a problem if Dask is not installed."""
    if importlib.util.find_spec("distributed") is None:
        what = "backend kind 'dask' needs the package distributed, which is not installed"
        yield Problem(what=what, advice="pip install 'weft[dask]'")


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
        project: str = "",
    ) -> None:
        """Create a machine without a connection; ``project`` is the identity of a project with tasks."""
        self._worker = worker
        self.shared = not machine.has_own_disk
        self._local_sandbox = layout.sandbox(machine)
        self._is_absent = False
        super().__init__(layout, machine, connections, is_known, project)  # type: ignore[arg-type]

    def _read_settings(self, machine: Machine) -> WorkerSettings:
        scheduler, worker = str(machine.backend["scheduler"]), self._worker
        return WorkerSettings(
            host=f"{worker} (Dask worker at {scheduler})",
            scheduler=scheduler,
            worker=worker,
            silence_s=_read_silence(machine),
        )

    @property
    def silence_s(self) -> float:
        """Return the seconds without an answer after which the worker is lost.

        They are few if its scheduler was never reached and is not there: its address may be wrong.
        """
        is_absent = self._is_absent and not self.was_reached
        return min(self.settings.silence_s, _ABSENT_S) if is_absent else self.settings.silence_s

    def _connect(self) -> HostConnection:
        try:
            return super()._connect()
        except HostError as error:
            self._is_absent = error.cause in {HostFailure.REFUSED, HostFailure.CANNOT_RESOLVE}
            raise

    no_routes = "Dask workers accept no direct copies"

    def list_routes(self) -> Sequence[Sequence[str]]:
        """Return (): workers do not accept connections of other hosts."""
        return ()

    def _read_words(self, machine: Machine) -> tuple[str, str]:
        if self.shared:
            return str(self._local_sandbox), ""
        # Workers of one host share its home folder; each has a sandbox of its own.
        default = f".cache/weft/sandbox/{path_component(machine.host_name)}"
        return str(machine.backend.get("sandbox", default)), ""

    def _name_disk(self) -> str:
        address = self.settings.scheduler.partition("://")[2]
        return f"dask://{address}/{path_component(self.settings.worker)}"

    def _name_disk_of_earlier_versions(self) -> str:
        return self._name_disk()

    def _copy_bundle(self, connection: WorkerConnection) -> str:  # type: ignore[override]
        self._python, path = connection.install(bundle_name(), make_bundle())
        if self.shared:
            self._check_sharing(connection)
        return path

    def _find_python(self, connection: WorkerConnection) -> str:  # type: ignore[override]
        return str(connection.call("describe")["python"])

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


def _set_module_path(order: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an order in which a module of weft, such as a function's, has the module path of this process.

    Without this, the program would have that of the worker, which may contain other modules, or no weft.
    """
    env: Mapping[str, Any] = order.get("env") or {}
    is_module = tuple(order["argv"][: len(RUN_MODULE)]) == RUN_MODULE or "WEFT_FOLDER" in env
    if not is_module or "PYTHONPATH" in env:
        return order
    return {**order, "env": {"PYTHONPATH": os.environ.get("PYTHONPATH"), **env}}


_PLACE = "worker"
"""File in the records of an attempt with the name of its worker."""


class WorkerGroups:
    """Transport to machines with one or more workers."""

    def __init__(
        self,
        context: ProjectContext,
        groups: Mapping[int, Sequence[DaskMachine]],
        poller: select.poll,
    ) -> None:
        """Create the transport; ``groups`` are the workers by machine."""
        self._units: dict[int, list[int]] = {}
        """By machine: the numbers of its workers."""
        self._machine_of: dict[int, int] = {}
        hosts: dict[int, DaskMachine] = {}
        described: list[Machine] = []
        for machine, workers in groups.items():
            self._units[machine] = list(range(len(hosts), len(hosts) + len(workers)))
            for worker in workers:
                self._machine_of[len(hosts)] = machine
                hosts[len(hosts)] = worker
                described.append(_describe_worker(context.machines[machine], worker, len(workers)))
        self._context = context
        self._workers = hosts
        self._runners = SshRunners(replace(context, machines=tuple(described)), hosts, poller)
        self._unit_of: dict[int, int] = {}
        """By attempt: the number of its worker."""
        self._cores: dict[int, int] = {}
        """By attempt whose program may run: its cores."""
        self._nonces: dict[int, str] = {}
        self._lost: dict[int, str] = {}
        """By number of a lost worker: the reason."""
        self._silent: set[int] = set()
        """Workers that do not answer and are not lost."""
        self._measured: dict[int, ProgramReport] = {}

    # Requests.

    def start(self, machine: int, order: Mapping[str, Any]) -> str:
        """Start a program on a worker of a machine; return why this is impossible, or ""."""
        attempt, beside = int(order["attempt"]), order.get("beside")
        units = [unit for unit in self._units[machine] if unit not in self._lost]
        if not units:
            return self._lost[self._units[machine][0]]
        unit = self._unit_of.get(beside) if beside is not None else None
        if unit is None:
            unit = min(units, key=self._count_cores)
        nonce = str(order["nonce"])
        if len(self._units[machine]) > 1 and not is_module_number(attempt):
            try:
                place = self._place_file(attempt, nonce)
                make_folder(place.parent)
                write_file(place, self._workers[unit].settings.worker.encode(), is_private=True)
            except OSError as error:
                return f"its worker cannot be recorded: {error.strerror}"
        self._unit_of[attempt], self._nonces[attempt] = unit, nonce
        self._cores[attempt] = int(order.get("cores") or 1)
        if self._workers[unit].shared:
            order = _set_module_path(order)
        return self._runners.start(unit, order)

    def _count_cores(self, unit: int) -> int:
        return sum(cores for attempt, cores in self._cores.items() if self._unit_of[attempt] == unit)

    def cancel(self, machine: int, attempt: int, grace_s: float) -> None:
        """Terminate a program; if it still runs after ``grace_s`` seconds, kill it."""
        self._runners.cancel(self._find_unit(machine, attempt), attempt, grace_s)

    def signal(self, machine: int, attempt: int, name: str) -> None:
        """Send the signal ``name`` to a program."""
        self._runners.signal(self._find_unit(machine, attempt), attempt, name)

    def forget(self, machine: int, attempt: int) -> None:
        """Drop the stored end of an attempt's program."""
        self._runners.forget(self._find_unit(machine, attempt), attempt)
        self._end(attempt)
        self._unit_of.pop(attempt, None)

    def _find_unit(self, machine: int, attempt: int) -> int:
        return self._unit_of.get(attempt, self._units[machine][0])

    def measure(self, machine: int, every_s: float) -> None:
        """Measure the state of all workers of a machine every ``every_s`` seconds."""
        for unit in self._units[machine]:
            self._runners.measure(unit, every_s)

    def inspect(self, machine: int) -> str:
        """Return why a machine cannot run programs now; "": one of its workers can."""
        reasons = [self._runners.inspect(unit) for unit in self._units[machine]]
        return reasons[0] if all(reasons) else ""

    def responds(self, machine: int) -> bool:
        """Return whether the runners of all workers that are not lost have responded recently."""
        return all(self._runners.responds(unit) for unit in self._units[machine] if unit not in self._lost)

    def reattach(self, machine: int) -> None:
        """Do nothing: the thread of a worker connects again by itself."""

    def flush(self) -> None:
        """Send the messages to each worker together."""
        self._runners.flush()

    # Reports.

    def receive(self, descriptor: int) -> list[ProgramReport]:
        """Return the reports that have arrived."""
        return self._translate(self._runners.receive(descriptor))

    def check(self) -> list[ProgramReport]:
        """Return reports on workers that were lost since the last call."""
        return self._translate(self._runners.check())

    def _translate(self, reports: Iterable[ProgramReport]) -> list[ProgramReport]:
        found: list[ProgramReport] = []
        for report in reports:
            if "machine" in report:
                found += self._translate_machine(report)
                continue
            if report["is"] == "ended":
                self._end(int(report["attempt"]))
            found.append(report)
        return found

    def _translate_machine(self, report: ProgramReport) -> list[ProgramReport]:
        unit = int(report["machine"])
        machine = self._machine_of[unit]
        units = self._units[machine]
        if report["is"] == "measured":
            self._measured[unit] = report
            return [self._sum_measurements(machine, report)]
        if report["is"] in ("silent", "answers"):
            return self._translate_contact(unit, report)
        is_silent = unit in self._silent
        self._silent.discard(unit)
        if report["is"] == "back":
            was_lost = all(each in self._lost for each in units)
            self._lost.pop(unit, None)
            return [{**report, "machine": machine}] if was_lost else []
        self._lost[unit] = str(report["text"])
        self._measured.pop(unit, None)
        if all(each in self._lost for each in units):
            return [{**report, "machine": machine}]
        ended = [attempt for attempt in self._cores if self._unit_of[attempt] == unit]
        lost = {"is": "ended", "cause": "lost", "text": report["text"]}
        for attempt in ended:
            self._end(attempt)
        reports = [{**lost, "attempt": attempt, "nonce": self._nonces[attempt]} for attempt in ended]
        answers = {"is": "answers", "machine": unit, "silent_s": 0.0}
        return [*(self._translate_contact(unit, answers) if is_silent else []), *reports]

    def _translate_contact(self, unit: int, report: ProgramReport) -> list[ProgramReport]:
        """Return a report on a machine, which is silent while one of its workers is."""
        machine = self._machine_of[unit]
        if report["is"] == "silent":
            self._silent.add(unit)
        else:
            self._silent.discard(unit)
            if self._silent & set(self._units[machine]):
                return []
        return [{**report, "machine": machine}]

    def _sum_measurements(self, machine: int, report: ProgramReport) -> ProgramReport:
        """Return load and memory of all workers, and the smallest free disk."""
        own = [self._measured[unit] for unit in self._units[machine] if unit in self._measured]
        combine: dict[str, Callable[[list[float]], float]] = {
            "load": sum, "memory_bytes": sum, "disk_bytes": min
        }  # fmt: skip
        found = {key: [each[key] for each in own if each.get(key) is not None] for key in combine}
        values = {key: combine[key](each) if each else None for key, each in found.items()}
        return {**report, "machine": machine, **values}

    def _end(self, attempt: int) -> None:
        self._cores.pop(attempt, None)

    # Start and end of the engine.

    def recover(self, attempts: Sequence[RecoveredAttempt]) -> SurvivingPrograms:
        """Connect to the workers of these attempts; return their programs.

        The worker of an attempt is recorded in its folder of records before its program is started. Without
        this record no program was started; then all workers are connected, to end a prolog.
        """
        sought: list[RecoveredAttempt] = []
        unplaced: list[tuple[int, int]] = []
        for each in attempts:
            unit = self._read_place(each)
            if unit is None:
                unplaced += [(unit, each.attempt) for unit in self._units[each.machine]]
                sought += [replace(each, machine=unit) for unit in self._units[each.machine]]
                continue
            self._unit_of[each.attempt], self._nonces[each.attempt] = unit, each.nonce
            self._cores[each.attempt] = each.count
            sought.append(replace(each, machine=unit))
        found = self._runners.recover(sought)
        for unit, attempt in unplaced:
            self._runners.drop_order(unit, attempt)
            found.running.discard(attempt)
        return found

    def _place_file(self, attempt: int, nonce: str) -> Path:
        return self._context.layout.records(self._context.execution, attempt, nonce) / _PLACE

    def _read_place(self, attempt: RecoveredAttempt) -> int | None:
        """Return the number of the worker on which an earlier engine started an attempt; None: on none."""
        units = self._units[attempt.machine]
        if len(units) == 1:
            return units[0]
        try:
            name = self._place_file(attempt.attempt, attempt.nonce).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None
        return next((unit for unit in units if self._workers[unit].settings.worker == name), None)

    def close(self, *, stop: bool) -> None:
        """Disconnect from all workers; with ``stop``, the runners exit when no program runs."""
        self._runners.close(stop=stop)


def _describe_worker(machine: Machine, worker: DaskMachine, count: int) -> Machine:
    """Return a worker of a group as a machine of its own."""
    if count == 1:
        return machine
    name = f"{machine.name}.{worker.settings.worker}"
    return replace(machine, name=name, nodes=-(-machine.nodes // count))
