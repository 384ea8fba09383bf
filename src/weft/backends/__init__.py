"""The real worlds: the shelf, by kind. The contract is in ``backends/backend.py``."""

from weft.registry import Shelf

__all__ = ["BACKENDS"]

BACKENDS = Shelf(
    "weft.backends",
    "backend",
    {
        "local": "weft.backends.local.world:LocalWorld",
    },
)
"""To add a backend: one file, one line here."""
