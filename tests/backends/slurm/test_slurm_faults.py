"""Faults of engine, controller and nodes while jobs and pilots of a workflow run on a real Slurm."""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from collections import Counter

import pytest

from backends.slurm.test_slurm_runs import SlurmProject
from patience import PATIENCE_S

KILLS = int(os.environ.get("WEFT_KILLS", "5"))
SEED = 18
MIXED = """tasks:
  short:
    sweep: {{i: 1..40}}
    command: "exec 9> {0}/lock-s{{i}}; flock -n 9 || touch {0}/twice; echo s{{i}} >> {0}/ran; sleep {1}; echo {{i}} > s{{i}}"
    outputs: ["s{{i}}"]
    work: 1s
  long:
    sweep: {{i: 1..20}}
    command: "exec 9> {0}/lock-l{{i}}; flock -n 9 || touch {0}/twice; echo l{{i}} >> {0}/ran; sleep {1}; echo {{i}} > l{{i}}"
    outputs: ["l{{i}}"]
    work: 100s
  last: {{command: "until [ -e {0}/go ]; do sleep 0.1; done", after: [short, long], work: 1s}}
"""


LOST = re.compile(r"^(short|long)\[(\d+)\] failed, will be retried \(lost", re.MULTILINE)


@pytest.fixture
def project(slurm_cluster, tmp_path):
    found = SlurmProject(tmp_path, slurm_cluster)
    yield found
    found.close()


def check_mixed(project, code, text, *, may_be_killed=False):
    """Check that each task ran once; again only if its job was lost, and never twice at once.

    The kernel releases the lock of a program that was killed.
    """
    folder = project.folder
    lost = [f"{kind[0]}{i}" for kind, i in LOST.findall(text)]
    assert may_be_killed or not lost, text
    assert code == 0, text
    for name, count in (("s", 40), ("l", 20)):
        assert all((folder / f"{name}{i}").read_text() == f"{i}\n" for i in range(1, count + 1))
    assert not (folder / "twice").exists()
    expected = Counter([f"s{i}" for i in range(1, 41)] + [f"l{i}" for i in range(1, 21)])
    ran = Counter((folder / "ran").read_text().split())
    assert ran.keys() == expected.keys(), text
    assert ran - expected <= Counter(lost), text  # a program may be killed before it has written its name


def test_engine_killed_again_and_again_loses_and_repeats_nothing(project) -> None:
    project.write(MIXED.format(project.folder, 0.2 * KILLS))
    moments = random.Random(SEED)
    engine = project.begin()
    project.await_file(".weft/runners/1")
    for _ in range(KILLS):
        time.sleep(moments.uniform(0.0, 4.0))
        assert engine.poll() is None, (project.folder / "engine.log").read_text()
        engine.kill()
        engine.wait()
        engine = project.start("resume")
    (project.folder / "go").touch()  # without it the run does not end
    code, text = project.finish(engine)
    check_mixed(project, code, text)
    project.await_queue(lambda jobs: not jobs)


def test_engine_killed_at_random_moments_leaves_nothing_after_cancel(project) -> None:
    moments = random.Random(SEED)
    number = f"{4000 + os.getpid() % 5000}.25"
    project.write(
        f"""tasks:
  short: {{sweep: {{i: 1..10}}, command: "touch {project.folder}/up; sleep {number}; : {{i}}", work: 1s}}
  long: {{sweep: {{i: 1..10}}, command: "touch {project.folder}/up; sleep {number}; : {{i}}", work: 100s}}
"""
    )
    for turn in range(-(-KILLS // 5)):
        engine = project.begin()
        if turn % 2 == 0:
            project.await_file("up").unlink()
        time.sleep(moments.uniform(0.0, 3.0))
        engine.kill()
        engine.wait()
        project.run_beside("cancel")
        project.await_queue(lambda jobs: not jobs)
        end = time.monotonic() + PATIENCE_S
        while left := find_programs(number):
            assert time.monotonic() < end, left
            time.sleep(0.1)


def find_programs(word: str) -> list[str]:
    """Return the command lines with this word of all processes of the nodes, which are visible from here."""
    found = subprocess.run(["ps", "-eo", "stat=,args="], check=True, capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if f"sleep {word}" in line and not line.startswith("Z")]


def test_restart_of_the_controller_does_not_disturb_pilots_and_jobs(project) -> None:
    project.write(MIXED.format(project.folder, 0.3))
    engine = project.begin()
    (project.folder / "go").touch()
    project.await_file("s1")
    project.cluster.kill_controller()
    try:
        time.sleep(3)
    finally:
        project.cluster.start_controller()
    code, text = project.finish(engine)
    # Jobs of the last seconds are missing in the saved state of slurmctld, which kills their programs.
    check_mixed(project, code, text, may_be_killed=True)


def test_tasks_of_nodes_that_die_and_return_at_once_run_again(project) -> None:
    folder = project.folder
    project.write_platform("main", more=", exclusive: true, heartbeat: 5")
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
    evidence = f"{text}\n{project.cluster.read_logs()}"
    assert code == 0, evidence
    # A node that has just returned may be unable to start a job, which is then lost, too.
    losses = re.search(r"^ *failures +\d+ \((\d+) lost\)$", text, re.MULTILINE)
    assert losses is not None, evidence
    assert int(losses[1]) >= 2, evidence
    assert "cancelled from outside" not in text, evidence
    project.await_queue(lambda jobs: not jobs)
