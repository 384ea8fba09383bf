"""A process that leaves the group and session of its task still belongs to the task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.package import environment
from backends.runner.runner_bench import Bench, is_running, wait_until
from patience import PATIENCE_S
from weft.backends.runner.processes import (
    MARK,
    list_processes,
    mark_prefix,
    marked_attempt,
    read_process,
    signal_exactly,
)
from weft.backends.runner.runner_loop import RunnerTask, StartOrder, _signal_task

DAEMON = """
import os, resource, signal, sys, time
name, how, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
if how == "clean":
    os.execve("/bin/sh", ["sh", "-c", f"echo $$ > {name}; exec sleep 1000"], {"PATH": os.defpath})
if how == "bare":
    with open(name, "w") as file:
        file.write(f"{os.getpid()}\\n")
    resource.setrlimit(10, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.execve("/bin/sleep", ["sleep", "1000"], {})
if how == "ignore":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if how == "polite":
    signal.signal(signal.SIGTERM, lambda *_: (open("saved", "w").write("saved\\n"), os._exit(0)))
memory = bytearray(size)
with open(name + ".new", "w") as file:
    file.write(f"{os.getpid()}\\n")
os.rename(name + ".new", name)
time.sleep(1000)
"""


@pytest.fixture
def daemon(bench: Bench) -> str:
    """Return the command of a program that becomes a daemon: it forks twice and leads its own session."""
    (bench.work / "daemon.py").write_text(DAEMON)
    return f"{sys.executable} -I -S daemon.py"


def zombies_of(pid: int) -> list[str]:
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        state = Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2][0]
        found += [child] if state == "Z" else []
    return found


@pytest.mark.parametrize("how", ["plain", "polite", "ignore"])
def test_daemon_is_killed_before_the_end_is_reported(bench: Bench, daemon: str, how: str) -> None:
    bench.sh(1, f"{daemon} pid {how} 0; until [ -s pid ]; do sleep 0.01; done; exit 4", grace_s=0.3)
    end = bench.wait_for_end(1)
    pid = bench.wait_for_pid("pid")
    assert not is_running(pid)
    assert (end["code"], end["signal"], end["cause"]) == (4, None, "")
    assert (bench.work / "saved").exists() == (how == "polite")
    wait_until(lambda: not zombies_of(bench.here["pid"]), "nothing is left to be waited for")


def test_cancel_reaches_daemons_and_other_sessions(bench: Bench, daemon: str) -> None:
    bench.sh(1, f"{daemon} pid plain 0; setsid sh -c 'echo $$ > child; sleep 1000' & wait; sleep 1000")
    pid, child = bench.wait_for_pid("pid"), bench.wait_for_pid("child")
    found = read_process(pid)
    assert found is not None
    assert (found.parent, found.session) == (bench.here["pid"], read_process(pid).session)
    assert found.session != bench.here["pid"]
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 20})
    end = bench.wait_for_end(1)
    assert end["cause"] == "cancelled"
    assert end["seconds"] < 20
    assert not is_running(pid)
    assert not is_running(child)


def test_time_limit_kills_daemons(bench: Bench, daemon: str) -> None:
    bench.sh(1, f"{daemon} pid ignore 0; sleep 1000", time_s=1.0, grace_s=0.2)
    pid = bench.wait_for_pid("pid")
    assert bench.wait_for_end(1)["cause"] == "timeout"
    assert not is_running(pid)


def test_memory_limit_counts_daemons(bench: Bench, daemon: str) -> None:
    bench.sh(1, f"{daemon} pid plain 120000000; sleep 1000", memory_bytes=60_000_000)
    end = bench.wait_for_end(1)
    assert end["cause"] == "oom"
    assert end["max_rss_bytes"] > 60_000_000
    if (bench.work / "pid").exists():
        assert not is_running(bench.wait_for_pid("pid"))


def test_signals_reach_daemons(bench: Bench, daemon: str) -> None:
    bench.sh(1, f"{daemon} pid polite 0; sleep 1000 & echo on > on; wait")
    pid = bench.wait_for_pid("pid")
    bench.written("on")
    bench.send({"do": "signal", "attempt": 1, "signal": "STOP"})
    assert bench.wait_for("signalled", 1)["processes"] == 3
    state = Path(f"/proc/{pid}/stat")
    wait_until(lambda: state.read_text().rpartition(") ")[2][0] == "T", "it is stopped")
    bench.send({"do": "cancel", "attempt": 1, "grace_s": PATIENCE_S})
    bench.wait_for_end(1)
    assert bench.written("saved") == "saved"


def test_end_of_a_task_leaves_daemons_of_other_tasks_running(bench: Bench, daemon: str) -> None:
    bench.sh(1, f"{daemon} other plain 0; sleep 1000")
    other = bench.wait_for_pid("other")
    for attempt in (2, 3):
        bench.sh(attempt, f"{daemon} pid{attempt} plain 0; until [ -s pid{attempt} ]; do sleep 0.01; done")
        bench.wait_for_end(attempt)
        assert not is_running(bench.wait_for_pid(f"pid{attempt}"))
    assert is_running(other)
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 20})
    bench.wait_for_end(1)
    assert not is_running(other)


def test_daemon_without_environment_is_killed_before_the_end_is_reported(bench: Bench, daemon: str) -> None:
    bench.sh(1, f"{daemon} pid clean 0; until [ -s pid ]; do sleep 0.01; done")
    end = bench.wait_for_end(1)
    assert not is_running(bench.wait_for_pid("pid"))
    assert (end["code"], end["strays"]) == (0, 1)


def test_daemon_with_a_cleared_environment_is_killed_only_with_its_own_task(
    bench: Bench, daemon: str
) -> None:
    bench.sh(1, f"{daemon} first clean 0; sleep 1000")
    first = bench.wait_for_pid("first")
    for attempt in (2, 3, 4):
        bench.sh(attempt, f"{daemon} pid{attempt} clean 0; until [ -s pid{attempt} ]; do sleep 0.01; done")
        assert bench.wait_for_end(attempt)["strays"] == 1
        assert not is_running(bench.wait_for_pid(f"pid{attempt}"))
        assert is_running(first)
    bench.send({"do": "cancel", "attempt": 1, "grace_s": 20})
    assert bench.wait_for_end(1)["strays"] == 0, "it was cancelled: the daemon belongs to it"
    assert not is_running(first)


def test_daemon_that_has_removed_all_marks_of_its_attempt_is_killed(bench: Bench, daemon: str) -> None:
    bench.sh(1, "sleep 1000")
    bench.sh(2, f"{daemon} pid bare 0; until [ -s pid ]; do sleep 0.01; done")
    assert bench.wait_for_end(2)["code"] == 0
    assert not is_running(bench.wait_for_pid("pid"))
    assert bench.records("ends").keys() == {2}
    # While its task still runs, it is found once a second.
    bench.sh(3, f"{daemon} pid3 bare 0; sleep 1000")
    pid = bench.wait_for_pid("pid3")
    wait_until(lambda: not is_running(pid), "it was killed")
    assert bench.records("ends").keys() == {2}


def test_background_process_in_its_own_process_group_is_killed_with_its_task(bench: Bench) -> None:
    bench.start(1, "/bin/bash", "-c", "set -m; env -i sleep 1000 & echo $! > pid")
    assert bench.wait_for_end(1)["strays"] == 1
    assert not is_running(bench.wait_for_pid("pid"))


def test_end_record_counts_the_processes_that_the_program_did_not_end(bench: Bench) -> None:
    bench.sh(1, "sleep 1000 & sleep 1000 & setsid sleep 1000 & sleep 0.2")
    assert bench.wait_for_end(1)["strays"] == 3
    bench.sh(2, "sleep 1000 & wait", time_s=0.3, grace_s=0.1)
    end = bench.wait_for_end(2)
    assert (end["cause"], end["strays"]) == ("timeout", 0)


CHAIN = """
import os
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    with open("links", "a") as file:
        file.write("x")
"""


def test_chain_of_processes_that_start_each_other_is_killed_when_its_task_ends(bench: Bench) -> None:
    (bench.work / "chain.py").write_text(CHAIN)
    bench.sh(1, f"{sys.executable} -I -S chain.py; until [ -s links ]; do sleep 0.01; done", grace_s=0.2)
    assert bench.wait_for_end(1)["code"] == 0
    links = (bench.work / "links").stat().st_size
    bench.sh(2, "sleep 0.3")
    bench.wait_for_end(2)
    assert (bench.work / "links").stat().st_size == links


ADOPTED = """
import os, sys, time
from weft.backends.runner import processes

denied, attempt = sys.argv[1] == "denied", 3
tracker = processes.ProcessTracker()
launcher = processes.ProgramLauncher(tracker.mark)
command = "sleep 1000 & echo $! > /dev/fd/1"
order = {"attempt": attempt, "argv": ["/bin/sh", "-c", command], "stdout": sys.argv[2]}
os.waitpid(launcher.start(processes.StartOrder(order, 1.0)), 0)
pid = int(open(sys.argv[2]).read())
signals, kill = [], os.kill


def record(target, number):
    signals.append(target)
    if denied:
        raise PermissionError
    kill(target, number)


os.kill = record
if denied:
    tracker.kill_left(attempt, {})
    denied = False
end_s = time.monotonic() + float(sys.argv[3])
while tracker._list_adopted({}) and time.monotonic() < end_s:
    signals.clear()
    tracker.kill_left(attempt, {})
    assert len(signals) <= 1, signals
print(len(tracker._list_adopted({})))
"""


@pytest.mark.parametrize("how", ["allowed", "denied"])
def test_adopted_process_gets_one_signal_and_is_waited_for(tmp_path: Path, how: str) -> None:
    """A killed process, a zombie with a readable limit, got 500 more signals and was not waited for.

    A process of another user cannot be killed; this must not end the runner.
    """
    command = [sys.executable, "-c", ADOPTED, how, str(tmp_path / "pid"), str(PATIENCE_S)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0\n"


def test_reused_number_of_an_empty_group_is_not_signalled() -> None:
    """The leader has ended, other processes of the task run, and another program leads a group of its number."""
    other = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    member = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        order = StartOrder({"attempt": 1, "argv": ["true"]}, 1.0)
        task = RunnerTask(order, other.pid, 0.0, 0.0)
        task.status = 0
        process = read_process(member.pid)
        assert process is not None
        _signal_task(task, [process], signal.SIGKILL)
        assert member.wait() == -signal.SIGKILL
        assert is_running(other.pid)
        task.status = None
        _signal_task(task, [], signal.SIGKILL)
        assert other.wait() == -signal.SIGKILL
    finally:
        for each in (other, member):
            each.kill()
            each.wait()


def test_observed_process_is_tracked_after_it_removes_its_mark(bench: Bench) -> None:
    hidden = "setsid env -i sh -c 'echo $$ > pid; exec sleep 1000' & until [ -s pid ]; do sleep 0.01; done"
    bench.sh(1, f"{hidden}; sleep 1", memory_bytes=10**9)
    assert bench.wait_for_end(1)["code"] == 0
    assert not is_running(bench.wait_for_pid("pid"))


def test_daemon_of_a_killed_runner_is_found_by_its_mark(bench: Bench, daemon: str) -> None:
    bench.sh(7, f"{daemon} pid ignore 0; sleep 1000")
    pid = bench.wait_for_pid("pid")
    own = read_process(bench.here["pid"])
    assert own is not None
    mark = mark_prefix(own.pid, own.began_ticks)
    assert marked_attempt(pid, mark) == 7
    assert marked_attempt(pid, mark_prefix(own.pid, own.began_ticks + 1)) is None
    os.kill(bench.here["pid"], signal.SIGKILL)
    wait_until(lambda: not is_running(bench.here["pid"]), "the runner is dead")
    assert pid in bench.link.kill_orphans()
    assert not is_running(pid)
    assert [one.pid for one in list_processes() if marked_attempt(one.pid, mark) is not None] == []


def test_daemon_without_environment_of_a_killed_runner_is_found(bench: Bench, daemon: str) -> None:
    bench.sh(7, f"{daemon} pid clean 0; sleep 1000")
    pid = bench.wait_for_pid("pid")
    os.kill(bench.here["pid"], signal.SIGKILL)
    wait_until(lambda: not is_running(bench.here["pid"]), "the runner is dead")
    assert pid in bench.link.kill_orphans()
    assert not is_running(pid)


def test_program_gets_the_mark_of_its_attempt_and_no_internal_variable(bench: Bench) -> None:
    bench.start(5, "/usr/bin/env", env={"MINE": "1", MARK: "forged"}, nonce="a1b2")
    assert bench.wait_for_end(5)["code"] == 0
    names = dict(line.split("=", 1) for line in bench.out(5).splitlines())
    assert names.keys() == {"PATH", "BASE", "MINE", MARK}
    assert names[MARK].split(".")[2:4] == ["5", "a1b2"]


def test_signal_is_not_sent_to_a_reused_process_number() -> None:
    own = read_process(os.getpid())
    assert own is not None
    own.began_ticks -= 1
    assert not signal_exactly(own, signal.SIGKILL)
    own.began_ticks += 1
    assert signal_exactly(own, 0)
