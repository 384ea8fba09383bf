"""Sealed records of a runner: files that only a process with the execution's token can have written.

A task runs as the same user and can write anywhere. A record is therefore accepted only with a valid seal: a
keyed BLAKE2b hash (a message authentication code, RFC 7693, section 2.9) over the record's name and text.
Because the name is included, a record is not valid under another name. Single records are replaced
atomically, except the heartbeat, which is overwritten in place because that works on a full disk. Records of
attempts are lines of a log, since appending a line costs a hundredth of creating a file; an incomplete line
has no valid seal.

This module is loaded by the runner: it must not import other parts of weft or heavy modules.
"""

from __future__ import annotations

import errno
import json
import os
import stat

try:
    from _blake2 import blake2b  # hashlib also loads OpenSSL: a tenth of the start of the runner
except ImportError:  # another implementation of Python
    from hashlib import blake2b

TYPE_CHECKING = False  # importing typing would slow down the start of the runner
if TYPE_CHECKING:
    from typing import TypeAlias

Record: TypeAlias = "dict[str, object]"

_LONGEST_BYTES = 1 << 20
_FIXED = 120
"""Length in bytes to which a record that is overwritten in place is padded."""
_READINGS = 3
_PERSON = b"weft records"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MORE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OVER = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags to append to, overwrite or read a record; they do not block if a FIFO has replaced the file."""

encode_record = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
"""Return a record as one line of JSON."""


def hash_bytes(content: bytes, *, size: int = 64, key: bytes = b"") -> bytes:
    """Return the BLAKE2b hash of a content with ``size`` bytes; with a key it is a keyed hash."""
    return blake2b(content, digest_size=size, key=key).digest()


def write_log(text: str) -> None:
    """Append a line to the runner's log; a failure to write is ignored."""
    try:
        os.write(2, f"{text}\n".encode(errors="replace"))
    except OSError:
        return


class SealedRecords:
    """The sealed records in one directory."""

    __slots__ = ("_begun", "_key", "folder")

    def __init__(self, directory: str, token: str) -> None:
        self.folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        """Descriptor of the directory."""
        if os.readlink(f"/proc/self/fd/{self.folder}") != os.path.normpath(directory):
            self.close()
            raise OSError(errno.ELOOP, "its path contains a symbolic link", directory)
        self._key = blake2b(token.encode(), person=_PERSON).digest()
        self._begun: dict[str, blake2b] = {}
        """By record name: the keyed hash of the name; a copy of it is updated with the text of a record."""

    def close(self) -> None:
        """Close the directory."""
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1

    def write(self, name: str, record: Record) -> None:
        """Write a record under a name, in place of an earlier one; raises OSError."""
        self.replace(name, self.sealed(name, encode_record(record)))

    def read(self, name: str) -> Record | None:
        """Return the record with a name; None if it is missing or its seal is invalid."""
        return self.unsealed(name, self.content(name, _LONGEST_BYTES).rstrip(b"\n"))

    def read_again(self, name: str) -> Record | None:
        """Return a record that is overwritten in place; None if it has no valid seal.

        A read during a write is invalid and is repeated.
        """
        for _ in range(_READINGS):
            if (record := self.read(name)) is not None:
                return record
        return None

    def overwrite(self, file: int, name: str, record: Record) -> None:
        """Overwrite a record in place, padded to a fixed length; this works on a full disk."""
        os.pwrite(file, self.sealed(name, encode_record(record).ljust(_FIXED)), 0)

    def opened(self, name: str) -> int:
        """Return a descriptor of a file whose content is overwritten in place."""
        self.make_own(name)
        return os.open(name, _OVER, 0o600, dir_fd=self.folder)

    def make_own(self, name: str) -> None:
        """Replace a file that has further hard links by a copy, so that writing changes no file elsewhere."""
        try:
            status = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            self.replace(name, self.content(name))

    def remove(self, name: str) -> None:
        """Remove a record if it exists."""
        try:
            os.unlink(name, dir_fd=self.folder)
        except OSError:
            return

    def sealed(self, name: str, text: str) -> bytes:
        """Return the line that stores a record: its seal and its text."""
        content = text.encode()
        return b"%b %b\n" % (self._seal(name, content), content)

    def unsealed(self, name: str, line: bytes) -> Record | None:
        """Return the record in a line; None if its seal is invalid."""
        seal, _, text = line.partition(b" ")
        if seal != self._seal(name, text):
            return None
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):  # sealed by a runner of another version
            return None
        return record if isinstance(record, dict) else None

    def replace(self, name: str, content: bytes) -> None:
        """Replace the content of a file atomically; raises OSError."""
        beside = "new"
        try:
            file = os.open(beside, _NEW, 0o600, dir_fd=self.folder)
        except FileExistsError:
            os.unlink(beside, dir_fd=self.folder)
            file = os.open(beside, _NEW, 0o600, dir_fd=self.folder)
        try:
            _write_all(file, content)
        finally:
            os.close(file)
        os.rename(beside, name, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def content(self, name: str, most_bytes: int | None = None) -> bytes:
        """Return the content of a file; b"" if it is unreadable or has more than ``most_bytes``."""
        try:
            file = os.open(name, _OLD, dir_fd=self.folder)
        except OSError:
            return b""
        parts: list[bytes] = []
        try:
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode) and (most_bytes is None or status.st_size <= most_bytes):
                while part := os.read(file, _LONGEST_BYTES):
                    parts.append(part)
        except OSError:
            return b""
        finally:
            os.close(file)
        return b"".join(parts)

    def _seal(self, name: str, text: bytes) -> bytes:
        if (begun := self._begun.get(name)) is None:
            begun = self._begun[name] = blake2b(name.encode() + b"\0", key=self._key, digest_size=16)
        mark = begun.copy()
        mark.update(text)
        return mark.hexdigest().encode()


class RecordLog:
    """Append-only log with one record per line; only the last record of an attempt counts."""

    __slots__ = ("_file", "_name", "_records", "_torn", "lines")

    def __init__(self, records: SealedRecords, name: str) -> None:
        self._records = records
        self._name = name
        self.lines = 0
        """Number of lines added since the log was opened or rewritten."""
        self._torn = True
        """Whether the last line may be incomplete, after a crash or on a full disk."""
        records.make_own(name)
        self._file = os.open(name, _MORE, 0o600, dir_fd=records.folder)

    def add(self, text: str) -> None:
        """Append a record that is already encoded; raises OSError."""
        line = self._records.sealed(self._name, text)
        torn, self._torn = self._torn, True
        _write_all(self._file, b"\n" + line if torn else line)
        self._torn = False
        self.lines += 1

    def rewrite(self, texts: list[str]) -> None:
        """Replace the log by these encoded records; after an OSError the log is unchanged."""
        self._records.replace(self._name, b"".join(self._records.sealed(self._name, text) for text in texts))
        os.close(self._file)
        self._file = os.open(self._name, _MORE, 0o600, dir_fd=self._records.folder)
        self.lines = 0

    @staticmethod
    def read(records: SealedRecords, name: str) -> dict[int, Record]:
        """Return the last valid record of each attempt in a log, by attempt number."""
        found: dict[int, Record] = {}
        for line in records.content(name).split(b"\n"):
            record = records.unsealed(name, line) if line else None
            attempt = record.get("attempt") if record is not None else None
            if record is not None and isinstance(attempt, int):
                found[attempt] = record
        return found


def _write_all(file: int, content: bytes) -> None:
    """Write all of ``content``; raise ENOSPC if the file accepts no more."""
    written = 0
    while written < len(content):
        if (part := os.write(file, content[written:] if written else content)) == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += part
