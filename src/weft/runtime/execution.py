"""An execution under way: the lock, the database, one engine, one world, and the loop between them.

``begin`` starts one, ``take_up`` goes on with one whose engine has stopped or died: the engine is rebuilt
from the journal, the world finds what still runs, and is told again what it has not answered.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from weft.backends import BACKENDS
from weft.backends.backend import Backend, Circumstances, Job
from weft.backends.layout import Layout
from weft.backends.local.stated import refuse_misstated
from weft.engine.engine import Engine
from weft.engine.explaining.waiting import standstill
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.remaining.promises import Promise
from weft.engine.state.attempt import Stage
from weft.errors import InvalidInput, Problem
from weft.platform.platform import Platform
from weft.repository.database import Database, open_database
from weft.repository.header import Header
from weft.repository.journal import Journal
from weft.repository.journal_store import JournalStore
from weft.repository.products import StoredProducts
from weft.repository.requests import Requests
from weft.repository.runs import Runs
from weft.runtime.asking import Asking
from weft.runtime.clock import RunClock
from weft.runtime.lock import Lock
from weft.runtime.loop import Arriving, Listener, Loop
from weft.runtime.plan_clock import Spending
from weft.runtime.replanning import Replanning
from weft.runtime.unanswered import Unanswered, wanted_plans

__all__ = ["Ending", "Execution", "backend_of", "open_project", "refuse_unreachable"]

_TOKEN = "token"  # noqa: S105 -- the key it is kept under
_ARRIVALS, _FRESH = "arrivals", "fresh"
_TIME, _STEPS = "plan_time_s", "plan_steps"
_AS_USUAL = Spending()
_GRACE_S = 5.0
_ALLOCATIONS = 50_000
"""Python looks for garbage in circles after so many new objects."""
_STAGES = {Stage.ASSIGNED: "assigned", Stage.SUBMITTED: "started", Stage.RUNNING: "started"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a stretch of an execution ended."""

    state: str
    """``completed``, ``failed``, ``stopped``, ``cancelled``, ``interrupted``."""
    stuck: tuple[str, ...] = ()
    """Why it could not go on; empty: it could, or had nothing to go on with."""


def backend_of(platform: Platform) -> str:
    """Name the backend of a platform's machines; they must all have the same one."""
    kinds: dict[str, str] = {}
    for machine in platform.machines:
        kinds.setdefault(str(machine.backend.get("kind", "")), machine.name)
    if "" in kinds:
        raise InvalidInput(
            Problem(
                what=f"machine {kinds['']!r} has no backend: weft does not know how to reach it",
                advice="give it `backend: {kind: local}` to run on this computer, or use `weft simulate`",
            )
        )
    if len(kinds) > 1:
        what = f"machines of several backends ({', '.join(sorted(kinds))}) in one platform"
        raise InvalidInput(Problem(what=what, rule="a run uses one backend"))
    return next(iter(kinds))


def refuse_unreachable(platform: Platform) -> None:
    """Refuse a platform whose machines cannot be reached as it says."""
    if backend_of(platform) == "local":
        refuse_misstated(platform.machines)


class Execution:
    """One execution in this process."""

    def __init__(
        self,
        layout: Layout,
        lock: Lock,
        database: Database,
        store: JournalStore,
        header: Header,
        engine: Engine,
        *,
        sequence: int,
        token: str,
        spending: Spending,
        fresh: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Use ``begin`` or ``take_up``."""
        self.layout = layout
        self.header = header
        self.engine = engine
        self.number = store.execution
        self.runs = Runs(database)
        self.promises: dict[int, Promise] = {
            run.position: run.promise for run in self.runs.of(self.number) if run.promise is not None
        }
        """By run: what was said of it before it began."""
        self.products = StoredProducts(database, only=self.number if fresh else None)
        self._lock = lock
        self._database = database
        self._store = store
        self.clock = RunClock(header.started_at_s, engine.state.now)
        self._in_order = False
        """Whether it has ended so that no program runs and the journal has it all."""
        self.backend = self._made_backend(token)
        self._planning = Replanning(
            engine, planner=header.planner, spending=spending, seed=header.seed, wake=self.backend.wake
        )
        self.loop = Loop(
            engine,
            self.backend,
            store,
            self.clock,
            self._planning,
            sequence=sequence,
            requests=Asking(Requests(database), engine, self.number),
            listeners=[self._note_runs, *listeners],
        )

    @classmethod
    def begin(
        cls,
        layout: Layout,
        lock: Lock,
        database: Database,
        header: Header,
        arrivals: Sequence[Arriving],
        *,
        spending: Spending = _AS_USUAL,
        fresh: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> Self:
        """Begin an execution; its number is in the database before anything else happens.

        ``fresh``: nothing is taken over from earlier ones.
        """
        store = JournalStore(database)
        token = os.urandom(32).hex()
        kept = {_TOKEN: token, _ARRIVALS: _written(arrivals), _FRESH: str(int(fresh))}
        spent = {_TIME: str(spending.time_s or ""), _STEPS: str(spending.steps or "")}
        store.begin(header, {**kept, **spent})
        engine = Journal(header=header, plans={}, entries=()).engine()
        made = cls(
            layout, lock, database, store, header, engine,
            sequence=0, token=token, spending=spending, fresh=fresh, listeners=listeners,
        )  # fmt: skip
        made.loop.expect(arrivals)
        return made

    @classmethod
    def take_up(
        cls,
        layout: Layout,
        lock: Lock,
        database: Database,
        number: int,
        *,
        listeners: Sequence[Listener] = (),
    ) -> Self:
        """Go on with an execution."""
        store = JournalStore(database)
        rebuilt = store.resume(number)
        runs = Runs(database)
        token = runs.remembered(number, _TOKEN) or os.urandom(32).hex()
        runs.set_execution_state(number, "running")
        made = cls(
            layout, lock, database, store, rebuilt.header, rebuilt.engine,
            sequence=rebuilt.entries, token=token, listeners=listeners,
            spending=_spending(runs.remembered(number, _TIME), runs.remembered(number, _STEPS)),
            fresh=runs.remembered(number, _FRESH) == "1",
        )  # fmt: skip
        begun = len(rebuilt.engine.state.runs)
        arrivals = _read(runs.remembered(number, _ARRIVALS) or "[]")
        made.loop.expect([each for each in arrivals if each[1].run >= begun])
        unanswered = Unanswered()
        for entry in store.all_after(number):
            unanswered.hear(entry)
        for run in made.engine.state.active.values():
            runs.set_state(number, run.index, "running")
        made._take_over(unanswered)
        return made

    def _take_over(self, unanswered: Unanswered) -> None:
        commands = unanswered.commands(self.engine)
        started = {command.attempt for command in commands if isinstance(command, cm.Start)}
        self.backend.find([self._job(number, number in started) for number in self.engine.state.attempts])
        self.loop.take_over([*commands, *wanted_plans(self.engine.state)])

    def ask(self, what: str, runs: Sequence[int]) -> None:
        """Let the engine be asked something about runs as soon as it goes on."""
        for index in runs:
            self.runs.set_state(self.number, index, "running")
        now_s = self.engine.state.now
        self.loop.expect([(now_s, ev.Asked(what=what, run=index)) for index in runs])

    def _job(self, number: int, started: bool) -> Job:
        attempt = self.engine.state.attempts[number]
        stage = "started" if started else _STAGES.get(attempt.stage, "ended")
        return Job(
            attempt=number,
            run=attempt.run,
            task=attempt.task,
            machine=attempt.machine,
            nodes=attempt.nodes,
            count=attempt.count,
            iteration=attempt.iteration,
            stage=stage,
            cancelled=bool(attempt.cancelled),
        )

    def run(self, interrupted: Callable[[], bool] = lambda: False) -> Ending:
        """Go on until everything is over, nothing can go on, or somebody interrupts."""
        with _rarely_collecting():
            self.loop.run(interrupted)
        if self.loop.over:
            return self._note_ending(Ending(state=self._worst()))
        if interrupted():
            self._halt()
            return self._note_ending(Ending(state="interrupted"))
        return self._note_ending(Ending(state="failed", stuck=tuple(standstill(self.engine.state))))

    def end_programs(self) -> None:
        """Tell all programs to end, and start no more; it may be called twice."""
        self.loop.halting = True
        self.backend.halt(_GRACE_S)

    def _halt(self) -> None:
        """End all programs in order: restart files are kept, and decisions wait for whoever resumes."""
        self.end_programs()
        loop = self.loop
        until = time.monotonic() + 2 * _GRACE_S
        while self.backend.busy and time.monotonic() < until:
            loop.turn(0.1)

    def _worst(self) -> str:
        found = {run.ending for run in self.engine.state.runs}
        return next((word for word in ("failed", "stopped", "cancelled") if word in found), "completed")

    def _note_ending(self, ending: Ending) -> Ending:
        self._in_order = True
        now = time.time()
        at_s = None if ending.state == "interrupted" else now
        self.runs.set_execution_state(self.number, ending.state, at_s=at_s)
        for run in self.engine.state.active.values():
            reason = "; ".join(ending.stuck)
            self.runs.set_state(self.number, run.index, ending.state, at_s=at_s, reason=reason)
        self._database.commit()
        return ending

    def _note_runs(self, entry: Entry, engine: Engine) -> None:
        """Keep the list of runs in step with the journal: both are written by one commit."""
        event = entry.event
        if type(event) is ev.Submitted:
            run = engine.state.runs[event.run]
            self.runs.add(
                execution=self.number,
                position=event.run,
                workflow=event.workflow,
                owner=event.owner,
                tasks=len(run),
                at_s=self.clock.wall(entry.now),
            )
        elif type(event) is ev.TasksAdded:
            self.runs.grow(self.number, event.run, len(engine.state.runs[event.run]))
        elif type(event) is ev.PlanReady and event.plan:
            self._note_promise(event)
        for command in entry.commands:
            if type(command) is cm.Finish:
                self.runs.set_state(
                    self.number,
                    command.run,
                    command.outcome,
                    at_s=self.clock.wall(entry.now),
                    reason=command.reason,
                )

    def _note_promise(self, event: ev.PlanReady) -> None:
        """Remember what the first plan says: what was promised before anything ran."""
        promise = self._planning.promises.get(event.run)
        if event.version == 0 and promise is not None:
            self.promises[event.run] = promise
            self.runs.promise(self.number, event.run, promise)

    @property
    def searching(self) -> bool:
        """Say whether a planner is still at work, for whom nobody waits after ``close``."""
        return self._planning.searching

    def close(self) -> None:
        """Let go of everything; programs that still run go on, and are found again."""
        self._planning.close()
        self.backend.close(stop=self._in_order)
        self._database.close()
        self._lock.release()

    def _made_backend(self, token: str) -> Backend:
        platform = self.header.platform
        made: Callable[[Circumstances], Backend] = BACKENDS.load(backend_of(platform))
        return made(
            Circumstances(
                layout=self.layout,
                execution=self.number,
                machines=tuple(platform.machines),
                known_of=lambda run: self.engine.state.runs[run].known,
                folder_of=functools.cache(self._folder_of),
                products=self.products,
                token=token,
            )
        )

    def _folder_of(self, run: int) -> str:
        key = self.engine.state.runs[run].known.key
        return str(self.layout.project / self.header.folders.get(key, "."))


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """Let Python look for garbage in circles rarely: the loop makes next to none, and looking takes long."""
    before = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _spending(time_s: str | None, steps: str | None) -> Spending:
    return Spending(time_s=float(time_s) if time_s else None, steps=int(steps) if steps else None)


def _written(arrivals: Sequence[Arriving]) -> str:
    return json.dumps([[at_s, event.run, event.workflow, event.owner] for at_s, event in arrivals])


def _read(text: str) -> list[Arriving]:
    return [
        (at_s, ev.Submitted(run=run, workflow=workflow, owner=owner))
        for at_s, run, workflow, owner in json.loads(text)
    ]


def open_project(layout: Layout, command: Sequence[str] = ()) -> tuple[Lock, Database]:
    """Take the lock of a project and open its database."""
    lock = Lock(layout.lock, command)
    try:
        return lock, open_database(layout.database, create=True)
    except BaseException:
        lock.release()
        raise
