"""A runner outlives its engine, accepts a new connection, is replaced after its death, and exits when idle."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from backends.runner.runner_bench import TOKEN, Bench, is_running, wait_until
from patience import PATIENCE_S
from weft.backends.runner.processes import list_processes, read_process
from weft.backends.runner.records import RecordLog, SealedRecords, encode_record
from weft.backends.runner.runner_link import (
    RunnerFailed,
    RunnerGone,
    RunnerLink,
    RunnerUnresponsive,
    find_orphans,
    kill_orphans,
)
from weft.randomness import generator


def disconnect(bench: Bench) -> None:
    bench.link.disconnect()
    bench.received.clear()


def test_runner_that_starts_slowly_is_not_killed(tmp_path: Path) -> None:
    """On a very busy host, a healthy runner has needed more than 15 s until it accepted connections."""
    slow = tmp_path / "slow-python"
    slow.write_text(f'#!/bin/sh\nsleep 16\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    bench = Bench(tmp_path, python=str(slow))
    try:
        assert bench.here["running"] == []
    finally:
        bench.close()


def test_runner_has_its_own_session_and_its_token_is_not_visible_to_other_processes(bench: Bench) -> None:
    pid = bench.here["pid"]
    assert bench.link.pid == pid
    assert os.getsid(pid) == os.getpgid(pid) == pid
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    files = {path.name: str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    assert files["0"] == os.devnull
    assert files["1"] == files["2"] == str(bench.directory / "log")
    assert TOKEN.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert TOKEN.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    assert not any(
        TOKEN.encode() in path.read_bytes() for path in bench.directory.iterdir() if path.is_file()
    )


def test_runner_loads_neither_weft_nor_heavy_modules() -> None:
    runner = Path(sys.modules[RunnerLink.__module__].__file__ or "").with_name("runner.py")
    program = (
        "import sys\n"
        f"names = {{'__name__': 'runner', '__file__': {str(runner)!r}}}\n"
        "exec(open(names['__file__']).read(), names)\n"
        "names['_install_package_stubs']()\n"
        "import weft.backends.runner.runner_loop\n"
        "sys.stdout.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    loaded = set(done.stdout.split())
    assert "weft.backends.runner.runner_loop" in loaded
    assert not loaded & {
        "weft.errors",
        "weft.registry",
        "dataclasses",
        "typing",
        "subprocess",
        "threading",
        "asyncio",
    }


def test_task_ends_while_no_engine_runs_and_the_next_engine_records_it(bench: Bench) -> None:
    os.mkfifo(bench.work / "go")
    bench.sh(1, "read line < go; exit 3")
    bench.sh(2, "sleep 1000")
    bench.wait_for("started", 1)
    running = bench.wait_for("started", 2)
    disconnect(bench)
    (bench.work / "go").write_text("go\n")
    wait_until(lambda: 1 in bench.records("ends"), "the end is on disk")
    here = bench.link.connect()
    assert here["pid"] == bench.here["pid"]
    assert here["running"] == [{"attempt": 2, "nonce": "", "pid": running["pid"], "at": running["at"]}]
    assert [(end["attempt"], end["code"]) for end in here["ended"]] == [(1, 3)]
    assert here["ended"][0] == bench.records("ends")[1]
    bench.send({"do": "forget", "attempt": 1})
    disconnect(bench)
    assert bench.link.connect()["ended"] == []


def test_second_engine_replaces_the_first(bench: Bench) -> None:
    bench.sh(1, "echo up > up; sleep 1000")
    bench.written("up")
    second = bench.new_link()
    here = second.connect()
    assert here["pid"] == bench.here["pid"]
    assert [each["attempt"] for each in here["running"]] == [1]
    with pytest.raises(RunnerGone):
        bench.wait_for("nothing")
    assert not bench.link.connected
    bench.link.close()
    bench.link = second
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 5})
    assert bench.wait_for_end(1)["cause"] == "cancelled"


def test_connections_without_token_are_refused(bench: Bench) -> None:
    def connect_without_token(line: bytes) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(20)
        folder = os.open(bench.directory, os.O_RDONLY)
        connection.connect(f"/proc/self/fd/{folder}/socket")
        os.close(folder)
        connection.sendall(line)
        return connection

    order = json.dumps({"do": "start", "attempt": 1, "argv": ["touch", str(bench.work / "done")]}).encode()
    for first in (
        b'{"do":"hello","token":"wrong"}\n',
        b'{"do":"hello","token":null}\n',
        b"nonsense\n",
        b"[]\n",
        b"",
    ):
        with (
            contextlib.closing(connect_without_token(first + order + b"\n")) as connection,
            contextlib.suppress(ConnectionResetError),
        ):
            assert connection.recv(100) == b""
    silent = [connect_without_token(b"") for _ in range(20)]
    bench.sh(2, "exit 6")
    assert bench.wait_for_end(2)["code"] == 6
    for each in silent:
        each.close()
    assert not (bench.work / "done").exists()
    wrong = bench.new_link("another token")
    with pytest.raises((RunnerUnresponsive, RunnerFailed)):
        wrong.connect(timeout_s=0.5)
    wrong.close()
    bench.sh(3, "exit 7")
    assert bench.wait_for_end(3)["code"] == 7


def test_idle_runner_exits(tmp_path: Path) -> None:
    bench = Bench(tmp_path, idle_s=0.3)
    bench.sh(1, "echo up > up; sleep 0.8; exit 2")
    bench.written("up")
    disconnect(bench)
    wait_until(lambda: not bench.link.alive, "the runner ends")
    assert bench.records("ends")[1]["code"] == 2
    assert {path.name for path in bench.directory.iterdir()} == {"ends", "lock", "log", "starts"}
    here = bench.link.connect()
    assert here["pid"] != bench.here["pid"]
    assert [end["code"] for end in here["ended"]] == [2]
    bench.close()


def test_runner_exits_on_request_when_no_task_runs(bench: Bench) -> None:
    os.mkfifo(bench.work / "go")
    bench.sh(1, "read line < go; exit 1")
    bench.send({"do": "end"})
    bench.wait_for("started", 1)
    (bench.work / "go").write_text("go\n")
    assert bench.wait_for_end(1)["code"] == 1
    with pytest.raises(RunnerGone):
        bench.wait_for("nothing")
    wait_until(lambda: not bench.link.alive, "the runner ends")


def test_runner_works_in_a_directory_with_a_long_name(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(6):
        deep = deep / ("d" * 60)
    bench = Bench(deep)
    bench.sh(1, "exit 8")
    assert bench.wait_for_end(1)["code"] == 8
    bench.close()


def test_terminated_runner_terminates_its_tasks(bench: Bench) -> None:
    bench.sh(1, "trap 'echo saved > saved; exit 85' TERM; echo up > up; while :; do sleep 0.05; done")
    bench.sh(2, "sleep 1000")
    bench.written("up")
    os.kill(bench.here["pid"], signal.SIGTERM)
    first, second = bench.wait_for_end(1), bench.wait_for_end(2)
    assert (first["code"], first["cause"]) == (85, "lost")
    assert (second["signal"], second["cause"]) == (15, "lost")
    with pytest.raises(RunnerGone):
        bench.wait_for("nothing")
    assert set(bench.records("ends")) == {1, 2}


def test_orphans_of_a_killed_runner_are_killed(bench: Bench) -> None:
    bench.sh(1, "sleep 1000 & echo $! > child; echo $$ > leader; wait")
    bench.sh(3, "exit 9")
    child, leader = bench.wait_for_pid("child"), bench.wait_for_pid("leader")
    assert bench.wait_for_end(3)["code"] == 9
    runner = bench.here["pid"]
    os.kill(runner, signal.SIGKILL)
    with pytest.raises(RunnerGone):
        bench.wait_for("nothing")
    wait_until(lambda: not bench.link.alive, "the runner is dead")
    assert is_running(child)
    assert is_running(leader)
    killed = bench.link.kill_orphans()
    assert {child, leader} <= set(killed)
    assert not is_running(child)
    assert not is_running(leader)
    assert bench.link.kill_orphans() == ()
    here = bench.link.connect()
    assert here["pid"] != runner
    ends = {end["attempt"]: end for end in here["ended"]}
    assert (ends[1]["code"], ends[1]["signal"], ends[1]["cause"]) == (None, None, "lost")
    assert ends[3]["code"] == 9
    bench.sh(1, "echo again > again")  # an attempt that may have run does not run again
    assert bench.wait_for_end(1)["cause"] == "lost"
    assert not (bench.work / "again").exists()


def test_orphans_that_fork_are_killed(bench: Bench) -> None:
    """Each process writes its number and starts the next one, so that there is always a newer one."""
    bench.sh(1, "echo 'echo $$ >> all; sh ./chain & exec sleep 1000' > chain; sh ./chain & sh ./chain & wait")
    bench.written("all")
    os.kill(bench.here["pid"], signal.SIGKILL)
    wait_until(lambda: not bench.link.alive, "the runner is dead")
    bench.link.kill_orphans()
    assert [one.pid for one in list_processes() if one.session == bench.here["pid"]] == []


def test_connect_kills_orphans_first(bench: Bench) -> None:
    bench.sh(1, "echo $$ > pid; sleep 1000")
    pid = bench.wait_for_pid("pid")
    os.kill(bench.here["pid"], signal.SIGKILL)
    bench.link.connect()
    assert not is_running(pid)


def test_orphan_without_start_record_is_killed(bench: Bench) -> None:
    bench.sh(1, "echo $$ > pid; sleep 1000")
    pid = bench.wait_for_pid("pid")
    bench.wait_for("started", 1)
    os.kill(bench.here["pid"], signal.SIGKILL)
    (bench.directory / "starts").unlink()
    wait_until(lambda: not bench.link.alive, "the runner is dead")
    assert pid in bench.link.kill_orphans()
    assert not is_running(pid)


def test_process_with_the_reused_number_of_a_runner_is_not_killed(tmp_path: Path) -> None:
    """The process with this number is neither the runner, nor a task, nor a member of the session."""
    victim = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 1000 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert victim.stdout is not None
    victim.stdout.readline()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    records = SealedRecords(str(tmp_path), TOKEN)
    own = read_process(victim.pid)
    assert own is not None
    starts = RecordLog(records, "starts")
    starts.add(encode_record({"attempt": 1, "pid": victim.pid, "at": 0.0, "within": [0.0, 0.1]}))
    for identity in (
        {"pid": victim.pid, "began_ticks": own.began_ticks - 1000, "boot": boot},
        {"pid": victim.pid, "began_ticks": own.began_ticks - 1000, "boot": "another"},
        {"pid": 2**22 - 1, "began_ticks": 1, "boot": boot},
    ):
        records.write("pid", identity)
        assert find_orphans(records) == []
        assert kill_orphans(records) == ()
    assert victim.poll() is None
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    records.close()


def test_forged_runner_record_kills_no_process(bench: Bench) -> None:
    victim = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    own = read_process(victim.pid)
    assert own is not None
    bench.send({"do": "end"})
    wait_until(lambda: not bench.link.alive, "the runner ends")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    forged = {"pid": victim.pid, "began_ticks": own.began_ticks, "boot": boot}
    forger = SealedRecords(str(bench.directory), "a guess")
    forger.write("pid", forged)
    forger.close()
    assert not bench.link.alive
    assert bench.link.kill() == ()
    assert victim.poll() is None
    victim.kill()
    victim.wait()


def test_only_one_runner_serves_a_directory(bench: Bench) -> None:
    other = bench.new_link()
    other._start()
    wait_until(lambda: not other._check_child(), "the second runner sees the first and ends")
    assert other.connect()["pid"] == bench.here["pid"]
    bench.link.close()
    bench.link = other


def test_error_about_a_failed_runner_start_names_the_cause(tmp_path: Path) -> None:
    link = RunnerLink(tmp_path / "runner", TOKEN, environment={}, python="/no/such/python")
    with pytest.raises(RunnerFailed, match=r"/no/such/python: No such file"):
        link.connect()
    link.close()
    cores = RunnerLink(tmp_path / "cores", TOKEN, environment={}, cores=[4000], idle_s=0.1)
    with pytest.raises(RunnerFailed, match=r"cores \[4000\] are not available"):
        cores.connect()
    cores.kill()
    cores.close()


def test_runner_is_restricted_to_the_cores_of_its_machine(tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    bench = Bench(tmp_path, cores=[last])
    bench.python(1, "import os; print(os.sched_getaffinity(0))")
    assert bench.wait_for_end(1)["code"] == 0
    assert bench.out(1) == f"{{{last}}}\n"
    bench.close()


def test_end_records_are_reported_while_the_disk_is_full_and_written_later(bench: Bench) -> None:
    """A limit on the file size makes writes fail as on a full disk."""
    runner = bench.here["pid"]
    bench.sh(1, "exit 1")
    bench.wait_for_end(1)
    size = (bench.directory / "ends").stat().st_size
    old = resource.prlimit(runner, resource.RLIMIT_FSIZE, (size + 50, resource.RLIM_INFINITY))
    bench.sh(2, "exit 2")
    bench.sh(3, "exit 3")
    assert (bench.wait_for_end(2)["code"], bench.wait_for_end(3)["code"]) == (2, 3)
    assert set(bench.records("ends")) == {1}
    assert bench.link.beat_age_s() < 5
    resource.prlimit(runner, resource.RLIMIT_FSIZE, old)
    wait_until(lambda: set(bench.records("ends")) == {1, 2, 3}, "the ends are written after all")
    assert set(bench.records("starts")) == {1, 2, 3}


def test_text_stored_with_a_start_order_is_passed_to_the_next_engine(bench: Bench) -> None:
    """A later runner also passes on reminders of ended attempts; forgetting an end drops its reminder."""
    text = 'any text: "quotes", \n, \udcff, é'
    bench.sh(1, "exit 1", reminder=text)
    bench.sh(2, "sleep 1000", reminder="of two")
    bench.sh(3, "exit 3")
    for kind, attempt in (("ended", 1), ("started", 2), ("ended", 3)):
        bench.wait_for(kind, attempt)
    assert reminders(bench.link.connect()) == {1: text, 2: "of two", 3: None}
    bench.link.kill()
    here = bench.link.connect()
    assert reminders(here) == {1: text, 2: "of two", 3: None}
    assert {each["attempt"]: each["cause"] for each in here["ended"]} == {1: "", 2: "lost", 3: ""}
    bench.send({"do": "forget", "attempts": [1, 2]})
    assert reminders(bench.link.connect()) == {3: None}


def reminders(here: dict[str, Any]) -> dict[int, str | None]:
    return {start["attempt"]: start["reminder"] for start in here["starts"]}


def test_no_process_is_left_after_fifty_tasks(bench: Bench) -> None:
    """Fifty tasks at once, half of them cancelled; no process of their groups is left."""
    for attempt in range(50):
        bench.sh(attempt, "sleep 1000 & sleep 1000; wait" if attempt % 2 == 0 else "sleep 1000 & exit 0")
    for attempt in range(0, 50, 2):
        bench.send({"do": "cancel", "attempt": attempt, "grace_s": 5})
    causes = [bench.wait_for_end(attempt)["cause"] for attempt in range(50)]
    assert causes == ["cancelled", ""] * 25
    assert [one.pid for one in list_processes() if one.session == bench.here["pid"]] == [bench.here["pid"]]


def test_heartbeat_of_a_running_runner_is_recent(bench: Bench) -> None:
    wait_until(lambda: (bench.directory / "beat").exists(), "the first beat")
    records = SealedRecords(str(bench.directory), TOKEN)
    before = records.read_again("beat")
    wait_until(lambda: records.read_again("beat") != before, "the next beat")
    after = records.read_again("beat")
    records.close()
    assert before is not None
    assert after is not None
    assert float(str(after["monotonic_s"])) - float(str(before["monotonic_s"])) >= 1.0
    assert bench.link.beat_age_s() < 10


def test_kill_of_a_runner_loses_no_end_record_and_starts_no_attempt_twice(bench: Bench) -> None:
    """Attempts without an end are started again, as by an engine that lost its connection."""
    rng = generator(11, "kills")
    for burst in range(6):
        attempts = range(20 * burst, 20 * burst + 20)
        runner = bench.link.pid
        assert runner is not None
        for attempt in attempts:
            bench.sh(
                attempt, f"echo begin >> runs{attempt}; sleep 0.0{attempt % 7}; echo end >> runs{attempt}"
            )
        time.sleep(float(rng.uniform(0.0, 0.15)))
        os.kill(runner, signal.SIGKILL)
        bench.received.clear()
        here = bench.link.connect()
        assert [one.pid for one in list_processes() if one.session == runner] == []
        ends = {end["attempt"]: end for end in here["ended"]}
        for attempt in attempts:
            if attempt not in ends:
                bench.sh(attempt, f"echo begin >> runs{attempt}; echo end >> runs{attempt}")
                ends[attempt] = bench.wait_for_end(attempt)
        for attempt in attempts:
            end, path = ends[attempt], bench.work / f"runs{attempt}"
            lines = path.read_text().splitlines() if path.exists() else []
            assert (end["code"], end["cause"]) in ((0, ""), (None, "lost"))
            assert lines == ["begin", "end"] or (end["code"] is None and lines in ([], ["begin"]))
        bench.send({"do": "forget", "attempts": list(attempts)})
