"""Invariants of the engine: ``check_engine`` checks a state.

The check costs O(tasks + edges + machines + attempts) and shares no code with the reactions. It requires that
states, attempts and counters agree (I1, I3), that no machine allocates more than it has (I2), and that the
times of an attempt ascend (I6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable
from functools import partial

from weft.engine.engine import Engine
from weft.engine.state.indexes import to_units
from weft.engine.state.machines import MachineState
from weft.engine.state.run import PromisedWork, RunState, UnfinishedTasks
from weft.engine.state.state import EngineState
from weft.engine.states import ACTIVE, FINAL, Attempt, RunOutcome, Stage, TaskState
from weft.errors import WeftError
from weft.instance.instance import Instance
from weft.workflow.task_graph import COMPUTE, VIRTUAL


class InvariantViolation(WeftError):
    """An invariant of the engine does not hold; this is a bug of weft."""


_Description = str | Callable[[], str]


def require(holds: bool, rule: str, *descriptions: _Description) -> None:
    """Raise InvariantViolation with the rule and the descriptions if ``holds`` is false."""
    if not holds:
        texts = (each if isinstance(each, str) else each() for each in descriptions)
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
        if attempt.awaited_machine is not None:
            listed_there = attempt.number in state.machines[attempt.awaited_machine].awaited_by
            require(listed_there and attempt.live, "a running attempt may wait for a machine", description)
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
        for number in machine.awaited_by:
            waiting_for = state.find_attempt(number)
            rule = f"attempt {number} waits for it"
            require(waiting_for is not None and waiting_for.awaited_machine == machine.index, rule, where)
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
    """Return, by machine, the work units of the tasks that are bound to this machine but not assigned yet."""
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
    free = f"{machine.free_nodes} nodes are free"
    require(not machine.counts_nodes or machine.free_nodes >= 0, free, where)
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
    _S.EPILOG: (Stage.STAGING_OUT, Stage.ENDED),  # ENDED: copying is tried again after a pause
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
    """Check that an attempt starts only after its predecessors have ended and its data have arrived (I1)."""
    description = partial(_describe_task, state, run, attempt.task)
    require(attempt.replaced_by is None, "the attempt of a task is not replaced", description)
    if attempt.stage in _BEGUN:
        # An attempt that started before a predecessor was reopened uses the earlier outputs of that task.
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
    """Count the predecessors that are neither completed nor skipped, or whose loop has not ended.

    The tasks in ``besides`` are not counted.
    """
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
    """Return the part of a task's mean seconds that is done if the task runs exactly as estimated.

    All of it is done if the program of the attempt has ended.
    """
    attempt = state.attempts[run.attempt_of[task]]
    if attempt.started_s is None or run.state[task] in FINAL:
        return 0.0
    ended = attempt.ended_s is not None
    share = 1.0 if ended else (state.now - attempt.started_s) / (attempt.seconds or 1.0)
    return min(1.0, max(0.0, share)) * run.compiled.mean_seconds[task]


def _check_bindings(state: EngineState, run: RunState) -> None:
    """Check that attempts that have not started are on the machine bound to their abstract machine (I3)."""
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
    """Check that an attempt was replaced, is being cleaned up, or is one that its task refers to.

    A task refers to its current attempt and to an earlier attempt whose files are kept (``left_behind``).
    """
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
