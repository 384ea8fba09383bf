"""Whole numbers: where every time is one, the shortest schedule ends at one, so bounds may be rounded up.

In some shortest schedule every task starts at 0, at its earliest start, when data arrive, or when another
task or a busy stretch ends: all sums of whole numbers.
"""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.schedule.bounds.ways import Ways
from weft.workflow.unfolding.task_graph import TRANSFER, Floats

__all__ = ["all_whole"]

_LARGEST = 2.0**40
"""Beyond this rounding hides what is whole."""
_TOGETHER = 500_000
"""Seconds looked at together."""
_FEW = 64
"""Rows of which equal columns are looked for: like machines count once."""


def all_whole(instance: Instance, ways: list[Ways]) -> bool:
    """Tell whether every duration, data movement and given time is a whole number of seconds."""
    return _given_whole(instance) and _data_whole(instance) and all(_seconds_whole(found) for found in ways)


def _given_whole(instance: Instance) -> bool:
    ends = np.array([held.finish_s for held in instance.busy], dtype=np.float64)
    return _almost_whole(instance.earliest_start_s) and _almost_whole(ends)


def _data_whole(instance: Instance) -> bool:
    """Look at every edge and transfer over every link."""
    graph, network = instance.graph, instance.network
    if len(np.unique(network.host)) == 1:
        return True
    moved = graph.transfer_bytes[graph.kind == TRANSFER]
    files = np.concatenate([graph.edge_files, np.ones(len(moved))])
    size = np.concatenate([graph.edge_bytes, moved])
    fixed = np.concatenate([graph.edge_seconds, np.zeros(len(moved))])
    links = np.unique(np.stack([network.latency_s.ravel(), network.inverse_bandwidth.ravel()]), axis=1)
    if links.shape[1] * len(files) > _TOGETHER:
        return False  # so much data is hardly ever moved in whole seconds
    return _almost_whole(fixed[:, None] + files[:, None] * links[0] + size[:, None] * links[1])


def _seconds_whole(found: Ways) -> bool:
    """Look at every task in every different way; where one is no whole number the first rows tell."""
    unit_s = found.unit_s
    if len(unit_s) <= _FEW:
        unit_s = np.unique(unit_s, axis=1)
    rows = max(1, _TOGETHER // unit_s.shape[1])
    return all(
        _almost_whole(found.scale[first : first + rows, None] * unit_s[found.row[first : first + rows]])
        for first in range(0, len(found.tasks), rows)
    )


def _almost_whole(seconds: Floats) -> bool:
    # Work times an inverted rate: whole but for the last digits.
    near = np.rint(seconds)
    close = np.abs(seconds - near) <= 1e-12 * np.maximum(1.0, np.abs(near))
    return bool((close & (np.abs(near) < _LARGEST)).all())
