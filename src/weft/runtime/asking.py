"""What users ask from other shells, as the engine's own events, with an answer for each."""

from __future__ import annotations

from collections.abc import Sequence

from weft.engine.engine import Engine
from weft.engine.messages.events import Asked
from weft.errors import nearest
from weft.repository.requests import Request, Requests

__all__ = ["Asking"]

_WHATS = ("cancel", "hold", "release", "migrate", "resume")


class Asking:
    """Takes requests of this execution out of the database."""

    def __init__(self, requests: Requests, engine: Engine, execution: int) -> None:
        self._requests = requests
        self._engine = engine
        self._execution = execution

    def take(self) -> Sequence[Asked]:
        """Take what was asked since the last time; what makes no sense is answered, and asked of nobody."""
        found: list[Asked] = []
        for request in list(self._requests.pending()):
            if request.execution != self._execution:
                continue
            events, problem = self._events(request)
            self._requests.done(request.number, problem or "done", granted=not problem)
            found += events
        return found

    def _events(self, request: Request) -> tuple[list[Asked], str]:
        if request.what not in _WHATS:
            return [], f"{request.what}: not something that can be asked"
        runs = range(len(self._engine.state.runs)) if request.run is None else [request.run]
        found: list[Asked] = []
        for index in runs:
            if not 0 <= index < len(self._engine.state.runs):
                return [], "there is no such run in this execution"
            event, problem = self._event(request, index)
            if problem:
                return [], problem
            found.append(event)
        return found, ""

    def _event(self, request: Request, index: int) -> tuple[Asked, str]:
        state = self._engine.state
        run = state.runs[index]
        task, machine = None, None
        if run.ending:
            return Asked(what=request.what, run=index), f"the run is over ({run.ending})"
        if request.task is not None:
            names = run.known.names
            if request.task not in names:
                return Asked(what=request.what, run=index), _unknown("task", request.task, names)
            task = names.index(request.task)
        if request.machine is not None:
            machines = [each.name for each in state.machines]
            if request.machine not in machines:
                return Asked(what=request.what, run=index), _unknown("machine", request.machine, machines)
            machine = machines.index(request.machine)
        return Asked(what=request.what, run=index, task=task, machine=machine), ""


def _unknown(what: str, name: str, names: Sequence[str]) -> str:
    near = nearest(name, names)
    return f"there is no {what} {name!r}" + (f"; did you mean {near!r}?" if near else "")
