"""What kernels read and write: flat arrays in the compiled form, lists in the plain one.

Both are indexed and nothing else, so a kernel's signature says only what the elements are.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Doubles", "Flags", "Indices", "Integers"]

Doubles = Any
"""float64 elements."""
Indices = Any
"""uint32 elements: positions in other arrays; a sentinel (the length) instead of -1.

Numba makes the sum of two of them unsigned, and a float of an unsigned and a signed number: a sum of indices
starts with ``0 +``, which makes it signed.
"""
Integers = Any
"""int64 elements: amounts that are added and subtracted."""
Flags = Any
"""uint8 elements."""
