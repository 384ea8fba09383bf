"""The program of a Slurm job runs without weft and Slurm: program, records, limits and signals."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time

import pytest

from patience import PATIENCE_S
from weft.backends.bundle import make_bundle
from weft.backends.runner.processes import read_process
from weft.backends.slurm.job_files import JobFiles, write_bundle
from weft.backends.slurm.pilot import BEAT, EXIT, START


class Job:
    """A job started by a test."""

    def __init__(self, folder, script, **order):
        self.work = folder / "work"
        self.work.mkdir()
        self.files = JobFiles.of(folder / "jobs", 7, "abc", "token")
        given = {
            "attempt": 7, "nonce": "abc", "argv": ["sh", "-c", script], "env": {"SECRET": "s3cret"},
            "cwd": str(self.work), "stdout": str(folder / "out"), "stderr": str(folder / "err"), **order
        }  # fmt: skip
        self.files.write(given, "scope-1")
        self.bundle = write_bundle(folder / "bundles", make_bundle())
        self.process = None

    def start(self, **environment):
        command = ["python3", "-I", "-S", str(self.bundle), "job", str(self.files.folder)]
        with (self.files.folder / "log").open("wb") as log:
            env = {**os.environ, "SLURM_JOB_ID": "42", **environment}
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        return self

    def wait(self):
        code = self.process.wait(PATIENCE_S)
        return code, self.files.read(EXIT)[0]

    def await_file(self, name):
        end = time.monotonic() + PATIENCE_S
        while not (self.work / name).exists():
            assert time.monotonic() < end
            assert self.process.poll() is None, self.files.read_log()
            time.sleep(0.02)


@pytest.fixture
def make_job(tmp_path):
    jobs = []

    def make(script, **order):
        jobs.append(Job(tmp_path, script, **order))
        return jobs[-1]

    yield make
    for job in jobs:
        if job.process is not None and job.process.poll() is None:
            job.process.send_signal(signal.SIGTERM)
            job.process.wait(PATIENCE_S)


def test_job_runs_its_program_and_records_start_and_end(make_job, tmp_path) -> None:
    job = make_job('echo "$SECRET $SLURM_JOB_ID"; pwd; exit 3', reminder="text")
    order = job.files.folder / "order"
    assert stat.S_IMODE(order.stat().st_mode) == 0o600
    code, end = job.start().wait()
    assert (code, end["code"], end["nonce"], end["cause"]) == (3, 3, "abc", "")
    assert (tmp_path / "out").read_text() == f"s3cret 42\n{job.work}\n"
    start = job.files.read(START)[0]
    assert (start["reminder"], start["job"]) == ("text", "42")
    assert not order.exists()
    left = b"".join(each.read_bytes() for each in job.files.folder.rglob("*") if each.is_file())
    assert b"s3cret" not in left


def test_second_job_of_an_order_does_nothing(make_job) -> None:
    job = make_job("echo x >> ran")
    assert job.start().wait()[0] == 0
    job.files.folder.joinpath("exit").unlink()
    code, end = job.start().wait()
    assert (code, end, (job.work / "ran").read_text()) == (0, None, "x\n")
    assert "no order" in job.files.read_log()


def test_order_that_the_engine_took_is_not_run(make_job) -> None:
    job = make_job("touch ran")
    assert job.files.take_order()["order"]["attempt"] == 7
    assert job.start().wait() == (0, None)
    assert not (job.work / "ran").exists()


def test_record_with_another_key_is_ignored(make_job) -> None:
    job = make_job("exit 0")
    job.start().wait()
    assert JobFiles.of(job.files.folder.parent, 7, "abc", "other").read(EXIT) == [None]


def test_missing_program_is_an_error(make_job) -> None:
    code, end = make_job("", argv=["/nowhere/program"]).start().wait()
    assert (code, end["cause"]) == (127, "error")
    assert "command not found" in end["text"]


def test_program_is_ended_at_its_time_limit(make_job) -> None:
    code, end = make_job("sleep 1000", time_s=0.5, grace_s=1.0).start().wait()
    assert (code != 0, end["cause"]) == (True, "timeout")


def test_program_above_its_memory_limit_is_killed(make_job) -> None:
    script = "exec python3 -c 'import time; x = b\"x\" * 200_000_000; time.sleep(1000)'"
    _, end = make_job(script, memory_bytes=100e6).start().wait()
    assert end["cause"] == "oom"


def test_request_for_restart_files_before_the_time_limit(make_job) -> None:
    script = "trap 'echo saved > restart; exit 0' USR1; touch ready; while :; do sleep 0.05; done"
    job = make_job(script, time_s=3.0, grace_s=2.0, restart=["restart"])
    code, end = job.start().wait()
    assert (code, end["code"]) == (0, 0)
    assert (job.work / "restart").exists()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_signals_of_slurm_reach_the_program(make_job, number) -> None:
    script = "trap 'touch got; exit 5' USR1; touch ready; while :; do sleep 0.05; done"
    job = make_job(script, grace_s=1.0).start()
    job.await_file("ready")
    job.process.send_signal(number)
    code, end = job.wait()
    if number == signal.SIGUSR1:
        assert (code, end["code"], (job.work / "got").exists()) == (5, 5, True)
    else:
        assert (end["cause"], end["code"]) == ("preempted", None)


def test_cancel_works_without_a_signal(make_job) -> None:
    job = make_job("touch ready; sleep 1000").start()
    job.await_file("ready")
    job.files.request_end(0.0)
    _, end = job.wait()
    assert end["cause"] == "cancelled"


def test_stop_and_continue(make_job) -> None:
    job = make_job("touch ready; sleep 1000").start()
    job.await_file("ready")

    def await_stopped(*, wanted):
        end = time.monotonic() + PATIENCE_S
        while (job.files.read(BEAT)[0] or {}).get("stopped") is not wanted:
            assert time.monotonic() < end
            time.sleep(0.05)

    job.process.send_signal(signal.SIGTSTP)
    await_stopped(wanted=True)
    job.process.send_signal(signal.SIGCONT)
    await_stopped(wanted=False)


def test_no_process_of_the_program_is_left(make_job) -> None:
    job = make_job("setsid sleep 1000 & echo $! > pid; sleep 1000 & echo $! >> pid; exit 0")
    code, end = job.start().wait()
    assert (code, end["strays"]) == (0, 2)
    assert all(read_process(int(pid)) is None for pid in (job.work / "pid").read_text().split())
