"""Starting: which attempts that have their data and predecessors get the nodes of their machine now.

An attempt that keeps its nodes starts as soon as it can. The others wait in the machine's queue, which lets
them go by its rule: strictly in order, the first that fits, or with backfilling (S2 section 5; unified C11).
Under a plan the order is that of the planned starts, and a task may go before its turn only if it does not
hold up whose turn it is.
"""

from __future__ import annotations

from weft.engine.deciding import replanning, watching
from weft.engine.deciding.queueing import next_to_start
from weft.engine.desk import Desk
from weft.engine.messages.commands import SetTimer, Settle, Start
from weft.engine.restarts import spared
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.machines import MachineState
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState
from weft.workflow.records.quantity import value_of
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["SERVE", "prepared", "start_what_can"]

SERVE = "serve"
"""Prefix of the timers at which queues are served, one per machine."""


def start_what_can(desk: Desk) -> None:
    """Start everything that can start after the last changes."""
    state = desk.state
    while state.arrived:
        number = next(iter(state.arrived))
        del state.arrived[number]
        attempt = state.attempts.get(number)
        if attempt is not None and prepared(desk, attempt):
            _start(desk, attempt)
    while state.touched:
        machine = next(iter(state.touched))
        del state.touched[machine]
        _serve(desk, machine)


def prepared(desk: Desk, attempt: Attempt) -> bool:
    """Say whether nothing but nodes is missing."""
    if (
        attempt.stage != Stage.ASSIGNED
        or attempt.staging
        or attempt.cancelled
        or attempt.replaced_by is not None
    ):
        return False
    run = desk.state.runs[attempt.run]
    if run.missing[attempt.task] or run.state[attempt.task] == TaskState.HELD:
        return False
    # A migration goes on only when the attempt before it is out of the way, and cleaned up after.
    return attempt.replaces is None or attempt.replaces not in desk.state.attempts


def _looks_later(desk: Desk, machine: MachineState) -> bool:
    """Put off serving a queue until everything that happens at this time is known.

    The rules of queues speak of all that is ready at a time (S2 section 5), but events come one by one. On
    one node they are all alike. What migrates does not wait: it would find its nodes taken by what is placed.
    """
    state, timer = desk.state, f"{SERVE}:{machine.index}"
    if state.planned or machine.nodes == 1 or machine.index in state.to_serve:
        state.to_serve.pop(machine.index, None)
        return False
    waiting = (state.attempts[number] for _, number in machine.queue)
    if not any(attempt.replaces is None and prepared(desk, attempt) for attempt in waiting):
        return False
    if timer not in state.timers:
        desk.emit(SetTimer(timer=timer, at_s=state.now))
    return True


def _serve(desk: Desk, index: int) -> None:
    """Let a machine's queue go on."""
    machine = desk.state.machines[index]
    if not machine.queue or not machine.up or _looks_later(desk, machine):
        return
    while machine.queue:
        number = next_to_start(desk, machine, lambda attempt: prepared(desk, attempt))
        if number is None:
            return
        _start(desk, desk.state.attempts[number])


def _start(desk: Desk, attempt: Attempt) -> None:
    run = desk.state.runs[attempt.run]
    known, task = run.known, attempt.task
    if known.kind[task] != COMPUTE:
        # A transfer is done when its file is there.
        desk.emit(Settle(run=run.index, task=task, state="COMPLETED"))
        return
    limit = _limit_s(run, task) if known.limited else None
    memory = None
    if attempt.demand:
        memory = next((amount for name, amount in attempt.demand if name == "memory"), None)
    desk.emit(
        Start(
            attempt=attempt.number,
            run=run.index,
            task=task,
            machine=attempt.machine,
            nodes=attempt.nodes,
            count=attempt.count,
            iteration=attempt.iteration,
            tries=run.tried(task),
            restart_from=spared(desk.state, run, task, attempt.count) if run.checkpoint else 0.0,
            time_limit_s=limit,
            memory_bytes=memory,
        )
    )
    if known.owes or desk.watchful:
        if desk.settings.begins_at_once:
            watching.begin(desk, attempt)
            replanning.go_on(desk, run)
        watching.submitted(desk, attempt)


def _limit_s(run: Run, task: int) -> float | None:
    """Give the time limit of a task, which has grown with every time it ran out of it."""
    limit = run.known.description(task).recovery.time_limit
    if limit is None:
        return None
    return value_of(limit, run.known.graph.context(task)) * run.grown.get(task, {}).get("timeout", 1.0)
