"""Mixing: plans between two others, which take some choices from the one and the rest from the other.

Whoever goes from one plan to the other choice by choice passes what lies between them (path relinking, F.
Glover, M. Laguna, R. Marti, Control and Cybernetics 29, 2000). Here the choices of the first tasks, or of the
last, in the order of one of the plans are taken from the other: where levels wait for each other, each is
then done in the one way or the other.

Complexity O(v + e) for every mixture of v tasks with e edges, and as decoding.
"""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.planners.decoding import Genome
from weft.workflow.unfolding.task_graph import Indices

__all__ = ["mixtures"]

_MOST = 32
"""Mixtures of two plans."""
_TASK_S, _BATCH_S = 5e-6, 0.1
"""What decoding a task takes in plain Python, about, and how long all mixtures of two plans may take."""


def mixtures(instance: Instance, first: Genome, second: Genome) -> tuple[Indices, Indices, Indices]:
    """Give genomes between two (rows of orders, bindings and modes): even shares of each, from either end."""
    number = max(2, min(_MOST, int(_BATCH_S / (_TASK_S * max(1, len(instance))))))
    rows = [
        _mixed(instance, own, other, share)
        for own, other in ((first, second), (second, first))
        for share in np.arange(1, number // 2 + 1) / (number // 2 + 1)
    ]
    orders, bound, modes = (np.stack(columns) for columns in zip(*rows, strict=True))
    return orders, bound, modes


def _mixed(instance: Instance, own: Genome, other: Genome, share: float) -> Genome:
    """Take what the other chooses for the first share of tasks; tasks that share a machine go together."""
    variable = instance.graph.variable
    place = np.empty(len(instance), dtype=np.int64)
    place[own.order] = np.arange(len(instance))
    soonest = np.full(len(own.bound), len(instance), dtype=np.int64)
    np.minimum.at(soonest, variable, place)
    taken = soonest < share * len(instance)
    return Genome(
        order=own.order,
        bound=np.where(taken, other.bound, own.bound),
        modes=np.where(taken[variable], other.modes, own.modes),
    )
