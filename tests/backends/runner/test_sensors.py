"""Sensors of a machine, with real programs: competing load is told apart from weft's own tasks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from weft.backends.runner.sensors import HostSensor

SPIN = "import os, sys\nfor _ in range(3):\n    if not os.fork(): break\nwhile True: pass"
WINDOW_S = 0.6


@pytest.fixture
def spinners() -> Iterator[int]:
    """Three busy programs below one parent, which is busy too, all on one core; yields the parent."""
    core = min(os.sched_getaffinity(0))
    program = subprocess.Popen(
        [sys.executable, "-c", SPIN],
        start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    time.sleep(0.3)
    yield program.pid
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()


def measured(*sensors: HostSensor) -> list[dict[str, float | None]]:
    time.sleep(WINDOW_S)
    found = [sensor.measure() for sensor in sensors]
    return [each for each in found if each is not None]


def sensor(folder, runners=(), *, nodes=1, cores=None):
    made = HostSensor(str(folder), nodes, cores or {min(os.sched_getaffinity(0))}, 60.0)
    made.begin(runners, 0)
    return made


def test_load_of_other_programs_is_distinguished_from_the_load_of_weft_tasks(tmp_path, spinners):
    # Other programs of the host may start or end between the two measurements of a pair.
    pairs = (measured(sensor(tmp_path), sensor(tmp_path, [spinners])) for _ in range(10))
    differences = (foreign["load"] - own["load"] for foreign, own in pairs if foreign["load"] >= 3.0)
    assert next((found for found in differences if 2.5 <= found <= 5.5), None) is not None


def test_load_on_cores_outside_the_machine_is_not_counted(tmp_path, spinners):
    others = set(sorted(os.sched_getaffinity(0))[1:])
    if not others:
        pytest.skip("one core only")
    pairs = (measured(sensor(tmp_path), sensor(tmp_path, cores=others)) for _ in range(10))
    assert any(here["load"] - there["load"] >= 1.0 for here, there in pairs)


def test_free_memory_and_disk_are_those_of_the_host(tmp_path):
    (found,) = measured(sensor(tmp_path / "not" / "yet" / "there"))
    disk = os.statvfs(tmp_path)
    assert 0 < found["memory_bytes"] <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found["disk_bytes"] == pytest.approx(disk.f_bavail * disk.f_frsize, rel=0.2)


def test_state_is_reported_again_only_after_a_noticeable_change(tmp_path, spinners):
    large, small = sensor(tmp_path, nodes=1000), sensor(tmp_path)
    assert len(measured(large, small)) == 2
    os.killpg(spinners, signal.SIGSTOP)
    measured(small)
    assert measured(large) == []  # 4 of 1000 cores are not noticeable
    measured(small)
    os.killpg(spinners, signal.SIGCONT)
    (found,) = measured(small)
    assert found["load"] >= 2.0
