"""The ssh backend: hosts that are reached by ssh, each with its own disk and one runner per machine.

A thread per machine connects to its host, copies the bundle there once per version of weft, starts the bridge
(``runner/bridge.py``) and passes its messages to the thread of the engine. While a connection is lost, the
state of the host is unknown: its programs go on, orders wait, and the thread connects again after pauses that
double. A host that cannot be reached for longer than the stated silence is reported as lost.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

from weft.backends.attempt.attempt import ProgramReport
from weft.backends.attempt.backend import BackendPart, ProgramBackend, SurvivingPrograms
from weft.backends.attempt.content import check_interruption
from weft.backends.attempt.host_files import decode_problem
from weft.backends.attempt.remote_disk import ARRIVALS, RemoteDisk
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.backend import Capabilities, ProjectContext, RecoveredAttempt
from weft.backends.bundle import MEMORY_MAIN, bundle_name, make_bundle
from weft.backends.layout import ProjectLayout, path_component
from weft.backends.runner.records import encode_record
from weft.backends.runner.runner_link import RunnerScope, read_message
from weft.backends.ssh.connection import (
    HostConnection,
    HostConnections,
    LineChannel,
    list_routes,
)
from weft.backends.ssh.host import HostError, HostFailure, HostSettings, read_host_settings
from weft.errors import InvalidInput, Problem, WeftError, shorten
from weft.platform.machine import Machine
from weft.private_files import make_folder, write_file

_DEFAULT_FOLDER = ".cache/weft"
"""Folder on a host, below the home folder, for the bundle and, by default, the sandbox."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_SHORTEST_CONNECT_S, _CONNECT_S = 5.0, 20.0
_RECOVER_S = 30.0
"""Seconds for which a new engine waits for the hosts on which programs were running."""
_DELAYED_S = 2.0
"""A report that took longer than this to arrive does not show when the program ended."""

_SILENT_S = 5.0
"""Seconds without a sign of life after which a runner counts as unresponsive, while it is connected."""
_END_S = 5.0
_RETRY_S = 0.2


class SshBackend(ProgramBackend):
    """Runs programs on hosts that are reached by ssh."""

    kind: ClassVar[str] = "ssh"
    capabilities: ClassVar[Capabilities] = replace(ProgramBackend.capabilities, own_disk=True)

    @classmethod
    def part(cls, context: ProjectContext, machines: Sequence[int]) -> BackendPart:
        """Return the transport to these machines, their disks, and the connections for both."""
        connections = HostConnections()
        hosts = {
            index: SshMachine(
                context.layout, context.machines[index], connections, context.is_known, context.project
            )
            for index in machines
        }

        def give_up() -> None:
            for host in hosts.values():
                host.give_up()

        return BackendPart(
            capabilities=cls.capabilities,
            connect=partial(SshRunners, context, hosts),
            disks={index: host.disk for index, host in hosts.items()},
            give_up=give_up,
            release=connections.close,
            find_silence=lambda machine: hosts[machine].unheard_s,
        )

    @staticmethod
    def check_machines(machines: Iterable[Machine]) -> None:
        """Raise InvalidInput for unknown keys and invalid values of machines."""
        problems: list[Problem] = []
        for machine in machines:
            try:
                read_host_settings(machine.backend, machine.name)
                _read_words(machine)
            except InvalidInput as error:
                problems += error.problems
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
        """Remove the directories of finished executions on a host, except for products in ``spared``.

        ``executions`` has by number the identity of the project. Return ``files``, ``freed_bytes`` and
        ``folders`` (see ``HostFiles.clean``), and ``spared``, the number of products that stay. Raises
        WeftError if the host cannot be reached.
        """
        connections = HostConnections()
        host = SshMachine(layout, machine, connections, lambda *_: False)
        try:
            return clean_host(host, layout, machine, executions, spared, dry_run=dry_run)
        finally:
            host.close(wait_s=0.0)
            connections.close()


def clean_host(
    host: SshMachine,
    layout: ProjectLayout,
    machine: Machine,
    executions: Mapping[int, str],
    spared: Iterable[str],
    *,
    dry_run: bool,
) -> Mapping[str, Any]:
    """Remove the directories of executions on a host (see ``SshBackend.clean_machine``).

    Nothing is written there, because its disk may be full.
    """
    folders: list[str] = []
    for number, project in executions.items():
        own = layout.own_sandbox(machine, project).name
        scope = _runner_scope(layout, project, number)
        folders += [f"{own}/{number}", f"{own}/records/{number}", f"runners/{scope}"]
        folders += [arrivals] if (arrivals := f"{own}/{ARRIVALS}") not in folders else []
    host.writes_bundle = False
    described = host.call_once("describe", sandbox=host.sandbox)
    name = host.disk.name
    kept = [path for each in spared if (path := host.disk.find_path(each)) is not None]
    found: Mapping[str, Any] = host.call_once(
        "clean", sandbox=described["sandbox"], folders=folders, spared=kept, dry_run=dry_run
    )
    removed = [f"{name}{folder}" for folder in found["folders"]]
    return {**found, "folders": removed, "spared": len(kept)}


def _read_words(machine: Machine) -> tuple[str, str]:
    """Return the sandbox and the Python interpreter of a machine."""
    found = []
    for key, default in (("sandbox", f"{_DEFAULT_FOLDER}/sandbox"), ("python", "python3")):
        value = machine.backend.get(key, default)
        if not isinstance(value, str) or not value or not value.isprintable() or value.startswith("-"):
            path = ("machines", machine.name, "backend", key)
            raise InvalidInput(f"{key} {value!r}", rule="a path of printable characters", path=path)
        found.append(value)
    return found[0], found[1]


class SshMachine:
    """One machine: its connection, its bridge and its disk. A thread of its own connects and receives."""

    def __init__(
        self,
        layout: ProjectLayout,
        machine: Machine,
        connections: HostConnections,
        is_known: Callable[[int, int, str], bool],
        project: str = "",
    ) -> None:
        """Create a machine without a connection; ``project`` is the identity of a project with tasks."""
        self._machine = machine.name
        self.settings = self._read_settings(machine)
        self.sandbox, self._python = self._read_words(machine)
        self.down_since_s: float | None = None
        """Time on the monotonic clock since which the host cannot be reached; None: it can."""
        self.error = ""
        """Why the host cannot be reached."""
        self.refusal = ""
        """Why no program can run on the host until the user corrects the cause; "": no such cause known."""
        self.was_reached = False
        """Whether a runner on the host has answered since this object was created."""
        self.on_use: Callable[[], None] = lambda: None
        """Called before each file operation; it starts the thread, which notices the loss of the host."""
        self.outage_s = 0.0
        """Seconds of the last time for which the host could not be reached."""
        self._heard_s: float | None = None
        """Time on the monotonic clock of the last message of the host since it was connected."""
        self._began_s: float | None = None
        """Time on the monotonic clock at which the last attempt to connect began; None: there was none."""
        self._cannot_connect = False
        """Whether the last attempt to reach the runner has failed."""
        self._is_reached = False
        """Whether the runner has answered since the last attempt to reach it began."""
        self.is_full = False
        """Whether the disk is full, so that the runner is left until there is space again."""
        self._connect_error: tuple[float, HostError] | None = None
        """The time at which the last attempt to connect failed, and its error."""
        self.is_lost = False
        """Whether the machine was reported as lost; file operations then fail at once."""
        self.is_wanted = False
        """Whether a file operation waits for the host, so that its loss must be noticed."""
        self.writes_bundle = True
        """Whether the bundle is copied to the disk of the host; without it only files can be accessed."""
        self._layout = layout
        self._is_known = is_known
        self._connections = connections
        self._connection: HostConnection | None = None
        self._bundle = ""
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._files: _HostFileServer | None = None
        self._thread: threading.Thread | None = None
        self._channel: LineChannel | None = None
        self._stopped = threading.Event()
        self._closing = False
        own = layout.own_sandbox(machine, project).name
        names = self._name_disk(), self._name_disk_of_earlier_versions()
        self.disk = RemoteDisk(self, names, self.sandbox, own, layout.sandbox(machine))

    def _read_settings(self, machine: Machine) -> HostSettings:
        return read_host_settings(machine.backend, machine.name)

    def _read_words(self, machine: Machine) -> tuple[str, str]:
        return _read_words(machine)

    def _bundle_folder(self, home: str) -> str:
        """Return the folder of the bundle on the host; ``home`` is the user's home folder there."""
        return f"{home}/{_DEFAULT_FOLDER}"

    def _describe_bridge(self) -> tuple[str, Mapping[str, Any]]:
        """Return the mode of the bundle that serves the engine, and more fields of the first message."""
        return "bridge", {}

    @property
    def silence_s(self) -> float:
        """Return the seconds without an answer after which the host is lost."""
        return self.settings.silence_s

    def _name_disk(self) -> str:
        """Return the start of ``Product.directory`` of outputs on this disk.

        In another configuration, the name of the host may mean another host.
        """
        name = self._name_disk_of_earlier_versions()
        if self.settings.config is None:
            return name
        path = Path(self.settings.config).absolute()
        digest = hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()
        return f"{name};config={digest}"

    def _name_disk_of_earlier_versions(self) -> str:
        """Return the name of the disk in journals of versions that ignored the configuration."""
        user = f"{self.settings.user}@" if self.settings.user else ""
        port = f":{self.settings.port}" if self.settings.port else ""
        return f"ssh://{user}{self.settings.host}{port}"

    # File operations, called by staging threads.

    def call(self, operation: str, **arguments: Any) -> Any:
        """Perform an operation of ``HostFiles``; wait while the host does not answer.

        If its disk is so full that no file can be written, the machine is lost until there is space again.
        """
        try:
            return self._persist(lambda: self._file_server().call(operation, arguments))
        except StagingProblem as problem:
            if problem.number not in _FULL:
                raise
            try:
                self._check_space()
            except HostError as error:
                if error.cause is not HostFailure.NO_ROOM:
                    raise problem from None
                self.refusal = self._name_error(error)
                self.is_full = True
                raise StagingProblem("cannot be used", self.settings.host, error.text) from problem
            raise

    def _check_space(self) -> None:
        """Raise HostError if the disk has no space for a small file."""
        try:
            self.call_once("check_space", sandbox=self.sandbox)
        except StagingProblem as problem:
            if problem.number in _FULL:
                raise _explain_full_disk(self.settings.host, self.sandbox) from problem
            if problem.number in _NOT_CREATED:
                raise _explain_sandbox(self.settings.host, self.sandbox, problem.why) from problem
            raise

    def call_once(self, operation: str, **arguments: Any) -> Any:
        """Perform an operation of ``HostFiles``; raises HostError if the host does not answer."""
        return self._file_server().call(operation, arguments)

    def send(self, local: Path, remote: str) -> None:
        """Copy a file to the host."""
        self._persist(lambda: self._connect().put(local, remote))

    def receive(self, remote: str, local: Path) -> None:
        """Copy a file from the host."""
        self._persist(lambda: self._connect().get(remote, local))

    no_routes = "`direct` is off"
    has_bundle_in_sandbox = False
    """Whether the bundle is copied into the sandbox."""

    def list_routes(self) -> Sequence[Sequence[str]]:
        """Return commands by which another host may reach this one; (): files are not copied directly."""
        return list_routes(self.settings) if self.settings.direct else ()

    def _persist(self, work: Callable[[], Any]) -> Any:
        """Return the result of work; repeat it while the connection is lost, until the machine is lost."""
        self.on_use()
        while True:
            check_interruption()
            if self.is_lost:
                raise StagingProblem("cannot be used", self.settings.host, self.error or "it is lost")
            try:
                return work()
            except HostError as error:
                lasting = error.cause.is_permanent
                if error.cause in _REFUSALS:
                    self.refusal = self._name_error(error)
                if lasting or self.is_lost or self._closing or error.cause not in _PASSING:
                    what = "cannot be used"
                    number = errno.ENOSPC if error.cause is HostFailure.DISK_FULL else None
                    host = self.settings.host
                    raise StagingProblem(what, host, error.text, lasting=lasting, number=number) from error
                self.is_wanted = True
            time.sleep(_RETRY_S)

    def _file_server(self) -> _HostFileServer:
        connection = self._connect()
        with self._lock:
            if self._files is None or self._files.ended:
                channel = self._open_files(connection)
                self._files = _HostFileServer(channel, self.settings.host, self._python)
            return self._files

    def _open_files(self, connection: HostConnection) -> LineChannel:
        """Start a file server on the host; return the channel to it."""
        if self._bundle:
            return connection.open_lines([self._python, "-I", "-S", self._bundle, "files"])
        content = make_bundle()
        words = [self._find_python(connection), "-I", "-S", "-c", MEMORY_MAIN, str(len(content)), "files"]
        channel = connection.open_lines(words)
        channel.send(content)
        return channel

    def _find_python(self, connection: HostConnection) -> str:
        """Return the Python interpreter on the host."""
        del connection
        return self._python

    def _connect(self) -> HostConnection:
        """Return the connection after the bundle was copied if this is wanted; raises HostError."""
        if self._closing:
            raise HostError(self.settings.host, HostFailure.LOST, "the engine stops")
        asked_s = time.monotonic()
        with self._lock:
            if self._connect_error is not None and self._connect_error[0] >= asked_s:
                raise self._connect_error[1]  # another thread has tried meanwhile
            try:
                return self._connect_now()
            except HostError as error:
                self._connect_error = time.monotonic(), error
                raise

    def _connect_now(self) -> HostConnection:
        if self._connection is None:
            self._connection = self._connections.host(self.settings)
        connection = self._connection
        connection.connect(max(_SHORTEST_CONNECT_S, min(_CONNECT_S, self.settings.silence_s)))
        if self.writes_bundle and not self._bundle:
            self._bundle = self._copy_bundle(connection)
        return connection

    def _copy_bundle(self, connection: HostConnection) -> str:
        """Copy the bundle to the host unless it is there; return its path."""
        home = connection.run(["sh", "-c", "cd && pwd -P"], timeout_s=_CONNECT_S).out.decode().strip()
        folder, name = self._bundle_folder(home), bundle_name()
        path, size = f"{folder}/{name}", len(make_bundle())
        there = connection.run(["sh", "-c", 'wc -c < "$0"', path], timeout_s=_CONNECT_S)
        if there.code == 0 and there.out.strip() == str(size).encode():
            return path
        local = self._layout.home / "mirror" / name
        make_folder(local.parent)
        write_file(local, make_bundle())
        arriving = f"{path}.arriving"
        try:
            connection.make_folder(folder)
            connection.put(local, arriving, resume=False)
        except HostError as error:
            if error.cause is HostFailure.DISK_FULL:  # nothing can run there until space is freed
                connection.run(["rm", "-f", arriving], timeout_s=_CONNECT_S)
                raise _explain_full_disk(self.settings.host, folder) from error
            if self.has_bundle_in_sandbox and error.cause in _UNWRITABLE:
                why = _UNWRITABLE[error.cause] or error.text
                raise _explain_sandbox(self.settings.host, self.sandbox, why) from error
            raise
        connection.run(["mv", arriving, path], timeout_s=_CONNECT_S)
        done = connection.run([self._python, "-I", "-S", path, "version"], timeout_s=_CONNECT_S)
        if done.code:
            said = shorten(done.err.decode(errors="replace").strip())
            raise _explain_python(self.settings.host, self._python, said)
        return path

    # The bridge.

    def open(self, greeting: Callable[[], dict[str, Any]], deliver: Callable[[dict[str, Any]], None]) -> None:
        """Start the thread that connects and receives; the first call starts it.

        ``greeting`` returns the first message to a bridge. ``deliver`` gets the messages of the bridge.
        """
        with self._opening:
            if self._thread is None:
                work = partial(self._keep_connected, greeting, deliver)
                self._thread = threading.Thread(target=work, name=f"weft-{self.settings.host}", daemon=True)
                self._thread.start()

    @property
    def unheard_s(self) -> float:
        """Return the seconds since the last sign of life of the host; 0 if nothing was expected of it."""
        for since_s in (self.down_since_s, self._heard_s, self._began_s):
            if since_s is not None:
                return time.monotonic() - since_s
        return 0.0

    @property
    def silent_s(self) -> float | None:
        """Return the seconds for which the host has not answered; None: it answers, or may do so soon.

        A connection that was cut and can be renewed at once is no silence.
        """
        if self._cannot_connect:
            return self.unheard_s
        is_connecting = self.down_since_s is None and self._heard_s is None
        if is_connecting and self._connection is not None:
            is_connecting = not self._connection.is_connected
            if not is_connecting:
                return None  # its runner is being started
        unheard_s = self.unheard_s
        return unheard_s if unheard_s > _SILENT_S else None

    @property
    def is_open(self) -> bool:
        """Return whether the thread of the machine was started."""
        return self._thread is not None

    @property
    def is_running(self) -> bool:
        """Return whether the thread of the machine runs."""
        return self._thread is not None and self._thread.is_alive()

    def send_messages(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Send messages to the runner at once; without a connection they are dropped."""
        if (channel := self._channel) is not None:
            channel.send("\n".join(map(encode_record, messages)).encode())

    def give_up(self) -> None:
        """Let waiting file operations and attempts to connect fail."""
        self._closing = True
        if (connection := self._connection) is not None:
            connection.stop_connecting()

    def close(self, *, wait_s: float) -> None:
        """End the thread; the bridge may end by itself within ``wait_s`` seconds."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(wait_s)
        if (channel := self._channel) is not None:
            channel.send(b"")
            self._channel = None
        if (files := self._files) is not None:
            files.close()

    def _keep_connected(
        self, greeting: Callable[[], dict[str, Any]], deliver: Callable[[dict[str, Any]], None]
    ) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stopped.is_set():
            text, refused = "", False
            self._began_s = began_s = time.monotonic()
            self._is_reached = False
            try:
                self._serve_bridge(greeting, deliver)
                pause_s = _FIRST_PAUSE_S
            except WeftError as error:
                text = self._name_error(error)
                refused = isinstance(error, HostError) and error.cause in _REFUSALS
                self.error = text
                if self.down_since_s is None:
                    self.down_since_s = began_s if self._heard_s is None else self._heard_s
                self._cannot_connect, self._heard_s = not self._is_reached, None
            deliver({"is": "disconnected", "text": text, "refused": refused})
            self._bundle = ""  # the host may have lost its disk
            self._pause(pause_s, deliver)
            pause_s = min(2.0 * pause_s, _LONGEST_PAUSE_S)

    def _name_error(self, error: WeftError) -> str:
        """Return the text of an error; the host is named if the machine has another name."""
        is_named = isinstance(error, HostError) and self._machine == self.settings.host
        return error.text if isinstance(error, HostError) and is_named else str(error)

    def _pause(self, pause_s: float, deliver: Callable[[dict[str, Any]], None]) -> None:
        """Wait before the next attempt to connect; report the moment from which the host counts as lost."""
        if self.down_since_s is not None:
            left_s = self.down_since_s + self.silence_s - time.monotonic()
            if 0.0 < left_s < pause_s:
                self._stopped.wait(left_s + 0.01)
                deliver({"is": "silent"})
                pause_s -= left_s
        self._stopped.wait(pause_s)

    def _serve_bridge(
        self, greeting: Callable[[], dict[str, Any]], deliver: Callable[[dict[str, Any]], None]
    ) -> None:
        """Start a bridge and deliver its messages until it ends.

        Raises WeftError if the connection fails or is lost, or if no runner was reached.
        """
        connection = self._connect()
        self.disk.refresh(self.call_once("describe", sandbox=self.sandbox))  # also while the machine is lost
        self._check_space()
        self.is_full = False
        sandbox = self.disk.sandbox
        mode, more = self._describe_bridge()
        place = {**greeting(), **more}
        folder = f"{sandbox}/{place.pop('folder')}"
        channel = connection.open_lines([self._python, "-I", "-S", self._bundle, mode, folder])
        try:
            channel.send(json.dumps(place).encode())
            poller = select.poll()
            poller.register(channel, select.POLLIN)
            while (lines := channel.receive()) is not None:
                self._heard_s = time.monotonic() if lines else self._heard_s
                for line in lines:
                    message = _read_line(line, self.settings.host)
                    if message["is"] == "programs":
                        known = [each for each in message["found"] if self._is_known(*each)]
                        channel.send(json.dumps({"known": known}).encode())
                        continue
                    if message["is"] == "here":
                        self._is_reached, self._channel = True, channel
                        self.was_reached = True
                        self.outage_s = 0.0 if self.down_since_s is None else self.unheard_s
                        self._cannot_connect, self.down_since_s, self.error = False, None, ""
                    elif message["is"] == "failed":
                        self._check_space()  # why a runner cannot be started
                        cause = HostFailure.NO_COMMAND if message.get("lasting") else HostFailure.FILE
                        raise HostError(self.settings.host, cause, str(message["text"]))
                    deliver(message)
                if self.is_full:
                    raise _explain_full_disk(self.settings.host, sandbox)
                if self._stopped.is_set() and not self._is_reached:
                    return
                poller.poll(500.0)
            if channel.error is not None:
                raise channel.error
            if not self._is_reached:
                said = shorten(channel.stderr.decode(errors="replace").strip())
                what = (
                    f"its runner was not reached: `{self._python}` ended with exit code {channel.exit_code}"
                )
                what = f"{what}: {said}" if said else what
                raise HostError(self.settings.host, HostFailure.FILE, what)
        finally:
            self._channel = None
            channel.close()


_PASSING = {
    HostFailure.LOST, HostFailure.REFUSED, HostFailure.TIMED_OUT, HostFailure.UNREACHABLE,
    HostFailure.NO_CHANNEL, HostFailure.CANNOT_RESOLVE, HostFailure.NO_ROOM, HostFailure.NO_SANDBOX,
}  # fmt: skip
"""Failures after which an operation is repeated when the host answers again."""


_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_CREATED = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS)
_UNWRITABLE = {
    HostFailure.NO_FILE: "no such file or directory",
    HostFailure.NO_PERMISSION: "permission denied",
    HostFailure.FILE: "",
}
"""Failures to create a file in the sandbox, and why they happen; "": as the error says."""

_REFUSALS = {
    *HostFailure.permanent(), HostFailure.NO_COMMAND, HostFailure.NO_ROOM, HostFailure.NO_SANDBOX,
}  # fmt: skip
"""Failures after which a host runs no program until the user corrects the cause."""


def _explain_full_disk(host: str, folder: str) -> HostError:
    """Return the error about a disk without space for a small file; ``folder`` is a folder on it."""
    shown = folder if folder.startswith(("/", "~")) else f"~/{folder}"
    what = f"its disk is full: nothing can be written below {shown}"
    return HostError(host, HostFailure.NO_ROOM, what, "free space there")


def _explain_sandbox(host: str, sandbox: str, why: str) -> HostError:
    """Return the error about a sandbox in which nothing can be created."""
    shown = sandbox if sandbox.startswith(("/", "~")) else f"~/{sandbox}"
    what = f"its sandbox {shown} cannot be created there ({why})"
    advice = "set `sandbox` to a directory in which you may write"
    return HostError(host, HostFailure.NO_SANDBOX, what, advice)


def _explain_python(host: str, python: str, said: str) -> HostError:
    """Return the error about an interpreter that cannot run the bundle; ``said`` is what it wrote."""
    what = f"{python} cannot run weft's file there: {said}"
    return HostError(host, HostFailure.NO_COMMAND, what, "weft needs Python 3.8 or newer")


def _read_line(line: bytes, host: str) -> dict[str, Any]:
    if line.startswith((b'{"is":"programs"', b'{"is":"failed"', b'{"is":"beat"')):
        found: dict[str, Any] = json.loads(line)
        return found
    try:
        return read_message(line)
    except (ValueError, RecursionError) as error:
        what = f"weft's program there wrote a line that is not a message: {shorten(str(error))}"
        raise HostError(host, HostFailure.FILE, what) from None


class _HostFileServer:
    """The process ``files`` of the bundle on a host; several threads may call it."""

    def __init__(self, channel: LineChannel, host: str, python: str) -> None:
        self._channel = channel
        self._host = host
        self._python = python
        self._has_answered = False
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._answers: dict[int, SimpleQueue[dict[str, Any] | None]] = {}
        self.ended = False
        threading.Thread(target=self._receive, name="weft-files", daemon=True).start()

    def call(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Perform an operation and return its value; raises StagingProblem, HostError."""
        answers: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        with self._lock:
            number = next(self._numbers)
            self._answers[number] = answers
            if self.ended:
                answers.put(None)
        self._channel.send(json.dumps({"id": number, "do": operation, **arguments}).encode())
        answer = answers.get()
        if answer is None:
            raise self._channel.error or self._explain_end()
        if "problem" in answer:
            raise decode_problem(answer["problem"])
        return answer["value"]

    def close(self) -> None:
        """End the process."""
        self._channel.close()

    def _explain_end(self) -> HostError:
        """Return why the process has ended while the host was connected."""
        code, said = self._channel.exit_code, shorten(self._channel.stderr.decode(errors="replace").strip())
        if self._has_answered or code is None or code < 0:
            what = "weft's process for file operations there has ended"
            return HostError(self._host, HostFailure.LOST, what)
        return _explain_python(self._host, self._python, said or f"it ended with exit code {code}")

    def _receive(self) -> None:
        poller = select.poll()
        with contextlib.suppress(OSError, ValueError):  # the channel was closed
            poller.register(self._channel, select.POLLIN)
            while (lines := self._channel.receive()) is not None:
                for line in lines:
                    answer = json.loads(line)
                    self._has_answered = True
                    self._answers.pop(answer["id"]).put(answer)
                poller.poll(500.0)
        with self._lock:
            self.ended = True
            for waiting in self._answers.values():
                waiting.put(None)


class SshRunners:
    """Transport to the runners of hosts; it never waits for a host, except in ``recover`` and ``close``."""

    def __init__(self, context: ProjectContext, hosts: Mapping[int, SshMachine], poller: select.poll) -> None:
        self._context = context
        self._hosts = hosts
        self._scope = _runner_scope(context.layout, context.project, context.execution)
        self._inbox: SimpleQueue[tuple[int, dict[str, Any]]] = SimpleQueue()
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        poller.register(self._woken, select.POLLIN)
        self._poller = poller
        self._orders: dict[int, dict[int, Mapping[str, Any]]] = {each: {} for each in hosts}
        """By machine and attempt: the order of a program whose end was not reported."""
        self._confirmed: dict[int, set[int]] = {each: set() for each in hosts}
        """By machine: attempts that its runner has mentioned."""
        self._known: dict[int, str] = {}
        self._outgoing: dict[int, list[Mapping[str, Any]]] = {}
        """By machine: the messages to be sent."""
        self._forgotten: dict[int, list[int]] = {}
        """By machine: the attempts whose ends its runner may drop."""
        self._cancelled: dict[int, float] = {}
        self._measured: dict[int, float] = {}
        self._cleared: set[int] = set()
        self._ready: dict[int, str] = {}
        """By machine whose runner is connected: the boot of its host."""
        self._pids: dict[int, int] = {}
        self._alive_at_s: dict[int, float] = {}
        self._ordered_at_s: dict[int, float] = {}
        """By attempt: when the order of its program was sent, in seconds of the monotonic clock."""
        self._least_lag_s: dict[int, float] = {}
        """By machine whose messages state when they were sent: the shortest time from sending to arrival.

        The clocks of two hosts differ, so this time can be negative.
        """
        self._lost: dict[int, str] = {}
        self._silent: dict[int, str] = {}
        """By machine whose host was reported as silent: the reason that was reported last."""
        self._backlog: list[ProgramReport] = []
        for machine, host in hosts.items():
            host.on_use = partial(self._open, machine)

    # Requests.

    def start(self, machine: int, order: Mapping[str, Any]) -> str:
        """Start a program, at once or when the host is connected; return why this is impossible, or ""."""
        if machine in self._lost:
            return self._lost[machine]
        attempt = int(order["attempt"])
        self._known[attempt] = str(order["nonce"])
        self._orders[machine][attempt] = {**order, "reports_start": True}
        self._send(machine, self._orders[machine][attempt])
        return ""

    def cancel(self, machine: int, attempt: int, grace_s: float) -> None:
        """Terminate a program; if the host cannot be reached now, when it is connected again."""
        self._cancelled[attempt] = grace_s
        self._send(machine, {"do": "cancel", **self._name(attempt), "grace_s": grace_s})

    def signal(self, machine: int, attempt: int, name: str) -> None:
        """Send the signal ``name`` to a program."""
        self._send(machine, {"do": "signal", **self._name(attempt), "signal": name})

    def forget(self, machine: int, attempt: int) -> None:
        """Drop the stored end of an attempt's program."""
        self._cancelled.pop(attempt, None)
        self._known.pop(attempt, None)
        self._ordered_at_s.pop(attempt, None)
        self._confirmed[machine].discard(attempt)
        self._forgotten.setdefault(machine, []).append(attempt)

    def measure(self, machine: int, every_s: float) -> None:
        """Measure the state of a machine every ``every_s`` seconds."""
        self._measured[machine] = every_s
        self._open(machine)
        if machine in self._ready:
            self._request_measurement(machine)

    def _request_measurement(self, machine: int) -> None:
        order = {
            "do": "measure", "every_s": self._measured[machine],
            "nodes": self._context.machines[machine].nodes, "sandbox": self._hosts[machine].disk.sandbox,
            "runners": [self._pids[machine]], "engine": self._pids[machine],
        }  # fmt: skip
        self._send(machine, order)

    def inspect(self, machine: int) -> str:
        """Return why a machine cannot run programs now; "": it can, or its state is unknown."""
        self._find_lost(machine)
        return self._lost.get(machine, "")

    def responds(self, machine: int) -> bool:
        """Return whether the runner has responded recently; True while the connection is lost."""
        if machine not in self._ready:
            return True
        return time.monotonic() - self._alive_at_s[machine] < _SILENT_S + self._hosts[machine].silence_s

    def reattach(self, machine: int) -> None:
        """Do nothing: the thread of the machine connects again by itself."""

    def flush(self) -> None:
        """Send the messages to each machine together: a message of its own costs more than its content."""
        for machine, attempts in self._forgotten.items():
            self._send(machine, {"do": "forget", "attempts": attempts})
        self._forgotten.clear()
        for machine, messages in self._outgoing.items():
            self._hosts[machine].send_messages(messages)
        self._outgoing.clear()

    def _name(self, attempt: int) -> dict[str, Any]:
        return {"attempt": attempt, "nonce": self._known.get(attempt, "")}

    def _send(self, machine: int, message: Mapping[str, Any]) -> None:
        self._open(machine)
        if machine in self._ready:
            self._outgoing.setdefault(machine, []).append(message)
            if message["do"] == "start":
                self._ordered_at_s[int(message["attempt"])] = time.monotonic()

    def _open(self, machine: int) -> None:
        def deliver(message: dict[str, Any]) -> None:
            self._inbox.put((machine, message))
            os.eventfd_write(self._woken, 1)

        self._hosts[machine].open(partial(self._greeting, machine), deliver)

    def _greeting(self, machine: int) -> dict[str, Any]:
        """Return the first message to the bridge of a machine; called in the thread of the machine."""
        self._context.check_claim()
        clear = machine not in self._cleared
        self._cleared.add(machine)
        described = self._context.machines[machine]
        cores = described.backend.get("cores")
        return {
            "folder": f"runners/{self._scope}/{path_component(described.name)}",
            "token": self._context.token,
            "scope": self._scope,
            "cores": cores,
            "known": list(self._known.copy().items()),
            "clear": clear,
        }

    # Reports.

    def receive(self, descriptor: int) -> list[ProgramReport]:
        """Return the reports that have arrived."""
        del descriptor
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._woken)
        found: list[ProgramReport] = []
        while not self._inbox.empty():
            found += self._handle(*self._inbox.get())
        return found

    def _handle(self, machine: int, message: dict[str, Any]) -> list[ProgramReport]:
        self._alive_at_s[machine] = time.monotonic()
        what = message["is"]
        if what == "here":
            return self._handle_greeting(machine, message)
        if what in ("disconnected", "silent"):
            if what == "disconnected":
                self._ready.pop(machine, None)
                if message["refused"]:
                    self._lose(machine, message["text"])
            self._find_lost(machine)
            return self._take_backlog()
        if self._silent.pop(machine, None) is None:
            return self._handle_report(machine, message)
        answers = {"is": "answers", "machine": machine, "silent_s": 0.0}
        return [answers, *self._handle_report(machine, message)]

    def _handle_report(self, machine: int, message: dict[str, Any]) -> list[ProgramReport]:
        what = message["is"]
        if what == "measured":
            return [{**message, "machine": machine}]
        if what in ("started", "queued", "ended"):
            self._confirmed[machine].add(message["attempt"])
        lag_s = self._find_lag(machine, message)
        if what == "ended":
            self._orders[machine].pop(message["attempt"], None)
            message = {**message, "delayed": self._is_delayed(message, lag_s)}
        return [] if what in ("beat", "problem") else [message]

    def _find_lag(self, machine: int, message: Mapping[str, Any]) -> float | None:
        """Return for how much longer than others a message was on the way; None: it does not state this."""
        if (sent := message.get("sent")) is None:
            return None
        lag_s = time.time() - float(sent)
        least_s = self._least_lag_s[machine] = min(lag_s, self._least_lag_s.get(machine, lag_s))
        return lag_s - least_s

    def _is_delayed(self, ended: Mapping[str, Any], lag_s: float | None) -> bool:
        """Return whether the report of an end was on the way for long, as when packets were dropped.

        Clocks of hosts differ, so the run time that the runner measured is compared with the time since the
        order. The report of the start may have been on the way for long, too.
        """
        if lag_s is not None:  # between order and start, the program may have waited in a queue
            return lag_s > _DELAYED_S
        ordered_s = self._ordered_at_s.get(int(ended["attempt"]))
        passed_s = 0.0 if ordered_s is None else time.monotonic() - ordered_s
        return passed_s - float(ended.get("seconds", 0.0)) > _DELAYED_S

    def _handle_greeting(self, machine: int, here: dict[str, Any]) -> list[ProgramReport]:
        """Compare the programs of a runner with those that were started; return the ends."""
        self._ready[machine], self._pids[machine] = str(here["boot"]), int(here["pid"])
        returned: list[ProgramReport] = []
        self._hosts[machine].refusal = ""
        if self._lost.pop(machine, None) is not None:
            self._hosts[machine].is_lost = False
            returned.append({"is": "back", "machine": machine})
        elif self._silent.pop(machine, None) is not None or self._hosts[machine].outage_s:
            outage_s = self._hosts[machine].outage_s
            returned.append({"is": "answers", "machine": machine, "silent_s": outage_s})
        running = {int(each["attempt"]) for each in here["running"]}
        # They ended without a connection, so the time of their reports is not that of their ends.
        ended = {int(each["attempt"]): {**each, "delayed": True} for each in here["ended"]}
        for attempt, order in list(self._orders[machine].items()):
            if attempt in running:
                self._confirmed[machine].add(attempt)
                if attempt in self._cancelled:
                    self.cancel(machine, attempt, self._cancelled[attempt])
            elif attempt in ended or attempt in self._confirmed[machine]:
                del self._orders[machine][attempt]
                lost = {"is": "ended", "cause": "lost", "text": "its runner has no record of it"}
                returned.append(ended.get(attempt) or {**lost, **self._name(attempt)})
            elif attempt in self._cancelled:
                del self._orders[machine][attempt]
                text = "it was cancelled before it started"
                returned.append({"is": "ended", "cause": "cancelled", "text": text, **self._name(attempt)})
            else:  # the order was on the way when the connection was lost
                self._send(machine, order)
        if machine in self._measured:
            self._request_measurement(machine)
        return returned

    def check(self) -> list[ProgramReport]:
        """Return reports on machines that were lost since the last call."""
        for machine in self._hosts:
            self._find_lost(machine)
        return self._take_backlog()

    def _take_backlog(self) -> list[ProgramReport]:
        found, self._backlog = self._backlog, []
        return found

    def _find_lost(self, machine: int) -> None:
        host = self._hosts[machine]
        if host.is_wanted and not host.is_open:
            self._open(machine)
        if host.refusal:
            self._lose(machine, host.refusal)
        down_since_s = host.down_since_s
        if down_since_s is not None and time.monotonic() - down_since_s > host.silence_s:
            self._lose(machine, host.error)
        self._note_silence(machine)

    def _note_silence(self, machine: int) -> None:
        """Report that a host has stopped answering, or why it still does not answer."""
        host = self._hosts[machine]
        if machine in self._lost:
            self._silent.pop(machine, None)
            return
        silent_s, why = host.silent_s, host.error
        if silent_s is not None and self._silent.get(machine) != why:
            self._silent[machine] = why
            left_s = max(0.0, host.silence_s - silent_s)
            lost_in_s = left_s if math.isfinite(left_s) else None
            silent = {"is": "silent", "machine": machine, "text": why}
            self._backlog.append({**silent, "silent_s": silent_s, "lost_in_s": lost_in_s})

    def _lose(self, machine: int, text: str) -> None:
        # Not lasting: the thread of the machine goes on connecting, so a mended key or host is used at once.
        if machine not in self._lost:
            self._lost[machine] = text
            self._hosts[machine].is_lost = True
            is_full = self._hosts[machine].is_full  # the inputs of an attempt may have filled it
            self._backlog.append({"is": "lost", "machine": machine, "text": text, "full": is_full})

    # Start and end of the engine.

    def recover(self, attempts: Sequence[RecoveredAttempt]) -> SurvivingPrograms:
        """Connect to the hosts of these attempts; return their programs.

        The programs of a host that does not answer in time count as running: their state is unknown.
        """
        found = SurvivingPrograms()
        self._known.update((each.attempt, each.nonce) for each in attempts)
        machines = sorted({each.machine for each in attempts})
        for machine in machines:
            self._open(machine)
        end_s = time.monotonic() + _RECOVER_S
        greetings: dict[int, dict[str, Any]] = {}
        while set(machines) - greetings.keys() - self._lost.keys() and time.monotonic() < end_s:
            if self._inbox.empty():
                time.sleep(0.01)
                continue
            machine, message = self._inbox.get()
            if message["is"] == "here":
                greetings[machine] = message
            self._backlog += self._handle(machine, message)
        for each in attempts:
            here = greetings.get(each.machine)
            self._confirmed[each.machine].add(each.attempt)
            if here is None:
                running = True
            else:
                running = any(one["attempt"] == each.attempt for one in here["running"])
                found.ends.update(
                    (int(one["attempt"]), one) for one in here["ended"] if one["attempt"] == each.attempt
                )
                found.starts.update((int(one["attempt"]), one) for one in here["starts"])
            if running:
                found.running.add(each.attempt)
                self._orders[each.machine][each.attempt] = {}
        return found

    def drop_order(self, machine: int, attempt: int) -> None:
        """Do not expect the end of a program, which was never started."""
        self._orders[machine].pop(attempt, None)

    def close(self, *, stop: bool) -> None:
        """Disconnect from all hosts; with ``stop``, the runners exit when no program runs."""
        for machine in self._ready if stop else ():
            self._send(machine, {"do": "end"})
        self.flush()
        for machine, host in self._hosts.items():
            host.close(wait_s=_END_S if stop and machine in self._ready else 0.0)
        self._poller.unregister(self._woken)
        if not any(host.is_running for host in self._hosts.values()):
            os.close(self._woken)  # a thread that still waits for its host may write to it


def _runner_scope(layout: ProjectLayout, project: str, execution: int) -> str:
    """Return the scope of this project's processes on hosts, which processes of other computers share."""
    local = RunnerScope.of(layout.home, execution)
    text = f"{socket.gethostname()}\0{project}\0{local.home}"
    return f"{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}-{execution}"
