"""Disturbances of engines, runners and programs at random times, drawn from one seed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence

from chaos.scene import Scene

_PATIENCE_S = 0.7
"""Timeout for finding a process to disturb."""

ENGINE_ONLY = ("engine",)
ALL = ("engine", "runner killed", "runner stopped", "task killed", "task stopped")


def disturb(
    scene: Scene,
    rnd: random.Random,
    *,
    kills: int,
    kinds: Sequence[str] = ENGINE_ONLY,
    longest_s: float = 1.2,
) -> Counter[str]:
    """Kill engines of a scene at random times with other disturbances in between; return how often each was
    done.

    It ends early if the run does. Short and long lifetimes are equally likely, so many engines die while they
    resume.
    """
    done: Counter[str] = Counter()
    for _ in range(kills):
        engine = scene.live()
        life_s = rnd.choice((0.1, 0.4, longest_s)) * rnd.random()
        harm = rnd.choice(kinds)
        if harm != "engine":
            time.sleep(life_s * rnd.random())
            done[harm] += _harm(scene, rnd, harm)
        time.sleep(life_s)
        if engine.kill() != -signal.SIGKILL:
            break
        done["engine"] += 1
        if not scene.begun and (scene.project / ".weft" / "weft.db").exists() and scene.is_over:
            break
        time.sleep(rnd.choice((0.0, 0.2)) * rnd.random())
    return done


def _pids_of(scene: Scene, target: str) -> list[int]:
    return scene.runners() if target == "runner" else [each.pid for each in scene.living()]


def _harm(scene: Scene, rnd: random.Random, harm: str) -> int:
    target, how = harm.split()
    until_s = time.monotonic() + _PATIENCE_S
    while not (pids := _pids_of(scene, target)) and time.monotonic() < until_s:
        time.sleep(0.01)
    if not pids:
        return 0
    pid = rnd.choice(pids)
    try:
        group = os.getpgid(pid)
        # Recorded first: weft may report the end before this process runs again.
        more = {"group": group} if target == "task" and how == "killed" else {}
        scene.record_fault(harm, **more)
        if target == "task":
            pid = -group  # as a batch system does
        os.kill(pid, signal.SIGSTOP if how == "stopped" else signal.SIGKILL)
        if how == "stopped" and target == "task":
            time.sleep(0.3 * rnd.random())
            os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return 0
    return 1
