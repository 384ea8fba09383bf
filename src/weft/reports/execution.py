"""Data of the report on an executed run: attempts, failures, kinds of tasks, promise, critical path.

The data are computed from the journal and the ``ExecutionRecords`` without a clock, so equal input gives
equal reports. A journal may hold several runs; a report covers all or some of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

from weft.engine.history import (
    AttemptRecord,
    FailureRecord,
    History,
    MachineUse,
    MigrationRecord,
    ModuleFailure,
    RunSummary,
    StageRetry,
    StepFunction,
    list_slowdowns,
    measure_machines,
)
from weft.engine.kind_counts import KindCount, count_kinds, sum_by_workflow
from weft.engine.replan.promise import Promise, derive_promise, list_untimed_kinds
from weft.engine.state.plan import PlanLine, StoredPlan
from weft.engine.state.state import EngineState
from weft.errors import InvalidInput
from weft.papers.statistics import Summary, summarise
from weft.platform.machine import Machine
from weft.platform.platform import Platform, list_crowded, list_shares, planned_machines
from weft.records import dataclass
from weft.redaction import redact
from weft.reports.critical_path import CriticalPath, find_critical_path
from weft.reports.execution_records import NO_RECORDS, ExecutionRecords, LogTail, ProcessUsage
from weft.units import format_change

_NOT_MEASURED = ProcessUsage()
_CURVE_POINTS = 1_000
"""Maximal number of points of a step function in ``ExecutedRun.as_record``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSummary:
    """Tasks and attempts of one kind. Seconds are those of completed attempts; None if none completed."""

    workflow: str
    kind: str
    tasks: int
    """Number of all tasks, with and without an attempt; every loop iteration that has begun counts."""
    completed: int
    """Number of completed tasks, including reused ones."""
    taken_over: int
    """Number of completed tasks whose outputs came from an earlier run."""
    attempts: int
    """Number of attempts whose programs ran."""
    failed: int
    """Number of failed attempts, including those whose staging failed."""
    moved: int
    """Number of migrations that have begun and were not called off."""
    skipped: int = 0
    """Number of skipped tasks."""
    cancelled: int = 0
    """Number of cancelled tasks."""
    mean_s: float | None = None
    p50_s: float | None = None
    p90_s: float | None = None
    most_s: float | None = None
    estimate_s: float | None = None
    """Mean estimated seconds of completed attempts, without work saved by restart files; None: unknown."""
    cpu_share: float | None = None
    """CPU seconds divided by node-seconds of the measured attempts; None: not measured."""
    max_rss_bytes: float | None = None

    @property
    def ratio(self) -> float | None:
        """Return the mean seconds divided by the mean estimate; None if one of them is unknown."""
        if self.mean_s is None or self.estimate_s is None or self.estimate_s <= 0:
            return None
        return self.mean_s / self.estimate_s


def is_reused(attempt: AttemptRecord) -> bool:
    """Return whether an attempt completed without running, with outputs of an earlier run."""
    return attempt.ending == "completed" and attempt.started_s is None


def summarise_kinds(
    counts: Iterable[KindCount],
    attempts: Iterable[AttemptRecord],
    moves: Iterable[MigrationRecord],
    measured: Mapping[int, ProcessUsage],
    untimed: Collection[tuple[int, str]] = (),
) -> tuple[KindSummary, ...]:
    """Return a summary per workflow and kind, in the order of ``counts`` (task counts of each run).

    ``measured`` is the resource usage by attempt number. ``untimed`` lists the (run index, kind) whose
    tasks have no stated time; their summaries have no estimate.
    """
    counts = list(counts)
    workflows = {count.run: count.workflow for count in counts}
    found: dict[tuple[str, str], list[AttemptRecord]] = {}
    migrated = {move.new for move in moves if move.happened}
    for attempt in attempts:
        found.setdefault((workflows[attempt.run], attempt.kind), []).append(attempt)
    return tuple(
        _summarise_kind(count, found.get((count.workflow, count.kind), []), migrated, measured, untimed)
        for count in sum_by_workflow(counts)
    )


def _summarise_kind(
    count: KindCount,
    tries: list[AttemptRecord],
    migrated: Collection[int],
    measured: Mapping[int, ProcessUsage],
    untimed: Collection[tuple[int, str]],
) -> KindSummary:
    done = [each for each in tries if each.ending == "completed"]
    ran = [each for each in tries if each.started_s is not None]
    seconds = sorted(each.ran_s for each in done if each.started_s is not None)
    stated = [] if any((each.run, count.kind) in untimed for each in tries) else done
    estimates = [each.seconds * (1 - each.restart_from) for each in stated if each.started_s is not None]
    numbers = [measured.get(each.number, _NOT_MEASURED) for each in ran]
    memory = [found.max_rss_bytes for found in numbers if found.max_rss_bytes is not None]
    return KindSummary(
        workflow=count.workflow,
        kind=count.kind,
        tasks=count.tasks,
        completed=count.completed,
        taken_over=sum(map(is_reused, done)),
        attempts=len(ran),
        failed=sum(each.ending == "failed" for each in tries),
        moved=sum(each.number in migrated for each in tries),
        skipped=count.skipped,
        cancelled=count.cancelled,
        mean_s=sum(seconds) / len(seconds) if seconds else None,
        p50_s=_quantile(seconds, 0.5),
        p90_s=_quantile(seconds, 0.9),
        most_s=seconds[-1] if seconds else None,
        estimate_s=sum(estimates) / len(estimates) if any(estimates) else None,
        cpu_share=_cpu_share(ran, numbers),
        max_rss_bytes=max(memory) if memory else None,
    )


def _quantile(ordered: list[float], share: float) -> float | None:
    """Return a quantile of sorted values, interpolated linearly; None if there are no values."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _cpu_share(ran: list[AttemptRecord], numbers: list[ProcessUsage]) -> float | None:
    pairs = [(each, found.cpu_s) for each, found in zip(ran, numbers, strict=True) if found.cpu_s is not None]
    offered = sum(each.node_seconds for each, _ in pairs)
    return sum(seconds for _, seconds in pairs) / offered if offered > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseOutcome:
    """The promise of a run compared with the measured time."""

    run: int
    workflow: str
    promise: Promise
    took_s: float
    """Seconds from the arrival of the run to its end, or to its last activity if it has not ended."""
    completed: bool

    @property
    def promised_s(self) -> float | None:
        """Return the promised P50 in seconds; None if unknown."""
        return self.promise.p50_s

    @property
    def at_most_s(self) -> float | None:
        """Return the promised P90 in seconds; None if unknown."""
        return self.promise.p90_s

    @property
    def change(self) -> float | None:
        """Return measured time / promised P50 - 1; None if the P50 is unknown."""
        return self.took_s / self.promised_s - 1 if self.promised_s else None

    @property
    def change_text(self) -> str:
        """Return ``change`` in percent as text; "" if it is unknown or the run has not completed."""
        if self.change is None or not self.completed:
            return ""
        return format_change(self.change) if abs(self.change) < 1 else f"{self.change:+,.0%}"

    @property
    def word(self) -> str:
        """Return whether the promise was kept, in words.

        ``kept``: within the P50. ``kept (within P90)`` or ``broken (beyond P90)``: later than the P50.
        ``late``: later than the P50, and the P90 is unknown. ``unknown``: the promise has no P50.
        ``not completed``: the run has not completed.
        """
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
        """Return promise and outcome as plain data for JSON."""
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


def judge_promise(story: RunSummary, promise: Promise, now_s: float) -> PromiseOutcome:
    """Return the promise of a run compared with its outcome; ``now_s`` counts as end of an unfinished run."""
    return PromiseOutcome(
        run=story.index,
        workflow=story.workflow,
        promise=promise,
        took_s=(now_s if story.ended_s is None else story.ended_s) - story.arrival_s,
        completed=story.outcome == "completed",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Planned and real machine and times of one task."""

    run: int
    task: str
    iteration: int
    label: str
    """Name of the task; from the second iteration on, the iteration numbers follow, as in ``solve#3``."""
    planned_machine: int
    machine: int
    planned_s: float
    """Planned seconds of the task."""
    took_s: float
    """Seconds that the completed attempt of the task ran."""
    late_s: float
    """Seconds from the planned to the measured end; negative if the task ended early."""

    @property
    def longer_s(self) -> float:
        """Return the seconds by which the task ran longer than planned; negative if shorter."""
        return self.took_s - self.planned_s


def find_deviations(attempts: Iterable[AttemptRecord], planned: Mapping[str, PlanLine]) -> list[Deviation]:
    """Return the deviations of completed attempts from the plan, by decreasing ``longer_s``."""
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
            label=attempt.label,
            planned_machine=line.machine,
            machine=attempt.machine,
            planned_s=line.finish_s - line.start_s,
            took_s=attempt.ran_s,
            late_s=attempt.ended_s - line.finish_s,
        )
        found.append((-deviation.longer_s, -deviation.late_s, attempt.number, deviation))
    return [each[3] for each in sorted(found, key=lambda each: each[:3])]


def _line(planned: Mapping[str, PlanLine], attempt: AttemptRecord) -> PlanLine | None:
    numbered = planned.get(f"{attempt.task}#{attempt.iteration}")
    later = any(count > 1 for count in attempt.counters)
    return numbered if numbered is not None or later else planned.get(attempt.task)


_WORST_FIRST = ("failed", "stopped", "cancelled", "", "completed")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReport:
    """A failure with exit code, signal, message and last lines of the log."""

    failed: FailureRecord
    attempt: AttemptRecord | None
    """The failed attempt; None if no attempt failed (a loop that did not converge)."""
    exit_code: int | None
    signal: int | None
    text: str
    """Message of the backend, such as a missing output or program."""
    log: LogTail | None

    def headline(self, machines: Sequence[str] = ()) -> str:
        """Return one line about the failure: task, attempt, machine, cause, and whether it is retried.

        ``machines`` are the names by index; without them the machine is left out.
        """
        where = "" if self.attempt is None else f", attempt {self.attempt.task_attempt}"
        if self.attempt is not None and machines:
            where += f" on {machines[self.attempt.machine]}"
        how = self.failed.cause
        if self.signal is not None:
            how += f" (signal {self.signal})"
        elif self.exit_code:
            how += f" (exit code {self.exit_code})"
        then = "not retried" if self.failed.for_good else "retried"
        return f"{self.failed.task}{where}: {how}, {then}"


@dataclass(frozen=True, kw_only=True, eq=False)
class ExecutedRun:
    """The data of a report on one run, or on all runs of an execution."""

    history: History
    """The history of the whole execution."""
    state: EngineState
    """State of the engine after the last journal entry; it holds the task graphs and plans."""
    records: ExecutionRecords
    machines: tuple[Machine, ...]
    """Machines by index, as in the commands of the journal."""
    platform: str
    run_summaries: tuple[RunSummary, ...]
    """The reported runs."""

    @property
    def machine_names(self) -> tuple[str, ...]:
        """Return the names of the machines."""
        return tuple(machine.name for machine in self.machines)

    @property
    def several(self) -> bool:
        """Return whether more than one run is reported."""
        return len(self.run_summaries) > 1

    @property
    def title(self) -> str:
        """Return a title: the workflows and the platform."""
        names = list(dict.fromkeys(story.workflow for story in self.run_summaries))
        what = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"{what or 'nothing'} on {self.platform}"

    @property
    def outcome(self) -> str:
        """Return the worst outcome of the reported runs; a run without an end counts as ``interrupted``."""
        found = {story.outcome for story in self.run_summaries}
        return next((word for word in _WORST_FIRST if word in found), "completed") or "interrupted"

    @property
    def origin_s(self) -> float:
        """Return the time of the first arrival, which is time 0 of reports."""
        return min((story.arrival_s for story in self.run_summaries), default=0.0)

    @property
    def end_s(self) -> float:
        """Return the end of the last run; if some run has not ended, the time of the last activity."""
        if any(story.ended_s is None for story in self.run_summaries):
            return self.history.acted_s
        return max((story.ended_s for story in self.run_summaries if story.ended_s is not None), default=0.0)

    @property
    def took_s(self) -> float:
        """Return the seconds from the first arrival to the last end."""
        return self.end_s - self.origin_s

    @cached_property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """Return the attempts of the reported runs, by number."""
        chosen = {story.index for story in self.run_summaries}
        return tuple(each for each in self.history.attempts.values() if each.run in chosen)

    @cached_property
    def ran(self) -> tuple[AttemptRecord, ...]:
        """Return the attempts of the reported runs whose programs started."""
        return tuple(each for each in self.attempts if each.started_s is not None)

    @cached_property
    def timed(self) -> tuple[AttemptRecord, ...]:
        """Return the attempts of the reported runs whose tasks have a stated time."""
        return tuple(each for each in self.attempts if (each.run, each.kind) not in self._untimed)

    @cached_property
    def _untimed(self) -> frozenset[tuple[int, str]]:
        runs = [self.state.runs[story.index] for story in self.run_summaries]
        return frozenset((run.index, kind) for run in runs for kind in list_untimed_kinds(run.instance))

    @cached_property
    def moves(self) -> tuple[MigrationRecord, ...]:
        """Return the migrations of the reported runs."""
        chosen = {story.index for story in self.run_summaries}
        return tuple(move for move in self.history.moves if move.run in chosen)

    @cached_property
    def stage_retries(self) -> tuple[StageRetry, ...]:
        """Return a record for each retry of copying outputs in the reported runs."""
        chosen = {story.index for story in self.run_summaries}
        return tuple(each for each in self.history.stage_retries if each.run in chosen)

    @cached_property
    def module_failures(self) -> tuple[tuple[ModuleFailure, int], ...]:
        """Return (failure, count) for module failures of the reported runs that did not fail the task."""
        chosen = {story.index for story in self.run_summaries}
        return tuple(each for each in self.history.module_failures.items() if each[0].run in chosen)

    @cached_property
    def failures(self) -> tuple[FailureReport, ...]:
        """Return the failures of the reported runs by time."""
        chosen = {story.index for story in self.run_summaries}
        return tuple(self._report_failure(failed) for failed in self.history.failures if failed.run in chosen)

    @cached_property
    def listed_failures(self) -> tuple[FailureReport, ...]:
        """Return the failures in the order of pages and summaries: those not retried first, then by time."""
        return tuple(sorted(self.failures, key=lambda each: not each.failed.for_good))

    def _report_failure(self, failed: FailureRecord) -> FailureReport:
        number = failed.attempt
        attempt, measured, logs = self.history.attempts.get(number), self.measured(number), self.records.logs
        story, problem = ("", "") if attempt is None else (attempt.story, attempt.problem)
        return FailureReport(
            failed=failed,
            attempt=attempt,
            exit_code=None if attempt is None else attempt.exit_code,
            signal=measured.signal,
            text=story or measured.text or problem,
            log=None if logs is None or number < 0 else logs.last(number, failed.cause),
        )

    def number(self, run: int) -> int:
        """Return the number of a run that is shown to users; the run's index if it has no number."""
        return self.records.numbers.get(run, run)

    def measured(self, attempt: int) -> ProcessUsage:
        """Return the measured resource usage of an attempt; its fields are None if not measured."""
        return self.records.measured.get(attempt, _NOT_MEASURED)

    def ended_s(self, attempt: AttemptRecord) -> float:
        """Return the end of an attempt; for a running attempt, the end of the report."""
        return self.end_s if attempt.ended_s is None else attempt.ended_s

    def promise(self, run: int) -> Promise | None:
        """Return the recorded promise of a run, or one derived from its first plan; None without either."""
        stated, plan = self.records.promises.get(run), self._first_plan(run)
        if stated is not None or plan is None:
            return stated
        return derive_promise(plan, self.state.runs[run].instance, self.history.runs[run].arrival_s)

    def _first_plan(self, run: int) -> StoredPlan | None:
        return self.state.plans.get(self.history.first_plans.get(run, ""))

    def planned(self, run: int) -> Mapping[str, PlanLine]:
        """Return the lines of a run's first plan by task name; times are on the engine's clock."""
        plan = self._first_plan(run)
        return {} if plan is None else plan.lines

    @cached_property
    def verdicts(self) -> tuple[PromiseOutcome, ...]:
        """Return the promises of the reported runs compared with their outcomes."""
        found = ((story, self.promise(story.index)) for story in self.run_summaries)
        return tuple(
            judge_promise(story, promised, self.end_s) for story, promised in found if promised is not None
        )

    @cached_property
    def deviations(self) -> tuple[Deviation, ...]:
        """Return the deviations of completed tasks from the first plans, by decreasing ``longer_s``."""
        found: list[Deviation] = []
        for story in self.run_summaries:
            own = [each for each in self.timed if each.run == story.index]
            found += find_deviations(own, self.planned(story.index))
        return tuple(sorted(found, key=lambda each: -each.longer_s))

    @cached_property
    def path(self) -> CriticalPath:
        """Return the critical path of the run that ended last; for ties the first run."""
        if not self.run_summaries:
            return CriticalPath()
        last = max(self.run_summaries, key=lambda story: (self._end_of(story), -story.index))
        nodes = [machine.nodes if machine.occupancy == "exclusive" else 0 for machine in self.machines]
        return find_critical_path(self.history, self.state.runs, nodes, last.index)

    def _end_of(self, story: RunSummary) -> float:
        return self.end_s if story.ended_s is None else story.ended_s

    @cached_property
    def kinds(self) -> tuple[KindSummary, ...]:
        """Return a summary of tasks and attempts for each kind."""
        runs = [self.state.runs[story.index] for story in self.run_summaries]
        counts = [count for run in runs for count in count_kinds(run, self.history)]
        return summarise_kinds(counts, self.attempts, self.moves, self.records.measured, self._untimed)

    @cached_property
    def uses(self) -> tuple[MachineUse, ...]:
        """Return the use of each machine over the whole execution."""
        sizes = [(machine.name, machine.nodes) for machine in self.machines]
        crowded = list_crowded(self.machines)
        return tuple(measure_machines(self.history, sizes, list_shares(self.machines), crowded))

    @cached_property
    def slowdowns(self) -> dict[str, Summary]:
        """Return statistics of the slowdowns of completed runs by workflow."""
        return {name: summarise(values) for name, values in list_slowdowns(self.run_summaries).items()}

    @cached_property
    def slowdown(self) -> Summary | None:
        """Return statistics of the slowdowns of the reported completed runs; None if no run has one."""
        return _summarise_slowdowns(self.run_summaries)

    @cached_property
    def slowdown_of_all_runs(self) -> Summary | None:
        """Return ``slowdown`` over all runs of the execution, also those that are not reported."""
        return _summarise_slowdowns(self.history.runs)

    @property
    def active(self) -> StepFunction:
        """Return the number of active workflows of the execution over time, from the first arrival."""
        return self.history.active.shifted(self.origin_s)

    @property
    def ready(self) -> StepFunction:
        """Return the number of ready tasks of the execution over time, from the first arrival."""
        return self.history.ready.shifted(self.origin_s)

    @property
    def taken_over(self) -> int:
        """Return the number of tasks whose outputs were reused from earlier runs."""
        return sum(map(is_reused, self.attempts))

    @cached_property
    def running(self) -> StepFunction:
        """Return the number of running programs over time, from the first arrival."""
        return self._steps([1] * len(self.ran))

    @cached_property
    def nodes_taken(self) -> StepFunction:
        """Return the number of occupied nodes over time, from the first arrival."""
        return self._steps([each.nodes for each in self.ran])

    def _steps(self, amounts: Sequence[int]) -> StepFunction:
        changes = [(each.started_s or 0.0, amount) for each, amount in zip(self.ran, amounts, strict=True)]
        changes += [(self.ended_s(each), -amount) for each, amount in zip(self.ran, amounts, strict=True)]
        steps = StepFunction()
        for at_s, change in sorted(changes):
            steps.add(max(0.0, at_s - self.origin_s), change)
        return steps

    def as_record(self) -> dict[str, Any]:
        """Return the object printed by ``weft report --json``.

        ``run`` is the number shown to users, ``index`` the position of a run in the execution.
        """
        names = self.machine_names

        def numbered(record: dict[str, Any]) -> dict[str, Any]:
            return record | {"run": self.number(record["run"])}

        return {
            "title": self.title,
            "outcome": self.outcome,
            "origin_s": self.origin_s,
            "took_s": self.took_s,
            "runs": [{"run": self.number(each.index), **each.as_record()} for each in self.run_summaries],
            "slowdown": _slowdown_record(self.slowdown),
            "slowdown_of_all_runs": _slowdown_record(self.slowdown_of_all_runs),
            "slowdowns": {name: asdict(found) for name, found in self.slowdowns.items()},
            "active": [list(step) for step in self.active.thinned(_CURVE_POINTS)],
            "ready": [list(step) for step in self.ready.thinned(_CURVE_POINTS)],
            "promises": [numbered(each.as_record()) for each in self.verdicts],
            "critical_path": _path_record(self.path, names),
            "kinds": [asdict(kind) | {"ratio": kind.ratio} for kind in self.kinds],
            "machines": [asdict(use) for use in self.uses],
            "migrations": [numbered(move.as_record(names)) for move in self.moves],
            "stage_retries": [numbered(each.as_record()) for each in self.stage_retries],
            "module_failures": [
                numbered({"run": each.run, "task": each.label, "module": each.module})
                | {"reason": redact(each.reason), "count": count}
                for each, count in self.module_failures
            ],
            "failures": [numbered(_failure_record(failure)) for failure in self.failures],
            "attempts": [
                numbered(each.as_record(names))
                | {"exit_code": each.exit_code, "job": each.job, "taken_over": is_reused(each)}
                | {"strays": each.strays, "cpu_s": self.measured(each.number).cpu_s}
                | {"max_rss_bytes": self.measured(each.number).max_rss_bytes}
                for each in self.attempts
            ],
        }


def _summarise_slowdowns(runs: Iterable[RunSummary]) -> Summary | None:
    found = [value for values in list_slowdowns(runs).values() for value in values]
    return summarise(found) if found else None


def _slowdown_record(found: Summary | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


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


def _failure_record(failure: FailureReport) -> dict[str, Any]:
    return failure.failed.as_record() | {
        "exit_code": failure.exit_code,
        "signal": failure.signal,
        "text": failure.text,
        "log": None if failure.log is None else failure.log.path,
        "last_lines": [] if failure.log is None else list(failure.log.lines),
    }


def build_executed_run(
    history: History,
    state: EngineState,
    platform: Platform,
    *,
    records: ExecutionRecords = NO_RECORDS,
    runs: Sequence[int] | None = None,
) -> ExecutedRun:
    """Return the report data of an execution, or only of ``runs``; InvalidInput for an unknown run."""
    run_summaries = history.runs
    for run in runs or ():
        if not 0 <= run < len(run_summaries):
            raise InvalidInput(f"run {run}", rule=f"this execution has {len(run_summaries)} runs")
    return ExecutedRun(
        history=history,
        state=state,
        records=records,
        machines=planned_machines(platform),
        platform=platform.name,
        run_summaries=tuple(
            run_summaries if runs is None else (run_summaries[run] for run in sorted(set(runs)))
        ),
    )
