"""Clocks that are set, reboots and reused process numbers have no effect on the result of a run."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from architecture.package import environment
from chaos.disturbances import disturb
from chaos.engines import Stable
from chaos.evidence import Evidence, add_evidence
from chaos.scene import EVERYTHING, Outcome, Scene
from chaos.shim import Control
from patience import PATIENCE_S

Scenes = Callable[..., Scene]
_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_DAY_NS = 86_400 * 10**9


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path / "control")


def test_setting_the_wall_clock_does_not_change_the_result(
    scenes: Scenes, preloaded: Stable, expected: Outcome, control: Control
) -> None:
    scene = scenes(*EVERYTHING, by=preloaded)
    scene.environment.update(control.environment())
    rnd = random.Random(2)
    for days in (-400.0, 0.01, 30.0, -0.5, 0.0):
        control.set(clock_offset_ns=int(days * _DAY_NS))
        disturb(scene, rnd, kills=1, longest_s=0.8)
    scene.finish()
    assert scene.audit(expected, once=True) == []


def test_run_completes_after_reboots_that_end_its_programs(
    scenes: Scenes, preloaded: Stable, expected_small: Outcome, control: Control
) -> None:
    scene = scenes("small", by=preloaded)
    scene.environment.update(control.environment())
    for number in range(3):
        control.set(boot=f"{number}1111111-2222-3333-4444-555555555555")
        engine = scene.live()
        _wait_for_a_program(scene, number)
        add_evidence(scene.notes, "fault", kind="power cut")
        engine.kill()
        scene.tidy()
    control.set(boot="91111111-2222-3333-4444-555555555555")
    scene.finish()
    assert scene.audit(expected_small) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create a PID namespace")
def test_reused_process_numbers_do_not_change_the_result(scenes: Scenes, expected_small: Outcome) -> None:
    """Each engine runs in a new PID namespace, as in a restarted container: same boot, same numbers."""
    if subprocess.run([*_NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("no PID namespace can be created here")
    scene = scenes("small")
    for number in range(3):
        container = Stable(environment(), _NAMESPACE)
        _start_in(container, scene)
        _wait_for_a_program(scene, number)
        add_evidence(scene.notes, "fault", kind="power cut")
        container.cut_power()
    last = Stable(environment(), _NAMESPACE)
    try:
        assert _start_in(last, scene).wait(PATIENCE_S) == 0, scene.last_words()
        assert scene.audit(expected_small) == []
    finally:
        last.cut_power()


def _start_in(container: Stable, scene: Scene):  # type: ignore[no-untyped-def]
    inside = Scene.adopt(scene.notes.parent, container, scene)
    inside.lives = scene.lives
    engine = inside.live()
    scene.lives = inside.lives
    return engine


def _wait_for_a_program(scene: Scene, count: int) -> None:
    """Wait until more than ``count`` programs have begun."""
    until_s = time.monotonic() + PATIENCE_S
    while len(Evidence.read(scene.notes).runs) <= count and not scene.is_over:
        assert time.monotonic() < until_s, scene.last_words()
        time.sleep(0.002)
