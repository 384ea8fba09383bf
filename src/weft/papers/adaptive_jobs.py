"""``s3-degradation`` and ``s3-requirements``: jobs that migrate when a machine slows down or requirements
change.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids
(docs/papers/adaptive-jobs.md, sections 4, 8 and 9; A3.1 to A3.3). Five machines of two organisations and an
array of five jobs. Machines, memories and files are published. Speeds, latencies and bandwidths are not:
speeds are relative to one node of babieca, and the stage latency of 19 s makes a migration cost about as much
as in the paper.

Scenario A: five jobs of 100 iterations. After two minutes three competing processes start on pegasus, where
job 0 takes 4 s per iteration. An iteration of more than twice the expected time violates the contract; the
profile is read every 10 s. Job 0 migrates to a slower machine that is free.

Scenario B: five jobs of 100 and then 50 units; for the second phase each requires 512 MB, which only pegasus
has. Job 0 runs there from the start. When it ends, job 1 migrates to the better machine; the others request
migration, wait without a machine, and run on pegasus one after another. Better machines are looked for every
30 s.

Deviations: the checkpoint has the size of the result (100 kB) and is written on cancellation, after the last
whole iteration. The paper prints charts; the tolerances are those of docs/papers. The first start of a job
also takes the latency of 19 s, which the prototype left out, so that all events are later by about that much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from weft.backends.simulation.scenario import Arrival, CompetingLoad, RequirementChange, Scenario
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.journal import JournalEntry
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.states import TaskState
from weft.formats.profiles import preset_settings
from weft.instance import compile_instance
from weft.papers.reproduction import (
    JUDGED_BELOW,
    OWN_TIMES,
    ExperimentCell,
    Figure,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    give_reasons,
    single_rows,
)
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.builder import Builder
from weft.workflow.unfold import unfold
from weft.workflow.workflow import Workflow

JOBS = 5
LATENCY_S = 19.0
"""Latency of every stage in seconds; cancelling takes half of it, and so does cleaning up."""
MOVING_S = 3.0 * LATENCY_S
"""Seconds that cancel, prolog, clean-up and start of a migration take, without transfers."""
_CLIENT_BPS = 1.25e6
_EXECUTABLE_BYTES, _STRUCTURES_BYTES, _SMALL_BYTES, _RESULT_BYTES = 5e5, 12.2e6, 1e3, 1e5
_UNIT_S = 10.0
"""Seconds of an iteration on a node of babieca."""
_MB = 1e6
_HOSTS = (
    ("ursa", 1, "UltraSPARC-IIe", "Solaris", 500, 256, "fork", "UCM", 0.6),
    ("draco", 1, "UltraSPARC-I", "Solaris", 167, 128, "fork", "UCM", 0.2),
    ("pegasus", 1, "Pentium 4", "Linux", 2400, 1024, "fork", "UCM", 2.5),
    ("solea", 2, "UltraSPARC-II", "Solaris", 296, 256, "fork", "UCM", 0.35),
    ("babieca", 5, "Alpha EV6", "Linux", 466, 256, "PBS", "CAB", 1.0),
)


@cache
def grid() -> Platform:
    """Return the five machines (table 5.1)."""
    machines = tuple(
        Machine(
            name=name,
            nodes=nodes,
            memory=memory * _MB,
            arch=arch,
            os=system,
            site=site,
            speed=speed,
            attributes={"mhz": mhz, "job_manager": manager},
        )
        for name, nodes, arch, system, mhz, memory, manager, site, speed in _HOSTS
    )
    link = Link(bandwidth_Bps=_CLIENT_BPS)
    return Platform(machines=machines, sites={"UCM": link, "CAB": link}, default_link=link)


@cache
def array_job(units: int) -> Workflow:
    """Return the array of five jobs of ``units`` iterations; each compares a protein with 6150 structures."""
    flow = Builder("proteins")
    flow.task(
        "search",
        sweep={"i": f"0..{JOBS - 1}"},
        work=units * _UNIT_S,
        inputs=[
            {"file": "search", "from": "search.{machine.arch}", "size": _EXECUTABLE_BYTES},
            {
                "file": "structures",
                "from": "structures.gz",
                "size": _STRUCTURES_BYTES,
                "shared": True,
                "compressed": True,
            },
            {"file": "parameters", "from": "parameters", "size": _SMALL_BYTES},
            {"file": "sequence", "from": "sequence.{i}", "size": _SMALL_BYTES},
        ],
        outputs={"best.{i}": {"size": _RESULT_BYTES, "to": "best.{i}"}},
        checkpoint={"files": ["restart.{i}"]},
        progress="profile.{i}",
    )
    return flow.build()


def degradation_scenario() -> Scenario:
    """Return scenario A: three competing processes on pegasus after two minutes."""
    return Scenario(
        name="degradation",
        loads=(CompetingLoad(machines=("pegasus",), processes=3, at_s=120.0),),
        stage_latency_s=LATENCY_S,
        profiles={"search": 100},
    )


def requirements_scenario() -> Scenario:
    """Return scenario B: after 100 of 150 units every job requires 512 MB, which only pegasus has."""
    from weft.expressions import parse

    change = RequirementChange(task="search", after=100 / 150, requirements=parse("memory >= 512*MB"))
    return Scenario(
        name="requirements", requirements=(change,), stage_latency_s=LATENCY_S, profiles={"search": 150}
    )


_WORKFLOW = "jobs"


class StageLogLine(NamedTuple):
    """One line of the stage log."""

    at_s: float
    what: str
    """Commands: ``assign``, ``cancel``, ``prolog``, ``clean-up``, ``start``. Events: ``begun``, ``ended``,
    ``completed``, ``request``, ``violation``.
    """
    job: int
    machine: str
    reason: str = ""
    """Reason of a migration or cancellation (docs/papers/adaptive-jobs.md, section 4)."""
    value: float = 0.0
    """For ``ended``, ``request`` and ``start``: the share of the work that is done."""


@dataclass(frozen=True, slots=True)
class StageLog:
    """The stage log of a run (docs/papers/adaptive-jobs.md, section 4), ordered by time."""

    lines: tuple[StageLogLine, ...]

    def of(self, what: str, job: int | None = None, *, reason: str | None = None) -> list[StageLogLine]:
        """Return the lines about events of the kind ``what``; ``job`` and ``reason`` limit them further."""
        return [
            line
            for line in self.lines
            if line.what == what and job in (None, line.job) and reason in (None, line.reason)
        ]

    def moves(self, job: int | None = None, *, reason: str | None = None) -> list[StageLogLine]:
        """Return the assignments that are migrations, optionally of one job and one reason."""
        return [line for line in self.of("assign", job, reason=reason) if line.reason]

    def most_at_once(self, machine: str) -> int:
        """Return the maximum number of programs that ran on a machine at the same time."""
        running = most = 0
        for line in self.lines:
            if line.machine == machine and line.what in ("begun", "ended"):
                running += 1 if line.what == "begun" else -1
                most = max(most, running)
        return most


def run_jobs(units: int, scenario: Scenario, *, poll_every_s: float) -> StageLog:
    """Simulate the array of jobs with the preset ``s3`` and return its stage log."""
    instance = compile_instance(unfold(array_job(units)), grid())
    entries: list[JournalEntry] = []
    Simulation(
        library=WorkflowLibrary({_WORKFLOW: instance}),
        arrivals=[Arrival(workflow=_WORKFLOW)],
        policy=make_policy("rank"),
        settings=preset_settings("s3", {"poll_every": poll_every_s, "migration": {"restart_cost": MOVING_S}}),
        scenario=scenario,
    ).run(record=entries.append)
    return read_stage_log(entries, [machine.name for machine in instance.machines])


def read_stage_log(
    entries: Sequence[JournalEntry], machines: Sequence[str], *, at_once: bool = False
) -> StageLog:
    """Return the stage log of a journal with one run.

    ``at_once`` is for journals without ``Started`` events: a program counts as begun when its start command
    is issued, and its end is logged even if the event states no share of the work.
    """
    return StageLog(tuple(_StageLogReader(machines, at_once=at_once).lines(entries)))


class _StageLogReader:
    """Converts journal entries to lines of the stage log."""

    def __init__(self, machines: Sequence[str], *, at_once: bool) -> None:
        self._machines = machines
        self._at_once = at_once
        self._job: dict[int, int] = {}
        self._machine: dict[int, str] = {}

    def lines(self, entries: Sequence[JournalEntry]) -> Iterator[StageLogLine]:
        for entry in entries:
            yield from self._event(entry.now, entry.event)
            for command in entry.commands:
                yield from self._command(entry.now, command)

    def _event(self, now: float, event: ev.Event) -> Iterator[StageLogLine]:
        match event:
            case ev.Started(attempt=attempt):
                yield self._line(now, "begun", attempt)
            case ev.Ended(attempt=attempt, work_done=share):
                if share is not None or self._at_once:
                    yield self._line(now, "ended", attempt, value=share or 0.0)
            case ev.RequirementsChanged(attempt=attempt):
                yield self._line(now, "request", attempt)

    def _command(self, now: float, command: cm.Command) -> Iterator[StageLogLine]:
        match command:
            case cm.Assign():
                self._job[command.attempt] = command.task
                self._machine[command.attempt] = self._machines[command.machine]
                reason = "" if command.replaces is None else command.reason
                yield self._line(now, "assign", command.attempt, reason)
            case cm.Cancel(attempt=attempt, reason=reason):
                yield self._line(now, "cancel", attempt, reason)
            case cm.StageIn(attempt=attempt):
                yield self._line(now, "prolog", attempt)
            case cm.CleanUp(attempt=attempt):
                yield self._line(now, "clean-up", attempt)
            case cm.Start(attempt=attempt, restart_from=share):
                yield self._line(now, "start", attempt, value=share)
                if self._at_once:
                    yield self._line(now, "begun", attempt)
            case cm.ReportViolation(attempt=attempt):
                yield self._line(now, "violation", attempt)
            case cm.Settle(state=TaskState.COMPLETED, task=task):
                yield StageLogLine(now, "completed", task, "")

    def _line(
        self, now: float, what: str, attempt: int, reason: str = "", value: float = 0.0
    ) -> StageLogLine:
        return StageLogLine(now, what, self._job[attempt], self._machine[attempt], reason, value)


_DEGRADATION_CELL = "scenario A"
_DEGRADATION_UNITS, _DEGRADATION_POLL_S = 100, 10.0
_STAGES = ("cancel", "prolog", "clean-up", "start")
"""The stages of a migration in order (docs/papers/adaptive-jobs.md, section 4)."""
_YES, _ONE = ToleranceBand.exactly(1.0), ToleranceBand.exactly(1)
_SHARE = ToleranceBand(least=4.0, most=8.0)
_DEGRADATION_TABLES = {
    "what happens": (
        Figure("violation_s", "violation seen", "s", prototype="130 s"),
        Figure("iterations", "iterations done by then", prototype="23"),
        Figure("overhead_s", "overhead", "s", prototype="57.5 s"),
        Figure("first_end_s", "job 0 ends", "s", prototype="977 s"),
        Figure("others_end_s", "the others end", "s", prototype="1049 s"),
    ),
    "required figures": (
        Figure("moves", "migrations", "", "1", "1", _YES, "A3.1"),
        Figure("to_babieca", "of them for performance, to babieca", "", "1", "1", _YES, "A3.1"),
        Figure("overhead_percent", "overhead, share of job 0", "%", "about 6 %", "5.9 %", _SHARE, "A3.1"),
        Figure("ends_first", "job 0 ends first (1 = yes)", "", "1", "1", _YES, "A3.1"),
        Figure("in_order", "stages in this order (1 = yes)", "", "1", "", _YES, "A3.3"),
    ),
    "stage log of the migration of job 0": (
        Figure("cancel_s", "cancel on pegasus", "s"),
        Figure("prolog_s", "prolog on babieca", "s"),
        Figure("clean-up_s", "clean-up on pegasus", "s"),
        Figure("start_s", "start on babieca", "s"),
        Figure("begun_s", "runs on babieca", "s"),
    ),
}


class DegradationStudy:
    """The experiment of scenario A: a machine becomes slow, and its job migrates."""

    name: ClassVar[str] = "s3-degradation"
    title: ClassVar[str] = (
        "a job migrates from a machine that became slow (Huedo et al., GridWay; adaptive-jobs, section 9)"
    )

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:  # noqa: ARG002 -- deterministic
        """Return the only cell."""
        return [ExperimentCell(name=_DEGRADATION_CELL, runs=1)]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:  # noqa: ARG002 -- deterministic
        """Simulate the scenario and return its measures."""
        return measure_degradation(
            run_jobs(_DEGRADATION_UNITS, degradation_scenario(), poll_every_s=_DEGRADATION_POLL_S)
        )

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:  # noqa: ARG002
        """Return the figures of docs/papers/adaptive-jobs.md, section 9."""
        rows = single_rows(results, _DEGRADATION_CELL, _DEGRADATION_TABLES)
        return give_reasons(rows, OWN_TIMES, {"stage log": JUDGED_BELOW})


def measure_degradation(log: StageLog) -> Measures:
    """Return the measures of scenario A from its stage log."""
    moves = log.moves()
    cancelled_s = moves[0].at_s if moves else 0.0
    later = [line for line in log.lines if line.job == 0 and line.at_s >= cancelled_s]
    stages = [line for line in later if line.what in _STAGES]
    begun_s = max((line.at_s for line in later if line.what == "begun"), default=cancelled_s)
    ends = {job: log.of("completed", job)[0].at_s for job in range(JOBS)}
    others = [ends[job] for job in range(1, JOBS)]
    return {
        "violation_s": log.of("violation")[0].at_s if log.of("violation") else 0.0,
        "iterations": _DEGRADATION_UNITS * max((line.value for line in log.of("start", 0)), default=0.0),
        "moves": len(moves),
        "to_babieca": sum(move.machine == "babieca" for move in log.moves(0, reason="performance")),
        "overhead_s": begun_s - cancelled_s,
        "overhead_percent": 100.0 * (begun_s - cancelled_s) / ends[0],
        "first_end_s": ends[0],
        "others_end_s": max(others),
        "ends_first": float(ends[0] < min(others)),
        "in_order": float(
            tuple(line.what for line in stages) == _STAGES
            and all(before.at_s <= after.at_s for before, after in pairwise(stages))
        ),
        **{
            f"{stage}_s": next((line.at_s for line in stages if line.what == stage), 0.0) for stage in _STAGES
        },
        "begun_s": begun_s,
    }


_REQUIREMENTS_CELL = "scenario B"
_REQUIREMENTS_UNITS, _REQUIREMENTS_POLL_S = 150, 30.0
_SELF, _BETTER = "self-migration", "better-machine"
_REQUIREMENTS_TABLES = {
    "what happens": (
        Figure("through_s", "job 0 ends its program on pegasus", "s", prototype="629 s"),
        Figure("better_s", "job 1 migrates to pegasus", "s", prototype="630 s"),
        Figure("request_s", "jobs 2 to 4 request migration", "s", prototype="1030 s"),
        Figure("to_pegasus_2_s", "job 2 migrates to pegasus", "s", prototype="1050 s"),
        Figure("to_pegasus_3_s", "job 3 migrates to pegasus", "s", prototype="1320 s"),
        Figure("to_pegasus_4_s", "job 4 migrates to pegasus", "s", prototype="1590 s"),
        Figure("end_0_s", "job 0 ends", "s", prototype="648 s"),
        Figure("end_1_s", "job 1 ends", "s", prototype="1066 s"),
        Figure("end_2_s", "job 2 ends", "s", prototype="1326 s"),
        Figure("end_3_s", "job 3 ends", "s", prototype="1596 s"),
        Figure("end_4_s", "job 4 ends", "s", prototype="1866 s"),
    ),
    "required figures": (
        Figure("in_order", "events in the order of the paper (1 = yes)", "", "1", "", _ONE, "A3.2"),
        Figure("better", "opportunistic migrations", "", "1", "", _ONE, "A3.2"),
        Figure("self", "self-migrations", "", "3", "", ToleranceBand.exactly(3), "A3.2"),
        Figure("other", "other migrations", "", "0", "", ToleranceBand.exactly(0), "A3.2"),
        Figure("most_at_once", "jobs at once on pegasus, at most", "", "1", "", _ONE, "A3.2"),
    ),
}


class RequirementsStudy:
    """The experiment of scenario B: jobs change their requirements and migrate."""

    name: ClassVar[str] = "s3-requirements"
    title: ClassVar[str] = "jobs change their requirements (Huedo et al., GridWay; adaptive-jobs, section 9)"

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:  # noqa: ARG002 -- deterministic
        """Return the only cell."""
        return [ExperimentCell(name=_REQUIREMENTS_CELL, runs=1)]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:  # noqa: ARG002 -- deterministic
        """Simulate the scenario and return its measures."""
        return measure_requirements(
            run_jobs(_REQUIREMENTS_UNITS, requirements_scenario(), poll_every_s=_REQUIREMENTS_POLL_S)
        )

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:  # noqa: ARG002
        """Return the figures of docs/papers/adaptive-jobs.md, section 9."""
        return give_reasons(single_rows(results, _REQUIREMENTS_CELL, _REQUIREMENTS_TABLES), OWN_TIMES)


def measure_requirements(log: StageLog) -> Measures:
    """Return the measures of scenario B from its stage log."""
    ends = {job: log.of("completed", job)[0].at_s for job in range(JOBS)}
    through_s = max(line.at_s for line in log.of("ended", 0))
    better, requested = log.moves(reason=_BETTER), log.moves(reason=_SELF)
    requests = [_first_s(log, "cancel", job, _SELF) for job in range(2, JOBS)]
    arrivals = {job: _first_s(log, "assign", job, _SELF) for job in range(2, JOBS)}
    order = (through_s, _first_s(log, "assign", 1, _BETTER), min(requests), *arrivals.values())
    return {
        "through_s": through_s,
        "better_s": order[1],
        "request_s": min(requests),
        **{f"to_pegasus_{job}_s": at_s for job, at_s in arrivals.items()},
        **{f"end_{job}_s": at_s for job, at_s in ends.items()},
        "in_order": float(
            all(before < after for before, after in pairwise(order))
            and all(ends[job] < ends[job + 1] for job in range(JOBS - 1))
            and all(line.machine == "pegasus" for line in (*better, *requested))
            and not log.moves(0)
        ),
        "better": len(better),
        "self": len(requested),
        "other": len(log.moves()) - len(better) - len(requested),
        "most_at_once": log.most_at_once("pegasus"),
    }


def _first_s(log: StageLog, what: str, job: int, reason: str) -> float:
    """Return the time of the first matching line; 0 if no line matches.

    With a time of 0 the events are not in order, so the measure ``in_order`` is 0, too.
    """
    return next((line.at_s for line in log.of(what, job, reason=reason)), 0.0)
