"""Tasks of a runner: each a process group with limits, watched from its start to the end of its last member.

The leader's wait status is the truth about an end. Whatever of the group is still there then, or has left it
(``strays``), is told to end, and killed, before the end is told. Limits: SIGTERM at the time limit and
SIGKILL after a grace; SIGKILL where the resident memory of all members is seen above its limit. Nothing is
told as ended while a process of it lives.
Read by the runner only: no other part of weft, and only light modules.
"""

from __future__ import annotations

import os
import signal
import time

from weft.backends.runner.door import Door
from weft.backends.runner.memory import Memory, excess, used_bytes
from weft.backends.runner.process_groups import (
    Process,
    catches,
    tell_exactly,
    tell_group,
)
from weft.backends.runner.programs import NotStarted, Order, Programs
from weft.backends.runner.records import Ledger, Record, Records, encoded, note
from weft.backends.runner.strays import Strays

__all__ = ["Task", "Tasks"]

_LEFT_BEHIND_S = 2.0
"""Grace of members that outlive their leader."""
_STUCK_S = 30.0
"""After so long a SIGKILL should have worked; if not, that is told."""
_SOONEST_S, _LATEST_S = 0.002, 0.1
"""How soon, and at most how late, a group that was told to end is looked at again."""
_SAMPLE_S = 0.1
_SAMPLE_COST = 25.0
"""Memory is looked at so rarely that looking costs at most one part in so many of a core."""
_AGED_S, _AGED_COST = 1.0, 100.0
"""So old is a task whose memory is looked at though it has no limit, and so much more rarely."""
_LINES = 1000
"""The ledgers are rewritten after so many lines, if most were forgotten."""
_WHOLE_GROUP = {"STOP", "CONT", "TERM", "INT", "QUIT", "KILL"}


class Task:
    """One attempt whose group is not over yet."""

    __slots__ = (
        "attempt", "began", "began_s", "cause", "grace_s", "kill_at_s", "killed", "look_s", "memory_bytes",
        "peak_bytes", "pid", "status", "stopping", "text", "usage",
    )  # fmt: skip

    def __init__(self, order: Order, pid: int, began: float, began_s: float) -> None:
        self.attempt = order.attempt
        self.pid = pid
        self.began = began
        self.began_s = began_s
        self.grace_s = order.grace_s
        self.memory_bytes = order.memory_bytes
        self.peak_bytes = 0
        self.cause: str | None = None
        """Why it was told to end; None: it was not."""
        self.text = ""
        self.kill_at_s: float | None = None
        """When those who do not end by themselves are killed; None: nobody was told to end."""
        self.killed = False
        self.look_s = _SOONEST_S
        """After how long a group without its leader is looked at again: soon, then less and less often."""
        self.stopping = False
        self.status: int | None = None
        """How its leader has ended; None: it has not."""
        self.usage: tuple[float, float, int] = (0.0, 0.0, 0)


class Tasks:
    """All that a runner has started, and the ends that its engine has not written down yet."""

    def __init__(self, records: Records, programs: Programs, door: Door, strays: Strays) -> None:
        self.running: dict[int, Task] = {}
        self.ended: dict[int, str] = {}
        """Encoded, as they are told and written."""
        self.starts: dict[int, str] = {}
        """Encoded, as they are written, of what runs and of the ends that are kept."""
        self._start_ledger = Ledger(records, "starts")
        self._end_ledger = Ledger(records, "ends")
        self._programs = programs
        self._tell = door.tell
        self._strays = strays
        self._memory = Memory()
        self._leaders: dict[int, Task] = {}
        self._due_s: dict[int, float] = {}
        self._limited: dict[int, Task] = {}
        self._sample_at_s = 0.0
        self._unwritten: list[tuple[Ledger, str]] = []
        self._forgotten: set[int] = set()
        self._load(records)

    def _load(self, records: Records) -> None:
        """Take up what an earlier runner of this directory has left: ends, and tasks that died with it."""
        for attempt, end in Ledger.read(records, "ends").items():
            self.ended[attempt] = encoded(end)
        for attempt, start in Ledger.read(records, "starts").items():
            self.starts[attempt] = encoded(start)
            if attempt not in self.ended:
                text = "its runner was killed, and it with it"
                self._keep(_end(attempt, start.get("at"), cause="lost", text=text))

    # What the engine asks for.

    def start(self, order: Order) -> None:
        """Start an attempt, once; an attempt that was started before is reported again."""
        attempt = order.attempt
        if self._repeated(attempt):
            return
        began, began_s, before_s = time.time(), time.monotonic(), _since_boot_s()
        # Before: if this process dies in between, the program may have run, and must not run again.
        self._record_start(attempt, f'{{"attempt":{attempt},"pid":null,"at":{began!r}}}')
        try:
            pid = self._programs.start(order)
        except NotStarted as problem:
            self._keep(_end(attempt, began, code=problem.code, cause="error", text=problem.text))
            return
        task = self.running[attempt] = self._leaders[pid] = Task(order, pid, began, began_s)
        if order.time_s is not None:
            self._due_s[attempt] = began_s + order.time_s
        if order.memory_bytes is not None:
            self._sample_at_s = began_s + _SAMPLE_S if not self._limited else self._sample_at_s
            self._limited[attempt] = task
        # Between these two moments the leader has begun: its number with them names it for ever.
        within = f"[{before_s!r},{_since_boot_s()!r}]"
        told = f'"within":{within},"reminder":{encoded(order.reminder)}'
        self._record_start(attempt, f'{{"attempt":{attempt},"pid":{pid},"at":{began!r},{told}}}')
        if order.tells_start:
            self._tell(_started(task))

    def cancel(self, attempt: int, grace_s: float | None) -> None:
        """End an attempt; one that was never started is so kept from ever starting."""
        task = self.running.get(attempt)
        if task is not None:
            self._end_group(
                task, "cancelled", "it was cancelled", task.grace_s if grace_s is None else grace_s
            )
        elif not self._repeated(attempt):
            self._keep(_end(attempt, None, cause="cancelled", text="it was cancelled before it had started"))

    def send_signal(self, attempt: int, name: str) -> None:
        """Send a signal to an attempt's group: one that a program must know, only to those that know it."""
        number = getattr(signal, f"SIG{name}", None)
        if not isinstance(number, signal.Signals):
            raise ValueError(f"there is no signal {name!r}")
        task = self.running.get(attempt)
        members = self._members(task) if task is not None else []
        told = len(members)
        if task is not None and name in _WHOLE_GROUP:
            task.stopping = number == signal.SIGSTOP and task.status is None
            if task.stopping:  # a shell cannot be while its child, stopped too, has not begun: it goes first
                os.kill(task.pid, number)
            else:
                _tell(task, members, number)
        else:
            told = sum(catches(one.pid, number) and tell_exactly(one, number) for one in members)
        self._tell(encoded({"is": "signalled", "attempt": attempt, "signal": name, "processes": told}))

    def forget(self, attempt: int) -> None:
        """Drop an end that the engine has written down."""
        if self.ended.pop(attempt, None) is not None:
            self._forgotten.add(attempt)
            self.starts.pop(attempt, None)
            if self._end_ledger.lines >= _LINES and len(self.ended) < _LINES // 2:
                self._shorten()

    def _shorten(self) -> None:
        """Leave what was forgotten out of the ledgers, so that they do not grow with the execution."""
        try:
            self._start_ledger.rewrite(list(self.starts.values()))
            self._end_ledger.rewrite(list(self.ended.values()))
        except OSError as error:
            note(f"the ledgers cannot be rewritten: {error.strerror}")
            return
        self._unwritten.clear()

    def end_all(self, cause: str, text: str) -> None:
        """Tell all tasks to end."""
        for task in list(self.running.values()):
            self._end_group(task, cause, text, task.grace_s)

    def _repeated(self, attempt: int) -> bool:
        """Report again what is known of an attempt; False if nothing is."""
        if attempt in self.running:
            self._tell(_started(self.running[attempt]))
        elif attempt in self.ended:
            self._tell(self.ended[attempt])
        elif attempt in self._forgotten:
            self._tell(_problem(attempt, "it has ended and was to be forgotten"))
        else:
            return False
        return True

    # What happens.

    def reap(self) -> None:
        """Take note of the leaders that have ended, or were stopped or continued by others."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                self._tell_stop(pid, "stopped" if os.WIFSTOPPED(status) else "continued")
                continue
            task = self._leaders.pop(pid, None)
            if task is not None:
                task.status = status
                peak_bytes = self._memory.program_peak_bytes(usage.ru_maxrss * 1024)
                task.usage = (usage.ru_utime, usage.ru_stime, peak_bytes)
                self._leader_ended(task)

    def _tell_stop(self, pid: int, word: str) -> None:
        task = self._leaders.get(pid)
        if task is not None:
            if task.stopping and word == "stopped":
                _tell(task, self._members(task), signal.SIGSTOP)
            self._tell(encoded({"is": word, "attempt": task.attempt}))

    def _members(self, task: Task) -> list[Process]:
        """Give all living processes of a task, also those that have left its group."""
        return self._strays.members(self._groups()).get(task.attempt, [])

    def _groups(self) -> dict[int, int]:
        return {task.pid: task.attempt for task in self.running.values()}

    def end_strays(self) -> None:
        """Kill what belongs to no task: nobody will look after it any more."""
        self._strays.end_all()

    def _leader_ended(self, task: Task) -> None:
        left = tell_group(task.pid, 0) or self._strays.any_of(task.attempt, self._leaders)
        if not left or not self._members(task):
            self._finish(task)
        elif task.killed:
            self._look_again(task, time.monotonic())
        else:
            self._terminate(task, min(task.grace_s, _LEFT_BEHIND_S))

    def next_s(self) -> float | None:
        """Give the moment (of the monotonic clock) at which ``tick`` has something to do."""
        due_s = min(self._due_s.values(), default=None)
        if self._limited and (due_s is None or self._sample_at_s < due_s):
            return self._sample_at_s
        return due_s

    def tick(self, now_s: float) -> None:
        """Do what is due."""
        for attempt in [attempt for attempt, due_s in self._due_s.items() if due_s <= now_s]:
            self._step(self.running[attempt], now_s)
        if self._limited and self._sample_at_s <= now_s:
            self._sample(now_s, _SAMPLE_COST)

    def beat(self) -> None:
        """Do what is done once a second: write what could not be written, count the kernel's kills."""
        self._memory.count_kills()
        self._strays.end_late(self._leaders, self.running)
        now_s = time.monotonic()
        aged = any(now_s - task.began_s >= _AGED_S for task in self.running.values())
        if aged and not self._limited and now_s >= self._sample_at_s:
            self._sample(now_s, _AGED_COST)
        while self._unwritten:
            ledger, text = self._unwritten[0]
            try:
                ledger.add(text)
            except OSError:
                return  # the disk is still full
            del self._unwritten[0]

    def _step(self, task: Task, now_s: float) -> None:
        if task.kill_at_s is None:
            self._end_group(
                task, "timeout", f"it was still running after {now_s - task.began_s:.1f} s", task.grace_s
            )
            return
        members = self._members(task)
        if task.status is not None and not members:
            self._finish(task)
            return
        if task.killed and now_s >= task.kill_at_s + _STUCK_S:
            self._tell(_problem(task.attempt, "a process of it cannot be killed"))
            task.kill_at_s = now_s
        if now_s >= task.kill_at_s:
            task.killed = True
            _tell(task, members, signal.SIGKILL)
        self._look_again(task, now_s)

    def _look_again(self, task: Task, now_s: float) -> None:
        """Set when a group that was told to end is looked at; of a leader's end the kernel tells."""
        kill_at_s = now_s if task.kill_at_s is None else task.kill_at_s
        if task.status is None:
            self._due_s[task.attempt] = kill_at_s + _STUCK_S if task.killed else kill_at_s
            return
        look_at_s = now_s + task.look_s
        task.look_s = min(2.0 * task.look_s, _LATEST_S)
        self._due_s[task.attempt] = look_at_s if task.killed else min(look_at_s, kill_at_s)

    def _end_group(self, task: Task, cause: str, text: str, grace_s: float) -> None:
        """Tell a task to end, for the first reason that there is."""
        if task.cause is None:
            task.cause, task.text = cause, text
        self._terminate(task, grace_s)

    def _terminate(self, task: Task, grace_s: float) -> None:
        now_s = time.monotonic()
        if grace_s > 0.0 and (task.kill_at_s is None or task.status is not None):
            # Who is stopped cannot end.
            _tell(task, self._members(task), signal.SIGTERM, signal.SIGCONT)
        before_s = task.kill_at_s
        task.kill_at_s = now_s + grace_s if before_s is None else min(before_s, now_s + grace_s)
        self._look_again(task, now_s)
        if now_s >= task.kill_at_s:
            self._step(task, now_s)

    def _sample(self, now_s: float, cost: float) -> None:
        """Look at the memory of all members of all tasks."""
        members = self._strays.members(self._groups())
        for task in list(self.running.values()):
            limit_bytes = task.memory_bytes
            used = used_bytes(members.get(task.attempt, []), limit_bytes)
            task.peak_bytes = max(task.peak_bytes, used)
            if limit_bytes is not None and used > limit_bytes and not task.killed:
                self._end_group(task, "oom", excess(used, limit_bytes), 0.0)
        self._sample_at_s = now_s + max(_SAMPLE_S, cost * (time.monotonic() - now_s))

    def _finish(self, task: Task) -> None:
        attempt = task.attempt
        del self.running[attempt]
        self._due_s.pop(attempt, None)
        self._limited.pop(attempt, None)
        code = os.waitstatus_to_exitcode(task.status or 0)
        cause, text = task.cause or "", task.text
        if code == -signal.SIGKILL and task.cause is None and self._memory.kernel_killed():
            cause, text = "oom", "the computer ran out of memory, and its kernel killed it"
        user_s, system_s, peak_bytes = task.usage
        end = _end(
            attempt, task.began, code=code if code >= 0 else None, signal=-code if code < 0 else None,
            cause=cause, text=text, seconds=time.monotonic() - task.began_s, user_s=user_s, system_s=system_s,
            max_rss_bytes=max(peak_bytes, task.peak_bytes) or None,
        )  # fmt: skip
        self._keep(end)

    def _keep(self, end: Record) -> None:
        """Keep an end in memory and on disk, and tell it only then."""
        text = encoded(end)
        self.ended[int(str(end["attempt"]))] = text
        self._write(self._end_ledger, text)
        self._tell(text)

    def _record_start(self, attempt: int, text: str) -> None:
        self.starts[attempt] = text
        self._write(self._start_ledger, text)

    def _write(self, ledger: Ledger, text: str) -> None:
        try:
            ledger.add(text)
        except OSError as error:
            if not self._unwritten:
                note(f"a record cannot be written: {error.strerror}; it is tried again")
            self._unwritten.append((ledger, text))


def _tell(task: Task, members: list[Process], *numbers: int) -> None:
    """Send signals to the group of a task, and to the members that have left it."""
    for number in numbers:
        tell_group(task.pid, number)
        for one in members:
            if one.group != task.pid:
                tell_exactly(one, number)


def _started(task: Task) -> str:
    return f'{{"is":"started","attempt":{task.attempt},"pid":{task.pid},"at":{task.began!r}}}'


def _problem(attempt: int, text: str) -> str:
    return encoded({"is": "problem", "attempt": attempt, "text": text})


def _end(attempt: int, began: object, **more: object) -> Record:
    at = time.time()
    none: Record = {
        "is": "ended", "attempt": attempt, "code": None, "signal": None, "cause": "", "text": "", "at": at,
        "began": at if began is None else began, "seconds": 0.0, "user_s": 0.0, "system_s": 0.0,
        "max_rss_bytes": None,
    }  # fmt: skip
    return {**none, **more}


def _since_boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
