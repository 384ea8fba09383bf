"""Event loop of the runner: one thread that serves the engine's socket, its tasks and its timers.

A connection is accepted as that of the engine once its first line contains the token; a second engine with
the token replaces the first. Messages to the engine are buffered and sent together.

Each task is a process group with limits. The wait status of its leader determines the exit code. Remaining
processes of the task, inside or outside its group, are terminated and killed before the end is reported. At
the time limit the task gets SIGTERM, and SIGKILL after a grace period. Above its memory limit it gets
SIGKILL. A task with restart files gets SIGUSR1 before its time limit. Before such a task is terminated for
another reason, those of its processes that handle SIGUSR1 but not SIGTERM get SIGUSR1, too.

This module is loaded by the runner: it must not import other parts of weft or heavy modules.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time

from weft.backends.runner.message_socket import PROTOCOL, MessageSocket
from weft.backends.runner.processes import (
    LaunchFailure,
    MemoryMeter,
    Process,
    ProcessTracker,
    ProgramLauncher,
    StartOrder,
    StopDetector,
    boot_id,
    catches_signal,
    describe_excess,
    exit_code,
    find_command,
    read_process,
    signal_exactly,
    signal_group,
    used_bytes,
)
from weft.backends.runner.records import (
    Record,
    RecordLog,
    SealedRecords,
    encode_record,
    hash_bytes,
    write_log,
)

TYPE_CHECKING = False  # importing typing would slow down the start of the runner
if TYPE_CHECKING:
    from weft.backends.runner.sensors import HostSensor

_MAX_UNAUTHENTICATED = 8
_MAX_HELLO_BYTES = 1 << 22
"""Maximal length of the first line, which contains an environment of at most a few megabytes."""
_decode = json.JSONDecoder().decode


class EngineSocket:
    """The listening socket, connections that have not sent the token, and the connection to the engine."""

    def __init__(self, folder: int, token: str) -> None:
        self._folder = folder
        self._key = os.urandom(32)
        self._token_hash = hash_bytes(token.encode(), key=self._key)
        """Hash of the token with a random key: the time of a comparison reveals nothing about the token."""
        self._peers: dict[int, MessageSocket] = {}
        self._engine: MessageSocket | None = None
        self._is_full = False
        """Whether the connection accepts no more messages now."""
        self._listener = self._listen()
        self.poll = select.poll()
        self.poll.register(self._listener, select.POLLIN)

    def _listen(self) -> socket.socket:
        """Return the listening socket.

        It is bound through a descriptor, because the path of a socket has at most 107 characters.
        """
        self._remove()
        listener = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            listener.bind(f"/proc/self/fd/{self._folder}/socket")
        finally:
            os.umask(mask)
        listener.listen(128)
        listener.setblocking(False)
        return listener

    def _remove(self) -> None:
        try:
            os.unlink("socket", dir_fd=self._folder)
        except FileNotFoundError:
            return

    @property
    def has_engine(self) -> bool:
        """Return whether an engine is connected."""
        return self._engine is not None

    def close(self) -> None:
        """Remove the socket and close all connections."""
        self._remove()
        self._listener.close()
        for peer in list(self._peers.values()):
            self._drop(peer)

    def send(self, text: str) -> None:
        """Buffer an encoded message for the engine; without an engine the message is dropped."""
        if self._engine is not None:
            self._engine.send(text)

    def flush(self) -> None:
        """Send as many buffered messages as the socket accepts now."""
        engine = self._engine
        if engine is None:
            return
        try:
            is_full = not engine.flush()
        except OSError:
            self._drop(engine)
            return
        if is_full != self._is_full:
            self._is_full = is_full
            self.poll.modify(engine.socket, select.POLLIN | (select.POLLOUT if is_full else 0))

    def receive(self, descriptor: int) -> list[Record]:
        """Read from one socket; return the messages of the engine, including its ``hello``."""
        if descriptor == self._listener.fileno():
            self._accept()
            return []
        peer = self._peers.get(descriptor)
        return self._receive(peer) if peer is not None else []

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # The connection was closed again, or too many files are open; the engine will retry.
        unauthenticated = [peer for peer in self._peers.values() if peer is not self._engine]
        if len(unauthenticated) >= _MAX_UNAUTHENTICATED:
            self._drop(unauthenticated[0])
        self._peers[connection.fileno()] = MessageSocket(connection)
        self.poll.register(connection, select.POLLIN)

    def _receive(self, peer: MessageSocket) -> list[Record]:
        lines = peer.receive()
        messages: list[Record] = []
        for line in lines or ():
            if peer is not self._engine and not self._admit(peer, line):
                self._drop(peer)
                return messages
            messages.append(_decode_line(line))
        if lines is None or (peer is not self._engine and len(peer.incoming) > _MAX_HELLO_BYTES):
            self._drop(peer)
        return messages

    def _admit(self, peer: MessageSocket, line: bytes) -> bool:
        """Accept a connection as the engine's if ``line`` has the token; drop the previous engine."""
        token = _decode_line(line).get("token")
        # A string of JSON can contain half a surrogate pair.
        if not isinstance(token, str):
            return False
        if hash_bytes(token.encode(errors="surrogatepass"), key=self._key) != self._token_hash:
            return False
        if self._engine is not None:
            self._drop(self._engine)
        self._engine = peer
        return True

    def _drop(self, peer: MessageSocket) -> None:
        self._peers.pop(peer.socket.fileno(), None)
        self.poll.unregister(peer.socket)
        peer.socket.close()
        if peer is self._engine:
            self._engine = None
            self._is_full = False


def _decode_line(line: bytes) -> Record:
    """Decode one line; a line that is not a JSON object becomes a message with a ``problem``."""
    try:
        message = _decode(line.decode())
    except (ValueError, RecursionError, MemoryError) as error:
        message = {"do": "", "problem": f"not JSON: {error}"}
    return message if isinstance(message, dict) else {"do": "", "problem": "not an object"}


_LEFT_BEHIND_S = 2.0
"""Seconds that processes which outlive their group leader have between SIGTERM and SIGKILL."""
_STUCK_S = 30.0
"""Seconds after SIGKILL after which a remaining process is reported."""
_SOONEST_S, _LATEST_S = 0.002, 0.1
"""First and longest interval in seconds between checks of a group that is being terminated."""
_REQUEST_S = 0.05
"""Seconds between checks of restart files that were requested."""
_SAMPLE_S = 0.1
_SAMPLE_COST = 25.0
"""Memory is sampled at most once in this multiple of the time that one sample takes."""
_AGED_S, _AGED_COST = 1.0, 100.0
"""Age in seconds from which a task without memory limit is sampled, and its ``_SAMPLE_COST``."""
_LINES = 1000
"""If a log has at least this number of lines and most records were forgotten, the logs are rewritten."""
_UNCATCHABLE = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT}
_WHOLE_GROUP = {"STOP", "CONT", "TERM", "INT", "QUIT", "KILL"}


class RestartRequest:
    """A request to write restart files, sent to a program that is to be terminated."""

    __slots__ = ("_before", "_last", "_paths", "grace_s", "until_s")

    def __init__(self, paths: list[str], grace_s: float, until_s: float) -> None:
        self._paths = paths
        self._before = self._last = self._read()
        self.grace_s = grace_s
        """Seconds between SIGTERM and SIGKILL, after the request."""
        self.until_s = until_s
        """Time on the monotonic clock until which the program may write the files."""

    def is_over(self, now_s: float) -> bool:
        """Return whether the wait for the files is over.

        It is over if the files were written and have not changed since the last call, or if the time has
        passed.
        """
        found = self._read()
        settled = found == self._last and found != self._before
        self._last = found
        return settled or now_s >= self.until_s

    def _read(self) -> list[tuple[str, int, int, int]]:
        import glob

        found = []
        for name in sorted({name for path in self._paths for name in glob.glob(path)}):
            try:
                status = os.lstat(name)
            except OSError:
                continue  # it is being replaced
            found.append((name, status.st_ino, status.st_size, status.st_mtime_ns))
        return found


def _restart_paths(order: StartOrder) -> list[str]:
    """Return the paths of the restart files of a program; a path may contain wildcards."""
    if not order.restart:
        return []
    import glob  # few tasks have restart files

    return [f"{glob.escape(order.cwd)}/{name}" for name in order.restart]


class RunnerTask:
    """An attempt whose process group still exists."""

    def __init__(self, order: StartOrder, pid: int, began: float, began_s: float) -> None:
        self.attempt = order.attempt
        self.nonce = order.nonce
        self.isolated = order.isolated
        """Whether the leader only waits for the program, which is killed when the leader is terminated."""
        self.pid = pid
        self.began = began
        self.began_s = began_s
        self.grace_s = order.grace_s
        self.limit_at_s = None if order.time_s is None else began_s + order.time_s
        """Time on the monotonic clock at which the time limit is reached; None: there is no limit."""
        self.restart = _restart_paths(order)
        """Names or wildcards of the restart files."""
        self.request: RestartRequest | None = None
        self.reports = order.reports
        """Names of files in the working directory of which the engine needs those that exist at the end."""
        self.streams = order.private
        self.folders = (order.cwd, os.path.dirname(order.stderr))
        """Directories in which the task writes: its working directory, and that of its standard error."""
        self.memory_bytes = order.memory_bytes
        self.peak_bytes = 0
        self.cause: str | None = None
        """Why the task was terminated; None: it was not terminated."""
        self.text = ""
        self.kill_at_s: float | None = None
        """Time of SIGKILL on the monotonic clock; None: the task was not terminated."""
        self.killed = False
        self.discarded = False
        """Whether the attempt is not in the engine's journal: its end is not recorded."""
        self.look_s = _SOONEST_S
        """Interval until the next check of a group whose leader has ended; it doubles each time."""
        self.stopping = False
        self.stopped = False
        """Whether the task was reported as stopped."""
        self.stops = StopDetector()
        self.status: int | None = None
        """Wait status of the leader; None: the leader is running."""
        self.usage: tuple[float, float, int] = (0.0, 0.0, 0)
        self.strays = 0
        """Number of processes that were running when the leader had ended by itself."""


_SOONEST_START_S, _LATEST_START_S, _POSTPONED_S = 0.05, 5.0, 300.0
"""First and longest pause before a start is tried again; time after which the attempt is lost."""


class PostponedStart:
    """A start order that failed because the host lacked processes, memory or open files.

    ``first_s`` and ``due_s`` are the times of the first and of the next try on the monotonic clock;
    ``pause_s`` is the pause after the next try.
    """

    __slots__ = ("due_s", "first_s", "order", "pause_s")

    def __init__(self, order: StartOrder, first_s: float, due_s: float, pause_s: float) -> None:
        self.order = order
        self.first_s = first_s
        self.due_s = due_s
        self.pause_s = pause_s


_SHORT_BYTES = 4096
"""Output of a program up to this size is sent with its end."""

_KILLED_CODES = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Codes of a program that SIGKILL ended, and of a shell or isolating program whose child it ended.

A program may also return the second code itself; only the kernel's counter shows that memory ran out.
"""


class RunnerTasks:
    """The tasks of a runner, and the ends of tasks that the engine has not confirmed."""

    def __init__(
        self,
        records: SealedRecords,
        programs: ProgramLauncher,
        socket_: EngineSocket,
        tracker: ProcessTracker,
    ) -> None:
        self.running: dict[int, RunnerTask] = {}
        self.ended: dict[int, str] = {}
        """Encoded end records by attempt."""
        self.starts: dict[int, str] = {}
        """By attempt: the encoded start record of a running task, or of one whose end is unconfirmed."""
        self._nonces: dict[int, str] = {}
        """By attempt: the nonce of its records."""
        self.postponed: dict[int, PostponedStart] = {}
        """By attempt: an order that is tried again after a pause."""
        self._waiting: dict[int, StartOrder] = {}
        """By attempt: an order that waits for the end of a discarded attempt of the same number."""
        self._start_ledger = RecordLog(records, "starts")
        self._end_ledger = RecordLog(records, "ends")
        self._programs = programs
        self._send = socket_.send
        self._tracker = tracker
        self._memory = MemoryMeter()
        self._leaders: dict[int, RunnerTask] = {}
        self._due_s: dict[int, float] = {}
        self._limited: dict[int, RunnerTask] = {}
        self._sample_at_s = 0.0
        self._unwritten: list[tuple[RecordLog, str]] = []
        self._forgotten: dict[int, int] = {}
        """By attempt whose end was dropped: a hash of its nonce, which takes less memory than the nonce."""
        self._load(records)

    def _load(self, records: SealedRecords) -> None:
        """Load the records of this directory's earlier runner; tasks without an end are reported as lost."""
        starts = RecordLog.read(records, "starts")
        for attempt, end in RecordLog.read(records, "ends").items():
            if attempt not in starts or _nonce(starts[attempt]) == _nonce(end):
                self.ended[attempt] = encode_record(end)
                self._nonces[attempt] = _nonce(end)
        for attempt, start in starts.items():
            self.starts[attempt] = encode_record(start)
            if attempt not in self.ended:
                lost = {"cause": "lost", "text": "its runner ended before it recorded the end of the program"}
                boot = start.get("boot", "")
                self._record_end(_end_record(attempt, _nonce(start), start.get("at"), boot=boot, **lost))

    @property
    def busy(self) -> bool:
        """Return whether a task runs or still has to be started."""
        return bool(self.running or self.postponed)

    # Requests of the engine.

    def start(self, order: StartOrder) -> None:
        """Start an attempt; if the request is a repetition, report the known state of the attempt again.

        An attempt of the same number with another nonce is ended and discarded first.
        """
        attempt, nonce = order.attempt, order.nonce
        self._discard_others(attempt, nonce)
        if self._is_being_discarded(attempt):
            self._waiting[attempt] = order
            return
        if self._report_again(attempt, nonce):
            return
        self._nonces[attempt] = nonce
        name = f'"attempt":{attempt},"nonce":"{nonce}","boot":"{_BOOT}"'
        began, began_s, before_s = time.time(), time.monotonic(), _since_boot_s()
        # Recorded first: if the runner dies in between, the program may have run and must not run again.
        self._record_start(attempt, f'{{{name},"pid":null,"at":{began!r}}}')
        if order.beside is not None and (watched := self.running.get(order.beside)) is not None:
            order.env["WEFT_PID"] = str(find_command(watched.pid))
        try:
            pid = self._programs.start(order)
        except LaunchFailure as problem:
            if not (problem.is_temporary and self._postpone(order, problem.text)):
                cause = "lost" if problem.is_temporary else problem.cause
                how = {"code": problem.code, "cause": cause, "text": problem.text}
                self._record_end(_end_record(attempt, nonce, began, **how))
            return
        self.postponed.pop(attempt, None)
        task = self.running[attempt] = self._leaders[pid] = RunnerTask(order, pid, began, began_s)
        if order.time_s is not None:
            early_s = min(order.grace_s, 0.5 * order.time_s) if order.restart else 0.0
            self._due_s[attempt] = began_s + order.time_s - early_s
        if order.memory_bytes is not None:
            self._sample_at_s = began_s + _SAMPLE_S if not self._limited else self._sample_at_s
            self._limited[attempt] = task
        # The leader's start time lies in this interval, which with its number identifies it uniquely.
        within = f"[{before_s!r},{_since_boot_s()!r}]"
        count = f'"within":{within},"reminder":{encode_record(order.reminder)}'
        self._record_start(attempt, f'{{{name},"pid":{pid},"at":{began!r},{count}}}')
        if order.reports_start:
            self._send(_encode_started(task))

    def _postpone(self, order: StartOrder, text: str) -> bool:
        """Schedule another try of a start after a pause, which doubles each time.

        Return False if the first try was more than ``_POSTPONED_S`` ago.
        """
        now_s = time.monotonic()
        known = self.postponed.pop(order.attempt, None)
        first_s, pause_s = (now_s, _SOONEST_START_S) if known is None else (known.first_s, known.pause_s)
        if now_s - first_s >= _POSTPONED_S:
            return False
        if known is None:
            write_log(f"attempt {order.attempt}: {text}; it is tried again")
        later_s = min(2.0 * pause_s, _LATEST_START_S)
        self.postponed[order.attempt] = PostponedStart(order, first_s, now_s + pause_s, later_s)
        return True

    def cancel(self, attempt: int, nonce: str, grace_s: float | None) -> None:
        """Terminate an attempt; if it was not started yet, it will never be started."""
        self._discard_others(attempt, nonce)
        self._waiting.pop(attempt, None)
        self.postponed.pop(attempt, None)
        task = self.running.get(attempt)
        if task is not None and not task.discarded:
            grace_s = task.grace_s if grace_s is None else grace_s
            self._end_group(task, "cancelled", "it was cancelled", grace_s)
        elif not self._report_again(attempt, nonce):
            text = "it was cancelled before it started"
            self._record_end(_end_record(attempt, nonce, None, cause="cancelled", text=text))

    def discard(self, attempts: list[tuple[int, str]]) -> None:
        """End attempts that are not in the journal, and remove their records.

        Each attempt is reported when this is done.
        """
        dropped = [pair for pair in attempts if self._discard(*pair)]
        self._shorten()
        for attempt, nonce in dropped:
            self._send(_encode_discarded(attempt, nonce))

    def _discard_others(self, attempt: int, nonce: str) -> None:
        """Discard an attempt of the same number and another nonce."""
        if (other := self._nonces.get(attempt, nonce)) != nonce:
            self._discard(attempt, other)

    def _discard(self, attempt: int, nonce: str) -> bool:
        """Drop the records of an attempt and end its program; return whether the program no longer runs."""
        if self._nonces.get(attempt) == nonce:
            del self._nonces[attempt]
            self.ended.pop(attempt, None)
            self.starts.pop(attempt, None)
            self.postponed.pop(attempt, None)
        task = self.running.get(attempt)
        if task is None or task.nonce != nonce:
            return True
        task.discarded = True
        self._end_group(task, "cancelled", "it is not in the journal", 0.0)
        return attempt not in self.running

    def _is_being_discarded(self, attempt: int) -> bool:
        task = self.running.get(attempt)
        return task is not None and task.discarded

    def send_signal(self, attempt: int, nonce: str, name: str) -> None:
        """Send a signal to a task.

        A signal in ``_WHOLE_GROUP`` goes to all processes of the task, any other only to processes that
        handle it.
        """
        number = getattr(signal, f"SIG{name}", None)
        if not isinstance(number, signal.Signals):
            raise ValueError(f"unknown signal {name!r}")
        task = self.running.get(attempt)
        if task is not None and task.nonce != nonce:
            task = None
        members = self._members(task) if task is not None else []
        count = len(members)
        if task is not None and name in _WHOLE_GROUP:
            task.stopping = number == signal.SIGSTOP and task.status is None
            if task.stopping:
                # The leader first: a shell in vfork cannot be stopped while its child is.
                os.kill(task.pid, number)
            else:
                _signal_task(task, members, number)
        else:
            count = _signal_handlers(members, number)
        self._send(encode_record({"is": "signalled", "attempt": attempt, "signal": name, "processes": count}))

    def forget(self, attempt: int) -> None:
        """Drop the end of an attempt, because the engine has recorded it."""
        if self.ended.pop(attempt, None) is not None:
            self._forgotten[attempt] = hash(self._nonces.pop(attempt, ""))
            self.starts.pop(attempt, None)
            if self._end_ledger.lines >= _LINES and len(self.ended) < _LINES // 2:
                self._shorten()

    def _shorten(self) -> None:
        """Rewrite the logs without forgotten records, so that they do not grow with the execution."""
        try:
            self._start_ledger.rewrite(list(self.starts.values()))
            self._end_ledger.rewrite(list(self.ended.values()))
        except OSError as error:
            write_log(f"the logs cannot be rewritten: {error.strerror}")
            return
        self._unwritten.clear()

    def end_all(self, cause: str, text: str) -> None:
        """Terminate all tasks, record postponed starts as ended, and drop waiting orders."""
        self._waiting.clear()
        for attempt in list(self.postponed):
            nonce = self.postponed.pop(attempt).order.nonce
            self._record_end(_end_record(attempt, nonce, None, cause=cause, text=text))
        for task in list(self.running.values()):
            self._end_group(task, cause, text, task.grace_s)

    def _report_again(self, attempt: int, nonce: str) -> bool:
        """Report the known state of an attempt again; return False if it is unknown."""
        task = self.running.get(attempt)
        if task is not None and task.nonce == nonce:
            self._send(_encode_started(task))
        elif attempt in self.ended:
            self._send(self.ended[attempt])
        elif self._forgotten.get(attempt) == hash(nonce):
            self._send(_encode_problem(attempt, "it has ended, and its record was dropped"))
        else:
            return False
        return True

    # Events.

    def reap(self) -> None:
        """Handle the group leaders that have ended, stopped or continued."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                self._report_stop(pid, stopped=os.WIFSTOPPED(status))
                continue
            if (task := self._leaders.pop(pid, None)) is not None:
                task.status = status
                peak_bytes = self._memory.program_peak_bytes(usage.ru_maxrss * 1024)
                task.usage = (usage.ru_utime, usage.ru_stime, peak_bytes)
                self._leader_ended(task)

    def _report_stop(self, pid: int, *, stopped: bool) -> None:
        if (task := self._leaders.get(pid)) is not None:
            if task.stopping and stopped:
                _signal_task(task, self._members(task), signal.SIGSTOP)
            self._send_stop(task, stopped=stopped)

    def _send_stop(self, task: RunnerTask, *, stopped: bool) -> None:
        """Report that a task was stopped or continued; an unchanged state is not reported again."""
        if task.stopped != stopped:
            task.stopped = stopped
            word = "stopped" if stopped else "continued"
            self._send(encode_record({"is": word, "attempt": task.attempt, "nonce": task.nonce}))

    def _members(self, task: RunnerTask) -> list[Process]:
        """Return all running processes of a task, also those outside its group."""
        return self._tracker.members(self._groups()).get(task.attempt, [])

    def _groups(self) -> dict[int, int]:
        return {task.pid: task.attempt for task in self.running.values()}

    def kill_remaining(self) -> None:
        """Kill all remaining descendants of the runner; called when no task runs."""
        self._tracker.end_all()

    def _remaining(self, task: RunnerTask) -> list[Process]:
        """Return the running processes of a task whose leader has ended."""
        left = self._tracker.list_left(task.attempt, self._leaders)
        return self._members(task) or left if left or signal_group(task.pid, 0) else []

    def _leader_ended(self, task: RunnerTask) -> None:
        members = self._remaining(task)
        if not members:
            self._finish(task)
        elif task.killed or (task.kill_at_s is not None and not task.isolated):
            # All of them got SIGTERM before; one may still write restart files.
            self._look_again(task, time.monotonic())
        else:
            # The kernel kills the processes of an isolated program with its leader.
            if task.kill_at_s is None and not task.isolated:
                task.strays = len(members)
            self._terminate(task, 0.0 if task.isolated else min(task.grace_s, _LEFT_BEHIND_S))

    def next_s(self) -> float | None:
        """Return the time on the monotonic clock at which ``tick`` has work next; None if it has none."""
        due_s = min(self._due_s.values(), default=None)
        if self._limited and (due_s is None or self._sample_at_s < due_s):
            due_s = self._sample_at_s
        start_s = min((each.due_s for each in self.postponed.values()), default=None)
        return due_s if start_s is None else start_s if due_s is None else min(due_s, start_s)

    def tick(self, now_s: float) -> None:
        """Do the work that is due: steps of tasks that are ending, postponed starts, memory samples."""
        for attempt in [attempt for attempt, due_s in self._due_s.items() if due_s <= now_s]:
            self._step(self.running[attempt], now_s)
        for each in [each for each in self.postponed.values() if each.due_s <= now_s]:
            self.start(each.order)
        if self._limited and self._sample_at_s <= now_s:
            self._sample(now_s, _SAMPLE_COST)

    def beat(self) -> None:
        """Do the work of each second: retry failed writes, count out-of-memory kills, sample tasks.

        Processes left by ended attempts are killed. Tasks are sampled here only if none of them has a memory
        limit; otherwise ``tick`` samples them.
        """
        self._memory.count_kills()
        self._tracker.end_late(self._leaders, self.running)
        now_s = time.monotonic()
        aged = any(now_s - task.began_s >= _AGED_S for task in self.running.values())
        if aged and not self._limited and now_s >= self._sample_at_s:
            self._sample(now_s, _AGED_COST)
        while self._unwritten:
            ledger, text = self._unwritten[0]
            try:
                ledger.add(text)
            except OSError:
                return  # The disk is still full.
            del self._unwritten[0]

    def _step(self, task: RunnerTask, now_s: float) -> None:
        if task.kill_at_s is None:
            self._step_towards_end(task, now_s)
            return
        members = self._members(task) if task.status is None else self._remaining(task)
        if task.status is not None and not members:
            self._finish(task)
            return
        if task.killed and now_s >= task.kill_at_s + _STUCK_S:
            self._send(_encode_problem(task.attempt, "one of its processes cannot be killed"))
            task.kill_at_s = now_s
        if now_s >= task.kill_at_s:
            task.killed = True
            _signal_task(task, members, signal.SIGKILL)
            self._tracker.kill_left(task.attempt, self._leaders)
        self._look_again(task, now_s)

    def _step_towards_end(self, task: RunnerTask, now_s: float) -> None:
        """Terminate a task at its time limit, or when its requested restart files are written.

        Some time before the limit, the task is requested to write its restart files.
        """
        if task.request is not None:
            if task.request.is_over(now_s):
                self._terminate(task, task.request.grace_s)
            else:
                self._due_s[task.attempt] = now_s + _REQUEST_S
        elif task.limit_at_s is not None and now_s < task.limit_at_s:
            _signal_handlers(self._members(task), signal.SIGUSR1)
            self._due_s[task.attempt] = task.limit_at_s
        else:
            task.cause, task.text = "timeout", f"it was still running after {now_s - task.began_s:.1f} s"
            self._terminate(task, task.grace_s)

    def _look_again(self, task: RunnerTask, now_s: float) -> None:
        """Schedule the next check of a terminated group.

        While the leader runs, only the time of SIGKILL is scheduled, because SIGCHLD announces its end.
        """
        kill_at_s = now_s if task.kill_at_s is None else task.kill_at_s
        if task.status is None:
            self._due_s[task.attempt] = kill_at_s + _STUCK_S if task.killed else kill_at_s
            return
        look_at_s = now_s + task.look_s
        task.look_s = min(2.0 * task.look_s, _LATEST_S)
        self._due_s[task.attempt] = look_at_s if task.killed else min(look_at_s, kill_at_s)

    def _end_group(self, task: RunnerTask, cause: str, text: str, grace_s: float) -> None:
        """Terminate a task; only the first cause is recorded."""
        if task.cause is None:
            task.cause, task.text = cause, text
        if grace_s <= 0.0 or not self._request_restart_files(task, grace_s):
            self._terminate(task, grace_s)

    def _request_restart_files(self, task: RunnerTask, grace_s: float) -> bool:
        """Request restart files if a process handles SIGUSR1 but not SIGTERM.

        Return whether they were requested, now or earlier.
        """
        if not task.restart or task.kill_at_s is not None or task.status is not None:
            return False
        if task.request is not None:
            return True
        members = [
            process for process in self._members(task) if not catches_signal(process.pid, signal.SIGTERM)
        ]
        now_s = time.monotonic()
        request = RestartRequest(task.restart, grace_s, now_s + grace_s)
        if not _signal_handlers(members, signal.SIGUSR1):
            return False
        _signal_task(task, members, signal.SIGCONT)
        task.request = request
        self._due_s[task.attempt] = now_s + _REQUEST_S
        return True

    def _terminate(self, task: RunnerTask, grace_s: float) -> None:
        now_s = time.monotonic()
        if grace_s > 0.0 and (task.kill_at_s is None or task.status is not None):
            # Send SIGCONT too, or SIGTERM stays pending in a stopped process.
            _signal_task(task, self._members(task), signal.SIGTERM, signal.SIGCONT)
        before_s = task.kill_at_s
        task.kill_at_s = now_s + grace_s if before_s is None else min(before_s, now_s + grace_s)
        self._look_again(task, now_s)
        if now_s >= task.kill_at_s:
            self._step(task, now_s)

    def _sample(self, now_s: float, cost: float) -> None:
        """Measure the memory of all tasks, end those above their limit, and report those that are stopped."""
        members = self._tracker.members(self._groups())
        for task in list(self.running.values()):
            limit_bytes, found = task.memory_bytes, members.get(task.attempt, [])
            self._look_for_stop(task, found)
            used = used_bytes(found, limit_bytes)
            task.peak_bytes = max(task.peak_bytes, used)
            if limit_bytes is not None and used > limit_bytes and not task.killed:
                self._end_group(task, "oom", describe_excess(used, limit_bytes), 0.0)
        self._sample_at_s = now_s + max(_SAMPLE_S, cost * (time.monotonic() - now_s))

    def _look_for_stop(self, task: RunnerTask, members: list[Process]) -> None:
        """Report whether the processes of a task are stopped.

        If the leader itself is stopped, ``reap`` reports it.
        """
        leader_stopped = any(each.pid == task.pid and each.state == b"T" for each in members)
        if task.status is None and task.kill_at_s is None and not leader_stopped:
            self._send_stop(task, stopped=task.stops.is_stopped(members))

    def _finish(self, task: RunnerTask) -> None:
        attempt = task.attempt
        del self.running[attempt]
        self._due_s.pop(attempt, None)
        self._limited.pop(attempt, None)
        if task.discarded:
            self._finish_discarded(task)
            return
        code = exit_code(task.status or 0)
        cause, text = task.cause or "", task.text
        if code in _KILLED_CODES and task.cause is None and self._memory.kernel_killed():
            cause, text = "oom", "killed by the kernel, because memory ran out"
            text = text if code < 0 else f"one of its processes was {text}"
        user_s, system_s, peak_bytes = task.usage
        end = _end_record(
            attempt, task.nonce, task.began, code=code if code >= 0 else None,
            signal=-code if code < 0 else None, cause=cause, text=text,
            seconds=time.monotonic() - task.began_s, user_s=user_s, system_s=system_s,
            max_rss_bytes=max(peak_bytes, task.peak_bytes) or None, strays=task.strays,
        )  # fmt: skip
        if code != 0 and not cause:
            end["disk"] = _measure_fullest(task.folders)
        if task.reports is not None:
            end["left"] = _find_left(task, task.reports)
        self._record_end(end)

    def _finish_discarded(self, task: RunnerTask) -> None:
        """Remove the records of a discarded attempt and report it; then execute the start order that waited.

        The waiting order is that of another attempt with the same number.
        """
        self._shorten()
        self._send(_encode_discarded(task.attempt, task.nonce))
        if (order := self._waiting.pop(task.attempt, None)) is not None:
            self.start(order)

    def _record_end(self, end: Record) -> None:
        """Record an end in memory and on disk, then report it."""
        text, attempt = encode_record(end), int(str(end["attempt"]))
        self.ended[attempt], self._nonces[attempt] = text, _nonce(end)
        self._write(self._end_ledger, text)
        self._send(text)

    def _record_start(self, attempt: int, text: str) -> None:
        self.starts[attempt] = text
        self._write(self._start_ledger, text)

    def _write(self, ledger: RecordLog, text: str) -> None:
        try:
            ledger.add(text)
        except OSError as error:
            if not self._unwritten:
                write_log(f"a record cannot be written: {error.strerror}; the write is retried")
            self._unwritten.append((ledger, text))


def _signal_task(task: RunnerTask, members: list[Process], *numbers: int) -> None:
    """Send signals to the group of a task and to its processes outside the group.

    Once the runner has waited for the leader, the group is signalled only while it has a member: the number
    of an empty group may already be that of a group of another program.
    """
    has_group = task.status is None or any(process.group == task.pid for process in members)
    inside = [process for process in members if process.pid != task.pid] if task.isolated else []
    for number in numbers:
        if inside and number not in _UNCATCHABLE:
            for process in inside:
                signal_exactly(process, number)
            continue
        if has_group:
            signal_group(task.pid, number)
        for process in members:
            if process.group != task.pid:
                signal_exactly(process, number)


def _signal_handlers(members: list[Process], number: int) -> int:
    """Send a signal to the processes that handle it; return the number of these processes."""
    return sum(catches_signal(process.pid, number) and signal_exactly(process, number) for process in members)


def _encode_started(task: RunnerTask) -> str:
    name = f'"attempt":{task.attempt},"nonce":"{task.nonce}"'
    return f'{{"is":"started",{name},"pid":{task.pid},"at":{task.began!r}}}'


def _encode_discarded(attempt: int, nonce: str) -> str:
    return encode_record({"is": "discarded", "attempt": attempt, "nonce": nonce})


def _encode_problem(attempt: object, text: str) -> str:
    number = attempt if isinstance(attempt, int) else None
    return encode_record({"is": "problem", "attempt": number, "text": text})


def _nonce(record: Record) -> str:
    """Return the nonce in a record; "" if an older version of weft wrote the record."""
    return str(record.get("nonce") or "")


def _find_left(task: RunnerTask, reports: list[str]) -> Record:
    """Return which reports a program has written, and its output by the name of the file.

    A text is None if the file is larger than ``_SHORT_BYTES``.
    """
    streams = {os.path.basename(path): _read_short(path) for path in task.streams}
    found = [name for name in reports if os.path.lexists(f"{task.folders[0]}/{name}")]
    return {"reports": found, "streams": streams}


def _read_short(path: str) -> str | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            content = os.read(file, _SHORT_BYTES + 1)
        finally:
            os.close(file)
    except OSError:
        return None
    return content.decode(errors="surrogateescape") if len(content) <= _SHORT_BYTES else None


def _measure_fullest(folders: tuple[str, ...]) -> Record | None:
    """Return free space and free files of the fullest of the file systems of ``folders``; None: unknown.

    They are measured at once, because the space may be free again when the engine reads the end.
    """
    found: list[Record] = []
    for folder in folders:
        try:
            disk = os.statvfs(folder)
        except OSError:
            continue
        free_bytes, size_bytes = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        # Some file systems do not count files.
        free_files = disk.f_favail if disk.f_files else None
        numbers = {"free_bytes": free_bytes, "size_bytes": size_bytes, "free_files": free_files}
        found.append({"folder": folder, **numbers})
    return min(found, key=lambda each: each["free_bytes"], default=None)  # type: ignore[arg-type, return-value]


_BOOT = boot_id()


def _end_record(attempt: int, nonce: str, began: object, **more: object) -> Record:
    at = time.time()
    none: Record = {
        "is": "ended", "attempt": attempt, "nonce": nonce, "code": None, "signal": None, "cause": "",
        "text": "", "at": at, "began": at if began is None else began, "seconds": 0.0, "user_s": 0.0,
        "system_s": 0.0, "max_rss_bytes": None, "strays": 0, "boot": _BOOT,
    }  # fmt: skip
    return {**none, **more}


def _since_boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_BEAT_S = 1.0
_LEAST_INTERVAL_S = 0.2
"""Shortest interval in seconds between measurements; each measurement takes some milliseconds."""
_ENDING = {signal.SIGTERM, signal.SIGINT}


class Runner:
    """The parent process of all tasks of an execution on a machine."""

    def __init__(
        self, records: SealedRecords, token: str, *, scope: str, idle_s: float, grace_s: float
    ) -> None:
        self._records = records
        self._idle_s = idle_s
        self._grace_s = grace_s
        tracker = ProcessTracker()
        self._programs = ProgramLauncher(tracker.mark, scope)
        self._socket = EngineSocket(records.folder, token)
        self._tasks = RunnerTasks(records, self._programs, self._socket, tracker)
        self._woken, waker = socket.socketpair()
        self._woken.setblocking(False)
        waker.setblocking(False)
        self._waker = waker
        self._exit_when_idle = False
        """Whether to exit as soon as no task runs."""
        self._terminated = False
        """Whether SIGTERM was received: no further task is started."""
        self._idle_since_s = time.monotonic()
        self._beat_at_s = 0.0
        self._beat_file = records.opened("beat")
        self._handlers = {
            "hello": self._hello, "start": self._start, "cancel": self._cancel, "signal": self._signal,
            "forget": self._forget, "discard": self._discard, "end": self._end, "measure": self._measure,
        }  # fmt: skip
        self._sensor: HostSensor | None = None
        """Measures the state of the machine for an engine; None: no engine has requested this."""

    def serve(self) -> None:
        """Serve the engine and the tasks until no work is left."""
        while not self._is_done():
            self._turn()
        self._tasks.kill_remaining()
        # Only after an orderly end: records of a dead runner lead to its orphaned processes.
        self._records.remove("pid")
        self._records.remove("beat")
        self._socket.close()

    def begin(self) -> None:
        """Install signal handlers and write the ``pid`` record; raises OSError."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_ENDING):
            signal.signal(number, lambda *_: None)
        self._socket.poll.register(self._woken, select.POLLIN)
        self._records.write("pid", _identity())

    def _is_done(self) -> bool:
        if self._tasks.busy:
            return False
        if self._exit_when_idle or self._terminated:
            self._socket.flush()
            return True
        return not self._socket.has_engine and time.monotonic() - self._idle_since_s >= self._idle_s

    def _turn(self) -> None:
        for descriptor, happened in self._socket.poll.poll(self._wait_ms()):
            if descriptor == self._woken.fileno():
                self._wake()
            elif happened & ~select.POLLOUT:
                for message in self._socket.receive(descriptor):
                    self._dispatch(message)
        self._tasks.reap()
        now_s = time.monotonic()
        self._tasks.tick(now_s)
        if self._tasks.busy or self._socket.has_engine:
            self._idle_since_s = now_s
        if now_s >= self._beat_at_s:
            self._beat(now_s)
        if self._sensor is not None and now_s >= self._sensor.due_s:
            self._report_state(self._sensor)
        self._socket.flush()

    def _wait_ms(self) -> int:
        due_s = self._tasks.next_s()
        until_s = self._beat_at_s if due_s is None else min(due_s, self._beat_at_s)
        if self._sensor is not None:
            until_s = min(until_s, self._sensor.due_s)
        if not self._tasks.busy and not self._socket.has_engine:
            until_s = min(until_s, self._idle_since_s + self._idle_s)
        return max(0, int((until_s - time.monotonic()) * 1000.0) + 1)

    def _wake(self) -> None:
        """Handle the received signals; after a terminating signal, end all tasks and start no more."""
        try:
            numbers = set(self._woken.recv(4096))
        except BlockingIOError:
            return
        if numbers & _ENDING and not self._terminated:
            self._terminated = True
            self._tasks.end_all("lost", "its runner was terminated by a signal")

    def _beat(self, now_s: float) -> None:
        self._beat_at_s = now_s + _BEAT_S
        self._tasks.beat()
        beat: Record = {"at": time.time(), "monotonic_s": now_s, "running": len(self._tasks.running)}
        try:
            self._records.overwrite(self._beat_file, "beat", beat)
        except OSError as error:
            write_log(f"the heartbeat cannot be written: {error.strerror}")

    # Messages.

    def _dispatch(self, message: Record) -> None:
        """Execute a message of the engine; an invalid message is reported and has no other effect."""
        what = message.get("do")
        handler = self._handlers.get(what) if isinstance(what, str) else None
        try:
            if handler is None:
                raise ValueError(message.get("problem") or f"unknown message: {what!r}")
            handler(message)
        except Exception as error:  # A failing message must not affect the other tasks.
            text = f"{what or 'a message'}: {error}"
            write_log(f"{type(error).__name__}: {text}")
            self._socket.send(_encode_problem(message.get("attempt"), text))

    def _hello(self, message: Record) -> None:
        environment, cores = message.get("env"), message.get("cores")
        self._exit_when_idle = False
        self._sensor = None
        if isinstance(environment, dict):
            self._programs.set_base(environment)
        problem = ""
        try:
            self._programs.set_cores(cores if isinstance(cores, list) else None)
        except (OSError, ValueError) as error:
            problem = f"cores {cores} are not available: {error}"
        running = [
            {"attempt": task.attempt, "nonce": task.nonce, "pid": task.pid, "at": task.began}
            for task in self._tasks.running.values()
        ]
        postponed = [each.order for each in self._tasks.postponed.values()]
        running += [{"attempt": each.attempt, "nonce": each.nonce, "pid": None} for each in postponed]
        about: Record = {"protocol": PROTOCOL, "pid": os.getpid(), "problem": problem}
        here = encode_record({"is": "here", **about, "running": running})
        ended, starts = ",".join(self._tasks.ended.values()), ",".join(self._tasks.starts.values())
        self._socket.send(f'{here[:-1]},"ended":[{ended}],"starts":[{starts}]}}')

    def _start(self, message: Record) -> None:
        if self._terminated:
            raise ValueError("the runner was terminated by a signal")
        self._tasks.start(StartOrder(message, self._grace_s))

    def _cancel(self, message: Record) -> None:
        grace_s = message.get("grace_s")
        stated_s = float(grace_s) if isinstance(grace_s, (int, float)) else None
        self._tasks.cancel(_attempt_number(message), _nonce(message), stated_s)

    def _signal(self, message: Record) -> None:
        self._tasks.send_signal(_attempt_number(message), _nonce(message), str(message.get("signal")))

    def _forget(self, message: Record) -> None:
        several = message.get("attempts")
        for attempt in several if isinstance(several, list) else [_attempt_number(message)]:
            self._tasks.forget(attempt)

    def _discard(self, message: Record) -> None:
        pairs = message.get("attempts")
        if not isinstance(pairs, list):
            raise ValueError(f"attempts is not a list of pairs: {pairs!r}")
        self._tasks.discard([(int(attempt), str(nonce)) for attempt, nonce in pairs])

    def _end(self, _: Record) -> None:
        self._exit_when_idle = True

    def _measure(self, message: Record) -> None:
        """Start to measure the machine periodically; a repeated request updates weft's processes."""
        from weft.backends.runner.sensors import HostSensor  # few runs need it

        sandbox, nodes, every_s = message.get("sandbox"), message.get("nodes"), message.get("every_s")
        runners, engine = message.get("runners"), message.get("engine")
        if not (
            isinstance(sandbox, str)
            and isinstance(nodes, int)
            and isinstance(every_s, (int, float))
            and isinstance(runners, list)
            and isinstance(engine, int)
        ):
            raise ValueError(f"the message is not a valid request to measure: {message!r}")
        if self._sensor is None:
            cores = os.sched_getaffinity(0)
            self._sensor = HostSensor(sandbox, nodes, cores, max(_LEAST_INTERVAL_S, float(every_s)))
        self._sensor.begin([os.getpid(), *runners], engine)

    def _report_state(self, sensor: HostSensor) -> None:
        if not self._socket.has_engine:
            self._sensor = None  # the next engine sends a new request
        elif (found := sensor.measure()) is not None:
            self._socket.send(encode_record({"is": "measured", **found}))


def _attempt_number(message: Record) -> int:
    attempt = message.get("attempt")
    if not isinstance(attempt, int):
        raise ValueError(f"attempt is not a number: {attempt!r}")
    return attempt


def _identity() -> Record:
    """Return the record that identifies this process, even after a reboot or if its number is reused."""
    own = read_process(os.getpid())
    return {"pid": os.getpid(), "began_ticks": own.began_ticks if own else 0, "boot": boot_id()}
