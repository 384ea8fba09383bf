"""What the terminal can do: its width, and whether colour is wanted."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

__all__ = ["colored", "colored_errors", "redraws", "width"]


def width() -> int:
    """Give the columns to fill: those of COLUMNS or of the terminal, from 60 to 140; 100 without either."""
    return max(60, min(140, shutil.get_terminal_size((100, 24)).columns))


def colored() -> bool:
    """Say whether to colour: only on a terminal, and never when NO_COLOR is set."""
    return redraws(sys.stdout) and not os.environ.get("NO_COLOR")


def colored_errors() -> bool:
    """Say the same of the standard error, where progress is shown."""
    return redraws(sys.stderr) and not os.environ.get("NO_COLOR")


def redraws(stream: TextIO) -> bool:
    """Say whether lines can be taken back and coloured there: on terminals, but for dumb ones."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"
