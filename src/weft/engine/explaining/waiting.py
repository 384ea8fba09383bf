"""What a task waits for, in words; "" for a task that runs."""

from __future__ import annotations

from collections.abc import Iterator

from weft.engine.explaining.candidates import candidates_of
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import FINAL, TaskState
from weft.units import counted

__all__ = ["standstill", "waits_for"]

_NAMED = 4
"""How many things of one kind are named before the rest is counted."""

_LOOKED_AT = 100
"""How many tasks of a run are looked at that does not go on."""


def waits_for(state: State, run: Run, task: int) -> list[str]:
    """Say what a task waits for; nothing: it runs, or is over."""
    match TaskState(run.state[task]):
        case TaskState.WAITING:
            return _predecessors(run, task)
        case TaskState.READY:
            return _machines(state, run, task)
        case TaskState.HELD:
            return ["somebody to release it"]
        case TaskState.STOPPED:
            return ["the user to resume it: its retries are used up"]
        case TaskState.SUSPENDED:
            return ["the machine's own system to let it go on"]
        case _:
            number = run.attempt_of.get(task)
            attempt = state.attempts.get(number) if number is not None else None
            return [] if attempt is None else _attempt(state, run, attempt)


def _predecessors(run: Run, task: int) -> list[str]:
    found = []
    for predecessor in run.known.before(task):
        held = run.loops.held_back_by(predecessor, task)
        if run.state[predecessor] not in FINAL:
            found.append(f"{run.name(predecessor)}, which is {_word(run, predecessor)}")
        elif held is not None and not run.loops.bodies[held].left:
            body = run.loops.bodies[held]
            found.append(f"loop {body.loop.name}, which is in iteration {body.iteration}")
    return _some(list(dict.fromkeys(found)))


def _machines(state: State, run: Run, task: int) -> list[str]:
    """Say why no machine takes a ready task; where one would, the policy has not chosen it."""
    if run.planned and run.plan is None:
        return ["a plan"] if run.plan_wanted else ["a plan, which could not be made"]
    judged = candidates_of(state, run, task)
    if any(candidate.possible for candidate in judged):
        names = ", ".join(candidate.machine for candidate in judged if candidate.possible)
        return [f"the policy's choice: there is room on {names}"]
    reasons: dict[str, list[str]] = {}
    for candidate in judged:
        reasons.setdefault(candidate.refusals[0].text, []).append(candidate.machine)
    return [f"a machine: {', '.join(_some(names))}: {text}" for text, names in reasons.items()]


def _attempt(state: State, run: Run, attempt: Attempt) -> list[str]:
    if attempt.stage in (Stage.SUBMITTED, Stage.STAGING_OUT):
        where = state.machines[attempt.machine].name
        return [f"{where} to {'start it' if attempt.stage == Stage.SUBMITTED else 'bring its outputs'}"]
    if attempt.stage != Stage.ASSIGNED:
        return []
    machine = state.machines[attempt.machine]
    found = []
    old = state.attempts.get(attempt.replaces) if attempt.replaces is not None else None
    if old is not None:
        found.append(f"attempt {old.number} on {state.machines[old.machine].name} to be out of the way")
    if run.missing[attempt.task]:
        found += _predecessors(run, attempt.task)
    if attempt.staging:
        found.append(f"data on the way to {machine.name}")
    if not found and attempt.queued:
        before = sum(1 for turn in machine.queue if turn < attempt.turn)
        room = f"{machine.free_nodes} of {machine.nodes} nodes are free, it needs {attempt.nodes}"
        found.append(f"its turn on {machine.name}: {before} before it in the queue, {room}")
    return found


def standstill(state: State) -> list[str]:
    """Say of every run that is not over which tasks wait for what; for runs in which nothing will happen."""
    return [line for run in state.active.values() for line in _standing(state, run)]


def _standing(state: State, run: Run) -> Iterator[str]:
    left = [task for task, value in enumerate(run.state) if value not in FINAL]
    # What waits for another task of the run is not the reason: it would go on by itself.
    stuck = [task for task in left if run.state[task] != TaskState.WAITING] or left
    groups: dict[tuple[str, str], list[str]] = {}
    for task in stuck[:_LOOKED_AT]:
        reasons = "; ".join(waits_for(state, run, task)) or "nothing that is known"
        groups.setdefault((_word(run, task), reasons), []).append(run.name(task))
    for (word, reasons), names in groups.items():
        wait = "waits" if len(names) == 1 else "wait"
        yield f"run {run.index}: {', '.join(_some(names))} ({word}) {wait} for {reasons}"
    rest = len(left) - min(len(stuck), _LOOKED_AT)
    if rest:
        yield f"run {run.index}: {counted(rest, 'more task')} not ended"


def _word(run: Run, task: int) -> str:
    return TaskState(run.state[task]).name.lower()


def _some(names: list[str]) -> list[str]:
    rest = len(names) - _NAMED
    return [*names[:_NAMED], f"{rest} more"] if rest > 1 else names
