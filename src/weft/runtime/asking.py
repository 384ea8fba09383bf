"""What users ask from other shells, as the engine's own events, with an answer for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from weft.engine.engine import Engine
from weft.engine.journal import Entry
from weft.engine.messages.commands import Note
from weft.engine.messages.events import Asked
from weft.engine.state.run import Run
from weft.errors import nearest
from weft.repository.requests import Request, Requests

__all__ = ["Asking"]

_WHATS = ("cancel", "hold", "release", "migrate", "resume")
_OF_WHAT_IS_OVER = ("release", "resume")
"""What can be asked of a run that has stopped and waits for the user."""


class _Refused(Exception):
    """What is asked for makes no sense."""


class Asking:
    """Takes requests of this execution out of the database."""

    def __init__(self, requests: Requests, engine: Engine, execution: int) -> None:
        self._requests = requests
        self._engine = engine
        self._execution = execution
        self._taken: deque[tuple[int, Asked]] = deque()
        """Events that were taken and not decided yet, with the number of their request."""
        self._refusals: dict[int, str] = {}

    def take(self) -> Sequence[Asked]:
        """Take what was asked since the last time; what makes no sense is answered, and asked of nobody."""
        found: list[Asked] = []
        for request in list(self._requests.pending()):
            if request.execution != self._execution or any(
                number == request.number for number, _ in self._taken
            ):
                continue
            try:
                events = self._events(request)
            except _Refused as refusal:
                self._requests.done(request.number, str(refusal), granted=False)
                continue
            self._taken.extend((request.number, event) for event in events)
            found += events
        return found

    def decided(self, entry: Entry) -> None:
        """Answer a request when the last of its events was decided."""
        if not self._taken or self._taken[0][1] is not entry.event:
            return  # nobody's request: the engine was asked when it was started
        number, _ = self._taken.popleft()
        refusals = [note.text for note in entry.commands if isinstance(note, Note) and note.kind == "refused"]
        if refusals:
            self._refusals.setdefault(number, refusals[0])
        if not self._taken or self._taken[0][0] != number:
            refusal = self._refusals.pop(number, "")
            self._requests.done(number, refusal or "done", granted=not refusal)

    def _events(self, request: Request) -> list[Asked]:
        if request.what not in _WHATS:
            raise _Refused(f"{request.what}: not something that can be asked")
        runs = self._engine.state.runs
        if request.run is not None:
            if not 0 <= request.run < len(runs):
                raise _Refused("there is no such run in this execution")
            return self._events_of(request, runs[request.run])
        going_on = [run for run in runs if self._may_be_asked(request, run)]
        if not going_on:
            raise _Refused("all runs are over")
        return [event for run in going_on for event in self._events_of(request, run)]

    def _may_be_asked(self, request: Request, run: Run) -> bool:
        return not run.ending or (run.ending == "stopped" and request.what in _OF_WHAT_IS_OVER)

    def _events_of(self, request: Request, run: Run) -> list[Asked]:
        if not self._may_be_asked(request, run):
            raise _Refused(f"the run is over ({run.ending})")
        machine = None
        if request.machine is not None:
            machines = [each.name for each in self._engine.state.machines]
            if request.machine not in machines:
                raise _Refused(_unknown("machine", request.machine, machines))
            machine = machines.index(request.machine)
        if request.task is None:
            return [Asked(what=request.what, run=run.index, machine=machine)]
        tasks = _tasks(run, request.task)
        return [Asked(what=request.what, run=run.index, task=task, machine=machine) for task in tasks]


def _tasks(run: Run, name: str) -> list[int]:
    """Give the tasks of a name; the name of a description means all of its tasks."""
    names = run.known.names
    if name in names:
        return [names.index(name)]
    kinds = [run.known.description(task) for task in range(len(names))]
    found = [task for task, kind in enumerate(kinds) if name in (kind.name, kind.program)]
    if not found:
        described = dict.fromkeys(kind.program for kind in kinds)
        raise _Refused(_unknown("task", name, [*described, *names]))
    return found


def _unknown(what: str, name: str, names: Sequence[str]) -> str:
    near = nearest(name, names)
    return f"there is no {what} {name!r}" + (f"; did you mean {near!r}?" if near else "")
