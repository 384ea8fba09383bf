"""Seeded random generators, one per component. They are always passed as arguments, never global."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def generator(seed: int, *component: str) -> np.random.Generator:
    """Return a generator for a component; generators of different components are independent.

    The seed includes the bytes of the component's name, not its ``hash()``, which depends on PYTHONHASHSEED.
    """
    import numpy as np

    words = [byte for name in component for byte in (*name.encode(), 0)]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))
