"""Promise against outcome: what was predicted of a run, what it took, and which tasks made the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.engine.history.happenings import RunStory, Tried
from weft.engine.remaining.promises import Promise
from weft.engine.state.plans import Line

__all__ = ["Deviation", "Verdict", "deviations", "verdict_on"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a promise."""

    run: int
    workflow: str
    promise: Promise
    took_s: float
    """Up to now, of a run that has not ended."""
    completed: bool

    @property
    def promised_s(self) -> float | None:
        """Give what is exceeded half of the time (P50); None: unknown."""
        return self.promise.p50_s

    @property
    def at_most_s(self) -> float | None:
        """Give what is exceeded one time in ten (P90); None: unknown."""
        return self.promise.p90_s

    @property
    def change(self) -> float | None:
        """Give how much longer than promised it took, as a share; None: nothing was promised."""
        return self.took_s / self.promised_s - 1 if self.promised_s else None

    @property
    def change_text(self) -> str:
        """Write the change in percent; "": nothing was promised, or the run did not get that far."""
        if self.change is None or not self.completed:
            return ""
        return f"{self.change:+.1%}" if abs(self.change) < 1 else f"{self.change:+,.0%}"

    @property
    def word(self) -> str:
        """Say in a word or two how it was kept."""
        if not self.completed:
            return "not completed"
        if self.promised_s is None:
            return "unknown"
        if self.took_s <= self.promised_s * (1 + 1e-9):
            return "kept"
        if self.at_most_s is None:
            return "late"
        return "kept (within P90)" if self.took_s <= self.at_most_s * (1 + 1e-9) else "broken (beyond P90)"

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "run": self.run,
            "workflow": self.workflow,
            "promised_s": self.promised_s,
            "at_most_s": self.at_most_s,
            "took_s": self.took_s,
            "completed": self.completed,
            "change": self.change,
            "word": self.word,
            "promise": self.promise.as_record(),
        }


def verdict_on(story: RunStory, promise: Promise, now_s: float) -> Verdict:
    """Judge the promise of a run."""
    return Verdict(
        run=story.index,
        workflow=story.workflow,
        promise=promise,
        took_s=(now_s if story.ended_s is None else story.ended_s) - story.arrival_s,
        completed=story.outcome == "completed",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A task that did not go as planned."""

    run: int
    task: str
    iteration: int
    planned_machine: int
    machine: int
    planned_s: float
    """How long it was to take."""
    took_s: float
    """How long its last attempt ran."""
    late_s: float
    """By how much it ended later than planned; below 0: earlier."""

    @property
    def longer_s(self) -> float:
        """Give by how much it ran longer than planned."""
        return self.took_s - self.planned_s


def deviations(attempts: Iterable[Tried], planned: Mapping[str, Line]) -> list[Deviation]:
    """Compare a run's completed attempts with their planned lines; what ran longest beyond its plan first."""
    found = []
    for attempt in attempts:
        line = _line(planned, attempt)
        if line is None or attempt.ending != "completed" or attempt.started_s is None:
            continue
        assert attempt.ended_s is not None
        deviation = Deviation(
            run=attempt.run,
            task=attempt.task,
            iteration=attempt.iteration,
            planned_machine=line.machine,
            machine=attempt.machine,
            planned_s=line.finish_s - line.start_s,
            took_s=attempt.ran_s,
            late_s=attempt.ended_s - line.finish_s,
        )
        found.append((-deviation.longer_s, -deviation.late_s, attempt.number, deviation))
    return [each[3] for each in sorted(found, key=lambda each: each[:3])]


def _line(planned: Mapping[str, Line], attempt: Tried) -> Line | None:
    numbered = planned.get(f"{attempt.task}#{attempt.iteration}")
    if numbered is not None or attempt.iteration > 1:
        return numbered
    return planned.get(attempt.task)
