"""Projects that share a sandbox, and engines that share a project, do not mix their files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from chaos.checker import check
from chaos.engines import STOPPED, Engine, Stable
from chaos.evidence import add_loss, give_file
from chaos.scene import EVERYTHING, Outcome, Scene, undisturbed
from chaos.shim import Control
from patience import PATIENCE_S

Scenes = Callable[..., Scene]
_ONE_SANDBOX = """weft: 1
machines:
  left: {{nodes: 2, backend: {{kind: local, sandbox: {0}}}}}
  right: {{nodes: 2, backend: {{kind: local, sandbox: {0}}}}}
"""


def test_two_projects_with_one_sandbox_give_the_undisturbed_results(
    scenes: Scenes, stable: Stable, tmp_path: Path
) -> None:
    platform = _ONE_SANDBOX.format(tmp_path / "sandbox")
    for seed in ("one", "two"):
        expected = undisturbed(tmp_path / seed, stable, ["small"], seed=seed)
        scene = scenes("small", platform=platform, seed=seed)
        scene.finish()
        assert scene.audit(expected, once=True) == []


def test_concurrent_projects_with_one_sandbox_give_the_undisturbed_results(
    scenes: Scenes, stable: Stable, tmp_path: Path
) -> None:
    platform = _ONE_SANDBOX.format(tmp_path / "sandbox")
    running = [(seed, scenes("dag", platform=platform, seed=seed)) for seed in ("one", "two")]
    engines = [scene.live() for _, scene in running]
    assert [engine.wait(PATIENCE_S) for engine in engines] == [0, 0]
    for seed, scene in running:
        expected = undisturbed(tmp_path / seed, stable, ["dag"], seed=seed)
        assert scene.audit(expected, once=True) == []


def test_new_run_in_the_sandbox_of_a_deleted_state_gives_the_undisturbed_result(
    scenes: Scenes, stable: Stable, tmp_path: Path
) -> None:
    expected = undisturbed(tmp_path / "peace", stable, ["small"], seed="changed")
    scene = scenes("small", platform=_ONE_SANDBOX.format(tmp_path / "sandbox"))
    scene.finish()
    shutil.rmtree(scene.project / ".weft")
    add_loss(scene.notes, "restored")
    give_file(scene.notes, scene.project / "seed.txt", b"changed\n")
    scene.finish()
    assert scene.audit(expected) == []


def test_first_engine_stops_when_a_second_engine_starts_on_a_file_system_without_locks(
    scenes: Scenes, preloaded: Stable, expected: Outcome, tmp_path: Path
) -> None:
    """The file system has no locks, and the lock file was removed by somebody who took it for stale."""
    control = Control(tmp_path / "control")
    control.set(no_flock=1)
    scene = scenes(*EVERYTHING, by=preloaded)
    scene.environment.update(control.environment())
    engines: list[Engine] = []
    lock = scene.project / ".weft" / "lock"
    for _ in range(3):
        engines.append(scene.live())
        _wait_until(lambda: (lock.exists() and scene.living()) or scene.is_over)
        lock.unlink(missing_ok=True)
    codes = [engine.wait(PATIENCE_S) for engine in engines]
    assert codes.count(0) == 1, codes
    assert codes.count(STOPPED) == 2, codes
    assert scene.audit(expected, once=True) == []
    control.close()


def test_file_left_by_an_earlier_project_does_not_count_as_the_output_of_a_task(
    scenes: Scenes, tmp_path: Path
) -> None:
    """Regression: a file left in the sandbox counted as the output of a task that wrote nothing."""
    scene = scenes("silent", platform=_ONE_SANDBOX.format(tmp_path / "sandbox"))
    scene.finish()
    shutil.rmtree(scene.project / ".weft")
    (scene.project / "spoken.txt").unlink()
    add_loss(scene.notes, "restored")
    give_file(scene.notes, scene.project / "seed.txt", b"silence\n")
    assert scene.live().wait(PATIENCE_S) == 1, scene.last_words()
    assert check(scene.project, scene.notes) == []


def _wait_until(condition: Callable[[], object]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.005)
