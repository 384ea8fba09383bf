"""The header of a journal: who decided, on what, for whom. With it the entries alone rebuild a run.

Two executions with the same fingerprint were asked for the same thing: an unfinished one is resumed instead
of beginning another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from weft.documents import Document, from_python
from weft.engine.journal import SCHEMA
from weft.engine.settings import Replanning, Settings
from weft.errors import InvalidInput, Problem
from weft.platform.platform import Platform
from weft.platform.reading import read_platform
from weft.platform.writing import platform_document
from weft.repository.encoding import json_text
from weft.version import VERSION
from weft.workflow.reading.workflow_reader import read_workflow
from weft.workflow.records.workflow import Workflow
from weft.workflow.writing import workflow_document

__all__ = ["Header", "checked_header"]

_KIND = "weft-journal"
_INCIDENTAL = ("schema", "weft", "owner", "command", "started_at_s")
"""What may differ between two executions that were asked for the same thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands above the entries."""

    policy: str
    settings: Settings
    seed: int
    planner: str
    platform: Platform
    workflows: Mapping[str, Workflow]
    """Frozen: with the parameters they were run with."""
    scenario: str = ""
    """Its name; what it says is no business of an engine."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """By workflow, where it was read, from the project: its files are named from there."""
    owner: str = ""
    command: tuple[str, ...] = ()
    """The command line."""
    started_at_s: float = 0.0
    """Wall time."""
    version: str = VERSION

    @property
    def fingerprint(self) -> str:
        """Give what was asked for, in one word: workflows, platform, policy, planner, settings, seed."""
        asked = {key: value for key, value in self.as_record().items() if key not in _INCIDENTAL}
        return hashlib.blake2b(json_text(asked).encode(errors="surrogatepass"), digest_size=20).hexdigest()

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
            "owner": self.owner,
            "command": list(self.command),
            "started_at_s": self.started_at_s,
            "folders": dict(self.folders),
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
            folders=record.get("folders", {}),
            owner=record.get("owner", ""),
            command=tuple(record.get("command", ())),
            started_at_s=record.get("started_at_s", 0.0),
            version=record["weft"],
        )


def checked_header(record: Mapping[str, Any]) -> Header:
    """Read a header, unless it is that of something else or of another version."""
    if record["kind"] != _KIND:
        raise ValueError(f"of kind {record['kind']!r}")
    if record["schema"] != SCHEMA:
        what = f"a journal of schema {record['schema']}, written by weft {record['weft']}"
        raise InvalidInput(Problem(what=what, rule=f"this version reads schema {SCHEMA}"))
    return Header.of_record(record)


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
