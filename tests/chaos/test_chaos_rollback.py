"""After the state of a project was replaced by an older copy, no later record of a runner is used."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.engines import Stable
from chaos.power import RecordedRun
from chaos.rollback import lose_tail, restore_copy
from chaos.scene import EVERYTHING, OUTSIDE, Outcome, Scene

Scenes = Callable[..., Scene]


def test_run_completes_after_its_state_is_reset_to_any_earlier_commit(
    preloaded: Stable, expected_small: Outcome, tmp_path: Path
) -> None:
    """The sandboxes are outside the project, so they are newer than the restored state."""
    scene = Scene(tmp_path / "recorded", preloaded, ["small"], platform=OUTSIDE)
    recorded = RecordedRun(scene)
    assert len(recorded.commits()) > 4
    for cut in recorded.commits():
        restored = restore_copy(recorded, cut)
        assert restored.audit(expected_small) == [], f"restored from the copy at operation {cut}"


@pytest.mark.parametrize("whole", [False, True])
def test_run_completes_after_the_tail_of_the_journal_is_lost(
    scenes: Scenes, expected: Outcome, whole: bool
) -> None:
    """Regression: the record of a lost attempt was used for another task with the same number."""
    scene = scenes(*EVERYTHING)
    scene.environment["CHAOS_JITTER"] = "1"
    rnd = random.Random(4)
    lost = sum([lose_tail(scene, rnd, whole=whole) for _ in range(3)])
    scene.finish()
    assert scene.audit(expected) == []
    assert lost
