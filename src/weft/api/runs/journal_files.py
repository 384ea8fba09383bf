"""Journal files: JSON lines from which alone a run can be rebuilt, replayed and explained.

The first line says who decided and on what: version, policy, settings, seed, the frozen workflows and the
platform. Then come the entries, each plan before the first entry that names it, and after every 10,000
entries a snapshot of the state, from which it can be rebuilt without applying what came before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from weft import __version__
from weft.documents import Document, from_python
from weft.engine.engine import Engine
from weft.engine.journal import SCHEMA, Entry
from weft.engine.messages.events import PlanReady
from weft.engine.replaying import rebuild
from weft.engine.settings import Replanning, Settings
from weft.engine.state.known import Library
from weft.engine.state.plans import StoredPlan
from weft.engine.state.snapshot import restore, snapshot
from weft.engine.state.state import State
from weft.errors import InvalidInput, Place, Problem
from weft.formats.files import open_source
from weft.instance.compilation import compile_instance
from weft.platform.platform import Platform
from weft.platform.reading import read_platform
from weft.platform.writing import platform_document
from weft.policies.naming import policy_named
from weft.policies.policy import Policy
from weft.workflow.checks import checked_graph
from weft.workflow.reading.workflow_reader import read_workflow
from weft.workflow.records.workflow import Workflow
from weft.workflow.writing import workflow_document

__all__ = ["SNAPSHOT_EVERY", "Header", "Journal", "JournalWriter", "journal_file", "read_journal"]

SNAPSHOT_EVERY = 10_000
"""Entries between two snapshots."""

_KIND = "weft-journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands above the entries."""

    policy: str
    settings: Settings
    seed: int
    planner: str
    platform: Platform
    workflows: Mapping[str, Workflow]
    scenario: str = ""
    """Its name; what it says is no business of an engine."""
    version: str = __version__

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "kind": _KIND,
            "schema": SCHEMA,
            "weft": self.version,
            "policy": self.policy,
            "planner": self.planner,
            "seed": self.seed,
            "scenario": self.scenario,
            "settings": asdict(self.settings),
            "platform": platform_document(self.platform),
            "workflows": {key: workflow_document(workflow) for key, workflow in self.workflows.items()},
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Header:
        """Read what ``as_record`` gives."""
        return cls(
            policy=record["policy"],
            settings=_settings(record["settings"]),
            seed=record["seed"],
            planner=record["planner"],
            platform=read_platform(from_python(record["platform"])),
            workflows={key: _workflow(key, document) for key, document in record["workflows"].items()},
            scenario=record["scenario"],
            version=record["weft"],
        )


def _settings(record: Mapping[str, Any]) -> Settings:
    known = {field.name for field in fields(Settings)}
    stated = dict(record)
    unknown = sorted(stated.keys() - known)
    if unknown:
        what = f"settings this version does not know: {', '.join(unknown)}"
        raise InvalidInput(Problem(what=what, advice="read the journal with the version that wrote it"))
    if stated.get("replanning") is not None:
        stated["replanning"] = Replanning(**stated["replanning"])
    return Settings(**stated)


def _workflow(key: str, document: Mapping[str, Any]) -> Workflow:
    workflow, reader = read_workflow(Document(root=from_python(document)), default_name=key)
    reader.finish()
    return workflow


@dataclass(frozen=True, kw_only=True)
class Journal:
    """A journal that was read."""

    header: Header
    plans: Mapping[str, StoredPlan]
    entries: tuple[Entry, ...]
    snapshots: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """By the number of the entry after which each was taken."""

    @cached_property
    def library(self) -> Library:
        """Give the workflows, compiled on the platform."""
        platform = self.header.platform
        workflows = self.header.workflows.items()
        return Library({key: compile_instance(checked_graph(flow), platform) for key, flow in workflows})

    def engine(self, policy: Policy | None = None) -> Engine:
        """Make a fresh engine as the journal's, or with another policy."""
        first = self.library[next(iter(self.library))]
        chosen = policy_named(self.header.policy) if policy is None else policy
        return Engine(self.library, first.instance, chosen, self.header.settings, policy_named=policy_named)

    def rebuilt(self, entries: int) -> Engine:
        """Give the engine as it was after so many entries, from the last snapshot before that on."""
        engine = self.engine()
        engine.state.plans.update(self.plans)
        last = max((number for number in self.snapshots if number < entries), default=-1)
        if last >= 0:
            restore(engine.state, self.snapshots[last])
        return rebuild(engine, self.entries[last + 1 : entries], {})


class JournalWriter:
    """Writes entries, and plans before the entries that name them."""

    def __init__(self, stream: TextIO, header: Header) -> None:
        self._stream = stream
        self._written: set[str] = set()
        self._line(header.as_record())

    def write(self, entry: Entry, state: State) -> None:
        """Write an entry; ``state`` is the engine's after it."""
        event = entry.event
        if isinstance(event, PlanReady) and event.plan and event.plan not in self._written:
            self._written.add(event.plan)
            self._line({"plan": event.plan, **state.plans[event.plan].as_record()})
        self._line(entry.as_record())
        if (entry.sequence + 1) % SNAPSHOT_EVERY == 0:
            self._line({"snapshot": entry.sequence, "state": snapshot(state)})

    def _line(self, record: object) -> None:
        self._stream.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")


@contextmanager
def journal_file(name: str | Path, header: Header) -> Iterator[JournalWriter]:
    """Open a file to write a journal to; what stands in the way is an InvalidInput."""
    try:
        stream = Path(name).open("w", encoding="utf-8")  # noqa: SIM115 -- closed below, whatever happens
    except OSError as error:
        raise InvalidInput(Problem(what=f"cannot write {str(name)!r}: {error.strerror}")) from None
    with stream:
        yield JournalWriter(stream, header)


def read_journal(name: str | Path) -> Journal:
    """Read a journal file whole."""
    source = open_source(name)
    lines = source.text().splitlines()
    if not lines:
        advice = "`weft simulate --journal FILE` writes one"
        raise InvalidInput(Problem(what="the file is empty", advice=advice, place=Place(file=source.name)))
    header = _read(source.name, 1, lines[0], _header)
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


def _header(record: dict[str, Any]) -> Header:
    if record["kind"] != _KIND:
        raise ValueError(f"of kind {record['kind']!r}")
    if record["schema"] != SCHEMA:
        what = f"a journal of schema {record['schema']}, written by weft {record['weft']}"
        raise InvalidInput(Problem(what=what, rule=f"this version reads schema {SCHEMA}"))
    return Header.of_record(record)


def _meaning(record: dict[str, Any]) -> Entry | tuple[str, StoredPlan] | tuple[int, Mapping[str, Any]]:
    """Read a line below the header: an entry, a plan with its key, or a snapshot with its entry's number."""
    if "plan" in record:
        return record["plan"], StoredPlan.of_record(record)
    if "snapshot" in record:
        return int(record["snapshot"]), record["state"]
    return Entry.of_record(record)
