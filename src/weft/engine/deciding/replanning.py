"""Re-planning: when what remains of a run is planned again (S1 section 8; unified section 5, step 7).

Planning takes time, so it is a command that an event answers; execution goes on under the old plan meanwhile.
What comes of the new plan is in ``adopting``.
"""

from __future__ import annotations

from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.remaining.standings import violators
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run

__all__ = [
    "REPLAN",
    "ask",
    "go_on",
    "grown",
    "iteration_began",
    "machines_changed",
    "replan_timer",
    "violated",
]

REPLAN = "replan"
"""Prefix of the timers that ask for a new plan, one per run."""


def ask(desk: Desk, run: Run, reason: str) -> None:
    """Ask for a new plan, unless one is on the way."""
    if run.planned and not run.plan_wanted and run.index in desk.state.active and not run.stopping:
        desk.emit(cm.Replan(run=run.index, version=run.version, reason=reason))


def go_on(desk: Desk, run: Run) -> None:
    """See to it that a run is planned again at its interval, as long as something of it is alive.

    With the interval 0 a plan follows the other as soon as it is there (S1's maximal frequency); where
    planning takes no time, at the interval of the polls.
    """
    rule, state = desk.settings.replanning, desk.state
    if rule is None or rule.every_s is None or not run.planned or run.plan_wanted:
        return
    timer = f"{REPLAN}:{run.index}"
    if timer in state.timers or run.index not in state.active or not run.attempt_of:
        return
    wait_s = rule.every_s
    if wait_s == 0.0 and state.now <= run.plan_asked_s:
        wait_s = desk.settings.poll_every_s
    desk.emit(cm.SetTimer(timer=timer, at_s=state.now + wait_s))


def replan_timer(desk: Desk, index: int) -> None:
    """Plan again because it is time, or because enough tasks are too slow."""
    run = desk.state.active.get(index)
    if run is None or not run.attempt_of:
        return
    slow = len(violators(desk.state, run))
    ask(desk, run, f"{slow} running tasks violate their contracts" if slow else "interval")


def machines_changed(desk: Desk, event: ev.MachineChanged) -> None:
    """Plan again because machines went or came."""
    rule = desk.settings.replanning
    if rule is not None and rule.on_machines and event.up is not None:
        for run in list(desk.state.active.values()):
            ask(desk, run, "machines changed")


def iteration_began(desk: Desk, run: Run) -> None:
    """Plan again because a loop begins its next iteration."""
    rule = desk.settings.replanning
    if rule is not None and rule.on_iteration:
        ask(desk, run, "next iteration")


def grown(desk: Desk, event: ev.TasksAdded) -> None:
    """Plan again because there are tasks that no plan knows."""
    run = desk.state.active.get(event.run)
    if run is not None:
        ask(desk, run, "tasks were added")


def violated(desk: Desk, attempt: Attempt) -> bool:
    """Say whether a violation is answered by a new plan; ask for one if enough attempts violate.

    The plan is asked for by a timer that is due now: the news of others that came at the same time are heard
    before, and one plan serves all.
    """
    rule = desk.settings.replanning
    run = desk.state.runs[attempt.run]
    if rule is None or rule.violators is None or not run.planned:
        return False
    if not attempt.violating:
        desk.emit(cm.Note(kind="violating", run=run.index, task=attempt.task, attempt=attempt.number))
    running = sum(
        1 for number in run.attempt_of.values() if desk.state.attempts[number].stage == Stage.RUNNING
    )
    slow = len(violators(desk.state, run))
    if slow and slow >= rule.violators * running and not run.plan_wanted:
        desk.emit(cm.SetTimer(timer=f"{REPLAN}:{run.index}", at_s=desk.state.now))
    return True
