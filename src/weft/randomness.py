"""Random numbers: one seeded generator per component, always passed in, never global."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["generator"]


def generator(seed: int, *component: str) -> np.random.Generator:
    """Make the generator of a component. Components of one seed are independent of each other.

    The component's name enters as bytes, not as a hash, so the stream is the same under every PYTHONHASHSEED.
    """
    import numpy as np

    words = [byte for name in component for byte in (*name.encode(), 0)]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))
