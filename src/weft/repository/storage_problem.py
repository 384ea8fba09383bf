"""What can go wrong with the database file, told so that one knows what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from weft.errors import InvalidInput, Place, Problem, WeftError

__all__ = ["StorageProblem", "problem_of"]

_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: make room, then `weft resume` goes on where it stopped",
    sqlite3.SQLITE_IOERR: "the disk is full, or it is failing: look at it, then `weft resume`",
    sqlite3.SQLITE_READONLY: "it may not be written to: check its permissions and those of its folder",
    sqlite3.SQLITE_PERM: "check its permissions and those of its folder",
    sqlite3.SQLITE_CANTOPEN: "check that its folder exists and that you may write there",
    sqlite3.SQLITE_BUSY: "another process holds it for long: `weft status` names the engine at work",
    sqlite3.SQLITE_LOCKED: "another process holds it for long: `weft status` names the engine at work",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class StorageProblem(WeftError):
    """The database cannot be read or written now, through no fault of what stands in it."""


def problem_of(error: sqlite3.Error, path: Path) -> WeftError:
    """Say what an error of SQLite means for a user."""
    # The lower byte is the kind, the others say more than is needed. None: a complaint of Python's own.
    code = getattr(error, "sqlite_errorcode", None)
    kind = None if code is None else code & 0xFF
    if kind in _DAMAGED:
        advice = "restore it from a copy, or move it away to begin anew"
        what = f"the database is damaged, or is none: {error}"
        return InvalidInput(Problem(what=what, advice=advice, place=Place(file=str(path))))
    advice = _ADVICE.get(kind, "") if kind is not None else ""
    return StorageProblem(f"{path}: {error}" + (f"; {advice}" if advice else ""))
