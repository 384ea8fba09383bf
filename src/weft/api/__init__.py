"""Python API; ``weft`` exports its main names.

``task`` and ``gather`` are exported only here, because ``weft.task`` is already the name of a module: the one
that the programs of tasks import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.api.functions.call import gather, task

__all__ = ["gather", "task"]


def __getattr__(name: str) -> Any:
    # Every task process imports this module, so the functions are loaded on first use.
    if name not in __all__:
        raise AttributeError(f"module 'weft.api' has no attribute {name!r}")
    return getattr(import_module("weft.api.functions.call"), name)
