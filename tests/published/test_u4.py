"""U4: S3's experiments with real processes (A3.1 to A3.3, A3.7 to A3.9). ``weft reproduce u4`` takes twice as long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from weft.papers.adaptive_jobs import JOBS, grid
from weft.papers.reproduction import Results
from weft.papers.unified_migration import (
    DEGRADATION,
    DEMANDS,
    FROM_ZERO,
    JobCase,
    JobMigrationStudy,
    measure_jobs,
)

SCALE = 0.01
CASES = {
    DEGRADATION: JobCase(units=70, slow_after=45, competitors=9, contract=3.0),
    FROM_ZERO: JobCase(units=20, slow_after=8, competitors=9, contract=3.0, restarts=False),
    DEMANDS: JobCase(units=90, demand_after=50, poll_every_s=30.0),
}
"""Shorter jobs than those of the paper, of the same story. More competitors and a contract that allows more, since
other tests run beside these and must not be taken for the load."""


@pytest.fixture(scope="module")
def happened():
    """Run what only waits beside what computes, of which there is one at a time: its load has a core of its own."""
    study = JobMigrationStudy(SCALE, CASES)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(study.happened, DEMANDS)
        computing = {name: study.happened(name) for name in (DEGRADATION, FROM_ZERO)}
        return {**computing, DEMANDS: waiting.result()}


def test_a3_1_one_migration_for_performance(happened):
    log = happened[DEGRADATION].log
    assert [log.of("assign", job)[0].machine for job in range(JOBS)] == ["pegasus", *["babieca"] * 4]
    (move,) = log.moves()
    assert (move.job, move.machine, move.reason) == (0, "babieca", "performance")
    assert [line.job for line in log.of("violation")] == [0]


def test_a3_1_the_job_that_moved_ends_first(happened):
    assert happened[DEGRADATION].log.of("completed")[0].job == 0


def test_a3_2_one_job_finds_a_better_machine_and_three_ask_to_leave(happened):
    log = happened[DEMANDS].log
    assert [(move.job, move.reason, move.machine) for move in log.moves()] == [
        (1, "better-machine", "pegasus"),
        *((job, "self-migration", "pegasus") for job in (2, 3, 4)),
    ]
    assert [line.job for line in log.of("completed")] == list(range(JOBS))


def test_a3_2_jobs_run_on_the_fast_machine_one_after_the_other(happened):
    log = happened[DEMANDS].log
    there = [(line.what, line.job) for line in log.lines if line.machine == "pegasus"]
    runs = [(what, job) for what, job in there if what in ("begun", "ended")]
    assert runs == [(what, job) for job in range(JOBS) for what in ("begun", "ended")]
    asked = log.of("cancel", reason="self-migration")
    assert max(line.at_s for line in asked) < log.of("completed", 1)[0].at_s, "they wait for it"


@pytest.mark.parametrize("case", [DEGRADATION, DEMANDS])
def test_a3_3_the_stages_of_every_migration_come_in_order(happened, case):
    log = happened[case].log
    for job in range(JOBS):
        moves = log.moves(job)
        if not moves:
            continue
        cancelled = log.of("cancel", job)[0]
        later = [
            (line.what, line.machine)
            for line in log.lines[log.lines.index(cancelled) :]
            if line.job == job and line.what in ("cancel", "prolog", "clean-up", "start")
        ]
        old, new = cancelled.machine, moves[0].machine
        assert later == [("cancel", old), ("prolog", new), ("clean-up", old), ("start", new)]


@pytest.mark.parametrize("case", [DEGRADATION, DEMANDS])
def test_a3_3_restart_files_carry_every_iteration_over(happened, case):
    for best in happened[case].best:
        reached = 0
        for part in best["trail"]:
            assert part["from"] == reached
            reached = part["to"]
        assert reached == best["structures"] == CASES[case].units
    moved = happened[case].best[0 if case == DEGRADATION else 2]["trail"]
    assert moved[1]["from"] >= (CASES[case].slow_after or CASES[case].demand_after)


@pytest.mark.parametrize("case", CASES)
def test_a3_7_the_shared_file_is_fetched_once_per_machine(happened, case):
    assert {line.machine for line in happened[case].log.of("begun")} == {"pegasus", "babieca"}
    assert happened[case].fetched == 2


@pytest.mark.parametrize("case", CASES)
def test_a3_8_every_architecture_gets_its_own_program(happened, case):
    arch = {machine.name: machine.arch for machine in grid().machines}
    parts = [part for best in happened[case].best for part in best["trail"]]
    assert all(part["made_for"] == arch[part["machine"]] for part in parts)
    assert {part["made_for"] for part in parts} >= {"Alpha EV6"}


def test_a3_9_without_restart_files_a_job_begins_at_zero(happened):
    found = happened[FROM_ZERO]
    (move,) = found.log.moves()
    assert (move.job, move.reason) == (0, "performance")
    assert [line.value for line in found.log.of("start", 0)] == [0.0, 0.0]
    (part,) = found.best[0]["trail"]
    assert (part["machine"], part["from"]) == ("babieca", 0)


def test_the_figures_are_as_demanded(happened):
    measures = {name: measure_jobs(name, found, SCALE) for name, found in happened.items()}
    zero = {f"zero.{name}": value for name, value in measures[FROM_ZERO].items()}
    results = Results({DEGRADATION: [{**measures[DEGRADATION], **zero}], DEMANDS: [measures[DEMANDS]]})
    rows = JobMigrationStudy().rows(results, full=False)
    assert [row.figure for row in rows if row.within is False] == []
    assert {row.accepts for row in rows if row.within} == {"A3.1", "A3.2", "A3.3", "A3.7", "A3.8", "A3.9"}


def test_what_is_not_as_demanded_is_named(happened):
    found = dict(measure_jobs(DEGRADATION, happened[DEGRADATION], SCALE))
    found |= {"moves": 2.0, "fetches": 2.5, "zero.to_babieca": 1.0, "zero.spared": 0.0}
    rows = JobMigrationStudy().rows(Results({DEGRADATION: [found]}), full=False)
    assert [row.figure for row in rows if row.within is False] == [
        "migrations",
        "fetches of the shared file per machine",
    ]
