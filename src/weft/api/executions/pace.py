"""Pace: how often programs are asked for their progress.

Settings say every half a minute, which is right for tasks of hours. A task of seconds would be through before
anybody asks, whatever it promised; so the shortest task that owes something is asked a few times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from weft.engine.settings import Settings
from weft.instance.instance import Instance

__all__ = ["paced"]

_TIMES = 5
"""How often a task is asked that takes as long as it should."""
_LEAST_S = 0.5


def paced(settings: Settings, instances: Iterable[Instance]) -> Settings:
    """Have programs asked often enough for what they owe."""
    shortest_s = min((least_s for each in instances for least_s in _owing(each, settings)), default=None)
    if shortest_s is None:
        return settings
    return replace(settings, poll_every_s=min(settings.poll_every_s, max(_LEAST_S, shortest_s / _TIMES)))


def _owing(instance: Instance, settings: Settings) -> Iterator[float]:
    """Give the seconds of the shortest task that owes something, if there is one."""
    all_owe = settings.contract is not None or settings.iteration_limit_s is not None
    graph = instance.graph
    owing = [all_owe or task.recovery.contract is not None for task in graph.workflow.tasks]
    if not any(owing):
        return
    seconds = instance.shortest_s()[np.asarray(owing)[graph.template]]
    if (seconds > 0.0).any():
        yield float(seconds[seconds > 0.0].min())
