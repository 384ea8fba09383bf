"""Telling: what an entry of a journal says about one task, in words."""

from __future__ import annotations

from collections.abc import Iterator

from weft.engine.deciding.failing import asks_to_run_again
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.state import State

__all__ = ["told"]

_TOLD = ("stay", "violation", "refused", "requirement", "too-late")
"""Notes that say something to those who ask about a task."""


def told(state: State, entry: Entry, run: int, task: int, attempts: set[int]) -> Iterator[tuple[int, str]]:
    """Tell what an entry says about a task: the command's position (-1: the event) and a sentence.

    ``attempts`` are those of the task so far; new ones are added to it.
    """
    number = getattr(entry.event, "attempt", None)
    if number is not None and number in attempts:
        text = _event(entry.event)
        if text:
            yield -1, text
    for position, command in enumerate(entry.commands):
        if isinstance(command, cm.Assign) and (command.run, command.task) == (run, task):
            attempts.add(command.attempt)
        mine = (getattr(command, "run", -1), getattr(command, "task", -1)) == (run, task)
        if mine or getattr(command, "attempt", -1) in attempts:
            text = _command(state, command)
            if text:
                yield position, text


def _event(event: ev.Event) -> str:
    match event:
        case ev.Started():
            return "its program began"
        case ev.Ended(story=story) as ended if story and asks_to_run_again(ended):
            return f"its program was ended: {story}"
        case ev.Ended(exit_code=code, cause=cause):
            why = cause or ("no exit code" if code is None else f"exit code {code}")
            return f"its program ended: {why}"
        case ev.StagedIn(problem=problem):
            return f"data did not come: {problem}" if problem else "its data came"
        case ev.Checkpointed(work_done=done):
            return f"it wrote restart files at {done:.0%} of the work"
        case ev.Suspended():
            return "the machine's own system stopped it for a while"
        case ev.Resumed():
            return "the machine's own system let it go on"
        case ev.RequirementsChanged(requirements=requirement, rank=rank):
            named = (("requirement", requirement), ("rank", rank))
            said = [f"{name} {text or 'none'}" for name, text in named if text is not None]
            return f"it changed what it demands: {', '.join(said)}" if said else ""
        case ev.Progressed(work_done=done) if done is not None:
            return f"it reported {done:.0%} of the work"
        case _:
            return ""


def _command(state: State, command: cm.Command) -> str:
    match command:
        case cm.Assign():
            machine = state.machines[command.machine].name
            how = "bound to" if command.reserve else "sent to the queue of"
            why = f" ({command.reason})" if command.reason else ""
            saved = f", from {command.restart_from:.0%} of the work" if command.restart_from else ""
            return f"attempt {command.attempt}: {how} {machine}{why}{saved}"
        case cm.StageIn(parcels=parcels):
            return f"data were sent for ({len(parcels)})"
        case cm.Start():
            return f"attempt {command.attempt}: {state.machines[command.machine].name} was told to start it"
        case cm.Cancel(reason=reason):
            return f"attempt {command.attempt} was cancelled: {reason}"
        case cm.Settle():
            why = f": {command.reason}" if command.reason else ""
            return f"it became {command.state.lower()}{why}"
        case cm.Return():
            return "its migration was called off"
        case cm.CleanUp():
            return f"attempt {command.attempt}: what it left was cleaned up"
        case cm.Note(kind=kind, text=text) if kind in _TOLD:
            value = f" ({command.value:.2f})" if command.value is not None else ""
            return f"{kind}{value}{': ' if text else ''}{text}"
        case _:
            return ""
