"""The real worlds: the registry, by kind. The contract is in ``backends/backend.py``."""

from weft.registry import Registry

__all__ = ["BACKENDS"]

BACKENDS = Registry(
    "weft.backends",
    "backend",
    {
        "local": "weft.backends.local.backend:LocalBackend",
    },
)
"""To add a backend: one file, one line here."""
