"""The program of a Slurm job: it runs the program of one attempt and records its start, heartbeat and end.

Called as ``python3 -I -S BUNDLE DIR``. ``DIR`` is on a file system that the engine sees, too. It contains
``order``: the order that a runner gets (``runner/runner.py``), and a key for the records. The process that
removes this file decides on the attempt; a job without this file exits. So a program is never started twice
if a job is submitted again because it is not known whether the first submission has arrived. The job writes
sealed records: ``start``, ``beat`` (once a second) and ``exit``. Slurm itself is only the second witness.

Signals: SIGTERM ends the program (as cancelled, if the engine has written the record ``cancel``), SIGUSR1
requests restart files, SIGTSTP and SIGCONT stop and continue the program. The record ``cancel`` is also read
with every heartbeat, so that cancelling works while the controller of Slurm is away. The exit code is that of
the program.

An order with ``idle_s`` is that of a pilot (``pilot.py``), which runs the programs of many attempts.

This module is part of a bundle: it must not import other parts of weft or heavy modules.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

from weft.backends.runner.processes import ProcessTracker, ProgramLauncher, StartOrder
from weft.backends.runner.records import Record, SealedRecords, write_log
from weft.backends.runner.runner_loop import EngineSocket, RunnerTasks
from weft.backends.slurm.pilot import BEAT, CANCEL, CANNOT_RECORD, EXIT, START, PilotProgram

ORDER = "order"
"""File with the order; removing it decides whether the program is started."""
REQUESTS = "engine"
"""Folder of the records that the engine writes, apart from those of the job."""
NO_ORDER = 0
"""Exit code of a job whose order was removed."""

_BEAT_S = 1.0
_WRITING_S = 60.0
"""Seconds for which a job tries to write the record of the end."""
_PAUSE_S = 0.5
_ENDING = {signal.SIGTERM, signal.SIGINT}
_PASSED_ON = {signal.SIGUSR1: "USR1", signal.SIGTSTP: "STOP", signal.SIGCONT: "CONT"}
_DEFAULT_GRACE_S = 5.0


class _RecordedMessages(EngineSocket):
    """Keeps what a runner would send to its engine: the end of the program, and whether it is stopped."""

    def __init__(self) -> None:
        self.end: Record | None = None
        self.stopped = False

    def send(self, text: str) -> None:
        message = json.loads(text)
        if message["is"] == "ended":
            self.end = message
        elif message["is"] in ("stopped", "continued"):
            self.stopped = message["is"] == "stopped"


class JobProgram:
    """The program of one attempt in a Slurm job."""

    def __init__(self, records: SealedRecords, requests: SealedRecords, given: Record) -> None:
        message = given["order"]
        assert isinstance(message, dict)
        self._records = records
        self._requests = requests
        self._order = StartOrder(message, _DEFAULT_GRACE_S)
        self._messages = _RecordedMessages()
        tracker = ProcessTracker()
        programs = ProgramLauncher(tracker.mark, str(given.get("scope") or ""))
        programs.set_base(dict(os.environ))
        self._tasks = RunnerTasks(records, programs, self._messages, tracker)
        self._is_ending = False
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)

    def run(self) -> int:
        """Run the program to its end and record it; return the exit code of the job."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_ENDING, *_PASSED_ON):
            signal.signal(number, lambda *_: None)
        order = self._order
        self._records.write(START, self._describe_start())
        self._tasks.start(order)
        beat_at_s = 0.0
        while self._tasks.busy:
            if (now_s := time.monotonic()) >= beat_at_s:
                beat_at_s = now_s + _BEAT_S
                self._beat()
            due_s = self._tasks.next_s()
            until_s = beat_at_s if due_s is None else min(due_s, beat_at_s)
            wait_s = max(0.0, until_s - time.monotonic())
            if select.select([self._woken], [], [], wait_s)[0]:
                self._handle_signals()
            self._tasks.reap()
            self._tasks.tick(time.monotonic())
        self._tasks.kill_remaining()
        return self._record_end()

    def _describe_start(self) -> Record:
        return {
            "attempt": self._order.attempt, "nonce": self._order.nonce, "at": time.time(),
            "reminder": self._order.reminder, "host": socket.gethostname(),
            "job": os.environ.get("SLURM_JOB_ID", ""), "nodes": os.environ.get("SLURM_JOB_NODELIST", ""),
        }  # fmt: skip

    def _beat(self) -> None:
        self._tasks.beat()
        beat: Record = {"at": time.time(), "stopped": self._messages.stopped}
        try:
            # Opened each time: a network file system may keep what is written until the file is closed.
            file = self._records.opened(BEAT)
            try:
                self._records.overwrite(file, BEAT, beat)
            finally:
                os.close(file)
        except OSError as error:
            write_log(f"the heartbeat cannot be written: {error.strerror}")
        self._cancel_if_requested()

    def _handle_signals(self) -> None:
        try:
            numbers = set(self._woken.recv(4096))
        except BlockingIOError:
            return
        for number, name in _PASSED_ON.items():
            if number in numbers:
                self._tasks.send_signal(self._order.attempt, self._order.nonce, name)
        if numbers & _ENDING and not self._cancel_if_requested() and not self._is_ending:
            self._is_ending = True
            self._tasks.end_all("preempted", "its job was ended by Slurm")

    def _cancel_if_requested(self) -> bool:
        """Cancel the program if the engine has requested this; return whether it has."""
        if (request := self._requests.read(CANCEL)) is None:
            return False
        if not self._is_ending:
            self._is_ending = True
            grace_s = request.get("grace_s")
            stated_s = float(grace_s) if isinstance(grace_s, (int, float)) else None
            self._tasks.cancel(self._order.attempt, self._order.nonce, stated_s)
        return True

    def _record_end(self) -> int:
        """Write the record of the end, also if the disk is full for a while; return the exit code."""
        end = self._messages.end
        assert end is not None
        end_s = time.monotonic() + _WRITING_S
        while True:
            try:
                self._records.write(EXIT, end)
                break
            except OSError as error:
                write_log(f"the end cannot be recorded: {error.strerror}")
                if time.monotonic() > end_s:
                    return CANNOT_RECORD
                time.sleep(_PAUSE_S)
        code, by = end["code"], end["signal"]
        if isinstance(code, int):
            return code
        return 128 + by if isinstance(by, int) else 1


def main(directory: str) -> int:
    """Run the order of a directory; return the exit code of the job."""
    path = f"{directory}/{ORDER}"
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 -- no import of pathlib
            given = json.load(file)
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        write_log("there is no order: the attempt was cancelled, or another job runs it")
        return NO_ORDER
    os.chdir("/")
    try:
        records = SealedRecords(directory, given["key"])
        requests = SealedRecords(f"{directory}/{REQUESTS}", given["key"])
        if given["order"].get("idle_s") is not None:
            return PilotProgram(records, requests, given).run()
        return JobProgram(records, requests, given).run()
    except OSError as error:
        write_log(f"the records cannot be used: {error}")
        return CANNOT_RECORD


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
