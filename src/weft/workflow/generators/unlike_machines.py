"""The random platform that comes with a workflow which is not tied to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.platform.link import DEFAULT_LINK

if TYPE_CHECKING:
    import numpy as np

    from weft.platform.platform import Platform

__all__ = ["MOST_MACHINES", "unlike_machines"]

MOST_MACHINES = 1_000_000
"""As many as a platform can name."""


def unlike_machines(
    rng: np.random.Generator,
    machines: int,
    heterogeneity: float,
    bandwidth_Bps: float = DEFAULT_LINK.bandwidth_Bps,  # noqa: N803 -- B is bytes, b would be bits
) -> Platform | None:
    """Draw one-node machines whose speeds lie between 1 and the heterogeneity; None if none are wanted."""
    from weft.platform.generators import random_platform

    if machines == 0:
        return None
    return random_platform(machines, rng=rng, heterogeneity=heterogeneity, bandwidth_Bps=bandwidth_Bps)
