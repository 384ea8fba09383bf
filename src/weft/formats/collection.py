"""Reading large files without interruption by the garbage collector.

Parsed documents and records hold no cycles, yet every few thousand of them make the collector walk over
all the others: for 100,000 tasks that is most of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collection_paused"]


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the garbage collector, and leave it as it was."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
