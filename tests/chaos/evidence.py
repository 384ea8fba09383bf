"""The evidence of a chaos test: one file of JSON lines outside the project, apart from everything weft writes.

Every record has ``what``:

- ``begin`` and ``end``: a program started or finished (see ``program.py``);
- ``given``: the test wrote a file of the user: ``name``, ``digest``;
- ``fault``: the test disturbed something: ``kind``, and ``group`` if it was a program;
- ``loss``: the state of the project is older than the evidence (power cut, restored copy): ``kind``, ``at_s``.

Lines are appended by single writes, so their order is that of the events.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.program import digest

FILE = "evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """One run of a program: its first record, and its last one if it came so far."""

    task: str
    iteration: int
    execution: str
    identity: str
    """Last component of its directory: the number of the attempt, followed by its nonce if it has one."""
    pid: int
    group: int
    began: int
    """Position of the first record in the evidence."""
    started_s: float
    """Start of its process group in seconds since boot; its first record is written later."""
    alone: bool = True
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Digests by name."""
    ended: int | None = None
    """Position of the last record; None: the program was killed, or still runs."""
    code: int | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Return the number of the attempt."""
        return int(self.identity.partition("-")[0])

    @property
    def nonce(self) -> str:
        """Return the nonce of the attempt, as far as it is in the directory's name."""
        return self.identity.partition("-")[2]

    @property
    def key(self) -> str:
        """Return the task with its iteration, such as ``step#2``."""
        return f"{self.task}#{self.iteration}"


class Evidence:
    """The records of an evidence file, in order."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.records = list(records)
        self.runs = list(_pair(self.records))
        """The runs of programs, in the order of their starts."""

    @classmethod
    def read(cls, folder: Path) -> Evidence:
        """Return the evidence in a folder."""
        path = folder / FILE
        return cls.of_bytes(path.read_bytes() if path.exists() else b"")

    @classmethod
    def of_bytes(cls, content: bytes) -> Evidence:
        """Return the evidence in the content of a file."""
        whole = content[: content.rfind(b"\n") + 1]  # a reader can meet a writer
        return cls(json.loads(line) for line in whole.splitlines())

    def of_kind(self, what: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the records of one kind with their positions."""
        return ((place, each) for place, each in enumerate(self.records) if each["what"] == what)

    @property
    def faults(self) -> set[str]:
        """Return the kinds of faults and losses that the test caused."""
        return {each["kind"] for each in self.records if each["what"] in ("fault", "loss")}

    def losses_before(self, run: ProgramRun) -> int:
        """Return the number of losses before a program was started; its first record may be later."""
        return sum(
            place < run.began and run.started_s > each.get("at_s", 0.0)
            for place, each in self.of_kind("loss")
        )


def _pair(records: list[Mapping[str, Any]]) -> Iterator[ProgramRun]:
    # A process has one run; its number can be used again, so the first end after a start belongs to it.
    ends: dict[tuple[Any, ...], int] = {}
    found: list[ProgramRun] = []
    names = ("task", "iteration", "execution", "identity", "pid", "group", "started_s")
    for place in range(len(records) - 1, -1, -1):
        record = records[place]
        if record["what"] == "end":
            ends[tuple(record[name] for name in names)] = place
        elif record["what"] == "begin":
            stated = {name: record[name] for name in names}
            end = ends.pop(tuple(stated.values()), None)
            last = {} if end is None else {name: records[end][name] for name in ("code", "outputs")}
            found.append(
                ProgramRun(
                    **stated, began=place, alone=record["alone"], inputs=record["inputs"], ended=end, **last
                )
            )
    yield from reversed(found)


def add_evidence(folder: Path, what: str, **more: object) -> None:
    """Append a record of the test itself."""
    file = os.open(folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (json.dumps({"what": what, **more}) + "\n").encode())
    finally:
        os.close(file)


def add_loss(folder: Path, kind: str) -> None:
    """Append the record that the state of the project becomes older than the evidence."""
    add_evidence(folder, "loss", kind=kind, at_s=time.clock_gettime(time.CLOCK_BOOTTIME))


def give_file(folder: Path, path: Path, content: bytes) -> None:
    """Write a file of the user, and the evidence of its content."""
    path.write_bytes(content)
    add_evidence(folder, "given", name=path.name, digest=digest(content))
