"""What depends on the kind of the machine in a mixed backend: surviving programs, signals, mixing itself."""

from __future__ import annotations

import pytest

from backend_project import BackendProject, platform_of
from plugins import load_backend_example
from weft.backends import BACKENDS
from weft.backends.attempt.backend import ProgramBackend
from weft.backends.mixed import MixedBackend
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.runtime.execution import check_backend

TASKS = {
    "long": {"command": "echo up > ready; sleep 60", "seconds": 60},
}


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the backend of the how-to page as ``child``, whose programs end with the engine."""
    load = BACKENDS.load
    child = load_backend_example()
    monkeypatch.setattr(BACKENDS, "load", lambda kind: child if kind == "child" else load(kind))


@pytest.fixture
def project(tmp_path, kinds, monkeypatch):
    described = {"m0": "local", "m1": "child"}
    machines = (
        Machine(name=name, nodes=4, memory=8e9, backend={"kind": kind}) for name, kind in described.items()
    )
    platform = Platform(machines=tuple(machines))
    monkeypatch.setattr("backend_project.platform_of", lambda *_: platform)
    made = BackendProject("mixed", tmp_path, TASKS, MixedBackend)
    yield made
    made.close()


def test_capabilities_are_those_of_all_kinds(project):
    assert project.backend.capabilities.runs_programs
    assert not project.backend.capabilities.reattaches
    assert not project.backend.capabilities.signals


def test_only_programs_of_reattaching_kinds_are_taken_over(project):
    for attempt in (0, 1):
        project.start(attempt, "long", machine=attempt)
        project.wait_for_file(attempt, machine=attempt)
    project.backend.close(stop=False)
    project.open()
    project.backend.find([project.recovered(each, "long", machine=each) for each in (0, 1)])
    project.backend.execute([each for n in (0, 1) for each in project.commands(n, "long", machine=n)])
    ended = project.end()
    assert (ended.attempt, ended.cause) == (1, "lost")
    assert not [event for event in project.poll_for() if isinstance(event, ev.Ended)]
    project.backend._grace_s = 0.2
    project.backend.execute([cm.Cancel(attempt=0, machine=0)])
    assert project.end().cause == "cancelled"


def test_signals_are_sent_where_the_kind_supports_them(project):
    for attempt in (0, 1):
        project.start(attempt, "long", machine=attempt)
        project.wait_for_file(attempt, machine=attempt)
    project.backend.execute([cm.Signal(attempt=each, what="suspend") for each in (1, 0)])
    assert project.wait_for(ev.Suspended) == [ev.Suspended(attempt=0)]
    assert not [event for event in project.poll_for() if isinstance(event, ev.Suspended)]


class WholeBackend:
    """A backend that is no ``ProgramBackend``, and therefore has no part."""

    capabilities = ProgramBackend.capabilities


def test_backend_without_a_part_cannot_be_mixed(monkeypatch):
    load = BACKENDS.load
    monkeypatch.setattr(BACKENDS, "load", lambda kind: WholeBackend if kind == "slurm" else load(kind))
    with pytest.raises(InvalidInput, match=r"machine 'm1'.*'slurm' cannot be mixed"):
        check_backend(platform_of("mixed"))
