"""Record of an output file of a task, as it was measured."""

from __future__ import annotations

from weft.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """Name, size, digest and times of a file or directory, as measured."""

    name: str
    """Name in the task's directory, with wildcards resolved."""
    size_bytes: int
    digest: str
    """BLAKE2b hash of the content, in hexadecimal; for a directory, hash of its sorted names and contents."""
    modified_ns: int = 0
    """Modification time; if it differs later, the file may have changed."""
    inode: int = 0
    """Inode of a file; for a directory, a hash over inodes, sizes and times of its entries."""
    changed_ns: int = 0
    """Status change time; 0: the digest may be wrong and must be computed again before it is used."""
