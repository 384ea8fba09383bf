"""Programs of a runner: how one is started in its own process group, and what is said where it cannot be.

``posix_spawn`` costs no copy of the runner. It knows no working directory: the runner, which has no threads,
goes there itself. The program is looked for in the task's own PATH, by the rules of ``execvp``. Each gets a
mark in its environment, by which it and all it starts is known again.
Read by the runner only: no other part of weft, and only light modules.
"""

from __future__ import annotations

import errno
import os
import signal

from weft.backends.runner.process_groups import MARK

__all__ = ["NotStarted", "Order", "Programs"]

_OUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
"""A link that stands in the place of an output is not followed: it may lead anywhere."""
_DEFAULT = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
"""Python ignores some signals, and programs would inherit that."""


class NotStarted(Exception):
    """A program could not be started; ``code`` is what a shell would give."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Order:
    """What a start message asks for, checked."""

    __slots__ = (
        "append", "argv", "attempt", "cores", "cwd", "env", "grace_s", "memory_bytes", "reminder", "stderr",
        "stdin", "stdout", "tells_start", "time_s",
    )  # fmt: skip

    def __init__(self, message: dict[str, object], grace_s: float) -> None:
        self.attempt = _whole(message, "attempt")
        self.argv = _texts(message, "argv")
        self.env = _changes(message)
        self.cwd = _text(message, "cwd") or "/"
        self.stdin = _text(message, "stdin")
        self.stdout = _text(message, "stdout") or os.devnull
        self.stderr = _text(message, "stderr") or os.devnull
        self.append = message.get("append") is True
        self.tells_start = message.get("tells_start") is True
        self.time_s = _number(message, "time_s")
        self.memory_bytes = _number(message, "memory_bytes")
        self.cores = _cores(message)
        self.reminder = _text(message, "reminder")
        self.grace_s = grace_s if message.get("grace_s") is None else _number(message, "grace_s") or 0.0


class Programs:
    """Starts programs with one base environment and set of cores."""

    __slots__ = ("_all_cores", "_base", "_cores", "_found", "_mark")

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._base: dict[str, str] = {"PATH": os.defpath}
        self._all_cores = self._cores = os.sched_getaffinity(0)
        self._found: dict[tuple[str, str], str] = {}

    def set_base(self, environment: dict[str, str]) -> None:
        """Set what every program gets, changed by its own order."""
        self._base = environment
        self._found.clear()

    def set_cores(self, cores: list[int] | None) -> None:
        """Keep this process, and all it starts from now on, to some cores (None: all); raises OSError."""
        os.sched_setaffinity(0, self._all_cores if cores is None else cores)
        self._cores = os.sched_getaffinity(0)

    def start(self, order: Order) -> int:
        """Start a program and give the number of its process and group; raises NotStarted."""
        if not order.argv or not order.argv[0]:
            raise NotStarted(126, "the command is empty")
        environment = self._environment(order)
        try:
            os.chdir(order.cwd)
        except (OSError, ValueError) as error:
            raise NotStarted(126, f"the directory {order.cwd} cannot be entered: {_reason(error)}") from None
        here = os.getcwd()
        if here != order.cwd and here != os.path.normpath(order.cwd):
            os.chdir("/")
            raise NotStarted(126, f"the directory {order.cwd} is not entered: a link lies on the way to it")
        try:
            if order.cores is not None:
                self._pin(order)
            return self._spawn(order, environment)
        finally:
            os.chdir("/")
            if order.cores is not None:
                os.sched_setaffinity(0, self._cores)

    def _environment(self, order: Order) -> dict[str, str]:
        mark = f"{self._mark}{order.attempt}"
        if not order.env:
            return {**self._base, MARK: mark}
        every = {**self._base, **order.env, MARK: mark}
        return {key: value for key, value in every.items() if value is not None}

    def _pin(self, order: Order) -> None:
        try:
            os.sched_setaffinity(0, order.cores or ())
        except (OSError, ValueError) as error:
            raise NotStarted(126, f"cores {order.cores} cannot be had: {_reason(error)}") from None

    def _spawn(self, order: Order, environment: dict[str, str]) -> int:
        path = self._search(order.argv[0], environment.get("PATH") or os.defpath)
        try:
            return os.posix_spawn(
                path, order.argv, environment, file_actions=_openings(order), setpgroup=0, setsigmask=(),
                setsigdef=_DEFAULT,
            )  # fmt: skip
        except (OSError, ValueError, TypeError) as error:
            self._found.clear()
            raise _explained(order, path, error) from None

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
            raise NotStarted(126, f"{seen} is not executable; chmod +x makes it so")
        raise NotStarted(127, f"command not found: {name} (looked for in {path})")


def _openings(order: Order) -> list[tuple[int, int, str, int, int] | tuple[int, int, int]]:
    """Say what the new process opens: input from nowhere unless stated, one file only once."""
    how = _OUT if order.append else _OUT | os.O_TRUNC
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 1, order.stdout, how, 0o666)
    ]
    if order.stdin is not None:
        actions.append((os.POSIX_SPAWN_OPEN, 0, order.stdin, os.O_RDONLY, 0))
    if order.stderr == order.stdout:
        actions.append((os.POSIX_SPAWN_DUP2, 1, 2))
    else:
        actions.append((os.POSIX_SPAWN_OPEN, 2, order.stderr, how, 0o666))
    return actions


def _explained(order: Order, path: str, error: Exception) -> NotStarted:
    """Find out what it was: the system gives one number for the program and its files alike."""
    for what, name, how in (
        ("stdin", order.stdin, os.O_RDONLY | os.O_NONBLOCK),
        ("stdout", order.stdout, _OUT | os.O_NONBLOCK),
        ("stderr", order.stderr, _OUT | os.O_NONBLOCK),
    ):
        if name is None:
            continue
        try:
            os.close(os.open(name, how, 0o666))
        except (OSError, ValueError) as problem:
            return NotStarted(126, f"{what} {name} cannot be opened: {_reason(problem)}")
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT and os.path.exists(path):
        return NotStarted(
            126, f"{path} cannot be started: the interpreter that its first line names is missing"
        )
    if number == errno.ENOENT:
        return NotStarted(127, f"command not found: {path} (from {order.cwd})")
    if number == errno.EACCES and os.path.isfile(path) and not os.access(path, os.X_OK):
        return NotStarted(126, f"{path} is not executable; chmod +x makes it so")
    if number == errno.ENOEXEC:
        return NotStarted(126, f"{path} is no program for this computer, and has no line #! at its top")
    return NotStarted(126, f"{path} cannot be started: {_reason(error)}")


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _whole(message: dict[str, object], key: str) -> int:
    value = message.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{key} is not a whole number: {value!r}")
    return value


def _number(message: dict[str, object], key: str) -> float | None:
    value = message.get(key)
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise ValueError(f"{key} is not a number: {value!r}")
    return value


def _text(message: dict[str, object], key: str) -> str | None:
    value = message.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{key} is not a text: {value!r}")
    return value


def _texts(message: dict[str, object], key: str) -> list[str]:
    value = message.get(key)
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{key} is not a list of texts: {value!r}")
    return value


def _changes(message: dict[str, object]) -> dict[str, str | None]:
    value = message.get("env") or {}
    if not isinstance(value, dict):
        raise ValueError(f"env is not a mapping: {value!r}")
    return value


def _cores(message: dict[str, object]) -> list[int] | None:
    value = message.get("cores")
    if value is not None and not isinstance(value, list):
        raise ValueError(f"cores is not a list: {value!r}")
    return value
