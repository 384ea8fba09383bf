"""Worker processes: how they end, and which errors they survive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

import pool_functions as functions
from weft.errors import InvalidInput, WeftError
from weft.pools.processes import ProcessPool

TESTS = Path(__file__).parents[1]


@pytest.fixture
def pool():
    with ProcessPool(2) as opened:
        yield opened


def has_ended(process: int) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def await_end(process: int) -> bool:
    for _ in range(200):
        if has_ended(process):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("workers", [0, -2, 1.5, "two"])
def test_a_pool_needs_at_least_one_worker(workers):
    with pytest.raises(
        InvalidInput, match="has no valid number of workers; it must be a whole number of at least 1"
    ):
        ProcessPool(workers)


def test_workers_start_with_the_first_item(pool):
    results = pool.map(functions.worker, range(2))
    assert pool._processes == []
    assert len(set(results)) == 2


def test_workers_are_reused_by_the_next_map(pool):
    first, second = (set(pool.map(functions.worker, range(2))) for _ in range(2))
    assert first == second
    assert os.getpid() not in first


def test_workers_ignore_ctrl_c(pool):
    assert list(pool.map(functions.interrupted, range(3))) == [0, 1, 2]


def test_a_worker_that_is_killed_is_reported_and_replaced(pool):
    with pytest.raises(
        WeftError, match=r"a worker process \(pid \d+\) ended by signal SIGKILL .* fewer workers"
    ):
        list(pool.map(functions.killed, range(3)))
    assert list(pool.map(functions.squared, range(4))) == [0, 1, 4, 9]


def test_a_worker_that_exits_is_reported_with_its_exit_code(pool):
    with pytest.raises(WeftError, match="ended with exit code 7 before it returned"):
        list(pool.map(functions.leaving, range(1)))


def test_exception_of_a_worker_contains_its_traceback(pool):
    with pytest.raises(InvalidInput) as caught:
        list(pool.map(functions.refused, [3]))
    assert "in refused" in "".join(caught.value.__notes__)


def test_workers_are_stopped_when_the_caller_stops_reading(pool):
    process = next(pool.map(functions.worker, range(1)))
    results = pool.map(functions.sleeping, [0.0, 60.0])
    next(results)
    results.close()
    assert len(pool._processes) < 2
    assert list(pool.map(functions.squared, range(3))) == [0, 1, 4]
    assert has_ended(process) or process in {worker.process.pid for worker in pool._processes}


def test_workers_are_spawned_when_other_threads_run(pool):
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        assert list(pool.map(partial(functions.added, functions.Large()), range(3))) == [3, 4, 5]
        assert {type(worker.process).__name__ for worker in pool._processes} == {"SpawnProcess"}
    finally:
        stop.set()
        other.join()


ORPHANS = """
import os, signal, sys
import pool_functions as functions
from weft.pools.processes import ProcessPool

pool = ProcessPool(2)
print(*pool.map(functions.worker, range(2)), flush=True)
if sys.argv[1] == "busy":
    results = pool.map(functions.sleeping, [0.1, 60.0])
    next(results)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_workers_end_with_their_parent(state):
    paths = os.pathsep.join([str(TESTS), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", ORPHANS, state],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    workers = [int(word) for word in run.stdout.split()]
    assert len(workers) == 2
    assert all(await_end(process) for process in workers)
