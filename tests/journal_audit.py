"""Check of a whole journal.

``audit_journal`` checks that no task completes twice in one iteration or runs twice at one time without a
recorded cause (I4), that nothing starts before its predecessors completed and its data arrived (I1), that a
new plan cancels no attempt that meets its contract (I5), that time does not go back (I6), and that all
repeated or lost work is recorded (I7).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from weft.engine import messages
from weft.engine.invariants import require
from weft.engine.journal import JournalEntry
from weft.engine.state.compiled import CompiledWorkflow, Loops, build_loops
from weft.engine.states import TaskState

__all__ = ["JournalAudit", "audit_journal"]

_ROUNDING = 1e-9

_OF_A_RUN = (messages.Assign, messages.Start, messages.Settle, messages.RepeatLoop, messages.EndLoop)

_Task = tuple[int, int]
"""Index of a run and index of a task in it."""


def audit_journal(entries: Iterable[JournalEntry], workflows: Sequence[CompiledWorkflow]) -> JournalAudit:
    """Check a whole journal and return the audit; raise InvariantViolation at the first violated rule.

    ``workflows`` holds the workflow of each run. Runs whose graphs grow are skipped, because their task
    numbers change.
    """
    entries = list(entries)
    growing = {
        entry.event.run
        for entry in entries
        if isinstance(entry.event, messages.TasksAdded) and any(entry.event.lines.values())
    }
    found = JournalAudit(workflows, growing)
    for entry in entries:
        found.read(entry)
    return found


class _AuditedAttempt:
    """One attempt: the shares of its task's work at which it started and that it reached."""

    __slots__ = ("reached", "source", "spared")

    def __init__(self, spared: float, source: _AuditedAttempt | None) -> None:
        self.spared = spared
        self.reached = spared
        self.source = source
        """The attempt whose restart files it started from; None: it started from zero."""


class JournalAudit:
    """Checks journal entries one after another; it keeps the state of every task that the rules need."""

    def __init__(self, workflows: Sequence[CompiledWorkflow], left_out: Collection[int] = ()) -> None:
        """Create an audit that has read no entry; ``left_out``: runs to skip."""
        self._workflows = workflows
        self._left_out = left_out
        self._loops: dict[int, Loops] = {}
        self._sequence = -1
        self._now = 0.0
        self._task_of: dict[int, _Task] = {}
        """By attempt: run and task."""
        self._parts: dict[int, set[int]] = {}
        """By attempt: the numbers of its data requests that are not answered yet."""
        self._running: dict[_Task, int] = {}
        """By task: the attempt that was started and has not ended."""
        self._confirmed: set[int] = set()
        """Attempts whose programs were reported as started."""
        self._loses_machine = False
        """Whether the event of the current entry reports the loss of a machine."""
        self._done: set[_Task] = set()
        """Tasks completed or skipped in the current iteration."""
        self._left: set[tuple[int, int]] = set()
        """(run, body) of the loops that have ended."""
        self._saved: dict[_Task, tuple[float, _AuditedAttempt | None]] = {}
        """By task: the share of the work in its restart files, and the attempt that wrote them."""
        self._tries: dict[_Task, list[_AuditedAttempt]] = {}
        """By task: the attempts started in the current iteration."""
        self._try: dict[int, _AuditedAttempt] = {}
        """By attempt number: the started attempts."""
        self._violating: set[int] = set()
        self.replicated: dict[_Task, float] = {}
        """By task: the share of the work done more than once, over all iterations."""

    def read(self, entry: JournalEntry) -> None:
        """Check the next entry of the journal."""
        where = f"entry {entry.sequence}"
        require(entry.sequence == self._sequence + 1, "entries are numbered in order", where)
        require(entry.now >= self._now, f"{entry.now} s comes after {self._now} s", where)
        self._sequence, self._now = entry.sequence, entry.now
        self._absorb_event(entry.event)
        for command in entry.commands:
            self._follow(command)
            if isinstance(entry.event, messages.PlanReady) and isinstance(command, messages.Cancel):
                self._check_adoption(command)

    def _absorb_event(self, event: messages.Event) -> None:
        self._loses_machine = isinstance(event, messages.MachineChanged) and event.up is False
        match event:
            case messages.Started():
                self._confirmed.add(event.attempt)
            case messages.Ended():
                self._ended(event)
            case messages.Progressed():
                self._reach(event.attempt, event.work_done)
            case messages.Checkpointed():
                self._checkpointed(event)
            case messages.StagedIn():
                self._parts.get(event.attempt, set()).discard(event.part)

    def _follow(self, command: messages.Command) -> None:
        if isinstance(command, _OF_A_RUN) and command.run in self._left_out:
            return
        match command:
            case messages.Assign():
                self._assign(command)
            case messages.StageIn() if command.attempt in self._parts:
                self._parts[command.attempt].add(command.part)
            case messages.Start():
                self._start(command)
            case messages.Settle():
                self._settle(command)
            case messages.RepeatLoop():
                self._repeat(command)
            case messages.EndLoop():
                self._left.add((command.run, command.body))
            case messages.MarkViolating() if command.violating:
                self._violating.add(command.attempt)
            case messages.LoseAttempt():
                self._stop(command.attempt)

    def _say(self, task: _Task, rule: str) -> str:
        run, index = task
        name = self._workflows[run].names[index]
        return f"{rule}: task {name!r} of run {run}, entry {self._sequence} at {self._now} s"

    # Events

    def _ended(self, event: messages.Ended) -> None:
        self._reach(event.attempt, event.work_done)
        self._stop(event.attempt)

    def _reach(self, attempt: int, work_done: float | None) -> None:
        if (begun := self._try.get(attempt)) is not None and work_done is not None:
            begun.reached = max(begun.reached, work_done)

    def _stop(self, attempt: int) -> None:
        task = self._task_of.get(attempt)
        if task is not None and self._running.get(task) == attempt:
            del self._running[task]

    def _checkpointed(self, event: messages.Checkpointed) -> None:
        if (task := self._task_of.get(event.attempt)) is not None and event.work_done is not None:
            self._reach(event.attempt, event.work_done)
            self._saved[task] = (event.work_done, self._try.get(event.attempt))

    # Commands

    def _assign(self, command: messages.Assign) -> None:
        task = (command.run, command.task)
        require(command.attempt not in self._task_of, self._say(task, "an attempt is assigned once"))
        require(
            task not in self._done, self._say(task, "a completed task is not assigned again without a cause")
        )
        self._task_of[command.attempt] = task
        self._parts[command.attempt] = set()

    def _start(self, command: messages.Start) -> None:
        task = (command.run, command.task)
        require(self._task_of.get(command.attempt) == task, self._say(task, "a started attempt was assigned"))
        require(task not in self._running, self._say(task, "no task runs twice at one time"))
        require(not self._parts[command.attempt], self._say(task, "it starts after its data arrived"))
        for before in self._workflows[command.run].before(command.task):
            done = (command.run, before) in self._done and self._released(command.run, before, command.task)
            require(done, self._say(task, f"it starts after predecessor {before}"))
        self._running[task] = command.attempt
        self._account(task, command)

    def _released(self, run: int, task: int, successor: int) -> bool:
        held = self._loops_of(run).held_back_by(task, successor)
        return held is None or (run, held) in self._left

    def _loops_of(self, run: int) -> Loops:
        if run not in self._loops:
            self._loops[run] = build_loops(self._workflows[run])
        return self._loops[run]

    def _account(self, task: _Task, command: messages.Start) -> None:
        """Record a started attempt, and check that restart files hold the work that it skips."""
        spared = command.restart_from
        saved, source = self._saved.get(task, (0.0, None))
        require(
            spared <= saved + _ROUNDING,
            self._say(task, f"it starts from {spared}, but the checkpoint holds {saved}"),
        )
        begun = self._try[command.attempt] = _AuditedAttempt(spared, source if spared > 0.0 else None)
        self._tries.setdefault(task, []).append(begun)

    def _check_work(self, task: _Task) -> None:
        """Check that the last attempt and its restart files cover the work; add the replicated work (I7)."""
        if not (tries := self._tries.pop(task, [])):
            return
        built_on: _AuditedAttempt | None = tries[-1]
        needed = 1.0
        while built_on is not None:
            reached = built_on.reached >= needed - _ROUNDING
            require(reached, self._say(task, f"{needed} of the work is needed, {built_on.reached} was done"))
            needed, built_on = built_on.spared, built_on.source
        require(needed <= _ROUNDING, self._say(task, f"no attempt did the first {needed} of the work"))
        again = sum(each.reached - each.spared for each in tries) - 1.0
        self.replicated[task] = self.replicated.get(task, 0.0) + max(0.0, again)

    def _settle(self, command: messages.Settle) -> None:
        task = (command.run, command.task)
        if (attempt := self._running.get(task)) is not None:
            # An attempt lost with its machine has no Ended event; the cause replaces it. A start that was not
            # confirmed before the loss of the machine needs no cause: the task has not started.
            unstarted = self._loses_machine and attempt not in self._confirmed
            require(
                command.cause != "" or unstarted, self._say(task, "a running task is settled with a cause")
            )
            self._stop(attempt)
        if command.state in (TaskState.COMPLETED, TaskState.SKIPPED):
            require(task not in self._done, self._say(task, "a task completes once in an iteration"))
            self._done.add(task)
            self._saved.pop(task, None)
            if command.state == TaskState.COMPLETED:
                self._check_work(task)
        elif task in self._done:
            require(
                command.again or command.cause != "",
                self._say(task, "a completed task runs again with a cause"),
            )
            self._done.discard(task)
            if command.state in (TaskState.READY, TaskState.WAITING):
                self.replicated[task] = self.replicated.get(task, 0.0) + 1.0

    def _repeat(self, command: messages.RepeatLoop) -> None:
        body = self._loops_of(command.run).bodies[command.body]
        for task in body.tasks:
            self._done.discard((command.run, task))
            self._saved.pop((command.run, task), None)
            self._tries.pop((command.run, task), None)
        for inner in body.inner:
            self._left.discard((command.run, inner))

    def _check_adoption(self, command: messages.Cancel) -> None:
        """Check that adopting a plan cancels no attempt that runs and meets its contract (I5)."""
        task = self._task_of.get(command.attempt)
        if task is not None and self._running.get(task) == command.attempt:
            require(
                command.attempt in self._violating,
                self._say(task, "a plan cancels no task that meets its contract"),
            )
