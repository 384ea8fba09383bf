"""A run whose graph grows: a sweep over the lines of a file is unfolded when the file exists.

The workflow is unfolded again with the lines in place. Tasks are found again by name, with all that is known
of them; everything else starts as waiting or ready. A file without lines unfolds nothing: what was to be done
with them is left out, which is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.engine.state.loops import Body
from weft.engine.state.plans import RunPlan
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import FINAL, TaskState
from weft.workflow.growth import with_lines
from weft.workflow.unfolding.unfold import unfold

__all__ = ["grow"]

_KEPT = (
    "tries",
    "failures",
    "migrations",
    "checkpoint",
    "outcome",
    "left_behind",
    "grown",
    "requeued",
    "requirements",
    "avoid",
    "attempt_of",
)
"""What is kept by task and moves to the task's new index."""


def grow(state: State, index: int, lines: Mapping[str, Sequence[str]]) -> None:
    """Unfold what waited for some files, and go on with the larger graph."""
    old = state.runs[index]
    lines = {file: found for file, found in lines.items() if found}
    if not lines or old.ending or old.stopping:
        return
    workflow = with_lines(old.known.graph.workflow, lines)
    known = state.library.grown(old.known, unfold(workflow))
    new = Run(
        index,
        known,
        state.order,
        owner=old.owner,
        now=old.arrival_s,
        planned=old.planned,
        promise=state.machines.promise,
    )
    if old.promises is not None:
        old.promises.withdraw()
    place = {name: task for task, name in enumerate(known.names)}
    moved = {task: place[name] for task, name in enumerate(old.known.names) if name in place}
    for attempt in [each for each in state.attempts.values() if each.run == index]:
        if attempt.task not in moved:
            # It was sent ahead to where the one task was planned that stood for many.
            state.close(attempt)
    new.lines = {**old.lines, **{file: tuple(found) for file, found in lines.items()}}
    _carry_over(old, new, moved)
    _count_missing(new)
    new.promise_all()
    for attempt in state.attempts.values():
        if attempt.run == index:
            attempt.task = moved[attempt.task]
            attempt.sent_for = frozenset(moved[task] for task in attempt.sent_for)
    state.runs[index] = state.active[index] = new
    state.roster += 1


def _carry_over(old: Run, new: Run, moved: Mapping[int, int]) -> None:
    for name in _KEPT:
        getattr(new, name).update(
            {moved[task]: value for task, value in getattr(old, name).items() if task in moved}
        )
    new.reopened.update(moved[task] for task in old.reopened if task in moved)
    for task, place in moved.items():
        new.where[place] = old.where[task]
        new.state[place] = old.state[task]
    new.version, new.failed = old.version + 1, old.failed
    new.stopping, new.plan_wanted, new.plan_asked_s = old.stopping, old.plan_wanted, old.plan_asked_s
    names = {name: variable for variable, name in enumerate(new.known.graph.variables)}
    for variable, machine in old.binding.items():
        found = names.get(old.known.graph.variables[variable])
        if found is not None:
            new.binding[found] = machine
    for body in new.loops.bodies:
        before = next((other for other in old.loops.bodies if _same(old, other, new, body)), None)
        if before is not None:
            body.iteration, body.left = before.iteration, before.left
    if old.plan is not None:
        # It says nothing of the new tasks; those it knows keep their lines.
        new.plan = RunPlan(old.plan.stored, new.known, old.plan.key, new.loops.iteration)


def _same(old: Run, before: Body, new: Run, body: Body) -> bool:
    return (
        before.loop.name == body.loop.name
        and old.known.names[before.lasts[0]] == new.known.names[body.lasts[0]]
    )


def _count_missing(run: Run) -> None:
    """Count what every task still waits for, and sort the tasks without an attempt into ready and waiting."""
    known, loops = run.known, run.loops
    run.unfinished = sum(1 for state in run.state if state not in FINAL)
    run.list_ready([])
    for task in range(len(run)):
        missing = 0
        for predecessor in known.before(task):
            held = loops.held_back_by(predecessor, task)
            done = run.state[predecessor] in _RELEASED and (held is None or loops.bodies[held].left)
            missing += not done
        run.missing[task] = missing
        if run.state[task] == TaskState.COMPLETED:
            run.order.completed(task)
    for task in range(len(run)):
        if run.state[task] in (TaskState.WAITING, TaskState.READY):
            run.state[task] = TaskState.WAITING
            run.make_ready_or_waiting(task)
            begun = any(run.state[before] == TaskState.COMPLETED for before in known.before(task))
            if run.planned and begun and run.state[task] == TaskState.WAITING:
                run.early.add(task)


_RELEASED = frozenset({TaskState.COMPLETED, TaskState.SKIPPED})
