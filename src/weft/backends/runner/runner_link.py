"""Connection to a runner on the same host: find or start it, exchange messages, clean up after a dead one.

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

Hosts load this module without weft being installed there: it uses Python 3.8 and the standard library.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.backends.runner.message_socket import PROTOCOL, MessageSocket
from weft.backends.runner.processes import (
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
from weft.backends.runner.records import Record, RecordLog, SealedRecords, encode_record
from weft.backends.runner.runner import ALREADY_RUNNING, CANNOT_WRITE
from weft.backends.runner.runner import __file__ as runner_file
from weft.errors import WeftError, shorten
from weft.private_files import FILE_MODE, make_folder
from weft.records import dataclass

if TYPE_CHECKING:
    from typing import Any, TypeAlias

_TICK_S = 2.0 / TICKS_PER_S
"""Seconds by which the start time of a process, as the kernel reports it, may differ from the clock."""
_KILLING_S = 60.0
"""Longest wait for the ends of killed processes; on a busy host, ending takes long."""
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


def kill_orphans(records: SealedRecords, *, timeout_s: float = _KILLING_S) -> tuple[int, ...]:
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
    """Return whether a process has the user of this process."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False


def _token_seal(token: str) -> str:
    return hashlib.blake2b(token.encode(), digest_size=8, person=b"weft runner").hexdigest()


def kill_unknown(
    scope: RunnerScope,
    token: str,
    is_known: Callable[[int, int, str], bool],
    *,
    timeout_s: float = _KILLING_S,
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
        program: Sequence[str] = (str(Path(runner_file)),),
        idle_s: float = 60.0,
        grace_s: float = 5.0,
        scope: str = "",
    ) -> None:
        """Create a link to the runner of a directory, without connecting.

        ``scope`` marks the runner and its programs (see ``RunnerScope``). ``python`` and ``program`` start a
        runner if the directory is added to them.
        """
        self.directory = directory
        self.pid: int | None = None
        """Process number of the connected runner."""
        self._token = token
        self._environment = dict(environment)
        self._cores = None if cores is None else list(cores)
        self._python = python
        self._program = tuple(program)
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

    def find_programs(self, timeout_s: float = 5.0) -> _Message | None:
        """Return the programs of the directory's runner without starting or ending a process.

        The result is None if they are not known: the runner does not answer, or a dead one left processes.
        """
        if (here := self._visit(timeout_s)) is not None:
            return here
        if self.alive or find_orphans(self._records):
            return None
        ended = list(RecordLog.read(self._records, "ends").values())
        return {"pid": None, "running": [], "ended": ended, "starts": []}

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
            command = [self._python, "-I", "-S", *self._program, str(self.directory.absolute())]
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
        if (code := exit_code(status)) >= CANNOT_WRITE:
            why = os.strerror(code - CANNOT_WRITE)
            raise RunnerFailed(f"no runner can use {self.directory}: {why}")
        if code not in (0, ALREADY_RUNNING) and code > 0:
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

    def forward(self, lines: Iterable[bytes]) -> None:
        """Queue messages that are encoded already; without a connection, they are dropped."""
        if self._connection is not None:
            for line in lines:
                self._connection.send(line.decode())

    def receive_lines(self) -> list[bytes]:
        """Return the encoded messages received so far; raise RunnerGone if the connection is lost."""
        if self._connection is None:
            raise RunnerGone(f"no runner is connected in {self.directory}")
        if (lines := self._connection.receive()) is None:
            self.disconnect()
            raise RunnerGone(f"the runner in {self.directory} has exited, or serves another engine")
        if lines:
            self._received_at_s = time.monotonic()
        return lines

    def receive(self) -> list[_Message]:
        """Return the messages received so far without waiting; raise RunnerGone if the connection is lost."""
        try:
            return [read_message(line) for line in self.receive_lines()]
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

    def kill(self, timeout_s: float = _KILLING_S) -> tuple[int, ...]:
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

    def _end_unrecorded(self, timeout_s: float = _KILLING_S) -> None:
        """End the runners of this directory that are not in its ``pid`` record; raises RunnerFailed.

        The signal is SIGTERM: a runner whose record was removed then ends its programs before it exits.
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
