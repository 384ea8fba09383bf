"""Invariants of the engine, for tests: ``check_engine`` checks a state, ``audit_journal`` a whole journal.

``check_engine`` costs O(tasks + edges + machines) and shares no code with the reactions. It checks that
states, attempts and counters agree (I1, I3) and that no machine allocates more than it has (I2).

``audit_journal`` checks that no task completes twice in one iteration or runs twice at one time without a
recorded cause (I4), that nothing starts before its predecessors completed and its data arrived (I1), that a
new plan cancels no attempt that meets its contract (I5), that time does not go back (I6), and that all
repeated or lost work is recorded (I7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from functools import partial

from weft.engine import messages
from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.engine.state.compiled import CompiledWorkflow, Loops, build_loops
from weft.engine.state.indexes import to_units
from weft.engine.state.machines import MachineState
from weft.engine.state.run import PromisedWork, RunState, UnfinishedTasks
from weft.engine.state.state import EngineState
from weft.engine.states import ACTIVE, FINAL, Attempt, RunOutcome, Stage, TaskState
from weft.errors import WeftError
from weft.instance.instance import Instance
from weft.workflow.task_graph import COMPUTE, VIRTUAL


class InvariantViolation(WeftError):
    """An invariant does not hold: a bug of weft."""


_Description = str | Callable[[], str]


def require(holds: bool, rule: str, *stories: _Description) -> None:
    """Raise InvariantViolation with the rule and the stories if ``holds`` is false."""
    if not holds:
        texts = (story if isinstance(story, str) else story() for story in stories)
        raise InvariantViolation("; ".join((rule, *texts)))


def _describe_attempt(state: EngineState, attempt: Attempt) -> str:
    """Return all facts about an attempt as one line."""
    facts: Iterable[str] = (
        f"attempt {attempt.number} of {state.runs[attempt.run].name(attempt.task)!r} of run {attempt.run}",
        f"on {state.machines[attempt.machine].name!r} with {attempt.nodes} nodes",
        f"stage {Stage(attempt.stage).name}",
        "holds nodes" if attempt.holds else "holds no nodes",
        "waits in the queue" if attempt.queued else "",
        f"{attempt.staging} data requests open" if attempt.staging else "",
        f"assigned at {attempt.assigned_s} s ({attempt.reason or 'no reason given'})",
        f"started at {attempt.started_s} s" if attempt.started_s is not None else "",
        f"ended at {attempt.ended_s} s" if attempt.ended_s is not None else "",
        f"cancelled: {attempt.cancelled}" if attempt.cancelled else "",
        f"replaces {attempt.replaces}" if attempt.replaces is not None else "",
        f"replaced by {attempt.replaced_by}" if attempt.replaced_by is not None else "",
    )
    return ", ".join(fact for fact in facts if fact)


def _describe_task(state: EngineState, run: RunState, task: int) -> str:
    """Return all facts about a task and its attempt as one line."""
    number = run.attempt_of.get(task)
    attempt = state.attempts.get(number) if number is not None else None
    description = (
        f"task {run.name(task)!r} of run {run.index} is {TaskState(run.state[task]).name} at {state.now} s, "
        f"{run.missing[task]} predecessors missing, failures {run.facts_of(task).failures}"
    )
    if attempt is not None:
        return f"{description}; {_describe_attempt(state, attempt)}"
    return f"{description}; its attempt {number} does not exist" if number is not None else description


_HOLDING = (Stage.ASSIGNED, Stage.SUBMITTED, Stage.RUNNING)
"""Stages in which an attempt may hold nodes."""


def check_machines(state: EngineState, instance: Instance) -> None:
    """Check nodes, amounts, queues and indexes of every machine; O(machines + attempts)."""
    holders: dict[int, set[int]] = {machine.index: set() for machine in state.machines}
    queued: dict[int, list[tuple[float, int]]] = {machine.index: [] for machine in state.machines}
    for attempt in state.attempts.values():
        description = partial(_describe_attempt, state, attempt)
        if attempt.holds:
            holders[attempt.machine].add(attempt.number)
            require(attempt.stage in _HOLDING, "an ended attempt holds no nodes", description)
        if attempt.queued:
            queued[attempt.machine].append(attempt.turn)
            require(attempt.stage == Stage.ASSIGNED, "a started attempt is not in a queue", description)
            require(not attempt.holds, "an attempt in a queue holds no nodes", description)
        if attempt.stage in (Stage.SUBMITTED, Stage.RUNNING):
            require(attempt.holds, "a running attempt holds nodes", description)
        if attempt.stage in _HOLDING:
            require(attempt.holds or attempt.queued, "an attempt is in a queue or holds nodes", description)
            require(state.machines[attempt.machine].up, "a machine that is down has no attempts", description)
    free: set[int] = set()
    for machine in state.machines:
        _check_capacity(state, machine, instance)
        where = f"machine {machine.name!r} at {state.now} s"
        holding, waiting = sorted(holders[machine.index]), sorted(queued[machine.index])
        listed = sorted(machine.holders)
        require(listed == holding, f"attempts {holding} hold nodes, but {listed} are listed", where)
        require(machine.queue == waiting, f"{waiting} are queued, but the queue is {machine.queue}", where)
        units = sum(
            to_units(state.attempts[number].seconds * state.attempts[number].nodes)
            for _, number in machine.queue
        )
        counted = machine.waiting_units
        require(counted == units, f"{units} units of work are queued, but {counted} are recorded", where)
        obstacle = state.obstacle(machine.index)
        rule = f"its usable flag is {machine.usable}, but its obstacle is {obstacle!r}"
        require(machine.usable == (not obstacle), rule, where)
        left = machine.left
        rule = f"its recorded free capacity is {left}, the true one {machine.free_capacity()}"
        require(left == machine.free_capacity(), rule, where)
        if left is not None:
            free.add(machine.index)
    factors = tuple(machine.speed_factor if machine.up else 0.0 for machine in state.machines)
    recorded = state.machines.speed_factors
    require(recorded == factors, f"speed factors {factors}, but recorded are {recorded}", f"at {state.now} s")
    listed = sorted(state.machines.free)
    rule = f"machines {sorted(free)} have free nodes, but {listed} are listed as free"
    require(listed == sorted(free), rule, f"at {state.now} s")
    promised = _sum_promised(state)
    found = {machine.index: machine.promised_units for machine in state.machines if machine.promised_units}
    rule = f"units of bound work by machine are {promised}, but recorded are {found}"
    require(found == promised, rule, f"at {state.now} s")


def _sum_promised(state: EngineState) -> dict[int, int]:
    """Return, by machine, the work units of the tasks that are bound to it but not assigned yet."""
    found: dict[int, int] = {}

    def count(machine: int, units: int) -> None:
        found[machine] = found.get(machine, 0) + units

    for run in state.runs:
        if run.promises is not None:
            fresh = PromisedWork(run.compiled, count)
            for task in range(len(run)):
                if run.compiled.kind[task] == COMPUTE:
                    fresh.give(task, run.promised_to(task))
    return {machine: units for machine, units in found.items() if units}


def _check_capacity(state: EngineState, machine: MachineState, instance: Instance) -> None:
    where = f"machine {machine.name!r} at {state.now} s"
    taken = sum(holder.nodes for holder in machine.holders.values())
    free = f"{taken} of {machine.nodes} nodes are held, but {machine.free_nodes} are free"
    require(machine.free_nodes == machine.nodes - taken, free, where)
    require(machine.unlimited or machine.free_nodes >= 0, f"{machine.free_nodes} nodes are free", where)
    if machine.unlimited:
        return
    for name, total in instance.machines[machine.index].amounts.items():
        held = math.fsum(
            amount for holder in machine.holders.values() for of, amount in holder.demand if of == name
        )
        slack = 1e-6 * max(1.0, total)
        left = machine.amounts[name]
        require(
            abs(total - held - left) <= slack, f"{left} of {total} {name} are free, {held} are held", where
        )
        require(left >= -slack, f"{left} of {total} {name} are free", where)


_S = TaskState

_STAGES: dict[TaskState, tuple[Stage, ...]] = {
    _S.SCHEDULED: (Stage.ASSIGNED,),
    _S.PROLOG: (Stage.ASSIGNED,),
    _S.SUBMITTED: (Stage.SUBMITTED,),
    _S.RUNNING: (Stage.RUNNING,),
    _S.EPILOG: (Stage.STAGING_OUT,),
    _S.MIGRATING: (Stage.ASSIGNED,),
    _S.SUSPENDED: (Stage.SUBMITTED, Stage.RUNNING),
}
"""Possible stages of a task's attempt, by the state of the task."""

_BEGUN = (Stage.SUBMITTED, Stage.RUNNING, Stage.ENDED, Stage.STAGING_OUT)


def _check_run(state: EngineState, run: RunState) -> None:
    """Check the tasks, counters and bindings of one run; O(tasks + edges)."""
    for task in range(len(run)):
        _check_attempt(state, run, task)
        if run.state[task] not in FINAL:
            missing = _count_missing(run, task)
            counted = f"{missing} predecessors are missing, but {run.missing[task]} are counted"
            require(run.missing[task] == missing, counted, partial(_describe_task, state, run, task))
    _check_counts(state, run)
    _check_bindings(state, run)


def _check_attempt(state: EngineState, run: RunState, task: int) -> None:
    """Check that exactly the active tasks have a live attempt, in a matching stage."""
    place, number = TaskState(run.state[task]), run.attempt_of.get(task)
    attempt = state.find_attempt(number)
    description = partial(_describe_task, state, run, task)
    require(
        (place in ACTIVE) == (number is not None), "exactly the active tasks have an attempt", description
    )
    if number is None:
        if place is _S.WAITING:
            require(run.missing[task] > 0, "a waiting task has missing predecessors", description)
        elif place is _S.READY:
            require(run.missing[task] == 0, "a ready task has no missing predecessors", description)
        return
    require(attempt is not None, "the attempt of a task exists", description)
    assert attempt is not None
    named = (attempt.run, attempt.task) == (run.index, task)
    require(named, "the attempt of a task names the task", description)
    stages = f"an attempt cannot be {Stage(attempt.stage).name} while its task is {place.name}"
    require(attempt.stage in _STAGES[place], stages, description)
    _check_progress(state, run, attempt, place)


def _check_progress(state: EngineState, run: RunState, attempt: Attempt, place: TaskState) -> None:
    """Check that an attempt starts only after its predecessors ended and its data arrived (I1)."""
    description = partial(_describe_task, state, run, attempt.task)
    require(attempt.replaced_by is None, "the attempt of a task is not replaced", description)
    if attempt.stage in _BEGUN:
        # An attempt that started before a predecessor was reopened has the data of the first run.
        before = _count_missing(
            run, attempt.task, besides={other for other, facts in run.facts.items() if facts.reopened}
        )
        require(before == 0, "an attempt started before its predecessors ended", description)
        require(attempt.staging == 0, "an attempt started before its data arrived", description)
        alone = attempt.replaces not in state.attempts
        require(alone, "an attempt started before the one it replaces ended", description)
    if place is _S.SCHEDULED:
        require(attempt.staging == 0, "a task with open data requests is in PROLOG", description)
    if place is _S.PROLOG:
        staging = attempt.staging > 0 or attempt.cancelled != ""
        require(staging, "a task in PROLOG has open data requests", description)
    if place is _S.SUSPENDED:
        require(attempt.suspended_since_s is not None, "a suspended task has a suspension time", description)


def _count_missing(run: RunState, task: int, besides: Container[int] = ()) -> int:
    """Count the predecessors, except ``besides``, that are unfinished or in a loop that has not ended."""
    missing = 0
    for predecessor in run.compiled.before(task):
        if predecessor in besides:
            continue
        held = run.loops.held_back_by(predecessor, task)
        left = held is None or run.loops.bodies[held].left
        if not left or run.state[predecessor] not in (_S.COMPLETED, _S.SKIPPED):
            missing += 1
    return missing


def _check_counts(state: EngineState, run: RunState) -> None:
    where = f"run {run.index} at {state.now} s"
    unfinished = sum(1 for place in run.state if place not in FINAL)
    counts = f"{unfinished} tasks have not ended, {run.unfinished} are counted"
    require(run.unfinished == unfinished, counts, where)
    failed = sum(1 for place in run.state if place == _S.FAILED)
    require(run.failed == failed, f"{failed} tasks have failed, {run.failed} are counted", where)
    counted = UnfinishedTasks(
        run.compiled, (task for task, place in enumerate(run.state) if place not in FINAL)
    )
    done_s = run.progress(state.attempts).done_s(state.now)
    slow_s = sum(_done_s(state, run, task) for task in run.attempt_of)
    done = f"running tasks have done {slow_s} mean seconds, but recorded are {done_s}"
    require(abs(done_s - slow_s) <= 1e-6 * (1.0 + slow_s), done, where)
    left_s = f"mean seconds of unfinished tasks are {counted.seconds}, but recorded are {run.left.seconds}"
    require(run.left.seconds == counted.seconds, left_s, where)
    first = counted.first(len(run))
    require(run.left.first(len(run)) == first, f"tasks {first} are unfinished, but others are listed", where)
    kinds_of, places = run.compiled.kind, enumerate(run.state)
    ready = {task for task, place in places if place == _S.READY and kinds_of[task] != VIRTUAL}
    listed = set(run.ready)
    require(listed == ready, f"the ready tasks are {sorted(ready)}, those listed {sorted(listed)}", where)
    heads = set(run.ready.heads())
    require(heads <= ready, f"heads {sorted(heads)} of the ready tasks are not ready", where)
    kinds = {run.kind_of(task) for task in ready}
    require(len(heads) == len(kinds), f"{len(kinds)} kinds of ready tasks have {len(heads)} heads", where)
    require(
        all(run.state[task] == _S.WAITING for task in run.early),
        f"of the tasks {sorted(run.early)} that may be assigned early some are not WAITING",
        where,
    )
    over = run.ending is not None
    require((run.index in state.active) != over, "a run is active until it has ended", where)
    left = unfinished > 0 and run.ending != RunOutcome.STOPPED
    require(
        not over or not (run.attempt_of or left),
        "an ended run has no attempts and no unfinished tasks",
        where,
    )
    require(over == (run.ended_s is not None), "an ended run has an end time", where)


def _done_s(state: EngineState, run: RunState, task: int) -> float:
    """Return the completed part of a task's mean seconds, assuming that the estimate is exact."""
    attempt = state.attempts[run.attempt_of[task]]
    if attempt.started_s is None or run.state[task] in FINAL:
        return 0.0
    share = (state.now - attempt.started_s) / (attempt.seconds or 1.0)
    return min(1.0, max(0.0, share)) * run.compiled.mean_seconds[task]


def _check_bindings(state: EngineState, run: RunState) -> None:
    """Check that attempts of one abstract machine that have not started are on one machine (I3)."""
    for task, number in run.attempt_of.items():
        attempt, variable = state.attempts[number], run.compiled.variable[task]
        begun = attempt.stage != Stage.ASSIGNED or attempt.replaces is not None
        if not run.compiled.shared[variable] or attempt.cancelled or begun:
            # A started attempt stays where it is when the others are bound to another machine.
            continue
        bound = run.binding.get(variable)
        binding = f"abstract machine {run.compiled.graph.variables[variable]!r} is bound to machine {bound}"
        require(bound == attempt.machine, binding, partial(_describe_task, state, run, task))


def check_engine(engine: Engine) -> None:
    """Raise InvariantViolation if the parts of the engine's state contradict each other."""
    state = engine.state
    for run in state.runs:
        _check_run(state, run)
    for number, attempt in state.attempts.items():
        description = partial(_describe_attempt, state, attempt)
        require(attempt.number == number < state.next_attempt, "attempts are numbered in order", description)
        require(attempt.stage != Stage.OVER, "an attempt that is over is removed", description)
        require(attempt.staging >= 0, "no more data arrive than were requested", description)
        _check_place(state, attempt)
        _check_times(state, attempt)
    for index, run in enumerate(state.runs):
        for task, number in run.left_behind.items():
            require(number in state.attempts, f"the attempt left behind by task {task} of run {index} exists")
    if state.runs:
        check_machines(state, state.runs[0].instance)
    for timer, at_s in state.timers.items():
        require(at_s >= state.now, f"timer {timer!r} was due at {at_s} s", f"it is {state.now} s")
    require(not (state.pending or state.pending.due_queues), "no work is pending", f"at {state.now} s")


def _check_place(state: EngineState, attempt: Attempt) -> None:
    """Check that an attempt is its task's current or kept one, was replaced, or is being cleaned up."""
    run, description = state.runs[attempt.run], partial(_describe_attempt, state, attempt)
    leads = run.attempt_of.get(attempt.task) == attempt.number
    behind = run.left_behind.get(attempt.task) == attempt.number
    if attempt.replaced_by is not None:
        successor = state.attempts.get(attempt.replaced_by)
        require(successor is not None, "the replacing attempt exists", description)
        assert successor is not None
        names = successor.replaces == attempt.number
        require(names, "the replacing attempt names the replaced one", description)
        same = successor.task == attempt.task and successor.run == attempt.run
        require(same, "both attempts are of the same task", description)
    else:
        belongs = leads or behind or attempt.stage == Stage.CLEANING
        require(belongs, "an attempt belongs to its task", description)
    if (before := state.find_attempt(attempt.replaces)) is not None:
        names = before.replaced_by == attempt.number
        require(names, "the replaced attempt names the replacing one", description)


def _check_times(state: EngineState, attempt: Attempt) -> None:
    """Check that the times of an attempt ascend (I6)."""
    times = [attempt.assigned_s, attempt.started_s, attempt.ended_s, state.now]
    reached = [at_s for at_s in times if at_s is not None]
    require(reached == sorted(reached), "times go forward", partial(_describe_attempt, state, attempt))


_ROUNDING = 1e-9

_OF_A_RUN = (messages.Assign, messages.Start, messages.Settle, messages.RepeatLoop, messages.EndLoop)

_Task = tuple[int, int]
"""Run and task."""


def audit_journal(entries: Iterable[JournalEntry], workflows: Sequence[CompiledWorkflow]) -> JournalAudit:
    """Check a whole journal and return the audit; raise InvariantViolation at the first violated rule.
    ``workflows`` holds the workflow of each run.

    Runs whose graphs grow are skipped because their task numbers change.
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
    """Collect the state of every task from journal entries and check the rules."""

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
        match event:
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
        if (task := self._task_of.get(event.attempt)) is not None:
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
            # An attempt lost with its machine has no Ended event; the cause replaces it.
            require(command.cause != "", self._say(task, "a running task is settled with a cause"))
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
