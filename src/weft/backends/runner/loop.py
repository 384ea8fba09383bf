"""The runner's loop: one thread that waits for its engine, its tasks and the clock, and for nothing else.

Each turn: hear the engine, take note of ends, do what is due, send all that is to be said in one piece.
Read by the runner only: no other part of weft, and only light modules.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time

from weft.backends.runner.door import Door
from weft.backends.runner.process_groups import process
from weft.backends.runner.programs import Order, Programs
from weft.backends.runner.records import Record, Records, encoded, note
from weft.backends.runner.strays import Strays
from weft.backends.runner.tasks import Tasks

__all__ = ["Runner"]

_BEAT_S = 1.0
_ENDING = {signal.SIGTERM, signal.SIGINT}


class Runner:
    """One runner: the parent of all tasks of an execution on a machine."""

    def __init__(self, records: Records, token: str, *, idle_s: float, grace_s: float) -> None:
        self._records = records
        self._idle_s = idle_s
        self._grace_s = grace_s
        strays = Strays()
        self._programs = Programs(strays.mark)
        self._door = Door(records.folder, token)
        self._tasks = Tasks(records, self._programs, self._door, strays)
        self._woken, waker = socket.socketpair()
        self._woken.setblocking(False)
        waker.setblocking(False)
        self._waker = waker
        self._to_end = False
        """End as soon as nothing runs."""
        self._told_to_end = False
        """Somebody has sent SIGTERM: nothing more is started."""
        self._idle_since_s = time.monotonic()
        self._beat_at_s = 0.0
        self._beat_file = records.opened("beat")
        self._do = {
            "hello": self._hello, "start": self._start, "cancel": self._cancel, "signal": self._signal,
            "forget": self._forget, "end": self._end,
        }  # fmt: skip

    def serve(self) -> None:
        """Work until there is nothing more to do."""
        while not self._over():
            self._turn()
        self._tasks.end_strays()
        # Only after a good end: whoever finds these of a dead runner looks for what it has left.
        self._records.remove("pid")
        self._records.remove("beat")
        self._door.close()

    def begin(self) -> None:
        """Hear signals, and say in the directory who is here; raises OSError."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_ENDING):
            signal.signal(number, lambda *_: None)
        self._door.poll.register(self._woken, select.POLLIN)
        self._records.write("pid", _identity())

    def _over(self) -> bool:
        if self._tasks.running:
            return False
        if self._to_end or self._told_to_end:
            self._door.flush()
            return True
        return not self._door.engine_is_here and time.monotonic() - self._idle_since_s >= self._idle_s

    def _turn(self) -> None:
        for descriptor, happened in self._door.poll.poll(self._wait_ms()):
            if descriptor == self._woken.fileno():
                self._wake()
            elif happened & ~select.POLLOUT:
                for message in self._door.hear(descriptor):
                    self._obey(message)
        self._tasks.reap()
        now_s = time.monotonic()
        self._tasks.tick(now_s)
        if self._tasks.running or self._door.engine_is_here:
            self._idle_since_s = now_s
        if now_s >= self._beat_at_s:
            self._beat(now_s)
        self._door.flush()

    def _wait_ms(self) -> int:
        due_s = self._tasks.next_s()
        until_s = self._beat_at_s if due_s is None else min(due_s, self._beat_at_s)
        if not self._tasks.running and not self._door.engine_is_here:
            until_s = min(until_s, self._idle_since_s + self._idle_s)
        return max(0, int((until_s - time.monotonic()) * 1000.0) + 1)

    def _wake(self) -> None:
        """Read which signals have come; ends of tasks are looked for in every turn anyway."""
        try:
            numbers = set(self._woken.recv(4096))
        except BlockingIOError:
            return
        if numbers & _ENDING and not self._told_to_end:
            self._told_to_end = True
            self._tasks.end_all("lost", "its runner was told to end by a signal")

    def _beat(self, now_s: float) -> None:
        self._beat_at_s = now_s + _BEAT_S
        self._tasks.beat()
        beat: Record = {"at": time.time(), "monotonic_s": now_s, "running": len(self._tasks.running)}
        try:
            self._records.overwrite(self._beat_file, "beat", beat)
        except OSError as error:
            note(f"no beat can be written: {error.strerror}")

    # Messages.

    def _obey(self, message: Record) -> None:
        """Do what a message asks; one that cannot be understood is told and changes nothing."""
        what = message.get("do")
        act = self._do.get(what) if isinstance(what, str) else None
        try:
            if act is None:
                raise ValueError(message.get("problem") or f"unknown message: {what!r}")
            act(message)
        except Exception as error:  # whatever one message does, the other tasks go on
            text = f"{what or 'a message'}: {error}"
            note(f"{type(error).__name__}: {text}")
            self._door.tell(encoded({"is": "problem", "attempt": message.get("attempt"), "text": text}))

    def _hello(self, message: Record) -> None:
        environment, cores = message.get("env"), message.get("cores")
        self._to_end = False
        if isinstance(environment, dict):
            self._programs.set_base(environment)
        problem = ""
        try:
            self._programs.set_cores(cores if isinstance(cores, list) else None)
        except (OSError, ValueError) as error:
            problem = f"cores {cores} cannot be had: {error}"
        running = [
            {"attempt": task.attempt, "pid": task.pid, "at": task.began}
            for task in self._tasks.running.values()
        ]
        here = encoded({"is": "here", "pid": os.getpid(), "problem": problem, "running": running})
        ended, starts = ",".join(self._tasks.ended.values()), ",".join(self._tasks.starts.values())
        self._door.tell(f'{here[:-1]},"ended":[{ended}],"starts":[{starts}]}}')

    def _start(self, message: Record) -> None:
        if self._told_to_end:
            raise ValueError("the runner was told to end by a signal")
        self._tasks.start(Order(message, self._grace_s))

    def _cancel(self, message: Record) -> None:
        grace_s = message.get("grace_s")
        self._tasks.cancel(_attempt(message), float(grace_s) if isinstance(grace_s, int | float) else None)

    def _signal(self, message: Record) -> None:
        self._tasks.send_signal(_attempt(message), str(message.get("signal")))

    def _forget(self, message: Record) -> None:
        several = message.get("attempts")
        for attempt in several if isinstance(several, list) else [_attempt(message)]:
            self._tasks.forget(attempt)

    def _end(self, _: Record) -> None:
        self._to_end = True


def _attempt(message: Record) -> int:
    attempt = message.get("attempt")
    if not isinstance(attempt, int):
        raise ValueError(f"no attempt is named: {attempt!r}")
    return attempt


def _identity() -> Record:
    """Say which process this is, so that no other is ever taken for it: not after a restart either."""
    own = process(os.getpid())
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return {"pid": os.getpid(), "began_ticks": own.began_ticks if own else 0, "boot": boot}
