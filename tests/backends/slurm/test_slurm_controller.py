"""The controller against a real Slurm; fake commands only for faults that cannot be provoked."""

from __future__ import annotations

import functools
import itertools
import time

import pytest

from patience import PATIENCE_S
from slurm_cluster import SlurmCluster
from weft.backends.slurm.commands import JobPhase, JobState, SlurmCause, SlurmJob, job_script
from weft.backends.slurm.controller import SlurmController, SlurmRefused, SlurmUnreachable, run_locally

RATE = 8.0


@pytest.fixture
def controller(slurm_cluster):
    """A controller of the shared cluster; its jobs are cancelled."""
    run = functools.partial(run_locally, environment=slurm_cluster.environment)
    controller = SlurmController(
        run, commands_per_s=RATE, poll_every_s=0.5, first_backoff_s=0.2, most_backoff_s=1.0
    )
    yield controller
    left = [job.id for job in controller.poll().jobs.values() if job.state.phase is not JobPhase.FINAL]
    controller.cancel(left)
    await_jobs(controller, left, lambda job: job.state.phase is JobPhase.FINAL)


def job(tmp_path, name, **needs):
    """Return a job that writes to a file of this test."""
    return SlurmJob(name=name, output=str(tmp_path / "out"), error=str(tmp_path / "err"), **needs)


def await_jobs(controller, jobs, reached):
    """Poll until a condition holds for all jobs, and return them."""
    end = time.monotonic() + PATIENCE_S
    while True:
        snapshot = controller.poll()
        found = [snapshot.jobs[each] for each in jobs if each in snapshot.jobs]
        if len(found) == len(jobs) and all(map(reached, found)):
            return found
        assert time.monotonic() < end, (found, snapshot.problem)
        time.sleep(0.1)


def ended(status):
    return status.state.phase is JobPhase.FINAL


def running(status):
    return status.state is JobState.RUNNING


def await_text(path, text):
    end = time.monotonic() + PATIENCE_S
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < end, f"{path} does not contain {text!r}"
        time.sleep(0.1)


def test_exit_codes_and_signals_of_jobs_are_reported(controller, tmp_path) -> None:
    commands = [["sh", "-c", "echo $PWD; exit 3"], ["true"], ["sh", "-c", "kill -9 $$"]]
    submitted_s = time.monotonic()
    jobs = [
        controller.submit(
            job(tmp_path, f"codes-{number}", comment="a, b"), job_script(command, str(tmp_path))
        )
        for number, command in enumerate(commands)
    ]
    failed, done, killed = await_jobs(controller, jobs, ended)
    assert (failed.state, failed.exit_code, failed.comment) == (JobState.FAILED, 3, "a, b")
    assert (done.state, done.exit_code) == (JobState.COMPLETED, 0)
    assert (killed.state, killed.exit_signal) == (JobState.FAILED, 9)
    assert len(done.nodes) == 1
    assert str(tmp_path) in (tmp_path / "out").read_text()
    assert controller.poll().lacks("999999", submitted_s)
    assert not controller.poll().lacks(jobs[0], submitted_s)
    assert not controller.poll().lacks("999999", time.monotonic() + 1)


def test_an_array_of_200_is_one_submission_and_few_commands(controller, tmp_path) -> None:
    array = job(tmp_path, "sweep", array_size=200)
    number = controller.submit(array, job_script(["true"], str(tmp_path)))
    assert controller.commands == 1
    begun = time.monotonic()
    done = await_jobs(controller, [f"{number}_{index}" for index in range(200)], ended)
    assert {status.state for status in done} == {JobState.COMPLETED}
    assert controller.commands <= 2 + (time.monotonic() - begun) / 0.5


def test_nodes_cores_memory_and_gpus_are_allocated(controller, tmp_path, slurm_cluster) -> None:
    needs = {"partition": "gpu", "nodes": 1, "most_nodes": 2, "cores": 2, "memory_per_node_bytes": 2**30}
    script = job_script(["sh", "-c", "echo $SLURM_NNODES $SLURM_CPUS_PER_TASK $SLURM_MEM_PER_NODE"], "/")
    number = controller.submit(
        job(tmp_path, "needs", gres="gpu:1", constraint="slow", limit_s=60, **needs), script
    )
    [status] = await_jobs(controller, [number], ended)
    assert (tmp_path / "out").read_text() == "2 2 1024\n"
    assert status.nodes == ("node3", "node4")


def test_jobs_are_found_by_name_after_a_crash_of_the_submitter(controller, tmp_path) -> None:
    script = job_script(["true"], "/")
    first = controller.submit(job(tmp_path, "attempt-1f"), script)
    second = controller.submit(job(tmp_path, "other", comment="attempt-2f"), script)
    found = controller.find(["attempt-1f", "attempt-2f", "attempt-3f"])
    assert {name: [each.id for each in jobs] for name, jobs in found.items()} == {
        "attempt-1f": [first],
        "attempt-2f": [second],
    }


def test_many_jobs_are_cancelled_by_one_command(controller, tmp_path) -> None:
    script = job_script(["sleep", "600"], "/")
    jobs = [controller.submit(job(tmp_path, f"many-{number}"), script) for number in range(20)]
    before = controller.commands
    assert controller.cancel(jobs) == ()
    assert controller.commands == before + 1
    assert {each.state for each in await_jobs(controller, jobs, ended)} == {JobState.CANCELLED}


def test_signals_reach_the_program(controller, tmp_path) -> None:
    program = "trap 'echo got; exit 4' USR1; echo ready; while :; do sleep 0.1; done"
    number = controller.submit(job(tmp_path, "signalled"), job_script(["bash", "-c", program], "/"))
    await_text(tmp_path / "out", "ready")
    assert controller.signal([number], "USR1") == ()
    [status] = await_jobs(controller, [number], ended)
    assert (tmp_path / "out").read_text() == "ready\ngot\n"
    assert status.exit_code == 4
    assert "NOSUCH" in controller.signal([number], "NOSUCH")[0]


@pytest.mark.parametrize(
    ("needs", "cause"),
    [
        ({"partition": "nix"}, SlurmCause.PARTITION),
        ({"partition": "short", "limit_s": 3600}, SlurmCause.TIME_LIMIT),
        ({"memory_per_node_bytes": 2**50}, SlurmCause.CONFIGURATION),
        ({"nodes": 9}, SlurmCause.CONFIGURATION),
        ({"constraint": "purple"}, SlurmCause.CONFIGURATION),
    ],
)
def test_refusals_have_a_cause(controller, tmp_path, needs, cause) -> None:
    with pytest.raises(SlurmRefused) as caught:
        controller.submit(job(tmp_path, "refused", **needs), job_script(["true"], "/"))
    assert caught.value.cause is cause, str(caught.value)


def test_partitions_are_listed(controller) -> None:
    groups = controller.list_partitions()
    nodes = {
        name: [node for group in groups if group.partition == name for node in group.nodes]
        for name in ("main", "gpu")
    }
    assert {name: sorted(each) for name, each in nodes.items()} == {
        "main": ["node1", "node2", "node3", "node4"],
        "gpu": ["node3", "node4"],
    }
    [gpu] = {
        (group.cores, group.memory_per_node_bytes, group.gres["gpu"])
        for group in groups
        if group.partition == "gpu"
    }
    assert gpu == (4, 4000 * 2**20, 2)
    assert {group.limit_s for group in groups if group.partition == "short"} == {60.0}
    assert {group.default for group in groups if group.partition == "main"} == {True}


def test_a_site_without_accounting_is_asked_once(controller) -> None:
    assert controller.ask_accounting(["1"]) == {}
    before = controller.commands
    assert controller.ask_accounting(["1"]) == {}
    assert controller.commands == before


def test_a_killed_slurmctld_makes_states_unknown_until_it_returns(
    controller, tmp_path, slurm_cluster
) -> None:
    number = controller.submit(job(tmp_path, "outage"), job_script(["sleep", "600"], "/"))
    await_jobs(controller, [number], running)
    time.sleep(6)  # slurmctld saves its state every five seconds
    slurm_cluster.kill_controller()
    try:
        await_jobs(controller, [number], lambda each: each.state is JobState.UNKNOWN)
        assert controller.poll().problem is not None
        with pytest.raises(SlurmUnreachable) as caught:
            controller.submit(job(tmp_path, "refused"), job_script(["true"], "/"))
        assert caught.value.retry_in_s > 0
    finally:
        slurm_cluster.start_controller()
    await_jobs(controller, [number], running)


def test_a_dead_node_ends_its_job_without_requeue(tmp_path, fragile_cluster) -> None:
    controller = SlurmController(functools.partial(run_locally, environment=fragile_cluster.environment))
    number = controller.submit(job(tmp_path, "death", constraint="fast"), job_script(["sleep", "600"], "/"))
    [status] = await_jobs(controller, [number], running)
    fragile_cluster.kill_node(status.nodes[0])
    [lost] = await_jobs(controller, [number], ended)
    assert (lost.state, lost.restarts) == (JobState.NODE_FAIL, 0)
    fragile_cluster.return_node(status.nodes[0])


def test_two_clusters_do_not_share_jobs(slurm_cluster, controller, tmp_path) -> None:
    other = SlurmCluster(1)
    try:
        run = functools.partial(run_locally, environment=other.environment)
        number = SlurmController(run).submit(job(tmp_path, "elsewhere"), job_script(["true"], "/"))
        assert number == "1"
        assert controller.find(["elsewhere"]) == {}
    finally:
        other.stop()
    assert not other.folder.exists()


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def fake(tmp_path, name, script):
    """Put a command on a PATH of this test; return a function that runs commands with it."""
    path = tmp_path / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return functools.partial(run_locally, environment={"PATH": f"{path.parent}:/usr/bin:/bin"})


def test_malformed_output_is_no_proof_that_a_job_is_absent(tmp_path) -> None:
    controller = SlurmController(fake(tmp_path, "squeue", "echo 'Slurm maintenance tonight'"))
    snapshot = controller.poll()
    assert snapshot.malformed == ("Slurm maintenance tonight",)
    assert not snapshot.lacks("17", 0.0)
    with pytest.raises(SlurmUnreachable, match="maintenance"):
        controller.find(["attempt"])


def test_sbatch_without_a_number_may_have_submitted(tmp_path) -> None:
    controller = SlurmController(fake(tmp_path, "sbatch", "echo Thanks"))
    with pytest.raises(SlurmUnreachable, match="Thanks"):
        controller.submit(job(tmp_path, "a"), "")


def test_a_hanging_command_is_killed_with_its_children_and_no_answer(tmp_path) -> None:
    run = fake(tmp_path, "sbatch", f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    controller = SlurmController(run, timeout_s=1.0)
    with pytest.raises(SlurmUnreachable, match="no answer within"):
        controller.submit(job(tmp_path, "a"), "")


def test_without_slurm_the_message_says_so(tmp_path) -> None:
    run = functools.partial(run_locally, environment={"PATH": str(tmp_path)})
    controller = SlurmController(run)
    with pytest.raises(SlurmRefused, match="login node") as caught:
        controller.submit(job(tmp_path, "a"), "")
    assert caught.value.cause is SlurmCause.NOT_INSTALLED
    with pytest.raises(SlurmRefused, match="login node"):
        controller.cancel(["1"])
    assert controller.poll().problem is not None


@pytest.mark.parametrize("rate", [0.5, 1.0, 3.0])
def test_no_second_has_more_commands_than_allowed(rate) -> None:
    clock, starts = Clock(), []

    def run(arguments, text, timeout_s):
        starts.append(clock.now)
        clock.now += 0.01
        return 0, "17\n", ""

    controller = SlurmController(run, commands_per_s=rate, clock=clock, sleep=clock.sleep)
    for number in range(10):
        controller.submit(SlurmJob(name=f"a{number}", output="o", error="e"), "")
        clock.now += 0.2 * (number % 3)
    burst = max(1, int(rate))
    assert controller.commands == 10
    assert all(
        later - start >= burst / rate - 1e-9 for start, later in zip(starts, starts[burst:], strict=False)
    )


def test_the_pause_after_failures_doubles_up_to_a_limit_and_ends_with_an_answer() -> None:
    clock, answers, asked = Clock(), [], []

    def run(arguments, text, timeout_s):
        asked.append(clock.now)
        return answers.pop(0)

    down, up = (1, "", "squeue: error: Unable to contact slurm controller"), (0, "", "")
    answers += [down] * 5 + [up]
    controller = SlurmController(run, clock=clock, sleep=clock.sleep, poll_every_s=0.5, most_backoff_s=4.0)
    while answers:
        assert controller.poll().problem is not None or not answers
        clock.now += 0.25
    assert [later - start for start, later in itertools.pairwise(asked)] == [
        1.0,
        2.0,
        4.0,
        4.0,
        4.0,
    ]
    assert controller.poll().problem is None


def test_one_squeue_serves_all_callers_of_an_interval() -> None:
    clock = Clock()
    controller = SlurmController(lambda *_: (0, "", ""), clock=clock, sleep=clock.sleep, poll_every_s=2.0)
    for _ in range(33):
        controller.poll()
        clock.now += 0.125
    assert controller.commands == 3


def test_partitions_that_cannot_be_listed_are_no_jobs_of_unknown_state(tmp_path) -> None:
    """The text of Slurm 23, as `weft sites detect slurm` shows it; the exit code is 1."""
    said = "slurm_load_partitions: Unable to contact slurm controller (connect failure)"
    controller = SlurmController(fake(tmp_path, "sinfo", f"echo '{said}' >&2; exit 1"))
    with pytest.raises(SlurmUnreachable, match="Unable to contact") as caught:
        controller.list_partitions()
    assert caught.value.exit_code == 1
    assert "must answer before its partitions can be listed" in str(caught.value)
    assert "jobs" not in str(caught.value)
