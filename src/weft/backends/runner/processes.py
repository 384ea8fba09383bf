"""Processes of a runner: start programs, find the processes of a task in ``/proc``, measure their memory.

A runner leads a session, and each task leads a process group in this session. The runner is a child subreaper
(``prctl(2)``), so orphaned processes become its children, whatever group and session they have. A process is
assigned to an attempt by its group, by its living ancestors, by earlier observations or by one of two
inherited marks: a variable in its environment, and the value of a resource limit, which survives a cleared
environment. The limit is that of file locks (``RLIMIT_LOCKS``), which Linux has not enforced since version
2.4.25. A child of the runner without either mark has removed both; it is killed when it is found. On a kernel
without subreapers or lists of children, processes that leave the session are not tracked.

A cgroup per task would serve the same purpose. But it can be written only with privileges, and moving the
runner into it and back costs 0.8 ms per program; the limit costs 1 microsecond.

Programs are started with ``posix_spawn``, which does not copy the runner. It has no option for the working
directory. The runner, which has no threads, therefore changes its own directory before it starts a program.

This module is loaded by the runner: it must not import other parts of weft or heavy modules.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from collections.abc import Callable, Container, Iterable, Mapping

from weft.backends.runner.records import hash_bytes

TYPE_CHECKING = False  # importing typing would slow down the start of the runner
if TYPE_CHECKING:
    from typing import Any, TypeAlias


MARK = "WEFT_MARK"
"""Environment variable that identifies the processes started by a runner.

Its value is PID.TICKS.ATTEMPT.NONCE.SCOPE: number and start time of the runner, number and nonce of the
attempt, and the scope of the runner, which names the project's directory and the execution (see
``RunnerScope``).
"""
WRAPPED = "WEFT_WRAPPED"
"""Environment variable of a command that a wrapper has started; its value is the mark of the attempt."""
_RLIMIT_LOCKS = 10
_LIMIT_MARK = 1 << 62
"""Smallest limit of file locks that is a mark; it exceeds every limit that an administrator would set."""
_ATTEMPT_BITS = 32
_ATTEMPT_MASK = (1 << _ATTEMPT_BITS) - 1
TICKS_PER_S: int = os.sysconf("SC_CLK_TCK")
"""Clock ticks per second, the unit of process start times."""
_PAGE_BYTES: int = os.sysconf("SC_PAGE_SIZE")
_open_handle = getattr(os, "pidfd_open", None)
_signal_handle = getattr(signal, "pidfd_send_signal", None)


class Process:
    """A running process."""

    __slots__ = ("began_ticks", "group", "parent", "pid", "resident_bytes", "session", "state", "used_ticks")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.state = fields[0]
        """State of the process, a letter of the kernel: ``S`` is sleeping, ``T`` is stopped by a signal."""
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.used_ticks = int(fields[11]) + int(fields[12])
        """Processor time of all its threads."""
        self.began_ticks = int(fields[19])
        """Start time since boot; together with the process number it identifies a process uniquely."""
        self.resident_bytes = int(fields[21]) * _PAGE_BYTES


def read_process(pid: int) -> Process | None:
    """Return a process by its number; None if it does not exist or is a zombie."""
    text = read_kernel_file(f"/proc/{pid}/stat")
    # The name is in parentheses and may itself contain parentheses.
    fields = text[text.rfind(b")") + 2 :].split()
    return Process(pid, fields) if len(fields) > 21 and fields[0] not in (b"Z", b"X") else None


def list_processes() -> list[Process]:
    """Return all visible running processes."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [process for process in found if process is not None]


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; return whether the group exists (a group of zombies exists)."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It has members that belong to another user.
    return True


def signal_exactly(process: Process, number: int) -> bool:
    """Send a signal to a process, but not to a later process with the same number.

    Return whether the signal was sent.
    """
    try:
        # Before Python 3.9 there are no handles; then the number could be reused between check and signal.
        handle = _open_handle(process.pid) if _open_handle and _signal_handle else None
    except OSError:
        return False
    try:
        now = read_process(process.pid)
        if now is None or now.began_ticks != process.began_ticks:
            return False
        if handle is None or _signal_handle is None:
            os.kill(process.pid, number)
        else:
            _signal_handle(handle, number)
    except OSError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def exit_code(status: int) -> int:
    """Return the exit code in a wait status, or minus the number of the signal that ended the process."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def mark_prefix(pid: int, began_ticks: int) -> str:
    """Return the prefix of all marks of a runner; in a mark, attempt, nonce and scope follow it."""
    return f"{pid}.{began_ticks}."


def marked_attempt(pid: int, mark: str) -> int | None:
    """Return the attempt in the marks of a process; None: it has no mark with the prefix ``mark``."""
    limit = _read_field(f"/proc/{pid}/limits", b"Max file locks")
    if limit.isdigit() and int(limit) >> _ATTEMPT_BITS == _limit_mark(mark, 0) >> _ATTEMPT_BITS:
        return int(limit) & _ATTEMPT_MASK
    if not (found := read_variables(pid, MARK)[0]).startswith(mark):
        return None
    number = found[len(mark) :].partition(".")[0]
    return int(number) if number.isdecimal() else None


def read_variables(pid: int, *names: str) -> list[str]:
    """Return the values that variables had when a process was started; "" for a variable that was not set."""
    text = b"\0" + read_kernel_file(f"/proc/{pid}/environ")
    values = (text.partition(f"\0{name}=".encode())[2].partition(b"\0")[0] for name in names)
    return [value.decode(errors="replace") for value in values]


def find_command(leader: int) -> int:
    """Return the number of the process that a wrapper has started as the command of a task.

    ``leader`` is the first process of the task. It is returned if there is no wrapper or no command yet.
    """
    mark = read_variables(leader, MARK)[0]
    found = [leader]
    for pid in found:
        if pid != leader and mark and read_variables(pid, WRAPPED)[0] == mark:
            return pid
        found += map(int, read_kernel_file(f"/proc/{pid}/task/{pid}/children").split())
    return leader


def _limit_mark(mark: str, attempt: int) -> int:
    """Return the resource limit that marks the processes of an attempt.

    ``mark`` is the prefix of the runner's marks.
    """
    # 30 bits identify the runner: a task may itself run weft, whose processes have marks of other runners.
    runner = int.from_bytes(hash_bytes(mark.encode(), size=4), "big") >> 2
    return _LIMIT_MARK | runner << _ATTEMPT_BITS | attempt & _ATTEMPT_MASK


def _can_mark_limits() -> bool:
    """Return whether the limit of file locks may be set to a mark; an administrator may have lowered it."""
    return resource.getrlimit(_RLIMIT_LOCKS)[1] == resource.RLIM_INFINITY


def catches_signal(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal, so that the signal does not terminate it."""
    return bool(int(_read_field(f"/proc/{pid}/status", b"SigCgt:") or b"0", 16) >> (number - 1) & 1)


def proportional_bytes(pid: int) -> int | None:
    """Return the memory of a process, in which shared pages are divided among their users.

    The result is None if the memory cannot be read.
    """
    found = _read_field(f"/proc/{pid}/smaps_rollup", b"Pss:")
    return int(found) * 1024 if found else None


def peak_bytes(pid: int) -> int:
    """Return the peak resident memory of a process; 0 if unreadable."""
    return int(_read_field(f"/proc/{pid}/status", b"VmHWM:") or 0) * 1024


def out_of_memory_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since boot."""
    return int(_read_field("/proc/vmstat", b"oom_kill ") or 0)


def boot_id() -> str:
    """Return the identifier of the current boot; process numbers of other boots are not valid."""
    return read_kernel_file("/proc/sys/kernel/random/boot_id").decode().strip()


def _read_field(name: str, key: bytes) -> bytes:
    """Return the number that follows a key in a ``/proc`` file; b"" if there is none."""
    for line in read_kernel_file(name).splitlines():
        if line.startswith(key):
            return line[len(key) :].split()[0]
    return b""


def read_kernel_file(name: str) -> bytes:
    """Return the content of a ``/proc`` file; b"" if the process has ended or is not accessible."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(file, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(file)


_OUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
"""Flags to open an output file; a link in its place is not followed."""
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_MODE = 0o700
_DEFAULT = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
"""Signals that are reset to their default action, because Python ignores some and programs inherit this."""


EXHAUSTED = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors that mean that the host lacks processes, memory or open files now."""


_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


class LaunchFailure(Exception):
    """A program could not be started; ``code`` is the exit code that a shell would return."""

    def __init__(self, code: int, text: str, error: Exception | None = None, *, cause: str = "error") -> None:
        super().__init__(text)
        self.cause = cause
        self.code = code
        self.text = text
        self.is_temporary = isinstance(error, OSError) and error.errno in EXHAUSTED
        """Whether the host lacks processes, memory or open files now: not a fault of the program."""


class StartOrder:
    """A validated ``start`` message."""

    def __init__(self, message: dict[str, object], grace_s: float) -> None:
        number = (int, float), "a number"
        self.attempt: int = _field(message, "attempt", int, "a whole number", required=True)
        self.nonce: str = _field(message, "nonce", str, "a string") or ""
        if self.nonce and not (self.nonce.isascii() and self.nonce.isalnum()):
            raise ValueError(f"nonce is not a string of letters and digits: {self.nonce!r}")
        self.argv: list[str] = _field(message, "argv", list, "a list of strings", required=True)
        if not all(isinstance(word, str) for word in self.argv):
            raise ValueError(f"argv is not a list of strings: {self.argv!r}")
        self.env: dict[str, str | None] = _field(message, "env", dict, "a mapping") or {}
        self.cwd: str = _field(message, "cwd", str, "a string") or "/"
        self.stdin: str | None = _field(message, "stdin", str, "a string")
        self.stdout: str = _field(message, "stdout", str, "a string") or os.devnull
        self.stderr: str = _field(message, "stderr", str, "a string") or os.devnull
        self.private: list[str] = _field(message, "private", list, "a list") or []
        self.append = message.get("append") is True
        self.isolated = message.get("isolated") is True
        self.reports_start = message.get("reports_start") is True
        self.time_s: float | None = _field(message, "time_s", *number)
        self.memory_bytes: float | None = _field(message, "memory_bytes", *number)
        self.cores: list[int] | None = _field(message, "cores", list, "a list")
        self.reminder: str | None = _field(message, "reminder", str, "a string")
        self.sandbox: str | None = _field(message, "sandbox", str, "a string")
        self.reports: list[str] | None = _field(message, "reports", list, "a list of strings")
        self.restart: list[str] = _field(message, "restart", list, "a list of strings") or []
        self.beside: int | None = _field(message, "beside", int, "a whole number")
        stated_s: float | None = _field(message, "grace_s", *number)
        self.grace_s = grace_s if stated_s is None else stated_s

    def mode_of(self, stream: str) -> int:
        """Return the mode with which the file of a stream is created, before the umask is applied."""
        return 0o600 if stream in self.private else 0o666


class ProgramLauncher:
    """Starts programs with a common base environment and on common cores."""

    def __init__(self, mark: str, scope: str = "") -> None:
        """Create a launcher; each mark of its programs starts with ``mark`` and ends with ``scope``."""
        self._mark = mark
        self._own_limits = resource.getrlimit(_RLIMIT_LOCKS)
        self._marks_limits = _can_mark_limits()
        self._scope = scope
        self._base: dict[str, str] = {"PATH": os.defpath}
        self._all_cores = self._cores = os.sched_getaffinity(0)
        self._found: dict[tuple[str, str], str] = {}

    def set_base(self, environment: dict[str, str]) -> None:
        """Set the base environment of all programs; each start order adds its own variables."""
        self._base = environment
        self._found.clear()

    def set_cores(self, cores: list[int] | None) -> None:
        """Restrict this process and its future children to some cores; raises OSError.

        If ``cores`` is None, all cores are allowed.
        """
        os.sched_setaffinity(0, self._all_cores if cores is None else cores)
        self._cores = os.sched_getaffinity(0)

    def start(self, order: StartOrder) -> int:
        """Start a program; return its process number, which is also the number of its process group.

        Raises LaunchFailure.
        """
        if not order.argv or not order.argv[0]:
            raise LaunchFailure(126, "the command is empty")
        environment = self._environment(order)
        if order.sandbox is not None:
            _make_directories(order, order.sandbox)
        try:
            os.chdir(order.cwd)
        except (OSError, ValueError) as error:
            what = f"the directory {order.cwd} cannot be entered: {_reason(error)}"
            raise LaunchFailure(126, what, cause=_find_cause(error)) from None
        if (here := os.getcwd()) != order.cwd and here != os.path.normpath(order.cwd):
            os.chdir("/")
            raise LaunchFailure(
                126, f"the directory {order.cwd} is not entered: its path contains a symbolic link"
            )
        try:
            if order.cores is not None:
                self._pin(order)
            return self._spawn(order, environment)
        finally:
            os.chdir("/")
            if order.cores is not None:
                os.sched_setaffinity(0, self._cores)

    def _environment(self, order: StartOrder) -> dict[str, str]:
        mark = f"{self._mark}{order.attempt}.{order.nonce}.{self._scope}"
        if not order.env:
            return {**self._base, MARK: mark}
        every = {**self._base, **order.env, MARK: mark}
        return {key: value for key, value in every.items() if value is not None}

    def _pin(self, order: StartOrder) -> None:
        try:
            os.sched_setaffinity(0, order.cores or ())
        except (OSError, ValueError) as error:
            raise LaunchFailure(126, f"cores {order.cores} are not available: {_reason(error)}") from None

    def _spawn(self, order: StartOrder, environment: dict[str, str]) -> int:
        path = self._search(order.argv[0], environment.get("PATH") or os.defpath)
        if self._marks_limits:
            marked = _limit_mark(self._mark, order.attempt), self._own_limits[1]
            resource.setrlimit(_RLIMIT_LOCKS, marked)
        try:
            return os.posix_spawn(
                path, order.argv, environment, file_actions=_file_actions(order), setpgroup=0, setsigmask=(),
                setsigdef=_DEFAULT,
            )  # fmt: skip
        except (OSError, ValueError, TypeError) as error:
            self._found.clear()
            raise _explain_failure(order, path, error) from None
        finally:
            # The runner may itself be a process of a task, with a mark of its own.
            if self._marks_limits:
                resource.setrlimit(_RLIMIT_LOCKS, self._own_limits)

    def _search(self, name: str, path: str) -> str:
        if "/" in name:
            return name
        found = self._found.get((name, path))
        if found is not None and os.access(found, os.X_OK):
            return found
        seen = ""
        for folder in path.split(os.pathsep):
            candidate = os.path.join(folder or ".", name)
            if os.path.isfile(candidate):
                if os.access(candidate, os.X_OK):
                    if candidate.startswith("/"):
                        self._found[name, path] = candidate
                    return candidate
                seen = seen or candidate
        if seen:
            raise LaunchFailure(126, f"{seen} is not executable; run chmod +x")
        raise LaunchFailure(127, f"command not found: {name} (searched in {path})")


def _make_directories(order: StartOrder, sandbox: str) -> None:
    """Make the empty working directory of a program, and the directories of its private output files.

    All of them are below the sandbox, where no link is followed. Raises LaunchFailure.
    """
    try:
        os.makedirs(sandbox, _FOLDER_MODE, exist_ok=True)
        for path in dict.fromkeys([order.cwd, *map(os.path.dirname, order.private)]):
            parts = os.path.relpath(path, sandbox).split("/")
            if parts[0] == "..":
                raise ValueError(f"{path} is not in it")
            _make_directory(sandbox, parts, is_new=path == order.cwd)
    except (OSError, ValueError) as error:
        what = f"its directories in {sandbox} cannot be created: {_reason(error)}"
        raise LaunchFailure(126, what, error, cause="staging") from None


def _make_directory(root: str, parts: list[str], *, is_new: bool) -> None:
    """Make a directory and its parents; if it must be new, an existing one is removed."""
    above = os.open(root, _ENTER)
    try:
        for part in parts[:-1]:
            _try_mkdir(part, above)
            inner = os.open(part, _ENTER, dir_fd=above)
            os.close(above)
            above = inner
        if not _try_mkdir(parts[-1], above) and is_new:
            import shutil  # rare: the start was repeated

            shutil.rmtree(f"/proc/self/fd/{above}/{parts[-1]}")
            os.mkdir(parts[-1], _FOLDER_MODE, dir_fd=above)
    finally:
        os.close(above)


def _try_mkdir(name: str, above: int) -> bool:
    """Make a directory; return False if there is an entry of this name."""
    try:
        os.mkdir(name, _FOLDER_MODE, dir_fd=above)
    except FileExistsError:
        return False
    return True


def _file_actions(order: StartOrder) -> list[tuple[int, int, str, int, int] | tuple[int, int, int]]:
    """Return the file actions of ``posix_spawn`` for stdin, stdout and stderr.

    Stdin is opened only if the order states it. If stdout and stderr are one file, the file is opened once.
    """
    how = _OUT if order.append else _OUT | os.O_TRUNC
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 1, order.stdout, how, order.mode_of(order.stdout))
    ]
    if order.stdin is not None:
        actions.append((os.POSIX_SPAWN_OPEN, 0, order.stdin, os.O_RDONLY, 0))
    if order.stderr == order.stdout:
        actions.append((os.POSIX_SPAWN_DUP2, 1, 2))
    else:
        actions.append((os.POSIX_SPAWN_OPEN, 2, order.stderr, how, order.mode_of(order.stderr)))
    return actions


def _explain_failure(order: StartOrder, path: str, error: Exception) -> LaunchFailure:
    """Return why a start failed; ``posix_spawn`` itself does not report which file caused the error."""
    for what, name, how in (
        ("stdin", order.stdin, os.O_RDONLY | os.O_NONBLOCK),
        ("stdout", order.stdout, _OUT | os.O_NONBLOCK),
        ("stderr", order.stderr, _OUT | os.O_NONBLOCK),
    ):
        if name is None:
            continue
        try:
            os.close(os.open(name, how, order.mode_of(name)))
        except (OSError, ValueError) as problem:
            cause = "error" if what == "stdin" else _find_cause(problem)
            text = f"{what} {name} cannot be opened: {_reason(problem)}"
            return LaunchFailure(126, text, problem, cause=cause)
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT and os.path.exists(path):
        return LaunchFailure(
            126, f"{path} cannot be started: the interpreter in its first line does not exist"
        )
    if number == errno.ENOENT:
        return LaunchFailure(127, f"command not found: {path} (from {order.cwd})")
    if number == errno.EACCES and os.path.isfile(path) and not os.access(path, os.X_OK):
        return LaunchFailure(126, f"{path} is not executable; run chmod +x")
    if number == errno.ENOEXEC:
        return LaunchFailure(126, f"{path} cannot be executed on this host, and does not start with #!")
    return LaunchFailure(126, f"{path} cannot be started: {_reason(error)}", error)


def _find_cause(error: Exception) -> str:
    """Return the cause of a failure at a directory of weft; a missing one is no error of the program."""
    return "lost" if isinstance(error, OSError) and error.errno in _MISSING else "error"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _field(message: dict[str, object], key: str, kind: Any, noun: str, *, required: bool = False) -> Any:
    """Return a field of a message; raise ValueError if it has a wrong type.

    ``noun`` describes the right type in the error.
    """
    if (value := message.get(key)) is None and not required:
        return None
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ValueError(f"{key} is not {noun}: {value!r}")
    return value


_UNSURE_BYTES = 1 << 20
"""Bytes by which the kernel's memory counters, which are kept per core, may be wrong."""


class MemoryMeter:
    """Determines the peak memory of programs, and whether the kernel killed a program for lack of memory."""

    def __init__(self) -> None:
        self._own_peak_bytes = 0
        self._kills = (out_of_memory_kills(),) * 2

    def program_peak_bytes(self, counted_bytes: int) -> int:
        """Return a program's peak memory as counted by the kernel; 0 if it may be the runner's own peak.

        For a spawned process, the kernel starts counting at the peak of the runner.
        """
        if counted_bytes > self._own_peak_bytes + _UNSURE_BYTES:
            self._own_peak_bytes = peak_bytes(os.getpid())
        return counted_bytes if counted_bytes > self._own_peak_bytes + _UNSURE_BYTES else 0

    def count_kills(self) -> None:
        """Record the kernel's count of out-of-memory kills; called once a second."""
        self._kills = (self._kills[1], out_of_memory_kills())

    def kernel_killed(self) -> bool:
        """Return whether an out-of-memory kill occurred in the last two seconds; each counts once."""
        before, last = self._kills
        if out_of_memory_kills() <= before:
            return False
        self._kills = (before + 1, max(before + 1, last))
        return True


def used_bytes(members: list[Process], limit_bytes: float | None) -> int:
    """Return the resident memory of processes together.

    If the sum exceeds the limit, it is computed again with each shared page divided among its users.
    """
    whole_bytes = sum(process.resident_bytes for process in members)
    if limit_bytes is None or whole_bytes <= limit_bytes:
        return whole_bytes
    shares = [(proportional_bytes(process.pid), process.resident_bytes) for process in members]
    return sum(whole if share is None else share for share, whole in shares)


def describe_excess(used: int, limit_bytes: float) -> str:
    """Return the message about a task that exceeded its memory limit."""
    return f"it used {used / 1e6:.1f} MB of memory; its limit is {limit_bytes / 1e6:.1f} MB"


class StopDetector:
    """Detects from samples of a task's processes whether it is stopped, for example by a batch system."""

    def __init__(self) -> None:
        self._used_ticks: dict[int, int] = {}
        """By process that waited for a stopped process in the last sample: its processor time."""

    def is_stopped(self, members: list[Process]) -> bool:
        """Return whether some processes of a task are stopped and all others wait for them.

        The shell of a command line, for example, waits for its commands and is itself never stopped. Not
        every kernel shows what a process waits for. A parent therefore counts as waiting if it sleeps and
        uses no processor time between two samples.
        """
        by_pid = {process.pid: process for process in members}
        waiting: set[int] = set()
        for process in members:
            parent = by_pid.get(process.parent) if process.state == b"T" else None
            while parent is not None and parent.pid not in waiting and parent.state == b"S":
                waiting.add(parent.pid)
                parent = by_pid.get(parent.parent)
        before, self._used_ticks = self._used_ticks, {pid: by_pid[pid].used_ticks for pid in waiting}
        return any(process.state == b"T" for process in members) and all(
            process.state == b"T"
            or (process.pid in waiting and before.get(process.pid) == process.used_ticks)
            for process in members
        )


_SET_CHILD_SUBREAPER = 36
_PART_BYTES = 65536
_CHILDREN_PAGE_BYTES = 2048
"""Size in bytes from which the kernel may return a list of children in several reads."""
_ENDING_S = 5.0
_ROUNDS = 500
"""Maximal number of times that the children are listed again, because they may have started others."""
_LOOK_S = 0.005
_KILLING_S, _KILL_PAUSE_S = 0.1, 0.0005
"""Longest time that a runner waits for the ends of killed children, and the pause between two lists."""

_Identity: TypeAlias = "tuple[int, int]"


class ProcessTracker:
    """Assigns processes to the attempts of this runner."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._session = os.getsid(0)
        own = read_process(self._pid)
        self.mark = mark_prefix(self._pid, own.began_ticks if own is not None else 0)
        """Prefix of the marks of all programs of this runner."""
        self._attempts: dict[_Identity, int | None] = {}
        """By number and start time of a process outside the tasks' groups: its attempt; None: unknown."""
        self._children = _open_children() if _become_subreaper() else -1
        self._ends_unmarked = _can_mark_limits()
        """Whether a child without marks must have removed its marks; such a child is killed."""

    def list_left(self, attempt: int, leaders: Mapping[int, object]) -> list[Process]:
        """Return the processes left by an attempt that have become children of the runner.

        ``leaders`` are the children that the runner started and has not waited for. A child without marks is
        assigned to this attempt, so that it is ended with the attempt. A zombie may have started another
        process just before its end, so the list is read again until it contains no zombie.
        """
        for _ in range(_ROUNDS):
            adopted = [(pid, read_process(pid)) for pid in self._list_adopted(leaders)]
            found = [each for _, each in adopted if each is not None and self._is_left(each, attempt)]
            if found or all(process is not None for _, process in adopted):
                return found
            _reap(pid for pid, process in adopted if process is None)
        return []

    def _is_left(self, process: Process, attempt: int) -> bool:
        if self._attempt_of(process) is None and self._ends_unmarked:
            self._attempts[process.pid, process.began_ticks] = attempt
        return self._attempt_of(process) == attempt

    def kill_left(self, attempt: int, leaders: Mapping[int, object]) -> None:
        """Kill the processes left by an attempt that have become children of the runner."""
        self._kill_adopted(leaders, lambda found: found == attempt or (found is None and self._ends_unmarked))

    def end_late(self, leaders: Mapping[int, object], running: Container[int]) -> None:
        """Kill processes without marks, and processes of attempts that are not in ``running``.

        ``leaders`` are the children that the runner started and has not waited for.
        """
        self._kill_adopted(
            leaders, lambda found: self._ends_unmarked if found is None else found not in running
        )

    def _kill_adopted(self, leaders: Mapping[int, object], ends: Callable[[int | None], bool]) -> None:
        """Kill the adopted children for whose attempt ``ends`` returns True, until none is left.

        Each process gets one signal. A killed process ends when the kernel runs it, and its own children are
        adopted only then, so the children are listed again after a pause, for a tenth of a second at most;
        callers try again later. A process may start another one before it is killed, so the time between
        listing and killing must be short. Process numbers need no check: the number of a child is not used
        again before the runner has waited for the child.
        """
        killed = set[int]()
        end_s = time.monotonic() + _KILLING_S
        while True:
            is_new = is_left = False
            for pid in self._list_adopted(leaders):
                # The limits of a zombie can be read, so its attempt may be known.
                attempt = None if pid in killed else marked_attempt(pid, self.mark)
                if attempt is None and read_process(pid) is None:
                    _reap([pid])
                    killed.discard(pid)
                    is_new = True
                elif pid in killed:
                    is_left = True
                elif ends(attempt) and _kill_child(pid):
                    killed.add(pid)
                    is_new = True
            if not (is_new or is_left) or time.monotonic() >= end_s:
                return
            if not is_new:
                time.sleep(_KILL_PAUSE_S)

    def _list_adopted(self, leaders: Mapping[int, object]) -> list[int]:
        """Return the process numbers of children that the runner did not start, including zombies.

        This costs a single read if there are no such children.
        """
        if self._children < 0:
            return []
        text = os.pread(self._children, _PART_BYTES, 0)
        if text.count(b" ") == len(leaders):
            return []
        while len(text) > _CHILDREN_PAGE_BYTES and (more := os.pread(self._children, _PART_BYTES, len(text))):
            text += more
        return [pid for pid in map(int, text.split()) if pid not in leaders]

    def members(self, groups: Mapping[int, int]) -> dict[int | None, list[Process]]:
        """Return all running descendants of the runner by attempt; under None, those of no attempt.

        ``groups`` maps the process groups of this session to their attempts.
        """
        living = {process.pid: process for process in list_processes()}
        decided: dict[int, int | None] = {}
        sorted_out: dict[int | None, list[Process]] = {}
        attempts: dict[_Identity, int | None] = {}
        for process in living.values():
            if not self._decide(process, living, groups, decided):
                continue
            attempt = decided[process.pid]
            sorted_out.setdefault(attempt, []).append(process)
            if process.group not in groups:
                attempts[process.pid, process.began_ticks] = attempt
        self._attempts = attempts
        return sorted_out

    def _decide(
        self,
        process: Process,
        living: Mapping[int, Process],
        groups: Mapping[int, int],
        decided: dict[int, int | None],
    ) -> bool:
        """Determine the attempts of a process and its ancestors and add them to ``decided``.

        Return False if the process is not a descendant of the runner.
        """
        ancestors: list[Process] = []
        while process.pid not in decided:
            if process.session == self._session and process.group in groups:
                decided[process.pid] = groups[process.group]
            elif process.parent == self._pid:
                decided[process.pid] = self._attempt_of(process)
            elif process.parent in living and process.pid != self._pid:
                ancestors.append(process)
                process = living[process.parent]
            else:
                return False
        attempt = decided[process.pid]
        for each in reversed(ancestors):
            attempt = self._attempt_of(each) if attempt is None else attempt
            decided[each.pid] = attempt
        return True

    def _attempt_of(self, process: Process) -> int | None:
        """Return the attempt of a process from earlier observations or from its marks; None: unknown."""
        identity = process.pid, process.began_ticks
        if identity not in self._attempts:
            self._attempts[identity] = marked_attempt(process.pid, self.mark)
        return self._attempts[identity]

    def end_all(self) -> None:
        """Kill all remaining descendants of the runner and wait for their ends, for a few seconds at most."""
        end_s = time.monotonic() + _ENDING_S
        while self._children >= 0 and time.monotonic() < end_s:
            _reap(self._list_adopted({}))
            # Orphans become children of the runner, so without children there are no descendants.
            if not self._list_adopted({}):
                return
            for process in [process for ones in self.members({}).values() for process in ones]:
                signal_exactly(process, signal.SIGKILL)
            time.sleep(_LOOK_S)


def _become_subreaper() -> bool:
    """Make the kernel assign orphaned descendants to this process; return False if it cannot."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _open_children() -> int:
    """Open the kernel's list of children of this single-threaded process; -1 if there is no such list."""
    try:
        return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _kill_child(pid: int) -> bool:
    """Kill a child; return False if it belongs to another user, as a program that changes its user does."""
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        return False
    return True


def _reap(pids: Iterable[int]) -> None:
    """Wait for the processes that are children of this process and have ended; all others are ignored."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
