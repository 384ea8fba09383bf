"""Storage of journals: in the project's database, or in a file of JSON lines.

Entries are queued by ``append`` and written by ``commit`` in one transaction, together with the plans they
name and other queued changes (products, run states, replies). The nonce of a new attempt is written together
with the entry that assigns the attempt. A snapshot is written every 10,000 entries; if an execution has N >
10,000 tasks, every N entries, which bounds the cost per entry. The database keeps only the last snapshot.

In a file, the first line is the header. Each plan precedes the first entry that names it, and a snapshot
follows every 10,000 entries.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO, TypeVar

from weft.backends.layout import ProjectLayout, refuse_links
from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.engine.messages import Assign, PlanReady
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.plan import StoredPlan
from weft.engine.state.snapshot import take_snapshot
from weft.engine.state.state import EngineState
from weft.engine.stored_fields import DAMAGE, damaged_journal, decode_index, decode_text, describe_error
from weft.errors import InvalidInput, SourceLocation
from weft.formats.files import STDIN, open_source
from weft.formats.format import SourceFile
from weft.private_files import open_stream
from weft.records import dataclass
from weft.repository.database import Database, open_database
from weft.repository.journal import Journal, JournalHeader, encode_entry, encode_json, read_header
from weft.repository.runs import RunTable

_Read = TypeVar("_Read")

SNAPSHOT_EVERY = 10_000
"""Minimal number of entries between two snapshots."""

_BEGIN = """INSERT INTO execution (fingerprint, state, owner, command, version, started_at_s, header)
    VALUES (?, 'running', ?, ?, ?, ?, ?)"""
_KEEP = "INSERT INTO kept VALUES (?, ?, ?)"
_NOTHING: Mapping[str, str] = {}
_ENTRY = "INSERT INTO entry VALUES (?, ?, ?)"
_ENTRIES = """SELECT number, record FROM entry WHERE execution = ? AND number > ?
    ORDER BY number LIMIT ?"""
_PLAN = "INSERT OR IGNORE INTO plan VALUES (?, ?, ?)"
_ATTEMPT = "INSERT INTO attempt VALUES (?, ?, ?)"
_NONCE = "SELECT nonce FROM attempt WHERE execution = ? AND number = ?"
_NONCES = "SELECT number, nonce FROM attempt WHERE execution = ?"
_SPARE_NONCES = 1_000
"""Number of nonces of ended attempts that are kept in memory."""
_SNAPSHOT = "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)"
_AT_ONCE = 2_000
"""Maximal number of entries per query; a long read transaction would prevent checkpoints of the WAL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltEngine:
    """An engine in the state after the last entry of its journal."""

    engine: Engine
    header: JournalHeader
    entries: int
    """Number of entries in the journal; the next entry gets this sequence number."""


class JournalStore:
    """The journals in a database.

    ``append`` writes to the journal of the last ``begin`` or ``resume``.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.execution = 0
        """Number of the execution whose journal is written; 0: none."""
        self._plans: set[str] = set()
        self._nonces: dict[int, str] = {}
        """By attempt: its nonce. The nonces of all live attempts are included."""
        self._snapshot_at = 0

    def begin(self, header: JournalHeader, kept: Mapping[str, str] = _NOTHING) -> int:
        """Add an execution with its header and the values ``kept`` (by key); return its number, from 1.

        Everything is written in one transaction, because an execution without these values could not be
        resumed.
        """
        row = (
            header.fingerprint,
            header.owner,
            encode_json(list(header.command)),
            header.version,
            header.started_at_s,
            encode_json(header.as_record()),
        )
        with self.database.transaction():
            self.execution = self.database.execute_now(_BEGIN, row)
            for key, value in kept.items():
                self.database.execute_now(_KEEP, (self.execution, key, value))
        self._plans = set()
        self._nonces = {}
        self._snapshot_at = SNAPSHOT_EVERY - 1
        return self.execution

    def extend(self, execution: int, header: JournalHeader) -> None:
        """Replace the header of an execution by one whose platform has more machines."""
        row = (header.fingerprint, encode_json(header.as_record()), execution)
        self.database.execute_now("UPDATE execution SET fingerprint = ?, header = ? WHERE number = ?", row)

    def resume(self, execution: int, compiled: WorkflowLibrary | None = None) -> RebuiltEngine:
        """Rebuild the engine of an execution; ``append`` then continues its journal.

        ``compiled`` are the workflows of the execution; if it is None, they are compiled.
        """
        rebuilt = self.rebuilt(execution, compiled)
        self.execution = execution
        self._plans = set(rebuilt.engine.state.plans)
        live = rebuilt.engine.state.attempts
        known = read_nonces(self.database, execution)
        self._nonces = {number: nonce for number, nonce in known.items() if number in live}
        self._snapshot_at = rebuilt.entries - 1 + SNAPSHOT_EVERY
        return rebuilt

    def append(self, entry: JournalEntry, state: EngineState) -> None:
        """Queue an entry for the next commit; ``state`` is the engine's state after the entry."""
        event = entry.event
        if type(event) is PlanReady and event.plan and event.plan not in self._plans:
            self._plans.add(event.plan)
            record = encode_json(state.plans[event.plan].as_record())
            self.database.queue_insert(_PLAN, (self.execution, event.plan, record))
        self.database.queue_insert(_ENTRY, (self.execution, entry.sequence, encode_entry(entry)))
        for command in entry.commands:
            if type(command) is Assign:
                self._draw_nonce(command.attempt, state)
        if entry.sequence >= self._snapshot_at:
            tasks = sum(len(run.state) for run in state.runs)
            self._snapshot_at = entry.sequence + max(SNAPSHOT_EVERY, tasks)
            self.database.queue_insert(
                _SNAPSHOT, (self.execution, entry.sequence, encode_json(take_snapshot(state)))
            )

    def _draw_nonce(self, attempt: int, state: EngineState) -> None:
        nonce = self._nonces[attempt] = os.urandom(16).hex()
        self.database.queue_insert(_ATTEMPT, (self.execution, attempt, nonce))
        if len(self._nonces) > 2 * len(state.attempts) + _SPARE_NONCES:
            live = state.attempts
            self._nonces = {number: each for number, each in self._nonces.items() if number in live}

    def attempt_nonce(self, attempt: int) -> str:
        """Return the nonce of an attempt of this execution: 128 random bits, in hexadecimal.

        Return "" if the attempt is not in the journal, or if an older version of weft recorded it.
        """
        if (known := self._nonces.get(attempt)) is not None:
            return known
        return find_nonce(self.database, self.execution, attempt)

    def is_known(self, execution: int, attempt: int, nonce: str) -> bool:
        """Return whether the journal of an execution has an attempt with this number and this nonce."""
        return bool(nonce) and find_nonce(self.database, execution, attempt) == nonce

    def commit(self) -> int:
        """Write the queued entries; return their position, which can be compared with ``durable``.

        Afterwards the commands of the entries may be executed.
        """
        self.database.commit()
        return self.database.position

    @property
    def durable(self) -> int:
        """Return the position up to which all entries are on disk; raise StorageProblem if a sync failed."""
        return self.database.durable

    def request_sync(self, position: int) -> None:
        """Make the entries up to a position durable without delay."""
        self.database.request_sync(position)

    def wait_until_durable(self) -> None:
        """Wait until all committed entries are on disk."""
        self.database.wait_until_durable()

    def header(self, execution: int) -> JournalHeader:
        """Return the journal header of an execution; raise InvalidInput if there is no such execution."""
        found = self.database.row("SELECT header FROM execution WHERE number = ?", (execution,))
        if found is None:
            raise InvalidInput(
                f"no execution {execution}", advice="`weft ls` lists all runs", location=self._location
            )
        return self._read("the header", found[0], read_header)

    def entries_after(self, execution: int, after: int = -1, *, most: int = _AT_ONCE) -> list[JournalEntry]:
        """Return the next entries of an execution after entry number ``after``, at most ``most``."""
        found = self.database.rows(_ENTRIES, (execution, after, most))
        entries = [self._read(f"entry {number}", text, JournalEntry.of_record) for number, text in found]
        for number, entry in enumerate(entries, start=after + 1):
            if entry.sequence != number:
                raise _located(_gap(number, entry), self._location)
        return entries

    def all_after(self, execution: int, after: int = -1) -> Iterator[JournalEntry]:
        """Yield all entries of an execution after entry number ``after``."""
        while True:
            found = self.entries_after(execution, after)
            yield from found
            if len(found) < _AT_ONCE:
                return
            after = found[-1].sequence

    def read(self, execution: int) -> Journal:
        """Return the whole journal of an execution."""
        header = self.header(execution)
        # Read the entries before the plans, so that every plan that an entry names is found.
        entries = tuple(self.all_after(execution))
        snapshots = {after: state for after, state in self._snapshot(execution) if after < len(entries)}
        return Journal(header=header, plans=self.plans(execution), entries=entries, snapshots=snapshots)

    def rebuilt(self, execution: int, compiled: WorkflowLibrary | None = None) -> RebuiltEngine:
        """Return the engine of an execution after its last entry.

        It is rebuilt from the last snapshot and the entries after the snapshot.
        """
        snapshots = dict(self._snapshot(execution))
        last = max(snapshots, default=-1)
        entries = list(self.all_after(execution, last))
        journal = Journal(
            header=self.header(execution),
            plans=self.plans(execution),
            entries=(),
            snapshots=snapshots,
            compiled=compiled,
        )
        engine = journal.rebuilt_from(last, entries)
        return RebuiltEngine(engine=engine, header=journal.header, entries=last + 1 + len(entries))

    def plans(self, execution: int) -> dict[str, StoredPlan]:
        """Return the stored plans of an execution by content hash."""
        found = self.database.rows("SELECT key, record FROM plan WHERE execution = ?", (execution,))
        return {key: self._read(f"plan {key}", text, StoredPlan.of_record) for key, text in found}

    def _snapshot(self, execution: int) -> list[tuple[int, Mapping[str, Any]]]:
        found = self.database.rows("SELECT entry, state FROM snapshot WHERE execution = ?", (execution,))
        return [(after, self._read("the snapshot", text, dict)) for after, text in found]

    def _read(self, what: str, text: str, read: Callable[[Any], _Read]) -> _Read:
        """Decode a text as JSON and return the result of ``read``.

        Errors name ``what`` and the database file.
        """
        try:
            return read(json.loads(text))
        except InvalidInput as error:
            raise _located(error, self._location, f"{what}: ") from None
        except DAMAGE as error:
            raise _located(damaged_journal(what, error), self._location) from None

    @property
    def _location(self) -> SourceLocation:
        return SourceLocation(file=str(self.database.path))


def find_nonce(database: Database, execution: int, attempt: int) -> str:
    """Return the committed nonce of an attempt; "" if there is none."""
    found = database.row(_NONCE, (execution, attempt))
    return "" if found is None else str(found[0])


def read_nonces(database: Database, execution: int) -> dict[int, str]:
    """Return the committed nonces of an execution by attempt."""
    found = database.rows(_NONCES, (execution,))
    try:
        return {decode_index(number): decode_text(nonce) for number, nonce in found}
    except TypeError as error:
        location = SourceLocation(file=str(database.path))
        raise _located(damaged_journal("the nonces of attempts", error), location) from None


def _gap(number: int, entry: JournalEntry) -> InvalidInput:
    """Return the error about an entry whose number is not the expected ``number``."""
    return damaged_journal(f"entry {number}", ValueError(f"its place contains entry {entry.sequence}"))


def _located(error: InvalidInput, location: SourceLocation, prefix: str = "") -> InvalidInput:
    """Return an error with the same problems, located at ``location``; ``prefix`` precedes each text."""
    return InvalidInput(
        [replace(each, what=f"{prefix}{each.what}", location=location) for each in error.problems]
    )


class JournalFileWriter:
    """Writes a journal as JSON lines."""

    def __init__(self, stream: TextIO, header: JournalHeader) -> None:
        self._stream = stream
        self._written: set[str] = set()
        self._line(encode_json(header.as_record()))

    def write(self, entry: JournalEntry, state: EngineState) -> None:
        """Write an entry; ``state`` is the engine's state after the entry."""
        event = entry.event
        if isinstance(event, PlanReady) and event.plan and event.plan not in self._written:
            self._written.add(event.plan)
            self._line(encode_json({"plan": event.plan, **state.plans[event.plan].as_record()}))
        self._line(encode_entry(entry))
        if (entry.sequence + 1) % SNAPSHOT_EVERY == 0:
            self._line(encode_json({"snapshot": entry.sequence, "state": take_snapshot(state)}))

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")


@contextmanager
def open_journal_file(name: str | Path, header: JournalHeader) -> Iterator[JournalFileWriter]:
    """Context manager that writes a journal file; raises InvalidInput if the file cannot be opened."""
    try:
        stream = io.TextIOWrapper(open_stream(Path(name)), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write journal {str(name)!r}: {error.strerror}") from None
    with stream:
        yield JournalFileWriter(stream, header)


def read_journal_file(file: str | Path | SourceFile) -> Journal:
    """Return the journal in a file of JSON lines."""
    source = file if isinstance(file, SourceFile) else open_source(file)
    # Not splitlines: strings may contain Unicode line separators.
    if (lines := source.text().removesuffix("\n").split("\n")) == [""]:
        advice = "`weft simulate --journal FILE` writes a journal"
        raise InvalidInput("the file is empty", advice=advice, location=SourceLocation(file=source.name))
    header = _read_line(source.name, 1, lines[0], read_header)
    plans: dict[str, StoredPlan] = {}
    snapshots: dict[int, Mapping[str, Any]] = {}
    entries: list[JournalEntry] = []
    for number, line in enumerate(lines[1:], start=2):
        match _read_line(source.name, number, line, _decode_line):
            case JournalEntry() as entry:
                if entry.sequence != len(entries):
                    location = SourceLocation(file=source.name, line=number)
                    raise _located(_gap(len(entries), entry), location)
                entries.append(entry)
            case str(key), StoredPlan() as plan:
                plans[key] = plan
            case after, state:
                snapshots[after] = state
    return Journal(header=header, plans=plans, entries=tuple(entries), snapshots=snapshots)


def _read_line(file: str, number: int, line: str, read: Any) -> Any:
    """Decode one line as JSON and return the result of ``read``; errors name the file and the line."""
    location = SourceLocation(file=file, line=number)
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise TypeError("a line must be a JSON object")
        return read(record)
    except InvalidInput as error:
        raise _located(error, location) from None
    except DAMAGE as error:
        if number > 1:
            raise _located(damaged_journal(f"line {number}", error), location) from None
        what, advice = (
            f"not a journal: {describe_error(error)}",
            "`weft simulate --journal FILE` writes a journal",
        )
        raise InvalidInput(what, advice=advice, location=location) from None


def _decode_line(
    record: dict[str, Any],
) -> JournalEntry | tuple[str, StoredPlan] | tuple[int, Mapping[str, Any]]:
    """Return what a line after the header contains: an entry, (key, plan), or (entry number, snapshot)."""
    if "plan" in record:
        return decode_text(record["plan"]), StoredPlan.of_record(record)
    if "snapshot" in record:
        return decode_index(record["snapshot"]), record["state"]
    return JournalEntry.of_record(record)


_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedJournal:
    """A journal and one of its runs."""

    journal: Journal
    position: int
    """Position of the run within the journal, from 0."""
    number: int | None = None
    """Number of the run as shown by ``weft ls``; None: the journal does not belong to a project."""
    execution: int | None = None
    database: Path | None = None
    """Database that contains the journal under the number ``execution``.

    None: the journal does not belong to a project.
    """


def find_journal(name: str | Path, run: int | None = None) -> SelectedJournal:
    """Return a journal and one of its runs.

    ``name`` is a journal file, a database, a project or its ``.weft`` directory. For a project or database,
    ``run`` is the number shown by ``weft ls`` (None: the last run). For a file of JSON lines it is the
    position of the run within the file, from 0.
    """
    path = Path(name)
    database = path if _is_database(path) else None
    if str(name) and path.is_dir():
        project = path.parent if path.name == ".weft" else path
        refuse_links(project)
        database = ProjectLayout(project).database
        if not os.path.lexists(database):
            advice = "name a project in which `weft run` was called, or a journal file"
            raise InvalidInput(f"no runs in '{path}'", advice=advice)
    if database is None:
        return SelectedJournal(journal=read_journal_file(name), position=run or 0)
    with open_database(database) as opened:
        meant = RunTable(opened).run(run)
        journal = JournalStore(opened).read(meant.execution)
    return SelectedJournal(
        journal=journal,
        position=meant.position,
        number=meant.number,
        execution=meant.execution,
        database=database,
    )


def _is_database(path: Path) -> bool:
    """Return whether a file starts with SQLite's magic bytes; False if the file cannot be read."""
    if str(path) == STDIN or not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
