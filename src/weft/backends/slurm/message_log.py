"""Messages between an engine and a pilot: one append-only file for each direction, on a shared file system.

Each line is a sealed record with a number ``n`` that grows by the line, so that a line cannot be repeated. A
writer opens its file for each batch of lines and closes it again, and a reader does the same: this is what a
network file system needs to show one node what another has written. A line that is not complete yet, or that
has no valid seal yet, is read again later.

This module is part of a bundle: it must not import other parts of weft or heavy modules.
"""

from __future__ import annotations

import os
import time

from weft.backends.runner.records import Record, SealedRecords, encode_record, write_log

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_BYTES = 1 << 24
_INVALID_S = 5.0
"""Seconds after which a line without a valid seal is skipped."""


class MessageWriter:
    """The writing end of a log; only one process writes to a log at a time."""

    def __init__(self, records: SealedRecords, name: str, last: int = 0) -> None:
        """Create the writer; ``last`` is the number of the last message in the file."""
        self._records = records
        self._name = name
        self._last = last
        self._is_torn = last > 0
        """Whether the last line of the file may be incomplete."""

    def number(self) -> int:
        """Return a new number for a message."""
        self._last += 1
        return self._last

    def append(self, messages: list[Record]) -> list[tuple[int, int]]:
        """Append messages, each with a number under ``n``; return start and end of their lines.

        Raises OSError; then the call may be repeated.
        """
        lines = [self._records.sealed(self._name, encode_record(each)) for each in messages]
        file = os.open(self._name, _APPEND, 0o600, dir_fd=self._records.folder)
        try:
            content = (b"\n" if self._is_torn else b"") + b"".join(lines)
            end = os.fstat(file).st_size + int(self._is_torn)
            self._is_torn = True
            written = 0
            while written < len(content):
                written += os.write(file, content[written:])
            self._is_torn = False
        finally:
            os.close(file)
        places = []
        for line in lines:
            places.append((end, end + len(line)))
            end += len(line)
        return places

    def erase(self, start: int, end: int) -> None:
        """Overwrite a line that was read, because it may contain secrets; raises OSError."""
        file = os.open(self._name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._records.folder)
        try:
            os.pwrite(file, b" " * (end - start - 1), start)
        finally:
            os.close(file)


class MessageReader:
    """The reading end of a log."""

    def __init__(self, records: SealedRecords, name: str) -> None:
        self._records = records
        self._name = name
        self._offset = 0
        self._invalid_s: float | None = None
        """Time on the monotonic clock at which the next line was first found without a valid seal."""
        self.last = 0
        """Number of the last message that was read."""
        self.places: dict[int, tuple[int, int]] = {}
        """By number of a message: start and end of its line, as far as they were not taken out."""

    def read(self) -> list[Record]:
        """Return the new messages."""
        try:
            file = os.open(self._name, _READ, dir_fd=self._records.folder)
        except OSError:
            return []
        try:
            content = os.pread(file, _MOST_BYTES, self._offset)
        except OSError:
            return []
        finally:
            os.close(file)
        found: list[Record] = []
        start = 0
        while (end := content.find(b"\n", start)) >= 0:
            line = content[start:end]
            if line.strip(b" ") and not self._take(line, end + 1 - start, found):
                break
            self._offset += end + 1 - start
            start = end + 1
        return found

    def _take(self, line: bytes, length: int, found: list[Record]) -> bool:
        """Add the message of a line; return whether the line has been dealt with."""
        record = self._records.unsealed(self._name, line)
        number = record.get("n") if record is not None else None
        if record is not None and isinstance(number, int):
            self._invalid_s = None
            if number > self.last:
                self.last = number
                self.places[number] = (self._offset, self._offset + length)
                found.append(record)
            return True
        now_s = time.monotonic()
        if self._invalid_s is None:
            self._invalid_s = now_s
        if now_s - self._invalid_s < _INVALID_S:
            return False
        write_log(f"a line of {self._name} has no valid seal and is ignored")
        self._invalid_s = None
        return True
