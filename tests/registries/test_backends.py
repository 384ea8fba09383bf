"""Conformance suite of the backends; it runs for every registered backend and the example of the documentation.

``mixed`` has a machine on this computer and one of Slurm, ``dask`` two workers that see the files of the
project, and ``dask with own disk`` the same workers, to which files are sent.

Backends that run programs are tested with real programs and files in addition.
"""

from __future__ import annotations

import time
from dataclasses import fields
from typing import ClassVar

import pytest

from backend_project import TIMEOUT_S, BackendProject, platform_of
from dask_clusters import DaskDisk
from plugins import load_backend_example
from weft.backends import BACKENDS
from weft.backends.backend import Capabilities
from weft.backends.mixed import MixedBackend
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.errors import InvalidInput
from weft.runtime.execution import check_backend

TASKS = {
    "quick": {"command": "echo hello > out; echo words", "outputs": ["out"]},
    "reader": {"command": ["cp", "out", "copy"], "inputs": ["out"], "outputs": ["copy"]},
    "second": {"command": "echo hello > two", "outputs": ["two"]},
    **{
        f"both{number}": {
            "command": f"cat out two > all{number}",
            "inputs": ["out", "two"],
            "outputs": [f"all{number}"],
        }
        for number in range(6)
    },
    "slow": {"command": "sleep 60", "seconds": 60},
    "failing": {"command": "exit 3"},
    "numbered": {"command": "echo $$ > ready; sleep 60", "seconds": 60},
    "absent": {"command": ["no-such-program-anywhere"]},
    "forgetful": {"command": "true", "outputs": ["never"]},
    "brief": {"command": "echo up > ready; sleep 2; echo hello > late", "outputs": ["late"]},
    "telling": {"command": "echo '{{\"delta\": 0.5}}' > $WEFT_RESULT_FILE"},
    "hungry": {"command": ["python3", "-c", "x = bytearray(400_000_000); import time; time.sleep(30)"]},
    "stubborn": {"command": "trap '' TERM; echo trapped > ready; while true; do sleep 0.05; done"},
    "saving": {
        "command": "trap 'echo saved > restart; exit 143' TERM; echo up > ready; while :; do sleep 0.05; done",
        "checkpoint": {"files": ["restart"]},
    },
}
OWN_DISK = "dask with own disk"
TESTED = {kind: BACKENDS.load(kind) for kind in BACKENDS} | {
    OWN_DISK: BACKENDS.load("dask"),
    "child": load_backend_example(),
    "mixed": MixedBackend,
}


def provide_service(kind, request, monkeypatch):
    """Start the service that a kind of backend needs, and let this process find it."""
    if kind in ("dask", OWN_DISK):
        cluster = request.getfixturevalue("dask_cluster")
        monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", cluster.address)
    if kind in ("slurm", "mixed"):
        cluster = request.getfixturevalue("slurm_cluster")
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, cluster.environment[name])


def open_project(request, tmp_path, monkeypatch, **settings):
    """Return a project for the backend that is the parameter of a fixture.

    ``settings`` are further keys of the backend of each machine.
    """
    kind = request.param
    provide_service(kind, request, monkeypatch)
    hosts = request.getfixturevalue("ssh_hosts") if kind == "ssh" else None
    if kind == OWN_DISK:
        cluster = request.getfixturevalue("dask_cluster")
        hosts = [DaskDisk(cluster, name) for name in ("m0", "m1")]
    registered = "dask" if kind == OWN_DISK else kind
    return BackendProject(registered, tmp_path, TASKS, TESTED[kind], hosts, **settings)


@pytest.fixture(params=list(TESTED))
def project(request, tmp_path, monkeypatch):
    """Yield a project for each backend."""
    made = open_project(request, tmp_path, monkeypatch)
    yield made
    made.close()


@pytest.fixture(
    params=[kind for kind, made in TESTED.items() if made is MixedBackend or made.capabilities.runs_programs]
)
def programs(request, tmp_path, monkeypatch):
    """Yield a project for each backend that runs programs."""
    made = open_project(request, tmp_path, monkeypatch)
    yield made
    made.close()


# Every backend.


def test_backend_states_kind_and_capabilities(project):
    assert project.backend.kind == project.kind
    for field in fields(Capabilities):
        assert isinstance(getattr(project.backend.capabilities, field.name), bool)


def test_machines_without_settings_are_accepted(project):
    project.backend.check_machines(project.platform.machines)


def test_attempt_ends_once(project):
    project.start(0, "quick")
    ended = project.end()
    assert (ended.attempt, ended.exit_code, ended.cause) == (0, 0, "")
    assert not [event for event in project.poll_for(0.2) if isinstance(event, ev.Ended)]
    assert not project.backend.busy


def test_repeated_commands_are_executed_once(project):
    twice = project.commands(0, "quick")
    project.backend.execute([*twice, *twice])
    project.end()
    assert not [event for event in project.poll_for(0.2) if isinstance(event, ev.Ended)]


def test_attempts_on_several_machines_run_at_the_same_time(project):
    project.start(0, "slow")
    project.start(1, "quick", machine=1)
    assert project.end().attempt == 1


def test_backend_ignores_commands_for_other_components(project):
    project.backend.execute([cm.SetTimer(timer="poll", at_s=0.0)])
    assert project.poll_for(0.1) == []


def test_time_limit_is_enforced(project):
    if not project.backend.capabilities.limits_time:
        pytest.skip("the backend has no time limits")
    project.start(0, "slow", time_limit_s=0.3)
    ended = project.end()
    assert (ended.exit_code, ended.cause) == (None, "timeout")


def test_cancelled_attempt_ends(project):
    project.start(0, "slow")
    cancel = cm.Cancel(attempt=0, machine=0, reason="test")
    project.backend.execute([cancel, cancel])
    assert project.end().cause == "cancelled"
    assert not project.backend.busy


def test_halt_command_ends_all_attempts(project):
    project.start(0, "slow")
    project.start(1, "slow", machine=1)
    project.backend.halt(0.3)
    assert {event.attempt for event in project.wait_for(ev.Ended, number=2)} == {0, 1}
    assert not project.backend.busy


def test_end_of_a_clean_up_is_reported(project):
    project.start(0, "quick")
    project.end()
    project.backend.execute([cm.CleanUp(attempt=0, machine=0)])
    assert project.wait_for(ev.CleanedUp)[0].problem == ""


def test_probes_are_answered(project):
    project.backend.execute([cm.Probe(of="machine", machine=1), cm.Discover(), cm.Fetch(machine=1)])
    kinds = (ev.ProbeAnswered, ev.Discovered, ev.Fetched)
    assert {type(event) for event in project.wait_for(*kinds, number=3)} == set(kinds)


def test_attempt_of_an_earlier_engine_is_reattached_or_reported_as_lost(project):
    project.backend.find([project.recovered(0, "quick")])
    capable = project.backend.capabilities
    # The commands of simulated programs are not repeated: a simulation is not resumed.
    project.backend.execute(project.commands(0, "quick") if capable.runs_programs else [])
    ended = project.end()
    assert ended.attempt == 0
    assert capable.reattaches or ended.cause == "lost"
    assert not [event for event in project.poll_for(0.2) if isinstance(event, ev.Ended)]


@pytest.mark.parametrize("kind", list(BACKENDS))
def test_weft_run_accepts_only_backends_that_run_programs(kind, request, monkeypatch):
    provide_service(kind, request, monkeypatch)
    if BACKENDS.load(kind).capabilities.runs_programs:
        check_backend(platform_of(kind))
    else:
        with pytest.raises(InvalidInput, match=r"runs no programs.*`weft simulate`"):
            check_backend(platform_of(kind))


# Backends that run programs.


def test_outputs_are_recorded_and_streams_are_kept(programs):
    programs.start(0, "quick")
    assert programs.end() == ev.Ended(attempt=0, exit_code=0, work_done=1.0)
    product = programs.products.of(1, 0, programs.attempts[0])
    assert [file.name for file in product.files] == ["out"]
    records = programs.records(0)
    assert (records / "out").read_text() == "words\n"
    programs.backend.poll(0.0)  # records for readers are written after the next programs are started
    assert (records / "exitcode").read_text() == "0\n"
    assert "echo words" in (records / "command.sh").read_text()


def test_command_repeated_after_the_end_is_ignored(programs):
    commands = programs.commands(0, "quick")
    programs.backend.execute(commands)
    programs.end()
    programs.backend.execute(commands)
    assert not [event for event in programs.poll_for() if isinstance(event, ev.Ended)]


def test_input_is_staged_from_the_machine_that_produced_it(programs):
    programs.start(0, "quick")
    programs.end()
    place = programs.place(1, "reader", machine=1)
    programs.backend.execute([cm.Assign(**place)])
    parcel = cm.Parcel(source=0, task=programs.attempts[0], files=1.0)
    stage_in = cm.StageIn(attempt=1, part=0, machine=1, parcels=(parcel,))
    programs.backend.execute([stage_in, stage_in])
    staged = programs.wait_for(ev.StagedIn)
    assert [(event.part, event.problem) for event in staged] == [(0, "")]
    programs.backend.execute([cm.Start(**place)])
    assert programs.end().exit_code == 0
    assert (programs.workdir(1, machine=1) / "copy").read_text() == "hello\n"


def test_inputs_from_two_machines_are_staged_for_several_tasks_at_the_same_time(programs):
    for attempt, name in enumerate(("quick", "second")):
        programs.start(attempt, name, machine=attempt)
        programs.end()
    readers = range(2, 8)
    places = [programs.place(number, f"both{number - 2}", machine=1) for number in readers]
    programs.backend.execute([cm.Assign(**place) for place in places])
    parcels = [cm.Parcel(source=each, task=programs.attempts[each], files=1.0) for each in (0, 1)]
    programs.backend.execute(
        [
            cm.StageIn(attempt=number, part=part, machine=1, parcels=(parcels[part],))
            for number in readers
            for part in (0, 1)
        ]
    )
    staged = programs.wait_for(ev.StagedIn, number=12)
    assert {event.problem for event in staged} == {""}
    programs.backend.execute([cm.Start(**place) for place in places])
    assert {event.exit_code for event in programs.wait_for(ev.Ended, number=6)} == {0}
    for number in readers:
        assert (programs.workdir(number, machine=1) / f"all{number - 2}").read_text() == "hello\nhello\n"


@pytest.mark.parametrize(
    ("name", "code", "cause", "words"),
    [
        ("failing", 3, "", ""),
        ("absent", 127, "error", "no-such-program-anywhere"),
        ("forgetful", None, "error", "never"),
    ],
)
def test_failure_has_a_cause_and_an_explanation(programs, name, code, cause, words):
    programs.start(0, name)
    ended = programs.end()
    assert (ended.exit_code, ended.cause) == (code, cause)
    assert words in ended.story


def test_result_file_is_reported(programs):
    programs.start(0, "telling")
    assert programs.end().result == {"delta": 0.5}


def test_memory_limit_is_enforced(programs):
    if not programs.backend.capabilities.limits_memory:
        pytest.skip("the backend has no memory limits")
    programs.start(0, "hungry", memory_bytes=100e6)
    ended = programs.end()
    assert (ended.exit_code, ended.cause) == (None, "oom")


def test_program_that_ignores_sigterm_is_killed(programs):
    programs.backend._grace_s = 0.3
    programs.start(0, "stubborn")
    programs.wait_for_file(0)
    programs.backend.execute([cm.Cancel(attempt=0, machine=0)])
    assert programs.end().cause == "cancelled"


def test_restart_files_written_at_the_end_are_kept(programs):
    programs.start(0, "saving")
    programs.wait_for_file(0)
    programs.backend.execute([cm.Cancel(attempt=0, machine=0)])
    saved, ended = programs.wait_for(ev.Checkpointed, ev.Ended, number=2)
    assert 0.0 < saved.work_done < 1.0
    assert ended.cause == "cancelled"
    programs.start(1, "saving", machine=1, restart_from=saved.work_done)
    programs.wait_for_file(1, "restart", machine=1)
    assert (programs.workdir(1, machine=1) / "restart").read_text() == "saved\n"


def test_program_that_outlives_its_engine_is_reattached(programs):
    if not programs.backend.capabilities.reattaches:
        pytest.skip("programs of this backend do not survive the engine")
    programs.start(0, "stubborn")
    programs.wait_for_file(0)
    programs.backend.close(stop=False)
    programs.open()
    programs.backend.find([programs.recovered(0, "stubborn")])
    programs.backend.execute(programs.commands(0, "stubborn"))
    assert not [event for event in programs.poll_for() if isinstance(event, ev.Ended)]
    programs.backend._grace_s = 0.2
    programs.backend.execute([cm.Cancel(attempt=0, machine=0)])
    assert programs.end().cause == "cancelled"


def test_end_while_no_engine_runs_is_reported_to_the_next_engine(programs):
    if not programs.backend.capabilities.reattaches:
        pytest.skip("programs of this backend do not survive the engine")
    programs.start(0, "quick")
    end = time.monotonic() + TIMEOUT_S
    while not (programs.workdir(0) / "out").exists():
        assert time.monotonic() < end
        programs.backend.poll(0.02)
    programs.backend.close(stop=False)
    time.sleep(0.3)
    programs.open()
    programs.backend.find([programs.recovered(0, "quick")])
    programs.backend.execute(programs.commands(0, "quick"))
    ended = programs.end()
    assert ended.exit_code == 0
    assert ended.late_s > 0.0
    product = programs.products.of(1, 0, programs.attempts[0])
    assert product.fingerprint
    assert product.parts["command"] == TASKS["quick"]["command"]
    assert product.seconds == ended.ran_s > 0.0


def test_end_of_an_attempt_that_the_journal_has_lost_is_not_used_for_another_task(programs):
    programs.start(0, "quick")
    programs.wait_for_file(0, "out")
    programs.lose_journal()
    programs.start(0, "failing")
    assert programs.end().exit_code == 3
    assert not [event for event in programs.poll_for() if isinstance(event, ev.Ended)]


def test_program_of_an_attempt_that_the_journal_has_lost_is_ended(programs):
    programs.start(0, "numbered")
    programs.wait_for_file(0)
    old = int((programs.workdir(0) / "ready").read_text())
    programs.lose_journal()
    programs.start(0, "failing")
    assert programs.end().exit_code == 3
    assert not programs.is_running(old)


def test_program_ended_by_a_halt_is_reported_with_the_exit_code_for_a_rerun(programs):
    programs.start(0, "slow")
    programs.poll_for(0.2)
    assert programs.backend.busy
    programs.backend.halt(0.3)
    ended = programs.end()
    assert (ended.exit_code, ended.cause) == (99, "")


def test_suspended_and_resumed_programs_are_reported(programs):
    if not programs.backend.capabilities.signals:
        pytest.skip("the backend sends no signals")
    programs.start(0, "stubborn")
    programs.wait_for_file(0)
    programs.backend.execute([cm.Signal(attempt=0, what="suspend")])
    assert programs.wait_for(ev.Suspended) == [ev.Suspended(attempt=0)]
    programs.backend.execute([cm.Signal(attempt=0, what="resume")])
    assert programs.wait_for(ev.Resumed) == [ev.Resumed(attempt=0)]
    programs.backend._grace_s = 0.2


def test_clean_up_removes_the_working_directory(programs):
    programs.start(0, "quick")
    programs.end()
    programs.backend.execute([cm.CleanUp(attempt=0, machine=0)])
    assert programs.wait_for(ev.CleanedUp)[0].problem == ""
    assert not programs.workdir(0).exists()


def test_progress_probe_is_answered(programs):
    programs.start(0, "numbered")
    programs.wait_for_file(0)
    programs.backend.execute([cm.Probe(of="progress", attempt=0)])
    assert programs.wait_for(ev.Progressed)[0].attempt == 0


def test_sensors_measure_a_machine(programs):
    programs.backend.execute([cm.Fetch(machine=0, every_s=0.2)])
    found = programs.wait_for(ev.Fetched)[0]
    assert found.machine == 0
    values = (found.load, found.free_memory_bytes, found.free_disk_bytes)
    if programs.platform.machines[0].backend["kind"] == "slurm" or programs.make is TESTED["child"]:
        assert values == (None, None, None), "the nodes of a job are not known before it starts"
    else:
        assert values[0] >= 0.0
        assert min(values[1:]) > 0.0


# Faults of machines and connections.


class MachineFaults:
    """Causes the faults that the first machine of a backend can have, and mends them."""

    settings: ClassVar = {}
    """Keys of the backend of each machine with which a fault is noticed soon."""

    def __init__(self, project, request):
        self.project = project

    def kill(self):
        """Let the machine die with all programs on it."""
        sandbox = self.project.layout.sandbox(self.project.platform.machines[0])
        sandbox.rename(sandbox.with_name("away"))

    def restart(self):
        """Start the dead machine again; a sandbox is created again by weft."""

    def disconnect(self):
        """Interrupt the connection to the machine, or to what manages it; programs continue."""
        pytest.skip("the backend needs no connection to the machine")

    def reconnect(self):
        """Restore the connection."""


class HostFaults(MachineFaults):
    """Faults of an ssh host."""

    settings: ClassVar = {"silence": 5}

    def __init__(self, project, request):
        self._host = request.getfixturevalue("ssh_hosts")[0]

    def kill(self):
        self._host.kill()

    def restart(self):
        self._host.restart()

    def disconnect(self):
        self._host.cut_connections()


class ClusterFaults(MachineFaults):
    """Faults of a node and of the controller of a Slurm cluster."""

    settings: ClassVar = {"heartbeat": 5, "commands_per_s": 20}

    def __init__(self, project, request):
        self._cluster = request.getfixturevalue("slurm_cluster")
        self._killed = ""

    def kill(self):
        [self._killed] = self._cluster.run("squeue", "-h", "-t", "R", "-o", "%N").split()
        self._cluster.kill_node(self._killed)

    def restart(self):
        if self._killed:
            self._cluster.return_node(self._killed)

    def disconnect(self):
        self._cluster.kill_controller()

    def reconnect(self):
        self._cluster.start_controller()


class WorkerFaults(MachineFaults):
    """Faults of a worker and of the scheduler of a Dask cluster."""

    settings: ClassVar = {"silence": 5}

    def __init__(self, project, request):
        self._cluster = request.getfixturevalue("dask_cluster")

    def kill(self):
        self._cluster.kill("m0")

    def restart(self):
        self._cluster.start_worker("m0")

    def disconnect(self):
        self._cluster.stop("")

    def reconnect(self):
        self._cluster.resume("")


FAULTS = {
    "local": MachineFaults,
    "ssh": HostFaults,
    "slurm": ClusterFaults,
    "dask": WorkerFaults,
}


@pytest.fixture(params=[kind for kind in TESTED if kind in FAULTS])
def faults(request, tmp_path, monkeypatch):
    """Yield a project for each backend whose machines can fail, and what causes the faults."""
    kind = FAULTS[request.param]
    made = open_project(request, tmp_path, monkeypatch, **kind.settings)
    yield made, kind(made, request)
    made.close()


def test_death_of_a_machine_is_reported_and_it_can_be_used_again(faults):
    project, machine = faults
    project.start(0, "numbered")
    project.wait_for_file(0)
    machine.kill()
    try:
        lost = project.wait_for(ev.MachineChanged, ev.Ended)[0]
    finally:
        machine.restart()
    if isinstance(lost, ev.MachineChanged):
        assert (lost.machine, lost.up, lost.started) == (0, False, (0,))
        back = project.wait_for(ev.MachineChanged)[0]
        assert (back.machine, back.up) == (0, True)
    else:
        assert (lost.attempt, lost.cause, lost.exit_code) == (0, "lost", None)
    project.start(1, "quick")
    assert project.wait_for(ev.Ended)[0] == ev.Ended(attempt=1, exit_code=0, work_done=1.0)


def test_program_that_ends_during_an_outage_is_reported_once(faults):
    project, machine = faults
    project.start(0, "brief")
    project.wait_for_file(0)
    machine.disconnect()
    found, end = [], time.monotonic() + TIMEOUT_S
    try:
        file = project.workdir(0) / "late"
        while not (file.exists() and file.stat().st_size):
            assert time.monotonic() < end
            found += project.backend.poll(0.05)
    finally:
        machine.reconnect()
    while not any(isinstance(event, ev.Ended) for event in found):
        assert time.monotonic() < end
        found += project.backend.poll(0.2)
    found += project.poll_for(0.5)
    [ended] = [event for event in found if isinstance(event, ev.Ended)]
    assert (ended.attempt, ended.exit_code, ended.cause) == (0, 0, "")
    assert not [event for event in found if isinstance(event, ev.MachineChanged)]
    project.start(1, "quick")
    assert project.end().exit_code == 0
