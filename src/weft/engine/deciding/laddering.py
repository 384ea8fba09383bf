"""The polling ladder: job manager, gatekeeper, unreachable (S3 section 5).

Each running attempt's job manager is probed at an interval. If it is silent, its machine's gatekeeper is
asked. If that answers, a new job manager watches the job, which was never stopped. If it is silent too, the
machine or the network has failed: nobody knows what became of the jobs there, and they go on elsewhere from
their last restart files. Should the machine answer again, the old jobs are ended: only one attempt of a task
may go on.
"""

from __future__ import annotations

from weft.engine.deciding.failing import fail
from weft.engine.deciding.migrating import prepare_new, settle_cancelled, target_lost
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.states import FINAL

__all__ = ["LADDER", "answered", "climb", "doubt", "machine_back", "machine_lost"]

LADDER = "ladder"
"""Name of the timer that probes."""

_ON_THE_MACHINE = (Stage.SUBMITTED, Stage.RUNNING)


def climb(desk: Desk) -> None:
    """Probe the job managers of all running attempts, and the machines that are believed to be down.

    Who was to be ended before it ran has no job manager: its machine is asked.
    """
    every_s = desk.settings.ladder_every_s
    if every_s is None:
        return
    state = desk.state
    for attempt in list(state.attempts.values()):
        if attempt.stage in _ON_THE_MACHINE:
            desk.emit(cm.Probe(of="job", attempt=attempt.number, machine=attempt.machine))
        elif _is_unheard(attempt):
            desk.emit(cm.Probe(of="machine", attempt=attempt.number, machine=attempt.machine))
    for machine in state.machines:
        if not machine.up:
            desk.emit(cm.Probe(of="machine", machine=machine.index))
    if state.active:
        desk.emit(cm.SetTimer(timer=LADDER, at_s=state.now + every_s))


def _is_unheard(attempt: Attempt) -> bool:
    """Say whether an attempt was told to end before its program began, and nothing was heard of it since."""
    return attempt.stage == Stage.ASSIGNED and bool(attempt.cancelled)


def doubt(desk: Desk, attempt: Attempt, cause: str) -> None:
    """Ask after a machine that could not be reached when something was to be done there."""
    if (
        cause == "lost"
        and desk.settings.ladder_every_s is not None
        and desk.state.machines[attempt.machine].up
    ):
        desk.emit(cm.Probe(of="machine", machine=attempt.machine))


def answered(desk: Desk, event: ev.Answered) -> None:
    """Climb on: silence of a job manager asks the machine, silence of a machine means that it is lost."""
    attempt = desk.state.attempts.get(event.attempt) if event.attempt is not None else None
    if attempt is not None and not (attempt.stage in _ON_THE_MACHINE or _is_unheard(attempt)):
        attempt = None  # it has ended meanwhile
    if event.of == "job":
        if not event.alive and attempt is not None:
            desk.emit(cm.Probe(of="machine", attempt=attempt.number, machine=attempt.machine))
    elif event.of == "machine" and event.machine is not None:
        if not event.alive:
            _silent(desk, event.machine)
        elif not desk.state.machines[event.machine].up:
            desk.emit(cm.Note(kind="up", machine=event.machine, text="it answers again"))
            machine_back(desk, event.machine)
        elif attempt is not None and _is_unheard(attempt):
            # The machine had failed when it was told to end it, and is back before anybody noticed.
            desk.emit(cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason=attempt.cancelled))
        elif attempt is not None:
            desk.emit(cm.Note(kind="reattached", attempt=attempt.number, machine=event.machine))
            desk.emit(cm.Probe(of="reattach", attempt=attempt.number, machine=event.machine))


def _silent(desk: Desk, machine: int) -> None:
    if not desk.state.machines[machine].up:
        return
    desk.emit(cm.Note(kind="down", machine=machine, text="neither job manager nor gatekeeper answers"))
    for attempt in list(desk.state.attempts.values()):
        if attempt.machine == machine and attempt.stage in _ON_THE_MACHINE:
            desk.emit(cm.Note(kind="unknown", attempt=attempt.number, machine=machine))
    machine_lost(desk, machine)


def machine_back(desk: Desk, machine: int) -> None:
    """End what may still run on a machine that had been given up."""
    for number in list(desk.state.unknown.get(machine, ())):
        desk.emit(cm.Cancel(attempt=number, machine=machine, reason="given up"))


def machine_lost(desk: Desk, machine: int) -> None:
    """Let what was on a lost machine go on elsewhere."""
    state = desk.state
    for attempt in list(state.attempts.values()):
        if attempt.machine == machine and attempt.number in state.attempts:
            _lose(desk, attempt)
    _free_abstract_machines(desk, machine)


def _free_abstract_machines(desk: Desk, machine: int) -> None:
    """Let members of abstract machines that were bound to a lost machine, and have not started, go elsewhere.

    Those that completed there do not run again: outputs, like restart files (``restarts``), are believed to
    be kept on our side too, and outlive the machine that made them.
    """
    for run in list(desk.state.active.values()):
        for variable, bound in sorted(run.binding.items()):
            waiting = [task for task in run.members(variable) if run.state[task] not in FINAL]
            if bound == machine and waiting:
                text = f"{desk.state.machines[machine].name} is lost"
                desk.emit(cm.Note(kind="rebound", run=run.index, task=waiting[0], machine=machine, text=text))


def _lose(desk: Desk, attempt: Attempt) -> None:
    state = desk.state
    run = state.runs[attempt.run]
    if run.attempt_of.get(attempt.task) == attempt.number:
        old = state.attempts.get(attempt.replaces) if attempt.replaces is not None else None
        if old is not None and old.stage != Stage.CLEANING:
            target_lost(desk, run, attempt, old)
        elif _is_unheard(attempt) and (run.stopping or attempt.cancelled == "held"):
            settle_cancelled(desk, run, attempt)  # it was to end before it ran: nothing is lost
        else:
            fail(desk, run, attempt.task, "lost", f"{state.machines[attempt.machine].name} is lost")
    elif attempt.stage == Stage.CLEANING:
        desk.emit(cm.Drop(attempt=attempt.number))
    elif attempt.live:
        # It was leaving anyway; nothing can be cancelled or cleaned up there any more.
        desk.emit(cm.Note(kind="lost", attempt=attempt.number, machine=attempt.machine))
        prepare_new(desk, attempt)
