"""Parallel efficiency: how well a task uses its nodes, and the problem without modes that use them badly.

The efficiency of a count R on a machine is r t(r) / (R t(R)), where r is the smallest count allowed there; so
some mode is left on every machine. The smallest count has efficiency 1.
"""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.instance.modes import ModeGroup
from weft.kernels.problem import Problem
from weft.planners.narrowing import narrowed, parts_of
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["efficient"]

_ROUNDING = 1e-9
"""Share by which an efficiency may fall short: tasks that scale alike must not differ by rounding."""


def efficient(instance: Instance, least: float) -> Problem:
    """Give the problem in which tasks keep the modes of at least this efficiency."""
    parts = []
    for index, group in enumerate(instance.groups):
        for tasks, seconds in group.chunks():
            parts.extend(parts_of(index, tasks, _efficiency(group, seconds) >= least * (1 - _ROUNDING)))
    return narrowed(problem_of(instance), parts)


def _efficiency(group: ModeGroup, seconds: Floats) -> Floats:
    """Give tasks x modes."""
    _, first, number = np.unique(group.machine, return_index=True, return_inverse=True)
    taken = seconds * group.count
    smallest = taken[:, first][:, number]
    # A task of no seconds uses any count equally well.
    return np.divide(smallest, taken, out=np.ones_like(taken), where=taken > 0)
