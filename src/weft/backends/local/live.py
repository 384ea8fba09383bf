"""Live attempts: what the local world remembers of each, from its assignment to its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.backends.runner.records import encoded
from weft.backends.traces.news import TaskNews
from weft.engine.messages.commands import Assign, Start

__all__ = ["Live"]


@dataclass(slots=True, eq=False)
class Live:
    """One attempt."""

    number: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    workdir_path: str
    records_path: str
    iteration: int = 1
    start: Start | None = None
    """The command to start it; None: it has not come."""
    parts: set[int] = field(default_factory=set)
    """The numbers of the StageIns that were begun."""
    cancelled: bool = False
    """Whether the engine wants it to end."""
    halted: bool = False
    """Whether it is ended because the engine stops; it will run again."""
    launched: bool = False
    """Whether its runner was told to start it."""
    over: bool = False
    """Whether its end was reported, or is about to be."""
    inherited: bool = False
    """Whether an engine that died had decided to start it."""
    began_at: float = 0.0
    """Wall time at which its program was given to the runner."""
    record: Mapping[str, Any] | None = None
    """What its runner says of its program's end; None: it has not ended, or there was none."""
    unrecorded: str = ""
    """Why its records cannot be written; "": they can."""
    stale: str = ""
    """Why what an earlier execution has made could not be taken over; "": there was nothing."""
    fingerprint: str = ""
    fingerprint_parts: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    """Digest of each input that was brought."""
    news: TaskNews | None = None
    """What its program says through files; None: nothing is expected."""
    done: float | None = None
    """The share of the work its program last said it has done."""

    @property
    def workdir(self) -> Path:
        """Give the directory in which it works."""
        return Path(self.workdir_path)

    def reminder(self) -> str:
        """Write down what only this engine knows of it: the runner keeps it for the next one."""
        return encoded({"made": self.fingerprint, "from": self.fingerprint_parts, "stale": self.stale})

    def recall(self, reminder: str) -> None:
        """Know again what was written down; "": nothing was."""
        if reminder:
            known = json.loads(reminder)
            self.fingerprint, self.fingerprint_parts = known["made"], known["from"]
            self.stale = known["stale"]

    @classmethod
    def of(cls, command: Assign, workdir: str, records: str) -> Live:
        """Begin what an assignment says."""
        return cls(
            command.attempt,
            command.run,
            command.task,
            command.machine,
            command.nodes,
            command.count,
            workdir,
            records,
        )
