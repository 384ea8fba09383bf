"""What a journal says was commanded and never answered: a world that takes over is told it again.

Commands are idempotent, so it does no harm to tell a world what it has begun already (design section 4).
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.engine.engine import Engine
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.state import State

__all__ = ["Unanswered", "wanted_plans"]

_Key = tuple[str, int, int]


class Unanswered:
    """Hears of every entry, and keeps the commands that still wait for their answer."""

    def __init__(self) -> None:
        self._open: dict[_Key, cm.Command] = {}
        self.assigned: dict[int, cm.Assign] = {}
        """The assignments of attempts that are not over."""

    def hear(self, entry: Entry) -> None:
        """Take an entry in."""
        self._answer(entry.event)
        for command in entry.commands:
            self._command(command)

    def _command(self, command: cm.Command) -> None:
        match command:
            case cm.Assign():
                self.assigned[command.attempt] = command
            case cm.StageIn():
                self._open["in", command.attempt, command.part] = command
            case cm.Start():
                self._open["start", command.attempt, 0] = command
            case cm.Cancel():
                self._open["cancel", command.attempt, 0] = command
            case cm.StageOut():
                self._open["out", command.attempt, 0] = command
            case cm.CleanUp():
                self._open["clean", command.attempt, 0] = command

    def _answer(self, event: ev.Event) -> None:
        match event:
            case ev.StagedIn():
                self._open.pop(("in", event.attempt, event.part), None)
            case ev.Ended():
                self._open.pop(("start", event.attempt, 0), None)
                self._open.pop(("cancel", event.attempt, 0), None)
            case ev.StagedOut():
                self._open.pop(("out", event.attempt, 0), None)
            case ev.CleanedUp():
                self._open.pop(("clean", event.attempt, 0), None)

    def commands(self, engine: Engine) -> list[cm.Command]:
        """List what is still wanted, in the order in which it was commanded, assignments first."""
        live = engine.state.attempts
        for number in [number for number in self.assigned if number not in live]:
            del self.assigned[number]
        kept = [command for (_, attempt, _), command in self._open.items() if attempt in live]
        return [*self.assigned.values(), *kept]


def wanted_plans(state: State) -> Iterable[cm.Replan]:
    """List the plans that were asked for and have not come."""
    for run in state.active.values():
        if run.plan_wanted:
            yield cm.Replan(run=run.index, version=run.version, reason="" if run.plan else "submitted")
