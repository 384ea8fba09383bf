"""Faults that weft once had, put back by patches of a copy of its source, are noticed by the checker.

Each scenario is run twice: with the source as it is, and with the patched copy. A patch that does not apply any more
must be adapted to the changed source. Links to files of the user and stale inputs are put back in ``tests/security``.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from architecture.package import PACKAGE, environment
from chaos.checker import check
from chaos.engines import Stable
from chaos.evidence import Evidence, add_loss, give_file
from chaos.rollback import copy_database, restore_database
from chaos.scene import Scene
from patience import PATIENCE_S

Scenes = Callable[..., Scene]
Patch = tuple[str, str, str]
"""File of the package, text in it, and the text that replaces it."""

NO_NONCES: tuple[Patch, ...] = (
    (
        "repository/journal_store.py",
        "nonce = self._nonces[attempt] = os.urandom(16).hex()",
        'nonce = self._nonces[attempt] = f"{attempt:032x}"',
    ),
    (
        "backends/runner/runner_link.py",
        "return here if known is None else self._discard_unknown(here, known, end_s)",
        "return here",
    ),
    (
        "backends/attempt/attempt.py",
        "                os.mkdir(workdir.name, FOLDER_MODE, dir_fd=parent)",
        "                workdir.name in os.listdir(parent) or os.mkdir(workdir.name, dir_fd=parent)",
    ),
)
"""Attempts are identified by their numbers, all records of a runner are used, and directories may exist."""
ONE_SANDBOX: tuple[Patch, ...] = (
    *NO_NONCES,
    (
        "backends/layout.py",
        "return self.sandbox(machine) / project[:_SHORT]",
        'return self.sandbox(machine) / "one"',
    ),
)
"""In addition, projects have no directories of their own in a sandbox."""


@pytest.fixture
def patched(tmp_path: Path) -> Iterator[Callable[..., Stable]]:
    """Return a function that forks engines from a patched copy of the source."""
    made: list[Stable] = []

    def patch(*patches: Patch) -> Stable:
        copy = tmp_path / "source"
        shutil.copytree(PACKAGE, copy / "weft", ignore=shutil.ignore_patterns("__pycache__"))
        for name, old, new in patches:
            path = copy / "weft" / name
            text = path.read_text()
            assert text.count(old) == 1, f"the patch of {name} does not apply any more: adapt it"
            path.write_text(text.replace(old, new))
        made.append(Stable(environment(PYTHONPATH=str(copy))))
        return made[-1]

    yield patch
    for each in made:
        each.close()


def lose_tail_after_another_order(scene: Scene) -> list[str]:
    """Lose the journal after its first write; the attempts that follow get other numbers than in the lost time.

    In the lost time ``b`` ends first and is followed by its successor. Afterwards both ends are known at once.
    """
    scene.live(failpoint="committed:1").wait(PATIENCE_S)
    copy_database(scene)
    engine = scene.live()
    _wait_for_end(scene, "after-b")
    engine.kill()
    (scene.notes / "open").touch()
    _wait_for_end(scene, "a")
    add_loss(scene.notes, "restored")
    restore_database(scene)
    scene.live().wait(PATIENCE_S)
    return check(scene.project, scene.notes)


def _wait_for_end(scene: Scene, task: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not any(run.task == task and run.ended for run in Evidence.read(scene.notes).runs):
        assert time.monotonic() < until_s, f"{task} has not ended"
        time.sleep(0.01)
    time.sleep(0.2)  # the runner records the end


def test_checker_detects_that_a_record_of_a_lost_attempt_is_used(
    scenes: Scenes, patched: Callable[..., Stable]
) -> None:
    assert lose_tail_after_another_order(scenes("pairs")) == []
    found = lose_tail_after_another_order(scenes("pairs", by=patched(*NO_NONCES)))
    assert any(text.startswith("completions_have_evidence") for text in found), found


def use_sandbox_again(scene: Scene) -> list[str]:
    """Run a project, remove its state, and run it again with a task that writes nothing."""
    scene.finish()
    shutil.rmtree(scene.project / ".weft")
    (scene.project / "spoken.txt").unlink()
    add_loss(scene.notes, "restored")
    give_file(scene.notes, scene.project / "seed.txt", b"silence\n")
    scene.live().wait(PATIENCE_S)
    return check(scene.project, scene.notes)


def test_checker_detects_that_a_file_of_an_earlier_project_is_used(
    scenes: Scenes, patched: Callable[..., Stable], tmp_path: Path
) -> None:
    platform = f"weft: 1\nmachines:\n  left: {{nodes: 2, backend: {{kind: local, sandbox: {tmp_path / 'sandbox'}}}}}\n"
    assert use_sandbox_again(scenes("silent", platform=platform)) == []
    found = use_sandbox_again(scenes("silent", platform=platform, by=patched(*ONE_SANDBOX)))
    assert any(text.startswith("products_have_the_witnessed_content") for text in found), found
