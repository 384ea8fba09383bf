"""A task is terminated as a whole process group, with the first cause, before its end is reported."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from backends.runner.runner_bench import Bench, is_running, wait_until
from weft.backends.runner.processes import list_processes

IGNORES = "trap '' TERM; echo up > up{0}; while :; do sleep 0.05; done"


def test_end_record_of_a_program_killed_by_others_has_a_signal_and_no_cause(bench: Bench) -> None:
    bench.sh(1, "kill -KILL $$")
    end = bench.wait_for_end(1)
    assert (end["code"], end["signal"], end["cause"]) == (None, 9, "")


def test_cancel_ends_the_whole_process_group(bench: Bench) -> None:
    bench.sh(1, "sleep 1000 & echo $! > child; echo $$ > parent; wait")
    child, parent = bench.wait_for_pid("child"), bench.wait_for_pid("parent")
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 20})
    end = bench.wait_for_end(1)
    assert (end["code"], end["signal"], end["cause"]) == (None, 15, "cancelled")
    assert not is_running(child)
    assert not is_running(parent)


def test_program_that_ignores_sigterm_is_killed_by_the_runner(bench: Bench) -> None:
    bench.sh(1, IGNORES.format(1))
    bench.written("up1")
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 0.2})
    end = bench.wait_for_end(1)
    assert (end["signal"], end["cause"]) == (9, "cancelled")
    assert end["seconds"] >= 0.2


def test_second_cancel_shortens_the_grace_period_and_keeps_the_cause(bench: Bench) -> None:
    bench.sh(1, IGNORES.format(1), time_s=0.3, grace_s=600)
    bench.written("up1")
    time.sleep(0.5)
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 0})
    end = bench.wait_for_end(1)
    assert (end["signal"], end["cause"]) == (9, "timeout")


def test_program_may_use_its_grace_period(bench: Bench) -> None:
    bench.sh(1, "trap 'echo saved > saved; exit 85' TERM; echo up > up; while :; do sleep 0.05; done")
    bench.written("up")
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 20})
    end = bench.wait_for_end(1)
    assert (end["code"], end["signal"], end["cause"]) == (85, None, "cancelled")
    assert bench.written("saved") == "saved"


def test_stopped_program_can_be_cancelled(bench: Bench) -> None:
    bench.sh(1, "echo $$ > pid; sleep 1000")
    pid = bench.wait_for_pid("pid")
    bench.send({"do": "signal", "attempt": 1, "signal": "STOP"})
    assert bench.wait_for("signalled", 1)["processes"] >= 1
    wait_until(lambda: _state(pid) == "T", "it is stopped")
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 20})
    end = bench.wait_for_end(1)
    assert (end["signal"], end["cause"]) == (15, "cancelled")
    assert end["seconds"] < 20


def test_time_limit_ends_a_stopped_program(bench: Bench) -> None:
    bench.sh(1, "echo $$ > pid; kill -STOP $$; touch continued", time_s=1)
    pid = bench.wait_for_pid("pid")
    wait_until(lambda: _state(pid) == "T", "it is stopped")
    end = bench.wait_for_end(1)
    assert (end["signal"], end["cause"]) == (15, "timeout")
    assert not (bench.work / "continued").exists()


def test_stopped_programs_continue_on_request(bench: Bench) -> None:
    os.mkfifo(bench.work / "go")
    bench.sh(1, "echo $$ > pid; read line < go; exit 5")
    pid = bench.wait_for_pid("pid")
    bench.send({"do": "signal", "attempt": 1, "signal": "STOP"})
    wait_until(lambda: _state(pid) == "T", "it is stopped")
    bench.send({"do": "signal", "attempt": 1, "signal": "CONT"})
    (bench.work / "go").write_text("go\n")
    assert bench.wait_for_end(1)["code"] == 5


@pytest.mark.parametrize("ignoring", [False, True])
def test_remaining_processes_are_killed_before_the_end_is_reported(bench: Bench, ignoring: bool) -> None:
    trap = "trap '' TERM; " if ignoring else ""
    os.mkfifo(bench.work / "up")
    member = f"({trap}echo up > up; while :; do sleep 0.05; done)"
    bench.sh(1, f"{member} & echo $! > child; read x < up; exit 4", grace_s=0.3)
    end = bench.wait_for_end(1)
    child = bench.wait_for_pid("child")
    assert not is_running(child)
    assert (end["code"], end["signal"], end["cause"]) == (4, None, "")
    assert [one.pid for one in list_processes() if one.session == bench.here["pid"]] == [bench.here["pid"]]


def test_time_limit_ends_a_program(bench: Bench) -> None:
    bench.sh(1, "sleep 1000", time_s=0.3)
    bench.sh(2, "exit 0", time_s=1000)
    end = bench.wait_for_end(1)
    assert (end["signal"], end["cause"]) == (15, "timeout")
    assert 0.3 <= end["seconds"] < 20
    assert "still running after 0." in end["text"]
    assert bench.wait_for_end(2)["cause"] == ""


def test_time_limit_kills_a_program_that_ignores_sigterm(bench: Bench) -> None:
    bench.sh(1, IGNORES.format(1), time_s=0.3, grace_s=0.3)
    end = bench.wait_for_end(1)
    assert (end["signal"], end["cause"]) == (9, "timeout")
    assert end["seconds"] >= 0.6


HUNGRY = "import time\nx = bytearray({0})\ntime.sleep(1000)"


def test_memory_limit_ends_a_program(bench: Bench) -> None:
    bench.python(1, HUNGRY.format(120_000_000), memory_bytes=60_000_000)
    bench.python(2, "x = bytearray(20_000_000)\nimport time\ntime.sleep(0.5)", memory_bytes=60_000_000)
    end = bench.wait_for_end(1)
    assert (end["code"], end["signal"], end["cause"]) == (None, 9, "oom")
    assert "its limit is 60.0 MB" in end["text"]
    assert end["max_rss_bytes"] > 60_000_000
    assert bench.wait_for_end(2)["code"] == 0


def test_memory_limit_counts_all_processes(bench: Bench) -> None:
    program = "import os, time\n[os.fork() for _ in range(2)]\nx = bytearray(40_000_000)\ntime.sleep(1000)"
    bench.python(1, program, memory_bytes=100_000_000)
    assert bench.wait_for_end(1)["cause"] == "oom"


def test_memory_shared_by_several_processes_is_counted_once(bench: Bench) -> None:
    """Four processes that share 60 MB have a sum of 240 MB, but use 60 MB."""
    program = (
        "import mmap, os, time\n"
        "x = mmap.mmap(-1, 60_000_000)\n"
        "x[:] = bytes(60_000_000)\n"
        "[os.fork() for _ in range(2)]\n"
        "sum(x[::4096])\n"
        "time.sleep(0.8)\n"
    )
    bench.python(1, program, memory_bytes=150_000_000)
    assert bench.wait_for_end(1)["cause"] == ""


def test_signal_reaches_only_processes_with_a_handler(bench: Bench) -> None:
    """The shell that started the program has no handler, and SIGUSR1 would kill it."""
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(6))\n"
        "open('ready', 'w').write('ready\\n')\n"
        "time.sleep(1000)"
    )
    (bench.work / "program.py").write_text(program)
    bench.sh(1, f"{sys.executable} -I -S program.py; echo $? > code; exit 0")
    bench.written("ready")
    bench.send({"do": "signal", "attempt": 1, "signal": "USR1"})
    assert bench.wait_for("signalled", 1)["processes"] == 1
    assert bench.wait_for_end(1)["code"] == 0
    assert bench.written("code") == "6"


def test_signal_without_handler_is_reported(bench: Bench) -> None:
    bench.sh(1, "echo up > up; sleep 0.3; exit 3")
    bench.written("up")
    bench.send({"do": "signal", "attempt": 1, "signal": "USR1"})
    bench.send({"do": "signal", "attempt": 99, "signal": "USR1"})
    assert bench.wait_for("signalled", 1)["processes"] == bench.wait_for("signalled", 99)["processes"] == 0
    assert bench.wait_for_end(1)["code"] == 3


def test_repeated_messages_have_no_effect(bench: Bench) -> None:
    script = "echo once >> runs; while [ ! -e go ]; do sleep 0.01; done; exit 2"
    for _ in range(2):
        bench.sh(1, script)
    first, second = bench.wait_for("started", 1), bench.wait_for("started", 1)
    assert first == second
    (bench.work / "go").touch()
    end = bench.wait_for_end(1)
    bench.sh(1, script)
    assert bench.wait_for_end(1) == end
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 1})
    assert bench.wait_for_end(1) == end
    assert bench.written("runs") == "once"
    bench.send({"do": "forget", "attempts": [1]})
    bench.send({"do": "forget", "attempt": 1})
    bench.sh(1, script)
    assert "ended" in bench.wait_for("problem", 1)["text"]
    assert bench.written("runs") == "once"


def test_attempt_cancelled_before_its_start_never_starts(bench: Bench) -> None:
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 1})
    end = bench.wait_for_end(1)
    assert (end["code"], end["signal"], end["cause"]) == (None, None, "cancelled")
    bench.sh(1, "echo up > up")
    assert bench.wait_for_end(1) == end
    assert not (bench.work / "up").exists()


def test_forgotten_records_are_removed_when_logs_are_rewritten(bench: Bench) -> None:
    """Two thousand failed starts: their ends are written, forgotten and removed from the logs."""
    sizes = []
    for attempt in range(1, 2001):
        bench.start(attempt, "absent")
        if attempt % 100 == 0:
            for each in range(attempt - 99, attempt + 1):
                assert bench.wait_for_end(each)["code"] == 127
            bench.send({"do": "forget", "attempts": list(range(attempt - 99, attempt))})
            bench.send({"do": "signal", "attempt": 0, "signal": "USR1"})
            bench.wait_for("signalled", 0)
            sizes.append((bench.directory / "ends").stat().st_size)
    assert max(sizes[10:]) <= 1.3 * max(sizes[:10])
    assert set(range(100, 2001, 100)) <= set(bench.records("ends"))


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_shell_with_short_lived_children_can_be_stopped(bench: Bench) -> None:
    bench.sh(1, "echo up > up; while :; do /bin/true; done")
    bench.written("up")
    for _ in range(200):
        bench.send({"do": "signal", "attempt": 1, "signal": "STOP"})
        bench.wait_for("stopped", 1)
        bench.send({"do": "signal", "attempt": 1, "signal": "CONT"})
        bench.wait_for("continued", 1)
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 0})
    assert bench.wait_for_end(1)["cause"] == "cancelled"
