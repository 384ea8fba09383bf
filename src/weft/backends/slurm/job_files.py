"""Files of a Slurm job that the job shares with the process that submits it.

Each job has a folder ``.weft/runners/EXECUTION/MACHINE/ATTEMPT-NONCE`` with the order (``job.py``), the
records of the job, and ``log``, the output of the job itself. The order contains secrets of the task: only
the user can read it, and the job removes it before it starts the program.

Login nodes load this module without weft being installed there: it uses Python 3.8 and the standard library.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.backends.runner.records import Record, SealedRecords
from weft.backends.slurm.job import ORDER, REQUESTS
from weft.backends.slurm.pilot import CANCEL
from weft.private_files import make_folder, write_file
from weft.records import dataclass

LOG = "log"
"""Output of the job itself, such as the message that there is no Python."""
_JOB = "job"
_FOLDER = re.compile(r"([0-9]+)-([0-9a-zA-Z]+)")
_LINE_BYTES = 4096


def write_bundle(folder: Path, content: bytes) -> Path:
    """Write the bundle that jobs run into a folder, unless it is there; return its path. Raises OSError."""
    path = folder / f"job-{hashlib.blake2b(content, digest_size=8).hexdigest()}.pyz"
    if not path.exists():
        make_folder(folder)
        write_file(path, content, is_private=True)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNumber:
    """How Slurm identifies a job."""

    number: str = ""
    """``17``, or ``17_3`` for an element of an array; "": not known."""
    limit_s: float = math.inf
    """Time limit that was requested; infinity: that of the partition."""
    array: str = ""
    """Name of the array of which the job is an element; "": none."""
    index: int = -1
    """Index of the element in the array; -1: no element."""


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The folder of one job."""

    folder: Path
    attempt: int
    nonce: str
    key: str
    """Key of the records of this job, derived from the token of the execution."""

    @classmethod
    def of(cls, machine_folder: Path, attempt: int, nonce: str, token: str) -> JobFiles:
        """Return the files of an attempt's job."""
        name = f"{attempt}-{nonce}"
        key = hashlib.blake2b(name.encode(), key=token.encode()[:64], person=b"weft job").hexdigest()
        return cls(machine_folder / name, attempt, nonce, key)

    @classmethod
    def find(cls, machine_folder: Path, token: str) -> Iterator[JobFiles]:
        """Yield the files of all jobs of a machine, by attempt."""
        names = sorted(os.listdir(machine_folder)) if machine_folder.is_dir() else []  # noqa: PTH208
        for found in filter(None, map(_FOLDER.fullmatch, names)):
            yield cls.of(machine_folder, int(found[1]), found[2], token)

    def write(self, order: Mapping[str, Any], scope: str) -> None:
        """Write the order of a new job, in place of the files of an earlier one; raises OSError."""
        self.remove()
        make_folder(self.folder)
        make_folder(self.folder / REQUESTS)
        self.restore({"key": self.key, "scope": scope, "order": dict(order)})

    def restore(self, given: Mapping[str, Any]) -> None:
        """Write an order that ``take_order`` returned again; raises OSError."""
        write_file(self.folder / ORDER, json.dumps(given).encode(), is_private=True)

    def read_order(self) -> dict[str, Any] | None:
        """Return the order; None if a job or an engine has taken it."""
        with suppress(OSError, ValueError):
            given = json.loads((self.folder / ORDER).read_text(encoding="utf-8"))
            return given if isinstance(given, dict) and given.get("key") == self.key else None
        return None

    def take_order(self) -> dict[str, Any] | None:
        """Remove the order, so that no job can start the program; None if a job has taken it."""
        given = self.read_order()
        try:
            (self.folder / ORDER).unlink()
        except OSError:
            return None
        return given if given is not None else {}

    def read(self, *names: str) -> list[Record | None]:
        """Return records of the job; None for a record that is missing or invalid."""
        with suppress(OSError):
            records = SealedRecords(str(self.folder), self.key)
            try:
                return [records.read_again(name) for name in names]
            finally:
                records.close()
        return [None] * len(names)

    def request_end(self, grace_s: float) -> None:
        """Let the job cancel its program, with this time between SIGTERM and SIGKILL."""
        self._write_request(CANCEL, {"grace_s": min(grace_s, 1e9)})

    def note_number(self, found: JobNumber) -> None:
        """Record the number that Slurm gave to the job, or under which name it is about to be submitted."""
        limit_s = found.limit_s if math.isfinite(found.limit_s) else None
        numbers: Record = {"array": found.array, "index": found.index}
        self._write_request(_JOB, {"number": found.number, "limit_s": limit_s, **numbers})

    def read_number(self) -> JobNumber:
        """Return what ``note_number`` has recorded."""
        with suppress(OSError):
            records = SealedRecords(str(self.folder / REQUESTS), self.key)
            try:
                found = records.read(_JOB) or {}
            finally:
                records.close()
            limit_s, index = found.get("limit_s"), found.get("index")
            return JobNumber(
                number=str(found.get("number") or ""),
                limit_s=float(limit_s) if isinstance(limit_s, (int, float)) else math.inf,
                array=str(found.get("array") or ""),
                index=index if isinstance(index, int) else -1,
            )
        return JobNumber()

    def _write_request(self, name: str, record: Record) -> None:
        with suppress(OSError):  # without it, Slurm is the only way to the job
            records = SealedRecords(str(self.folder / REQUESTS), self.key)
            try:
                records.write(name, record)
            finally:
                records.close()

    def read_log(self) -> str:
        """Return the last line that the job itself printed; "" if there is none."""
        with suppress(OSError), (self.folder / LOG).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LINE_BYTES))
            lines = log.read().decode(errors="replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
