"""Programs and files on real ssh hosts through the ssh backend, without an engine."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path

import pytest

import backend_project
from backend_project import BackendProject
from patience import PATIENCE_S
from ssh_hosts import SshHosts, make_key
from weft.backends.ssh.backend import SshBackend, _HostFileServer
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.platform.platform import Platform

TASKS = {
    "quick": {"command": "echo hello > out; echo words; hostname >&2", "outputs": ["out"]},
    "reader": {"command": ["cp", "out", "copy"], "inputs": ["out"], "outputs": ["copy"]},
    "folder": {"command": "mkdir d; echo a > d/a; ln -s a d/b", "outputs": ["d/"]},
    "lister": {"command": "cat d/a d/b > n", "inputs": ["d/"], "outputs": ["n"]},
    "failing": {"command": "exit 3"},
    "short": {"command": "echo words; echo more >&2; exit 3"},
    "slow": {"command": "sleep 1000", "seconds": 60},
    "telling": {"command": "echo '{{\"delta\": 0.5}}' > $WEFT_RESULT_FILE"},
    "forgetful": {"command": "true", "outputs": ["never"]},
    "waiting": {
        "command": "while ! [ -e /tmp/go ]; do sleep 0.05; done; echo done > late",
        "outputs": ["late"],
    },
    "hungry": {"command": ["python3", "-c", "x = bytearray(400_000_000); import time; time.sleep(30)"]},
    "saving": {
        "command": "trap 'echo saved > restart; exit 143' TERM; echo 0.5 > $WEFT_PROGRESS_FILE; "
        "while :; do sleep 0.05; done",
        "checkpoint": {"files": ["restart"]},
    },
    "restarted": {
        "command": "cat restart > final 2>/dev/null || {{ echo one > restart; echo 0.5 > $WEFT_PROGRESS_FILE; "
        "sleep 1000; }}",
        "outputs": ["final"],
        "checkpoint": {"files": ["restart"]},
    },
}


@pytest.fixture
def project(ssh_hosts: SshHosts, tmp_path, monkeypatch: pytest.MonkeyPatch) -> Generator[BackendProject]:
    machines = [
        Machine(
            name=f"m{index}",
            nodes=4,
            memory=8e9,
            backend={"kind": "ssh", **host.backend, "silence": "15s"},
        )
        for index, host in enumerate(ssh_hosts)
    ]
    monkeypatch.setattr(backend_project, "platform_of", lambda *_: Platform(machines=tuple(machines)))
    made = BackendProject("ssh", tmp_path, TASKS, SshBackend)
    yield made
    made.close()


def stage(project: BackendProject, attempt: int, name: str, source: int, producer: int, machine: int) -> None:
    place = project.place(attempt, name, machine=machine)
    project.backend.execute([cm.Assign(**place)])
    parcel = cm.Parcel(source=source, task=project.attempts[producer], files=1.0)
    project.backend.execute([cm.StageIn(attempt=attempt, part=0, machine=machine, parcels=(parcel,))])
    assert [event.problem for event in project.wait_for(ev.StagedIn)] == [""]
    project.backend.execute([cm.Start(**place)])


def remote_workdir(project: BackendProject, attempt: int, machine: int = 0) -> str:
    return project.backend._disks[machine].workdir(project.backend._attempts[attempt])


def test_output_streams_and_exit_code_are_received(project, ssh_hosts) -> None:
    project.start(0, "quick")
    assert project.end() == ev.Ended(attempt=0, exit_code=0, work_done=1.0)
    product = project.products.of(1, 0, project.attempts[0])
    assert [file.name for file in product.files] == ["out"]
    assert product.directory == f"{project.backend._disks[0].name}{remote_workdir(project, 0)}"
    assert product.directory.startswith("ssh://host1;config=")
    assert (project.records(0) / "out").read_text() == "words\n"
    assert (project.records(0) / "err").read_text() == "host1\n"
    assert ssh_hosts[0].run("cat", f"{remote_workdir(project, 0)}/out") == "hello\n"
    assert not (project.workdir(0) / "out").exists()


@pytest.mark.parametrize("machine", [0, 1])
def test_output_is_staged_on_the_same_and_on_another_host(project, ssh_hosts, machine: int) -> None:
    project.start(0, "quick")
    project.end()
    stage(project, 1, "reader", 0, 0, machine)
    assert project.end().exit_code == 0
    assert ssh_hosts[machine].run("cat", f"{remote_workdir(project, 1, machine)}/copy") == "hello\n"


def test_folder_with_a_link_is_staged_on_another_host(project, ssh_hosts) -> None:
    project.start(0, "folder")
    assert project.end().exit_code == 0
    stage(project, 1, "lister", 0, 0, 1)
    ended = project.end()
    assert (ended.exit_code, ended.story) == (0, "")
    assert ssh_hosts[1].run("cat", f"{remote_workdir(project, 1, 1)}/n") == "a\na\n"


def test_result_failure_and_missing_output_are_reported(project) -> None:
    project.start(0, "telling")
    assert project.end().result == {"delta": 0.5}
    project.start(1, "failing")
    assert project.end().exit_code == 3
    project.start(2, "forgetful")
    ended = project.end()
    assert ended.cause == "error"
    assert "never" in ended.story


def test_time_and_memory_limits_and_cancellation(project, ssh_hosts) -> None:
    project.start(0, "slow", time_limit_s=0.3)
    assert project.end().cause == "timeout"
    project.start(1, "hungry", memory_bytes=100e6)
    assert project.end().cause == "oom"
    project.start(2, "slow")
    project.poll_for(1.0)
    project.backend.execute([cm.Cancel(attempt=2, machine=0)])
    assert project.end().cause == "cancelled"
    assert "sleep 1000" not in ssh_hosts[0].run("ps", "-eo", "args")


def test_restart_files_move_to_another_host(project, ssh_hosts) -> None:
    project.start(0, "saving")
    deadline = time.monotonic() + PATIENCE_S
    while project.backend._attempts[0].done is None:
        assert time.monotonic() < deadline, "no progress was observed"
        project.poll_for(0.1)
    project.backend.execute([cm.Cancel(attempt=0, machine=0)])
    saved, ended = project.wait_for(ev.Checkpointed, ev.Ended, number=2)
    assert (saved.work_done, ended.cause) == (0.5, "cancelled")
    project.start(1, "restarted", machine=1)
    project.wait_for(ev.Checkpointed)
    project.start(2, "restarted", machine=2, restart_from=0.5)
    assert project.end().exit_code == 0
    assert ssh_hosts[2].run("cat", f"{remote_workdir(project, 2, 2)}/final") == "one\n"
    project.backend.execute([cm.Cancel(attempt=1, machine=1)])
    project.end()


def test_program_goes_on_while_its_connection_is_cut(project, ssh_hosts) -> None:
    host = ssh_hosts[0]
    host.run("rm", "-f", "/tmp/go")
    project.start(0, "waiting")
    project.poll_for(1.5)
    host.cut_connections()
    assert not [each for each in project.poll_for(0.5) if isinstance(each, ev.Ended | ev.MachineChanged)]
    host.run("touch", "/tmp/go")
    assert project.end().exit_code == 0
    project.start(1, "quick")
    assert project.end().exit_code == 0


def test_program_that_outlives_its_engine_is_reattached(project, ssh_hosts) -> None:
    host = ssh_hosts[1]
    host.run("rm", "-f", "/tmp/go")
    project.start(0, "waiting", machine=1)
    project.poll_for(1.5)
    project.backend.close(stop=False)
    host.run("touch", "/tmp/go")
    project.open()
    project.backend.find([project.recovered(0, "waiting", machine=1)])
    project.backend.execute(project.commands(0, "waiting", machine=1))
    ended = project.end()
    assert (ended.exit_code, ended.cause) == (0, "")
    assert project.products.of(1, 0, project.attempts[0]).fingerprint


def test_host_that_dies_is_lost_and_returns(project, ssh_hosts) -> None:
    host = ssh_hosts[3]
    project.start(0, "slow", machine=3)
    project.poll_for(1.5)
    host.kill()
    try:
        lost = project.wait_for(ev.MachineChanged)[0]
        assert (lost.machine, lost.up, lost.started) == (3, False, (0,))
    finally:
        host.restart()
    assert project.wait_for(ev.MachineChanged)[0].up
    project.start(1, "quick", machine=3)
    assert project.end().exit_code == 0


def test_directories_are_removed_from_the_host(project, ssh_hosts) -> None:
    project.start(0, "quick")
    project.end()
    path = remote_workdir(project, 0)
    project.backend.execute([cm.CleanUp(attempt=0, machine=0)])
    assert project.wait_for(ev.CleanedUp)[0].problem == ""
    assert ssh_hosts[0].run("sh", "-c", f"ls -d {path} 2>/dev/null || echo none") == "none\n"


def test_task_without_files_needs_no_file_operation(project, monkeypatch) -> None:
    project.start(0, "short")
    project.end()
    calls: list[str] = []
    call = _HostFileServer.call
    monkeypatch.setattr(
        _HostFileServer, "call", lambda self, what, given: calls.append(what) or call(self, what, given)
    )
    project.start(1, "short")
    assert project.end().exit_code == 3
    assert [each for each in calls if each != "observe"] == []  # running programs are observed once a second
    records = project.backend._attempts[1].records_path
    assert [Path(records, name).read_text() for name in ("out", "err")] == ["words\n", "more\n"]
    project.start(2, "quick")
    assert project.end().exit_code == 0
    assert [each for each in calls if each != "observe"] == ["collect"]


def test_invalid_settings_are_all_reported() -> None:
    machines = [
        Machine(name="a", backend={"kind": "ssh", "hots": "x"}),
        Machine(name="b", backend={"kind": "ssh", "host": "x", "python": ""}),
        Machine(name="c", backend={"kind": "ssh", "host": "x", "silence": "soon"}),
        Machine(name="d", backend={"kind": "ssh", "host": "x", "silence": 0.1}),
    ]
    with pytest.raises(InvalidInput) as caught:
        SshBackend.check_machines(machines)
    assert len(caught.value.problems) == 4


def test_order_that_never_arrived_is_repeated_unless_it_was_cancelled(project) -> None:
    """The connection was lost while the orders were on the way; the runner has received neither program."""
    runners = project.backend._transport
    for attempt in (5, 6):
        order = {"do": "start", "attempt": attempt, "nonce": "ab", "argv": ["true"], "cwd": "/"}
        assert runners.start(0, order) == ""
    runners.cancel(0, 6, 0.0)
    reports, end_s = [], time.monotonic() + PATIENCE_S
    while len(reports) < 2:
        assert time.monotonic() < end_s, reports
        time.sleep(0.05)
        runners.flush()
        reports += [each for each in runners.receive(-1) if each["is"] == "ended"]
    found = {each["attempt"]: (each.get("code"), each["cause"]) for each in reports}
    assert found == {5: (0, ""), 6: (None, "cancelled")}


def test_host_whose_packets_are_dropped_is_unknown_and_its_program_goes_on(project, ssh_hosts) -> None:
    host = ssh_hosts[2]
    host.run("rm", "-f", "/tmp/go")
    project.start(0, "waiting", machine=2)
    project.poll_for(1.5)
    host.drop_packets()
    try:
        assert not [each for each in project.poll_for(6.0) if isinstance(each, ev.Ended | ev.MachineChanged)]
        host.run("touch", "/tmp/go")
    finally:
        host.pass_packets()
    assert project.end().exit_code == 0


def test_refused_key_is_a_loss_at_once_with_advice(ssh_hosts, tmp_path, monkeypatch) -> None:
    make_key(tmp_path / "wrong")
    backend = {"kind": "ssh", "host": "host1", "config": str(ssh_hosts.config)}
    machine = Machine(
        name="m0", nodes=1, memory=8e9, backend={**backend, "identity": str(tmp_path / "wrong")}
    )
    monkeypatch.setattr(backend_project, "platform_of", lambda *_: Platform(machines=(machine,)))
    project = BackendProject("ssh", tmp_path, TASKS, SshBackend)
    try:
        project.backend.execute([cm.Fetch(machine=0)])
        lost = project.wait_for(ev.MachineChanged)[0]
        assert (lost.up, lost.lasting) == (False, False)  # a mended key is used at once
        assert "ssh-add" in lost.reason
    finally:
        project.close()
