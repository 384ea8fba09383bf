"""The process on a login node that runs the jobs of a distant engine.

The engine starts it through ssh and exchanges lines with it through standard input and output, as with the
bridge to a runner (``runner/bridge.py``). The process does what the engine does on a login node: it submits
jobs, reads their records on the file system of the cluster, and runs the commands of Slurm (``JobQueue``).
Its end does not end the jobs: the next process finds them by their files. Only one process serves a folder: a
new one ends an earlier one whose connection was lost.

The first line from the engine has ``token``, ``scope``, ``known`` (pairs of attempt and nonce) and
``machine``: the fields of ``Partition``. The answer is ``here`` with ``running``, ``ended`` and ``starts``,
or ``failed`` with ``text``; with ``lasting`` only the user can correct the cause. The messages that follow
are those of a runner, with the time ``sent`` on the clock of the login node. Before a job is cancelled
because no journal contains it, the engine is asked with ``programs``.

Login nodes load this module without weft being installed there: it uses Python 3.8 and the standard library.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.backends.runner.bridge import FAILED, RUNNER_LOST, InputLines, send_message
from weft.backends.runner.processes import boot_id
from weft.backends.runner.runner_link import RunnerScope
from weft.backends.slurm.controller import SlurmController, SlurmRefused, SlurmUnreachable
from weft.backends.slurm.job_queue import JobQueue, QueueContext, find_wrong_partition
from weft.backends.slurm.pilots import Partition, ProgramReport
from weft.errors import WeftError
from weft.private_files import make_folder, write_file

COMMANDS = ("sbatch", "squeue", "scancel", "sinfo")
"""Commands of Slurm without which no job can run."""
_MACHINE = 0
"""Number of the only machine of a queue here; the engine has its own number for it."""
_CHECK_S = 1.0
_TIMEOUT_S = 10.0
_BURST = 1000
"""More commands than any limit permits in a second: an earlier process may have started them just now."""
_LOCK, _OWNER = "lock", "owner"
_LOCK_S = 20.0
_PAUSE_S = 0.1


def serve(directory: str) -> int:
    """Run the jobs of the engine on standard input and output; return the exit code.

    ``directory`` is the folder of the jobs, on the file system of the cluster.
    """
    lines = InputLines()
    settings = lines.wait()
    if settings is None:
        return 0
    machine = Partition(**settings["machine"])
    try:
        make_folder(Path(directory))
        claim = _FolderClaim(Path(directory))
        if not claim.take():
            text = "another process serves this machine and does not end"
            send_message({"is": "failed", "text": f"{text}: {directory}"})
            return FAILED
        if problem := _find_problem(machine):
            send_message({"is": "failed", "text": problem, "lasting": True})
            return FAILED
        return LoginServer(Path(directory), machine, settings, lines, claim).run()
    except OSError as error:
        send_message({"is": "failed", "text": f"{directory} cannot be used: {error.strerror}"})
        return FAILED


def _find_problem(machine: Partition) -> str:
    """Return why jobs of a machine cannot run on this cluster; "": they can, or Slurm does not answer."""
    if missing := [name for name in COMMANDS if shutil.which(name) is None]:
        host = os.uname().nodename
        rule = "sbatch, squeue, scancel and sinfo must be on the PATH of commands that ssh runs there"
        return f"Slurm is not installed on {host} (no {missing[0]}); {rule}"
    with suppress(SlurmRefused, SlurmUnreachable):
        groups = SlurmController(timeout_s=_TIMEOUT_S).list_partitions()
        for problem in find_wrong_partition(machine, groups):
            return str(WeftError(problem.what if not problem.advice else f"{problem.what}; {problem.advice}"))
    return ""


class _FolderClaim:
    """The right of one process to serve a folder, also among several login nodes."""

    def __init__(self, folder: Path) -> None:
        self._owner = folder / _OWNER
        self._lock = os.open(str(folder / _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._content = json.dumps({"pid": os.getpid(), "boot": boot_id(), "at": time.time_ns()})

    def take(self) -> bool:
        """End the earlier process and take its place; return False if it does not end."""
        earlier = self._read()
        write_file(self._owner, self._content.encode(), is_private=True)
        end_s = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > end_s:
                    return False
            else:
                return True
            _end_process(earlier)
            time.sleep(_PAUSE_S)

    @property
    def is_valid(self) -> bool:
        """Return whether no later process serves the folder."""
        return self._read() == self._content

    def _read(self) -> str:
        with suppress(OSError):
            return self._owner.read_text(encoding="utf-8")
        return ""


def _end_process(owner: str) -> None:
    """Kill a process of this host that serves this machine; on another host it notices its successor."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        found = json.loads(owner)
        if found["boot"] != boot_id():
            return
        words = Path(f"/proc/{int(found['pid'])}/cmdline").read_bytes().split(b"\0")
        if [os.fsencode(each) for each in sys.argv[-2:]] == words[-3:-1]:
            os.kill(int(found["pid"]), signal.SIGKILL)


class LoginServer:
    """Passes messages between an engine and the jobs of one machine."""

    def __init__(
        self,
        folder: Path,
        machine: Partition,
        settings: Mapping[str, Any],
        lines: InputLines,
        claim: _FolderClaim,
    ) -> None:
        home, _, execution = settings["scope"].rpartition("-")
        self._lines = lines
        self._claim = claim
        self._poller = select.poll()
        self._known = {int(attempt): str(nonce) for attempt, nonce in settings["known"]}
        self._started: set[tuple[int, str]] = set()
        """Attempts and nonces of programs whose orders were accepted."""
        context = QueueContext(
            machines={_MACHINE: machine},
            folders={_MACHINE: folder},
            scope=RunnerScope(home, int(execution)),
            token=settings["token"],
            is_known=self._ask,
            bundle=Path(sys.argv[0]).read_bytes,
            earlier=_BURST,
        )
        self._queue = JobQueue(context, self._poller)

    def run(self) -> int:
        """Serve until the engine ends the connection or another process takes over; return the exit code."""
        found = self._queue.find_jobs(self._known)
        self._started.update((attempt, self._known[attempt]) for attempt in {*found.running, *found.ends})
        send_message(
            {
                "is": "here", "boot": boot_id(), "pid": os.getpid(),
                "running": [{"attempt": attempt} for attempt in sorted(found.running)],
                "ended": [found.ends[attempt] for attempt in sorted(found.ends)],
                "starts": [{**found.starts[each], "attempt": each} for each in sorted(found.starts)],
            }
        )  # fmt: skip
        self._poller.register(0, select.POLLIN)
        check_at_s = time.monotonic()
        while True:
            for line in self._lines.take():
                message = json.loads(line)
                if message["do"] == "end":
                    self._queue.close(stop=True)
                    return 0
                self._execute(message)
            self._queue.flush()
            wait_s = max(0.0, check_at_s - time.monotonic())
            ready = {descriptor for descriptor, _ in self._poller.poll(1000.0 * wait_s)}
            if 0 in ready and not self._lines.read():
                self._queue.close(stop=False)
                return 0
            for descriptor in ready - {0}:
                _send_all(self._queue.receive(descriptor))
            if time.monotonic() >= check_at_s:
                check_at_s = time.monotonic() + _CHECK_S
                if not self._claim.is_valid:
                    return RUNNER_LOST
                _send_all(self._queue.check())
                send_message({"is": "beat", "age_s": 0.0, "sent": time.time()})

    def _execute(self, message: Mapping[str, Any]) -> None:
        what, attempt = message["do"], message.get("attempt")
        if what == "start":
            self._start(message)
        elif what == "cancel":
            self._queue.cancel(_MACHINE, int(attempt or 0), float(message["grace_s"]))
        elif what == "signal":
            self._queue.signal(_MACHINE, int(attempt or 0), str(message["signal"]))
        elif what == "forget":
            for each in message["attempts"]:
                self._queue.forget(_MACHINE, int(each))
        elif what == "measure":
            self._queue.measure(_MACHINE, float(message["every_s"]))

    def _start(self, order: Mapping[str, Any]) -> None:
        identity = {"attempt": int(order["attempt"]), "nonce": str(order["nonce"])}
        key = int(order["attempt"]), str(order["nonce"])
        if key in self._started:
            return
        self._started.add(key)
        if problem := self._queue.start(_MACHINE, order):
            now = time.time()
            none = {"code": None, "signal": None, "at": now, "began": now, "seconds": 0.0, "sent": now}
            send_message({"is": "ended", "cause": "lost", "text": problem, **none, **identity})

    def _ask(self, execution: int, attempt: int, nonce: str) -> bool:
        """Return whether the engine has an attempt of an earlier execution in its journals.

        Without an answer it is assumed to have it.
        """
        send_message({"is": "programs", "found": [(execution, attempt, nonce)]})
        answer = self._lines.wait_for("known")
        return answer is None or bool(answer["known"])


def _send_all(reports: Sequence[ProgramReport]) -> None:
    for each in reports:
        send_message({**each, "sent": time.time()})
