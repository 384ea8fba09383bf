"""The trace of a run: every change of a file below the recorded folders, with its data, in order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_HEADER = struct.Struct("<IIQQqIIIIq")


class Kind(IntEnum):
    """What an operation did."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    RENAME = 4
    LINK = 5
    UNLINK = 6
    MKDIR = 7
    SYMLINK = 8
    SYNC_BEGIN = 9
    SYNC_END = 10
    UNSEEN = 11
    """A file was mapped for writing, so its changes are not in the trace."""
    TIMES = 12


@dataclass(frozen=True, slots=True)
class Operation:
    """One record of a trace."""

    kind: Kind
    sequence: int
    inode: int
    offset: int
    """Offset of a write, new size, mode of a new file, or for SYNC_END the number of its SYNC_BEGIN."""
    pid: int
    role: int
    path: str
    data: bytes
    """Written data, or the second path."""
    modified_ns: int = 0
    """Modification time of the file after a change of its data."""

    @property
    def target(self) -> str:
        """Return the second path."""
        return self.data.decode(errors="surrogateescape")


def read_trace(path: Path) -> Iterator[Operation]:
    """Yield the operations of a trace."""
    content = path.read_bytes()
    place = 0
    while place + _HEADER.size <= len(content):
        size, kind, sequence, inode, offset, pid, first, second, role, modified_ns = _HEADER.unpack_from(
            content, place
        )
        begin = place + _HEADER.size
        path_text = content[begin : begin + first].decode(errors="surrogateescape")
        data = content[begin + first : begin + first + second]
        yield Operation(Kind(kind), sequence, inode, offset, pid, role, path_text, data, modified_ns)
        place += size
