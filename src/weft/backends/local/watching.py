"""Watching running programs: what they say through files, once a second (S3 section 2)."""

from __future__ import annotations

import time

from weft.backends.backend import Circumstances
from weft.backends.jobs.rendering import news_files
from weft.backends.local.live import Live
from weft.backends.staging.keeping import keep
from weft.backends.staging.problem import StagingProblem
from weft.backends.traces.news import Seen, TaskNews
from weft.engine.messages import events as ev

__all__ = ["Watching", "kept", "share_done"]

_EVERY_S = 1.0
_LEAST, _MOST = 1e-6, 0.999
"""Restart files are worth something, and never all of it."""


class Watching:
    """Looks at the files of running programs."""

    def __init__(self, circumstances: Circumstances) -> None:
        self._circumstances = circumstances
        self._watched: dict[int, Live] = {}
        self._next = time.monotonic() + _EVERY_S

    def begin(self, live: Live) -> None:
        """Watch a program that has begun."""
        self._watched[live.number] = live

    def end(self, live: Live) -> None:
        """Watch it no longer."""
        self._watched.pop(live.number, None)

    def next_in_s(self) -> float:
        """Give the seconds until the next look."""
        return self._next - time.monotonic()

    def look(self) -> list[ev.Event]:
        """Look at everything, and give what is new."""
        self._next = time.monotonic() + _EVERY_S
        found: list[ev.Event] = []
        for live in list(self._watched.values()):
            found += self._told(live, self._look(live))
        return found

    def progress(self, live: Live) -> list[ev.Event]:
        """Answer a question: how far a program is, after whatever else it has said meanwhile."""
        seen = self._look(live)
        answer = ev.Progressed(
            attempt=live.number,
            work_done=live.done,
            last_iteration_s=seen.last_iteration_s,
            iterations=seen.iterations,
            all_iterations=seen.all_iterations,
        )
        return [*self._told(live, seen), answer]

    def _look(self, live: Live) -> Seen:
        news = live.news
        if news is None:
            # What is there already was written by this very attempt, unless it goes on from restart files.
            from_now = live.start is not None and live.start.restart_from > 0
            known = self._circumstances.known_of(live.run)
            news = live.news = TaskNews.of(known, live.task, live.workdir, from_now=from_now)
        seen = news.look()
        if seen.done is not None:
            live.done = min(1.0, max(0.0, seen.done))
        return seen

    def _told(self, live: Live, seen: Seen) -> list[ev.Event]:
        """Give what is new; nobody else sees it, since the next look finds the same files."""
        found: list[ev.Event] = []
        if seen.restart_changed and kept(self._circumstances, live):
            found.append(
                ev.Checkpointed(attempt=live.number, work_done=share_done(self._circumstances, live))
            )
        if seen.degraded is not None:
            found.append(ev.Progressed(attempt=live.number, work_done=live.done, degraded=seen.degraded))
        if seen.requirements is not None or seen.rank is not None or seen.problems:
            found.append(
                ev.RequirementsChanged(
                    attempt=live.number,
                    requirements=seen.requirements,
                    rank=seen.rank,
                    mandatory=seen.mandatory,
                    problem="; ".join(seen.problems),
                )
            )
        return found


def kept(circumstances: Circumstances, live: Live) -> bool:
    """Keep a program's restart files on our side; False: they are just being written, or cannot be had."""
    into = circumstances.layout.checkpoints(circumstances.execution, live.run, live.task)
    _, names = news_files(circumstances.known_of(live.run), live.task)
    try:
        return bool(names) and keep(live.workdir, names, into)
    except StagingProblem:
        return False


def share_done(circumstances: Circumstances, live: Live, *, over: bool = False) -> float:
    """Give the share of the work that is done: what the program says, else what the time suggests.

    ``over``: the program has ended, and what it said last has not been looked at yet.
    """
    if over and live.news is not None:
        said = live.news.look().done
        live.done = live.done if said is None else min(1.0, max(0.0, said))
    if live.done is not None:
        return max(_LEAST, live.done)
    start = live.start
    assert start is not None
    whole_s = circumstances.known_of(live.run).seconds(live.task, live.machine, live.count)
    until = time.time() if live.record is None else float(live.record.get("at", time.time()))
    passed = (until - live.began_at) / whole_s if whole_s > 0 else 0.5
    return min(_MOST, max(_LEAST, start.restart_from + passed))
