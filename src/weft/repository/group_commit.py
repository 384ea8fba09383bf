"""Group commit: a thread that makes the commits of an engine durable.

SQLite writes a commit to the write-ahead log (WAL) without waiting for the disk (``synchronous=NORMAL``). The
thread calls fdatasync on the log; one call covers all commits before it. Unless another thread waits for a
sync, the call is delayed by up to ``_DELAY_S``, so that it covers more commits.

After a failed fdatasync the kernel may have dropped the data although the file still shows them, and a second
call can succeed without writing them. Therefore the first failure is final: nothing more is written, and the
engine stops. The next engine copies the whole log into the database file when it opens the database.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from weft.backends.attempt.file_sync import sync_directory

_DELAY_S = 0.02
"""Seconds by which the sync of a commit is delayed if nothing waits for it.

Together with the time of fdatasync, this is at most 50 ms.
"""


class GroupCommit:
    """Syncs the write-ahead log of a database in a thread.

    A position is a number of commits: position 3 is durable when the first three commits are.
    """

    def __init__(self, log: Path, wake: Callable[[], None]) -> None:
        """Start the thread for a log; ``wake`` is called when a requested position has become durable."""
        self.durable = 0
        """Number of commits that are on disk."""
        self.problem: OSError | None = None
        """The error of a failed sync, after which nothing may be written; None: no sync has failed."""
        self._log = log
        self._wake = wake
        self._written = 0
        self._needed = 0
        """Position that must become durable without delay."""
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="group-commit", daemon=True)
        self._thread.start()

    def add(self, position: int) -> None:
        """Tell the thread that all commits up to a position were written to the log."""
        with self._changed:
            idle = self._written == self.durable
            self._written = position
            if idle:
                self._changed.notify_all()

    def request(self, position: int) -> None:
        """Sync a position without delay; ``wake`` is called when this is done or has failed."""
        with self._changed:
            if position > self._needed:
                self._needed = position
                self._changed.notify_all()

    def wait(self, position: int) -> None:
        """Wait until a position is durable, or until a sync has failed (see ``problem``)."""
        self.request(position)
        with self._changed:
            self._changed.wait_for(lambda: self.durable >= position or self.problem is not None)

    def close(self) -> None:
        """Sync everything that was written, and end the thread; ``wake`` is not called any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        try:
            log = os.open(self._log, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                self._sync_entries()
                while (position := self._next()) is not None:
                    os.fdatasync(log)
                    self._report(position)
            finally:
                os.close(log)
        except OSError as error:
            self._report(self.durable, error)

    def _sync_entries(self) -> None:
        """Sync the directory entries of the log and of the database, and the entry of their folder."""
        folder = self._log.absolute().parent
        sync_directory(folder)
        sync_directory(folder.parent)

    def _next(self) -> int | None:
        """Wait for commits; return the position to sync, or None if the thread must end."""
        with self._changed:
            self._changed.wait_for(lambda: self._written > self.durable or self._closed)
            self._changed.wait_for(lambda: self._needed > self.durable or self._closed, timeout=_DELAY_S)
            return self._written if self._written > self.durable else None

    def _report(self, position: int, problem: OSError | None = None) -> None:
        with self._changed:
            awaited = self._needed > self.durable or problem is not None
            self.durable, self.problem = position, problem
            self._changed.notify_all()
            if awaited and not self._closed:
                self._wake()
