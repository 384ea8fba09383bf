"""Every backend on the registry keeps the contract, with real programs; new ones are picked up by themselves."""

from __future__ import annotations

import time

import pytest

from planning_examples import instance
from weft.backends import BACKENDS
from weft.backends.backend import ProjectContext, RecoveredAttempt
from weft.backends.layout import ProjectLayout
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.state.compiled import CompiledWorkflow
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.repository.database import open_database
from weft.repository.products import ProductTable

TASKS = {
    "quick": {"command": "echo hello > out; echo words", "outputs": ["out"]},
    "reader": {"command": ["cp", "out", "copy"], "inputs": ["out"], "outputs": ["copy"]},
    "slow": {"command": "sleep 60"},
    "failing": {"command": "exit 3"},
    "absent": {"command": ["no-such-program-anywhere"]},
    "forgetful": {"command": "true", "outputs": ["never"]},
    "telling": {"command": "echo '{{\"delta\": 0.5}}' > $WEFT_RESULT_FILE"},
    "hungry": {"command": ["python3", "-c", "x = bytearray(400_000_000); import time; time.sleep(30)"]},
    "stubborn": {"command": "trap '' TERM; echo trapped > ready; while true; do sleep 0.05; done"},
    "saving": {
        "command": "trap 'echo saved > restart; exit 143' TERM; echo up > ready; while :; do sleep 0.05; done",
        "checkpoint": {"files": ["restart"]},
    },
}
PATIENCE_S = 60.0


class Project:
    """A backend in a project of its own, told commands by hand."""

    def __init__(self, kind, folder):
        self.folder = folder
        self.platform = Platform(
            machines=tuple(
                Machine(name=name, nodes=4, memory=8e9, backend={"kind": kind}) for name in ("m0", "m1")
            )
        )
        self.compiled = CompiledWorkflow("flow", instance(TASKS, self.platform))
        self.layout = ProjectLayout(folder.resolve())
        self.database = open_database(self.layout.database, create=True)
        self.products = ProductTable(self.database)
        self.backend = None
        self.kind = kind
        self.attempts = {}
        self.open()

    def open(self):
        """Begin, or begin again as after the death of an engine."""
        self.backend = BACKENDS.load(self.kind)(
            ProjectContext(
                layout=self.layout,
                execution=1,
                machines=tuple(self.platform.machines),
                instance=self.compiled.instance,
                compiled_workflow=lambda run: self.compiled,
                workflow_folder=lambda run: str(self.folder),
                products=self.products,
                token="secret",
            )
        )

    def commands(self, attempt, name, **limits):
        task = self.compiled.names.index(name)
        machine = limits.pop("machine", 0)
        self.attempts[attempt] = task
        place = {"attempt": attempt, "run": 0, "task": task, "machine": machine, "nodes": 1, "count": 1}
        return [cm.Assign(**place), cm.Start(**place, **limits)]

    def start(self, attempt, name, **limits):
        self.backend.execute(self.commands(attempt, name, **limits))

    def until(self, *kinds, number=1):
        """Poll until so many events of some kinds have come; give them."""
        found, end = [], time.monotonic() + PATIENCE_S
        while len(found) < number:
            assert time.monotonic() < end, f"no {kinds} came"
            found += [event for event in self.backend.poll(0.2) if isinstance(event, kinds)]
        return found

    def quiet(self, seconds=0.5):
        """Poll for a while; give what came."""
        found, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            found += self.backend.poll(0.05)
        return found

    def ended(self):
        return self.until(ev.Ended)[0]

    def workdir(self, attempt, machine=0):
        return self.layout.workdir(1, self.platform.machines[machine], attempt)

    def ready(self, attempt):
        """Wait until a program has said that it is up."""
        end = time.monotonic() + PATIENCE_S
        while not (self.workdir(attempt) / "ready").exists():
            assert time.monotonic() < end, "it does not begin"
            self.quiet(0.05)

    def close(self):
        for attempt in self.attempts:
            self.backend.execute([cm.Cancel(attempt=attempt, machine=0)] if attempt in self.attempts else [])
        self.backend.halt(0.2)
        self.quiet(0.3)
        self.backend.close(stop=True)
        self.database.close()


@pytest.fixture(params=list(BACKENDS))
def project(request, tmp_path):
    made = Project(request.param, tmp_path)
    yield made
    made.close()


def test_it_says_who_it_is(project):
    assert project.backend.kind == project.kind
    for ability in ("reattaches", "limits_time", "limits_memory", "signals", "own_disk"):
        assert isinstance(getattr(project.backend.capabilities, ability), bool)


def test_a_program_runs_and_what_it_makes_is_known(project):
    project.start(0, "quick")
    assert project.ended() == ev.Ended(attempt=0, exit_code=0, work_done=1.0)
    product = project.products.of(1, 0, project.attempts[0])
    assert [file.name for file in product.files] == ["out"]
    assert (project.layout.records(1, 0) / "out").read_text() == "words\n"
    project.backend.poll(0.0)  # what is for readers may wait until the next programs were started
    assert (project.layout.records(1, 0) / "exitcode").read_text() == "0\n"
    assert "echo words" in (project.layout.records(1, 0) / "command.sh").read_text()


def test_a_command_that_comes_twice_is_done_once(project):
    twice = project.commands(0, "quick")
    project.backend.execute([*twice, *twice])
    project.ended()
    project.backend.execute(twice)
    assert not [event for event in project.quiet() if isinstance(event, ev.Ended)]


def test_what_another_machine_has_made_is_brought(project):
    project.start(0, "quick")
    project.ended()
    place = {
        "attempt": 1,
        "run": 0,
        "task": project.compiled.names.index("reader"),
        "machine": 1,
        "nodes": 1,
        "count": 1,
    }
    project.backend.execute([cm.Assign(**place)])
    parcel = cm.Parcel(source=0, task=project.attempts[0], files=1.0)
    bring = cm.StageIn(attempt=1, part=0, machine=1, parcels=(parcel,))
    project.backend.execute([bring, bring])
    staged = project.until(ev.StagedIn)
    assert [(event.part, event.problem) for event in staged] == [(0, "")]
    project.backend.execute([cm.Start(**place)])
    assert project.ended().exit_code == 0
    assert (project.workdir(1, machine=1) / "copy").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("name", "code", "cause", "words"),
    [
        ("failing", 3, "", ""),
        ("absent", 127, "error", "no-such-program-anywhere"),
        ("forgetful", None, "error", "never"),
    ],
)
def test_every_failure_says_why(project, name, code, cause, words):
    project.start(0, name)
    ended = project.ended()
    assert (ended.exit_code, ended.cause) == (code, cause)
    assert words in ended.story


def test_the_result_of_a_task_is_told(project):
    project.start(0, "telling")
    assert project.ended().result == {"delta": 0.5}


def test_the_time_limit_is_enforced(project):
    assert project.backend.capabilities.limits_time
    project.start(0, "slow", time_limit_s=0.3)
    ended = project.ended()
    assert (ended.exit_code, ended.cause) == (None, "timeout")


def test_the_memory_limit_is_enforced(project):
    assert project.backend.capabilities.limits_memory
    project.start(0, "hungry", memory_bytes=100e6)
    ended = project.ended()
    assert (ended.exit_code, ended.cause) == (None, "oom")


@pytest.mark.parametrize("name", ["slow", "stubborn"])
def test_what_is_cancelled_ends(project, name):
    project.backend._grace_s = 0.3
    project.start(0, name)
    if name == "stubborn":
        project.ready(0)
    cancel = cm.Cancel(attempt=0, machine=0, reason="test")
    project.backend.execute([cancel, cancel])
    assert project.ended().cause == "cancelled"


def test_restart_files_written_at_the_end_are_kept(project):
    project.start(0, "saving")
    project.ready(0)
    project.backend.execute([cm.Cancel(attempt=0, machine=0)])
    saved, ended = project.until(ev.Checkpointed, ev.Ended, number=2)
    assert 0.0 < saved.work_done < 1.0
    assert ended.cause == "cancelled"
    project.start(1, "saving", machine=1, restart_from=saved.work_done)
    end = time.monotonic() + PATIENCE_S
    while not (project.workdir(1, machine=1) / "restart").exists():
        assert time.monotonic() < end
        project.quiet(0.05)
    assert (project.workdir(1, machine=1) / "restart").read_text() == "saved\n"


def test_what_outlives_its_engine_is_found_again(project):
    assert project.backend.capabilities.reattaches
    project.start(0, "stubborn")
    project.ready(0)
    project.backend.close(stop=False)
    project.open()
    place = {"attempt": 0, "run": 0, "task": project.attempts[0], "machine": 0, "nodes": 1, "count": 1}
    project.backend.find([RecoveredAttempt(**place, iteration=1, stage="started")])
    project.backend.execute(project.commands(0, "stubborn"))
    assert not [event for event in project.quiet() if isinstance(event, ev.Ended)]
    project.backend._grace_s = 0.2
    project.backend.execute([cm.Cancel(attempt=0, machine=0)])
    assert project.ended().cause == "cancelled"


def test_an_end_that_nobody_heard_is_told_to_the_next_engine(project):
    project.start(0, "quick")
    end = time.monotonic() + PATIENCE_S
    while not (project.workdir(0) / "out").exists():
        assert time.monotonic() < end
        project.backend.poll(0.02)
    project.backend.close(stop=False)
    time.sleep(0.3)
    project.open()
    place = {"attempt": 0, "run": 0, "task": project.attempts[0], "machine": 0, "nodes": 1, "count": 1}
    project.backend.find([RecoveredAttempt(**place, iteration=1, stage="started")])
    project.backend.execute(project.commands(0, "quick"))
    ended = project.ended()
    assert ended.exit_code == 0
    assert ended.late_s > 0.0
    product = project.products.of(1, 0, project.attempts[0])
    assert product.fingerprint
    assert product.parts["command"] == TASKS["quick"]["command"]
    assert product.seconds == ended.ran_s > 0.0


def test_a_halt_asks_for_another_run(project):
    project.start(0, "slow")
    project.quiet(0.2)
    assert project.backend.busy
    project.backend.halt(0.3)
    ended = project.ended()
    assert (ended.exit_code, ended.cause) == (99, "")
    assert not project.backend.busy


def test_a_program_that_others_stop_is_told(project):
    project.start(0, "stubborn")
    project.ready(0)
    project.backend.execute([cm.Signal(attempt=0, what="suspend")])
    assert project.until(ev.Suspended) == [ev.Suspended(attempt=0)]
    project.backend.execute([cm.Signal(attempt=0, what="resume")])
    assert project.until(ev.Resumed) == [ev.Resumed(attempt=0)]
    project.backend._grace_s = 0.2


def test_what_is_cleaned_up_is_gone(project):
    project.start(0, "quick")
    project.ended()
    project.backend.execute([cm.CleanUp(attempt=0, machine=0)])
    assert project.until(ev.CleanedUp)[0].problem == ""
    assert not project.workdir(0).exists()


def test_questions_are_answered(project):
    project.start(0, "slow")
    project.quiet(0.2)
    project.backend.execute(
        [
            cm.Probe(of="progress", attempt=0),
            cm.Probe(of="machine", machine=1),
            cm.Discover(),
            cm.Fetch(machine=1),
        ]
    )
    kinds = (ev.Progressed, ev.Answered, ev.Discovered, ev.Fetched)
    assert {type(event) for event in project.until(*kinds, number=4)} == set(kinds)
