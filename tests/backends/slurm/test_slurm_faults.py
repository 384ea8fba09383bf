"""Faults of engine, controller and nodes while jobs and pilots of a workflow run on a real Slurm."""

from __future__ import annotations

import os
import random
import time

import pytest

from backends.slurm.test_slurm_runs import SlurmProject

KILLS = int(os.environ.get("WEFT_KILLS", "5"))
SEED = 18
MIXED = """tasks:
  short:
    sweep: {{i: 1..40}}
    command: "mkdir {0}/runs-s{{i}} || touch {0}/twice; echo s{{i}} >> {0}/ran; sleep {1}; rmdir {0}/runs-s{{i}}; echo {{i}} > s{{i}}"
    outputs: ["s{{i}}"]
    work: 1s
  long:
    sweep: {{i: 1..20}}
    command: "mkdir {0}/runs-l{{i}} || touch {0}/twice; echo l{{i}} >> {0}/ran; sleep {1}; rmdir {0}/runs-l{{i}}; echo {{i}} > l{{i}}"
    outputs: ["l{{i}}"]
    work: 100s
"""


@pytest.fixture
def project(slurm_cluster, tmp_path):
    found = SlurmProject(tmp_path, slurm_cluster)
    yield found
    found.close()


def check_mixed(project, code, text):
    folder = project.folder
    assert code == 0, text
    for name, count in (("s", 40), ("l", 20)):
        assert all((folder / f"{name}{i}").read_text() == f"{i}\n" for i in range(1, count + 1))
    assert not (folder / "twice").exists()
    assert sorted((folder / "ran").read_text().split()) == sorted(
        [f"s{i}" for i in range(1, 41)] + [f"l{i}" for i in range(1, 21)]
    )


def test_engine_killed_again_and_again_loses_and_repeats_nothing(project) -> None:
    project.write(MIXED.format(project.folder, 0.2 * KILLS))
    moments = random.Random(SEED)
    engine = project.begin()
    project.await_file(".weft/runners/1")
    for _ in range(KILLS):
        time.sleep(moments.uniform(0.0, 5.0))
        engine.kill()
        engine.wait()
        engine = project.start("resume")
    code, text = project.finish(engine)
    if "nothing to resume" in text:  # it had completed before the last kill
        code = 0
    check_mixed(project, code, text)
    project.await_queue(lambda jobs: not jobs)


def test_restart_of_the_controller_does_not_disturb_pilots_and_jobs(project) -> None:
    project.write(MIXED.format(project.folder, 0.3))
    engine = project.begin()
    project.await_file("s1")
    project.cluster.kill_controller()
    try:
        time.sleep(3)
    finally:
        project.cluster.start_controller()
    code, text = project.finish(engine)
    check_mixed(project, code, text)


def test_tasks_of_nodes_that_die_and_return_at_once_run_again(project) -> None:
    folder = project.folder
    project.write_platform("main", more=", exclusive: true")
    program = (
        "test -e {0}/{1} && exit 0; echo $SLURMD_NODENAME > {0}/new-{1}; mv {0}/new-{1} {0}/{1}; sleep 1000"
    )
    short, long = program.format(folder, "short"), program.format(folder, "long")
    project.write(f"""tasks:
  in_a_pilot: {{command: "{short}", work: 1s}}
  in_a_job: {{command: "{long}", work: 100s}}
""")
    engine = project.begin()
    names = {project.await_file(name).read_text().strip() for name in ("short", "long")}
    assert len(names) == 2
    for name in names:
        project.cluster.kill_node(name)
    for name in names:
        project.cluster.return_node(name)
    code, text = project.finish(engine)
    assert code == 0, text
    project.await_queue(lambda jobs: not jobs)
