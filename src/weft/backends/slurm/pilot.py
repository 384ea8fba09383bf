"""The program of a pilot: a Slurm job that runs the programs of many attempts.

A pilot is started as any job is (``job.py``), and writes the same records ``start``, ``beat`` and ``exit`` in
its folder. The engine sends it messages through the log ``orders`` (``message_log.py``): those that a runner
gets through its socket. The pilot answers through the log ``reports``: ``accepted`` before it starts a
program, and then what a runner reports. No connection between nodes is needed.

A pilot ends when it has had nothing to do for a time, when the engine requests its end, and when Slurm ends
it; then it ends its programs as ``preempted``. The record ``exit`` contains the number of the last message
that was read: later orders were not executed.

This module is part of a bundle: it must not import other parts of weft or heavy modules.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time

from weft.backends.runner.processes import ProcessTracker, ProgramLauncher, StartOrder
from weft.backends.runner.records import Record, SealedRecords, encode_record, write_log
from weft.backends.runner.runner_loop import EngineSocket, RunnerTasks
from weft.backends.slurm.message_log import MessageReader, MessageWriter

START, BEAT, EXIT = "start", "beat", "exit"
"""Names of the records that a job writes."""
CANCEL = "cancel"
"""Name of the record by which the engine requests the end of a job."""
ORDERS, REPORTS = "orders", "reports"
"""Names of the logs of messages, to the pilot and to the engine."""

_BEAT_S = 1.0
_SOON_S, _LATER_S = 0.05, 0.25
"""Seconds between two readings of the orders: shortly after the last message, and later."""
_RECENT_S = 5.0
_WRITING_S = 60.0
"""Seconds for which an ended pilot tries to write its last reports."""
_ENDING = {signal.SIGTERM, signal.SIGINT}
_DEFAULT_GRACE_S = 5.0
CANNOT_RECORD = 70
"""Exit code of a job that cannot write its records."""


class _Reports(EngineSocket):
    """Buffers what a runner would send to its engine."""

    def __init__(self, records: SealedRecords) -> None:
        self._writer = MessageWriter(records, REPORTS)
        self._waiting: list[Record] = []

    def send(self, text: str) -> None:
        self.add(json.loads(text))

    def add(self, message: Record) -> None:
        """Buffer a message."""
        self._waiting.append({"n": self._writer.number(), **message})

    def flush(self) -> None:
        """Write the messages; what cannot be written is kept."""
        if not self._waiting:
            return
        try:
            self._writer.append(self._waiting)
        except OSError as error:
            write_log(f"reports cannot be written: {error.strerror}")
            return
        self._waiting.clear()

    @property
    def is_written(self) -> bool:
        """Return whether no message waits."""
        return not self._waiting


class PilotProgram:
    """Runs the orders of an engine until its end."""

    def __init__(self, records: SealedRecords, requests: SealedRecords, given: Record) -> None:
        order = given["order"]
        assert isinstance(order, dict)
        self._attempt, self._nonce = order["attempt"], order["nonce"]
        self._idle_s = float(order["idle_s"])
        self._records = records
        self._requests = requests
        self._orders = MessageReader(requests, ORDERS)
        self._reports = _Reports(records)
        tracker = ProcessTracker()
        programs = ProgramLauncher(tracker.mark, str(given.get("scope") or ""))
        programs.set_base(dict(os.environ))
        self._tasks = RunnerTasks(records, programs, self._reports, tracker)
        self._executed = 0
        """Number of the last message that was executed."""
        self._is_ending = False
        """Whether no order is accepted any more."""
        self._message_s = time.monotonic()
        """Time of the last message or the last running program, on the monotonic clock."""
        self._cause = "idle"
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)

    def run(self) -> int:
        """Serve the engine until the end; return the exit code of the job."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        # SIGUSR1 and others are meant for programs; they must not end the pilot.
        for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, *_ENDING):
            signal.signal(number, lambda *_: None)
        self._records.write(START, self._describe_start())
        beat_at_s = 0.0
        while not self._is_done():
            if (now_s := time.monotonic()) >= beat_at_s:
                beat_at_s = now_s + _BEAT_S
                self._beat()
            if not self._is_ending:
                self._read_orders()
            self._reports.flush()
            if select.select([self._woken], [], [], self._wait_s(beat_at_s))[0]:
                self._handle_signals()
            self._tasks.reap()
            self._tasks.tick(time.monotonic())
        self._tasks.kill_remaining()
        return self._record_end()

    def _is_done(self) -> bool:
        now_s = time.monotonic()
        if self._tasks.busy:
            self._message_s = now_s
            return False
        return self._is_ending or now_s - self._message_s >= self._idle_s

    def _wait_s(self, beat_at_s: float) -> float:
        now_s = time.monotonic()
        recent = now_s - self._message_s < _RECENT_S
        until_s = min(beat_at_s, now_s + (_SOON_S if recent else _LATER_S))
        due_s = self._tasks.next_s()
        return max(0.0, (until_s if due_s is None else min(until_s, due_s)) - now_s)

    def _describe_start(self) -> Record:
        return {
            "attempt": self._attempt, "nonce": self._nonce, "at": time.time(), "host": socket.gethostname(),
            "job": os.environ.get("SLURM_JOB_ID", ""), "nodes": os.environ.get("SLURM_JOB_NODELIST", ""),
        }  # fmt: skip

    def _beat(self) -> None:
        self._tasks.beat()
        try:
            # Opened each time: a network file system may keep what is written until the file is closed.
            file = self._records.opened(BEAT)
            try:
                self._records.overwrite(file, BEAT, {"at": time.time()})
            finally:
                os.close(file)
        except FileNotFoundError:
            self._end("removed", "cancelled", "the folder of its pilot was removed")
        except OSError as error:
            write_log(f"the heartbeat cannot be written: {error.strerror}")
        self._end_if_requested()

    def _end_if_requested(self) -> None:
        if self._requests.read(CANCEL) is not None:
            self._end("cancelled", "cancelled", "it was cancelled")

    def _end(self, how: str, cause: str, text: str) -> None:
        if not self._is_ending:
            self._is_ending, self._cause = True, how
            self._tasks.end_all(cause, text)

    def _handle_signals(self) -> None:
        try:
            numbers = set(self._woken.recv(4096))
        except BlockingIOError:
            return
        if numbers & _ENDING:
            self._end_if_requested()
            self._end("preempted", "preempted", "Slurm ended the pilot job in which it ran")

    # Messages.

    def _read_orders(self) -> None:
        messages = self._orders.read()
        self._orders.places.clear()
        if not messages:
            return
        # An engine that has given up this pilot runs its programs elsewhere.
        self._end_if_requested()
        if self._is_ending:
            return
        self._message_s = time.monotonic()
        for message in messages:
            if message.get("do") == "start":
                self._reports.add(
                    {
                        "is": "accepted", "order": message["n"], "attempt": message.get("attempt"),
                        "nonce": message.get("nonce"), "at": time.time(), "reminder": message.get("reminder"),
                    }
                )  # fmt: skip
        # The engine must see that an order was accepted before its program starts.
        self._reports.flush()
        self._executed = self._orders.last
        for message in messages:
            try:
                self._execute(message)
            except (KeyError, TypeError, ValueError) as error:
                write_log(f"a message cannot be executed: {error}")
                self._reports.add({"is": "refused", "attempt": message.get("attempt"), "text": str(error)})

    def _execute(self, message: Record) -> None:
        what, attempt, nonce = message.get("do"), message.get("attempt"), str(message.get("nonce") or "")
        if what == "start":
            self._tasks.start(StartOrder(message, _DEFAULT_GRACE_S))
        elif what == "cancel" and isinstance(attempt, int):
            grace_s = message.get("grace_s")
            stated_s = float(grace_s) if isinstance(grace_s, (int, float)) else None
            self._tasks.cancel(attempt, nonce, stated_s)
        elif what == "signal" and isinstance(attempt, int):
            self._tasks.send_signal(attempt, nonce, str(message.get("signal")))
        elif what == "forget":
            for number in message["attempts"]:  # type: ignore[attr-defined]
                self._tasks.forget(number)
        elif what == "discard":
            pairs = [(int(number), str(own)) for number, own in message["attempts"]]  # type: ignore[attr-defined]
            self._tasks.discard(pairs)
        elif what == "end":
            self._is_ending, self._cause = True, "released"
        else:
            raise ValueError(f"unknown message: {encode_record(message)[:200]}")

    def _record_end(self) -> int:
        """Write the last reports and the record of the end; return the exit code of the job."""
        end: Record = {
            "is": "ended", "attempt": self._attempt, "nonce": self._nonce, "at": time.time(),
            "how": self._cause, "read": self._executed, "seconds": 0.0,
        }  # fmt: skip
        until_s = time.monotonic() + (_WRITING_S if self._cause != "removed" else 0.0)
        while True:
            self._reports.flush()
            try:
                if self._reports.is_written:
                    self._records.write(EXIT, end)
                    return 0
            except OSError as error:
                write_log(f"the end cannot be recorded: {error.strerror}")
            if time.monotonic() > until_s:
                return CANNOT_RECORD
            time.sleep(0.5)
