"""After the death of an engine at any time, ``resume`` gives the undisturbed result and runs no program twice."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Callable

import pytest

from chaos.disturbances import ALL, disturb
from chaos.scene import EVERYTHING, Outcome, Scene
from weft.engine.messages import Ended

Scenes = Callable[..., Scene]


@pytest.mark.parametrize("place", ["commit", "committed"])
def test_run_is_resumed_after_a_kill_at_every_journal_write(
    scenes: Scenes, expected_small: Outcome, place: str
) -> None:
    """A kill before the write loses the decision, a kill after it leaves it unexecuted; ``resume`` handles
    both.
    """
    for number in itertools.count(1):
        scene = scenes("small")
        died = scene.live(failpoint=f"{place}:{number}").wait(60.0)
        scene.finish()
        assert scene.audit(expected_small, once=True) == [], f"{place}:{number}"
        if died == 0:
            break
        assert died == -signal.SIGKILL
    assert number > 4


def test_engines_killed_after_their_first_write_finish_the_run(
    scenes: Scenes, expected_small: Outcome
) -> None:
    scene = scenes("small")
    for _ in range(40):
        code = scene.live(failpoint="committed:1").wait(60.0)
        if code == 0 or scene.is_over:
            break
        assert code == -signal.SIGKILL
    scene.finish()
    assert scene.audit(expected_small, once=True) == []


def test_engines_killed_at_random_times_start_every_program_once(scenes: Scenes, expected: Outcome) -> None:
    scene = scenes(*EVERYTHING)
    done = disturb(scene, random.Random(5), kills=10)
    scene.finish()
    assert scene.audit(expected, once=True) == []
    assert done["engine"] >= 3


def test_run_completes_when_engines_runners_and_programs_are_killed_or_stopped_at_random(
    scenes: Scenes, expected: Outcome
) -> None:
    scene = scenes(*EVERYTHING, policy="plan")
    done = disturb(scene, random.Random(11), kills=6, kinds=ALL[1:])
    scene.finish()
    assert scene.audit(expected) == []
    assert sum(done.values()) > done["engine"]


def test_program_over_its_limit_is_killed_with_its_children(
    scenes: Scenes,
) -> None:
    """The engine is killed during the termination; the next engine records the end and retries."""
    scene = scenes("mule")
    engine = scene.live()
    time.sleep(1.5)
    assert engine.kill() == -signal.SIGKILL
    scene.finish()
    files = {"mule.txt": (scene.project / "mule.txt").read_bytes()}
    assert scene.audit(Outcome(files, {"mule#1": 2})) == []
    assert "timeout" in [entry.event.cause for entry in scene.entries() if type(entry.event) is Ended]
    assert scene.outcome().starts["mule#1"] >= 2
