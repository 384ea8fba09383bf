"""Running completed tasks again: because their outputs are lost, or because a paper says so.

Outputs stay where they were made. If that machine no longer answers when somebody needs them, the task that
made them runs again, and so on backwards as far as data are missing (spec s1 gap G13: the default). With
``bound_ancestors: always`` (preset ``s1``) a failed task also takes the completed tasks of its abstract
machine along, as S1 section 10 prints it: their files lived only there.
"""

from __future__ import annotations

from collections.abc import Container

from weft.engine.desk import Desk
from weft.engine.messages.commands import Cancel, Settle
from weft.engine.state.attempt import Attempt
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState

__all__ = ["bound_ancestors", "rerun_bound_ancestors", "rerun_lost"]


def rerun_lost(desk: Desk, attempt: Attempt, machines: Container[int]) -> bool:
    """Run again the tasks whose outputs an attempt cannot have; say whether there were any."""
    run = desk.state.runs[attempt.run]
    lost = [
        before
        for before in run.known.before(attempt.task)
        if run.state[before] == TaskState.COMPLETED and run.where[before] in machines
    ]
    if not lost:
        return False
    desk.emit(Cancel(attempt=attempt.number, machine=attempt.machine, reason="its inputs are lost"))
    _settle(desk, run, attempt.task, "its inputs are lost")
    for task in lost:
        name = desk.state.machines[run.where[task]].name
        _settle(desk, run, task, f"its outputs were on {name}, which is lost")
    return True


def rerun_bound_ancestors(desk: Desk, run: Run, task: int) -> None:
    """Run again what comes before a failed task on its abstract machine, if the settings say so."""
    if desk.settings.bound_ancestors == "always":
        for before in bound_ancestors(run, task):
            _settle(desk, run, before, f"its abstract machine moves with {run.name(task)}, which failed")


def bound_ancestors(run: Run, task: int) -> list[int]:
    """List the completed ancestors of a task that are tied to the same abstract machine, in order."""
    known = run.known
    variable = known.variable[task]
    if not known.shared[variable]:
        return []
    members = {member for member in run.members(variable) if run.state[member] == TaskState.COMPLETED}
    found: set[int] = set()
    seen = {task}
    stack = [task]
    while stack and members - found:
        for before in known.before(stack.pop()):
            if before not in seen:
                seen.add(before)
                stack.append(before)
                if before in members:
                    found.add(before)
    return sorted(found)


def _settle(desk: Desk, run: Run, task: int, reason: str) -> None:
    state = "WAITING" if run.missing[task] else "READY"
    desk.emit(Settle(run=run.index, task=task, state=state, reason=reason, again=True))
