"""Programs and files on real Dask workers, processes of their own that cannot import weft, without an engine."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import backend_project
from backend_project import BackendProject
from dask_clusters import DaskProcesses, await_workers, dask_processes
from patience import PATIENCE_S
from weft.backends.dask.backend import DaskBackend
from weft.backends.runner.processes import read_process
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.platform.platform import Platform

TASKS = {
    "quick": {"command": "echo hello > out; echo words", "outputs": ["out"]},
    "large": {
        "command": ["python3", "-c", "open('big', 'wb').write(bytes(range(256)) * 40960)"],
        "outputs": ["big"],
    },
    "reader": {"command": "cat big > copy", "inputs": ["big"], "outputs": ["copy"]},
    "folder": {"command": "mkdir d; echo a > d/a; ln -s a d/b", "outputs": ["d/"]},
    "lister": {"command": "cat d/a d/b > n", "inputs": ["d/"], "outputs": ["n"]},
    "failing": {"command": "exit 3"},
    "telling": {"command": "echo '{{\"delta\": 0.5}}' > $WEFT_RESULT_FILE"},
    "slow": {"command": "echo $$ > ready; exec sleep 1000", "seconds": 60},
    "waiting": {
        "command": "echo $$ > ready; while ! [ -e $HOME/go ]; do sleep 0.05; done; echo done > late",
        "outputs": ["late"],
    },
    "saving": {
        "command": "cat restart > final 2>/dev/null || {{ echo one > restart; "
        "echo 0.5 > $WEFT_PROGRESS_FILE; sleep 1000; }}",
        "outputs": ["final"],
        "checkpoint": {"files": ["restart"]},
    },
}


def open_project(
    cluster: DaskProcesses, folder: Path, monkeypatch: pytest.MonkeyPatch, **more: object
) -> BackendProject:
    backend = {"kind": "dask", "scheduler": cluster.address, "silence": 8, **more}
    machines = [
        Machine(name=name, nodes=4, memory=8e9, backend={**backend, "worker": name}) for name in ("m0", "m1")
    ]
    monkeypatch.setattr(backend_project, "platform_of", lambda *_: Platform(machines=tuple(machines)))
    return BackendProject("dask", folder, TASKS, DaskBackend)


@pytest.fixture
def project(dask_cluster, tmp_path, monkeypatch) -> Iterator[BackendProject]:
    made = open_project(dask_cluster, tmp_path, monkeypatch)
    yield made
    made.close()


@pytest.fixture(scope="module")
def unsafe_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with dask_processes(tmp_path_factory.mktemp("unsafe"), ("m0", "m1")) as found:
        yield found


@pytest.fixture
def unsafe(unsafe_processes, tmp_path, monkeypatch) -> Iterator[BackendProject]:
    """A project on workers that a test may kill."""
    (unsafe_processes.folder / "go").unlink(missing_ok=True)
    made = open_project(unsafe_processes, tmp_path, monkeypatch)
    yield made
    made.close()


def stage(project: BackendProject, attempt: int, name: str, producer: int, machine: int) -> None:
    place = project.place(attempt, name, machine=machine)
    project.backend.execute([cm.Assign(**place)])
    parcel = cm.Parcel(source=0, task=project.attempts[producer], files=1.0)
    project.backend.execute([cm.StageIn(attempt=attempt, part=0, machine=machine, parcels=(parcel,))])
    assert [event.problem for event in project.wait_for(ev.StagedIn)] == [""]
    project.backend.execute([cm.Start(**place)])


def worker_path(project: BackendProject, attempt: int, machine: int = 0) -> Path:
    return Path(project.backend._disks[machine].workdir(project.backend._attempts[attempt]))


def await_program(project: BackendProject, attempt: int, machine: int = 0) -> int:
    """Return the process number that a program has written to the file ``ready``."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < end_s, "the program has not started"
        project.poll_for(0.05)
        ready = worker_path(project, attempt, machine) / "ready"
        if ready.exists() and (text := ready.read_text().strip()):
            return int(text)


def await_change(project: BackendProject, *, up: bool) -> ev.MachineChanged:
    found = project.wait_for(ev.MachineChanged)[0]
    assert found.up is up
    return found


def test_output_stays_on_the_disk_of_the_worker_and_streams_are_received(project, dask_cluster) -> None:
    project.start(0, "quick")
    assert project.end().exit_code == 0
    product = project.products.of(1, 0, project.attempts[0])
    assert product.directory == f"dask://{dask_cluster.address[6:]}/m0{worker_path(project, 0)}"
    assert worker_path(project, 0).is_relative_to(dask_cluster.folder)
    assert (worker_path(project, 0) / "out").read_text() == "hello\n"
    assert (project.records(0) / "out").read_text() == "words\n"
    assert not (project.workdir(0) / "out").exists()


@pytest.mark.parametrize("machine", [0, 1])
def test_large_output_is_staged_on_the_same_and_on_another_worker(project, machine: int) -> None:
    project.start(0, "large")
    project.end()
    stage(project, 1, "reader", 0, machine)
    assert project.end().exit_code == 0
    assert (worker_path(project, 1, machine) / "copy").read_bytes() == bytes(range(256)) * 40960


def test_folder_with_a_link_is_staged_on_another_worker(project) -> None:
    project.start(0, "folder")
    assert project.end().exit_code == 0
    stage(project, 1, "lister", 0, 1)
    ended = project.end()
    assert (ended.exit_code, ended.story) == (0, "")
    assert (worker_path(project, 1, 1) / "n").read_text() == "a\na\n"


def test_result_failure_and_clean_up(project) -> None:
    project.start(0, "telling")
    assert project.end().result == {"delta": 0.5}
    project.start(1, "failing")
    assert project.end().exit_code == 3
    path = worker_path(project, 0)
    project.backend.execute([cm.CleanUp(attempt=0, machine=0)])
    assert project.wait_for(ev.CleanedUp)[0].problem == ""
    assert not path.exists()


def test_restart_files_move_to_another_worker(project) -> None:
    project.start(0, "saving")
    project.wait_for(ev.Checkpointed)
    project.start(1, "saving", machine=1, restart_from=0.5)
    assert project.end().exit_code == 0
    assert (worker_path(project, 1, 1) / "final").read_text() == "one\n"


def test_programs_of_a_killed_worker_are_ended_before_it_is_lost(unsafe, unsafe_processes) -> None:
    unsafe.start(0, "slow")
    pid = await_program(unsafe, 0)
    unsafe_processes.kill("m0")
    lost = await_change(unsafe, up=False)
    assert read_process(pid) is None
    assert (lost.machine, lost.started) == (0, (0,))
    assert "dask worker" in lost.reason
    unsafe_processes.start_worker("m0")
    await_change(unsafe, up=True)
    unsafe.start(1, "quick")
    assert unsafe.end().exit_code == 0


def test_programs_of_a_stopped_worker_are_ended_before_it_is_lost(unsafe, unsafe_processes) -> None:
    unsafe.start(0, "slow")
    pid = await_program(unsafe, 0)
    unsafe_processes.stop("m0")
    try:
        lost = await_change(unsafe, up=False)
        assert read_process(pid) is None
        assert "has not answered" in lost.reason
    finally:
        unsafe_processes.resume("m0")
    await_change(unsafe, up=True)
    unsafe.start(1, "quick")
    assert unsafe.end().exit_code == 0


def test_program_survives_a_worker_that_is_restarted_at_once(unsafe_processes, tmp_path, monkeypatch) -> None:
    (unsafe_processes.folder / "go").unlink(missing_ok=True)
    project = open_project(unsafe_processes, tmp_path, monkeypatch, silence=120)
    try:
        project.start(0, "waiting")
        await_program(project, 0)
        unsafe_processes.kill("m0")
        unsafe_processes.start_worker("m0")
        project.start(1, "quick")  # answered by the new worker
        assert project.end().attempt == 1
        (unsafe_processes.folder / "go").touch()
        ended = project.end()
        assert (ended.attempt, ended.exit_code, ended.cause) == (0, 0, "")
    finally:
        project.close()


def test_scheduler_that_is_gone_is_reported_and_found_again(unsafe, unsafe_processes) -> None:
    unsafe.start(0, "quick")
    unsafe.end()
    unsafe_processes.kill("")
    unsafe_processes.wait_end("m0")  # workers end with their scheduler
    unsafe_processes.wait_end("m1")
    try:
        lost = await_change(unsafe, up=False)
    finally:
        unsafe_processes.start_scheduler()
        for name in ("m0", "m1"):
            unsafe_processes.start_worker(name)
    assert f"{unsafe_processes.address}): no Dask scheduler answers" in lost.reason
    assert "`dask scheduler`" in lost.reason
    await_change(unsafe, up=True)
    unsafe.start(1, "quick")
    assert unsafe.end().exit_code == 0


def test_group_spreads_its_programs_and_loses_only_those_of_a_killed_worker(
    unsafe_processes, tmp_path, monkeypatch
) -> None:
    backend = {"kind": "dask", "scheduler": unsafe_processes.address, "silence": 8, "shared": True}
    machine = Machine(name="group", nodes=4, memory=8e9, backend={**backend, "workers": ["m0", "m1"]})
    monkeypatch.setattr(backend_project, "platform_of", lambda *_: Platform(machines=(machine,)))
    project = BackendProject("dask", tmp_path, TASKS, DaskBackend)
    try:
        names = {}
        for attempt in (0, 1):
            project.start(attempt, "slow")
            project.wait_for_file(attempt)
            names[attempt] = find_runner(int((project.workdir(attempt) / "ready").read_text()))
        assert sorted(names.values()) == ["group.m0", "group.m1"]
        project.backend.close(stop=False)
        project.open()
        project.backend.find([project.recovered(attempt, "slow") for attempt in (0, 1)])
        for attempt in (0, 1):
            project.backend.execute(project.commands(attempt, "slow"))
        unsafe_processes.kill("m0")
        found: list[ev.Event] = []
        while not any(isinstance(event, ev.Ended) for event in found):
            found += project.wait_for(ev.Ended, ev.MachineChanged, ev.ContactChanged)
        contacts = [event for event in found if isinstance(event, ev.ContactChanged)]
        assert [event.machine for event in contacts] == [0] * len(contacts)
        assert (contacts[0].answers, contacts[-1].answers) == (False, True)
        events = [event for event in found if event not in contacts]
        killed = next(attempt for attempt, name in names.items() if name == "group.m0")
        assert [(event.attempt, event.cause) for event in events] == [(killed, "lost")]
        project.start(2, "quick")
        assert project.end().exit_code == 0
        unsafe_processes.start_worker("m0")
        project.backend.execute([cm.Cancel(attempt=1 - killed, machine=0)])
        assert project.end().cause == "cancelled"
    finally:
        project.close()


def find_runner(pid: int) -> str:
    """Return the last part of the folder of the runner that started a program."""
    parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    return Path(f"/proc/{parent}/cmdline").read_text().rstrip("\0").rpartition("/")[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide a folder from a process")
def test_worker_without_the_shared_files_is_lost_with_advice(tmp_path, tmp_path_factory, monkeypatch) -> None:
    cluster = DaskProcesses(tmp_path_factory.mktemp("apart"), ["m0"])
    hide = f'mount -t tmpfs none {tmp_path} && exec "$@"'
    try:
        cluster.start_scheduler()
        cluster.start_worker("m0", "unshare", "-m", "sh", "-c", hide, "sh")
        await_workers(cluster.address, 1)
        project = open_project(cluster, tmp_path, monkeypatch, shared=True)
        try:
            project.start(0, "quick")
            lost = await_change(project, up=False)
            assert not lost.lasting
            assert "shared: false" in lost.reason
        finally:
            project.close()
    finally:
        cluster.end_all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"scheduler": "host"}, "tcp://HOST:8786"),
        ({"worker": None}, "--name NAME"),
        ({"workers": ["a"]}, "either worker"),
        ({"worker": True}, "name of a Dask worker"),
        ({"shared": "yes"}, "true or false"),
        ({"silence": 1.5}, "at least 3"),
        ({"silence": "soon"}, "5m"),
        ({"sandbox": 3}, "must be a path"),
        ({"sheduler": "x"}, "scheduler"),
    ],
)
def test_invalid_settings_are_refused(change: dict[str, object], text: str) -> None:
    backend = {"kind": "dask", "scheduler": "tcp://h:8786", "worker": "w"}
    DaskBackend.check_machines([Machine(name="m", backend=backend)])
    with pytest.raises(InvalidInput, match=text):
        DaskBackend.check_machines([Machine(name="m", backend={**backend, **change})])


def test_group_needs_shared_files_and_different_names() -> None:
    backend = {"kind": "dask", "scheduler": "tcp://h:8786", "workers": ["w", "w"]}
    with pytest.raises(InvalidInput) as caught:
        DaskBackend.check_machines([Machine(name="m", backend=backend)])
    assert [problem.rule for problem in caught.value.problems] == [
        "must be names of Dask workers, each once",
        "the workers of a group must see the file system of the project",
    ]


def test_missing_dask_is_refused_with_the_command_that_installs_it(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    backend = {"kind": "dask", "scheduler": "tcp://h:8786", "worker": "w"}
    with pytest.raises(InvalidInput, match=r"pip install 'weft\[dask\]'"):
        DaskBackend.check_machines([Machine(name="m", backend=backend)])
