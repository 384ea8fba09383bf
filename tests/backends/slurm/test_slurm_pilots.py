"""Pilots: their program without Slurm, and workflows of short tasks on a real Slurm."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

from backend_project import BackendProject
from backends.slurm.test_slurm_runs import SlurmProject
from patience import PATIENCE_S
from weft.backends.bundle import make_bundle
from weft.backends.runner.records import SealedRecords
from weft.backends.slurm.job import REQUESTS
from weft.backends.slurm.job_files import JobFiles, write_bundle
from weft.backends.slurm.message_log import MessageReader, MessageWriter
from weft.backends.slurm.pilot import EXIT, ORDERS, REPORTS
from weft.backends.slurm.pilots import MODULE_NUMBERS, Partition, PilotPool

SWEEP = """tasks:
  t:
    sweep: {{i: 1..{count}}}
    command: "echo {{i}} >> {folder}/ran; {body}; echo {{i}} > out{{i}}"
    outputs: ["out{{i}}"]
    work: 1s
"""


class PilotJob:
    """A pilot started by a test as a plain process."""

    def __init__(self, folder, idle_s=60.0):
        self.folder = folder
        self.files = JobFiles.of(folder / "jobs", 5, "abc", "token")
        self.files.write({"attempt": 5, "nonce": "abc", "idle_s": idle_s}, "scope-1")
        self.writer = MessageWriter(SealedRecords(str(self.files.folder / REQUESTS), self.files.key), ORDERS)
        self.reader = MessageReader(SealedRecords(str(self.files.folder), self.files.key), REPORTS)
        self.received = []
        bundle = write_bundle(folder / "bundles", make_bundle())
        with (folder / "log").open("wb") as log:
            command = ["python3", "-I", "-S", str(bundle), "job", str(self.files.folder)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def send(self, **message):
        return self.writer.append([{"n": self.writer.number(), **message}])[0]

    def order(self, attempt, script):
        return {
            "do": "start", "attempt": attempt, "nonce": "n", "argv": ["sh", "-c", script], "cwd": str(self.folder),
            "env": {"SECRET": "s3cret"}, "reminder": "r",
        }  # fmt: skip

    def wait_for(self, what, attempt):
        end = time.monotonic() + PATIENCE_S
        while True:
            self.received += self.reader.read()
            for message in self.received:
                if (message["is"], message["attempt"]) == (what, attempt):
                    return message
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.02)


@pytest.fixture
def pilot_job(tmp_path):
    made = []

    def make(**options):
        made.append(PilotJob(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.process.kill()
        each.process.wait()


def test_pilot_runs_orders_and_ends_when_it_is_idle(pilot_job) -> None:
    pilot = pilot_job(idle_s=1.0)
    place = pilot.send(**pilot.order(1, "exit 3"))
    assert pilot.wait_for("accepted", 1)["reminder"] == "r"
    assert pilot.wait_for("ended", 1)["code"] == 3
    pilot.writer.erase(*place)
    assert b"s3cret" not in (pilot.files.folder / REQUESTS / ORDERS).read_bytes()
    pilot.send(**pilot.order(2, "exit 0"))
    assert pilot.wait_for("ended", 2)["code"] == 0
    assert pilot.process.wait(PATIENCE_S) == 0
    end = pilot.files.read(EXIT)[0]
    assert (end["how"], end["read"]) == ("idle", 2)


def test_pilot_that_slurm_ends_preempts_its_programs(pilot_job) -> None:
    pilot = pilot_job()
    pilot.send(**pilot.order(1, "sleep 1000"))
    pilot.wait_for("accepted", 1)
    pilot.process.send_signal(signal.SIGTERM)
    assert pilot.wait_for("ended", 1)["cause"] == "preempted"
    assert pilot.process.wait(PATIENCE_S) == 0
    assert pilot.files.read(EXIT)[0]["how"] == "preempted"


def test_pilot_cancels_discards_and_refuses(pilot_job) -> None:
    pilot = pilot_job()
    for attempt in (1, 2):
        pilot.send(**pilot.order(attempt, "sleep 1000"))
        pilot.wait_for("accepted", attempt)
    pilot.send(do="cancel", attempt=1, nonce="n", grace_s=0)
    assert pilot.wait_for("ended", 1)["cause"] == "cancelled"
    pilot.send(do="discard", attempts=[[2, "n"]])
    pilot.wait_for("discarded", 2)
    pilot.send(do="start", attempt=3, nonce="n", argv="no list")
    assert "argv" in pilot.wait_for("refused", 3)["text"]
    pilot.send(do="end")
    assert pilot.process.wait(PATIENCE_S) == 0
    assert pilot.files.read(EXIT)[0]["how"] == "released"


def test_incomplete_repeated_and_foreign_lines_are_not_messages(tmp_path) -> None:
    records, foreign = SealedRecords(str(tmp_path), "token"), SealedRecords(str(tmp_path), "other")
    writer, reader = MessageWriter(records, "log"), MessageReader(records, "log")
    writer.append([{"n": writer.number()}])
    line = (tmp_path / "log").read_bytes()
    assert [each["n"] for each in reader.read()] == [1]
    with (tmp_path / "log").open("ab") as file:
        file.write(line)  # repeated
        file.write(records.sealed("log", '{"n":2}')[:-5])  # incomplete
    assert reader.read() == []
    with (tmp_path / "log").open("ab") as file:
        file.write(records.sealed("log", '{"n":2}')[-5:])
        file.write(foreign.sealed("log", '{"n":3}'))
    assert [each["n"] for each in reader.read()] == [2]
    assert reader.read() == []


@pytest.mark.parametrize(
    ("backend", "order", "expected"),
    [
        ({}, {"expected_s": 2.0}, True),
        ({}, {"expected_s": 100.0}, False),
        ({}, {}, False),
        ({}, {"expected_s": 2.0, "nodes": 2}, False),
        ({}, {"expected_s": 2.0, "time_s": 36000.0}, False),
        ({"pilot_below": "2m"}, {"expected_s": 100.0}, True),
        ({"mode": "pilot"}, {}, True),
        ({"mode": "pilot"}, {"expected_s": 3600.0}, False),
        ({"mode": "job"}, {"expected_s": 2.0}, False),
        ({}, {"attempt": MODULE_NUMBERS}, False),
        ({"unit": "core"}, {"expected_s": 2.0, "nodes": 3}, True),
        ({"unit": "core"}, {"expected_s": 2.0, "nodes": 5}, False),
    ],
)
def test_short_tasks_on_one_node_run_in_pilots(tmp_path, backend, order, expected) -> None:
    is_core = backend.get("unit") == "core"
    machine = Partition(name="m", nodes=8, cores=4, node_is_core=is_core, backend=backend)
    pool = PilotPool({0: machine}, lambda _: tmp_path, "token", lambda: None)
    assert pool.takes(0, {"attempt": 1, **order}) is expected


class Pilots:
    """A pool of pilots without jobs: the test writes their reports."""

    def __init__(self, folder):
        machine = Partition(name="m", nodes=2, cores=1, node_is_core=False, backend={"mode": "pilot"})
        self.pool = PilotPool({0: machine}, lambda _: folder, "token", lambda: None)

    def add(self, attempt):
        self.pool.add(
            0,
            {
                "do": "start",
                "attempt": attempt,
                "nonce": f"n{attempt}",
                "argv": ["x"],
                "env": {"S": "s3cret"},
            },
        )

    def request(self):
        found = self.pool.dispatch({})
        for pilot in found:
            pilot.files.write(self.pool.describe(pilot), "scope")
        return found

    def start(self, pilot):
        self.pool.note_start(pilot, {"at": time.time()}, 3600.0)
        assert self.pool.dispatch({}) == []
        self.pool.flush()

    def accept(self, pilot, *more):
        """Write the reports of a pilot that has accepted its order."""
        (task,) = pilot.tasks.values()
        known = {"attempt": task.attempt, "nonce": task.nonce}
        writer = MessageWriter(SealedRecords(str(pilot.files.folder), pilot.files.key), REPORTS)
        messages = [{"is": "accepted", "order": task.message}, *more]
        writer.append([{"n": writer.number(), **known, **message} for message in messages])


@pytest.fixture
def pilots(tmp_path):
    found = Pilots(tmp_path)
    yield found
    found.pool.close()


def test_reports_that_a_pilot_wrote_before_its_end_are_used(pilots) -> None:
    pilots.add(1)
    (pilot,) = pilots.request()
    pilots.start(pilot)
    pilots.accept(pilot, {"is": "ended", "code": 3, "cause": ""})
    found = pilots.pool.note_end(pilot, {"read": 1}, is_certain=True)
    assert [(each["attempt"], each["code"]) for each in found if each["is"] == "ended"] == [(1, 3)]
    assert b"s3cret" not in (pilot.files.folder / REQUESTS / ORDERS).read_bytes()
    assert pilot.files.folder.exists()
    assert pilots.pool.forget(1)
    assert not pilot.files.folder.exists()


def test_order_that_an_ended_pilot_has_not_read_goes_to_another_one(pilots) -> None:
    pilots.add(1)
    (pilot,) = pilots.request()
    pilots.start(pilot)
    assert pilots.pool.note_end(pilot, {"read": 0}, is_certain=True) == []
    (other,) = pilots.request()
    pilots.start(other)
    assert list(other.tasks) == [1]


@pytest.mark.parametrize("is_certain", [True, False])
def test_program_of_a_dead_pilot_is_lost_if_it_may_have_started(pilots, is_certain) -> None:
    pilots.add(1)
    pilots.add(2)
    first, second = pilots.request()
    pilots.start(first)
    pilots.start(second)
    pilots.accept(first)
    end = {"cause": "lost", "text": "a node of its job died"}
    found = pilots.pool.note_end(first, end, is_certain=is_certain)
    assert [each["cause"] for each in found if each["is"] == "ended"] == ["lost"]
    found = pilots.pool.note_end(second, end, is_certain=is_certain)
    assert [each["cause"] for each in found] == ([] if is_certain else ["lost"])


def test_pilot_without_time_for_a_task_is_released(pilots) -> None:
    pilots.add(1)
    (pilot,) = pilots.request()
    pilots.pool.note_start(pilot, {"at": time.time() - 3550.0}, 3600.0)
    assert len(pilots.request()) == 1
    pilots.pool.flush()
    assert pilot.is_leaving
    assert not pilot.tasks


# On a real Slurm.


@pytest.fixture
def project(slurm_cluster, tmp_path):
    found = SlurmProject(tmp_path, slurm_cluster)
    found.write_platform("main", more=", mode: auto")
    yield found
    found.close()


def write_sweep(project, count, body):
    project.write(SWEEP.format(count=count, folder=project.folder, body=body))


def check_sweep(project, count, code, text):
    assert code == 0, text
    assert [(project.folder / f"out{i}").read_text() for i in range(1, count + 1)] == [
        f"{i}\n" for i in range(1, count + 1)
    ]


def count_runs(project):
    return len((project.folder / "ran").read_text().split())


def await_runs(project, count):
    end = time.monotonic() + PATIENCE_S
    while not (project.folder / "ran").exists() or count_runs(project) < count:
        assert time.monotonic() < end, (project.folder / "engine.log").read_text()
        time.sleep(0.02)


def test_sweep_runs_in_pilots_and_leaves_nothing(project) -> None:
    write_sweep(project, 24, f"echo $SLURM_JOB_ID >> {project.folder}/jobs")
    code, text = project.run()
    check_sweep(project, 24, code, text)
    assert count_runs(project) == 24
    assert 1 <= len(set((project.folder / "jobs").read_text().split())) <= 4
    project.await_queue(lambda jobs: not jobs)
    assert not list(project.folder.glob(".weft/runners/1/cluster/*-*/orders"))


def test_engine_finds_its_pilots_again(project) -> None:
    write_sweep(project, 16, "sleep 1")
    engine = project.begin()
    await_runs(project, 6)
    engine.kill()
    engine.wait()
    code, text = project.run("resume")
    check_sweep(project, 16, code, text)
    assert count_runs(project) == 16
    project.await_queue(lambda jobs: not jobs)


def test_tasks_of_a_pilot_that_ends_run_in_another_one(project) -> None:
    write_sweep(project, 8, "sleep 2")
    engine = project.begin()
    await_runs(project, 2)
    number = project.cluster.run("squeue", "-h", "-t", "R", "-o", "%A").split()[0]
    project.cluster.run("scancel", number)
    code, text = project.finish(engine)
    check_sweep(project, 8, code, text)
    assert count_runs(project) in {8, 9}


def test_cancelled_run_leaves_no_pilot(project) -> None:
    write_sweep(project, 8, "sleep 100")
    engine = project.begin()
    await_runs(project, 2)
    engine.send_signal(signal.SIGINT)
    code, _ = project.finish(engine)
    assert code != 0
    project.await_queue(lambda jobs: not jobs)


def test_run_cancelled_after_the_death_of_its_engine_leaves_no_pilot(project) -> None:
    write_sweep(project, 8, "sleep 100")
    engine = project.begin()
    await_runs(project, 2)
    _, text = project.run_beside("status", "--json")
    running = json.loads(text)["running"]
    numbers = set(project.cluster.run("squeue", "-h", "-r", "-o", "%i").split())
    assert {each["job"] for each in running} & numbers
    engine.kill()
    engine.wait()
    code, text = project.run("cancel")
    assert code == 0, text
    project.await_queue(lambda jobs: not jobs)


def test_program_that_the_journal_has_lost_is_ended_in_its_pilot(
    slurm_cluster, tmp_path, monkeypatch
) -> None:
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm_cluster.environment[name])
    tasks = {
        "slow": {"command": "echo $$ > ready; exec sleep 1000", "work": 1},
        "quick": {"command": "exit 0", "work": 1},
    }
    project = BackendProject("slurm", tmp_path, tasks)
    project.start(0, "slow")
    ready, end = project.workdir(0) / "ready", time.monotonic() + PATIENCE_S
    while not ready.exists() or not ready.read_text():
        assert time.monotonic() < end
        project.poll_for(0.1)
    project.backend.close(stop=False)
    lost = project.nonces.pop(0)
    project.open()
    project.backend.find([])
    project.start(0, "quick")
    assert project.nonces[0] != lost
    assert project.end().exit_code == 0
    discarded = [
        message
        for reports in tmp_path.glob(".weft/runners/1/m0/*/reports")
        for message in reports.read_text().splitlines()
        if '"is":"discarded"' in message and lost in message
    ]
    project.close()
    assert len(discarded) == 1
