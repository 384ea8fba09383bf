"""The logs of a task: which attempts it had, and what the program of one of them wrote.

What lies there was written by programs that nobody trusts: only regular files are read, no link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.api.observing.following import Followed
from weft.backends.staging.problem import StagingProblem
from weft.backends.staging.safe_paths import open_inside
from weft.engine.history.happenings import Tried
from weft.errors import InvalidInput, Problem, nearest
from weft.repository.runs import Run

__all__ = ["Log", "attempt_of"]

_AT_ONCE = 65_536


@dataclass(slots=True)
class Log:
    """A log that is read from its beginning, as far as it is written."""

    path: Path
    """In the records of an attempt (``Layout.records``)."""
    place: int = 0

    def more(self) -> Iterator[bytes]:
        """Give what was written since the last time."""
        try:
            # From weft's own directory on: a task may have put a link in the place of any below it.
            descriptor = open_inside(self.path.parents[3], "/".join(self.path.parts[-4:]))
        except StagingProblem:
            return
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return
            while data := os.pread(descriptor, _AT_ONCE, self.place):
                self.place += len(data)
                yield data
        finally:
            os.close(descriptor)


def attempt_of(followed: Followed, run: Run, name: str, number: int | None) -> Tried:
    """Find an attempt of a task: the one of this number (1 is the task's first), or the last.

    Of a run that does not go on, the last that has begun: what was only decided has nothing to show. The name
    of a description means its only task; of a task in a loop, ``NAME#2`` means its second iteration.
    """
    state = followed.state.runs[run.position]
    tried = [each for each in followed.history.attempts.values() if each.run == run.position]
    own = [each for each in tried if name in (each.task, f"{each.task}#{each.iteration}")]
    if not own:
        names = list(state.known.names)
        kinds = list(dict.fromkeys(state.known.description(task).program for task in range(len(names))))
        own = _of_kind(name, names, kinds, tried)
    if number is None:
        return own[-1] if followed.place.state_of(run) == "running" else _last_begun(followed, own)
    if not 1 <= number <= len(own):
        what = f"attempt {number} of {name!r}"
        raise InvalidInput(Problem(what=what, rule=f"it had {len(own)}", advice="they count from 1"))
    return own[number - 1]


def _last_begun(followed: Followed, own: list[Tried]) -> Tried:
    layout, execution = followed.place.layout, followed.execution
    for tried in reversed(own):
        if tried.ended_s is not None or layout.records(execution, tried.number).exists():
            return tried
    return own[-1]


def _of_kind(name: str, names: list[str], kinds: list[str], tried: list[Tried]) -> list[Tried]:
    bare = name.rpartition("#")[0] or name
    if name in kinds:
        found = list(dict.fromkeys(each.task for each in tried if each.kind == name))
        if len(found) == 1:
            return [each for each in tried if each.task == found[0]]
        if found:
            some = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
            raise InvalidInput(Problem(what=f"{name!r} has {len(found)} tasks", advice=f"name one: {some}"))
    if name in names or name in kinds or bare in names:
        raise InvalidInput(
            Problem(
                what=f"{name!r} has not begun yet", advice=f"`weft explain {name}` says what it waits for"
            )
        )
    near = nearest(name, [*kinds, *names])
    advice = f"did you mean {near!r}?" if near else f"it has {', '.join(kinds[:8])}"
    raise InvalidInput(Problem(what=f"no task {name!r} in this run", advice=advice))
