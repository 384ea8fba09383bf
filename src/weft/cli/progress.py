"""Progress on long work: one line on the standard error, only where somebody can see it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["stage"]

_WIDTH = 100
_CLEAR = "\r\x1b[2K"


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Show what is being done while it is done, and take the line back afterwards.

    Where a kernel must first be compiled, the line says so: that takes seconds, once per processor type.
    """
    if not sys.stderr.isatty():
        yield
        return
    _write(f"{_CLEAR}{text[:_WIDTH]} …")
    # Loads numpy, which the work needs anyway, and only now that the line is there.
    from weft.kernels.forms import listening

    try:
        with listening(lambda kernel: _write(f"{_CLEAR}{_compiling(text, kernel)} …")):
            yield
    finally:
        _write(_CLEAR)


def _compiling(text: str, kernel: str) -> str:
    told = f": compiling {kernel} for this processor (once)"
    return text[: max(0, _WIDTH - len(told))] + told


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
