"""Files of a Slurm job that the engine and the job share, and the bundle that the job runs.

Each job has a folder ``.weft/runners/EXECUTION/MACHINE/ATTEMPT-NONCE`` with the order (``job.py``), the
records of the job, and ``log``, the output of the job itself. The order contains secrets of the task: only
the user can read it, and the job removes it before it starts the program.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import weft
from weft.backends.local.records import Record, SealedRecords
from weft.backends.slurm.job import ORDER, REQUESTS
from weft.backends.slurm.pilot import CANCEL
from weft.private_files import make_folder, write_file
from weft.records import dataclass

JOB_MODULES = (
    "backends.local.message_socket", "backends.local.processes", "backends.local.records",
    "backends.local.runner_loop", "backends.slurm.job", "backends.slurm.message_log", "backends.slurm.pilot",
)  # fmt: skip
"""The modules that a job loads, without the leading ``weft``: Python 3.8 and the standard library only."""
LOG = "log"
"""Output of the job itself, such as the message that there is no Python."""
_JOB = "job"
_FOLDER = re.compile(r"([0-9]+)-([0-9a-zA-Z]+)")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_MAIN = b"import sys\n\nfrom weft.backends.slurm.job import main\n\nsys.exit(main(sys.argv[1]))\n"
_LINE_BYTES = 4096


@cache
def make_job_bundle() -> bytes:
    """Return the file that a job runs; the same sources give the same bytes."""
    root = Path(weft.__file__).parent
    content = {"__main__.py": _MAIN, "weft/__init__.py": b""}
    for name in JOB_MODULES:
        path = f"{name.replace('.', '/')}.py"
        content[f"weft/{path}"] = (root / path).read_bytes()
        for parent in list(Path(path).parents)[:-1]:
            content[f"weft/{parent}/__init__.py"] = b""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in sorted(content):
            bundle.writestr(zipfile.ZipInfo(name, _LONG_AGO), content[name], zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def write_bundle(folder: Path) -> Path:
    """Write the bundle of jobs into a folder, unless it is there; return its path. Raises OSError."""
    content = make_job_bundle()
    path = folder / f"job-{hashlib.blake2b(content, digest_size=8).hexdigest()}.pyz"
    if not path.exists():
        make_folder(folder)
        write_file(path, content, is_private=True)
    return path


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

    def note_number(self, number: str, limit_s: float) -> None:
        """Record the number that Slurm gave to the job, and its time limit."""
        self._write_request(_JOB, {"number": number, "limit_s": limit_s if math.isfinite(limit_s) else None})

    def read_number(self) -> tuple[str, float]:
        """Return the number that Slurm gave to the job ("": not known) and its time limit."""
        with suppress(OSError):
            records = SealedRecords(str(self.folder / REQUESTS), self.key)
            try:
                found = records.read(_JOB) or {}
            finally:
                records.close()
            limit_s = found.get("limit_s")
            return str(found.get("number", "")), float(limit_s) if isinstance(
                limit_s, int | float
            ) else math.inf
        return "", math.inf

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
