"""Auditing a journal: what must hold over a whole run, read from its entries alone.

No task completes twice in one iteration or runs twice at one time without a logged cause (I4), nothing
starts before its predecessors completed and its data arrived (I1), a plan moves nothing that runs properly
(I5), times go forward (I6), and work is neither lost nor done twice without a log of it (I7).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from weft.engine.invariants.broken import demand
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.known import Known
from weft.engine.state.loops import Loops, loops_of

__all__ = ["Audit", "audit"]

_ROUNDING = 1e-9

_OF_A_RUN = (cm.Assign, cm.Start, cm.Settle, cm.Repeat, cm.Leave)

_Task = tuple[int, int]
"""Run and task."""


def audit(entries: Iterable[Entry], workflows: Sequence[Known]) -> Audit:
    """Read a journal to its end; raise Broken where something does not hold. ``workflows``: by run.

    Runs whose graphs grow are not looked at: their tasks change numbers on the way.
    """
    entries = list(entries)
    growing = {
        entry.event.run
        for entry in entries
        if isinstance(entry.event, ev.TasksAdded) and any(entry.event.lines.values())
    }
    found = Audit(workflows, growing)
    for entry in entries:
        found.read(entry)
    return found


class _Try:
    """The work of one attempt, in shares of its task's."""

    __slots__ = ("reached", "source", "spared")

    def __init__(self, spared: float, source: _Try | None) -> None:
        self.spared = spared
        self.reached = spared
        self.source = source
        """Whose restart files it goes on from; None: it starts from zero."""


class Audit:
    """What a journal has told so far, task by task."""

    def __init__(self, workflows: Sequence[Known], left_out: Collection[int] = ()) -> None:
        """Begin; ``left_out``: runs that are not looked at."""
        self._workflows = workflows
        self._left_out = left_out
        self._loops: dict[int, Loops] = {}
        self._sequence = -1
        self._now = 0.0
        self._task_of: dict[int, _Task] = {}
        """By attempt."""
        self._parts: dict[int, set[int]] = {}
        """By attempt: the parts of its data that are on the way."""
        self._running: dict[_Task, int] = {}
        """The attempt that was told to start and is not over."""
        self._done: set[_Task] = set()
        """Tasks that have completed or were left out in the present iteration."""
        self._left: set[tuple[int, int]] = set()
        """Bodies of loops that were left, by run."""
        self._saved: dict[_Task, tuple[float, _Try | None]] = {}
        """The share of the work that restart files keep, and who wrote them."""
        self._tries: dict[_Task, list[_Try]] = {}
        """The attempts of the present iteration that were started."""
        self._try: dict[int, _Try] = {}
        """The same by attempt."""
        self._violating: set[int] = set()
        self.replicated: dict[_Task, float] = {}
        """Shares of the work that were done more than once, in all iterations together."""

    def read(self, entry: Entry) -> None:
        """Take in one entry."""
        where = f"entry {entry.sequence}"
        demand(entry.sequence == self._sequence + 1, "entries are numbered in order", where)
        demand(entry.now >= self._now, f"{entry.now} s comes after {self._now} s", where)
        self._sequence, self._now = entry.sequence, entry.now
        self._hear(entry.event)
        for command in entry.commands:
            self._follow(command)
            if isinstance(entry.event, ev.PlanReady) and isinstance(command, cm.Cancel):
                self._check_adoption(command)

    def _hear(self, event: ev.Event) -> None:
        match event:
            case ev.Ended():
                self._ended(event)
            case ev.Progressed():
                self._reach(event.attempt, event.work_done)
            case ev.Checkpointed():
                self._checkpointed(event)
            case ev.StagedIn():
                self._parts.get(event.attempt, set()).discard(event.part)

    def _follow(self, command: cm.Command) -> None:
        if isinstance(command, _OF_A_RUN) and command.run in self._left_out:
            return
        match command:
            case cm.Assign():
                self._assign(command)
            case cm.StageIn() if command.attempt in self._parts:
                self._parts[command.attempt].add(command.part)
            case cm.Start():
                self._start(command)
            case cm.Settle():
                self._settle(command)
            case cm.Repeat():
                self._repeat(command)
            case cm.Leave():
                self._left.add((command.run, command.body))
            case cm.Note():
                self._note(command)

    def _say(self, task: _Task, rule: str) -> str:
        run, index = task
        name = self._workflows[run].names[index]
        return f"{rule}: task {name!r} of run {run}, entry {self._sequence} at {self._now} s"

    # Events

    def _ended(self, event: ev.Ended) -> None:
        self._reach(event.attempt, event.work_done)
        self._stop(event.attempt)

    def _reach(self, attempt: int, work_done: float | None) -> None:
        begun = self._try.get(attempt)
        if begun is not None and work_done is not None:
            begun.reached = max(begun.reached, work_done)

    def _stop(self, attempt: int) -> None:
        task = self._task_of.get(attempt)
        if task is not None and self._running.get(task) == attempt:
            del self._running[task]

    def _checkpointed(self, event: ev.Checkpointed) -> None:
        task = self._task_of.get(event.attempt)
        if task is not None:
            self._reach(event.attempt, event.work_done)
            self._saved[task] = (event.work_done, self._try.get(event.attempt))

    # Commands

    def _assign(self, command: cm.Assign) -> None:
        task = (command.run, command.task)
        demand(command.attempt not in self._task_of, self._say(task, "an attempt is assigned once"))
        demand(task not in self._done, self._say(task, "what is done is not done again without a cause"))
        self._task_of[command.attempt] = task
        self._parts[command.attempt] = set()

    def _start(self, command: cm.Start) -> None:
        task = (command.run, command.task)
        demand(self._task_of.get(command.attempt) == task, self._say(task, "what starts was assigned"))
        demand(task not in self._running, self._say(task, "no task runs twice at one time"))
        demand(not self._parts[command.attempt], self._say(task, "it starts when its data have come"))
        for before in self._workflows[command.run].before(command.task):
            done = (command.run, before) in self._done and self._released(command.run, before, command.task)
            demand(done, self._say(task, f"it starts after predecessor {before}"))
        self._running[task] = command.attempt
        self._account(task, command)

    def _released(self, run: int, task: int, successor: int) -> bool:
        held = self._loops_of(run).held_back_by(task, successor)
        return held is None or (run, held) in self._left

    def _loops_of(self, run: int) -> Loops:
        if run not in self._loops:
            self._loops[run] = loops_of(self._workflows[run])
        return self._loops[run]

    def _account(self, task: _Task, command: cm.Start) -> None:
        """Note what an attempt goes on from."""
        spared = command.restart_from
        saved, source = self._saved.get(task, (0.0, None))
        demand(spared <= saved + _ROUNDING, self._say(task, f"{spared} is spared, {saved} was saved"))
        begun = self._try[command.attempt] = _Try(spared, source if spared > 0.0 else None)
        self._tries.setdefault(task, []).append(begun)

    def _check_work(self, task: _Task) -> None:
        """What the last attempt builds on is the whole work; all else was done again (I7)."""
        tries = self._tries.pop(task, [])
        if not tries:
            return
        built_on: _Try | None = tries[-1]
        needed = 1.0
        while built_on is not None:
            reached = built_on.reached >= needed - _ROUNDING
            demand(reached, self._say(task, f"{needed} of the work is needed, {built_on.reached} was done"))
            needed, built_on = built_on.spared, built_on.source
        demand(needed <= _ROUNDING, self._say(task, f"nobody did the first {needed} of the work"))
        again = sum(each.reached - each.spared for each in tries) - 1.0
        self.replicated[task] = self.replicated.get(task, 0.0) + max(0.0, again)

    def _settle(self, command: cm.Settle) -> None:
        task = (command.run, command.task)
        attempt = self._running.get(task)
        if attempt is not None:
            # Lost with its machine: the log says so instead of an end.
            demand(command.cause != "", self._say(task, "what runs is settled with a cause"))
            self._stop(attempt)
        if command.state in ("COMPLETED", "SKIPPED"):
            demand(task not in self._done, self._say(task, "a task completes once in an iteration"))
            self._done.add(task)
            self._saved.pop(task, None)
            if command.state == "COMPLETED":
                self._check_work(task)
        elif task in self._done:
            demand(command.again or command.cause != "", self._say(task, "it is done again with a cause"))
            self._done.discard(task)
            if command.state in ("READY", "WAITING"):
                self.replicated[task] = self.replicated.get(task, 0.0) + 1.0

    def _repeat(self, command: cm.Repeat) -> None:
        body = self._loops_of(command.run).bodies[command.body]
        for task in body.tasks:
            self._done.discard((command.run, task))
            self._saved.pop((command.run, task), None)
            self._tries.pop((command.run, task), None)
        for inner in body.inner:
            self._left.discard((command.run, inner))

    def _note(self, command: cm.Note) -> None:
        if command.kind == "violating":
            self._violating.add(command.attempt)
        elif command.kind == "lost":
            self._stop(command.attempt)

    def _check_adoption(self, command: cm.Cancel) -> None:
        """A plan that is adopted ends nothing that runs and keeps its contract (I5)."""
        task = self._task_of.get(command.attempt)
        if task is not None and self._running.get(task) == command.attempt:
            demand(command.attempt in self._violating, self._say(task, "a plan keeps what runs"))
