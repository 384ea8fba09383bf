"""Where a journal is read from: a file of JSON lines, a database, or the project that holds one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.backends.layout import Layout, refuse_links
from weft.errors import InvalidInput, Problem
from weft.formats.files import STDIN
from weft.repository.database import open_database
from weft.repository.journal import Journal
from weft.repository.journal_files import read_journal_file
from weft.repository.journal_store import JournalStore
from weft.repository.runs import Runs

__all__ = ["FoundJournal", "find_journal"]

_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJournal:
    """A journal, and the run of it that was meant."""

    journal: Journal
    position: int
    """The run's number within the journal, from 0."""
    number: int | None = None
    """The number that ``weft ls`` shows; None: it is not of a project."""


def find_journal(name: str | Path, run: int | None = None) -> FoundJournal:
    """Read the journal that a name means.

    A project's folder, its ``.weft`` and the database in it hold many journals: ``run`` is the number that
    ``weft ls`` shows, if not given the last. Of a file of JSON lines it is the run's place within it, from 0.
    """
    path = Path(name)
    database = path if _is_database(path) else None
    if str(name) and path.is_dir():
        project = path.parent if path.name == ".weft" else path
        refuse_links(project)
        database = Layout(project).database
        if not database.is_file():
            advice = "name a project in which `weft run` was called, or a journal file"
            raise InvalidInput(Problem(what=f"no runs in '{path}'", advice=advice))
    if database is None:
        return FoundJournal(journal=read_journal_file(name), position=run or 0)
    with open_database(database) as opened:
        meant = Runs(opened).run(run)
        journal = JournalStore(opened).read(meant.execution)
    return FoundJournal(journal=journal, position=meant.position, number=meant.number)


def _is_database(path: Path) -> bool:
    """Say whether a file begins as SQLite's do; what cannot be read is told by whoever reads it."""
    if str(path) == STDIN or not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
