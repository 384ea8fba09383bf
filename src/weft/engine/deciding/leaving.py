"""Leaving: whether and where to an attempt moves, for each of the five reasons of S3 section 1.

By default an attempt leaves a slow machine only if the time left here exceeds the time left there, moving
included, by a share that grows with every migration of the task. With ``migrate: always`` it leaves for the
best machine that is free, as S1 and S3 print it. An attempt that must leave and has nowhere to go waits
without nodes, keeping its restart files (S3 section 4).
"""

from __future__ import annotations

from weft.engine.deciding.migrating import migrate
from weft.engine.deciding.restarting import spared
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.view import EngineView
from weft.policies.policy import Mode

__all__ = ["BETTER", "MUST", "leave", "look_for_better", "time_left_s"]

BETTER = "better"
"""Name of the timer that looks for better machines."""

MUST = frozenset({"self-migration", "suspension", "user"})
"""Reasons for which an attempt leaves even if no machine is free for it."""


def leave(desk: Desk, attempt: Attempt, reason: str, *, behind: float | None = None) -> None:
    """Let an attempt leave its machine for a reason, if there is somewhere to go and it pays or must be."""
    if desk.settings.migrate == "never" and reason not in MUST:
        return
    run = desk.state.runs[attempt.run]
    target = _best(desk, run, attempt)
    if target is None:
        if reason in MUST:
            desk.emit(cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason=reason))
        else:
            _stay(desk, attempt, reason, "no other machine is free")
        return
    if reason not in MUST and desk.settings.migrate == "pays":
        here, there = time_left_s(desk, attempt, behind), _time_there_s(desk, run, attempt, target)
        wanted = _gain(desk, run, attempt.task)
        if there >= (1.0 - wanted) * here:
            _stay(
                desk,
                attempt,
                reason,
                f"{here:.6g} s left here, {there:.6g} s there: less than {wanted:.0%} saved",
            )
            return
    migrate(desk, attempt, target.machine, target.count, reason)


def _gain(desk: Desk, run: Run, task: int) -> float:
    """Give the share of the time left that a migration must save; it grows: nothing bounces for ever."""
    settings = desk.settings
    return min(0.95, settings.gain * settings.gain_growth ** run.migrations.get(task, 0))


def _stay(desk: Desk, attempt: Attempt, reason: str, text: str) -> None:
    desk.emit(
        cm.Note(
            kind="stay", run=attempt.run, task=attempt.task, attempt=attempt.number, text=f"{reason}: {text}"
        )
    )


def time_left_s(desk: Desk, attempt: Attempt, behind: float | None = None) -> float:
    """Estimate how long an attempt still takes where it is, at the pace it has shown."""
    now = desk.state.now
    pace = 1.0 + ((attempt.ratio if behind is None else behind) or 0.0)
    if attempt.started_s is None:
        return max(0.0, attempt.expected_end_s - now)
    whole = 1.0 - attempt.restart_from
    if attempt.work_done is None or whole <= 0:
        elapsed = now - attempt.started_s
        return (
            max(attempt.seconds - elapsed, 0.0)
            if pace <= 1.0
            else max(pace * attempt.seconds - elapsed, attempt.seconds)
        )
    left = max(0.0, 1.0 - attempt.work_done) / whole
    speed = desk.state.machines[attempt.machine].speed_factor
    return left * attempt.seconds * max(pace, 1.0 / speed if speed > 0 else pace)


def _time_there_s(desk: Desk, run: Run, attempt: Attempt, mode: Mode) -> float:
    """Estimate how long an attempt would take elsewhere: moving, restarting, and what is not spared."""
    now = desk.state.now
    left = 1.0 - spared(desk, run, attempt.task, mode.count)
    seconds = run.known.seconds(attempt.task, mode.machine, mode.count) * left
    speed = desk.state.machines[mode.machine].speed_factor
    return (
        (mode.ready_s - now)
        + _restart_files_s(run, attempt, mode)
        + desk.settings.restart_cost_s
        + seconds / speed
    )


def _restart_files_s(run: Run, attempt: Attempt, mode: Mode) -> float:
    kept = run.checkpoint.get(attempt.task)
    if kept is None:
        return 0.0
    return run.instance.link_s(kept[1], mode.machine, run.known.restart_bytes(attempt.task), 1.0, 0.0)


def _best(desk: Desk, run: Run, attempt: Attempt) -> Mode | None:
    """Give the best way to go on elsewhere: by the task's own rank, else by the earliest finish."""
    view = EngineView(desk.state)
    seen = view.run(run.index)
    bound = run.binding.pop(
        run.known.variable[attempt.task], None
    )  # a migration re-binds the abstract machine
    modes = view.modes(seen, attempt.task, free=True)
    if bound is not None:
        run.binding[run.known.variable[attempt.task]] = bound
    keeps_count = not _any_count(run, attempt.task)
    best: tuple[float, float, int, int] | None = None
    chosen = None
    for mode in modes:
        if mode.machine == attempt.machine or (
            keeps_count and mode.count != attempt.count and attempt.checkpoint
        ):
            continue
        rank = view.rank(seen, attempt.task, mode.machine)
        key = (-rank if rank is not None else 0.0, mode.finish_s, mode.machine, mode.count)
        if best is None or key < best:
            best, chosen = key, mode
    return chosen


def _any_count(run: Run, task: int) -> bool:
    checkpoint = run.known.graph.description(task).recovery.checkpoint
    return checkpoint is None or checkpoint.nodes == "any"


def look_for_better(desk: Desk) -> None:
    """Let running attempts move to better machines (S3: opportunistic migration)."""
    every_s = desk.settings.better_every_s
    if every_s is None:
        return
    running = [
        attempt
        for attempt in list(desk.state.attempts.values())
        if attempt.stage == Stage.RUNNING and not attempt.cancelled and attempt.replaced_by is None
    ]
    for attempt in running:
        run = desk.state.runs[attempt.run]
        target = _best(desk, run, attempt)
        if target is None:
            continue
        here, there = time_left_s(desk, attempt), _time_there_s(desk, run, attempt, target)
        if here > 0 and (here - there) / here > _gain(desk, run, attempt.task):
            migrate(desk, attempt, target.machine, target.count, "better-machine")
    if desk.state.active:
        desk.emit(cm.SetTimer(timer=BETTER, at_s=desk.state.now + every_s))
