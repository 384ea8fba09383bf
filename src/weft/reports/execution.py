"""An executed run as data: everything that its reports show, in tables, on pages and in files.

It reads a chronicle of the journal and what else is known (``Evidence``); it decides nothing, asks no clock
and gives the same for the same. One journal may hold many runs; a report shows all of them, or some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from weft.engine.history.happenings import Failed, Moved, RunStory, Tried
from weft.engine.history.history import History
from weft.engine.history.measures import Use, uses
from weft.engine.history.steps import Steps
from weft.engine.remaining.promises import Promise, promise_of_plan, untimed_kinds
from weft.engine.state.plans import Line
from weft.errors import InvalidInput, Problem
from weft.platform.machine import Machine
from weft.platform.platform import Platform, planned_machines
from weft.reports.execution_chronicle import Chronicle, Facts
from weft.reports.execution_evidence import NO_EVIDENCE, Evidence, Measured
from weft.reports.execution_kinds import KindUse, kind_uses, taken_over
from weft.reports.execution_logs import LastLines
from weft.reports.execution_path import CriticalPath, critical_path
from weft.reports.execution_promise import Deviation, Verdict, deviations, verdict_on

__all__ = ["ExecutedRun", "ToldFailure", "executed_run"]

_UNKNOWN = Measured()
_WORST_FIRST = ("failed", "stopped", "cancelled", "", "completed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldFailure:
    """A failure with everything a reader needs to find out why."""

    failed: Failed
    attempt: Tried | None
    """None: no attempt failed (a loop that did not converge)."""
    exit_code: int | None
    signal: int | None
    text: str
    """What its world said of it: the output that is missing, the program that is not there."""
    log: LastLines | None

    @property
    def headline(self) -> str:
        """Say in a line what failed, how, and what became of it."""
        where = "" if self.attempt is None else f", attempt {self.attempt.number}"
        how = self.failed.cause
        if self.signal is not None:
            how += f" (signal {self.signal})"
        elif self.exit_code:
            how += f" (exit code {self.exit_code})"
        then = "for good" if self.failed.for_good else "tried again"
        return f"{self.failed.task}{where}: {how}, {then}"


@dataclass(frozen=True, kw_only=True, eq=False)
class ExecutedRun:
    """One run, or all runs of one execution."""

    chronicle: Chronicle
    evidence: Evidence
    machines: tuple[Machine, ...]
    """As commands number them."""
    platform: str
    stories: tuple[RunStory, ...]
    """The runs that are shown."""

    @property
    def history(self) -> History:
        """Give the history of the whole execution."""
        return self.chronicle.history

    @property
    def machine_names(self) -> tuple[str, ...]:
        """Name the machines."""
        return tuple(machine.name for machine in self.machines)

    @property
    def several(self) -> bool:
        """Say whether more than one run is shown."""
        return len(self.stories) > 1

    @property
    def title(self) -> str:
        """Say in a line what was run where."""
        names = list(dict.fromkeys(story.workflow for story in self.stories))
        what = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"{what or 'nothing'} on {self.platform}"

    @property
    def outcome(self) -> str:
        """Give the worst outcome of all runs; ``interrupted``: some run has not ended."""
        found = {story.outcome for story in self.stories}
        return next((word for word in _WORST_FIRST if word in found), "completed") or "interrupted"

    @property
    def origin_s(self) -> float:
        """Give when the first run arrived: reports count from there."""
        return min((story.arrival_s for story in self.stories), default=0.0)

    @property
    def end_s(self) -> float:
        """Give when the last run ended, or when anything last happened where some run has not."""
        if any(story.ended_s is None for story in self.stories):
            return self.history.acted_s
        return max((story.ended_s for story in self.stories if story.ended_s is not None), default=0.0)

    @property
    def took_s(self) -> float:
        """Give the time from the first arrival to the last end."""
        return self.end_s - self.origin_s

    @cached_property
    def attempts(self) -> tuple[Tried, ...]:
        """List the attempts of the runs, by number."""
        chosen = {story.index for story in self.stories}
        return tuple(each for each in self.history.attempts.values() if each.run in chosen)

    @cached_property
    def ran(self) -> tuple[Tried, ...]:
        """List the attempts whose programs began."""
        return tuple(each for each in self.attempts if each.started_s is not None)

    @cached_property
    def timed(self) -> tuple[Tried, ...]:
        """List the attempts whose tasks had a stated time, not a placeholder for one."""
        return tuple(each for each in self.attempts if (each.run, each.kind) not in self._untimed)

    @cached_property
    def _untimed(self) -> frozenset[tuple[int, str]]:
        runs = [self.chronicle.runs[story.index] for story in self.stories]
        return frozenset((run.index, kind) for run in runs for kind in untimed_kinds(run.instance))

    @cached_property
    def moves(self) -> tuple[Moved, ...]:
        """List the migrations."""
        chosen = {story.index for story in self.stories}
        return tuple(move for move in self.history.moves if move.run in chosen)

    @cached_property
    def failures(self) -> tuple[ToldFailure, ...]:
        """List the failures in the order in which they happened."""
        chosen = {story.index for story in self.stories}
        return tuple(self._told(failed) for failed in self.history.failures if failed.run in chosen)

    def _told(self, failed: Failed) -> ToldFailure:
        number = failed.attempt
        facts, measured, logs = self.facts(number), self.measured(number), self.evidence.logs
        return ToldFailure(
            failed=failed,
            attempt=self.history.attempts.get(number),
            exit_code=facts.exit_code,
            signal=measured.signal,
            text=facts.story or measured.text or facts.problem,
            log=None if logs is None or number < 0 else logs.last(number),
        )

    def number(self, run: int) -> int:
        """Give the number that users know a run by."""
        return self.evidence.numbers.get(run, run)

    def facts(self, attempt: int) -> Facts:
        """Give what the journal says of an attempt beyond its history."""
        return self.chronicle.facts(attempt)

    def measured(self, attempt: int) -> Measured:
        """Give what was measured of an attempt."""
        return self.evidence.measured.get(attempt, _UNKNOWN)

    def ended_s(self, attempt: Tried) -> float:
        """Give when an attempt ended; of one that has not: the end of what is shown."""
        return self.end_s if attempt.ended_s is None else attempt.ended_s

    def promise(self, run: int) -> Promise | None:
        """Give what was promised of a run: what was said before it began, else its first plan."""
        stated = self.evidence.promises.get(run)
        plan = self.chronicle.first_plans.get(run)
        if stated is not None or plan is None:
            return stated
        return promise_of_plan(plan, self.chronicle.runs[run].instance, self.history.runs[run].arrival_s)

    def planned(self, run: int) -> Mapping[str, Line]:
        """Give where and when each task of a run was planned first, times on the engine's clock."""
        plan = self.chronicle.first_plans.get(run)
        return {} if plan is None else plan.lines

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Judge the promises of the runs that had one."""
        found = ((story, self.promise(story.index)) for story in self.stories)
        return tuple(verdict_on(story, said, self.end_s) for story, said in found if said is not None)

    @cached_property
    def deviations(self) -> tuple[Deviation, ...]:
        """List the tasks that had a place in a plan; what ran longest beyond it first."""
        found: list[Deviation] = []
        for story in self.stories:
            own = [each for each in self.timed if each.run == story.index]
            found += deviations(own, self.planned(story.index))
        return tuple(sorted(found, key=lambda each: -each.longer_s))

    @cached_property
    def path(self) -> CriticalPath:
        """Follow the run that ended last back to its arrival; of several, the first."""
        if not self.stories:
            return CriticalPath()
        last = max(self.stories, key=lambda story: (self._end_of(story), -story.index))
        nodes = [0 if machine.occupancy == "unlimited" else machine.nodes for machine in self.machines]
        return critical_path(self.chronicle, nodes, last.index)

    def _end_of(self, story: RunStory) -> float:
        return self.end_s if story.ended_s is None else story.ended_s

    @cached_property
    def kinds(self) -> tuple[KindUse, ...]:
        """Sum the attempts up by kind."""
        workflows = {story.index: story.workflow for story in self.stories}
        return kind_uses(self.attempts, workflows, self.evidence.measured, self._untimed)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """Measure the machines, over the whole execution."""
        return tuple(uses(self.history, [(machine.name, machine.nodes) for machine in self.machines]))

    @property
    def taken_over(self) -> int:
        """Count the tasks whose outputs an earlier run had made."""
        return sum(map(taken_over, self.attempts))

    @cached_property
    def running(self) -> Steps:
        """Count the programs that ran at a time, from the first arrival on."""
        return self._steps([1] * len(self.ran))

    @cached_property
    def nodes_taken(self) -> Steps:
        """Count the nodes that were taken at a time, from the first arrival on."""
        return self._steps([each.nodes for each in self.ran])

    def _steps(self, amounts: Sequence[int]) -> Steps:
        changes = [(each.started_s or 0.0, amount) for each, amount in zip(self.ran, amounts, strict=True)]
        changes += [(self.ended_s(each), -amount) for each, amount in zip(self.ran, amounts, strict=True)]
        steps = Steps()
        for at_s, change in sorted(changes):
            steps.add(max(0.0, at_s - self.origin_s), change)
        return steps

    def as_record(self) -> dict[str, Any]:
        """Give everything as plain data: what ``weft report --json`` prints.

        ``run`` is the number that users know a run by; ``index`` of a run is its place in the execution.
        """
        names = self.machine_names

        def numbered(record: dict[str, Any]) -> dict[str, Any]:
            return record | {"run": self.number(record["run"])}

        return {
            "title": self.title,
            "outcome": self.outcome,
            "origin_s": self.origin_s,
            "took_s": self.took_s,
            "runs": [{"run": self.number(each.index), **each.as_record()} for each in self.stories],
            "promises": [numbered(each.as_record()) for each in self.verdicts],
            "critical_path": _path_record(self.path, names),
            "kinds": [asdict(kind) | {"ratio": kind.ratio} for kind in self.kinds],
            "machines": [asdict(use) for use in self.uses],
            "migrations": [numbered(move.as_record(names)) for move in self.moves],
            "failures": [numbered(_failure_record(failure)) for failure in self.failures],
            "attempts": [
                numbered(each.as_record(names))
                | {"exit_code": self.facts(each.number).exit_code, "taken_over": taken_over(each)}
                | {"cpu_s": self.measured(each.number).cpu_s}
                | {"max_rss_bytes": self.measured(each.number).max_rss_bytes}
                for each in self.attempts
            ],
        }


def _path_record(path: CriticalPath, names: Sequence[str]) -> dict[str, Any]:
    steps = [
        {
            "attempt": step.attempt.number,
            "task": step.attempt.task,
            "iteration": step.attempt.iteration,
            "machine": names[step.attempt.machine],
            "link": step.link,
            "after": None if step.after is None else step.after.number,
            "from_s": step.from_s,
            "staged_s": step.staged_s,
            "waited_s": step.waited_s,
            "ran_s": step.ran_s,
        }
        for step in path.steps
    ]
    return {"ran_s": path.ran_s, "staged_s": path.staged_s, "waited_s": path.waited_s, "steps": steps}


def _failure_record(failure: ToldFailure) -> dict[str, Any]:
    return asdict(failure.failed) | {
        "exit_code": failure.exit_code,
        "signal": failure.signal,
        "text": failure.text,
        "log": None if failure.log is None else failure.log.path,
        "last_lines": [] if failure.log is None else list(failure.log.lines),
    }


def executed_run(
    chronicle: Chronicle,
    platform: Platform,
    *,
    evidence: Evidence = NO_EVIDENCE,
    runs: Sequence[int] | None = None,
) -> ExecutedRun:
    """Collect what reports show of an execution; ``runs``: of these runs only. Raises InvalidInput."""
    stories = chronicle.history.runs
    for run in runs or ():
        if not 0 <= run < len(stories):
            raise InvalidInput(Problem(what=f"run {run}", rule=f"this execution has {len(stories)} runs"))
    return ExecutedRun(
        chronicle=chronicle,
        evidence=evidence,
        machines=planned_machines(platform),
        platform=platform.name,
        stories=tuple(stories if runs is None else (stories[run] for run in sorted(set(runs)))),
    )
