"""A lost machine: which programs had started there, and that no other is started there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend_project import BackendProject
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.states import TaskState


@pytest.fixture
def project(tmp_path: Path) -> Iterator[BackendProject]:
    command = f"echo $$ > ready; touch {tmp_path}/began-$WEFT_TASK; sleep 1000"
    made = BackendProject("local", tmp_path, {name: {"command": command} for name in ("first", "next")})
    yield made
    made.close()


def lose(project: BackendProject) -> ev.MachineChanged:
    """Remove the sandbox of the machine on which a program runs; return the report of its loss."""
    sandbox = project.layout.sandbox(project.platform.machines[0])
    sandbox.rename(sandbox.with_name("away"))
    return project.wait_for(ev.MachineChanged)[0]


def test_loss_names_the_attempts_that_had_started(project: BackendProject) -> None:
    project.start(0, "first")
    project.wait_for_file(0)
    lost = lose(project)
    assert (lost.machine, lost.up, lost.started) == (0, False, (0,))


def test_attempt_sent_to_a_machine_that_was_just_lost_is_not_started(project: BackendProject) -> None:
    project.start(0, "first")
    project.wait_for_file(0)
    lose(project)
    # The engine started the next task in the same turn, before it handled the loss.
    commands = project.commands(1, "next")
    ready = cm.Settle(run=0, task=project.attempts[1], state=TaskState.READY, again=True)
    project.backend.execute([*commands, ready])
    changes = [each for each in project.poll_for(3.0) if isinstance(each, ev.MachineChanged)]
    assert [each.up for each in changes] == [True]
    assert not (project.folder / "began-next").exists()
    assert not project.backend.busy
