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

_LARGEST = 2.0**53
"""Up to here doubles can hold every whole number."""
_TOGETHER = 500_000
"""Seconds looked at together."""
_FEW = 64
"""Rows of which equal columns are looked for: like machines count once."""


def all_whole(instance: Instance, ways: list[Ways]) -> bool:
    """Tell whether every duration, data movement and given time is a whole number of seconds."""
    return _given_whole(instance) and _data_whole(instance) and all(_seconds_whole(found) for found in ways)


def _whole(values: Floats) -> bool:
    return bool(((np.rint(values) == values) & (np.abs(values) < _LARGEST)).all())


def _given_whole(instance: Instance) -> bool:
    ends = np.array([held.finish_s for held in instance.busy], dtype=np.float64)
    return _whole(instance.earliest_start_s) and _whole(ends)


def _data_whole(instance: Instance) -> bool:
    graph, network = instance.graph, instance.network
    if len(np.unique(network.host)) == 1:
        return True
    slow, late = network.inverse_bandwidth.any(), network.latency_s.any()
    if (graph.kind == TRANSFER).any() and (late or (slow and graph.transfer_bytes.any())):
        return False
    moving = (slow and graph.edge_bytes.any()) or (late and graph.edge_files.any())
    return not moving and _whole(graph.edge_seconds)


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
    return bool((np.abs(seconds - near) <= 1e-12 * np.maximum(1.0, near)).all() and (near < 2.0**40).all())
