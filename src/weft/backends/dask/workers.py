"""Programs and files on a Dask worker: the code that weft sends to a worker and that runs in its process.

A worker needs Dask but not weft. ``cluster.py`` sends the source of this module, which must import only the
standard library, and installs it once per worker process under the name ``MODULE``.

Each program leads a session of its own. It is watched by the thread that Dask provides for it; this thread
enforces the limits and returns the end record. A program is identified by the number and the nonce of its
attempt: a repeated start waits for the same program, or returns its record. Processes of a program are found
by their session and by a mark in their environment, so that processes that left the session are found, too.

Programs do not outlive their worker. If the worker closes, they are ended. If it is killed, a guard process,
which reads a pipe from the worker, kills them. Whatever is still left is killed when a worker with the same
folder of records starts again. The record of a start is written before the program is started. Without a
record of its end, the program counts as lost, and it is never started again under the same identity.

File operations stay below a root directory: no symbolic link below the root is followed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

PROTOCOL = 1
"""Version of the functions below; a worker that runs programs of another version is not used."""
MODULE = "_weft_dask_worker"
"""Name of this module in the process of a worker."""
MARK = "WEFT_MARK"
"""Environment variable PID.TICKS.ATTEMPT.NONCE.SCOPE of a program.

PID and TICKS are number and start time of the worker, SCOPE identifies its folder of records.
"""
source = ""
"""Text of this module; set when it is installed on a worker, because the guard process needs it."""
digest = ""
"""Hash of ``source``."""
dask_worker: Any = None
"""The Dask worker of this process; set when the module is installed."""

Record = dict[str, Any]
_Key = tuple[int, str]

_TICKS_PER_S: int = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: int = os.sysconf("SC_PAGE_SIZE")
_SAMPLE_S, _UNLIMITED_SAMPLE_S, _SAMPLE_COST = 0.1, 1.0, 25.0
"""Seconds between memory samples of programs with and without a limit; a sample takes place at most once in
``_SAMPLE_COST`` times its own duration.
"""
_LOOK_S = 1.0
"""Seconds between checks whether the worker is closing."""
_LEFT_BEHIND_S = 2.0
"""Seconds between SIGTERM and SIGKILL for processes that outlive the program."""
_STUCK_S = 30.0
"""Seconds after SIGKILL after which remaining processes are given up."""
_GRACE_S = 10.0
_CLOSING = ("closing", "closed", "failed")
_WHOLE_GROUP = ("STOP", "CONT", "TERM", "INT", "QUIT", "KILL")
"""Signals that all processes of a program get; others go only to processes that handle them."""
_EXHAUSTED = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
_OUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HASH_BYTES = 20
_MOST_BYTES = 64 << 20
"""Longest chunk of a file that is read at once."""


# Processes.


class WorkerProcess:
    """A running process, as ``/proc`` shows it."""

    __slots__ = ("began_ticks", "group", "pid", "resident_bytes", "session", "used_ticks")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.used_ticks = sum(map(int, fields[11:15]))
        """Processor time of its threads, and of its children that have ended."""
        self.began_ticks = int(fields[19])
        self.resident_bytes = int(fields[21]) * _PAGE_BYTES

    def send(self, number: int) -> None:
        """Send a signal to this process, but not to a later one with the same number."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            now = _read_process(self.pid)
            if now is not None and now.began_ticks == self.began_ticks:
                signal.pidfd_send_signal(handle, number)
        except OSError:
            return
        finally:
            os.close(handle)

    def handles(self, number: int) -> bool:
        """Return whether the process has a handler for a signal."""
        return bool(int(_read_field(f"/proc/{self.pid}/status", b"SigCgt:") or b"0", 16) >> (number - 1) & 1)


def _read_kernel_file(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _read_field(name: str, key: bytes) -> bytes:
    for line in _read_kernel_file(name).splitlines():
        if line.startswith(key):
            return line[len(key) :].split()[0]
    return b""


def _read_process(pid: int) -> WorkerProcess | None:
    text = _read_kernel_file(f"/proc/{pid}/stat")
    # The name is in parentheses and may itself contain parentheses.
    fields = text[text.rfind(b")") + 2 :].split()
    return WorkerProcess(pid, fields) if len(fields) > 21 and fields[0] not in (b"Z", b"X") else None


def _list_processes() -> list[WorkerProcess]:
    found = (_read_process(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [process for process in found if process is not None]


def _read_mark(pid: int) -> str:
    text = b"\0" + _read_kernel_file(f"/proc/{pid}/environ")
    return text.partition(f"\0{MARK}=".encode())[2].partition(b"\0")[0].decode(errors="replace")


def _boot_id() -> str:
    return _read_kernel_file("/proc/sys/kernel/random/boot_id").decode().strip()


def _identity() -> Record:
    """Return what identifies the process of this worker, even if its number is used again."""
    own = _read_process(os.getpid())
    ticks = own.began_ticks if own is not None else 0
    return {"pid": os.getpid(), "began_ticks": ticks, "boot": _boot_id(), "host": socket.gethostname()}


class ProcessTable:
    """The processes of this host by session and mark; one sample serves all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: dict[tuple[int, int], str] = {}
        """By number and start time of a process: its mark."""
        self._sampled_s = -1e9
        self._sessions: dict[int, list[WorkerProcess]] = {}
        self._marked: dict[str, list[WorkerProcess]] = {}
        self.cost_s = 0.0
        """Seconds that the last sample took."""

    def members(self, session: int, mark: str, *, age_s: float = 0.0) -> list[WorkerProcess]:
        """Return the running processes of a program, from a sample that is at most ``age_s`` old."""
        asked_s = time.monotonic()
        with self._lock:
            if self._sampled_s < asked_s - age_s:
                self._sample()
            inside = self._sessions.get(session, [])
            outside = [each for each in self._marked.get(mark, ()) if each.session != session]
        return inside + outside

    def _sample(self) -> None:
        began_s = time.monotonic()
        young_ticks = (time.clock_gettime(time.CLOCK_BOOTTIME) - 1.0) * _TICKS_PER_S
        known, self._marks = self._marks, {}
        self._sessions, self._marked = {}, {}
        for process in _list_processes():
            self._sessions.setdefault(process.session, []).append(process)
            identity = process.pid, process.began_ticks
            mark = known.get(identity)
            if mark is None:
                mark = _read_mark(process.pid)
            # A process that has just been started may not have its own environment yet.
            if mark or process.began_ticks < young_ticks:
                self._marks[identity] = mark
            if mark:
                self._marked.setdefault(mark, []).append(process)
        self._sampled_s = began_s
        self.cost_s = time.monotonic() - began_s


_table = ProcessTable()


def _proportional_bytes(process: WorkerProcess) -> int:
    """Return the memory of a process, in which shared pages are divided among their users."""
    found = _read_field(f"/proc/{process.pid}/smaps_rollup", b"Pss:")
    return int(found) * 1024 if found else process.resident_bytes


def guard() -> None:
    """Kill the programs of a worker when it has ended; the main function of the guard process.

    Standard input has a line ``+ SESSION`` for each start and ``- SESSION`` for each end of a program. Its
    end is the end of the worker. The first argument is the prefix of the worker's marks.
    """
    mark, parent = sys.argv[1], os.getppid()
    sessions: set[int] = set()
    text = b""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    # The pipe stays open if a child of the worker has inherited it, so the parent is checked, too.
    while os.getppid() == parent:
        if not poll.poll(1000):
            continue
        if not (part := os.read(0, 65536)):
            break
        *lines, text = (text + part).split(b"\n")
        for line in lines:
            session = int(line[2:])
            (sessions.add if line.startswith(b"+") else sessions.discard)(session)
    _kill_all(lambda process: process.session in sessions or _read_mark(process.pid).startswith(mark))


def _kill_all(is_left: Callable[[WorkerProcess], bool]) -> list[int]:
    """Kill the processes that a function selects, for some seconds at most; return their numbers."""
    killed: list[int] = []
    end_s = time.monotonic() + _STUCK_S
    while left := [each for each in _list_processes() if each.pid != os.getpid() and is_left(each)]:
        for process in left:
            process.send(signal.SIGKILL)
        killed += [process.pid for process in left if process.pid not in killed]
        if time.monotonic() > end_s:
            break
        time.sleep(0.01)
    return killed


# Programs.


class WorkerProgram:
    """A program from its start order to its end record."""

    def __init__(self, order: Mapping[str, Any], prefix: str, scope: str) -> None:
        self.attempt = int(order["attempt"])
        self.nonce = str(order.get("nonce") or "")
        self.order = order
        self.mark = f"{prefix}{self.attempt}.{self.nonce}.{scope}"
        grace_s = order.get("grace_s")
        self.grace_s = _GRACE_S if grace_s is None else float(grace_s)
        self.time_s: float | None = order.get("time_s")
        self.memory_bytes: float | None = order.get("memory_bytes")
        self.began = time.time()
        self.began_s = time.monotonic()
        self.pid = 0
        """Number of the process that leads the program's session; 0 before it has started."""
        self.cause = ""
        self.text = ""
        self.kill_at_s: float | None = None
        """Time of SIGKILL on the monotonic clock; None: the program was not terminated."""
        self.warned = False
        """Whether SIGUSR1 was sent before the time limit."""
        self.peak_bytes = 0
        self.sample_at_s = self.began_s + self.sample_interval_s
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Becomes readable when ``kill_at_s`` has changed; -1: closed."""
        self._wake_lock = threading.Lock()
        self.done = threading.Event()
        self.end: Record = {}

    @property
    def sample_interval_s(self) -> float:
        """Return the seconds between two samples of the program's memory."""
        return _UNLIMITED_SAMPLE_S if self.memory_bytes is None else _SAMPLE_S

    @property
    def warn_at_s(self) -> float | None:
        """Return when a program with restart files gets SIGUSR1, before its time limit; None: never."""
        if self.time_s is None or self.warned or not self.order.get("restart"):
            return None
        return self.began_s + self.time_s - min(self.grace_s, 0.5 * self.time_s)

    def members(self, *, age_s: float = 0.0) -> list[WorkerProcess]:
        """Return the running processes of the program."""
        return _table.members(self.pid, self.mark, age_s=age_s)

    def send(self, number: int, members: Iterable[WorkerProcess]) -> None:
        """Send a signal to the program's group and to its processes outside the group."""
        # The leader is waited for last, so that no other group can have its number.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        for process in members:
            if process.group != self.pid:
                process.send(number)

    def terminate(self, cause: str, text: str, grace_s: float) -> None:
        """Send SIGTERM, and SIGKILL after ``grace_s`` seconds; the first cause is reported.

        The program's thread ends a program that has not started yet.
        """
        if not self.cause:
            self.cause, self.text = cause, text
        kill_at_s = time.monotonic() + grace_s
        if self.kill_at_s is None or kill_at_s < self.kill_at_s:
            first, self.kill_at_s = self.kill_at_s is None, kill_at_s
            if first and grace_s > 0.0 and self.pid:
                self._send_end(self.members())
            self.notify()

    def _send_end(self, members: list[WorkerProcess]) -> None:
        self.send(signal.SIGTERM, members)
        self.send(signal.SIGCONT, members)  # a stopped process handles SIGTERM only when it continues

    def notify(self) -> None:
        """Wake the thread that watches the program."""
        with self._wake_lock:  # a closed descriptor may belong to another file
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def finish(self) -> None:
        """Wake all threads that wait for the end record."""
        with self._wake_lock:
            os.close(self._wake)
            self._wake = -1
        self.done.set()

    def watch(self) -> None:
        """Enforce the limits until the leader has ended; the leader is not waited for."""
        handle = os.pidfd_open(self.pid)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.register(self._wake, select.POLLIN)
            if self.cause:  # terminated while it was being started
                self._send_end([])
            while not any(each == handle for each, _ in poll.poll(self._wait_ms())):
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                self._step(time.monotonic())
        finally:
            os.close(handle)

    def _wait_ms(self) -> int:
        limit_at_s = None if self.time_s is None or self.cause else self.began_s + self.time_s
        now_s = time.monotonic()
        due = [now_s + _LOOK_S, limit_at_s, self.warn_at_s, self.kill_at_s, self.sample_at_s]
        return max(0, int(1000.0 * (min(each for each in due if each is not None) - now_s)) + 1)

    def _step(self, now_s: float) -> None:
        if _is_closing():
            self.terminate("lost", "its Dask worker was closed", 0.0)
        if self.kill_at_s is not None and now_s >= self.kill_at_s:
            self.send(signal.SIGKILL, self.members())
            self.kill_at_s = now_s + _LOOK_S
        if (warn_at_s := self.warn_at_s) is not None and now_s >= warn_at_s:
            self.warned = True
            for process in self.members():
                if process.handles(signal.SIGUSR1):
                    process.send(signal.SIGUSR1)
        seconds = now_s - self.began_s
        if self.time_s is not None and seconds >= self.time_s and not self.cause:
            self.terminate("timeout", f"it was still running after {seconds:.1f} s", self.grace_s)
        if now_s >= self.sample_at_s:
            self._sample()
            self.sample_at_s = now_s + max(self.sample_interval_s, _SAMPLE_COST * _table.cost_s)

    def _sample(self) -> None:
        members = self.members(age_s=0.5 * _SAMPLE_S)
        used = sum(process.resident_bytes for process in members)
        limit = self.memory_bytes
        if limit is not None and used > limit:
            used = sum(map(_proportional_bytes, members))
        self.peak_bytes = max(self.peak_bytes, used)
        if limit is not None and used > limit and not self.cause:
            text = f"it used {used / 1e6:.1f} MB of memory; its limit is {limit / 1e6:.1f} MB"
            self.terminate("oom", text, 0.0)

    def end_left(self) -> int:
        """End the processes that outlive the leader; return their number if the leader ended by itself."""
        members = self.members()
        if not members:
            return 0
        strays = 0 if self.cause else len(members)
        if self.kill_at_s is None:
            self.kill_at_s = time.monotonic() + min(self.grace_s, _LEFT_BEHIND_S)
            self._send_end(members)
        pause_s, stuck_s = 0.005, self.kill_at_s + _STUCK_S
        while members := self.members():
            now_s = time.monotonic()
            if now_s >= self.kill_at_s or _is_closing():
                self.send(signal.SIGKILL, members)
            if now_s >= stuck_s:
                self.text = self.text or "one of its processes cannot be killed"
                break
            time.sleep(pause_s)
            pause_s = min(2.0 * pause_s, 0.1)
        return strays


def _is_closing() -> bool:
    return getattr(getattr(dask_worker, "status", None), "name", "") in _CLOSING


class LaunchError(Exception):
    """A program could not be started; ``code`` is the exit code that a shell would return."""

    def __init__(self, code: int, text: str, error: Exception | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.is_temporary = isinstance(error, OSError) and error.errno in _EXHAUSTED


def _launch(program: WorkerProgram) -> subprocess.Popen[bytes]:
    """Start a program as the leader of a session; raises LaunchError."""
    order = program.order
    argv, cwd = [str(word) for word in order["argv"]], str(order.get("cwd") or "/")
    if not argv or not argv[0]:
        raise LaunchError(126, "the command is empty")
    if os.path.realpath(cwd) != os.path.normpath(cwd):
        raise LaunchError(126, f"the directory {cwd} is not entered: its path contains a symbolic link")
    environment = {**os.environ, **(order.get("env") or {}), MARK: program.mark}
    opened: dict[str, int] = {}
    own_cores, cores = os.sched_getaffinity(0), order.get("cores")
    try:
        streams = [_open_stream(order, name, opened) for name in ("stdin", "stdout", "stderr")]
        if cores is not None:
            os.sched_setaffinity(0, cores)  # of this thread only; the program inherits it
        return subprocess.Popen(  # noqa: S603
            argv,
            cwd=cwd,
            env={key: value for key, value in environment.items() if value is not None},
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
        )
    except (OSError, ValueError, TypeError) as error:
        raise _explain(argv[0], cwd, error) from None
    finally:
        if cores is not None:
            os.sched_setaffinity(0, own_cores)
        for file in opened.values():
            os.close(file)


def _open_stream(order: Mapping[str, Any], stream: str, opened: dict[str, int]) -> int:
    """Open the file of a stream; raises LaunchError. A link in place of an output is not followed."""
    name = order.get(stream)
    if name is None:
        return subprocess.DEVNULL
    if stream == "stderr" and name == order.get("stdout"):
        return opened[name]
    flags = os.O_RDONLY | os.O_CLOEXEC if stream == "stdin" else _OUT
    if stream != "stdin" and not order.get("append"):
        flags |= os.O_TRUNC
    try:
        file = os.open(name, flags, 0o600 if name in (order.get("private") or ()) else 0o666)
    except (OSError, ValueError) as error:
        raise LaunchError(126, f"{stream} {name} cannot be opened: {_reason(error)}", error) from None
    opened[name] = file
    return file


def _explain(name: str, cwd: str, error: Exception) -> LaunchError:
    if isinstance(error, OSError) and error.filename == cwd and not os.path.isdir(cwd):
        return LaunchError(126, f"the directory {cwd} cannot be entered: {_reason(error)}")
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT and "/" in name and os.path.exists(os.path.join(cwd, name)):
        return LaunchError(126, f"{name} cannot be started: the interpreter in its first line does not exist")
    if number == errno.ENOENT:
        return LaunchError(127, f"command not found: {name}")
    if number == errno.EACCES:
        return LaunchError(126, f"{name} is not executable; run chmod +x")
    if number == errno.ENOEXEC:
        return LaunchError(126, f"{name} cannot be executed on this host, and does not start with #!")
    return LaunchError(126, f"{name} cannot be started: {_reason(error)}", error)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _end_record(attempt: int, nonce: str, began: float | None, **more: Any) -> Record:
    at = time.time()
    none: Record = {
        "is": "ended", "attempt": attempt, "nonce": nonce, "code": None, "signal": None, "cause": "",
        "text": "", "at": at, "began": at if began is None else began, "seconds": 0.0, "user_s": 0.0,
        "system_s": 0.0, "max_rss_bytes": None, "strays": 0, "boot": _boot_id(),
    }  # fmt: skip
    return {**none, **more}


def _measure_fullest(folders: Iterable[str]) -> Record | None:
    """Return free space and free files of the fullest of some file systems; None: unknown."""
    found: list[Record] = []
    for folder in folders:
        with suppress(OSError):
            disk = os.statvfs(folder)
            sizes = {"free_bytes": disk.f_bavail * disk.f_frsize, "size_bytes": disk.f_blocks * disk.f_frsize}
            # Some file systems do not count files.
            found.append({"folder": folder, **sizes, "free_files": disk.f_favail if disk.f_files else None})
    return min(found, key=lambda each: int(each["free_bytes"]), default=None)


class ProgramRegistry:
    """The programs and end records of this worker in one folder of records."""

    def __init__(self, folder: str) -> None:
        """Open the folder, and end the programs that an earlier worker left; raises OSError."""
        os.makedirs(folder, 0o700, exist_ok=True)
        self._folder = os.open(folder, _ENTER)
        try:
            self._lock_file = os.open("lock", _OUT, 0o600, dir_fd=self._folder)
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._folder)
            if error.errno != errno.EWOULDBLOCK:
                raise
            raise OSError(errno.EBUSY, "another running worker uses this folder of records", folder) from None
        self.identity = _identity()
        self._scope = hashlib.blake2b(os.path.realpath(folder).encode(), digest_size=8).hexdigest()
        self._prefix = f"{self.identity['pid']}.{self.identity['began_ticks']}."
        self._lock = threading.Lock()
        self._running: dict[_Key, WorkerProgram] = {}
        self._ended: dict[_Key, Record] = {}
        self._forgotten: set[_Key] = set()
        self._last = 0
        """Serial number of the last end record of this process."""
        self._guard: subprocess.Popen[bytes] | None = None
        _kill_all(lambda process: self._is_left(_read_mark(process.pid)))
        self._load()

    def _is_left(self, mark: str) -> bool:
        return mark.endswith(f".{self._scope}") and not mark.startswith(self._prefix)

    def _load(self) -> None:
        """Load the records of an earlier worker; programs without an end are recorded as lost."""
        found: dict[str, Record] = {}
        for name in sorted(os.listdir(self._folder)):
            if name.endswith((".start", ".end")) and (record := self._read(name)) is not None:
                found[name] = record
        for name, record in found.items():
            key = int(record["attempt"]), str(record["nonce"])
            if name.endswith(".end"):
                self._keep(key, record)
            elif name.removesuffix("start") + "end" not in found:
                text, boot = "it was killed together with its Dask worker", record.get("boot", "")
                end = _end_record(*key, record.get("at"), cause="lost", text=text, boot=boot)
                self._record_end(key, end)

    def _read(self, name: str) -> Record | None:
        try:
            with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)) as file:
                record = json.load(file)
        except (OSError, ValueError):
            return None
        valid = isinstance(record, dict) and isinstance(record.get("attempt"), int) and "nonce" in record
        return record if valid else None

    def _write(self, key: _Key, kind: str, record: Record) -> None:
        """Write a record, in place of an earlier one; raises OSError."""
        name = f"{key[0]}.{key[1]}.{kind}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(f"{name}.new", flags, 0o600, dir_fd=self._folder)
        with open(file, "w") as stream:
            json.dump(record, stream)
        os.rename(f"{name}.new", name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _remove(self, key: _Key) -> None:
        for kind in ("start", "end"):
            with suppress(OSError):
                os.unlink(f"{key[0]}.{key[1]}.{kind}", dir_fd=self._folder)

    def _keep(self, key: _Key, end: Record) -> None:
        self._last += 1
        self._ended[key] = {**end, "serial": self._last}

    def _record_end(self, key: _Key, end: Record) -> None:
        with suppress(OSError):  # on a full disk the record exists in memory only
            self._write(key, "end", end)
        with self._lock:
            self._keep(key, end)
            self._running.pop(key, None)

    @property
    def is_idle(self) -> bool:
        """Return whether no program runs."""
        return not self._running

    def close(self) -> None:
        """Release the folder; called when no program runs."""
        os.close(self._lock_file)
        os.close(self._folder)
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()

    def start(self, order: Mapping[str, Any]) -> Record:
        """Run a program and return its end record; a repeated call waits for the same program."""
        key = _key(order["attempt"], order.get("nonce"))
        with self._lock:
            if (end := self._ended.get(key)) is not None:
                return end
            if key in self._forgotten:
                text = "it has ended, and its record was dropped"
                return {"is": "problem", "attempt": key[0], "nonce": key[1], "text": text}
            if (program := self._running.get(key)) is None:
                others = [each for each in self._running.values() if each.attempt == key[0]]
                mine = self._running[key] = WorkerProgram(order, self._prefix, self._scope)
        if program is not None:
            program.done.wait()
            return program.end
        for other in others:
            other.terminate("cancelled", "another attempt has its number", 0.0)
            other.done.wait()
        try:
            mine.end = self._run(mine)
        except BaseException as error:
            text = f"its Dask worker failed: {type(error).__name__}: {error}"
            mine.end = _end_record(*key, mine.began, cause="lost", text=text)
            raise
        finally:
            self._record_end(key, mine.end)
            mine.finish()
        return self._ended.get(key, mine.end)

    def _run(self, program: WorkerProgram) -> Record:
        key = program.attempt, program.nonce
        if program.cause:
            text = f"{program.text} before it started"
            return _end_record(*key, None, cause=program.cause, text=text)
        try:
            start = {"attempt": key[0], "nonce": key[1], "at": program.began, **self.identity}
            self._write(key, "start", start)
        except OSError as error:
            text = f"its start cannot be recorded: {_reason(error)}"
            return _end_record(*key, None, cause="lost", text=text)
        try:
            process = _launch(program)
        except LaunchError as problem:
            cause = "lost" if problem.is_temporary else "error"
            return _end_record(*key, program.began, code=problem.code, cause=cause, text=str(problem))
        program.pid = process.pid
        self._send_to_guard(f"+ {process.pid}")
        program.watch()
        strays = program.end_left()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        self._send_to_guard(f"- {process.pid}")
        end = _end_record(
            *key, program.began, code=code if code >= 0 else None, signal=-code if code < 0 else None,
            cause=program.cause, text=program.text, seconds=time.monotonic() - program.began_s,
            user_s=usage.ru_utime, system_s=usage.ru_stime, strays=strays,
            max_rss_bytes=max(_counted_bytes(usage.ru_maxrss), program.peak_bytes) or None,
        )  # fmt: skip
        if code != 0 and not program.cause:
            errors = program.order.get("stderr") or os.devnull
            end["disk"] = _measure_fullest((str(program.order.get("cwd") or "/"), os.path.dirname(errors)))
        return end

    def _send_to_guard(self, line: str) -> None:
        """Send a line to the guard process, which is started for the first program."""
        with self._lock:
            if self._guard is None and source:
                command = [sys.executable, "-I", "-c", f"{source}\nguard()\n", self._prefix]
                self._guard = subprocess.Popen(  # noqa: S603
                    command,
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    env={key: value for key, value in os.environ.items() if key != MARK},
                )
            if self._guard is not None and self._guard.stdin is not None:
                try:
                    self._guard.stdin.write(f"{line}\n".encode())
                except OSError:  # the guard was killed; marks are still found when the worker starts again
                    self._guard.poll()

    def end(self, attempt: int, nonce: str, grace_s: float | None) -> Record | None:
        """Terminate a program; return its end record if it has ended or will never start, else None."""
        key = _key(attempt, nonce)
        with self._lock:
            program, end = self._running.get(key), self._ended.get(key)
            if end is not None or key in self._forgotten:
                return end
        if program is None:
            text = "it was cancelled before it started"
            self._record_end(key, _end_record(*key, None, cause="cancelled", text=text))
            return self._ended[key]
        program.terminate("cancelled", "it was cancelled", program.grace_s if grace_s is None else grace_s)
        return None

    def send_signal(self, attempt: int, nonce: str, name: str) -> int:
        """Send a signal to a program; return the number of processes that got it."""
        number = getattr(signal, f"SIG{name}", None)
        if not isinstance(number, signal.Signals):
            raise ValueError(f"unknown signal {name!r}")
        program = self._running.get(_key(attempt, nonce))
        if program is None or not program.pid:
            return 0
        members = program.members()
        if name in _WHOLE_GROUP:
            program.send(number, members)
            return len(members)
        handling = [process for process in members if process.handles(number)]
        for process in handling:
            process.send(number)
        return len(handling)

    def list(self, after: int = 0) -> Record:
        """Return the running programs, and the end records with a serial number above ``after``."""
        with self._lock:
            running = [
                {"attempt": each.attempt, "nonce": each.nonce, "pid": each.pid or None, "at": each.began}
                for each in self._running.values()
            ]
            ended = [each for each in self._ended.values() if each["serial"] > after]
            return {"running": running, "ended": ended, "last": self._last}

    def forget(self, attempts: Iterable[tuple[int, str]]) -> None:
        """Drop the end records of some attempts."""
        for attempt, nonce in attempts:
            key = _key(attempt, nonce)
            with self._lock:
                if self._ended.pop(key, None) is None:
                    continue
                self._forgotten.add(key)
            self._remove(key)

    def discard(self, attempts: Iterable[tuple[int, str]]) -> None:
        """Kill the programs of some attempts, wait for their ends, and drop their records."""
        keys = [_key(*pair) for pair in attempts]
        programs = [program for key in keys if (program := self._running.get(key)) is not None]
        for program in programs:
            program.terminate("cancelled", "it is not in the journal", 0.0)
        for program in programs:
            program.done.wait()
        self.forget(keys)

    def sessions(self) -> set[int]:
        """Return the sessions of the running programs."""
        with self._lock:
            return {program.pid for program in self._running.values() if program.pid}


def _key(attempt: object, nonce: object) -> _Key:
    text = str(nonce or "")
    if isinstance(attempt, bool) or not isinstance(attempt, int):
        raise ValueError(f"attempt is not a whole number: {attempt!r}")
    if text and not (text.isascii() and text.isalnum()):
        raise ValueError(f"nonce is not a string of letters and digits: {nonce!r}")
    return attempt, text


def _counted_bytes(kilobytes: int) -> int:
    """Return a program's peak memory as the kernel counts it; 0 if it may be the peak of this worker."""
    own = int(_read_field("/proc/self/status", b"VmHWM:") or 0)
    return kilobytes * 1024 if kilobytes > own + 1024 else 0


# Functions that are called by name.


_registries: dict[str, ProgramRegistry] = {}
_registries_lock = threading.Lock()


def _registry(folder: str) -> ProgramRegistry:
    with _registries_lock:
        if folder not in _registries:
            _registries[folder] = ProgramRegistry(folder)
        return _registries[folder]


def start_program(folder: str, order: Mapping[str, Any]) -> Record:
    """Run a program; return its end record when it has ended.

    ``order`` has ``attempt``, ``nonce``, ``argv``, and optionally ``env`` (changes; None removes a variable),
    ``cwd``, ``stdin``, ``stdout``, ``stderr``, ``append``, ``private`` (files of mode 0600), ``cores``,
    ``time_s``, ``memory_bytes``, ``grace_s`` and ``restart``.
    """
    return _registry(folder).start(order)


def end_program(folder: str, attempt: int, nonce: str, grace_s: float | None = None) -> Record | None:
    """Terminate a program, and kill it after ``grace_s`` seconds; return its end record if it has one."""
    return _registry(folder).end(attempt, nonce, grace_s)


def signal_program(folder: str, attempt: int, nonce: str, name: str) -> int:
    """Send a signal to a program; return the number of processes that got it."""
    return _registry(folder).send_signal(attempt, nonce, name)


def list_programs(folder: str) -> Record:
    """Return the running programs and all end records that were not forgotten."""
    return _registry(folder).list()


def forget_programs(folder: str, attempts: Iterable[tuple[int, str]]) -> None:
    """Drop the end records of some attempts."""
    _registry(folder).forget(attempts)


def discard_programs(folder: str, attempts: Iterable[tuple[int, str]]) -> None:
    """Kill the programs of some attempts, and drop their records."""
    _registry(folder).discard(attempts)


def heartbeat(folder: str, after: int = 0, forget: Iterable[tuple[int, str]] = ()) -> Record:
    """Return the identity of the worker's process, running programs, and ends with serials above ``after``.

    The end records of ``forget`` are dropped first.
    """
    registry = _registry(folder)
    registry.forget(forget)
    return {**registry.identity, "now": time.time(), **registry.list(after)}


_measured: list[tuple[float, int, int]] = []
"""The last measurement: its time, and the busy time in ticks of the host and of weft's processes."""


def measure(sandbox: str) -> dict[str, float | None]:
    """Return the cores that other programs kept busy since the last call, free memory and free disk.

    The first load is measured over half a second.
    """
    if not _measured:
        _measured.append(_busy_ticks())
        time.sleep(0.5)
    then_s, all_then, own_then = _measured[0]
    now_s, all_now, own_now = _measured[0] = _busy_ticks()
    others = max(0, all_now - all_then - max(0, own_now - own_then))
    memory = _read_field("/proc/meminfo", b"MemAvailable:")
    return {
        "load": round(others / _TICKS_PER_S / max(now_s - then_s, 1e-3), 2),
        "memory_bytes": float(memory) * 1024.0 if memory else None,
        "disk_bytes": _free_disk(sandbox),
    }


def _busy_ticks() -> tuple[float, int, int]:
    sessions = {each for registry in list(_registries.values()) for each in registry.sessions()}
    own = [each for each in _list_processes() if each.session in sessions or each.pid == os.getpid()]
    cores = {b"cpu%d" % core for core in os.sched_getaffinity(0)}
    busy = 0
    for line in _read_kernel_file("/proc/stat").splitlines():
        words = line.split()
        if words and words[0] in cores:
            user, nice, system, _, _, *more = map(int, words[1:9])
            busy += user + nice + system + sum(more)
    return time.monotonic(), busy, sum(process.used_ticks for process in own)


def _free_disk(folder: str) -> float | None:
    """Return the bytes that are free below a directory, which need not exist yet."""
    while True:
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            if folder == os.path.dirname(folder):
                return None
            folder = os.path.dirname(folder)
            continue
        except OSError:
            return None
        return float(found.f_bavail * found.f_frsize)


# Files. A name is relative to the root; the root itself may contain links.


def _split(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or not parts:
        raise ValueError(f"the name {name!r} does not stay below the root directory")
    return parts


def _open_parent(root: str, parts: list[str], *, make: bool = False) -> int:
    """Open the directory that contains an entry; no link below the root is followed."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts[:-1]:
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=folder)
            inner = os.open(part, _ENTER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _open_file(root: str, name: str, flags: int) -> int:
    parts = _split(name)
    folder = _open_parent(root, parts, make=bool(flags & os.O_CREAT))
    try:
        file = os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return file


def make_folder(root: str, name: str) -> None:
    """Create a directory of mode 0700 with its parents; it may exist. The root is created, too."""
    os.makedirs(root, 0o700, exist_ok=True)
    if name:
        os.close(_open_parent(root, [*_split(name), ""], make=True))


def write_chunk(root: str, name: str, offset: int, data: bytes, *, executable: bool = False) -> int:
    """Write a part of a file and cut the file after it; return the new size.

    The part must begin inside the file or at its end. The first part creates the file with mode 0600.
    """
    file = _open_file(root, name, os.O_WRONLY | os.O_CREAT)
    try:
        size = os.fstat(file).st_size
        if offset > size:
            raise ValueError(f"{name} has {size} bytes; nothing can be written at {offset}")
        written = 0
        while written < len(data):
            written += os.pwrite(file, data[written:], offset + written)
        os.ftruncate(file, offset + len(data))
        if executable:
            os.fchmod(file, 0o700)
        return offset + len(data)
    finally:
        os.close(file)


def read_chunk(root: str, name: str, offset: int, size: int) -> bytes:
    """Return at most ``size`` bytes of a file from ``offset``; b"" at its end."""
    file = _open_file(root, name, os.O_RDONLY)
    try:
        parts, left = [], min(size, _MOST_BYTES)
        while left > 0 and (part := os.pread(file, left, offset)):
            parts.append(part)
            offset, left = offset + len(part), left - len(part)
        return b"".join(parts)
    finally:
        os.close(file)


def hash_file(root: str, name: str, most_bytes: int | None = None) -> tuple[int, str] | None:
    """Return size and BLAKE2b hash of a file or of its beginning; None if there is no such file."""
    try:
        file = _open_file(root, name, os.O_RDONLY)
    except FileNotFoundError:
        return None
    found, size = hashlib.blake2b(digest_size=_HASH_BYTES), 0
    try:
        while part := os.read(file, 1 << 20 if most_bytes is None else min(1 << 20, most_bytes - size)):
            found.update(part)
            size += len(part)
        return size, found.hexdigest()
    finally:
        os.close(file)


def rename_file(root: str, name: str, new_name: str) -> None:
    """Give a complete file its final name, on disk before this returns; a file of this name is replaced."""
    file = _open_file(root, name, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
    parts, new_parts = _split(name), _split(new_name)
    folder = _open_parent(root, parts)
    try:
        new_folder = _open_parent(root, new_parts, make=True)
        try:
            os.rename(parts[-1], new_parts[-1], src_dir_fd=folder, dst_dir_fd=new_folder)
        finally:
            os.close(new_folder)
    finally:
        os.close(folder)


def remove_tree(root: str, name: str) -> bool:
    """Remove a file, link or directory with its content; return whether it existed.

    Links are not followed.
    """
    parts = _split(name)
    try:
        folder = _open_parent(root, parts)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return _remove_entry(folder, parts[-1])
    finally:
        os.close(folder)


def _remove_entry(folder: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
        return True
    except FileNotFoundError:
        return False
    except (IsADirectoryError, PermissionError):
        pass
    try:
        inner = os.open(name, _ENTER, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=folder)  # a program may have removed its own permission
        inner = os.open(name, _ENTER, dir_fd=folder)
    try:
        os.fchmod(inner, 0o700)
        for entry in os.listdir(inner):
            _remove_entry(inner, entry)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)
    return True


_CALLS: dict[str, tuple[str, Callable[..., Any]]] = {
    "end_program": ("control", end_program),
    "signal_program": ("control", signal_program),
    "list_programs": ("control", list_programs),
    "forget_programs": ("control", forget_programs),
    "discard_programs": ("files", discard_programs),
    "heartbeat": ("beat", heartbeat),
    "measure": ("control", measure),
    "make_folder": ("files", make_folder),
    "write_chunk": ("files", write_chunk),
    "read_chunk": ("files", read_chunk),
    "hash_file": ("files", hash_file),
    "rename_file": ("files", rename_file),
    "remove_tree": ("files", remove_tree),
}
"""By name: the threads that answer a call, and its function. Long calls do not delay heartbeats."""
_THREADS = {"beat": 1, "control": 2, "files": 4}
_executors = {name: ThreadPoolExecutor(count, f"weft-{name}") for name, count in _THREADS.items()}


async def answer(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Record:
    """Answer a call in a thread: its ``value``, or the ``error`` and its number."""
    import asyncio

    threads, function = _CALLS[name]
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_executors[threads], lambda: _try_call(function, arguments, options))


def run_program(folder: str, order: Mapping[str, Any]) -> Record:
    """Run a program as ``start_program`` does; an error is returned, too."""
    return _try_call(start_program, (folder, order), {})


def _try_call(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Record:
    try:
        return {"value": function(*arguments, **options)}
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return {"error": f"{_reason(error)}{where}", "errno": error.errno}
    except Exception as error:  # Dask would log it with all arguments, which may contain secrets.
        return {"error": f"{type(error).__name__}: {error}", "errno": None}


def is_idle() -> bool:
    """Return whether no program runs on this worker, so that the module may be replaced."""
    return all(registry.is_idle for registry in list(_registries.values()))


def close() -> None:
    """Release all folders, because another version of this module replaces this one."""
    for registry in _registries.values():
        registry.close()
    for executor in _executors.values():
        executor.shutdown(wait=False)
