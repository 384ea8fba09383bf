"""Journal files: a journal in JSON lines.

The first line is the header. Then come the entries, each plan before the first entry that names it, and after
every 10,000 entries a snapshot of the state, from which it can be rebuilt without applying what came before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from weft.engine.journal import Entry
from weft.engine.messages.events import PlanReady
from weft.engine.state.plans import StoredPlan
from weft.engine.state.snapshot import snapshot
from weft.engine.state.state import State
from weft.errors import InvalidInput, Place, Problem
from weft.formats.files import open_source
from weft.formats.format import Source
from weft.repository.encoding import entry_text, json_text
from weft.repository.header import Header, checked_header
from weft.repository.journal import Journal

__all__ = ["SNAPSHOT_EVERY", "JournalWriter", "journal_file", "read_journal_file"]

SNAPSHOT_EVERY = 10_000
"""Entries between two snapshots."""


class JournalWriter:
    """Writes entries, and plans before the entries that name them."""

    def __init__(self, stream: TextIO, header: Header) -> None:
        self._stream = stream
        self._written: set[str] = set()
        self._line(json_text(header.as_record()))

    def write(self, entry: Entry, state: State) -> None:
        """Write an entry; ``state`` is the engine's after it."""
        event = entry.event
        if isinstance(event, PlanReady) and event.plan and event.plan not in self._written:
            self._written.add(event.plan)
            self._line(json_text({"plan": event.plan, **state.plans[event.plan].as_record()}))
        self._line(entry_text(entry))
        if (entry.sequence + 1) % SNAPSHOT_EVERY == 0:
            self._line(json_text({"snapshot": entry.sequence, "state": snapshot(state)}))

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")


@contextmanager
def journal_file(name: str | Path, header: Header) -> Iterator[JournalWriter]:
    """Open a file to write a journal to; what stands in the way is an InvalidInput."""
    try:
        stream = Path(name).open("w", encoding="utf-8")  # noqa: SIM115 -- closed below, whatever happens
    except OSError as error:
        raise InvalidInput(Problem(what=f"cannot write {str(name)!r}: {error.strerror}")) from None
    with stream:
        yield JournalWriter(stream, header)


def read_journal_file(file: str | Path | Source) -> Journal:
    """Read a journal file whole."""
    source = file if isinstance(file, Source) else open_source(file)
    lines = source.text().removesuffix("\n").split("\n")  # not splitlines: texts may hold Unicode's line ends
    if lines == [""]:
        advice = "`weft simulate --journal FILE` writes one"
        raise InvalidInput(Problem(what="the file is empty", advice=advice, place=Place(file=source.name)))
    header = _read(source.name, 1, lines[0], checked_header)
    plans: dict[str, StoredPlan] = {}
    snapshots: dict[int, Mapping[str, Any]] = {}
    entries: list[Entry] = []
    for number, line in enumerate(lines[1:], start=2):
        match _read(source.name, number, line, _meaning):
            case Entry() as entry:
                entries.append(entry)
            case str(key), StoredPlan() as plan:
                plans[key] = plan
            case after, state:
                snapshots[after] = state
    return Journal(header=header, plans=plans, entries=tuple(entries), snapshots=snapshots)


def _read(file: str, number: int, line: str, read: Any) -> Any:
    """Read one line; whatever is wrong with it is told with its place."""
    place = Place(file=file, line=number)
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
            Problem(what=f"not a line of a journal: {_story(error)}", advice=advice, place=place)
        ) from None


def _story(error: Exception) -> str:
    return f"no {error} in it" if isinstance(error, KeyError) else str(error)


def _meaning(record: dict[str, Any]) -> Entry | tuple[str, StoredPlan] | tuple[int, Mapping[str, Any]]:
    """Read a line below the header: an entry, a plan with its key, or a snapshot with its entry's number."""
    if "plan" in record:
        return record["plan"], StoredPlan.of_record(record)
    if "snapshot" in record:
        return int(record["snapshot"]), record["state"]
    return Entry.of_record(record)
