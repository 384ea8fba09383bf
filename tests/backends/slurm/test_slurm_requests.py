"""What jobs request from a real Slurm: GPUs, cores, nodes and time; and how refused jobs are reported."""

from __future__ import annotations

import json
import os
import re
import shutil
import time

import pytest

from backends.slurm.test_slurm_runs import PLATFORM, SlurmProject
from patience import PATIENCE_S
from slurm_cluster import ADMIN_PATH

REFUSED = (
    "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
)


@pytest.fixture
def project(slurm_cluster, tmp_path):
    found = SlurmProject(tmp_path, slurm_cluster)
    yield found
    found.close()


@pytest.mark.parametrize("work", ["1s", "100s"], ids=["pilot", "job"])
def test_task_gets_the_gpus_of_its_machine(project, work) -> None:
    project.write_platform("gpu", more=', gres: "gpu:2"')
    text = (project.folder / "cluster.yaml").read_text().replace("nodes: 4", "nodes: 2")
    (project.folder / "cluster.yaml").write_text(text)
    command = "scontrol show job $SLURM_JOB_ID --details | grep -o 'GRES=gpu[^ ]*' | sort -u > seen; echo $SLURMD_NODENAME >> seen"
    project.write(f'tasks:\n  a: {{command: "{command}", outputs: [seen], work: {work}}}\n')
    code, text = project.run()
    assert code == 0, text
    *gres, node = (project.folder / "seen").read_text().split()
    assert any(each.startswith("GRES=gpu:2(") for each in gres)
    assert node in project.cluster.nodes[-2:]


@pytest.mark.parametrize("work", ["1s", "100s"], ids=["pilot", "job"])
def test_cores_are_the_nodes_of_a_shared_machine(project, work) -> None:
    text = PLATFORM.format(partition="main", cores=4, more=", unit: core").replace("nodes: 4", "nodes: 16")
    (project.folder / "cluster.yaml").write_text(text)
    project.write(f"""tasks:
  wide: {{nodes: 3, command: "echo $SLURM_JOB_NUM_NODES $SLURM_CPUS_PER_TASK > seen", outputs: [seen], work: {work}}}
  t: {{sweep: {{i: 1..12}}, command: "echo $SLURM_JOB_ID >> {project.folder}/jobs; sleep 0.5", work: {work}}}
""")
    code, text = project.run()
    assert code == 0, text
    seen = (project.folder / "seen").read_text().split()
    assert seen == ["1", "3" if work == "100s" else "4"]
    jobs = (project.folder / "jobs").read_text().split()
    assert len(jobs) == 12
    assert len(set(jobs)) == 12 if work == "100s" else len(set(jobs)) <= 4


def test_time_limit_is_the_p90_times_the_margin(project) -> None:
    project.write_platform("main", more=", time_margin: 2, mode: job")
    (project.folder / "known.csv").write_text("kind,seconds,p90_seconds\nspread,60,120\n")
    command = "squeue -h -j $SLURM_JOB_ID -o %l > {0}"
    project.write(f"""predictions: known.csv
tasks:
  spread: {{command: "{command.format("known")}", outputs: [known]}}
  exact: {{command: "{command.format("stated")}", outputs: [stated], work: 60s}}
  unknown: {{command: "{command.format("default")}", outputs: [default]}}
""")
    code, text = project.run()
    assert code == 0, text
    found = [(project.folder / name).read_text().strip() for name in ("known", "stated", "default")]
    assert found == ["5:00", "3:00", "10:00"]


@pytest.mark.parametrize("work", ["1s", "100s"], ids=["pilot", "job"])
def test_refused_job_is_not_submitted_again(project, work) -> None:
    folder = project.folder
    (folder / "bin").mkdir()
    (folder / "bin/sbatch").write_text(f"#!/bin/sh\necho x >> {folder}/calls\necho '{REFUSED}' >&2\nexit 1\n")
    (folder / "bin/sbatch").chmod(0o755)
    project.environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{project.environment['PATH']}"
    project.write(f"tasks:\n  a: {{command: exit 0, work: {work}, retries: 5}}\n")
    code, text = project.run()
    assert (code, "Invalid account" in text) == (1, True), text
    assert (folder / "calls").read_text() == "x\n"


def test_moldable_workflow_gets_the_planned_nodes(slurm16_cluster, tmp_path) -> None:
    project = SlurmProject(tmp_path, slurm16_cluster)
    text = PLATFORM.format(partition="main", cores=1, more="").replace("nodes: 4", "nodes: 16")
    (tmp_path / "cluster.yaml").write_text(text)
    tasks = "".join(
        f"""  t{number}:

    speedup: {{seconds: {{1: {work}, 2: {work * 0.55}, 4: {work * 0.3}, 8: {work * 0.18}}}}}

    command: "echo $WEFT_NODES $SLURM_JOB_NUM_NODES >> {tmp_path}/seen{number}; sleep 0.5"
    after: {json.dumps([f"t{before}" for before in befores])}
"""
        for number, (work, befores) in enumerate(
            [(400, []), (300, []), (800, []), (200, [0, 1]), (900, [2, 3])]
        )
    )
    project.write(f"tasks:\n{tasks}")
    code, text = project.run_beside("plan", "flow.yaml", "--on", "cluster.yaml", "--json")
    assert code == 0, text
    planned = {each["task"]: each["nodes"] for each in json.loads(text)["schedule"]}
    code, text = project.run()
    assert code == 0, text
    for number in range(5):
        asked, given = (tmp_path / f"seen{number}").read_text().split()
        assert (asked, given) == (str(planned[f"t{number}"]),) * 2
    assert any(count > 1 for count in planned.values())
    project.close()


def test_job_after_one_that_reached_the_default_limit_requests_twice_as_much(project) -> None:
    """The shortest limit of Slurm is a minute: here its answer says that the limit was reached.

    The number of limits that were reached outlives the engine.
    """
    folder = project.folder
    (folder / "bin").mkdir()
    program = shutil.which("squeue", path=ADMIN_PATH)
    (folder / "bin/squeue").write_text(f'#!/bin/sh\n{program} "$@" | sed s/CANCELLED/TIMEOUT/\n')
    (folder / "bin/squeue").chmod(0o755)
    project.environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{project.environment['PATH']}"
    project.write_platform("main", more=", mode: job")
    command = f"{program} -h -j $SLURM_JOB_ID -o %l >> {folder}/limits; [ $(wc -l < {folder}/limits) -gt 2 ] || exec sleep 1000"
    project.write(f"tasks:\n  a: {{command: '{command}', retries: {{timeout: 2}}}}\n")
    engine = project.begin()
    reach_limit(project, 1)
    await_limits(project, 2)
    engine.kill()
    engine.wait()
    engine = project.start("resume")
    reach_limit(project, 2)
    code, text = project.finish(engine)
    assert code == 0, text
    assert "time limit of Slurm" in text
    assert (folder / "limits").read_text().split() == ["10:00", "20:00", "40:00"]


@pytest.mark.parametrize("work", ["1s", "100s"], ids=["pilot", "job"])
def test_job_after_one_that_exceeded_the_default_memory_requests_twice_as_much(project, work) -> None:
    """Virtual nodes enforce no memory: here the task kills its job as the kernel does, and the answer of Slurm
    says that the limit was exceeded.

    The site's default is 100 MiB for each core.
    """
    folder = project.folder
    (folder / "bin").mkdir()
    program = shutil.which("squeue", path=ADMIN_PATH)
    (folder / "bin/squeue").write_text(f'#!/bin/sh\n{program} "$@" | sed s/FAILED/OUT_OF_MEMORY/\n')
    (folder / "bin/squeue").chmod(0o755)
    project.environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{project.environment['PATH']}"
    project.write_platform("main", cores=2)
    text = (folder / "cluster.yaml").read_text().replace("    memory: 8GB\n", "")
    (folder / "cluster.yaml").write_text(text)
    show = "scontrol show job $SLURM_JOB_ID | grep -o 'MinMemory[A-Za-z]*=[^ ]*'"
    kill = "{ kill -9 $PPID; exec sleep 1000; }"
    command = f"{show} >> {folder}/limits; [ $(wc -l < {folder}/limits) -gt 2 ] || {kill}"
    project.write(
        f"tasks:\n  a:\n    command: |\n      {command}\n    retries: {{oom: 2}}\n    work: {work}\n"
    )
    code, text = project.run()
    assert code == 0, text
    assert "more memory than it had requested" in text
    found = (folder / "limits").read_text().split()
    assert found == ["MinMemoryCPU=100M", "MinMemoryNode=400M", "MinMemoryNode=800M"]


def await_limits(project, count) -> None:
    """Wait until this many jobs have written their time limits."""
    end = time.monotonic() + PATIENCE_S
    while len(project.await_file("limits").read_text().split()) < count:
        assert time.monotonic() < end, (project.folder / "engine.log").read_text()
        time.sleep(0.05)


def reach_limit(project, count) -> None:
    """End the job that has written the last of so many limits."""
    await_limits(project, count)
    project.cluster.run("scancel", project.cluster.run("squeue", "-h", "-o", "%i", "-t", "R").split()[-1])


FULL = (
    "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates "
    "accounting/QOS policy (job submit limit, user's size and/or time limits)"
)


def read_status(project):
    """Return the status of the run, once the number of its tasks is known."""
    code, text = project.run_beside("status", "--json")
    return json.loads(text) if code == 0 else {"kinds": [], "delays": []}


def await_delay(project, word) -> dict:
    """Wait until the status says that jobs wait, with this word in the reason; return the status."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = read_status(project)
        if any(word in each["reason"] for each in found["delays"]):
            return found
        assert time.monotonic() < end, (found, (project.folder / "engine.log").read_text())
        time.sleep(0.2)


@pytest.mark.parametrize("work", ["1s", "100s"], ids=["pilot", "job"])
def test_tasks_wait_visibly_while_the_queue_is_full(project, work) -> None:
    """The test cluster has no accounting database, so its answer to sbatch says that a limit is reached."""
    folder = project.folder
    (folder / "bin").mkdir()
    (folder / "full").touch()
    program = shutil.which("sbatch", path=ADMIN_PATH)
    (folder / "bin/sbatch").write_text(
        f'#!/bin/sh\n[ -e {folder}/full ] || exec {program} "$@"\necho "{FULL}" >&2\nexit 1\n'
    )
    (folder / "bin/sbatch").chmod(0o755)
    project.environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{project.environment['PATH']}"
    project.write(f"tasks:\n  a: {{sweep: {{k: 1..2}}, command: exit 0, work: {work}}}\n")
    engine = project.begin()
    found = await_delay(project, "the queue of Slurm is full (sbatch: QOSMaxSubmitJobPerUserLimit")
    assert [(each["machine"], each["until_s"]) for each in found["delays"]] == [("cluster", None)]
    await_waiting(project, 2)
    code, text = project.run_beside("status")
    assert "2 tasks wait on cluster for" in text, text
    assert "QOSMaxSubmitJobPerUserLimit" in text
    # The next engine shows the same, and no task counts as running meanwhile.
    engine.kill()
    engine.wait()
    engine = project.start("resume")
    await_waiting(project, 2)
    (folder / "full").unlink()
    code, text = project.finish(engine)
    assert code == 0, text
    told = "no job can be submitted: the queue of Slurm is full (sbatch: QOSMaxSubmitJobPerUserLimit"
    shown, noted = (f"tasks? {verb} on cluster.*: {re.escape(told)}" for verb in ("waits?", "waited"))
    text = " ".join(text.split())
    assert re.search(shown, text), text
    assert re.search(noted, text), text


def await_waiting(project, count) -> None:
    """Wait until so many tasks count as waiting, because their jobs are not submitted, and none as running."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = read_status(project)
        counts = [(each["waiting"], each["running"]) for each in found["kinds"]]
        delayed = sum(each["waiting"] for each in found["delays"])
        if (counts, delayed) == ([(count, 0)], count) and not found["running"] and found["engine"]:
            return
        assert time.monotonic() < end, found
        time.sleep(0.2)


def test_tasks_wait_visibly_while_the_controller_is_away(fragile_cluster, tmp_path) -> None:
    project = SlurmProject(tmp_path, fragile_cluster)
    try:
        project.write("tasks:\n  a: {command: exit 0, work: 1s}\n  b: {command: exit 0}\n")
        fragile_cluster.kill_controller()
        engine = project.begin()
        found = await_delay(project, "no job can be submitted: the controller of Slurm does not answer")
        assert not any(each["running"] for each in found["kinds"])
        code, text = project.run_beside("sites", "check", "cluster.yaml", "--timeout", "30s")
        assert code == 1, text
        assert "it was not done after 30 s: no job can be submitted: the controller" in text, text
        assert not (tmp_path / "cluster.measured.yaml").exists()
        fragile_cluster.start_controller()
        code, text = project.finish(engine)
        assert code == 0, text
        assert "waited on cluster for" in text, text
    finally:
        project.close()


@pytest.mark.parametrize("work", ["1s", "100s"], ids=["pilot", "job"])
def test_task_waits_visibly_while_its_job_waits_for_nodes(project, work) -> None:
    command = ("sbatch", "--parsable", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 1000")
    number = project.cluster.run(*command).strip()
    try:
        project.write(f"tasks:\n  a: {{command: exit 0, work: {work}}}\n")
        engine = project.begin()
        await_delay(project, "jobs wait in the queue of Slurm")
        await_waiting(project, 1)
        time.sleep(3.0)
    finally:
        project.cluster.run("scancel", number)
    code, text = project.finish(engine)
    assert code == 0, text
    assert "note: 1 task waited on cluster for" in text, text
    code, text = project.run("report", "--json")
    assert json.loads(text)["kinds"][0]["mean_s"] < 3.0, text


def test_task_waits_visibly_while_a_limit_on_running_jobs_holds_its_job(project) -> None:
    """Here the job waits for nodes, and the answer of Slurm says that it waits for a limit."""
    folder = project.folder
    (folder / "bin").mkdir()
    program = shutil.which("squeue", path=ADMIN_PATH)
    reason = "QOSMaxJobsPerUserLimit"
    script = f'#!/bin/sh\n{program} "$@" | sed -E "s/Resources|Priority|None assigned/{reason}/"\n'
    (folder / "bin/squeue").write_text(script)
    (folder / "bin/squeue").chmod(0o755)
    project.environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{project.environment['PATH']}"
    command = ("sbatch", "--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1000")
    number = project.cluster.run(*command).strip()
    try:
        wait = f"until [ -e {folder}/go ]; do sleep 0.1; done"
        project.write(f"tasks:\n  a: {{command: '{wait}', nodes: 4, work: 100s}}\n")
        engine = project.begin()
        await_delay(project, f"a limit on running jobs keeps jobs in the queue of Slurm ({reason})")
        await_waiting(project, 1)
    finally:
        project.cluster.run("scancel", number)
    end = time.monotonic() + PATIENCE_S
    while not read_status(project)["running"]:
        assert time.monotonic() < end
        time.sleep(0.2)
    (folder / "go").touch()
    code, text = project.finish(engine)
    assert code == 0, text
    assert "1 task waited on cluster" in text, text
    code, text = project.run("explain", "a")
    assert text.index("it waits: a limit on running jobs") < text.index("its program started"), text
