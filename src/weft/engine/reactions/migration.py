"""Migration of a task to another machine, in the order of docs/papers/adaptive-jobs.md, section 4.

1. The running attempt is cancelled. 2. The new machine is prepared, restart files included. 3. The files of
the old attempt are removed; no outputs are copied. 4. The new attempt starts. The nodes of the new machine
are reserved when the migration is decided (gap G6). The new attempt starts even if the clean-up fails (G8); a
machine that is down is not cleaned up.

A task without a new machine, or whose new machine is lost during the migration, waits without nodes. Its
files stay where they are (``left_behind``), and steps 2 to 4 follow when the task is placed again.

Whether and where an attempt migrates depends on the reason for the migration (section 1). By default an
attempt leaves a slow machine only if this saves a required share of its remaining time; the time for the move
is taken into account. The required share grows with every migration of the task. With ``migrate: always`` the
attempt moves to the best free machine, as in both papers. If an attempt must leave and no machine is free,
its task waits without nodes and keeps its restart files (section 4).

The remaining time on another machine depends on how much work the restart files save with the node count on
that machine. With ``nodes: any`` restart files can be used on any node count. Otherwise a task keeps its node
count or starts from zero, whichever ends sooner.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.engine import messages
from weft.engine.context import DecisionContext
from weft.engine.reactions.staging import request_data
from weft.engine.selection import estimate_work_done, spared_share, spared_share_if_ended
from weft.engine.state.machines import MachineState
from weft.engine.state.run import RunState
from weft.engine.states import (
    MANDATORY_REASONS,
    Attempt,
    Cause,
    MigrationReason,
    Stage,
    TaskState,
    TimerKind,
)
from weft.engine.view import EngineView
from weft.policies.policy import Mode


def migrate_attempt(
    context: DecisionContext, attempt: Attempt, machine: int, count: int, reason: str
) -> None:
    """Start the migration of an attempt to another machine or node count."""
    state = context.state
    run = state.runs[attempt.run]
    task = attempt.task
    nodes = run.compiled.options(task).nodes[machine, count]
    fits = state.machines.fits(machine, nodes, run.demand(task, machine, count))
    new = state.next_attempt
    begun = attempt.stage != Stage.ASSIGNED or attempt.staged_in
    if begun:
        context.emit(messages.Cancel(attempt=attempt.number, machine=attempt.machine, reason=reason))
    context.emit(
        messages.Assign(
            attempt=new,
            run=run.index,
            task=task,
            machine=machine,
            nodes=nodes,
            count=count,
            reserve=machine != attempt.machine and fits,
            order=attempt.order,
            replaces=attempt.number,
            restart_from=spared_share(run, task, count),
            reason=reason,
        )
    )
    rebind_members(context, run, task, machine)
    if not begun:
        context.emit(messages.CloseAttempt(attempt=attempt.number))
        request_data(context, state.attempts[new], first=True)


def await_machine(context: DecisionContext, attempt: Attempt, machine: int, count: int) -> None:
    """Let a running attempt migrate to a busy machine as soon as enough nodes are free there."""
    nodes = context.state.runs[attempt.run].compiled.options(attempt.task).nodes[machine, count]
    name = context.state.machines[machine].name
    context.emit(
        messages.AwaitMachine(
            run=attempt.run,
            task=attempt.task,
            attempt=attempt.number,
            machine=machine,
            count=count,
            reason=f"it moves when {nodes} nodes of {name} are free" if nodes > 1
            else f"it moves when a node of {name} is free",
        )
    )  # fmt: skip


def admit_awaited(context: DecisionContext, machine: MachineState) -> Iterator[RunState]:
    """Migrate the attempts that wait for a machine, in order, while they fit; yield the run of each."""
    state = context.state
    for number in list(machine.awaited_by):
        attempt = state.attempts[number]
        run, count = state.runs[attempt.run], attempt.awaited_count
        nodes = run.compiled.options(attempt.task).nodes[machine.index, count]
        if not state.machines.fits(machine.index, nodes, run.demand(attempt.task, machine.index, count)):
            return
        migrate_attempt(context, attempt, machine.index, count, MigrationReason.USER)
        yield run


def rebind_members(context: DecisionContext, run: RunState, task: int, machine: int | None) -> None:
    """Reopen tasks of the same abstract machine that are assigned to a machine other than ``machine``.

    Tasks that have started are not reopened, nor is ``task`` itself. ``machine`` is the new machine of the
    abstract machine; if it is None, the new machine is not chosen yet and all these tasks are reopened.
    """
    variable = run.compiled.variable[task]
    if not run.compiled.shared[variable]:
        return
    for member in run.members(variable):
        other = context.state.attempt_of(run, member)
        if other is None or other.cancelled or member == task or other.machine == machine:
            continue
        if other.stage == Stage.ASSIGNED and run.state[member] in (TaskState.SCHEDULED, TaskState.PROLOG):
            if other.staging:
                context.cancel(other, "its abstract machine moved")
            else:
                context.reopen(run, member, "its abstract machine moved")


def prepare_successor(context: DecisionContext, old: Attempt) -> None:
    """Step 2: request the data of the new attempt after the old attempt has ended."""
    if (new := context.state.find_attempt(old.replaced_by)) is None:
        _discard_attempt(context, old)
    elif not is_prepared(context, new):
        request_data(context, new, first=True)
        if not new.staging:
            clean_up_or_close(context, new)


def is_prepared(context: DecisionContext, new: Attempt) -> bool:
    """Return whether data may be requested for an attempt as soon as the data exist.

    For the new attempt of a migration this is the case after ``prepare_successor``, which makes the first
    request when the old attempt has ended.
    """
    old = context.state.find_attempt(new.replaces)
    return old is None or old.stage == Stage.CLEANING or new.parts > 0


def clean_up_or_close(context: DecisionContext, new: Attempt) -> None:
    """Step 3: clean up or close the old attempt after the new machine is prepared."""
    old = context.state.find_attempt(new.replaces)
    if old is not None and old.stage == Stage.ENDED:
        _discard_attempt(context, old)


def _discard_attempt(context: DecisionContext, old: Attempt) -> None:
    left_something = old.started_s is not None or old.staged_in
    if left_something and context.state.machines[old.machine].up:
        context.emit(messages.CleanUp(attempt=old.number, machine=old.machine))
    else:
        context.emit(messages.CloseAttempt(attempt=old.number))


def settle_cancelled(context: DecisionContext, run: RunState, attempt: Attempt) -> None:
    """Cancel, hold or reopen a task whose attempt was cancelled and that has no new attempt yet."""
    task = attempt.task
    if run.stopping:
        context.settle(run, task, TaskState.CANCELLED, reason=run.stopping)
    elif attempt.cancelled == "held":
        context.settle(run, task, TaskState.HELD, reason="held by the user")
    else:
        context.reopen(run, task, attempt.cancelled, keep=attempt.started_s is not None)


def cancel_migration(context: DecisionContext, run: RunState, new: Attempt, old: Attempt) -> None:
    """Cancel a migration whose new machine is lost; the task waits again, and its files are kept."""
    name = context.state.machines[new.machine].name
    context.emit(
        messages.ReportTargetLoss(
            run=run.index,
            task=new.task,
            attempt=old.number,
            machine=new.machine,
            reason=f"{name} was lost before the task got there",
        )
    )
    context.emit(messages.RevertMigration(attempt=old.number))
    if old.stage == Stage.ENDED:
        settle_cancelled(context, run, old)


def clean_up_leftovers(context: DecisionContext, run: RunState) -> None:
    """Clean up the attempts of a run whose files were kept for a next attempt that will not follow."""
    for number in list(run.left_behind.values()):
        _discard_attempt(context, context.state.attempts[number])


_MAX_GAIN = 0.95

_MAX_LOAD_ERROR = 1.5
"""Largest ratio of measured to true speed that counts as an error of the measurement of a machine's load."""


def relocate_attempt(
    context: DecisionContext,
    attempt: Attempt,
    reason: str,
    *,
    behind: float | None = None,
    requested: bool = False,
) -> None:
    """Migrate an attempt if the reason is mandatory or the move saves enough time.

    ``behind`` is the ratio of the attempt (``contracts.compute_ratio``); None: unknown. If ``requested`` is
    true, the program has requested another machine: the attempt then moves if a machine is free, regardless
    of settings and estimates.
    """
    if attempt.awaited_machine is not None:
        return  # the user has chosen where it goes
    run = context.state.runs[attempt.run]
    must, settings = reason in MANDATORY_REASONS, run.settings_of(attempt.task)
    if not must and not requested and settings.migrate == "never":
        return
    allowed = context.max_retries(run, attempt.task, Cause.CONTRACT)
    if (
        reason == MigrationReason.PERFORMANCE
        and run.facts_of(attempt.task).failures.get(Cause.CONTRACT, 0) >= allowed
    ):
        _record_stay(context, attempt, reason, f"it has moved {allowed} times for that")
        return
    if (found := find_best_mode(context, run, attempt, behind)) is None:
        if must:
            context.cancel(attempt, reason)
        else:
            accepted = run.facts_of(attempt.task).order is not None
            what = "no other machine that its selector accepts" if accepted else "no other machine for it"
            _record_stay(context, attempt, reason, f"{what} is free")
        return
    target, there_s = found
    if (
        must
        or requested
        or settings.migrate == "always"
        or is_worth_moving(context, attempt, reason, there_s, behind=behind)
    ):
        migrate_attempt(context, attempt, target.machine, target.count, reason)


def is_worth_moving(
    context: DecisionContext, attempt: Attempt, reason: str, there_s: float, *, behind: float | None = None
) -> bool:
    """Return whether a move saves enough time; if not, record that the attempt stays.

    ``there_s``: estimated seconds on the other machine, including the move. ``behind``: ratio of the attempt
    (``contracts.compute_ratio``); None: unknown.
    """
    here_s = time_left_s(context, attempt, behind)
    wanted = _required_gain(context.state.runs[attempt.run], attempt.task)
    if there_s < (1.0 - wanted) * here_s:
        return True
    text = f"{here_s:.6g} s left here, {there_s:.6g} s there: less than {wanted:.0%} saved"
    _record_stay(context, attempt, reason, text)
    return False


def _required_gain(run: RunState, task: int) -> float:
    """Return the share of the remaining time that a migration must save; it grows with each migration."""
    settings = run.settings_of(task)
    return min(_MAX_GAIN, settings.gain * settings.gain_growth ** run.facts_of(task).migrations)


def _record_stay(context: DecisionContext, attempt: Attempt, reason: str, text: str) -> None:
    context.emit(
        messages.KeepAttempt(
            run=attempt.run, task=attempt.task, attempt=attempt.number, reason=f"{reason}: {text}"
        )
    )


def time_left_s(context: DecisionContext, attempt: Attempt, behind: float | None = None) -> float:
    """Return the estimated remaining seconds of an attempt on its machine.

    The estimate uses the speed of the attempt or the estimated speed of the machine, whichever is lower. The
    speed of the attempt follows from its ratio ``behind`` (``contracts.compute_ratio``); None: unknown.
    """
    state = context.state
    machine = state.machines[attempt.machine]
    pace = _pace_here(machine, behind)
    whole = 1.0 - attempt.restart_from
    if attempt.started_s is None or whole <= 0.0:
        return attempt.seconds * pace
    passed_s = state.now - attempt.started_s - machine.delay_s(attempt, state.now)
    late_s = passed_s - attempt.seconds / machine.speed_factor
    if attempt.work_done is None and late_s > 0.0:
        # Only the delay is known, and it is the only measure of how wrong the estimate is: assume that the
        # program takes as long again as it is late.
        return late_s
    return (1.0 - estimate_work_done(state, attempt)) / whole * attempt.seconds * pace


def _pace_here(machine: MachineState, behind: float | None) -> float:
    """Return the factor by which an attempt takes longer than estimated.

    It is the larger of the machine's factor and the attempt's own factor, 1 + ``behind``. If ``behind`` is
    None, only the machine's factor is known.
    """
    pace = machine.crowding() / machine.speed_factor
    return pace if behind is None else max(pace, 1.0 + behind)


def _speed_there(here: MachineState, there: MachineState, behind: float | None) -> float:
    """Return the speed factor that an attempt on machine ``here`` would have on machine ``there``.

    If programs other than weft's tasks load both machines, it follows from the measured load of ``there``.
    The progress of the attempt shows the error of the measurement on ``here``, and the same error is assumed
    on ``there``. But if the attempt is slower than the load explains by more than ``_MAX_LOAD_ERROR``, the
    rest is the slowness of ``here``, and the measured speed of ``there`` is not corrected.
    """
    loaded = all(each.measured.load is not None and each.measured_factor < 1.0 for each in (here, there))
    if not loaded or there.learned_factor < 1.0:
        return there.speed_factor
    missed = here.measured_factor * _pace_here(here, behind) / here.crowding()
    if missed > _MAX_LOAD_ERROR:
        return there.measured_factor
    return min(1.0, there.measured_factor / missed)


def find_best_mode(
    context: DecisionContext, run: RunState, attempt: Attempt, behind: float | None = None
) -> tuple[Mode, float] | None:
    """Return the best free mode of a task on another machine, and its estimated seconds; None: no such mode.

    Modes are compared by the task's rank for their machine, then by the estimated seconds, which include the
    move. Modes without a rank come last. If a selector program has answered, its order of machines replaces
    the rank.
    """
    order = run.facts_of(attempt.task).order
    view = EngineView(context.state)
    seen = view.run(run.index)
    modes = view.modes(seen, attempt.task, but=attempt.machine, rebind=True, among=order)
    best: tuple[bool, float, float, int, int] | None = None
    chosen = None
    for mode in modes:
        if mode.machine == attempt.machine:
            continue
        rank = view.rank(seen, attempt.task, mode.machine) if order is None else -order.index(mode.machine)
        there_s = _time_there_s(context, run, attempt, mode, behind)
        key = (rank is None, -(rank or 0.0), there_s, mode.machine, mode.count)
        if best is None or key < best:
            best, chosen = key, (mode, there_s)
    return chosen


def _time_there_s(
    context: DecisionContext, run: RunState, attempt: Attempt, mode: Mode, behind: float | None
) -> float:
    """Return the estimated seconds of an attempt in another mode, for staging, restart and remaining work."""
    state, task = context.state, attempt.task
    share = spared_share_if_ended(state, run, attempt, mode.count)
    seconds = run.compiled.seconds(task, mode.machine, mode.count) * (1.0 - share)
    files = run.facts_of(task).restart_files
    source = attempt.machine if files is None else files.machine
    files_s = (
        run.instance.link_s(source, mode.machine, run.compiled.restart_bytes(task), 1.0, 0.0)
        if share
        else 0.0
    )
    moving_s = mode.ready_s - state.now + files_s + run.settings_of(task).restart_cost_s
    speed = _speed_there(state.machines[attempt.machine], state.machines[mode.machine], behind)
    return moving_s + seconds / speed


def move_to_better_machines(context: DecisionContext) -> None:
    """Migrate running attempts to other machines if they end sufficiently earlier there.

    The papers call this opportunistic migration.
    """
    state = context.state
    if (tick_s := state.search_interval_s) is None:
        return
    for attempt in list(state.attempts.values()):
        run = state.runs[attempt.run]
        settings = run.settings_of(attempt.task)
        if attempt.stage != Stage.RUNNING or attempt.cancelled or settings.migrate == "never":
            continue
        if attempt.awaited_machine is not None:
            continue
        if run.facts_of(attempt.task).migrations >= settings.migration_limit:
            continue
        until_s = settings.better_until_s
        if until_s is not None and state.now - (attempt.started_s or 0.0) >= until_s:
            continue
        if not _is_search_due(attempt, settings.better_every_s, tick_s, state.now):
            continue
        found = find_best_mode(context, run, attempt)
        here = time_left_s(context, attempt)
        if found is not None and here > 0.0 and (here - found[1]) / here > _required_gain(run, attempt.task):
            migrate_attempt(
                context, attempt, found[0].machine, found[0].count, MigrationReason.BETTER_MACHINE
            )
    if state.active:
        context.set_timer(TimerKind.BETTER, state.now + tick_s)


def _is_search_due(attempt: Attempt, every_s: float | None, tick_s: float, now_s: float) -> bool:
    """Return whether to search for a better machine for an attempt now; never if ``every_s`` is None.

    The timer fires every ``tick_s``, the shortest search interval of all tasks. An attempt with a longer
    interval ``every_s`` is due when the timer fires for the first time after another ``every_s`` has passed
    since the start of the attempt.
    """
    if every_s is None:
        return False
    if every_s <= tick_s:
        return True
    passed_s = now_s - (attempt.started_s or 0.0)
    return passed_s // every_s > (passed_s - tick_s) // every_s
