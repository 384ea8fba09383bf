"""The polling ladder: job manager, gatekeeper, unreachable (S3 section 5).

Each running attempt's job manager is probed at an interval. If it is silent, its machine is. If the machine
answers, watching goes on as if nothing had happened; if it is silent too, the machine or the network has
failed, and what ran there goes on elsewhere from its last restart files.
"""

from __future__ import annotations

from weft.engine.deciding.failing import fail
from weft.engine.deciding.migrating import prepare_new
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.attempt import Stage

__all__ = ["LADDER", "answered", "climb", "machine_lost"]

LADDER = "ladder"
"""Name of the timer that probes."""


def climb(desk: Desk) -> None:
    """Probe the job managers of all running attempts, and the machines that are believed to be down."""
    every_s = desk.settings.ladder_every_s
    if every_s is None:
        return
    state = desk.state
    for attempt in list(state.attempts.values()):
        if attempt.stage in (Stage.SUBMITTED, Stage.RUNNING):
            desk.emit(cm.Probe(of="job", attempt=attempt.number, machine=attempt.machine))
    for machine in state.machines:
        if not machine.up:
            desk.emit(cm.Probe(of="machine", machine=machine.index))
    if state.active:
        desk.emit(cm.SetTimer(timer=LADDER, at_s=state.now + every_s))


def answered(desk: Desk, event: ev.Answered) -> None:
    """Climb on: silence of a job manager asks the machine, silence of a machine means that it is lost."""
    state = desk.state
    if event.of == "job" and not event.alive:
        attempt = state.attempts.get(event.attempt) if event.attempt is not None else None
        if attempt is not None:
            desk.emit(cm.Probe(of="machine", attempt=attempt.number, machine=attempt.machine))
    elif event.of == "machine" and event.machine is not None:
        machine = state.machines[event.machine]
        if event.alive and not machine.up:
            desk.emit(cm.Note(kind="up", machine=machine.index, text="it answers again"))
        elif event.alive and event.attempt is not None:
            desk.emit(cm.Note(kind="reattached", attempt=event.attempt, machine=machine.index))
        elif not event.alive and machine.up:
            desk.emit(
                cm.Note(kind="down", machine=machine.index, text="neither job manager nor gatekeeper answers")
            )
            machine_lost(desk, machine.index)


def machine_lost(desk: Desk, machine: int) -> None:
    """Let what was on a lost machine go on elsewhere."""
    state = desk.state
    for attempt in list(state.attempts.values()):
        if attempt.machine != machine or attempt.number not in state.attempts:
            continue
        run = state.runs[attempt.run]
        if attempt.replaced_by is not None:
            # It was leaving anyway; nothing can be cleaned up there any more.
            if attempt.stage < Stage.ENDED:
                desk.emit(cm.Note(kind="lost", attempt=attempt.number, machine=machine))
                prepare_new(desk, attempt)
            elif attempt.stage == Stage.CLEANING:
                desk.emit(cm.Drop(attempt=attempt.number))
        elif attempt.stage < Stage.CLEANING:
            old = attempt.replaces
            fail(desk, run, attempt.task, "lost", f"{state.machines[machine].name} is lost")
            if old is not None and old in state.attempts:
                desk.emit(cm.Drop(attempt=old))
