"""Sequential execution: all compute tasks one after another on the one machine where that is fastest.

Speed-up is measured against it (S1 section 7, ``T_seq``), and S2 section 4 scales time and cost by it
(``t_max`` and ``c_min``, there the sum of the tasks' seconds on one node).

Deviations: where one node is not allowed the smallest allowed count is taken; machines on which some task
cannot run do not count; if none can run all, each task takes its fastest one. Complexity O(v k) for v tasks
of k modes, once per instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from weft.instance.instance import Instance

__all__ = ["Sequential", "sequential"]

_known: WeakKeyDictionary[Instance, Sequential] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """What it takes to run one task after another, without moving data."""

    time_s: float
    node_seconds: float


def sequential(instance: Instance) -> Sequential:
    """Give time and node-seconds; they are computed once, however many schedules are judged by them."""
    if instance not in _known:
        _known[instance] = _sequential(instance)
    return _known[instance]


def _sequential(instance: Instance) -> Sequential:
    time, taken = np.zeros(len(instance.machines)), np.zeros(len(instance.machines))
    fastest_s = fastest_taken = 0.0
    for group in instance.groups:
        # The first mode listed for a machine is the one with the smallest count.
        machine, first = np.unique(group.machine, return_index=True)
        nodes = group.nodes[first]
        able = np.zeros(len(time), dtype=bool)
        able[machine] = True
        time[~able] = np.inf
        for _, seconds in group.chunks():
            least = seconds[:, first]
            spent = least.sum(axis=0)
            time[machine] += spent
            taken[machine] += spent * nodes
            best = least.argmin(axis=1)
            fastest_s += float(least.min(axis=1).sum())
            fastest_taken += float((least.min(axis=1) * nodes[best]).sum())
    if np.isfinite(time.min(initial=np.inf)):
        chosen = int(time.argmin())
        return Sequential(time_s=float(time[chosen]), node_seconds=float(taken[chosen]))
    return Sequential(time_s=fastest_s, node_seconds=fastest_taken)
