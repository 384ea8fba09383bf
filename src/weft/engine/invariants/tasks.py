"""The tasks of a run: states and attempts tell the same, and what is counted is what is there (I1, I3)."""

from __future__ import annotations

from collections.abc import Container

from weft.engine.indexes.unfinished import Unfinished
from weft.engine.invariants.broken import demand, story_of_task
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import ACTIVE, FINAL, TaskState
from weft.workflow.unfolding.task_graph import VIRTUAL

__all__ = ["check_run"]

_S = TaskState

_STAGES: dict[TaskState, tuple[Stage, ...]] = {
    _S.SCHEDULED: (Stage.ASSIGNED,),
    _S.PROLOG: (Stage.ASSIGNED,),
    _S.SUBMITTED: (Stage.SUBMITTED,),
    _S.RUNNING: (Stage.RUNNING,),
    _S.EPILOG: (Stage.STAGING_OUT,),
    _S.MIGRATING: (Stage.ASSIGNED,),
    _S.SUSPENDED: (Stage.SUBMITTED, Stage.RUNNING),
}
"""How far the attempt of a task can be, by the state of the task."""

_BEGUN = (Stage.SUBMITTED, Stage.RUNNING, Stage.ENDED, Stage.STAGING_OUT)


def check_run(state: State, run: Run) -> None:
    """Check everything of one run; O(tasks + edges)."""
    for task in range(len(run)):
        _check_attempt(state, run, task)
        if run.state[task] not in FINAL:
            missing = _missing(run, task)
            demand(
                run.missing[task] == missing,
                f"{missing} predecessors are missing, but {run.missing[task]} are counted",
                story_of_task(state, run, task),
            )
    _check_counts(state, run)
    _check_bindings(state, run)


def _check_attempt(state: State, run: Run, task: int) -> None:
    """A task that is under way has a live attempt, no other has one, and both are equally far."""
    place, number = TaskState(run.state[task]), run.attempt_of.get(task)
    attempt = state.attempts.get(number) if number is not None else None
    demand(
        (place in ACTIVE) == (number is not None),
        "a task has an attempt exactly while it is under way",
        story_of_task(state, run, task),
    )
    if number is None:
        if place is _S.WAITING:
            demand(run.missing[task] > 0, "a waiting task waits", story_of_task(state, run, task))
        elif place is _S.READY:
            demand(run.missing[task] == 0, "a ready task misses nothing", story_of_task(state, run, task))
        return
    demand(attempt is not None, "the attempt of a task is known", story_of_task(state, run, task))
    assert attempt is not None
    demand(
        (attempt.run, attempt.task) == (run.index, task),
        "the attempt of a task is its own",
        story_of_task(state, run, task),
    )
    demand(
        attempt.stage in _STAGES[place],
        f"an attempt cannot be {Stage(attempt.stage).name} while its task is {place.name}",
        story_of_task(state, run, task),
    )
    _check_progress(state, run, attempt, place)


def _check_progress(state: State, run: Run, attempt: Attempt, place: TaskState) -> None:
    """Nothing begins before its predecessors have ended and its data have come (I1)."""
    told = story_of_task(state, run, attempt.task)
    demand(attempt.replaced_by is None, "the attempt of a task is the last of them", told)
    if attempt.stage in _BEGUN:
        # Of a predecessor that runs again, what has begun already had the data of the first time.
        before = _missing(run, attempt.task, besides=run.reopened)
        demand(before == 0, "an attempt began before its predecessors ended", told)
        demand(attempt.staging == 0, "an attempt began before its data were there", told)
        demand(attempt.replaces not in state.attempts, "an attempt began beside the one before it", told)
    if place is _S.SCHEDULED:
        demand(attempt.staging == 0, "a task whose data are on the way is in its prolog", told)
    if place is _S.PROLOG:
        demand(attempt.staging > 0 or attempt.cancelled != "", "a prolog brings data", told)
    if place is _S.SUSPENDED:
        demand(attempt.suspended_since_s is not None, "a suspended task knows since when", told)


def _missing(run: Run, task: int, besides: Container[int] = ()) -> int:
    """Count the predecessors that hold a task up: not ended well, or in a loop that was not left."""
    missing = 0
    for predecessor in run.known.before(task):
        if predecessor in besides:
            continue
        held = run.loops.held_back_by(predecessor, task)
        left = held is None or run.loops.bodies[held].left
        if not left or run.state[predecessor] not in (_S.COMPLETED, _S.SKIPPED):
            missing += 1
    return missing


def _check_counts(state: State, run: Run) -> None:
    where = f"run {run.index} at {state.now} s"
    unfinished = sum(1 for place in run.state if place not in FINAL)
    demand(
        run.unfinished == unfinished, f"{unfinished} tasks have not ended, {run.unfinished} counted", where
    )
    failed = sum(1 for place in run.state if place == _S.FAILED)
    demand(run.failed == failed, f"{failed} tasks have failed, {run.failed} are counted", where)
    counted = Unfinished(run.known, (task for task, place in enumerate(run.state) if place not in FINAL))
    done_s = run.progress(state.attempts).done_s(state.now)
    slow_s = sum(_done_s(state, run, task) for task in run.attempt_of)
    demand(abs(done_s - slow_s) <= 1e-6 * (1.0 + slow_s), f"{slow_s} s are done, not {done_s}", where)
    demand(run.left.seconds == counted.seconds, f"{counted.seconds} s are left", where)
    first = counted.first(len(run))
    demand(run.left.first(len(run)) == first, f"{first} are left, but others are listed", where)
    ready = {task for task in run.tasks_in(_S.READY) if run.known.kind[task] != VIRTUAL}
    listed = set(run.ready)
    demand(listed == ready, f"the ready tasks are {sorted(ready)}, those listed {sorted(listed)}", where)
    heads = set(run.ready.heads())
    demand(heads <= ready, f"heads {sorted(heads)} of the ready tasks are not ready", where)
    kinds = {run.kind_of(task) for task in ready}
    demand(len(heads) == len(kinds), f"{len(kinds)} kinds of ready tasks have {len(heads)} heads", where)
    demand(
        all(run.state[task] == _S.WAITING for task in run.early),
        f"of the tasks {sorted(run.early)} that may be placed early some do not wait",
        where,
    )
    over = run.ending != ""
    demand((run.index in state.active) != over, "a run is active until it is over", where)
    left = unfinished > 0 and run.ending != "stopped"
    demand(not over or not (run.attempt_of or left), "a run that is over has nothing left", where)
    demand(over == (run.ended_s is not None), "a run that is over says since when", where)


def _done_s(state: State, run: Run, task: int) -> float:
    """Give what of its mean seconds a task has done, if it goes on as expected."""
    attempt = state.attempts[run.attempt_of[task]]
    if attempt.started_s is None or run.state[task] in FINAL:
        return 0.0
    share = (state.now - attempt.started_s) / (attempt.seconds or 1.0)
    return min(1.0, max(0.0, share)) * run.known.mean_seconds[task]


def _check_bindings(state: State, run: Run) -> None:
    """What shares an abstract machine and has not begun goes to one host (I3)."""
    for task, number in run.attempt_of.items():
        attempt, variable = state.attempts[number], run.known.variable[task]
        begun = attempt.stage != Stage.ASSIGNED or attempt.replaces is not None
        if not run.known.shared[variable] or attempt.cancelled or begun:
            # What has begun stays where it is, or goes where it is moved, when the others are bound anew.
            continue
        bound = run.binding.get(variable)
        demand(
            bound == attempt.machine,
            f"abstract machine {run.known.graph.variables[variable]!r} is bound to machine {bound}",
            story_of_task(state, run, task),
        )
