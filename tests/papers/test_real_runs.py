"""Disturbance of runs in real time: processes that use the same cores are noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from patience import PATIENCE_S
from weft.papers.runs import DISTURBANCE_LIMIT, _LoadMeter, repeat_if_disturbed

COMPUTING_S = 0.5


def compute() -> None:
    end_s = time.thread_time() + COMPUTING_S
    while time.thread_time() < end_s:
        pass


def compute_in_thread() -> None:
    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()


@pytest.fixture
def busy_core():
    """Two processes that compute without end on the one core that this thread and its children use."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.usefixtures("busy_core")
@pytest.mark.parametrize("run", [compute, compute_in_thread])
def test_load_of_other_processes_is_measured(run, monkeypatch):
    monkeypatch.setattr("weft.papers.runs._REPETITIONS", 0)
    assert repeat_if_disturbed(run)[1] > DISTURBANCE_LIMIT


@pytest.mark.usefixtures("busy_core")
def test_load_that_begins_during_the_run_is_measured(monkeypatch):
    monkeypatch.setattr("weft.papers.runs._REPETITIONS", 0)
    # Not inherited: an empty environment, as of a process of another user.
    loop = [sys.executable, "-c", "while True: pass"]
    started: list[subprocess.Popen[bytes]] = []

    def run() -> None:
        started.extend(subprocess.Popen(loop, env={}) for _ in range(2))
        compute()

    try:
        assert repeat_if_disturbed(run)[1] > DISTURBANCE_LIMIT
    finally:
        for process in started:
            process.kill()
            process.wait()


def is_own(meter: _LoadMeter, program: subprocess.Popen[bytes]) -> bool:
    return any(pid == str(program.pid) for pid, _ in list(meter._own))


def wait_until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "waited too long"
        time.sleep(0.01)


def test_processes_of_the_run_do_not_count_as_disturbance():
    meter = _LoadMeter()
    with meter:
        # The program ends when its standard input is closed.
        program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        wait_until(lambda: is_own(meter, program))
        program.communicate(b"\n")
    assert program.returncode == 0


def test_process_that_is_read_before_it_starts_its_program_belongs_to_the_run():
    meter = _LoadMeter()
    with meter:
        meter._over.set()
        meter._thread.join()  # from now on, this test decides when processes are read
        mark = meter._mark.decode()
        others = {name: value for name, value in os.environ.items() if name != mark.partition("=")[0]}
        command = ["sh", "-c", 'read line; exec env "$1" cat', "sh", mark]
        program = subprocess.Popen(command, env=others, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        meter._read()
        assert not is_own(meter, program)
        program.stdin.write(b"start\n")
        program.stdin.flush()
        wait_until(lambda: Path(f"/proc/{program.pid}/cmdline").read_bytes() == b"cat\0")
        meter._read()
        assert is_own(meter, program)
        program.communicate()
    assert program.returncode == 0
