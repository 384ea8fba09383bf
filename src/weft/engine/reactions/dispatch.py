"""Dispatch: check the policy's decisions, assign tasks, and start attempts from the machines' queues.

A decision that breaks a rule raises PolicyError with the policy, the task and the machine; the engine imports
no concrete policy.

An attempt with reserved nodes starts when its data and predecessors are complete. Other attempts wait in the
queue of their machine (docs/papers/moldable.md, section 5; docs/papers/unified.md, C11). The queue rule
``fifo`` keeps the order, and ``first-fit`` starts the first attempt that fits. ``easy`` starts an attempt out
of order if that does not delay the first of the queue, ``conservative`` if it delays no attempt before it.
Delays are estimated. Attempts with missing data or predecessors are not considered. Under a plan the attempts
are ordered by planned start, and an attempt may start out of order only if it does not delay the next planned
task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

from weft.engine import messages
from weft.engine.context import DecisionContext
from weft.engine.messages import Settle, Start
from weft.engine.reactions import contracts, replanning
from weft.engine.reactions.branches import skip_task
from weft.engine.reactions.failures import fail_finally
from weft.engine.reactions.migration import admit_awaited, migrate_attempt, prepare_successor, rebind_members
from weft.engine.reactions.staging import request_data
from weft.engine.selection import spared_share
from weft.engine.state.machines import MachineState
from weft.engine.state.run import RunState
from weft.engine.state.state import EngineState, pop_first
from weft.engine.states import FINAL, Attempt, Cause, Stage, TaskState, TimerKind
from weft.engine.view import EngineView
from weft.errors import WeftError
from weft.policies.policy import Decision, Hold, Migrate, Mode, Place, RequestPlan
from weft.workflow.quantity import evaluate_quantity, growth_file
from weft.workflow.task_graph import COMPUTE

# Faster to read than the members of the classes.
_READY, _HELD, _ASSIGNED = TaskState.READY, TaskState.HELD, Stage.ASSIGNED


_OWN_CHOICE = "first free machine by rank and estimated end: its selector failed"


class PolicyError(WeftError):
    """A policy made an invalid decision: a bug in the policy, not in the user's files."""


def dispatch(context: DecisionContext, view: EngineView) -> None:
    """Call the policy and the policies that tasks name as selectors, and execute their decisions in order.

    Then place the tasks whose selectors are programs. Do nothing while placement waits for the first answers
    of machines.
    """
    context.state.pending.start_decision()
    inquiries = context.state.inquiries
    if inquiries.needed and inquiries.is_settling(context.state.now):
        return
    for decision in context.policy.decide(view):
        if type(decision) is Place:
            _place(context, decision)
        else:
            _carry_out(context, decision)
    for name, policy in context.selectors.items():
        with context.use_policy(policy):
            for decision in policy.decide(EngineView(context.state, name)):
                _carry_out(context, decision)
    for name in context.selector_programs:
        _place_selected(context, EngineView(context.state, name))


def _place_selected(context: DecisionContext, view: EngineView) -> None:
    """Place the ready tasks whose selector program has answered; run the program for the other tasks.

    A task is placed on the first free machine in the order of the answer; if no machine is free, the task
    waits. O(ready tasks).
    """
    for seen in view.runs:
        run = context.state.active[seen.index]
        for task in list(seen.ready):
            facts = run.facts_of(task)
            if facts.order is None:
                if not facts.order_wanted:
                    context.emit(describe_selection(context.state, run, task))
            elif (mode := _first_free_mode(view, seen.index, task, facts.order)) is not None:
                reason = _OWN_CHOICE if facts.order_usual else "first free machine of its selector"
                _place(
                    context,
                    Place(run=seen.index, task=task, machine=mode.machine, count=mode.count, reason=reason),
                )
            elif not (facts.order or facts.order_wanted) and TimerKind.ASK not in context.state.timers:
                context.set_timer(TimerKind.ASK, context.state.now + context.settings.poll_every_s)


def _first_free_mode(view: EngineView, index: int, task: int, order: Sequence[int]) -> Mode | None:
    run = view.run(index)
    for machine in order:
        counts = run.counts(task, machine)
        modes = [view.mode(run, task, machine, count, free=True) for count in counts]
        if found := [mode for mode in modes if mode is not None]:
            return min(found, key=lambda mode: mode.finish_s)
    return None


def describe_selection(state: EngineState, run: RunState, task: int) -> messages.SelectMachines:
    """Return the command that runs the selector program of a task; it lists the current candidates."""
    view = EngineView(state)
    candidates = view.candidates(view.run(run.index), task)
    return messages.SelectMachines(run=run.index, task=task, candidates=candidates)


def ask_selectors_again(context: DecisionContext) -> None:
    """Run the selector program again for every ready task for which it accepted no machine."""
    for run in list(context.state.active.values()):
        for task, facts in list(run.facts.items()):
            if facts.order == () and not facts.order_wanted and run.state[task] == _READY:
                context.emit(describe_selection(context.state, run, task))


def _carry_out(context: DecisionContext, decision: Decision) -> None:
    match decision:
        case Place():
            _place(context, decision)
        case Migrate():
            reason = decision.reason or context.policy.name
            migrate_attempt(
                context, _check_migration(context, decision), decision.machine, decision.count, reason
            )
        case Hold():
            run = _find_run(context, decision.run)
            context.settle(run, decision.task, TaskState.HELD, reason=decision.reason)
        case RequestPlan():
            run = _find_run(context, decision.run)
            if not run.plan_wanted:
                context.emit(messages.Replan(run=run.index, version=run.version, reason=decision.reason))


def _check_migration(context: DecisionContext, decision: Migrate) -> Attempt:
    """Return the attempt of a migration decision; raise PolicyError if the decision is invalid."""
    state = context.state
    attempt = state.attempts.get(decision.attempt)
    where = f"policy {context.policy.name!r} migrates attempt {decision.attempt}"
    if attempt is None or not attempt.live:
        raise PolicyError(f"{where}, which has ended")
    run = state.runs[attempt.run]
    where += f" of task {run.name(attempt.task)!r}"
    if attempt.cancelled or attempt.replaced_by is not None:
        raise PolicyError(f"{where}, which is already migrating")
    if not 0 <= decision.machine < len(state.machines):
        raise PolicyError(f"{where} to machine {decision.machine}: there is no such machine")
    where += f" to machine {state.machines[decision.machine].name!r}"
    if why := state.obstacle(decision.machine):
        raise PolicyError(f"{where}: {why}")
    if (decision.machine, decision.count) not in run.compiled.options(attempt.task).nodes:
        raise PolicyError(f"{where} with {decision.count} nodes: the task has no such mode")
    return attempt


def _find_run(context: DecisionContext, index: int) -> RunState:
    if index not in context.state.active:
        raise PolicyError(f"policy {context.policy.name!r} decides about run {index}, which is not active")
    return context.state.active[index]


def _place(context: DecisionContext, place: Place) -> None:
    run = _find_run(context, place.run)
    state, compiled, task = context.state, run.compiled, place.task
    nodes = _check_placement(context, run, place)
    if task in compiled.growing:
        _end_placeholder(context, run, task)
        return
    attempt = state.next_attempt
    left = run.left_behind.get(task) if run.left_behind else None
    restart_from = spared_share(run, task, place.count) if run.facts else 0.0
    context.emit(
        messages.Assign(
            attempt=attempt,
            run=run.index,
            task=task,
            machine=place.machine,
            nodes=nodes,
            count=place.count,
            reserve=not place.queue,
            order=place.order,
            replaces=left,
            restart_from=restart_from,
            reason=place.reason if left is None else state.attempts[left].left_for or place.reason,
        )
    )
    if compiled.shared[compiled.variable[task]]:
        # After a failure the abstract machine may move; its tasks that have not started move with it.
        rebind_members(context, run, task, place.machine)
    if left is not None:
        prepare_successor(context, state.attempts[left])
    elif compiled.moves_data or compiled.kind[task] != COMPUTE or compiled.stages or restart_from:
        request_data(context, state.attempts[attempt], first=True)


def _end_placeholder(context: DecisionContext, run: RunState, task: int) -> None:
    """Skip or fail a task that stands for the subtasks of a sweep, since the values will never be known.

    All its predecessors have ended. If one of them wrote the file of the sweep, the subtasks have replaced
    this task when its end was reported.
    """
    skipped = [before for before in run.compiled.before(task) if run.state[before] == TaskState.SKIPPED]
    sweep = run.compiled.description(task).sweep
    assert sweep is not None
    files = dict.fromkeys(file for _, values in sweep.variables if (file := growth_file(values)))
    unknown = f"the values of its sweep are the lines of {' and '.join(files)}"
    if skipped:
        skip_task(context, run, task, f"{unknown}, and {run.name(skipped[0])} was skipped")
    else:
        fail_finally(context, run, task, Cause.ERROR, f"{unknown}, which no task has written")


def _check_placement(context: DecisionContext, run: RunState, place: Place) -> int:
    """Return the number of nodes that a placement allocates; raise PolicyError if it is invalid."""
    state, compiled, task = context.state, run.compiled, place.task
    machines = state.machines
    if not 0 <= task < len(run.state):
        raise PolicyError(
            f"policy {context.policy.name!r} places task {task}, which run {run.index} does not have"
        )
    if not 0 <= place.machine < len(machines.all):
        raise _placement_error(context, run, place, "there is no such machine")
    machine = machines.all[place.machine]
    if run.state[task] != _READY and task not in run.early:
        raise _placement_error(
            context, run, place, f"the task is {TaskState(run.state[task]).name.lower()}, not ready"
        )
    if not machine.usable and (why := state.obstacle(place.machine)):
        raise _placement_error(context, run, place, why)
    bound = run.binding.get(compiled.variable[task]) if run.binding else None
    if bound is not None and bound != place.machine:
        name = machines.all[bound].name
        raise _placement_error(context, run, place, f"its abstract machine is bound to {name!r}")
    if compiled.kind[task] != COMPUTE:
        return 0
    options = compiled.options(task)
    if (nodes := options.nodes.get((place.machine, place.count))) is None:
        allowed = options.counts.get(place.machine)
        why = f"the machine allows {allowed}" if allowed else "the task cannot run there"
        raise _placement_error(context, run, place, f"the decision has node count {place.count}; {why}")
    demand = run.demand(task, place.machine, place.count) if compiled.demands else ()
    if not place.queue and not machines.fits(place.machine, nodes, demand):
        free = f"{machine.free_nodes} of {machine.nodes} nodes are free, the task needs {nodes}"
        why = f"the machine is busy ({free}); a policy that lets tasks wait sets queue=True"
        raise _placement_error(context, run, place, why)
    return nodes


def _placement_error(context: DecisionContext, run: RunState, place: Place, why: str) -> PolicyError:
    """Return an error that names the policy, the task, the machine and the reason."""
    machines = context.state.machines
    exists = 0 <= place.machine < len(machines)
    machine = repr(machines[place.machine].name) if exists else str(place.machine)
    task = run.name(place.task)
    return PolicyError(f"policy {context.policy.name!r} places task {task!r} on machine {machine}: {why}")


_ROUNDING = 1e-9
"""Relative difference below which two times count as equal, because of rounding errors."""


def _select_next(
    context: DecisionContext, machine: MachineState, prepared: Callable[[Attempt], bool]
) -> int | None:
    """Return the number of the queued attempt that a machine starts next; None: no attempt can start now."""
    attempts = context.state.attempts
    if not machine.has_free_nodes(1):
        return None
    startable = (attempts[number] for _, number in machine.queue if prepared(attempts[number]))
    if (first := next(startable, None)) is None:
        return None
    if machine.unlimited:
        return first.number
    if machine.time_shared:  # only resources can be missing
        return _first_fit(context, machine, chain((first,), startable))
    rule = _plan_order if context.state.planned else _RULES[machine.queue_rule]
    return rule(context, machine, chain((first,), startable))


def _fits(context: DecisionContext, machine: MachineState, attempt: Attempt) -> bool:
    return context.state.machines.fits(machine.index, attempt.nodes, attempt.demand)


def _fifo(context: DecisionContext, machine: MachineState, startable: Iterator[Attempt]) -> int | None:
    first = next(startable)
    return first.number if _fits(context, machine, first) else None


def _first_fit(context: DecisionContext, machine: MachineState, startable: Iterator[Attempt]) -> int | None:
    return next((attempt.number for attempt in startable if _fits(context, machine, attempt)), None)


def _backfill(
    context: DecisionContext, machine: MachineState, startable: Iterator[Attempt], *, all_before: bool
) -> int | None:
    """Return the number of the first attempt that can start now without delaying the first of the queue.

    If ``all_before`` is true, the attempt must not delay any attempt before it in the queue. Return None if
    there is no such attempt.
    """
    now = context.state.now
    profile = _NodeProfile(machine, now)
    for position, attempt in enumerate(startable):
        seconds = attempt.seconds / machine.speed_factor
        start = profile.earliest(attempt.nodes, seconds)
        if start <= now and _fits(context, machine, attempt):
            return attempt.number
        if position == 0 or all_before:
            profile.reserve(start, seconds, attempt.nodes)
    return None


_RULES: dict[str, Callable[[DecisionContext, MachineState, Iterator[Attempt]], int | None]] = {
    "fifo": _fifo,
    "first-fit": _first_fit,
    "easy": partial(_backfill, all_before=False),
    "conservative": partial(_backfill, all_before=True),
}


class _NodeProfile:
    """The expected number of free nodes of a machine over time, stored as a list of (time, change)."""

    def __init__(self, machine: MachineState, now: float) -> None:
        self.now = now
        self.free = machine.free_nodes
        self.changes: list[tuple[float, int]] = sorted(
            (max(holder.expected_end_s, now), holder.nodes) for holder in machine.holders.values()
        )

    def earliest(self, nodes: int, seconds: float) -> float:
        """Return the first time from which this many nodes are free for ``seconds``."""
        starts = [self.now, *(at for at, _ in self.changes if at > self.now)]
        return next(start for start in starts if self._least(start, start + seconds) >= nodes)

    def _least(self, start: float, end: float) -> int:
        """Return the smallest number of free nodes between two times."""
        free = self.free + sum(change for at, change in self.changes if at <= start)
        least = free
        for at, change in self.changes:
            if start < at < end - _ROUNDING * abs(end):
                free += change
                least = min(least, free)
        return least

    def reserve(self, start: float, seconds: float, nodes: int) -> None:
        """Reserve nodes for ``seconds`` from time ``start`` on."""
        steps = [*self.changes, (start, -nodes), (start + seconds, nodes)]
        # At equal times releases come first, or the profile would dip below zero.
        self.changes = sorted(steps, key=lambda step: (step[0], -step[1]))


def _plan_order(context: DecisionContext, machine: MachineState, startable: Iterator[Attempt]) -> int | None:
    """Return the number of the queued attempt to start now, by planned starts; None: no attempt can start.

    While the next planned task cannot start, another attempt may start if it is expected to end before the
    planned start of that task, or if that start has passed (never with ``strict_plan``). A timer causes the
    queue to be examined again at the planned start.
    """
    strict = context.settings.strict_plan
    for position, attempt in enumerate(startable):
        run = context.state.runs[attempt.run]
        first = _find_turn(context, run, machine.index)
        before = first is not None and first != attempt.task and not _is_planned_before(run, first, attempt)
        if before and first is not None and (strict or _delays_turn(context, run, machine, attempt, first)):
            continue
        if _fits(context, machine, attempt):
            return attempt.number
        if strict or position == 0:
            return None
    return None


def _delays_turn(
    context: DecisionContext, run: RunState, machine: MachineState, attempt: Attempt, first: int
) -> bool:
    """Return whether an attempt would start before its planned time and delay the next planned task."""
    assert run.plan is not None
    now, mine = context.state.now, run.plan.planned_tasks.get(attempt.task)
    due_s = _passed_s(run.plan.planned_tasks[first].start_s)
    if now >= due_s or (mine is not None and mine.start_s <= _passed_s(now)):
        return False
    if now + attempt.seconds / machine.speed_factor <= due_s:
        return False
    timer = TimerKind.TURN.name_of(machine.index)
    if context.state.timers.get(timer) != due_s:
        context.set_timer(timer, due_s)
    return True


def _passed_s(at_s: float) -> float:
    """Return a time slightly after a planned time, to allow for rounding errors."""
    return at_s + _ROUNDING * max(1.0, at_s)


def _find_turn(context: DecisionContext, run: RunState, machine: int) -> int | None:
    """Return the first planned task of a run on a machine that has not started; None: no such task."""
    if run.plan is None:
        return None

    def ended(task: int) -> bool:
        return run.state[task] in FINAL

    def started(task: int) -> bool:
        if run.state[task] in (TaskState.RUNNING, TaskState.SUBMITTED, TaskState.EPILOG):
            return True
        number = run.attempt_of.get(task)
        # A task that is assigned to another machine is skipped, as if it had started.
        attempt = context.state.attempts.get(number) if number is not None else None
        return attempt is not None and (attempt.machine != machine or attempt.stage > Stage.ASSIGNED)

    return run.plan.first(machine, ended, started)


def _is_planned_before(run: RunState, first: int, attempt: Attempt) -> bool:
    """Return whether an attempt comes before task ``first`` in the plan.

    An attempt that the plan omits comes first: it was assigned before the plan was made, and the plan assumes
    that it starts first.
    """
    assert run.plan is not None
    mine = run.plan.planned_tasks.get(attempt.task)
    return mine is None or (mine.start_s, attempt.task) < (run.plan.planned_tasks[first].start_s, first)


def start_prepared_attempts(context: DecisionContext) -> None:
    """Start the attempts that can start now, among the attempts and queues in ``EngineState.pending``."""
    state = context.state
    pending = state.pending
    while pending.attempts:
        attempt = state.attempts.get(pop_first(pending.attempts))
        if attempt is not None and _can_start(context, attempt):
            _start_attempt(context, attempt)
    while pending.queues:
        _serve_queue(context, pop_first(pending.queues))


def _can_start(context: DecisionContext, attempt: Attempt) -> bool:
    """Return whether an attempt has everything it needs to start, except perhaps free nodes."""
    if attempt.stage != _ASSIGNED or attempt.staging or attempt.cancelled or attempt.replaced_by is not None:
        return False
    state = context.state
    run = state.runs[attempt.run]
    if run.missing[attempt.task] or run.state[attempt.task] == _HELD:
        return False
    # The successor of a migration starts only after the old attempt is cleaned up.
    return attempt.replaces is None or attempt.replaces not in state.attempts


def _defer_service(context: DecisionContext, machine: MachineState) -> bool:
    """Return whether to postpone starts from a queue until all events of this time are handled.

    If so, also set the timer after which the queue is served. Queue rules compare all attempts that are ready
    at one time (docs/papers/moldable.md, section 5), but events arrive one by one. On a machine with one node
    the order makes no difference, so starts are not postponed. A migration is not postponed either, because a
    placement could take its nodes.
    """
    state, timer = context.state, TimerKind.SERVE.name_of(machine.index)
    if state.pending.pop_due_queue(machine.index) or state.planned or machine.nodes == 1:
        return False
    waiting = (state.attempts[number] for _, number in machine.queue)
    if not any(attempt.replaces is None and _can_start(context, attempt) for attempt in waiting):
        return False
    if timer not in state.timers:
        context.set_timer(timer, state.now)
    return True


def _serve_queue(context: DecisionContext, index: int) -> None:
    """Migrate the attempts that wait for a machine; if none is left, start attempts from its queue."""
    machine = context.state.machines[index]
    if not machine.up:
        return
    for run in admit_awaited(context, machine) if machine.awaited_by else ():
        replanning.replan_on_migration(context, run)
    if machine.awaited_by:
        return
    if not machine.queue or _defer_service(context, machine):
        return
    while machine.queue:
        number = _select_next(context, machine, lambda attempt: _can_start(context, attempt))
        if number is None:
            return
        _start_attempt(context, context.state.attempts[number])


def _start_attempt(context: DecisionContext, attempt: Attempt) -> None:
    run = context.state.runs[attempt.run]
    compiled, task = run.compiled, attempt.task
    if compiled.kind[task] != COMPUTE:
        # A transfer is complete when its data have arrived.
        context.emit(Settle(run=run.index, task=task, state=TaskState.COMPLETED))
        return
    limit = _find_time_limit(run, task) if compiled.limited else None
    memory = None
    if attempt.demand:
        memory = next((amount for name, amount in attempt.demand if name == "memory"), None)
    context.emit(
        Start(
            attempt=attempt.number,
            run=run.index,
            task=task,
            machine=attempt.machine,
            nodes=attempt.nodes,
            count=attempt.count,
            iteration=attempt.iteration,
            counters=attempt.counters if len(attempt.counters) > 1 else (),
            tries=run.next_try(task) if run.facts else 1,
            restart_from=spared_share(run, task, attempt.count) if run.facts else 0.0,
            time_limit_s=limit,
            memory_bytes=memory,
        )
    )
    if run.settings_of(task).is_monitored:
        if context.settings.begins_at_once:
            contracts.start_monitoring(context, attempt)
            replanning.schedule_replan(context, run)
        contracts.limit_waiting(context, attempt)


def _find_time_limit(run: RunState, task: int) -> float | None:
    """Return the time limit of a task in seconds, which grows after each timeout; None: no limit."""
    limit = run.compiled.description(task).recovery.time_limit
    if limit is None:
        return None
    growth = run.facts_of(task).growth.get(Cause.TIMEOUT, 1.0)
    return evaluate_quantity(limit, run.compiled.graph.context(task)) * growth
