"""Records of a runner: what only those who know the execution's token can have written.

A task of the same user can write anywhere, so what lies in a runner's directory is believed only with the
right seal: a keyed BLAKE2b hash (by itself a message authentication code, RFC 7693 section 2.9) over the
record's name and text. A record put under another name is so not believed either. Single records are written
beside and renamed (the beat in place, because that works on a full disk); those of attempts are lines of a
ledger, because a line costs a hundredth of a file, and a line that was not wholly written has no right seal.
This file is read by the runner too: no other part of weft, and only light modules.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat

__all__ = ["Record", "RecordLog", "SealedRecords", "encode_record", "write_log"]


Record = dict[str, object]

_LONGEST_BYTES = 1 << 20
_FIXED = 120
"""Length of a record that is overwritten in place."""
_READINGS = 3
_PERSON = b"weft records"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MORE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OVER = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without waiting: somebody may have put a pipe there."""

encode_record = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
"""Write a record as text of one line."""


def write_log(text: str) -> None:
    """Write a line to the runner's log, if there is room: its tasks are worth more than its words."""
    try:
        os.write(2, f"{text}\n".encode(errors="replace"))
    except OSError:
        return


class SealedRecords:
    """The sealed records of one directory."""

    __slots__ = ("_begun", "_folder", "_key")

    def __init__(self, directory: str, token: str) -> None:
        self._folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if os.readlink(f"/proc/self/fd/{self._folder}") != os.path.normpath(directory):
            self.close()
            raise OSError(errno.ELOOP, "there is a link on the way to it", directory)
        self._key = hashlib.blake2b(token.encode(), person=_PERSON).digest()
        self._begun: dict[str, hashlib.blake2b] = {}
        """By name: a seal of which only the text is missing."""

    def close(self) -> None:
        """Let go of the directory."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @property
    def folder(self) -> int:
        """Give the open directory."""
        return self._folder

    def write(self, name: str, record: Record) -> None:
        """Write a record under its name, in place of an older one; raises OSError."""
        self.replace(name, self.sealed(name, encode_record(record)))

    def read(self, name: str) -> Record | None:
        """Give the record of a name; None where there is none that can be believed."""
        return self.unsealed(name, self.content(name, _LONGEST_BYTES).rstrip(b"\n"))

    def read_again(self, name: str) -> Record | None:
        """Give a record that is overwritten in place: one that is just being written is read once more."""
        for _ in range(_READINGS):
            record = self.read(name)
            if record is not None:
                return record
        return None

    def overwrite(self, file: int, name: str, record: Record) -> None:
        """Write a record over the older one of the same length: that works on a full disk too."""
        os.pwrite(file, self.sealed(name, encode_record(record).ljust(_FIXED)), 0)

    def opened(self, name: str) -> int:
        """Open a file to be overwritten in place."""
        self.make_own(name)
        return os.open(name, _OVER, 0o600, dir_fd=self._folder)

    def make_own(self, name: str) -> None:
        """Make a file that is to be written to one of our own: what has other names too may lie elsewhere."""
        try:
            status = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            self.replace(name, self.content(name))

    def remove(self, name: str) -> None:
        """Remove a record, if it is there."""
        try:
            os.unlink(name, dir_fd=self._folder)
        except OSError:
            return

    def sealed(self, name: str, text: str) -> bytes:
        """Give a record's line: its seal and its text."""
        content = text.encode()
        return b"%b %b\n" % (self._seal(name, content), content)

    def unsealed(self, name: str, line: bytes) -> Record | None:
        """Give the record of a line without its end; None if it cannot be believed."""
        seal, _, text = line.partition(b" ")
        if seal != self._seal(name, text):
            return None
        record = json.loads(text)
        return record if isinstance(record, dict) else None

    def replace(self, name: str, content: bytes) -> None:
        """Write a file beside and put it in the place of the older one; raises OSError."""
        beside = "new"
        try:
            file = os.open(beside, _NEW, 0o600, dir_fd=self._folder)
        except FileExistsError:
            os.unlink(beside, dir_fd=self._folder)
            file = os.open(beside, _NEW, 0o600, dir_fd=self._folder)
        try:
            _write_all(file, content)
        finally:
            os.close(file)
        os.rename(beside, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def content(self, name: str, most_bytes: int | None = None) -> bytes:
        """Give what a file holds; empty where it cannot be read or is larger than allowed."""
        try:
            file = os.open(name, _OLD, dir_fd=self._folder)
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
        begun = self._begun.get(name)
        if begun is None:
            begun = self._begun[name] = hashlib.blake2b(name.encode() + b"\0", key=self._key, digest_size=16)
        mark = begun.copy()
        mark.update(text)
        return mark.hexdigest().encode()


class RecordLog:
    """Records of attempts, one line each, in the order in which they were written."""

    __slots__ = ("_file", "_lines", "_name", "_records", "_torn")

    def __init__(self, records: SealedRecords, name: str) -> None:
        self._records = records
        self._name = name
        self._lines = 0
        self._torn = True
        """The last line may have no end: whoever wrote it was killed, or the disk was full."""
        records.make_own(name)
        self._file = os.open(name, _MORE, 0o600, dir_fd=records.folder)

    @property
    def lines(self) -> int:
        """Give how many lines were added since it was opened or rewritten."""
        return self._lines

    def add(self, text: str) -> None:
        """Add an encoded record; raises OSError."""
        line = self._records.sealed(self._name, text)
        torn, self._torn = self._torn, True
        _write_all(self._file, b"\n" + line if torn else line)
        self._torn = False
        self._lines += 1

    def rewrite(self, texts: list[str]) -> None:
        """Keep only these encoded records; raises OSError, and then everything is as before."""
        self._records.replace(self._name, b"".join(self._records.sealed(self._name, text) for text in texts))
        os.close(self._file)
        self._file = os.open(self._name, _MORE, 0o600, dir_fd=self._records.folder)
        self._lines = 0

    @staticmethod
    def read(records: SealedRecords, name: str) -> dict[int, Record]:
        """Give the believable records of a ledger by attempt, the last of each."""
        found: dict[int, Record] = {}
        for line in records.content(name).split(b"\n"):
            record = records.unsealed(name, line) if line else None
            attempt = record.get("attempt") if record is not None else None
            if record is not None and isinstance(attempt, int):
                found[attempt] = record
        return found


def _write_all(file: int, content: bytes) -> None:
    """Write to a file; one that does not take all of it has no more room."""
    written = 0
    while written < len(content):
        part = os.write(file, content[written:] if written else content)
        if part == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += part
