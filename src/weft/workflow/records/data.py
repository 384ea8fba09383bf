"""Data items: the files (or values) tasks read and write, with the sizes planners need."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.workflow.records.quantity import Quantity

__all__ = ["Input", "Output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A file a task reads. If another task writes a file of this name, that makes a dependency."""

    file: str
    """Name in the task's directory; may hold ``{names}`` of parameters and sweep variables."""
    source: str | None = None
    """Path or URL it is staged from; None: another task's output or the project directory."""
    size: Quantity | None = None
    """Bytes, where no task that writes the file says so."""
    shared: bool = False
    """Kept in the machine's cache and used by all jobs sent there (S3 section 6)."""
    compressed: bool = False
    """Decompressed on the chosen machine (S3 section 6)."""
    entry: int | None = field(default=None, compare=False, repr=False)
    """Which entry of ``inputs`` in the file it comes from (one entry may stand for many files)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file a task writes."""

    file: str
    """Name in the task's directory; may hold ``{names}``; wildcards and directories are allowed."""
    size: Quantity | None = None
    """Bytes; None: unknown."""
    seconds: Quantity | None = None
    """The transfer takes this long between any two different machines, whatever the network."""
    target: str | None = None
    """Path or URL it is staged to when the run ends; None: it stays."""
