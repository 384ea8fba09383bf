"""Progress on long work: one line on the standard error, only where somebody can see it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["stage"]


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Show what is being done while it is done, and take the line back afterwards."""
    visible = sys.stderr.isatty()
    if visible:
        sys.stderr.write(f"\r\x1b[2K{text[:100]} …")
        sys.stderr.flush()
    try:
        yield
    finally:
        if visible:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
