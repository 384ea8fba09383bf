"""Dispatching: the policy is asked, and what it decides is checked and becomes commands.

The engine knows no concrete policy and trusts none: a decision that breaks a rule stops everything with an
error that names the policy, the task and the machine.
"""

from __future__ import annotations

from weft.engine.deciding.migrating import migrate, prepare_new, rebind
from weft.engine.deciding.staging import send_for_data
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.restarts import spared
from weft.engine.state.attempt import Attempt
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState
from weft.engine.view import EngineView
from weft.errors import WeftError
from weft.policies.policy import Decision, Hold, Migrate, Place, Replan
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["PolicyError", "dispatch"]


class PolicyError(WeftError):
    """A policy decided something that cannot be: a mistake in the policy, not in the user's files."""


def dispatch(desk: Desk, view: EngineView) -> None:
    """Ask the policy, and carry out what it decides, one decision after the other."""
    desk.state.dirty = False
    asked = desk.state.inquiries
    if asked.needed and asked.is_settling(desk.state.now):
        return
    for decision in desk.policy.decide(view):
        if type(decision) is Place:
            _place(desk, decision)
        else:
            _carry_out(desk, decision)
    for name, policy in desk.selectors.items():
        with desk.led_by(policy):
            for decision in policy.decide(EngineView(desk.state, name)):
                _carry_out(desk, decision)


def _carry_out(desk: Desk, decision: Decision) -> None:
    match decision:
        case Place():
            _place(desk, decision)
        case Migrate():
            reason = decision.reason or desk.policy.name
            migrate(desk, _movable(desk, decision), decision.machine, decision.count, reason)
        case Hold():
            run = _run(desk, decision.run)
            desk.emit(cm.Settle(run=run.index, task=decision.task, state="HELD", reason=decision.reason))
        case Replan():
            run = _run(desk, decision.run)
            if not run.plan_wanted:
                desk.emit(cm.Replan(run=run.index, version=run.version, reason=decision.reason))


def _movable(desk: Desk, decision: Migrate) -> Attempt:
    """Check a migration; give the attempt."""
    state = desk.state
    attempt = state.attempts.get(decision.attempt)
    where = f"policy {desk.policy.name!r} migrates attempt {decision.attempt}"
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
    if (decision.machine, decision.count) not in run.known.options(attempt.task).nodes:
        raise PolicyError(f"{where} with {decision.count} nodes: it cannot run there so")
    return attempt


def _run(desk: Desk, index: int) -> Run:
    if index not in desk.state.active:
        raise PolicyError(f"policy {desk.policy.name!r} decides about run {index}, which is not active")
    return desk.state.active[index]


def _place(desk: Desk, place: Place) -> None:
    run = _run(desk, place.run)
    nodes = _checked_nodes(desk, run, place)
    attempt = desk.state.next_attempt
    left = run.left_behind.get(place.task) if run.left_behind else None
    desk.emit(
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
            restart_from=spared(desk.state, run, place.task, place.count) if run.checkpoint else 0.0,
            reason=place.reason if left is None else desk.state.attempts[left].left_for or place.reason,
        )
    )
    known = run.known
    begun = desk.state.attempts[attempt]
    if known.shared[known.variable[place.task]]:
        # After a failure an abstract machine may be bound anew: who has not started comes along.
        rebind(desk, run, place.task, place.machine)
    if left is not None:
        prepare_new(desk, desk.state.attempts[left])
        return
    if known.moves_data or known.kind[place.task] != COMPUTE or known.stages or begun.restart_from:
        send_for_data(desk, begun, first=True)


def _checked_nodes(desk: Desk, run: Run, place: Place) -> int:
    """Check a placement; give the nodes it takes."""
    state, known, task = desk.state, run.known, place.task
    if not 0 <= task < len(run.state):
        raise PolicyError(f"policy {desk.policy.name!r} places task {task}: run {run.index} has no such task")
    if not 0 <= place.machine < len(state.machines.all):
        raise _mistake(desk, run, place, "there is no such machine")
    if run.state[task] != TaskState.READY and task not in run.early:
        raise _mistake(desk, run, place, f"the task is {TaskState(run.state[task]).name.lower()}, not ready")
    if why := state.obstacle(place.machine):
        raise _mistake(desk, run, place, why)
    bound = run.binding.get(known.variable[task]) if run.binding else None
    if bound is not None and bound != place.machine:
        name = state.machines[bound].name
        raise _mistake(desk, run, place, f"its abstract machine is bound to {name!r}")
    if known.kind[task] != COMPUTE:
        return 0
    options = known.options(task)
    nodes = options.nodes.get((place.machine, place.count))
    if nodes is None:
        allowed = options.counts.get(place.machine)
        why = f"only {allowed} nodes are possible there" if allowed else "it cannot run there"
        raise _mistake(desk, run, place, f"it asks for {place.count} nodes; {why}")
    demand = run.demand(task, place.machine, place.count)
    if not place.queue and not state.machines.fits(place.machine, nodes, demand):
        machine = state.machines[place.machine]
        free = f"{machine.free_nodes} of {machine.nodes} nodes are free, it needs {nodes}"
        why = f"the machine is busy ({free}); a policy that lets tasks wait says queue=True"
        raise _mistake(desk, run, place, why)
    return nodes


def _mistake(desk: Desk, run: Run, place: Place, why: str) -> PolicyError:
    """Say what is wrong with a placement, naming the policy, the task and the machine."""
    machines = desk.state.machines
    known = 0 <= place.machine < len(machines)
    machine = repr(machines[place.machine].name) if known else str(place.machine)
    task = run.name(place.task)
    return PolicyError(f"policy {desk.policy.name!r} places task {task!r} on machine {machine}: {why}")
