"""What users ask for, and what timers remind the engine of."""

from __future__ import annotations

from weft.engine.deciding import laddering, leaving, replanning, watching
from weft.engine.deciding.failing import stop_run
from weft.engine.deciding.migrating import migrate
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.selection import pipeline
from weft.engine.state.attempt import Stage
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState

__all__ = ["asked", "timer_fired"]


def timer_fired(desk: Desk, event: ev.TimerFired) -> None:
    """Do what a timer was set for."""
    name, _, argument = event.timer.partition(":")
    match name:
        case watching.WATCH:
            watching.poll(desk)
        case leaving.BETTER:
            leaving.look_for_better(desk)
        case laddering.LADDER:
            laddering.climb(desk)
        case replanning.REPLAN:
            replanning.replan_timer(desk, int(argument))
        case pipeline.SELECT:
            pipeline.refresh(desk)
        case "suspended":
            watching.suspension_over(desk, int(argument))
        case "waiting":
            watching.waiting_over(desk, int(argument))


def asked(desk: Desk, event: ev.Asked) -> None:
    """Do what a user asks for; what makes no sense is noted, not done."""
    if not 0 <= event.run < len(desk.state.runs):
        desk.emit(cm.Note(kind="refused", run=event.run, text=f"{event.what}: there is no such run"))
        return
    run = desk.state.runs[event.run]
    tasks = [event.task] if event.task is not None else list(range(len(run)))
    match event.what:
        case "cancel" if event.task is None:
            stop_run(desk, run, "cancelled by the user")
        case "cancel" | "hold":
            for task in tasks:
                _hold(desk, run, task, alone=event.task is not None)
        case "release" | "resume":
            for task in tasks:
                _release(desk, run, task, alone=event.task is not None)
        case "migrate" if event.task is not None:
            _migrate(desk, run, event.task, event.machine)
        case _:
            desk.emit(
                cm.Note(kind="refused", run=run.index, text=f"{event.what}: not something that can be asked")
            )


def _hold(desk: Desk, run: Run, task: int, *, alone: bool) -> None:
    """Let a task wait that has not begun; one that was asked for ``alone`` and has is told of."""
    attempt = desk.state.attempts.get(run.attempt_of.get(task, -1))
    free = attempt is not None and not attempt.cancelled and attempt.replaces is None
    if run.state[task] in (TaskState.WAITING, TaskState.READY):
        desk.emit(cm.Settle(run=run.index, task=task, state="HELD", reason="held by the user"))
    elif attempt is not None and free and attempt.stage == Stage.ASSIGNED and attempt.staging:
        desk.emit(cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason="held"))
    elif attempt is not None and free and attempt.stage == Stage.ASSIGNED:
        desk.emit(cm.Settle(run=run.index, task=task, state="HELD", reason="held by the user"))
    elif alone and run.state[task] != TaskState.HELD:
        word = TaskState(run.state[task]).name.lower()
        desk.emit(cm.Note(kind="refused", run=run.index, task=task, text=f"hold: it is {word}"))


def _release(desk: Desk, run: Run, task: int, *, alone: bool) -> None:
    if run.state[task] in (TaskState.HELD, TaskState.STOPPED):
        state = "WAITING" if run.missing[task] else "READY"
        desk.emit(cm.Settle(run=run.index, task=task, state=state, reason="released by the user", again=True))
    elif alone:
        desk.emit(cm.Note(kind="refused", run=run.index, task=task, text="release: it is not held"))


def _migrate(desk: Desk, run: Run, task: int, machine: int | None) -> None:
    number = run.attempt_of.get(task)
    attempt = desk.state.attempts.get(number) if number is not None else None
    if attempt is None or attempt.stage > Stage.RUNNING or attempt.cancelled or attempt.replaces is not None:
        desk.emit(cm.Note(kind="refused", run=run.index, task=task, text="migrate: it does not run"))
    elif machine is None:
        leaving.leave(desk, attempt, "user")
    elif machine == attempt.machine:
        text = "migrate: it is there already"
        desk.emit(cm.Note(kind="refused", run=run.index, task=task, machine=machine, text=text))
    elif not run.is_mode(task, machine, attempt.count) or not desk.state.machines[machine].up:
        desk.emit(
            cm.Note(
                kind="refused", run=run.index, task=task, machine=machine, text="migrate: it cannot run there"
            )
        )
    else:
        migrate(desk, attempt, machine, attempt.count, "user")
