"""How long data take between machines: fixed seconds, one latency per file, and bytes over bandwidth.

Between machines of one host, and so on one machine, nothing moves and nothing is paid. Unknown sizes (nan)
count as 0 bytes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from weft.platform.arrays import Network
from weft.platform.platform import Link
from weft.workflow.task_graph import Floats, Indices

__all__ = ["edge_seconds_to", "transfer_seconds"]


def transfer_seconds(link: Link | None, size_bytes: float, files: float = 1.0, fixed_s: float = 0.0) -> float:
    """Give the seconds over one link; None: both ends are on the same host."""
    if link is None:
        return 0.0
    known = 0.0 if math.isnan(size_bytes) else size_bytes
    return fixed_s + files * link.latency_s + known / link.bandwidth_Bps


def edge_seconds_to(
    network: Network,
    sources: Indices,
    targets: Indices | int | None,
    size_bytes: ArrayLike,
    files: ArrayLike,
    fixed_s: ArrayLike,
) -> Floats:
    """Give the seconds of edges whose data lie on ``sources`` to each target: edges x targets.

    ``targets`` are machines; None: all of them, in order.
    """
    everywhere = np.arange(len(network.location), dtype=np.uint32)
    ends = everywhere if targets is None else np.atleast_1d(np.asarray(targets, dtype=np.uint32))
    size, number, fixed = (np.asarray(column, dtype=np.float64) for column in (size_bytes, files, fixed_s))
    pairs = (network.location[sources][:, None], network.location[ends])
    seconds = (
        np.atleast_1d(fixed)[:, None]
        + np.atleast_1d(number)[:, None] * network.latency_s[pairs]
        + np.nan_to_num(np.atleast_1d(size))[:, None] * network.inverse_bandwidth[pairs]
    )
    same = network.host[sources][:, None] == network.host[ends]
    return np.where(same, 0.0, seconds)
