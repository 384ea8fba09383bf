"""Disturbance of runs in real time: processes that use the same cores are noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

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


def test_processes_of_the_run_do_not_count_as_disturbance():
    meter = _LoadMeter()
    with meter:
        subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"], check=True)
    own = [key for key in meter._own if key[0] != str(os.getpid())]
    assert own
