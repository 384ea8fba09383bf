"""News: what a running program says through files in its directory (S3 section 2).

Progress, a new requirement (``gw_reqs``) or rank (``gw_rank``), a complaint about its performance
(``gw_perf``), and restart files that have changed. A program may leave anything there: only plain files are
read, not too much of them, and nothing in them is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from weft.backends.jobs.demands import parse_rank, parse_requirement
from weft.backends.jobs.problem import JobProblem
from weft.backends.jobs.rendering import news_files
from weft.backends.traces.progress_text import Progress, parse_progress
from weft.backends.traces.small_files import Signature, look_at, read_text
from weft.engine.state.known import Known
from weft.errors import shorten

__all__ = ["PERFORMANCE_FILE", "RANK_FILE", "REQUIREMENT_FILE", "Seen", "TaskNews"]

REQUIREMENT_FILE, RANK_FILE, PERFORMANCE_FILE = "gw_reqs", "gw_rank", "gw_perf"
"""The names of GridWay's protocol."""

_Found = TypeVar("_Found")
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a look has found: how far the program is as far as known, and what is new since the last look."""

    done: float | None = None
    """The share of the whole task's work; None: it has not said."""
    iterations: int | None = None
    all_iterations: int | None = None
    last_iteration_s: float | None = None
    progressed: bool = False
    """Whether it has said anything new of these."""
    requirements: str | None = None
    """In our language; "": the application takes its demand back; None: nothing new."""
    rank: str | None = None
    mandatory: bool = True
    """Whether the application must leave a machine that does not meet the requirement."""
    degraded: str | None = None
    """What the application newly says of its bad performance."""
    restart_changed: bool = False
    problems: tuple[str, ...] = ()
    """What it wrote that cannot be understood, and so changes nothing."""


class TaskNews:
    """Looks after the files of one attempt."""

    def __init__(
        self, workdir: Path, progress: str, restart: Sequence[str] = (), *, from_now: bool = False
    ) -> None:
        """``from_now``: restart files that are there already were put in place before the start.

        Otherwise they count as changed at the first look, as after the death of an engine.
        """
        self._workdir = workdir
        self._progress_file = progress
        self.restart_files = tuple(restart)
        self._signatures: dict[str, Signature | None] = {}
        self._restart: tuple[Signature | None, ...] | None = self._restart_state() if from_now else None
        self._progress = Progress()

    @classmethod
    def of(cls, known: Known, task: int, workdir: Path, *, from_now: bool = False) -> TaskNews:
        """Look after an attempt of a task."""
        progress, restart = news_files(known, task)
        return cls(workdir, progress, restart, from_now=from_now)

    def look(self) -> Seen:
        """Tell how far the program is, and what is new since the last look."""
        problems: list[str] = []
        progress = self._changed(self._progress_file, _progress, problems, tail=True)
        requirement = self._changed(REQUIREMENT_FILE, parse_requirement, problems)
        rank = self._changed(RANK_FILE, parse_rank, problems)
        degraded = self._changed(PERFORMANCE_FILE, _complaint, problems, tail=True)
        known = self._progress = progress or self._progress
        return Seen(
            done=known.done,
            iterations=known.iterations,
            all_iterations=known.all_iterations,
            last_iteration_s=known.last_iteration_s,
            progressed=progress is not None,
            requirements=None if requirement is None else requirement[0],
            rank=None if rank is None else rank[0],
            mandatory=requirement is None or requirement[1],
            degraded=degraded,
            restart_changed=self._restart_changed(),
            problems=tuple(problems),
        )

    def _changed(
        self, name: str, read: Callable[[str, str], _Found], problems: list[str], *, tail: bool = False
    ) -> _Found | None:
        """Read a file if it is another one than at the last look."""
        signature = look_at(self._workdir, name)
        if signature == self._signatures.get(name):
            return None
        # A file that changes while it is read differs from this signature at the next look.
        self._signatures[name] = signature
        try:
            text = None if signature is None else read_text(self._workdir, name, tail=tail)
            return None if text is None else read(text, name)
        except JobProblem as problem:
            problems.append(str(problem))
            return None

    def _restart_state(self) -> tuple[Signature | None, ...]:
        return tuple(look_at(self._workdir, name) for name in self.restart_files)

    def _restart_changed(self) -> bool:
        """Say whether restart files have changed and all of them are there."""
        if not self.restart_files:
            return False
        state = self._restart_state()
        if state == self._restart or None in state:
            return False
        self._restart = state
        return True


def _progress(text: str, name: str) -> Progress | None:  # noqa: ARG001 -- read like the other files
    return parse_progress(text)


def _complaint(text: str, name: str) -> str:  # noqa: ARG001 -- read like the other files
    return shorten(text.strip(), _LONGEST_TEXT) or "its performance is bad"
