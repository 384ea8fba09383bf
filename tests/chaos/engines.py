"""Engines that start quickly and can be killed: a process that has loaded weft forks one per order.

``Stable`` exchanges lines of JSON with that process. An engine is a child of it, writes to its own log and
exits with 0 (completed), 1 (other outcome), 5 (stopped with a message) or 70 (internal error, see its log). On SIGUSR2 it writes its
stack to the log.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STOPPED = 5
"""Exit code: the engine stopped with a message for the user."""
BROKE = 70


class Stable:
    """The process that forks engines."""

    def __init__(self, environment: dict[str, str], prefix: Sequence[str] = ()) -> None:
        """Start the process; ``prefix`` are the words of a command that starts it in another environment."""
        self._process = subprocess.Popen(
            [*prefix, sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def start(self, order: dict[str, Any]) -> Engine:
        """Fork an engine that executes an order, and return it."""
        return Engine(self, int(self.ask({"do": "start", **order})))

    def ask(self, message: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def cut_power(self) -> None:
        """Kill the process; with the prefix of a PID namespace, everything in it dies too."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(timeout=60)
        self._process.stdin.close()
        self._process.stdout.close()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=180)
        self._process.stdout.close()


class Engine:
    """A running engine, as a process of the server."""

    def __init__(self, stable: Stable, pid: int) -> None:
        self.pid = pid
        self.over = False
        self._stable = stable

    def kill(self) -> int:
        """Kill the engine; return its exit status, since it may have ended before."""
        os.kill(self.pid, signal.SIGKILL)  # at most a zombie until it is waited for
        return self.wait(30.0)

    def wait(self, timeout_s: float) -> int:
        """Return the exit code (negative: a signal); raise TimeoutError if the engine does not end."""
        code = self._stable.ask({"do": "wait", "pid": self.pid, "timeout_s": timeout_s})
        if code is None:
            raise TimeoutError(f"engine {self.pid} has not ended after {timeout_s} s")
        self.over = True
        return int(code)


def _serve() -> None:
    from weft.api import run  # imported once for all engines
    from weft.backends.local import backend
    from weft.planners.planner import make_planner
    from weft.policies.policy import make_policy

    assert backend
    for each in ("fcfs", "plan"):
        make_policy(each)
    make_planner("heft")
    for line in sys.stdin:
        message = json.loads(line)
        answer = _fork(message, run) if message["do"] == "start" else _wait(message)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _fork(order: dict[str, Any], running: Any) -> int:
    pid = os.fork()
    if pid:
        return pid
    from weft.errors import WeftError

    code = BROKE
    try:
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        for new, old in ((null, 0), (log, 1), (log, 2)):
            os.dup2(new, old)
        faulthandler.register(signal.SIGUSR2)
        os.environ.update(order.get("environment", {}))
        if "CHAOS_SHIM" in os.environ:
            ctypes.CDLL(os.environ["LD_PRELOAD"]).chaos_begin()
        if "file_bytes" in order:
            resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_bytes"],) * 2)
        os.chdir(order["project"])
        code = _live(order, running)
    except (WeftError, OSError) as error:  # the command line prints both as messages
        sys.stderr.write(f"{error}\n")
        code = STOPPED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _live(order: dict[str, Any], running: Any) -> int:
    if order["resume"]:
        ran = running.resume(project=".")
    else:
        ran = running.run(
            [Path(each) for each in order["workflows"]], on=order["on"], project=".", policy=order["policy"],
            planner="heft" if order["policy"] == "plan" else None, preset="patient", **order.get("more", {}),
        )  # fmt: skip
    sys.stderr.write(f"ended: {ran.ending}\n")
    return 0 if ran.ending.state == "completed" else 1


def _wait(message: dict[str, Any]) -> int | None:
    until_s = time.monotonic() + message["timeout_s"]
    handle = os.pidfd_open(message["pid"])
    try:
        if not select.select([handle], [], [], max(0.0, until_s - time.monotonic()))[0]:
            return None
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(message["pid"], 0)[1])


if __name__ == "__main__":
    _serve()
