"""Dispatching: the policy is asked, and what it decides is checked and becomes commands.

The engine knows no concrete policy and trusts none: a decision that breaks a rule stops everything with an
error that names the policy, the task and the machine.

A machine's queue: who of those that wait there may start now (S2 section 5).

``fifo`` never lets anybody overtake; ``first-fit`` lets the first go that fits; ``easy`` lets others overtake
the head if that does not delay it; ``conservative`` if it delays nobody before them. Estimates decide what
delays whom. Attempts whose data or predecessors are missing are not in the race, except under a plan, where
their turn is respected.

Starting: which attempts that have their data and predecessors get the nodes of their machine now.

An attempt that keeps its nodes starts as soon as it can. The others wait in the machine's queue, which lets
them go by its rule: strictly in order, the first that fits, or with backfilling (S2 section 5; unified C11).
Under a plan the order is that of the planned starts, and a task may go before its turn only if it does not
hold up whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from weft.engine import messages as cm
from weft.engine.context import DecisionContext
from weft.engine.messages import SetTimer, Settle, Start
from weft.engine.reactions import contracts, replanning
from weft.engine.reactions.migration import migrate_attempt, prepare_successor, rebind_members
from weft.engine.reactions.staging import request_data
from weft.engine.selection import spared_share
from weft.engine.state.machines import MachineState
from weft.engine.state.run import RunState
from weft.engine.states import FINAL, Attempt, Stage, TaskState
from weft.engine.view import EngineView
from weft.errors import WeftError
from weft.policies.policy import Decision, Hold, Migrate, Place, RequestPlan
from weft.workflow.quantity import evaluate_quantity
from weft.workflow.task_graph import COMPUTE

__all__ = ["SERVE", "TURN", "PolicyError", "can_start", "dispatch", "select_next", "start_prepared_attempts"]


class PolicyError(WeftError):
    """A policy decided something that cannot be: a mistake in the policy, not in the user's files."""


def dispatch(context: DecisionContext, view: EngineView) -> None:
    """Ask the policy, and carry out what it decides, one decision after the other."""
    context.state.dirty = False
    asked = context.state.inquiries
    if asked.needed and asked.is_settling(context.state.now):
        return
    for decision in context.policy.decide(view):
        if type(decision) is Place:
            _place(context, decision)
        else:
            _carry_out(context, decision)
    for name, policy in context.selectors.items():
        with context.led_by(policy):
            for decision in policy.decide(EngineView(context.state, name)):
                _carry_out(context, decision)


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
            context.emit(cm.Settle(run=run.index, task=decision.task, state="HELD", reason=decision.reason))
        case RequestPlan():
            run = _find_run(context, decision.run)
            if not run.plan_wanted:
                context.emit(cm.Replan(run=run.index, version=run.version, reason=decision.reason))


def _check_migration(context: DecisionContext, decision: Migrate) -> Attempt:
    """Check a migration; give the attempt."""
    state = context.state
    attempt = state.attempts.get(decision.attempt)
    where = f"policy {context.policy.name!r} migrates attempt {decision.attempt}"
    if attempt is None or not attempt.live:
        raise PolicyError(f"{where}, which is over")
    run = state.runs[attempt.run]
    where += f" of task {run.name(attempt.task)!r}"
    if attempt.cancelled or attempt.replaced_by is not None:
        raise PolicyError(f"{where}, which is on its way out already")
    if not 0 <= decision.machine < len(state.machines):
        raise PolicyError(f"{where} to machine {decision.machine}: there is no such machine")
    where += f" to machine {state.machines[decision.machine].name!r}"
    if why := state.obstacle(decision.machine):
        raise PolicyError(f"{where}: {why}")
    if (decision.machine, decision.count) not in run.compiled.options(attempt.task).nodes:
        raise PolicyError(f"{where} with {decision.count} nodes: it cannot run there so")
    return attempt


def _find_run(context: DecisionContext, index: int) -> RunState:
    if index not in context.state.active:
        raise PolicyError(f"policy {context.policy.name!r} decides about run {index}, which is not active")
    return context.state.active[index]


def _place(context: DecisionContext, place: Place) -> None:
    run = _find_run(context, place.run)
    nodes = _check_placement(context, run, place)
    attempt = context.state.next_attempt
    left = run.left_behind.get(place.task) if run.left_behind else None
    context.emit(
        cm.Assign(
            attempt=attempt,
            run=run.index,
            task=place.task,
            machine=place.machine,
            nodes=nodes,
            count=place.count,
            reserve=not place.queue,
            order=place.order,
            replaces=left,
            restart_from=spared_share(context.state, run, place.task, place.count) if run.checkpoint else 0.0,
            reason=place.reason if left is None else context.state.attempts[left].left_for or place.reason,
        )
    )
    known = run.compiled
    begun = context.state.attempts[attempt]
    if known.shared[known.variable[place.task]]:
        # After a failure an abstract machine may be bound anew: who has not started comes along.
        rebind_members(context, run, place.task, place.machine)
    if left is not None:
        prepare_successor(context, context.state.attempts[left])
        return
    if known.moves_data or known.kind[place.task] != COMPUTE or known.stages or begun.restart_from:
        request_data(context, begun, first=True)


def _check_placement(context: DecisionContext, run: RunState, place: Place) -> int:
    """Check a placement; give the nodes it takes."""
    state, known, task = context.state, run.compiled, place.task
    if not 0 <= task < len(run.state):
        raise PolicyError(
            f"policy {context.policy.name!r} places task {task}: run {run.index} has no such task"
        )
    if not 0 <= place.machine < len(state.machines.all):
        raise _placement_error(context, run, place, "there is no such machine")
    if run.state[task] != TaskState.READY and task not in run.early:
        raise _placement_error(
            context, run, place, f"the task is {TaskState(run.state[task]).name.lower()}, not ready"
        )
    if why := state.obstacle(place.machine):
        raise _placement_error(context, run, place, why)
    bound = run.binding.get(known.variable[task]) if run.binding else None
    if bound is not None and bound != place.machine:
        name = state.machines[bound].name
        raise _placement_error(context, run, place, f"its abstract machine is bound to {name!r}")
    if known.kind[task] != COMPUTE:
        return 0
    options = known.options(task)
    nodes = options.nodes.get((place.machine, place.count))
    if nodes is None:
        allowed = options.counts.get(place.machine)
        why = f"only {allowed} nodes are possible there" if allowed else "it cannot run there"
        raise _placement_error(context, run, place, f"it asks for {place.count} nodes; {why}")
    demand = run.demand(task, place.machine, place.count)
    if not place.queue and not state.machines.fits(place.machine, nodes, demand):
        machine = state.machines[place.machine]
        free = f"{machine.free_nodes} of {machine.nodes} nodes are free, it needs {nodes}"
        why = f"the machine is busy ({free}); a policy that lets tasks wait says queue=True"
        raise _placement_error(context, run, place, why)
    return nodes


def _placement_error(context: DecisionContext, run: RunState, place: Place, why: str) -> PolicyError:
    """Say what is wrong with a placement, naming the policy, the task and the machine."""
    machines = context.state.machines
    known = 0 <= place.machine < len(machines)
    machine = repr(machines[place.machine].name) if known else str(place.machine)
    task = run.name(place.task)
    return PolicyError(f"policy {context.policy.name!r} places task {task!r} on machine {machine}: {why}")


TURN = "turn"
"""Prefix of the timers that let a machine's queue go on when a planned start has passed, one per machine."""

_ROUNDING = 1e-9
"""Times that differ by less than this share are the same: sums of the same numbers in another order."""


def select_next(
    context: DecisionContext, machine: MachineState, prepared: Callable[[Attempt], bool]
) -> int | None:
    """Give the attempt of a machine's queue that may start now; None: nobody may."""
    attempts = context.state.attempts
    if not machine.has_room(1):
        return None
    racing = (attempts[number] for _, number in machine.queue if prepared(attempts[number]))
    first = next(racing, None)
    if first is None:
        return None
    if machine.unlimited:
        return first.number
    rule = _plan_order if context.state.planned else _RULES[machine.queue_rule]
    return rule(context, machine, chain((first,), racing))


def _fits(context: DecisionContext, machine: MachineState, attempt: Attempt) -> bool:
    return context.state.machines.fits(machine.index, attempt.nodes, attempt.demand)


def _fifo(context: DecisionContext, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    first = next(racing)
    return first.number if _fits(context, machine, first) else None


def _first_fit(context: DecisionContext, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    return next((attempt.number for attempt in racing if _fits(context, machine, attempt)), None)


def _backfill(
    context: DecisionContext, machine: MachineState, racing: Iterator[Attempt], *, everybody: bool
) -> int | None:
    """Start the head, or whoever fits without delaying the head (or everybody before)."""
    now = context.state.now
    profile = _NodeProfile(machine, now)
    for position, attempt in enumerate(racing):
        seconds = attempt.seconds / machine.speed_factor
        start = profile.earliest(attempt.nodes, seconds)
        if start <= now and _fits(context, machine, attempt):
            return attempt.number
        if position == 0 or everybody:
            profile.reserve(start, seconds, attempt.nodes)
    return None


def _easy(context: DecisionContext, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    return _backfill(context, machine, racing, everybody=False)


def _conservative(context: DecisionContext, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    return _backfill(context, machine, racing, everybody=True)


_RULES: dict[str, Callable[[DecisionContext, MachineState, Iterator[Attempt]], int | None]] = {
    "fifo": _fifo,
    "first-fit": _first_fit,
    "easy": _easy,
    "conservative": _conservative,
}


class _NodeProfile:
    """Nodes taken over time, as expected: steps at which the number of free nodes changes."""

    def __init__(self, machine: MachineState, now: float) -> None:
        self.now = now
        self.free = machine.free_nodes
        self.changes: list[tuple[float, int]] = sorted(
            (max(holder.expected_end_s, now), holder.nodes) for holder in machine.holders.values()
        )

    def earliest(self, nodes: int, seconds: float) -> float:
        """Give the first time from which so many nodes are free for so long."""
        starts = [self.now, *(at for at, _ in self.changes if at > self.now)]
        return next(start for start in starts if self._least(start, start + seconds) >= nodes)

    def _least(self, start: float, end: float) -> int:
        """Give the smallest number of free nodes between two times."""
        free = self.free + sum(change for at, change in self.changes if at <= start)
        least = free
        for at, change in self.changes:
            if start < at < end - _ROUNDING * abs(end):
                free += change
                least = min(least, free)
        return least

    def reserve(self, start: float, seconds: float, nodes: int) -> None:
        """Keep nodes for somebody."""
        steps = [*self.changes, (start, -nodes), (start + seconds, nodes)]
        # At one time who ends comes before who begins: in between nobody is short of nodes.
        self.changes = sorted(steps, key=lambda step: (step[0], -step[1]))


def _plan_order(context: DecisionContext, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    """Start in the order of the planned starts; before its turn only what holds nobody up.

    A task that is late does not keep the machine idle: while whose turn it is cannot start, the next may, if
    it is expected to end before the planned start of that task, or if that start has passed (never with
    ``strict_plan``). A timer sees to it that somebody looks again when it has.
    """
    strict = context.settings.strict_plan
    for position, attempt in enumerate(racing):
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
    """Say whether an attempt would start before its time and be in the way of whose turn it is."""
    assert run.plan is not None
    now, mine = context.state.now, run.plan.line.get(attempt.task)
    due_s = _passed_s(run.plan.line[first].start_s)
    if now >= due_s or (mine is not None and mine.start_s <= _passed_s(now)):
        return False
    if now + attempt.seconds / machine.speed_factor <= due_s:
        return False
    timer = f"{TURN}:{machine.index}"
    if context.state.timers.get(timer) != due_s:
        context.emit(SetTimer(timer=timer, at_s=due_s))
    return True


def _passed_s(at_s: float) -> float:
    """Give when a planned time has passed: a little later, for what happens at that time comes one by one."""
    return at_s + _ROUNDING * max(1.0, at_s)


def _find_turn(context: DecisionContext, run: RunState, machine: int) -> int | None:
    """Give the task of a run whose turn it is on a machine: the first planned there that has not started."""
    if run.plan is None:
        return None

    def ended(task: int) -> bool:
        return run.state[task] in FINAL

    def started(task: int) -> bool:
        if run.state[task] in (TaskState.RUNNING, TaskState.SUBMITTED, TaskState.EPILOG):
            return True
        number = run.attempt_of.get(task)
        # A task that went elsewhere has no turn here any more.
        attempt = context.state.attempts.get(number) if number is not None else None
        return attempt is not None and (attempt.machine != machine or attempt.stage > Stage.ASSIGNED)

    return run.plan.first(machine, ended, started)


def _is_planned_before(run: RunState, first: int, attempt: Attempt) -> bool:
    """Say whether the attempt was planned before the task whose turn it seems to be.

    One that the plan leaves out was sent here before it was made, and the plan counts on it going first.
    """
    assert run.plan is not None
    mine = run.plan.line.get(attempt.task)
    return mine is None or (mine.start_s, attempt.task) < (run.plan.line[first].start_s, first)


SERVE = "serve"
"""Prefix of the timers at which queues are served, one per machine."""


def start_prepared_attempts(context: DecisionContext) -> None:
    """Start everything that can start after the last changes."""
    state = context.state
    while state.arrived:
        number = next(iter(state.arrived))
        del state.arrived[number]
        attempt = state.attempts.get(number)
        if attempt is not None and can_start(context, attempt):
            _start_attempt(context, attempt)
    while state.touched:
        machine = next(iter(state.touched))
        del state.touched[machine]
        _serve_queue(context, machine)


def can_start(context: DecisionContext, attempt: Attempt) -> bool:
    """Say whether nothing but nodes is missing."""
    if (
        attempt.stage != Stage.ASSIGNED
        or attempt.staging
        or attempt.cancelled
        or attempt.replaced_by is not None
    ):
        return False
    run = context.state.runs[attempt.run]
    if run.missing[attempt.task] or run.state[attempt.task] == TaskState.HELD:
        return False
    # A migration goes on only when the attempt before it is out of the way, and cleaned up after.
    return attempt.replaces is None or attempt.replaces not in context.state.attempts


def _defer_service(context: DecisionContext, machine: MachineState) -> bool:
    """Put off serving a queue until everything that happens at this time is known.

    The rules of queues speak of all that is ready at a time (S2 section 5), but events come one by one. On
    one node they are all alike. What migrates does not wait: it would find its nodes taken by what is placed.
    """
    state, timer = context.state, f"{SERVE}:{machine.index}"
    if state.planned or machine.nodes == 1 or machine.index in state.to_serve:
        state.to_serve.pop(machine.index, None)
        return False
    waiting = (state.attempts[number] for _, number in machine.queue)
    if not any(attempt.replaces is None and can_start(context, attempt) for attempt in waiting):
        return False
    if timer not in state.timers:
        context.emit(SetTimer(timer=timer, at_s=state.now))
    return True


def _serve_queue(context: DecisionContext, index: int) -> None:
    """Let a machine's queue go on."""
    machine = context.state.machines[index]
    if not machine.queue or not machine.up or _defer_service(context, machine):
        return
    while machine.queue:
        number = select_next(context, machine, lambda attempt: can_start(context, attempt))
        if number is None:
            return
        _start_attempt(context, context.state.attempts[number])


def _start_attempt(context: DecisionContext, attempt: Attempt) -> None:
    run = context.state.runs[attempt.run]
    known, task = run.compiled, attempt.task
    if known.kind[task] != COMPUTE:
        # A transfer is done when its file is there.
        context.emit(Settle(run=run.index, task=task, state="COMPLETED"))
        return
    limit = _find_time_limit(run, task) if known.limited else None
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
            tries=run.tried(task),
            restart_from=spared_share(context.state, run, task, attempt.count) if run.checkpoint else 0.0,
            time_limit_s=limit,
            memory_bytes=memory,
        )
    )
    if known.owes or context.watchful:
        if context.settings.begins_at_once:
            contracts.start_monitoring(context, attempt)
            replanning.schedule_replan(context, run)
        contracts.limit_waiting(context, attempt)


def _find_time_limit(run: RunState, task: int) -> float | None:
    """Give the time limit of a task, which has grown with every time it ran out of it."""
    limit = run.compiled.description(task).recovery.time_limit
    if limit is None:
        return None
    return evaluate_quantity(limit, run.compiled.graph.context(task)) * run.grown.get(task, {}).get(
        "timeout", 1.0
    )
