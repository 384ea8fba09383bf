"""Processes as read from /proc, with any name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backends.runner.runner_bench import Bench, wait_until
from weft.backends.runner import processes
from weft.backends.runner.processes import (
    TICKS_PER_S,
    MemoryMeter,
    catches_signal,
    list_processes,
    proportional_bytes,
    read_process,
    signal_group,
)


def test_own_process_is_found() -> None:
    own = read_process(os.getpid())
    assert own is not None
    assert (own.group, own.session) == (os.getpgid(0), os.getsid(0))
    assert os.getpid() in [one.pid for one in list_processes()]
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 < own.began_ticks / TICKS_PER_S < up_s
    share_bytes = proportional_bytes(os.getpid())
    assert share_bytes is not None
    assert 0 < share_bytes <= own.resident_bytes * 1.1


def test_process_name_may_contain_any_character(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([str(odd), "1000"], start_new_session=True) as child:
        found = read_process(child.pid)
        assert found is not None
        assert (found.group, found.session) == (child.pid, child.pid)
        assert [one.pid for one in list_processes() if one.session == child.pid] == [child.pid]
        child.kill()


def test_zombie_process_counts_as_ended_although_its_process_group_exists() -> None:
    with subprocess.Popen(["true"], start_new_session=True) as child:
        wait_until(lambda: read_process(child.pid) is None, "it has ended")
        assert signal_group(child.pid, 0)
        assert child.pid not in [one.session for one in list_processes()]
        child.wait()
        assert not signal_group(child.pid, 0)


def test_signal_handlers_are_detected() -> None:
    program = "import signal, time; signal.signal(signal.SIGUSR1, print); print(flush=True); time.sleep(1000)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert catches_signal(child.pid, signal.SIGUSR1)
        assert not catches_signal(child.pid, signal.SIGUSR2)
        child.kill()
    assert not catches_signal(child.pid, signal.SIGUSR1)


def test_every_out_of_memory_kill_is_reported_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reads of the kernel's counter are redirected to a file."""
    counter = tmp_path / "vmstat"
    read = processes.read_kernel_file
    monkeypatch.setattr(
        processes, "read_kernel_file", lambda name: read(str(counter) if "vmstat" in name else name)
    )
    counter.write_text("oom_kill_disable 9\noom_kill 5\n")
    assert processes.out_of_memory_kills() == 5
    memory = MemoryMeter()
    assert not memory.kernel_killed()
    counter.write_text("oom_kill 7\n")
    assert [memory.kernel_killed() for _ in range(3)] == [True, True, False]


def test_session_contains_only_its_own_processes(bench: Bench) -> None:
    bench.sh(1, "echo $$ > pid; sleep 1000")
    pid = bench.wait_for_pid("pid")
    assert {one.group for one in list_processes() if one.session == bench.here["pid"]} == {
        bench.here["pid"],
        pid,
    }
