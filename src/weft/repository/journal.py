"""Journals: their header, the encoding of their entries, and engines rebuilt from them.

The header and the entries alone are sufficient to rebuild an execution. An engine writes several entries per
task, so entries are encoded directly to text: names of types and fields are prepared once per type, and
values are encoded by their type. The text is ASCII, because file names may not be UTF-8 and may contain
Unicode line separators.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field, fields
from functools import cached_property
from itertools import takewhile
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Any, NamedTuple

from weft import __version__
from weft.documents import Document, from_python
from weft.engine.engine import Engine
from weft.engine.journal import READABLE_SCHEMAS, SCHEMA, JournalEntry, encode_fields
from weft.engine.messages import TYPE_NAMES, Parcel, SelectionCandidate
from weft.engine.replay import rebuild
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.plan import StoredPlan
from weft.engine.state.snapshot import restore_snapshot
from weft.engine.states import TaskState
from weft.engine.stored_fields import (
    ADVICE,
    DAMAGE,
    decode_number,
    decode_record,
    decode_text,
    decode_whole,
    describe_error,
)
from weft.errors import InvalidInput
from weft.instance.compilation import compile_instance
from weft.platform.file_format import platform_document, read_platform
from weft.platform.platform import Platform
from weft.policies.policy import Policy, make_policy
from weft.records import dataclass
from weft.workflow.checks import check_and_unfold
from weft.workflow.file_format import read_workflow, workflow_document
from weft.workflow.settings import (
    DEFAULT_RETRIES,
    RunSettings,
    SettingsLayer,
    SettingsLayers,
    make_settings,
    write_settings,
)
from weft.workflow.workflow import Workflow

_dumps = json.JSONEncoder(separators=(",", ":")).encode


def encode_json(record: object) -> str:
    """Return plain data as compact JSON."""
    return _dumps(record)


def encode_entry(entry: JournalEntry) -> str:
    """Return an entry as JSON; the result equals ``encode_json(entry.as_record())``, but is faster."""
    commands = ",".join([_encode_message(command) for command in entry.commands])
    now = _encode_value(float(entry.now))
    return (
        f'{{"n":{entry.sequence},"now":{now},"event":{_encode_message(entry.event)},"commands":[{commands}]}}'
    )


def _encode_message(message: Any) -> str:
    kind = type(message)
    return f'["{TYPE_NAMES[kind]}",{_encode_fields(message, kind)}]'


def _encode_fields(message: Any, kind: type) -> str:
    """Return the fields of a message that differ from their defaults, as a JSON object."""
    shape = _message_shape(kind)
    first = shape.first % shape.read_first(message)
    if (values := shape.read_rest(message)) == shape.usual:
        return f"{{{first}}}"
    found = [first] if first else []
    for value, usual, key in zip(values, shape.usual, shape.keys, strict=True):
        if value is usual or value == usual:
            continue
        text = int.__repr__(value) if type(value) is int else _encode_value(value)
        found.append(f'"{key}":{text or _dumps(encode_fields(message)[key])}')
    return f"{{{','.join(found)}}}"


class _MessageShape(NamedTuple):
    """Prepared encoding of a message type.

    The leading integer fields without default are formatted together by ``first``.
    """

    first: str
    """Format string for the leading integer fields."""
    read_first: Callable[[Any], tuple[Any, ...]]
    keys: tuple[str, ...]
    """Names of all other fields."""
    usual: tuple[Any, ...]
    """Defaults of all other fields."""
    read_rest: Callable[[Any], tuple[Any, ...]]


@functools.cache
def _message_shape(kind: type) -> _MessageShape:
    fields = dataclasses.fields(kind)
    numbers = tuple(field.name for field in takewhile(_is_plain_number, fields))
    rest = fields[len(numbers) :]
    return _MessageShape(
        first=",".join(f'"{name}":%d' for name in numbers),
        read_first=_reader(numbers),
        keys=tuple(field.name for field in rest),
        usual=tuple(_default_value(field) for field in rest),
        read_rest=_reader(tuple(field.name for field in rest)),
    )


def _is_plain_number(field: dataclasses.Field[Any]) -> bool:
    return field.type == "int" and _default_value(field) is dataclasses.MISSING


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns the named fields of a message as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: tuple([getattr(message, name) for name in names])


def _default_value(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _encode_value(value: Any) -> str:
    """Return a value of a simple type as JSON; "" for a value of any other type."""
    if (kind := type(value)) is str:
        return encode_basestring_ascii(value)
    if kind is float and math.isfinite(value):
        return float.__repr__(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is TaskState:
        return f'"{value.name}"'
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if kind is tuple and value and (inner := type(value[0])) in (Parcel, SelectionCandidate):
        return f"[{','.join([_encode_fields(each, inner) for each in value])}]"
    return ""


_KIND = "weft-journal"
_INCIDENTAL = ("schema", "weft", "owner", "command", "started_at_s", "absent", "platform_file")
"""Header fields that do not count when two requests are compared to find the same execution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHeader:
    """The first record of a journal: workflows, platform and everything else that determines decisions."""

    policy: str
    settings: RunSettings
    """The default settings, after a preset was applied."""
    seed: int
    planner: str
    platform: Platform
    workflows: Mapping[str, Workflow]
    """By key: a workflow, with the parameters of the run."""
    profile: SettingsLayer = field(default_factory=dict)
    """Settings of the user's profile."""
    overrides: SettingsLayer = field(default_factory=dict)
    """Settings that the user stated for this run."""
    scenario: str = ""
    """Name of the scenario; its content does not affect the engine."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """By workflow: the folder from which it was read, relative to the project."""
    owner: str = ""
    command: tuple[str, ...] = ()
    """Command line of the user."""
    started_at_s: float = 0.0
    """Wall-clock time of the start."""
    version: str = __version__
    absent: tuple[str, ...] = ()
    """Machines of the platform that joined while the execution ran; the journal has an event for each."""
    platform_file: str = ""
    """File from which the platform was read; "": the platform was not read from a file."""

    @property
    def layers(self) -> SettingsLayers:
        """Return the layers of settings from which the settings of a run or task are resolved."""
        return SettingsLayers(base=self.settings, profile=self.profile, overrides=self.overrides)

    @property
    def fingerprint(self) -> str:
        """Return a hash of workflows, platform, policy, planner, settings and seed.

        If an unfinished execution has the same fingerprint, it is resumed and no new one is started.
        """
        record = {key: value for key, value in self.as_record().items() if key not in _INCIDENTAL}
        return hashlib.blake2b(encode_json(record).encode(errors="surrogatepass"), digest_size=20).hexdigest()

    def as_record(self) -> dict[str, Any]:
        """Return the header as plain data."""
        return {
            "kind": _KIND,
            "schema": SCHEMA,
            "weft": self.version,
            "policy": self.policy,
            "planner": self.planner,
            "seed": self.seed,
            "scenario": self.scenario,
            "owner": self.owner,
            "command": list(self.command),
            "started_at_s": self.started_at_s,
            "folders": dict(self.folders),
            "settings": asdict(self.settings),
            **{name: write_settings(layer) for name, layer in self._stated().items()},
            **({"absent": list(self.absent)} if self.absent else {}),
            **({"platform_file": self.platform_file} if self.platform_file else {}),
            "platform": platform_document(self.platform),
            "workflows": {key: workflow_document(workflow) for key, workflow in self.workflows.items()},
        }

    def _stated(self) -> dict[str, SettingsLayer]:
        named = {"profile": self.profile, "overrides": self.overrides}
        return {name: layer for name, layer in named.items() if layer}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> JournalHeader:
        """Create a header from the result of ``as_record``."""
        if not (isinstance(record["workflows"], Mapping) and record["workflows"]):
            raise TypeError("the header names no workflows")
        return cls(
            policy=decode_text(record["policy"]),
            settings=_read_settings(record["settings"]),
            profile=make_settings(record.get("profile", {})),
            overrides=make_settings(record.get("overrides", {})),
            seed=decode_whole(record["seed"]),
            planner=decode_text(record["planner"]),
            platform=read_platform(from_python(record["platform"])),
            workflows={key: _read_workflow(key, document) for key, document in record["workflows"].items()},
            scenario=decode_text(record["scenario"]),
            folders={key: decode_text(folder) for key, folder in record.get("folders", {}).items()},
            owner=decode_text(record.get("owner", "")),
            command=tuple(map(decode_text, record.get("command", ()))),
            started_at_s=decode_number(record.get("started_at_s", 0.0)),
            version=decode_text(record["weft"]),
            absent=tuple(map(decode_text, record.get("absent", ()))),
            platform_file=decode_text(record.get("platform_file", "")),
        )


def read_header(record: Mapping[str, Any]) -> JournalHeader:
    """Return the header that a record contains.

    Raises ValueError or InvalidInput if the record has another kind or schema.
    """
    if record["kind"] != _KIND:
        raise ValueError(f"unknown kind {record['kind']!r}")
    if record["schema"] not in READABLE_SCHEMAS:
        what = f"this is a journal of schema {record['schema']}, written by weft {record['weft']}"
        readable = " and ".join(map(str, READABLE_SCHEMAS))
        raise InvalidInput(what, rule=f"this version reads journals of schema {readable}")
    return JournalHeader.of_record(record)


def _read_settings(record: Mapping[str, Any]) -> RunSettings:
    known = {field.name for field in fields(RunSettings)}
    stated = _convert_settings(dict(record))
    if unknown := sorted(stated.keys() - known):
        what = f"the journal has unknown settings: {', '.join(unknown)}"
        raise InvalidInput(what, advice="read it with the version of weft that wrote it")
    return decode_record(RunSettings, stated)


def _convert_settings(stated: dict[str, Any]) -> dict[str, Any]:
    """Return settings of an earlier version with the names of this version.

    Earlier versions had one common number of retries besides the numbers by cause, and a nested record for
    re-planning.
    """
    if "retries_by_cause" in stated:
        count = stated.pop("retries")
        counts = DEFAULT_RETRIES if count is None else dict.fromkeys(DEFAULT_RETRIES, count)
        stated["retries"] = {**counts, **stated.pop("retries_by_cause")}
    if "replanning" in stated and (rule := stated.pop("replanning")) is not None:
        share = rule["violators"]
        moments = {
            "violated": share is not None,
            "machines": rule["on_machines"],
            "iteration": rule["on_iteration"],
        }
        stated["replan_when"] = [word for word, holds in moments.items() if holds]
        stated["replan_share"] = share or 0.0
        stated["replan_every_s"] = rule["every_s"]
        stated["replan_planner"] = rule["planner"]
    return stated


def _read_workflow(key: str, document: Mapping[str, Any]) -> Workflow:
    workflow, reader = read_workflow(Document(root=from_python(document)), default_name=key)
    reader.finish()
    return workflow


@dataclass(frozen=True, kw_only=True)
class Journal:
    """A journal that is held in memory."""

    header: JournalHeader
    plans: Mapping[str, StoredPlan]
    entries: tuple[JournalEntry, ...]
    snapshots: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Snapshots, by the sequence number of the last entry before the snapshot."""
    compiled: WorkflowLibrary | None = None
    """The compiled workflows of the header; None: they are compiled on first use."""

    @cached_property
    def library(self) -> WorkflowLibrary:
        """Return the workflows of the journal, compiled for its platform."""
        if self.compiled is not None:
            return self.compiled
        platform = self.header.platform
        workflows = self.header.workflows.items()
        return WorkflowLibrary(
            {key: compile_instance(check_and_unfold(flow), platform) for key, flow in workflows}
        )

    def engine(self, policy: Policy | None = None) -> Engine:
        """Return a new engine without runs; it uses ``policy``, or the journal's policy if that is None."""
        first = self.library[next(iter(self.library))]
        chosen = make_policy(self.header.policy) if policy is None else policy
        return Engine(
            self.library, first.instance, chosen, self.header.layers,
            policy_named=make_policy, absent=self.header.absent,
        )  # fmt: skip

    def rebuilt(self, entries: int) -> Engine:
        """Return an engine in the state after the first ``entries`` entries, using the last snapshot."""
        last = max((number for number in self.snapshots if number < entries), default=-1)
        return self.rebuilt_from(last, self.entries[last + 1 : entries])

    def rebuilt_from(self, snapshot: int, entries: Iterable[JournalEntry]) -> Engine:
        """Return an engine restored from a snapshot (-1: initial state), after applying ``entries``."""
        engine = self.engine()
        engine.state.plans.update(self.plans)
        if snapshot >= 0:
            try:
                restore_snapshot(engine.state, self.snapshots[snapshot])
            except DAMAGE as error:
                what = f"journal damaged: the snapshot after entry {snapshot}: {describe_error(error)}"
                raise InvalidInput(what, advice=ADVICE) from error
        return rebuild(engine, entries, {})
