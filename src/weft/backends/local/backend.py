"""Work aside: what takes long happens in threads, and what follows from it happens in the one that waits.

Left programs: what an engine that died has left with its runners, and what they remember of it.

The local world: named machines of this host, each with a sandbox and a runner (design section 7).

One thread decides nothing and waits for all: runners' sockets, staging threads, files of running programs.
What takes long (bringing, hashing, removing files) happens in threads; a task without files passes through
none of them.

What a platform file states of a machine of this computer under ``backend:``, and what is wrong with it.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar

from weft.backends.attempt.attempt import ActiveAttempt, AttemptRecords
from weft.backends.attempt.completion import (
    AttemptFinisher,
    FinishedAttempt,
    TaskMonitor,
    with_measured_times,
)
from weft.backends.attempt.inputs import RunProducts
from weft.backends.attempt.preparation import AttemptPreparer, PreparedAttempt
from weft.backends.backend import BackendContext, Capabilities, RecoveredAttempt
from weft.backends.local.link import RunnerFailed, RunnerMessage, RunnerPool, RunnerUnresponsive
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.errors import InvalidInput, Problem, nearest
from weft.platform.machine import Machine

__all__ = ["FollowUp", "LocalBackend", "StagingThreads", "SurvivingPrograms", "check_machines"]


_THREADS = 4

FollowUp = Callable[[], None]
"""What is to be done in the waiting thread."""


class StagingThreads:
    """Threads, and a descriptor that can be read when one of them has something to tell."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="staging")
        self._follow: SimpleQueue[FollowUp] = SimpleQueue()
        self.descriptor, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def do(self, work: Callable[[], FollowUp]) -> None:
        """Do something in a thread; what it gives is done by the next ``follow``."""
        self._pool.submit(self._done, work)

    def _done(self, work: Callable[[], FollowUp]) -> None:
        try:
            self._follow.put(work())
        except BaseException as error:  # raised again where it can be told
            self._follow.put(partial(_reraise, error))
        self.wake()

    @property
    def waiting(self) -> bool:
        """Say whether something is to be followed up."""
        return not self._follow.empty()

    def follow(self) -> None:
        """Do what follows from what was done."""
        while not self._follow.empty():
            self._follow.get()()

    def wake(self) -> None:
        """Let the descriptor become readable."""
        with suppress(BlockingIOError):  # it is already
            os.write(self._waker, b"x")

    def drain(self) -> None:
        """Let the descriptor become quiet again."""
        with suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def close(self) -> None:
        """Wait for the threads, and let go."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        os.close(self.descriptor)
        os.close(self._waker)


def _reraise(error: BaseException) -> None:
    raise error


@dataclass(slots=True)
class SurvivingPrograms:
    """The programs of an engine that died."""

    commanded: set[int] = field(default_factory=set)
    """Attempts that it had decided to start, whether or not a runner heard of it."""
    running: set[int] = field(default_factory=set)
    """Attempts whose programs still run."""
    ends: dict[int, RunnerMessage] = field(default_factory=dict)
    """Attempts whose programs have ended since."""
    _starts: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def take(self, here: Mapping[str, Any]) -> None:
        """Take in the greeting of a runner."""
        self.running |= {int(each["attempt"]) for each in here["running"]}
        self.ends |= {int(each["attempt"]): each for each in here["ended"]}
        starts = here.get("starts", ())  # a runner of an older weft tells none
        self._starts |= {int(each["attempt"]): each for each in starts}

    def recall(self, live: ActiveAttempt) -> None:
        """Let an attempt know again what was known when its program was started.

        Its inputs may have changed since: what it is made from is never worked out anew.
        """
        number = live.number
        live.inherited = number in self.commanded
        start = self._starts.pop(number, None)
        if start is None or not (number in self.running or number in self.ends):
            return
        live.recall(str(start.get("reminder") or ""))
        if number in self.running or self.ends[number].get("cause") != "lost":  # else nobody saw it end
            live.began_at = float(start["at"])


_GRACE_S = 5.0
"""How long a program that is told to end may take before it is killed."""


class LocalBackend:
    """This computer."""

    kind: ClassVar[str] = "local"
    capabilities: ClassVar[Capabilities] = Capabilities(
        reattaches=True, limits_time=True, limits_memory=True, signals=True, own_disk=False
    )

    def __init__(self, circumstances: BackendContext, *, grace_s: float = _GRACE_S) -> None:
        self._circumstances = circumstances
        self._grace_s = grace_s
        self._live: dict[int, ActiveAttempt] = {}
        self._events: deque[ev.Event] = deque()
        self._of_task: dict[tuple[int, int], int] = {}
        """The last attempt of a task."""
        self._left = SurvivingPrograms()
        self._finishing_now: set[int] = set()
        """Attempts whose programs have ended, and whose outputs are being looked at."""
        self._over: list[ActiveAttempt] = []
        """Attempts whose end is told by the next ``poll``."""
        self._told: list[ActiveAttempt] = []
        """Attempts whose end was told by the last ``poll``: at the next one it is in the journal."""
        self._aside = StagingThreads()
        self._poller = select.poll()
        self._poller.register(self._aside.descriptor, select.POLLIN)
        self._made = RunProducts(circumstances.products, circumstances.execution)
        self._runners = RunnerPool(circumstances, self._poller)
        layout, execution = circumstances.layout, circumstances.execution
        # Texts: to join paths takes longer than all else that an assignment needs.
        self._workdirs = [str(layout.workdir(execution, each, 0).parent) for each in circumstances.machines]
        self._all_records = str(layout.records(execution, 0).parent)
        self._records = AttemptRecords()
        self._preparing = AttemptPreparer(circumstances, self._records, self._made, self._unrecorded)
        self._finishing = AttemptFinisher(circumstances, self._records)
        self._watching = TaskMonitor(circumstances)
        self._actions: dict[type, Callable[[Any], None]] = {
            cm.Assign: self._assign,
            cm.Settle: self._settle,
            cm.StageIn: self._stage_in,
            cm.Start: self._start,
            cm.Signal: self._signal,
            cm.Cancel: self._cancel,
            cm.StageOut: self._stage_out,
            cm.CleanUp: self._clean_up,
            cm.Drop: self._drop,
            cm.Probe: self._probe,
            cm.Discover: self._discover,
            cm.Fetch: self._fetch,
        }

    # What the engine says

    def execute(self, commands: Sequence[cm.Command]) -> None:
        """Begin what is commanded."""
        for command in commands:
            action = self._actions.get(type(command))
            if action is not None:
                action(command)
        self._runners.flush()

    def _assign(self, command: cm.Assign) -> None:
        if command.attempt in self._live:
            return
        number = command.attempt
        self._of_task[command.run, command.task] = command.attempt
        self._live[command.attempt] = ActiveAttempt.of(
            command, f"{self._workdirs[command.machine]}/{number}", f"{self._all_records}/{number}"
        )

    def _settle(self, command: cm.Settle) -> None:
        """Forget an attempt that is over, unless what it left is kept for the next one."""
        number = self._of_task.get((command.run, command.task))
        live = None if number is None else self._live.get(number)
        if live is not None and live.over and not command.keep:
            del self._live[live.number]
            del self._of_task[command.run, command.task]

    def _stage_in(self, command: cm.StageIn) -> None:
        live = self._live[command.attempt]
        if command.part in live.parts:
            return
        live.parts.add(command.part)
        live.iteration = command.iteration

        def bring() -> Callable[[], None]:
            event = self._preparing.stage_in(live, command)
            return lambda: self._events.append(event)

        self._aside.do(bring)

    def _start(self, command: cm.Start) -> None:
        live = self._live[command.attempt]
        if live.start is not None:
            return
        live.start = command
        live.iteration = command.iteration
        live.began_at = time.time()
        self._left.recall(live)
        if live.number in self._left.running:
            live.launched = True
            self._watching.begin(live)
        elif live.number in self._left.ends:
            live.launched = True
            self._program_ended(live, self._left.ends.pop(live.number))
        elif self._preparing.is_plain(live):
            self._launch(live, self._preparing.prepare(live))
        else:
            self._aside.do(lambda: self._prepared(live, self._preparing.prepare(live)))

    def _prepared(self, live: ActiveAttempt, prepared: PreparedAttempt) -> Callable[[], None]:
        return lambda: self._launch(live, prepared)

    def _launch(self, live: ActiveAttempt, prepared: PreparedAttempt) -> None:
        """Give a program to its runner, or say why there is none to run."""
        if live.over:
            return
        if live.cancelled or live.halted:
            self._report_stopped(live)
        elif prepared.problem:
            self._end(live, prepared.failed(live))
        elif prepared.taken is not None:
            taken = prepared.taken
            self._made.add(taken)
            # This execution's own from now on: whoever resumes it, or cleans the other up, finds it.
            self._circumstances.products.add(taken)
            ended = ev.Ended(
                attempt=live.number,
                exit_code=taken.exit_code,
                result=taken.result,
                work_done=1.0,
                story=f"taken over from execution {prepared.taken_from}",
                taken_over=prepared.taken_from,
            )
            self._end(live, ended, prepared.lines)
        elif prepared.message is None:
            self._program_ended(live, {"code": 0})
        else:
            problem = self._runners.start(live.machine, prepared.message)
            if problem:
                self._end(live, ev.Ended(attempt=live.number, exit_code=None, cause="lost", story=problem))
                return
            live.launched = True
            self._watching.begin(live)

    def _unrecorded(self, live: ActiveAttempt, problem: str) -> None:
        """End a program whose records cannot be written."""
        live.unrecorded = problem
        self._runners.cancel(live.machine, live.number, 0.0)

    def _signal(self, command: cm.Signal) -> None:
        live = self._live.get(command.attempt)
        if live is not None and live.launched:
            self._runners.signal(live.machine, live.number, _SIGNALS[command.what])

    def _cancel(self, command: cm.Cancel) -> None:
        live = self._live[command.attempt]
        if live.over or live.cancelled:
            return
        live.cancelled = True
        if live.launched:
            self._runners.cancel(live.machine, live.number, self._grace_s)
        elif live.start is None:
            self._report_stopped(live)

    def _report_stopped(self, live: ActiveAttempt) -> None:
        """Say of an attempt that never ran that it will not."""
        if live.halted and not live.cancelled:
            self._end(live, ev.Ended(attempt=live.number, exit_code=_REQUEUE, story=_HALTED))
        else:
            self._end(live, ev.Ended(attempt=live.number, exit_code=None, cause="cancelled"))

    def _stage_out(self, command: cm.StageOut) -> None:
        live = self._live[command.attempt]

        def publish() -> Callable[[], None]:
            event = self._finishing.stage_out(live, self._made.of(live.run, live.task))
            return lambda: self._events.append(event)

        self._aside.do(publish)

    def _clean_up(self, command: cm.CleanUp) -> None:
        live = self._live.get(command.attempt)

        def remove() -> Callable[[], None]:
            problem = "" if live is None else self._finishing.clean_up(live)
            return lambda: self._events.append(ev.CleanedUp(attempt=command.attempt, problem=problem))

        self._aside.do(remove)

    def _drop(self, command: cm.Drop) -> None:
        self._live.pop(command.attempt, None)

    def _probe(self, command: cm.Probe) -> None:
        if command.of == "progress" and command.attempt is not None:
            live = self._live.get(command.attempt)
            if live is not None and live.launched and not live.over:
                self._events.extend(self._watching.progress(live))
        elif command.of == "reattach" and command.attempt is not None:
            return  # a runner that is gone is noticed by itself
        elif command.machine is not None:
            alive = command.of != "job" or command.attempt in self._live
            self._events.append(
                ev.Answered(of=command.of, alive=alive, attempt=command.attempt, machine=command.machine)
            )

    def _discover(self, command: cm.Discover) -> None:  # noqa: ARG002 -- it says nothing more
        self._events.append(ev.Discovered(machines=tuple(range(len(self._circumstances.machines)))))

    def _fetch(self, command: cm.Fetch) -> None:
        self._events.append(ev.Fetched(machine=command.machine, speed_factor=1.0))

    # What happens

    def poll(self, timeout_s: float) -> list[ev.Event]:
        """Wait for news, at most so long."""
        self._forget_told()
        self._records.add_what_waits()
        self._runners.flush()
        if self._events or self._aside.waiting:
            timeout_s = 0.0
        wait_s = min(timeout_s, self._watching.next_in_s())
        for descriptor, _ in self._poller.poll(max(0.0, wait_s) * 1000.0):
            if descriptor == self._aside.descriptor:
                self._aside.drain()
            else:
                self._hear(descriptor)
        self._aside.follow()
        if self._watching.next_in_s() <= 0.0:
            self._events.extend(self._watching.look())
            for machine in self._runners.silent():
                self._runner_gone(machine)
        self._runners.flush()
        found = list(self._events)
        self._events.clear()
        self._told, self._over = self._over, []
        return found

    def _forget_told(self) -> None:
        """Let the runners forget the ends that are in the journal: an engine that dies before asks again."""
        for live in self._told:
            self._runners.forget(live.machine, live.number)
        self._told.clear()

    def _hear(self, descriptor: int) -> None:
        machine, messages, gone = self._runners.receive(descriptor)
        for message in messages:
            live = self._live.get(message.get("attempt", -1))
            match message["is"]:
                case "ended" if live is not None:
                    self._program_ended(live, message)
                case "stopped" if live is not None and not live.over:
                    self._events.append(ev.Suspended(attempt=live.number))
                case "continued" if live is not None and not live.over:
                    self._events.append(ev.Resumed(attempt=live.number))
        if gone:
            self._runner_gone(machine)

    def _runner_gone(self, machine: int) -> None:
        """Start another runner: it tells what the one before has left, and ends what has no parent."""
        waiting = [live for live in self._live.values() if live.machine == machine and live.launched]
        waiting = [live for live in waiting if not live.over]
        if not waiting:
            return
        lost: RunnerMessage = {"cause": "lost", "text": "its runner died"}
        left = SurvivingPrograms()
        try:
            left.take(self._runners.connect(machine))
        except (RunnerFailed, RunnerUnresponsive) as error:
            lost = {"cause": "lost", "text": str(error)}
        for live in waiting:
            if live.number not in left.running:
                self._program_ended(live, left.ends.get(live.number, lost))

    def _program_ended(self, live: ActiveAttempt, record: RunnerMessage) -> None:
        """Take in the end of a program: what it made is looked at before it is told."""
        if live.over:
            return
        live.over = True
        live.record = record
        self._watching.end(live)
        if self._finishing.is_plain(live):
            self._finished(live, self._finishing.finish(live, record))
        else:

            def finish() -> Callable[[], None]:
                finished = self._finishing.finish(live, record)
                return lambda: self._finished(live, finished)

            self._finishing_now.add(live.number)
            self._aside.do(finish)

    def _finished(self, live: ActiveAttempt, finished: FinishedAttempt) -> None:
        self._finishing_now.discard(live.number)
        if finished.product is not None:
            self._made.add(finished.product)
            self._circumstances.products.add(finished.product)
        if finished.checkpoint is not None:
            self._events.append(ev.Checkpointed(attempt=live.number, work_done=finished.checkpoint))
        live.over = False
        self._end(live, finished.ended, finished.lines)

    def _end(
        self, live: ActiveAttempt, ended: ev.Ended, lines: dict[str, tuple[str, ...]] | None = None
    ) -> None:
        """Tell the end of an attempt, once."""
        if live.over:
            return
        live.over = True
        if lines:
            self._events.append(ev.TasksAdded(run=live.run, lines=lines))
        self._events.append(with_measured_times(live, ended) if live.inherited else ended)
        if live.launched:
            self._over.append(live)

    # Taking over, and letting go

    def find(self, jobs: Sequence[RecoveredAttempt]) -> None:
        """Take up the attempts of an engine that died: connect to their runners, or settle what they left."""
        started = [job for job in jobs if job.stage == "started"]
        self._left.commanded |= {job.attempt for job in started}
        for machine in sorted({job.machine for job in started}):
            self._left.take(self._runners.connect(machine))

    def halt(self, grace_s: float) -> None:
        """End all programs, as if they had asked to be run again later."""
        for live in list(self._live.values()):
            if live.over or live.halted:
                continue
            live.halted = True
            if live.launched:
                self._runners.cancel(live.machine, live.number, grace_s)
        self._runners.flush()

    @property
    def busy(self) -> bool:
        """Say whether some program still runs, or its end was not told yet."""
        running = (live.start is not None and not live.over for live in self._live.values())
        return bool(self._finishing_now) or any(running)

    def wake(self) -> None:
        """Let ``poll`` return."""
        self._aside.wake()

    def close(self, *, stop: bool) -> None:
        """Let go of the runners; ``stop``: they end as soon as nothing runs."""
        self._aside.close()
        self._records.add_what_waits()
        self._runners.close(stop=stop)
        self._records.close()


_SIGNALS = {"checkpoint": "USR1", "suspend": "STOP", "resume": "CONT"}
_REQUEUE = 99
_HALTED = "the engine was stopped"


_KEYS = ("kind", "cores", "sandbox")


def check_machines(machines: Iterable[Machine]) -> None:
    """Refuse machines that ask for what this computer does not have, or in words that nobody knows."""
    there = sorted(os.sched_getaffinity(0))
    problems = [problem for machine in machines for problem in _problems(machine, there)]
    if problems:
        raise InvalidInput(problems)


def _problems(machine: Machine, there: list[int]) -> Iterator[Problem]:
    where = f"machine {machine.name!r}: backend"
    for key in machine.backend:
        if key not in _KEYS:
            near = nearest(key, _KEYS)
            advice = f"did you mean {near!r}?" if near else f"known: {', '.join(_KEYS)}"
            yield Problem(what=f"{where}: unknown key {key!r}", advice=advice)
    cores, sandbox = machine.backend.get("cores"), machine.backend.get("sandbox")
    if cores is not None and not _is_some_of(cores, there):
        rule = f"must be a list of cores that weft may use here ({', '.join(map(str, there))})"
        yield Problem(what=f"{where}: cores {cores!r}", rule=rule)
    if sandbox is not None and not (isinstance(sandbox, str) and sandbox):
        yield Problem(what=f"{where}: sandbox {sandbox!r}", rule="must name a directory")


def _is_some_of(cores: object, there: list[int]) -> bool:
    return isinstance(cores, list | tuple) and bool(cores) and all(core in there for core in cores)
