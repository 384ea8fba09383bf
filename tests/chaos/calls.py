"""Failing system calls: every n-th call of engines, runners and programs returns an error for a while."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

from chaos.engines import STOPPED
from chaos.scene import Scene
from chaos.shim import ENGINE, ERRNOS, RUNNER, TASK, Control

_ENGINES = 4
"""Number of engines whose calls fail, before one without failures finishes the run."""


def fail_calls(scene: Scene, rnd: random.Random, *, roles: int | None = None) -> Counter[str]:
    """Run a scene while calls fail, then let it finish; return how many calls failed, by errno."""
    control = Control(scene.notes.parent / "control", roots=[scene.project], witness=scene.notes)
    scene.environment.update(control.environment())
    scene.record_fault("failing calls")
    try:
        for _ in range(_ENGINES):
            control.set(
                fail_roles=roles
                or rnd.choice((ENGINE, RUNNER, TASK, ENGINE | RUNNER, ENGINE | RUNNER | TASK)),
                fail_every=rnd.choice((2, 5, 20, 60)),
                fail_first=rnd.randint(1, rnd.choice((10, 100, 300))),
                fail_left=rnd.choice((1, 5, 20)),
                fail_errno=rnd.choice((-1, rnd.randrange(len(ERRNOS)))),
            )
            if (code := _live(scene, control)) == 0:
                break
            assert code in (1, STOPPED), f"the engine ended with {code}\n{scene.last_words()}"
        control.set(fail_every=0)
        scene.again()
        return Counter(control.failed())
    finally:
        control.close()


def _live(scene: Scene, control: Control) -> int:
    engine = scene.live()
    for patience_s in (60.0, 90.0):
        try:
            return engine.wait(patience_s)
        except TimeoutError:
            # Failing checks keep machines lost, after pauses that grow to half a minute: this is no hang.
            control.set(fail_every=0)
    os.kill(engine.pid, signal.SIGUSR2)
    time.sleep(0.5)
    engine.kill()
    raise AssertionError(f"the engine hangs\n{scene.last_words()}")
