"""Ledgers: files that keep every run of a reproduction, so that one that was ended goes on where it was.

A line is a run. A line that was cut by the end of a process is passed over, and its run is made again. The
name of the file says the seed, and by which code the runs were made: those of other code are not mixed in.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from weft.studies.reproduction import Measures, Reproduction
from weft.studies.sources import digest_of

__all__ = ["Ledger", "Run", "ledger_path"]

Run = tuple[str, int]
"""The name of a cell, and the number of the repetition."""


def ledger_path(folder: Path, reproduction: Reproduction, seed: int) -> Path:
    """Say where the runs of a reproduction are kept."""
    digest = digest_of(type(reproduction).__module__)
    return folder / f"{reproduction.name}-{seed}-{digest}.jsonl"


class Ledger:
    """The runs made so far. Used as a context it takes further ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def known(self) -> dict[Run, Measures]:
        """Read all runs."""
        found: dict[Run, Measures] = {}
        if not self.path.exists():
            return found
        for line in self.path.read_bytes().splitlines():
            try:
                record = json.loads(line)
                run, measures = (str(record["cell"]), int(record["repetition"])), dict(record["measures"])
            except (ValueError, KeyError, TypeError):
                continue
            found.setdefault(run, measures)
        return found

    def forget(self) -> None:
        """Remove all runs."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        cut = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        self._file = self.path.open("ab")
        if cut:
            self._file.write(b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None

    def add(self, run: Run, measures: Measures) -> None:
        """Write a run down, at once."""
        assert self._file is not None
        record = {"cell": run[0], "repetition": run[1], "measures": dict(measures)}
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()
