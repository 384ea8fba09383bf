"""The engine's end of a runner: finds a living one or starts one, speaks with it, reads what it has written.

Nothing here waits except ``connect``, ``kill`` and ``kill_orphans``. One thread uses a link.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.backends.runner import orphans, runner
from weft.backends.runner.records import Ledger, Records, encoded
from weft.errors import WeftError

__all__ = ["RunnerFailed", "RunnerGone", "RunnerHangs", "RunnerLink"]

_Message = dict[str, Any]

_SILENT_S = 5.0
"""A runner without a beat for so long is stopped or stuck."""
_WAKING_S = 2.0
_PART_BYTES = 1 << 18
_decode = json.JSONDecoder().decode


class RunnerGone(WeftError):
    """The connection to a runner is lost: it has ended, was killed, or serves another engine."""


class RunnerHangs(WeftError):
    """A runner lives and does not answer; ``kill`` ends it and its tasks."""


class RunnerFailed(WeftError):
    """A runner could not be started, or what a dead one has left could not be ended."""


class RunnerLink:
    """The connection to the runner of one directory."""

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
    ) -> None:
        self.directory = directory
        self.pid: int | None = None
        """The runner's process, once connected."""
        self._token = token
        self._environment = dict(environment)
        self._cores = None if cores is None else list(cores)
        self._python = python
        self._settings = {"token": token, "idle_s": idle_s, "grace_s": grace_s}
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._records = Records(str(directory.absolute()), token)
        except OSError as error:
            raise RunnerFailed(f"no runner can work in {directory}: {error.strerror}") from error
        self._socket: socket.socket | None = None
        self._lost = False
        self._outgoing: list[str] = []
        self._unsent = b""
        self._incoming = b""
        self._child: int | None = None
        self._heard_at_s = -math.inf

    # Finding and starting.

    def connect(self, timeout_s: float = 15.0) -> _Message:
        """Connect to the living runner, else start one; gives its greeting: what runs and what has ended.

        Orphans of a dead runner are killed first; the new one reports them as ended, cause ``lost``.
        Raises RunnerHangs, RunnerFailed.
        """
        self.disconnect()
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            if self._call():
                here = self._greet(end_s)
                if here is not None:
                    return here
            elif not orphans.is_living(self._records.read("pid")) and not self._child_lives():
                self.kill_orphans()
                self._start()
            time.sleep(0.005)
        if self.alive:
            raise RunnerHangs(f"the runner in {self.directory} lives and does not answer")
        raise RunnerFailed(f"no runner could be started in {self.directory}: {self._last_words()}")

    def reach(self, timeout_s: float = 5.0) -> bool:
        """Connect to the living runner, and start none; False: there is none that answers."""
        self.disconnect()
        try:
            return self._call() and self._greet(time.monotonic() + timeout_s) is not None
        except (RunnerHangs, RunnerFailed):
            return False

    def _call(self) -> bool:
        """Try to reach a listening runner."""
        connection = socket.socket(socket.AF_UNIX)
        # A stopped runner takes no calls once its queue is full.
        connection.settimeout(1.0)
        try:
            connection.connect(f"/proc/self/fd/{self._records.folder}/socket")
        except OSError:
            connection.close()
            return False
        connection.setblocking(False)
        self._socket = connection
        self._lost = False
        return True

    def _greet(self, end_s: float) -> _Message | None:
        """Say hello and wait for the answer; None where the runner went meanwhile. A stopped one is woken."""
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
                return self._welcomed(messages)
            self.flush()
            if time.monotonic() > silent_at_s:
                silent_at_s = end_s
                self._tell_runner(signal.SIGCONT)
            time.sleep(0.001)
        self.disconnect()
        raise RunnerHangs(f"the runner in {self.directory} lives and does not answer")

    def _welcomed(self, messages: list[_Message]) -> _Message:
        """Give the greeting, with what has happened since it was written: nobody waits for that again."""
        here = messages[0]
        self.pid = int(here["pid"])
        if here["problem"]:
            self.disconnect()
            raise RunnerFailed(f"the runner in {self.directory}: {here['problem']}")
        ended = {each["attempt"]: each for each in messages[1:] if each["is"] == "ended"}
        here["running"] = [each for each in here["running"] if each["attempt"] not in ended]
        here["ended"] += ended.values()
        return here

    def _start(self) -> None:
        """Start a runner in its own session; what for is said on its input, where nobody else can read it."""
        log = self._opened_log()
        reading, writing = os.pipe()
        try:
            actions = [
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ]
            command = [self._python, "-I", "-S", str(Path(runner.__file__)), str(self.directory.absolute())]
            self._child = os.posix_spawn(
                self._python, command, os.environ, file_actions=actions, setsid=True, setsigmask=()
            )
            os.write(writing, json.dumps(self._settings).encode() + b"\n")
        except OSError as error:
            raise RunnerFailed(f"no runner could be started with {self._python}: {error.strerror}") from error
        finally:
            for descriptor in (log, reading, writing):
                os.close(descriptor)

    def _opened_log(self) -> int:
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._records.make_own("log")
            return os.open("log", how, 0o600, dir_fd=self._records.folder)
        except OSError as error:
            raise RunnerFailed(f"no runner can work in {self.directory}: {error.strerror}") from error

    def _child_lives(self) -> bool:
        """Tell whether the runner that was started here is still there; raises RunnerFailed if it broke."""
        if self._child is None:
            return False
        try:
            found, status = os.waitpid(self._child, os.WNOHANG)
        except ChildProcessError:
            found, status = self._child, 0
        if not found:
            return True
        self._child = None
        code = os.waitstatus_to_exitcode(status)
        if code >= runner.NO_ROOM:
            why = os.strerror(code - runner.NO_ROOM)
            raise RunnerFailed(f"no runner can work in {self.directory}: {why}")
        if code not in (0, runner.ALREADY_RUNS) and code > 0:
            raise RunnerFailed(f"the runner in {self.directory} ended with code {code}: {self._last_words()}")
        return False

    def _child_is_there(self) -> bool:
        try:
            return self._child_lives()
        except RunnerFailed:
            return False

    def _last_words(self) -> str:
        lines = self._records.content("log").decode(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    # Speaking.

    def fileno(self) -> int:
        """Give the socket, to be waited for; -1 where there is no connection."""
        return -1 if self._socket is None else self._socket.fileno()

    @property
    def connected(self) -> bool:
        """Tell whether messages can be sent and received."""
        return self._socket is not None and not self._lost

    @property
    def has_unsent(self) -> bool:
        """Tell whether ``flush`` has to be called again when the socket can be written to."""
        return bool(self._unsent or self._outgoing)

    def send(self, message: Mapping[str, Any]) -> None:
        """Put a message in line; ``flush`` sends all of them at once."""
        self._outgoing.append(encoded(message))

    def flush(self) -> None:
        """Send what the socket takes now. A lost connection is noticed by ``receive``."""
        if self._socket is None or self._lost:
            return
        if self._outgoing:
            self._outgoing.append("")
            self._unsent += "\n".join(self._outgoing).encode()
            self._outgoing.clear()
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._lost = True

    def receive(self) -> list[_Message]:
        """Give the messages that have come, without waiting; raises RunnerGone after the last one."""
        if self._socket is None:
            raise RunnerGone(f"no runner is connected in {self.directory}")
        gone = False
        parts = [self._incoming]
        while True:
            try:
                part = self._socket.recv(_PART_BYTES)
            except BlockingIOError:
                break
            except OSError:
                part = b""
            if not part:
                gone = True
                break
            parts.append(part)
            if len(part) < _PART_BYTES:
                break
        lines = b"".join(parts).split(b"\n")
        self._incoming = lines.pop()
        if gone and not lines:
            self.disconnect()
            raise RunnerGone(f"the runner in {self.directory} is gone, or serves another engine")
        if lines:
            self._heard_at_s = time.monotonic()
        return [_decode(line.decode()) for line in lines]

    def end(self) -> None:
        """Tell the runner to end as soon as nothing runs; one that was stopped is woken, or it would stay."""
        self.send({"do": "end"})
        self.flush()
        self._tell_runner(signal.SIGCONT)

    def disconnect(self) -> None:
        """Hang up; the runner and its tasks go on."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._outgoing.clear()
        self._unsent = self._incoming = b""

    def close(self) -> None:
        """Hang up for good."""
        self.disconnect()
        self._records.close()
        if self._child is not None:
            try:
                os.waitpid(self._child, os.WNOHANG)
            except ChildProcessError:
                self._child = None

    # Seeing from outside.

    @property
    def alive(self) -> bool:
        """Tell whether the runner's process is there, whether it answers or not."""
        return self._child_is_there() or orphans.is_living(self._records.read("pid"))

    def beat_age_s(self) -> float:
        """Give how long ago the runner has last shown a sign of life, on disk or by a message."""
        beat = self._records.read_again("beat")
        beat_at_s = -math.inf if beat is None else float(str(beat["monotonic_s"]))
        return time.monotonic() - max(beat_at_s, self._heard_at_s)

    @property
    def hangs(self) -> bool:
        """Tell whether the runner is there without a sign of life: stopped, or stuck."""
        return self.beat_age_s() > _SILENT_S and self.alive

    def starts_on_disk(self) -> dict[int, _Message]:
        """Give the starts that the runner has written, by attempt; what others wrote is not believed."""
        return Ledger.read(self._records, "starts")

    def ends_on_disk(self) -> dict[int, _Message]:
        """Give the ends that the runner has written, by attempt; what others wrote is not believed."""
        return Ledger.read(self._records, "ends")

    def kill_orphans(self) -> tuple[int, ...]:
        """Kill what a dead runner has left, and wait for it; nothing if it lives. Raises RunnerFailed."""
        try:
            return orphans.kill_orphans(self._records)
        except TimeoutError as error:
            raise RunnerFailed(f"the dead runner in {self.directory} has left {error}") from error

    def kill(self, timeout_s: float = 10.0) -> tuple[int, ...]:
        """Kill the runner and all its tasks, whatever state it is in; gives the orphans that were killed."""
        if self._child_is_there() and self._child is not None:
            os.kill(self._child, signal.SIGKILL)
        self._tell_runner(signal.SIGKILL)
        end_s = time.monotonic() + timeout_s
        while self.alive:
            if time.monotonic() > end_s:
                raise RunnerFailed(f"the runner in {self.directory} cannot be killed")
            time.sleep(0.002)
        self.disconnect()
        return self.kill_orphans()

    def _tell_runner(self, number: int) -> None:
        identity = self._records.read("pid")
        if identity is not None and orphans.is_living(identity):
            os.kill(int(str(identity["pid"])), number)
