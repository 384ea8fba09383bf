"""Connections of the engine to runners: find or start a runner, exchange messages, clean up after a dead one.

Orphans are processes that continue after their runner was killed. They are found through start records, the
session of the dead runner and the mark in their environment. A process number alone is never trusted: the
start time of the process must match the recorded one, and a session counts only if its number was not reused
(the kernel does not reuse it while a member of the session exists). A process without a start record is
assigned by its session and by the time of the runner's last heartbeat.

If the tail of the journal was lost (by a power failure, or in a restored copy of ``.weft``), programs and
records may exist whose attempts are not in the journal. The numbers of these attempts are used again for
other tasks. An attempt is therefore identified by its number and its nonce. Before the first program is
started, all programs of this project with an unknown nonce are killed, wherever their runner is. At every
connection the engine sends the runner a list of the unknown programs and records, and the runner discards
them first.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.backends.attempt.attempt import ProgramReport
from weft.backends.attempt.backend import SurvivingPrograms
from weft.backends.attempt.safe_paths import StagingProblem, open_directory
from weft.backends.backend import ProjectContext, RecoveredAttempt
from weft.backends.layout import ProjectLayout, describe_sandbox_error
from weft.backends.local import runner
from weft.backends.local.message_socket import PROTOCOL, MessageSocket
from weft.backends.local.processes import (
    EXHAUSTED,
    MARK,
    TICKS_PER_S,
    Process,
    boot_id,
    exit_code,
    list_processes,
    mark_prefix,
    marked_attempt,
    read_kernel_file,
    read_process,
    read_variables,
    signal_exactly,
    signal_group,
)
from weft.backends.local.records import Record, RecordLog, SealedRecords, encode_record
from weft.errors import WeftError, shorten
from weft.platform.machine import Machine
from weft.private_files import FILE_MODE, FOLDER_MODE, make_folder
from weft.records import dataclass

if TYPE_CHECKING:
    from typing import TypeAlias

_TICK_S = 2.0 / TICKS_PER_S
"""Seconds by which the start time of a process, as the kernel reports it, may differ from the clock."""
_AFTER_BEAT_S = 3.0
"""Seconds after its last heartbeat in which a runner may still have started processes.

Heartbeats may be late.
"""


def is_alive(identity: Record | None) -> bool:
    """Return whether the process in a runner's ``pid`` record still exists; it may be stopped."""
    if identity is None or identity.get("boot") != boot_id():
        return False
    found = read_process(int(str(identity["pid"])))
    return found is not None and found.began_ticks == identity["began_ticks"]


def kill_orphans(records: SealedRecords, *, timeout_s: float = 10.0) -> tuple[int, ...]:
    """Kill the orphans of a dead runner and wait for their ends; return their process numbers.

    Raises TimeoutError if some of them cannot be killed.
    """
    killed: list[int] = []
    end_s = time.monotonic() + timeout_s
    wait_s = 0.002
    session = int(str((records.read("pid") or {}).get("pid", 0)))
    while left := find_orphans(records):
        killed += [process.pid for process in left if process.pid not in killed]
        for group in sorted({process.group for process in left if process.session == session}):
            # The whole group at once, so that no member can start another process.
            signal_group(group, signal.SIGKILL)
        for process in left:
            if process.session != session:
                signal_exactly(process, signal.SIGKILL)
        if time.monotonic() > end_s:
            raise TimeoutError(
                f"processes that cannot be killed: {', '.join(str(process.pid) for process in left)}"
            )
        time.sleep(wait_s)
        wait_s = min(2.0 * wait_s, 0.1)
    return tuple(killed)


def find_orphans(records: SealedRecords) -> list[Process]:
    """Return the running processes left by a dead runner; [] if the runner is alive."""
    identity = records.read("pid")
    if identity is None or identity.get("boot") != boot_id() or is_alive(identity):
        return []
    session = int(str(identity["pid"]))
    first_ticks = int(str(identity["began_ticks"]))
    living, mark = list_processes(), mark_prefix(session, first_ticks)
    marked = [process for process in living if marked_attempt(process.pid, mark) is not None]
    # If the runner's number was reused, no process of its session was left.
    members = (
        []
        if read_process(session) is not None
        else [process for process in living if process.session == session]
    )
    others = _find_session_orphans(records, members, first_ticks) if members else []
    return marked + [process for process in others if process not in marked]


def _find_session_orphans(records: SealedRecords, members: list[Process], first_ticks: int) -> list[Process]:
    """Return the members of a dead runner's session that the runner started."""
    begun = [start for start in RecordLog.read(records, "starts").values() if start["pid"] is not None]
    starts = {int(str(start["pid"])): start for start in begun}
    last_ticks = _last_moment_s(records) * TICKS_PER_S
    groups = {
        process.group
        for process in members
        if (process.group in starts and _is_same_leader(starts[process.group]))
        or first_ticks <= process.began_ticks <= last_ticks
    }
    return [process for process in members if process.group in groups]


def _is_same_leader(start: Record) -> bool:
    """Return whether the process number in a start record still belongs to the recorded process."""
    leader = read_process(int(str(start["pid"])))
    within = start["within"]
    if leader is None or not isinstance(within, list):
        return leader is None
    began_s = leader.began_ticks / TICKS_PER_S
    return bool(within[0] - _TICK_S <= began_s <= within[1] + _TICK_S)


def _last_moment_s(records: SealedRecords) -> float:
    """Return the latest time since boot at which the runner can have started a process."""
    if (beat := records.read_again("beat")) is None:
        return float("inf")
    age_s = time.monotonic() - float(str(beat["monotonic_s"]))
    return time.clock_gettime(time.CLOCK_BOOTTIME) - age_s + _AFTER_BEAT_S


RUNNER_MARK = "WEFT_RUNNER"
"""Environment variable of runners; its value is SCOPE.SEAL.

SEAL is a hash of the execution's token.
"""


@dataclass(frozen=True, slots=True)
class RunnerScope:
    """Identifies the processes of one execution of the project in one directory of this host.

    The directory is used instead of the project's identity, because a copy of a project has the same
    identity.
    """

    home: str
    """Hash of the path of ``.weft``."""
    execution: int

    @classmethod
    def of(cls, home: Path, execution: int) -> RunnerScope:
        """Return the scope of an execution; ``home`` is the path of ``.weft``."""
        return cls(hashlib.blake2b(os.fsencode(home), digest_size=8).hexdigest(), execution)

    def __str__(self) -> str:
        return f"{self.home}-{self.execution}"

    def find_unknown(self, token: str, is_known: Callable[[int, int, str], bool]) -> Iterator[Process]:
        """Yield the processes of this project directory that do not belong to the journal.

        These are runners of this execution with another token, and programs of any execution whose attempt
        (execution, number, nonce) is not in its journal.
        """
        seal = _token_seal(token)
        for pid in _list_pids():
            runner, mark = read_variables(pid, RUNNER_MARK, MARK)
            if not (self._is_foreign_runner(runner, seal) or self._is_unknown_program(mark, is_known)):
                continue
            process = read_process(pid)
            if process is not None and _is_own(pid):
                yield process

    def _is_foreign_runner(self, runner: str, own_seal: str) -> bool:
        scope, _, seal = runner.partition(".")
        return scope == str(self) and seal != own_seal

    def _is_unknown_program(self, mark: str, is_known: Callable[[int, int, str], bool]) -> bool:
        _, _, attempt, nonce, scope = mark.split(".") if mark.count(".") == _MARK_DOTS else ("",) * 5
        home, _, execution = scope.partition("-")
        return (
            home == self.home
            and bool(nonce)
            and attempt.isdecimal()
            and execution.isdecimal()
            and not is_known(int(execution), int(attempt), nonce)
        )


_MARK_DOTS = 4


def _list_pids() -> list[int]:
    """Return the numbers of all visible processes, including zombies."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208


def _is_own(pid: int) -> bool:
    """Return whether a process belongs to the user who runs this process."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False


def _token_seal(token: str) -> str:
    return hashlib.blake2b(token.encode(), digest_size=8, person=b"weft runner").hexdigest()


def kill_unknown(
    scope: RunnerScope, token: str, is_known: Callable[[int, int, str], bool], *, timeout_s: float = 10.0
) -> None:
    """Kill the processes that are not in the journal and wait for their ends; raises RunnerFailed."""
    end_s = time.monotonic() + timeout_s
    wait_s = 0.002
    while left := list(scope.find_unknown(token, is_known)):
        for process in left:
            signal_exactly(process, signal.SIGKILL)
        if time.monotonic() > end_s:
            numbers = ", ".join(str(process.pid) for process in left)
            raise RunnerFailed(
                f"processes of attempts that are not in the journal cannot be killed: {numbers}; end them, "
                "then continue with `weft resume`"
            )
        time.sleep(wait_s)
        wait_s = min(2.0 * wait_s, 0.1)


_Message: TypeAlias = "dict[str, Any]"

_SPAWN_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6, None)
"""Pauses after failed tries to start a runner; None: there is no further try."""
_SILENT_S = 5.0
"""Seconds since the last heartbeat after which a runner counts as unresponsive."""
_DOUBTFUL_S = 3.0
"""Seconds since the last heartbeat after which a probe of a program counts as unanswered."""
_WAKING_S = 2.0
_STARTING_S = 60.0
"""Seconds within which a runner must be reached; on a very busy host, its start alone may take 30 s."""
_ANSWER_S = 30.0
"""Seconds after which a runner that accepts connections but does not answer counts as unresponsive."""
_decode = json.JSONDecoder().decode


class RunnerGone(WeftError):
    """The connection is lost: the runner exited, was killed, or serves another engine."""


class RunnerUnresponsive(WeftError):
    """The runner is alive but does not answer; ``kill`` ends it and its tasks."""


class RunnerFailed(WeftError):
    """A runner could not be started, or the orphans of a dead one could not be killed."""


_ABOUT_ATTEMPTS = ("ended", "started", "stopped", "continued", "signalled", "discarded")


def read_message(line: bytes) -> _Message:
    """Return the message in a line that a runner sent; raise ValueError if it is not a valid message."""
    message = _decode(line.decode())
    if not isinstance(message, dict) or not isinstance(message.get("is"), str):
        raise ValueError("it is not an object with the key 'is'")
    records = [message] if message["is"] in _ABOUT_ATTEMPTS else []
    if message["is"] == "here":
        if not isinstance(message.get("pid"), int):
            raise ValueError("it contains no process number")
        for key in ("running", "ended", "starts"):
            if not isinstance(found := message.get(key, []), list):
                raise ValueError(f"{key!r} is not a list")
            records += found
    if message["is"] == "measured":
        for key in ("load", "memory_bytes", "disk_bytes"):
            if not isinstance(message.get(key), (int, float, type(None))):
                raise ValueError(f"{key!r} is not a number")
    for record in records:
        if not isinstance(record, dict) or not isinstance(record.get("attempt"), int):
            raise ValueError("a record contains no attempt number")
        if not isinstance(record.get("nonce", ""), str):
            raise ValueError("a nonce is not a text")
    return message


class RunnerLink:
    """Connection to the runner of one directory; it must be used by one thread only.

    Only ``connect``, ``reach``, ``kill`` and ``kill_orphans`` block.
    """

    def __init__(
        self,
        directory: Path,
        token: str,
        *,
        environment: Mapping[str, str],
        cores: Sequence[int] | None = None,
        python: str = sys.executable,
        idle_s: float = 60.0,
        grace_s: float = 5.0,
        scope: str = "",
    ) -> None:
        """Create a link to the runner of a directory, without connecting.

        ``scope`` marks the runner and its programs (see ``RunnerScope``).
        """
        self.directory = directory
        self.pid: int | None = None
        """Process number of the connected runner."""
        self._token = token
        self._environment = dict(environment)
        self._cores = None if cores is None else list(cores)
        self._python = python
        self._settings = {"token": token, "idle_s": idle_s, "grace_s": grace_s, "scope": scope}
        self._mark = f"{scope}.{_token_seal(token)}"
        try:
            make_folder(directory)
            self._records = SealedRecords(str(directory.absolute()), token)
        except OSError as error:
            raise RunnerFailed(f"no runner can use {directory}: {error.strerror}") from error
        self._connection: MessageSocket | None = None
        self._lost = False
        self._child: int | None = None
        self._received_at_s = -math.inf

    # Finding and starting.

    def connect(self, timeout_s: float = _STARTING_S, *, known: Mapping[int, str] | None = None) -> _Message:
        """Connect to the running runner, or start one; return its ``here`` message.

        Orphans of a dead runner are killed first; the new runner reports their attempts as ended with cause
        ``lost``. A runner that was interrupted before it wrote its ``pid`` record has no programs; it is
        ended, because it may hold the lock of the directory. A runner whose directory was moved away, because
        a copy of ``.weft`` was restored, is killed with its programs. If ``known`` (by attempt: its nonce) is
        given, all other attempts of the runner are ended and discarded before this method returns. Raises
        RunnerUnresponsive, RunnerFailed.
        """
        self.disconnect()
        end_s = time.monotonic() + timeout_s
        wake_s = time.monotonic() + _WAKING_S
        while time.monotonic() < end_s:
            if self._open_socket():
                answer_s = min(end_s, time.monotonic() + _ANSWER_S)
                if (here := self._authenticate(answer_s)) is not None:
                    return here if known is None else self._discard_unknown(here, known, end_s)
            elif not is_alive(self._records.read("pid")) and not self._check_child():
                self._end_unrecorded()
                self.kill_orphans()
                self._start()
            elif self._serves_elsewhere():
                self.kill()
            elif time.monotonic() > wake_s:
                wake_s += _WAKING_S
                self._signal_runner(signal.SIGCONT)
            time.sleep(0.005)
        if self.alive:
            raise RunnerUnresponsive(f"the runner in {self.directory} is running but does not answer")
        raise RunnerFailed(f"no runner could be started in {self.directory}: {self._last_log_line()}")

    def reach(self, timeout_s: float = 5.0) -> bool:
        """Connect to a running runner without starting one; return whether it answers."""
        return self._visit(timeout_s) is not None

    def find_programs(self, timeout_s: float = 5.0) -> SurvivingPrograms | None:
        """Return the programs of the directory's runner without starting or ending a process.

        The result is None if they are not known: the runner does not answer, or a dead one left processes.
        """
        if (here := self._visit(timeout_s)) is not None:
            return _list_programs(here)
        if self.alive or find_orphans(self._records):
            return None
        return SurvivingPrograms(ends=dict(RecordLog.read(self._records, "ends")))

    def _visit(self, timeout_s: float) -> _Message | None:
        """Connect to a running runner without starting one; return its ``here`` message, or None."""
        self.disconnect()
        try:
            return self._authenticate(time.monotonic() + timeout_s) if self._open_socket() else None
        except (RunnerUnresponsive, RunnerFailed):
            return None

    def _open_socket(self) -> bool:
        """Connect to the runner's socket; return whether that succeeded."""
        connection = socket.socket(socket.AF_UNIX)
        # A stopped runner accepts no connection once its backlog is full.
        connection.settimeout(1.0)
        try:
            connection.connect(f"/proc/self/fd/{self._records.folder}/socket")
        except OSError:
            connection.close()
            return False
        self._connection = MessageSocket(connection)
        self._lost = False
        return True

    def _authenticate(self, end_s: float) -> _Message | None:
        """Send ``hello`` and return the answer; None if the runner exited.

        A runner that does not answer gets SIGCONT, because it may be stopped. Raises RunnerUnresponsive,
        RunnerFailed.
        """
        self.send({"do": "hello", "token": self._token, "env": self._environment, "cores": self._cores})
        self.flush()
        silent_at_s = min(time.monotonic() + _WAKING_S, end_s)
        while time.monotonic() < end_s:
            try:
                messages = self.receive()
            except RunnerGone:
                self.disconnect()
                return None
            if messages:
                return self._merge_messages(messages)
            self.flush()
            if time.monotonic() > silent_at_s:
                silent_at_s = end_s
                self._signal_runner(signal.SIGCONT)
            time.sleep(0.001)
        self.disconnect()
        raise RunnerUnresponsive(f"the runner in {self.directory} is running but does not answer")

    def _merge_messages(self, messages: list[_Message]) -> _Message:
        """Return the ``here`` message, updated by the messages that arrived after it."""
        here = messages[0]
        self.pid = int(here["pid"])
        if here.get("protocol") != PROTOCOL:
            self.disconnect()
            raise RunnerUnresponsive(f"the runner in {self.directory} is of another version of weft")
        if here["problem"]:
            self.disconnect()
            raise RunnerFailed(f"the runner in {self.directory} reports a problem: {here['problem']}")
        return _add_ends(here, messages[1:])

    def _discard_unknown(self, here: _Message, known: Mapping[int, str], end_s: float) -> _Message:
        """Let the runner discard all attempts except ``known``; return its ``here`` message without them."""
        # Records of an older version of weft have no nonce.
        found = {(each["attempt"], each.get("nonce", "")) for each in (*here["running"], *here["ended"])}
        waiting = {(attempt, nonce) for attempt, nonce in found if known.get(attempt) != nonce}
        if waiting:
            self.send({"do": "discard", "attempts": sorted(waiting)})
        while waiting:
            self.flush()
            if time.monotonic() > end_s:
                self.disconnect()
                raise RunnerUnresponsive(f"the runner in {self.directory} does not end unknown programs")
            time.sleep(0.002)
            try:
                messages = self.receive()
            except RunnerGone as error:
                raise RunnerUnresponsive(str(error)) from error
            gone = {(each["attempt"], each["nonce"]) for each in messages if each["is"] == "discarded"}
            waiting -= gone
            here = _add_ends(here, messages)
        for key in ("running", "ended", "starts"):
            here[key] = [each for each in here[key] if known.get(each["attempt"]) == each.get("nonce", "")]
        return here

    def _start(self) -> None:
        """Start a runner in its own session.

        The token is passed on stdin, where other users cannot see it.
        """
        log = self._open_log()
        reading, writing = os.pipe()
        try:
            actions = [
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ]
            command = [self._python, "-I", "-S", str(Path(runner.__file__)), str(self.directory.absolute())]
            environment = {**os.environ, RUNNER_MARK: self._mark}
            self._child = self._spawn(command, environment, actions)
            os.write(writing, json.dumps(self._settings).encode() + b"\n")
        except OSError as error:
            raise RunnerFailed(f"no runner could be started with {self._python}: {error.strerror}") from error
        finally:
            for descriptor in (log, reading, writing):
                os.close(descriptor)

    def _spawn(
        self, command: list[str], environment: dict[str, str], actions: list[tuple[int, int, int]]
    ) -> int:
        """Start a process; retry after growing pauses if the host lacks processes, memory or open files."""
        for pause_s in _SPAWN_PAUSES_S:
            try:
                return os.posix_spawn(
                    self._python, command, environment, file_actions=actions, setsid=True, setsigmask=()
                )
            except OSError as error:
                if error.errno not in EXHAUSTED or pause_s is None:
                    raise
                time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def _open_log(self) -> int:
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._records.make_own("log")
            return os.open("log", how, 0o600, dir_fd=self._records.folder)
        except OSError as error:
            raise RunnerFailed(f"no runner can use {self.directory}: {error.strerror}") from error

    def _check_child(self) -> bool:
        """Return whether the runner that this link started is running; raises RunnerFailed if it failed."""
        if self._child is None:
            return False
        try:
            found, status = os.waitpid(self._child, os.WNOHANG)
        except ChildProcessError:
            found, status = self._child, 0
        if not found:
            return True
        self._child = None
        if (code := exit_code(status)) >= runner.CANNOT_WRITE:
            why = os.strerror(code - runner.CANNOT_WRITE)
            raise RunnerFailed(f"no runner can use {self.directory}: {why}")
        if code not in (0, runner.ALREADY_RUNNING) and code > 0:
            raise RunnerFailed(
                f"the runner in {self.directory} exited with code {code}: {self._last_log_line()}"
            )
        return False

    def _child_exists(self) -> bool:
        try:
            return self._check_child()
        except RunnerFailed:
            return False

    def _last_log_line(self) -> str:
        lines = self._records.content("log").decode(errors="replace").splitlines()
        return lines[-1] if lines else "its log is empty"

    # Messages.

    def fileno(self) -> int:
        """Return the socket's descriptor; -1 without a connection."""
        return -1 if self._connection is None else self._connection.socket.fileno()

    @property
    def connected(self) -> bool:
        """Return whether the link is connected, so that messages can be sent and received."""
        return self._connection is not None and not self._lost

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message; ``flush`` sends it. Without a connection, the message is dropped."""
        if self._connection is not None:
            self._connection.send(encode_record(message))

    def flush(self) -> None:
        """Send as many queued messages as the socket accepts now.

        A lost connection is reported by ``receive``.
        """
        if self._connection is not None and not self._lost:
            try:
                self._connection.flush()
            except OSError:
                self._lost = True

    def receive(self) -> list[_Message]:
        """Return the messages received so far without waiting; raise RunnerGone if the connection is lost."""
        if self._connection is None:
            raise RunnerGone(f"no runner is connected in {self.directory}")
        if (lines := self._connection.receive()) is None:
            self.disconnect()
            raise RunnerGone(f"the runner in {self.directory} has exited, or serves another engine")
        if lines:
            self._received_at_s = time.monotonic()
        try:
            return [read_message(line) for line in lines]
        except (ValueError, RecursionError) as error:
            self.disconnect()
            what = f"the runner in {self.directory} sent a line that is not a message: {shorten(str(error))}"
            raise RunnerGone(what) from None

    def end(self) -> None:
        """Request that the runner exits when no task runs; a stopped runner gets SIGCONT first."""
        # First, because a runner that has ended already would be searched among all processes.
        self._signal_runner(signal.SIGCONT)
        self.send({"do": "end"})
        self.flush()

    def disconnect(self) -> None:
        """Close the connection; the runner and its tasks continue."""
        if self._connection is not None:
            self._connection.socket.close()
        self._connection = None

    def close(self) -> None:
        """Close the connection and the directory."""
        self.disconnect()
        self._records.close()
        if self._child is not None:
            try:
                os.waitpid(self._child, os.WNOHANG)
            except ChildProcessError:
                self._child = None

    # State on disk.

    @property
    def alive(self) -> bool:
        """Return whether the runner's process exists, even if it does not respond."""
        return self._child_exists() or bool(self._list_runners())

    def beat_age_s(self) -> float:
        """Return the seconds since the last heartbeat or message."""
        beat = self._records.read_again("beat")
        beat_at_s = -math.inf if beat is None else float(str(beat["monotonic_s"]))
        return time.monotonic() - max(beat_at_s, self._received_at_s)

    @property
    def is_unresponsive(self) -> bool:
        """Return whether the runner's process exists but has sent no heartbeat recently."""
        return self.is_silent(_SILENT_S)

    def is_silent(self, for_s: float) -> bool:
        """Return whether the runner's process exists without a heartbeat in the last ``for_s`` seconds."""
        return self.beat_age_s() > for_s and self.alive

    def kill_orphans(self) -> tuple[int, ...]:
        """Kill the orphans of a dead runner and return their process numbers; raises RunnerFailed."""
        try:
            return kill_orphans(self._records)
        except TimeoutError as error:
            raise RunnerFailed(f"the dead runner in {self.directory} left {error}") from error

    def kill(self, timeout_s: float = 10.0) -> tuple[int, ...]:
        """Kill the runner and all its tasks; return the process numbers of the killed orphans."""
        if self._child_exists() and self._child is not None:
            os.kill(self._child, signal.SIGKILL)
        self._signal_runner(signal.SIGKILL)
        end_s = time.monotonic() + timeout_s
        while self.alive:
            if time.monotonic() > end_s:
                raise RunnerFailed(f"the runner in {self.directory} cannot be killed")
            time.sleep(0.002)
        self.disconnect()
        return self.kill_orphans()

    def _signal_runner(self, number: int) -> None:
        for process in self._list_runners():
            signal_exactly(process, number)

    def _list_runners(self) -> list[Process]:
        """Return the process in the ``pid`` record or, if it does not exist, the unrecorded runners."""
        identity = self._records.read("pid")
        if identity is not None and is_alive(identity):
            found = read_process(int(str(identity["pid"])))
            return [] if found is None else [found]
        return self._find_unrecorded()

    def _serves_elsewhere(self) -> bool:
        """Return whether the recorded runner, started for this path, does not hold the directory's lock.

        A runner takes the lock before it writes its ``pid`` record. On file systems without locks the result
        is False.
        """
        if self._child is not None:
            return False  # it may be starting
        how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            lock = os.open("lock", how, FILE_MODE, dir_fd=self._records.folder)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(lock)
        # The runner of another directory, from which this one was copied, is left alone.
        return any(read_variables(each.pid, RUNNER_MARK) == [self._mark] for each in self._list_runners())

    def _find_unrecorded(self) -> list[Process]:
        """Return the runners of this directory and execution, found by their command line and mark."""
        directory = os.fsencode(self.directory.absolute())
        found = []
        for pid in _list_pids():
            words = read_kernel_file(f"/proc/{pid}/cmdline").split(b"\0")
            if words[-2:] != [directory, b""] or not _is_own(pid):
                continue
            process = read_process(pid)
            if process is not None and read_variables(pid, RUNNER_MARK) == [self._mark]:
                found.append(process)
        return found

    def _end_unrecorded(self, timeout_s: float = 10.0) -> None:
        """End the runners of this directory that are not in its ``pid`` record; raises RunnerFailed.

        They get SIGTERM, so that one whose record was removed ends its programs first.
        """
        end_s = time.monotonic() + timeout_s
        while left := self._find_unrecorded():
            for process in left:
                # SIGCONT too: SIGTERM stays pending while a process is stopped.
                signal_exactly(process, signal.SIGTERM)
                signal_exactly(process, signal.SIGCONT)
            if time.monotonic() > end_s:
                numbers = ", ".join(str(process.pid) for process in left)
                raise RunnerFailed(
                    f"a runner in {self.directory} neither answers nor ends: process {numbers}; kill it, "
                    "then continue with `weft resume`"
                )
            time.sleep(0.01)


def _add_ends(here: _Message, messages: Sequence[_Message]) -> _Message:
    """Return a ``here`` message, updated by the ends that arrived after it."""
    ended = {each["attempt"]: each for each in messages if each["is"] == "ended"}
    here["running"] = [each for each in here["running"] if each["attempt"] not in ended]
    here["ended"] = [*here["ended"], *ended.values()]
    return here


def _check_boot(end: _Message, boot: str) -> _Message:
    """Return the record of an end; the cause becomes ``lost`` if the host was rebooted after the end.

    The engine syncs the outputs of a program to the disk before it records the end. If only the runner has
    recorded an end, the outputs may not have survived the reboot.
    """
    if end.get("boot") == boot:
        return end
    text = "the computer was restarted before its end was recorded in the journal"
    return {**end, "code": None, "signal": None, "cause": "lost", "text": text}


def _list_programs(here: _Message) -> SurvivingPrograms:
    """Return the programs in the ``here`` message of a runner."""
    boot = boot_id()
    return SurvivingPrograms(
        running={int(each["attempt"]) for each in here["running"]},
        ends={int(each["attempt"]): _check_boot(each, boot) for each in here["ended"]},
        starts={int(each["attempt"]): each for each in here["starts"]},
    )


def find_programs(
    layout: ProjectLayout, execution: int, machines: Sequence[Machine], machine: int, token: str
) -> SurvivingPrograms | None:
    """Return the programs of a machine in an execution that no engine drives; None: they are not known.

    No process is started or ended. Ends that the runner could not write to a full disk are included.
    """
    described = machines[machine]
    directory = layout.runner(execution, described)
    if not directory.is_dir():
        return SurvivingPrograms()
    try:
        link = RunnerLink(
            directory,
            token,
            cores=find_cores(machines, described),
            environment=os.environ,
            scope=str(RunnerScope.of(layout.home, execution)),
        )
    except RunnerFailed:
        return None
    try:
        return link.find_programs()
    finally:
        link.close()


def find_cores(machines: Sequence[Machine], machine: Machine) -> list[int] | None:
    """Return the cores on which the programs of a machine run; None: all cores.

    If a physical machine states at least one core per node, its cores are divided among its shares and its
    remaining nodes, in the order of the platform. If it states fewer cores, every share uses all of them.
    """
    stated = machine.backend.get("cores")
    if not isinstance(stated, list | tuple):
        return None
    parts = [each for each in machines if each.host_name == machine.host_name]
    nodes = sum(each.nodes for each in parts)
    if len(parts) == 1 or len(stated) < nodes:
        return list(stated)
    before = sum(each.nodes for each in parts[: parts.index(machine)])
    first, end = (count * len(stated) // nodes for count in (before, before + machine.nodes))
    return list(stated[first:end])


def _cannot_measure(report: ProgramReport) -> bool:
    """Return whether a report is the answer of an older runner that cannot measure the machine."""
    return report["is"] == "problem" and str(report.get("text", "")).startswith("unknown message: 'measure'")


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
"""First and longest pause between checks of a lost machine."""
_CHECKED_BYTES = 65536
"""Number of bytes that are written to check for free space on a disk."""


_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(slots=True)
class LostMachine:
    """State of a machine that cannot run programs now."""

    problem: str
    due_s: float
    """Time of the next check on the monotonic clock."""
    pause_s: float = _FIRST_PAUSE_S
    """Pause after the next check; the pause doubles with each check."""


class MachineHealth:
    """Checks whether machines of this host still work: whether their sandboxes exist and can be written.

    A machine is lost while its sandbox is unusable, also at the start of a run. If the sandbox is usable, but
    the runner cannot be started and the machine has never worked, the machine is not lost; its attempts fail,
    because its description may be wrong. A sandbox that disappeared with its disk is not created on another
    disk. A machine whose sandbox could never be created, because its path is wrong, is not expected to
    return.
    """

    def __init__(self, context: ProjectContext) -> None:
        self._context = context
        self._identity: dict[int, tuple[int, int]] = {}
        """By machine: the device and inode that its sandbox had at the last call of ``remember``."""
        self._wrong: set[int] = set()
        """Machines whose sandbox cannot be created until the user changes something, as of the last check."""
        self._full: set[int] = set()
        """Machines whose disk was full at the last check."""
        self.lost: dict[int, LostMachine] = {}

    def remember(self, machine: int) -> None:
        """Record device and inode of a machine's sandbox, to detect later that it was replaced."""
        if (found := self._stat(machine)) is not None:
            self._identity[machine] = found

    def find_missing(self, machine: int) -> str:
        """Return a text if the sandbox of a machine has disappeared or was replaced, else ""."""
        if (known := self._identity.get(machine)) is None:
            self.remember(machine)  # it is created when the first attempt is prepared
            return ""
        found = self._stat(machine)
        if found == known:
            return ""
        what = "has disappeared"
        if found is not None:
            kind = (
                "another directory" if self._sandbox(machine).is_dir() else "something that is no directory"
            )
            what = f"was replaced by {kind}"
        return f"its sandbox {self._sandbox(machine)} {what}"

    def find_problem(self, machine: int) -> str:
        """Return why programs cannot work in the sandbox of a machine; "": they can."""
        self._full.discard(machine)
        if machine in self._identity and (problem := self.find_missing(machine)):
            return problem
        return self._find_write_problem(machine)

    def restore(self, machine: int) -> str:
        """Create the sandbox of a lost machine again if necessary; return why it is still unusable, or ""."""
        known = self._identity.get(machine)
        if problem := self._find_write_problem(machine):
            return problem
        found = self._stat(machine)
        if known is not None and found is not None and found[0] != known[0]:
            return f"its sandbox {self._sandbox(machine)} is on another file system than before"
        self.remember(machine)
        return ""

    def has_worked(self, machine: int) -> bool:
        """Return whether ``remember`` has recorded the sandbox of a machine."""
        return machine in self._identity

    def is_lasting(self, machine: int) -> bool:
        """Return whether a machine has never worked, because its sandbox cannot be created."""
        return machine in self._wrong and not self.has_worked(machine)

    def is_full(self, machine: int) -> bool:
        """Return whether the last problem of a machine was that its disk is full."""
        return machine in self._full

    def lose(self, machine: int, problem: str) -> bool:
        """Mark a machine as lost; return whether it was not lost before."""
        if machine in self.lost:
            return False
        self.lost[machine] = LostMachine(problem, time.monotonic() + _FIRST_PAUSE_S)
        return True

    def due(self) -> list[int]:
        """Return the lost machines that are to be checked now."""
        now_s = time.monotonic()
        return [machine for machine, each in self.lost.items() if each.due_s <= now_s]

    def postpone(self, machine: int, problem: str) -> None:
        """Schedule the next check of a lost machine after a pause.

        ``problem`` is the result of the last check.
        """
        each = self.lost[machine]
        each.problem, each.due_s = problem, time.monotonic() + each.pause_s
        each.pause_s = min(2.0 * each.pause_s, _LONGEST_PAUSE_S)

    def _sandbox(self, machine: int) -> Path:
        return self._context.layout.sandbox(self._context.machines[machine])

    def _stat(self, machine: int) -> tuple[int, int] | None:
        try:
            found = self._sandbox(machine).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _find_write_problem(self, machine: int) -> str:
        sandbox = self._sandbox(machine)
        name = sandbox / f".weft-{os.getpid()}-{machine}"
        self._wrong.discard(machine)
        self._full.discard(machine)
        try:
            make_folder(sandbox)
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                written = os.write(file, bytes(_CHECKED_BYTES))
            finally:
                os.close(file)
                name.unlink()
        except OSError as error:
            problem, lasting = describe_sandbox_error(sandbox, error)
            if lasting:
                self._wrong.add(machine)
            if error.errno in _FULL:
                self._full.add(machine)
            return problem
        if written == _CHECKED_BYTES:
            return ""
        self._full.add(machine)
        return f"its sandbox {sandbox} cannot be written: no space left"


_FORGET_BATCH = 100
"""Number of confirmed ends per ``forget`` message; the runner keeps the ends until it gets the message."""


class RunnerPool:
    """Transport to the runners of an execution; there is one runner per machine, started on first use."""

    def __init__(self, context: ProjectContext, poller: select.poll) -> None:
        self._context = context
        self._scope = RunnerScope.of(context.layout.home, context.execution)
        self._poller = poller
        self._links: dict[int, RunnerLink] = {}
        self._machine_of: dict[int, int] = {}
        """By file descriptor: the machine whose runner is connected."""
        self._programs: dict[int, set[int]] = {}
        """By machine: attempts whose programs run."""
        self._known: dict[int, str] = {}
        """By attempt that was started and whose end is not in the journal yet: its nonce."""
        self._is_clear = False
        """Whether the programs that are not in the journal were ended."""
        self._cancelled: dict[int, float] = {}
        """By cancelled attempt: its grace period. After a lost connection, the cancellation is sent again."""
        self._backlog: list[ProgramReport] = []
        """Reports for the next ``check``, such as ends found while another program was started."""
        self._confirmed: dict[int, list[int]] = {}
        """By machine: attempts whose ends are in the journal, and which its next ``forget`` message names."""
        self._environment = dict(os.environ)
        self._measured: dict[int, float] = {}
        """By machine whose state is measured: the seconds between measurements."""
        self._health = MachineHealth(context)

    def start(self, machine: int, order: Mapping[str, Any]) -> str:
        """Start a program through the machine's runner; return why this failed, or "".

        No program is started on a lost machine.
        """
        if machine in self._health.lost:
            return self._health.lost[machine].problem
        if not self._is_connected(machine):
            found = self._replace_runner(machine)
            self._backlog += found
        if not self._is_connected(machine):
            try:
                self._connect(machine)
            except (RunnerFailed, RunnerUnresponsive) as error:
                self._lose_runner(machine, str(error))
                return str(error)
        # Added after the connection: older records of this attempt are from a start that the journal lost.
        self._known[order["attempt"]] = order["nonce"]
        self._send(machine, order)
        self._programs.setdefault(machine, set()).add(order["attempt"])
        return ""

    def cancel(self, machine: int, attempt: int, grace_s: float) -> None:
        """Terminate a program; if it still runs after ``grace_s`` seconds, kill it."""
        self._cancelled[attempt] = grace_s
        self._send(machine, {"do": "cancel", **self._name(attempt), "grace_s": grace_s})

    def signal(self, machine: int, attempt: int, name: str) -> None:
        """Send the signal ``name`` to a program."""
        self._send(machine, {"do": "signal", **self._name(attempt), "signal": name})

    def _name(self, attempt: int) -> dict[str, Any]:
        return {"attempt": attempt, "nonce": self._known.get(attempt, "")}

    def measure(self, machine: int, every_s: float) -> None:
        """Measure the state of a machine every ``every_s`` seconds; it is reported as ``measured``."""
        self._measured[machine] = every_s
        try:
            if not self._is_connected(machine):
                self._connect(machine)
        except (RunnerFailed, RunnerUnresponsive) as error:
            self._lose_runner(machine, str(error))
            self._backlog.append({"is": "measured", "machine": machine})
        else:
            self._request_measurements([machine])

    def _request_measurements(self, machines: Iterable[int]) -> None:
        """Request measurements from the runners of machines; each request lists weft's own processes."""
        runners = sorted(link.pid for link in self._links.values() if link.connected and link.pid is not None)
        for machine in machines:
            described = self._context.machines[machine]
            order = {
                "do": "measure", "every_s": self._measured[machine], "nodes": described.nodes,
                "sandbox": str(self._context.layout.sandbox(described)), "runners": runners,
                "engine": os.getpid(),
            }  # fmt: skip
            self._send(machine, order)

    def inspect(self, machine: int) -> str:
        """Return why a machine cannot run programs now, or "".

        A machine that cannot run programs is reported as lost. While programs run on a machine, a full disk
        is no reason: a lost machine's programs would be ended, although their ends may free space.
        """
        if machine in self._health.lost:
            return self._health.lost[machine].problem
        problem = self._health.find_problem(machine)
        if self._health.is_full(machine) and self._programs.get(machine):
            return ""
        if problem:
            self._lose(machine, problem)
        return problem

    def responds(self, machine: int) -> bool:
        """Return whether a machine's runner has sent a heartbeat recently; True if no runner is connected."""
        return not (self._is_connected(machine) and self._links[machine].is_silent(_DOUBTFUL_S))

    def reattach(self, machine: int) -> None:
        """Connect again to a runner without a recent heartbeat; replace it if it still does not answer.

        A stopped runner is continued.
        """
        if not self.responds(machine):
            ends = self._replace_runner(machine)
            self._backlog += ends

    def _lose(self, machine: int, problem: str) -> None:
        """Report a machine as lost, once and before all other reports; the backend then ends its programs."""
        if self._health.lose(machine, problem):
            facts = {"lasting": self._health.is_lasting(machine), "full": self._health.is_full(machine)}
            self._backlog.insert(0, {"is": "lost", "machine": machine, "text": problem, **facts})

    def _lose_runner(self, machine: int, problem: str) -> None:
        """Report a machine as lost because its runner is missing.

        A machine that has never worked is reported only if its sandbox is unusable.
        """
        if not self._health.has_worked(machine):
            self.inspect(machine)
        else:
            self._lose(machine, problem)

    def _find_returned(self) -> list[ProgramReport]:
        """Return a report for each lost machine that can run programs again."""
        found: list[ProgramReport] = []
        for machine in self._health.due():
            problem = self._health.restore(machine)
            try:
                if not problem and not self._is_connected(machine):
                    self._connect(machine)
            except (RunnerFailed, RunnerUnresponsive) as error:
                problem = str(error)
            if problem:
                self._health.postpone(machine, problem)
            else:
                self._health.lost.pop(machine)
                found.append({"is": "back", "machine": machine})
        return found

    def forget(self, machine: int, attempt: int) -> None:
        """Drop the stored end of an attempt's program, because the journal on disk now contains this end."""
        self._cancelled.pop(attempt, None)
        self._known.pop(attempt, None)
        confirmed = self._confirmed.setdefault(machine, [])
        confirmed.append(attempt)
        if len(confirmed) >= _FORGET_BATCH:
            self._send_confirmed(machine)

    def _send_confirmed(self, machine: int) -> None:
        if confirmed := self._confirmed.get(machine):
            self._send(machine, {"do": "forget", "attempts": confirmed.copy()})
            confirmed.clear()

    def flush(self) -> None:
        """Send buffered messages."""
        for link in self._links.values():
            link.flush()

    def receive(self, descriptor: int) -> list[ProgramReport]:
        """Return the reports of a runner.

        If the connection is lost, the runner is replaced if it had programs, and the ends of the programs
        that were lost with it are returned.
        """
        machine = self._machine_of[descriptor]
        try:
            reports: list[ProgramReport] = list(self._links[machine].receive())
        except RunnerGone:
            self._unregister(machine)
            return self._replace_runner(machine)
        running = self._programs.setdefault(machine, set())
        running.difference_update(each["attempt"] for each in reports if each["is"] == "ended")
        return [
            {**report, "is": "measured", "machine": machine}
            if report["is"] == "measured" or _cannot_measure(report)
            else report
            for report in reports
        ]

    def check(self) -> list[ProgramReport]:
        """Replace unresponsive runners; return reports on programs that were lost, and on machines.

        A machine is reported as lost if its sandbox has disappeared, and as back when it can be used again.
        """
        returned = self._find_returned()
        for machine, link in self._links.items():
            if link.connected and link.is_unresponsive:
                ends = self._replace_runner(machine)
                self._backlog += ends
            if link.connected and (problem := self._health.find_missing(machine)):
                self._lose(machine, problem)
        found, self._backlog = self._backlog, []
        return [*returned, *found]

    def recover(self, attempts: Sequence[RecoveredAttempt]) -> SurvivingPrograms:
        """Connect to the runners of an earlier engine; return the programs of these attempts.

        The runners discard all other programs and records. Raises RunnerFailed.
        """
        found = SurvivingPrograms()
        self._known.update((each.attempt, each.nonce) for each in attempts)
        for machine in sorted({each.machine for each in attempts}):
            survivors = self._connect(machine)
            self._programs.setdefault(machine, set()).update(survivors.running)
            found.update(survivors)
        return found

    def close(self, *, stop: bool) -> None:
        """Disconnect from all runners.

        With ``stop``, the runners exit when no program runs, also those that only an earlier engine used.
        """
        if stop:
            self._reach_unused()
        for machine, link in self._links.items():
            self._unregister(machine)
            if link.connected and stop:
                self._send_confirmed(machine)
                link.end()
            link.flush()
            link.close()

    def _connect(self, machine: int) -> SurvivingPrograms:
        """Connect to a machine's runner, or start one; return its programs.

        Orphans of a dead runner are killed and reported as lost. An unresponsive runner is killed and
        replaced. Raises RunnerFailed.
        """
        # The runner may serve the engine that has taken over; its programs would be discarded as unknown.
        self._context.check_claim()
        self._end_unknown()
        link = self._link(machine)
        self._unregister(machine)
        try:
            here = link.connect(known=self._known)
        except RunnerUnresponsive:
            link.kill()
            here = link.connect(known=self._known)
        self._machine_of[link.fileno()] = machine
        self._poller.register(link.fileno(), select.POLLIN)
        self._health.remember(machine)
        # All runners must count a new runner among weft's own processes.
        self._request_measurements([each for each in self._measured if self._is_connected(each)])
        return _list_programs(here)

    def _end_unknown(self) -> None:
        """End the programs that are not in the journal, before the first program is started."""
        if not self._is_clear:
            kill_unknown(self._scope, self._context.token, self._context.is_known)
            self._is_clear = True

    def _replace_runner(self, machine: int) -> list[ProgramReport]:
        """Connect to a machine's runner again, or start another; return the ends of programs that have ended.

        Reports about lost machines come before the ends. Nothing is done if no program runs on the machine.
        """
        if not (waiting := sorted(self._programs.get(machine, ()))):
            return []
        text, left = "its runner died", SurvivingPrograms()
        try:
            left = self._connect(machine)
        except (RunnerFailed, RunnerUnresponsive) as error:
            text = str(error)
            self._lose_runner(machine, text)
        ended = [attempt for attempt in waiting if attempt not in left.running]
        self._programs[machine].difference_update(ended)
        for attempt in left.running & self._cancelled.keys():
            self.cancel(machine, attempt, self._cancelled[attempt])
        lost = {"is": "ended", "cause": "lost", "text": text}
        ends = [left.ends.get(attempt, {**lost, **self._name(attempt)}) for attempt in ended]
        # A lost machine is reported before its programs, which are then not tried there again.
        machines, self._backlog = self._backlog, []
        return [*machines, *ends]

    def _reach_unused(self) -> None:
        """Connect to the runners that an earlier engine started and that this engine has not used."""
        context = self._context
        for machine, described in enumerate(context.machines):
            place = context.layout.runner(context.execution, described)
            if machine not in self._links and place.is_dir():
                self._link(machine).reach()

    def _is_connected(self, machine: int) -> bool:
        link = self._links.get(machine)
        return link is not None and link.connected

    def _send(self, machine: int, message: Mapping[str, Any]) -> None:
        if self._is_connected(machine):
            self._links[machine].send(message)

    def _unregister(self, machine: int) -> None:
        for descriptor in [each for each, of in self._machine_of.items() if of == machine]:
            self._poller.unregister(descriptor)
            del self._machine_of[descriptor]

    def _link(self, machine: int) -> RunnerLink:
        if (link := self._links.get(machine)) is None:
            context = self._context
            described = context.machines[machine]
            self._make_folder()
            link = self._links[machine] = RunnerLink(
                context.layout.runner(context.execution, described),
                context.token,
                cores=find_cores(context.machines, described),
                environment=self._environment,
                scope=str(self._scope),
            )
        return link

    def _make_folder(self) -> None:
        """Create the folder of all runners, without following links created by tasks."""
        above = "runners", str(self._context.execution)
        try:
            with open_directory(self._context.layout.home, above, make=True, mode=FOLDER_MODE):
                return
        except StagingProblem as problem:
            raise RunnerFailed(f"no runner can be started: {problem}") from problem
