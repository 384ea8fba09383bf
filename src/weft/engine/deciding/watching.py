"""Watching: attempts that owe performance are asked for their progress, and judged (S1 section 9, S3 section
3).

One timer serves all: when it fires, every running attempt with a contract is probed, and the answer is
judged. What is learned of an attempt is also what is believed of its machine, for a while.
"""

from __future__ import annotations

from weft.engine.contracts import Breach, Contract, Watched, breach, contract_of, ratio
from weft.engine.deciding import leaving, replanning
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.selection.requirements import accepts, requirement_problem
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.states import TaskState

__all__ = [
    "WATCH",
    "begin",
    "owed",
    "poll",
    "progressed",
    "requirements_changed",
    "submitted",
    "suspended",
    "suspension_over",
    "waiting_over",
    "watched_of",
]

WATCH = "watch"
"""Name of the timer that asks for progress."""

_SLOW, _USUAL = 0.9, 1.0
"""A machine that is slower than this share of its speed is believed to be slow."""


def begin(desk: Desk, attempt: Attempt) -> None:
    """Begin to watch an attempt that has started, if it owes anything."""
    if WATCH not in desk.state.timers and owed(desk, attempt) is not None:
        desk.emit(cm.SetTimer(timer=WATCH, at_s=desk.state.now + desk.settings.poll_every_s))


def owed(desk: Desk, attempt: Attempt) -> Contract | None:
    """Give the contract of an attempt; None: it owes nothing."""
    settings, known = desk.settings, desk.state.runs[attempt.run].known
    if settings.contract is None and settings.iteration_limit_s is None and not known.owes:
        return None
    recovery = known.description(attempt.task).recovery
    default = Contract(
        limit=settings.contract, grace_s=settings.grace_s, iteration_limit_s=settings.iteration_limit_s
    )
    job = known.description(attempt.task).job
    contract = contract_of(recovery.contract, default, evaluator=None if job is None else job.evaluator)
    return contract if contract.limit is not None or contract.iteration_limit_s is not None else None


def poll(desk: Desk) -> None:
    """Ask every running attempt that owes something; forget beliefs that are out of date."""
    state, settings = desk.state, desk.settings
    watched = [
        attempt
        for attempt in state.attempts.values()
        if attempt.stage == Stage.RUNNING and not attempt.cancelled and owed(desk, attempt) is not None
    ]
    for attempt in watched:
        desk.emit(cm.Probe(of="progress", attempt=attempt.number))
    for index in sorted(state.machines.odd):
        if state.now - state.machines[index].believed_at_s >= settings.belief_s:
            desk.emit(cm.Note(kind="believed", machine=index, value=_USUAL, text="forgotten"))
    if watched:
        desk.emit(cm.SetTimer(timer=WATCH, at_s=state.now + settings.poll_every_s))


def progressed(desk: Desk, event: ev.Progressed) -> None:
    """Judge an attempt by its news."""
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.RUNNING or attempt.cancelled:
        return
    if event.degraded:
        _complained(desk, attempt, event.degraded)
        return
    contract = owed(desk, attempt)
    if contract is None:
        return
    watched = watched_of(attempt)
    behind = ratio(watched, desk.state.now)
    _believe(desk, attempt, behind)
    if breach(watched, contract, desk.state.now) is Breach.PERFORMANCE:
        _note_violation(desk, attempt, behind=behind)
        if not replanning.violated(desk, attempt):
            leaving.leave(desk, attempt, "performance", behind=behind)
    elif attempt.violating:
        desk.emit(
            cm.Note(
                kind="recovered", run=attempt.run, task=attempt.task, attempt=attempt.number, value=behind
            )
        )


def _complained(desk: Desk, attempt: Attempt, text: str) -> None:
    """Take an application's own word for it that it is too slow where it runs (S3 section 6: gw_perf)."""
    _note_violation(desk, attempt, text=text)
    leaving.leave(desk, attempt, "performance")


def _note_violation(desk: Desk, attempt: Attempt, *, behind: float | None = None, text: str = "") -> None:
    desk.emit(
        cm.Note(
            kind="violation",
            run=attempt.run,
            task=attempt.task,
            attempt=attempt.number,
            machine=attempt.machine,
            value=behind,
            text=text,
        )
    )


def watched_of(attempt: Attempt) -> Watched:
    """Give what is known of a running attempt."""
    done = None if attempt.work_done is None else max(0.0, attempt.work_done - attempt.restart_from)
    return Watched(
        started_s=attempt.started_s,
        predicted_s=attempt.seconds,
        work=1.0 - attempt.restart_from,
        done=done,
        last_iteration_s=attempt.last_iteration_s,
        expected_iteration_s=_expected_iteration_s(attempt),
        waiting_since_s=attempt.suspended_since_s,
    )


def _expected_iteration_s(attempt: Attempt) -> float | None:
    """Give what an iteration should take here; None: nobody knows how many there are."""
    left = 1.0 - attempt.restart_from
    if not attempt.all_iterations or left <= 0.0:
        return None
    return attempt.seconds / (left * attempt.all_iterations)


def _believe(desk: Desk, attempt: Attempt, behind: float | None) -> None:
    """Conclude from an attempt's progress how fast its machine is."""
    if behind is None or attempt.work_done is None:
        return
    speed = 1.0 / (1.0 + behind) if behind > -1.0 else _USUAL
    believed = speed if speed < _SLOW else _USUAL
    machine = desk.state.machines[attempt.machine]
    if abs(machine.speed_factor - believed) > 0.05 * machine.speed_factor:
        desk.emit(cm.Note(kind="believed", machine=attempt.machine, attempt=attempt.number, value=believed))


def suspended(desk: Desk, event: ev.Suspended) -> None:
    """Give a suspended attempt some time before it leaves (S3: suspension timeout)."""
    attempt = desk.state.attempts.get(event.attempt)
    timeout_s = desk.settings.suspension_timeout_s
    if attempt is not None and timeout_s is not None and attempt.suspended_since_s is not None:
        desk.emit(cm.SetTimer(timer=f"suspended:{attempt.number}", at_s=desk.state.now + timeout_s))


def submitted(desk: Desk, attempt: Attempt) -> None:
    """Give a machine's own queue some time to start an attempt (S3: the same timeout holds for both)."""
    timeout_s = desk.settings.waiting_timeout_s
    if timeout_s is not None:
        desk.emit(cm.SetTimer(timer=f"waiting:{attempt.number}", at_s=desk.state.now + timeout_s))


def waiting_over(desk: Desk, number: int) -> None:
    """Let an attempt leave that the machine has still not started."""
    attempt = desk.state.attempts.get(number)
    if attempt is not None and attempt.stage == Stage.SUBMITTED and not attempt.cancelled:
        leaving.leave(desk, attempt, "waiting")


def suspension_over(desk: Desk, number: int) -> None:
    """Let an attempt leave that is still suspended."""
    attempt = desk.state.attempts.get(number)
    if attempt is not None and attempt.suspended_since_s is not None and not attempt.cancelled:
        leaving.leave(desk, attempt, "suspension")


def requirements_changed(desk: Desk, event: ev.RequirementsChanged) -> None:
    """Let an attempt leave a machine that no longer meets its demands (S3: self-migration)."""
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is None or attempt.cancelled or attempt.stage > Stage.RUNNING:
        return
    run = desk.state.runs[attempt.run]
    said = [text for text in (event.requirements, event.rank) if text is not None]
    for problem in (event.problem, *(requirement_problem(text, run, attempt.task) for text in said if text)):
        if problem:
            desk.emit(
                cm.Note(kind="requirement", run=run.index, task=attempt.task, text=f"ignored: {problem}")
            )
    if not said:
        return
    met = accepts(desk.state, run, attempt.task, attempt.machine)
    if event.mandatory and not met and run.state[attempt.task] != TaskState.MIGRATING:
        leaving.leave(desk, attempt, "self-migration")
