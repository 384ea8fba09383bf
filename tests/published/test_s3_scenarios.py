"""Simulated experiments with adaptive jobs: A3.1 (degradation), A3.2 (requirements), A3.3 (stages of a
migration).
"""

from __future__ import annotations

import json

import pytest

from weft.papers import adaptive_jobs
from weft.papers.adaptive_jobs import JOBS, LATENCY_S, array_job, grid, run_jobs
from weft.papers.adaptive_jobs import degradation_scenario as scenario_a
from weft.papers.adaptive_jobs import requirements_scenario as scenario_b


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s3_testbed_and_scenarios.json").read_text())


@pytest.fixture(scope="module")
def slowed():
    return run_jobs(100, scenario_a(), poll_every_s=10.0)


@pytest.fixture(scope="module")
def demanding():
    return run_jobs(150, scenario_b(), poll_every_s=30.0)


def test_machines_and_file_sizes_of_the_testbed_equal_the_reference_data(figures):
    machines = {machine.name: machine for machine in grid().machines}
    assert list(machines) == [host["name"] for host in figures["hosts"]]
    for host in figures["hosts"]:
        machine = machines[host["name"]]
        found = (machine.nodes, machine.arch, machine.os, machine.memory, machine.site, machine.speed)
        wanted = (host["cpus"], host["arch"], host["os"], host["mem_mb"] * 1e6, host["vo"], host["speed"])
        assert found == wanted
    files = figures["files_bytes"]
    sizes = [item.size for item in array_job(100).tasks[0].inputs]
    assert [float(str(size)) for size in sizes] == [
        files["executable"], files["structures_shared_compressed"], files["parameters"], files["sequence"],
    ]  # fmt: skip
    assert figures["model"]["stage_latency_s"] == LATENCY_S
    assert grid().default_link.bandwidth_Bps == figures["model"]["client_bandwidth_Bps"]
    change = scenario_b().requirements[0]
    assert change.after == pytest.approx(100 / 150)
    assert scenario_a().loads[0].processes == figures["scenario_A"]["competing_processes"]


def test_a3_1_exactly_one_job_migrates_for_performance(slowed):
    (move,) = slowed.moves()
    assert (move.job, move.machine, move.reason) == (0, "babieca", "performance")


def test_a3_1_the_violation_is_detected_at_the_first_poll_after_a_slow_iteration(slowed):
    (violation,) = slowed.of("violation")
    begun_s = slowed.of("begun", 0)[0].at_s
    # Iterations take 4 s until 120 s, then 16 s: the first slow one ends after 16 s more.
    whole, passed_s = divmod(120.0 - begun_s, 4.0)
    slow_end_s = 120.0 + (4.0 - passed_s) * 4.0 + 16.0
    # Polling starts with the first job.
    first_s = min(line.at_s for line in slowed.of("begun"))
    polls = [first_s + 10.0 * number for number in range(1, 30)]
    assert violation.at_s == pytest.approx(next(at for at in polls if at >= slow_end_s))
    assert slowed.of("start", 0)[1].value == pytest.approx((whole + 2) / 100)


def test_a3_1_the_overhead_is_small_and_the_migrated_job_ends_first(slowed, figures):
    found = adaptive_jobs.measure_degradation(slowed)
    assert 4.0 <= found["overhead_percent"] <= 8.0
    assert found["overhead_s"] == pytest.approx(figures["scenario_A"]["prototype"]["overhead_s"], abs=0.5)
    assert found["ends_first"] == 1


def test_a3_1_jobs_run_on_the_machines_of_the_paper(slowed):
    machines = [slowed.of("assign", job)[0].machine for job in range(JOBS)]
    assert machines == ["pegasus", "babieca", "babieca", "babieca", "babieca"]


def test_a3_2_events_happen_in_the_order_of_the_paper(demanding):
    found = adaptive_jobs.measure_requirements(demanding)
    assert found["in_order"] == 1
    assert (found["better"], found["self"], found["other"]) == (1, 3, 0)
    assert found["most_at_once"] == 1


def test_a3_2_jobs_run_on_pegasus_one_after_another(demanding):
    on_pegasus = [line for line in demanding.lines if line.machine == "pegasus"]
    runs = [(line.what, line.job) for line in on_pegasus if line.what in ("begun", "ended")]
    assert runs == [(what, job) for job in range(JOBS) for what in ("begun", "ended")]
    # No work is lost: the jobs start with their second phase.
    starts = {line.job: line.value for line in demanding.of("start") if line.machine == "pegasus"}
    assert [starts[job] for job in (2, 3, 4)] == pytest.approx([2 / 3] * 3)
    assert 0.4 < starts[1] < 0.42


def test_a3_2_a_waiting_job_occupies_no_node_of_its_former_machine(demanding):
    left = [line for line in demanding.of("ended") if line.job == 4 and line.machine == "babieca"]
    assigned = demanding.moves(4)[0]
    assert left[0].at_s < assigned.at_s - 400


@pytest.mark.parametrize("job", [0, 1, 2, 3, 4])
def test_a3_3_the_stages_of_every_migration_are_in_order(slowed, demanding, job):
    for log, old in ((slowed, "pegasus" if job == 0 else "babieca"), (demanding, "babieca")):
        moves = log.moves(job)
        if not moves:
            continue
        cancelled = log.of("cancel", job)[0]
        later = [
            (line.what, line.machine)
            for line in log.lines
            if line.job == job
            and line.at_s >= cancelled.at_s
            and line.what in ("cancel", "prolog", "clean-up", "start", "begun")
        ]
        new = moves[0].machine
        assert later == [("cancel", old), ("prolog", new), ("clean-up", old), ("start", new), ("begun", new)]


def test_a3_3_a_wrong_order_of_stages_is_detected(slowed):
    swapped = list(slowed.lines)
    at = {line.what: position for position, line in enumerate(swapped) if line.job == 0 and line.at_s > 130}
    swapped[at["clean-up"]], swapped[at["prolog"]] = swapped[at["prolog"]], swapped[at["clean-up"]]
    assert adaptive_jobs.measure_degradation(type(slowed)(tuple(swapped)))["in_order"] == 0
