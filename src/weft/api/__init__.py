"""What Python programs call; ``weft`` gives the most important names of it.

``task`` and ``gather`` are here and not there: ``weft.task`` is the module for programs that weft runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.api.functions.call import gather, task

__all__ = ["gather", "task"]

_HOMES = {"gather": "weft.api.functions.call", "task": "weft.api.functions.call"}


def __getattr__(name: str) -> Any:
    # The process of every task passes here: nothing is imported that it does not need.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'weft.api' has no attribute {name!r}")
    return getattr(import_module(home), name)
