"""The journal in the database: written before a command leaves, group-committed, read back after a crash.

Entries are gathered by ``append`` and written by ``commit``, all since the last in one transaction, together
with the plans they name and whatever else was remembered meanwhile (products, states of runs, answers). A
snapshot is written every 10,000 entries, in large states not before as many entries as there are tasks have
passed: so its cost per entry is bounded. Only the last is kept.

Journal files: a journal in JSON lines.

The first line is the header. Then come the entries, each plan before the first entry that names it, and after
every 10,000 entries a snapshot of the state, from which it can be rebuilt without applying what came before.

Where a journal is read from: a file of JSON lines, a database, or the project that holds one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

from weft.backends.layout import ProjectLayout, refuse_links
from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.engine.messages import PlanReady
from weft.engine.state.plan import StoredPlan
from weft.engine.state.snapshot import take_snapshot
from weft.engine.state.state import EngineState
from weft.errors import InvalidInput, Problem, SourceLocation
from weft.formats.files import STDIN, open_source
from weft.formats.format import SourceFile
from weft.repository.database import Database, open_database
from weft.repository.journal import Journal, JournalHeader, encode_entry, encode_json, read_header
from weft.repository.runs import RunTable

__all__ = [
    "FILE_SNAPSHOT_EVERY",
    "SNAPSHOT_EVERY",
    "JournalFileWriter",
    "JournalStore",
    "RebuiltEngine",
    "SelectedJournal",
    "find_journal",
    "open_journal_file",
    "read_journal_file",
]


_Read = TypeVar("_Read")

SNAPSHOT_EVERY = 10_000
"""Entries between two snapshots, at least."""

_BEGIN = """INSERT INTO execution (fingerprint, state, owner, command, version, started_at_s, header)
    VALUES (?, 'running', ?, ?, ?, ?, ?)"""
_KEEP = "INSERT INTO kept VALUES (?, ?, ?)"
_NOTHING: Mapping[str, str] = {}
_ENTRY = "INSERT INTO entry VALUES (?, ?, ?)"
_ENTRIES = """SELECT number, record FROM entry WHERE execution = ? AND number > ?
    ORDER BY number LIMIT ?"""
_PLAN = "INSERT OR IGNORE INTO plan VALUES (?, ?, ?)"
_SNAPSHOT = "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)"
_AT_ONCE = 2_000
"""Entries that are read in one go: readers must not keep the engine from tidying the file up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltEngine:
    """An engine as it was when the journal ended."""

    engine: Engine
    header: JournalHeader
    entries: int
    """How many the journal has: the number of the next one."""


class JournalStore:
    """The journals of a database. One is written at a time: that of the last ``begin`` or ``resume``."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.execution = 0
        """The one that is written; 0: none yet."""
        self._plans: set[str] = set()
        self._snapshot_at = 0

    def begin(self, header: JournalHeader, kept: Mapping[str, str] = _NOTHING) -> int:
        """Begin an execution; give its number, counted from 1. ``kept``: what is remembered of it, by key.

        Both are there or none: an execution of which only the header is known could not be gone on with.
        """
        row = (
            header.fingerprint,
            header.owner,
            encode_json(list(header.command)),
            header.version,
            header.started_at_s,
            encode_json(header.as_record()),
        )
        with self.database.at_once():
            self.execution = self.database.now(_BEGIN, row)
            for key, value in kept.items():
                self.database.now(_KEEP, (self.execution, key, value))
        self._plans = set()
        self._snapshot_at = SNAPSHOT_EVERY - 1
        return self.execution

    def resume(self, execution: int) -> RebuiltEngine:
        """Rebuild an execution's engine, and write its journal from now on."""
        rebuilt = self.rebuilt(execution)
        self.execution = execution
        self._plans = set(rebuilt.engine.state.plans)
        self._snapshot_at = rebuilt.entries - 1 + SNAPSHOT_EVERY
        return rebuilt

    def append(self, entry: JournalEntry, state: EngineState) -> None:
        """Keep an entry for the next commit; ``state`` is the engine's after it."""
        event = entry.event
        if type(event) is PlanReady and event.plan and event.plan not in self._plans:
            self._plans.add(event.plan)
            record = encode_json(state.plans[event.plan].as_record())
            self.database.queue_insert(_PLAN, (self.execution, event.plan, record))
        self.database.queue_insert(_ENTRY, (self.execution, entry.sequence, encode_entry(entry)))
        if entry.sequence >= self._snapshot_at:
            tasks = sum(len(run.state) for run in state.runs)
            self._snapshot_at = entry.sequence + max(SNAPSHOT_EVERY, tasks)
            self.database.queue_insert(
                _SNAPSHOT, (self.execution, entry.sequence, encode_json(take_snapshot(state)))
            )

    def commit(self) -> None:
        """Write what was kept; after this commands may leave."""
        self.database.commit()

    def header(self, execution: int) -> JournalHeader:
        """Read a header."""
        found = self.database.row("SELECT header FROM execution WHERE number = ?", (execution,))
        if found is None:
            raise InvalidInput(
                Problem(
                    what=f"no execution {execution}",
                    advice="`weft ls` lists those there are",
                    place=SourceLocation(file=str(self.database.path)),
                )
            )
        return self._read("the header", found[0], read_header)

    def entries_after(self, execution: int, after: int = -1, *, most: int = _AT_ONCE) -> list[JournalEntry]:
        """Read the entries that follow one, by its number, at most so many."""
        found = self.database.rows(_ENTRIES, (execution, after, most))
        return [self._read(f"entry {number}", text, JournalEntry.of_record) for number, text in found]

    def all_after(self, execution: int, after: int = -1) -> Iterator[JournalEntry]:
        """Read all entries that follow one."""
        while True:
            found = self.entries_after(execution, after)
            yield from found
            if len(found) < _AT_ONCE:
                return
            after = found[-1].sequence

    def read(self, execution: int) -> Journal:
        """Read a journal whole."""
        header = self.header(execution)
        # Before the plans: what is committed meanwhile must not name a plan that was not read.
        entries = tuple(self.all_after(execution))
        snapshots = {after: state for after, state in self._snapshot(execution) if after < len(entries)}
        return Journal(header=header, plans=self.plans(execution), entries=entries, snapshots=snapshots)

    def rebuilt(self, execution: int) -> RebuiltEngine:
        """Rebuild the engine as it was when the journal ended, without reading what the snapshot spares."""
        snapshots = dict(self._snapshot(execution))
        last = max(snapshots, default=-1)
        entries = list(self.all_after(execution, last))
        journal = Journal(
            header=self.header(execution), plans=self.plans(execution), entries=(), snapshots=snapshots
        )
        engine = journal.rebuilt_from(last, entries)
        return RebuiltEngine(engine=engine, header=journal.header, entries=last + 1 + len(entries))

    def plans(self, execution: int) -> dict[str, StoredPlan]:
        """Read the plans of an execution."""
        found = self.database.rows("SELECT key, record FROM plan WHERE execution = ?", (execution,))
        return {key: self._read(f"plan {key}", text, StoredPlan.of_record) for key, text in found}

    def _snapshot(self, execution: int) -> list[tuple[int, Mapping[str, Any]]]:
        found = self.database.rows("SELECT entry, state FROM snapshot WHERE execution = ?", (execution,))
        return [(after, self._read("the snapshot", text, dict)) for after, text in found]

    def _read(self, what: str, text: str, read: Callable[[Any], _Read]) -> _Read:
        """Read a record; whatever is wrong with it is told with its place."""
        place = SourceLocation(file=str(self.database.path))
        try:
            return read(json.loads(text))
        except InvalidInput as error:
            raise InvalidInput(
                [Problem(what=f"{what}: {each}", place=place) for each in error.problems]
            ) from None
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            advice = "the database is damaged: restore it from a copy"
            raise InvalidInput(
                Problem(what=f"{what} cannot be read: {error!r}", advice=advice, place=place)
            ) from None


FILE_SNAPSHOT_EVERY = 10_000
"""Entries between two snapshots."""


class JournalFileWriter:
    """Writes entries, and plans before the entries that name them."""

    def __init__(self, stream: TextIO, header: JournalHeader) -> None:
        self._stream = stream
        self._written: set[str] = set()
        self._line(encode_json(header.as_record()))

    def write(self, entry: JournalEntry, state: EngineState) -> None:
        """Write an entry; ``state`` is the engine's after it."""
        event = entry.event
        if isinstance(event, PlanReady) and event.plan and event.plan not in self._written:
            self._written.add(event.plan)
            self._line(encode_json({"plan": event.plan, **state.plans[event.plan].as_record()}))
        self._line(encode_entry(entry))
        if (entry.sequence + 1) % FILE_SNAPSHOT_EVERY == 0:
            self._line(encode_json({"snapshot": entry.sequence, "state": take_snapshot(state)}))

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")


@contextmanager
def open_journal_file(name: str | Path, header: JournalHeader) -> Iterator[JournalFileWriter]:
    """Open a file to write a journal to; what stands in the way is an InvalidInput."""
    try:
        stream = Path(name).open("w", encoding="utf-8")  # noqa: SIM115 -- closed below, whatever happens
    except OSError as error:
        raise InvalidInput(Problem(what=f"cannot write {str(name)!r}: {error.strerror}")) from None
    with stream:
        yield JournalFileWriter(stream, header)


def read_journal_file(file: str | Path | SourceFile) -> Journal:
    """Read a journal file whole."""
    source = file if isinstance(file, SourceFile) else open_source(file)
    lines = source.text().removesuffix("\n").split("\n")  # not splitlines: texts may hold Unicode's line ends
    if lines == [""]:
        advice = "`weft simulate --journal FILE` writes one"
        raise InvalidInput(
            Problem(what="the file is empty", advice=advice, place=SourceLocation(file=source.name))
        )
    header = _read_line(source.name, 1, lines[0], read_header)
    plans: dict[str, StoredPlan] = {}
    snapshots: dict[int, Mapping[str, Any]] = {}
    entries: list[JournalEntry] = []
    for number, line in enumerate(lines[1:], start=2):
        match _read_line(source.name, number, line, _decode_line):
            case JournalEntry() as entry:
                entries.append(entry)
            case str(key), StoredPlan() as plan:
                plans[key] = plan
            case after, state:
                snapshots[after] = state
    return Journal(header=header, plans=plans, entries=tuple(entries), snapshots=snapshots)


def _read_line(file: str, number: int, line: str, read: Any) -> Any:
    """Read one line; whatever is wrong with it is told with its place."""
    place = SourceLocation(file=file, line=number)
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise TypeError(type(record).__name__)
        return read(record)
    except InvalidInput as error:
        raise InvalidInput([Problem(what=str(each), place=place) for each in error.problems]) from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        advice = "`weft simulate --journal FILE` writes one" if number == 1 else "the line is damaged"
        raise InvalidInput(
            Problem(what=f"not a line of a journal: {_describe_error(error)}", advice=advice, place=place)
        ) from None


def _describe_error(error: Exception) -> str:
    return f"no {error} in it" if isinstance(error, KeyError) else str(error)


def _decode_line(
    record: dict[str, Any],
) -> JournalEntry | tuple[str, StoredPlan] | tuple[int, Mapping[str, Any]]:
    """Read a line below the header: an entry, a plan with its key, or a snapshot with its entry's number."""
    if "plan" in record:
        return record["plan"], StoredPlan.of_record(record)
    if "snapshot" in record:
        return int(record["snapshot"]), record["state"]
    return JournalEntry.of_record(record)


_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedJournal:
    """A journal, and the run of it that was meant."""

    journal: Journal
    position: int
    """The run's number within the journal, from 0."""
    number: int | None = None
    """The number that ``weft ls`` shows; None: it is not of a project."""


def find_journal(name: str | Path, run: int | None = None) -> SelectedJournal:
    """Read the journal that a name means.

    A project's folder, its ``.weft`` and the database in it hold many journals: ``run`` is the number that
    ``weft ls`` shows, if not given the last. Of a file of JSON lines it is the run's place within it, from 0.
    """
    path = Path(name)
    database = path if _is_database(path) else None
    if str(name) and path.is_dir():
        project = path.parent if path.name == ".weft" else path
        refuse_links(project)
        database = ProjectLayout(project).database
        if not database.is_file():
            advice = "name a project in which `weft run` was called, or a journal file"
            raise InvalidInput(Problem(what=f"no runs in '{path}'", advice=advice))
    if database is None:
        return SelectedJournal(journal=read_journal_file(name), position=run or 0)
    with open_database(database) as opened:
        meant = RunTable(opened).run(run)
        journal = JournalStore(opened).read(meant.execution)
    return SelectedJournal(journal=journal, position=meant.position, number=meant.number)


def _is_database(path: Path) -> bool:
    """Say whether a file begins as SQLite's do; what cannot be read is told by whoever reads it."""
    if str(path) == STDIN or not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
