"""Sources: the files of weft that a module is made of, those it imports included, however far away.

Ledgers: files that keep every run of a reproduction, so that one that was ended goes on where it was.

A line is a run. A line that was cut by the end of a process is passed over, and its run is made again. The
name of the file says the seed, and by which code the runs were made: those of other code are not mixed in.

Repetitions: the cells of a reproduction, each run as often as wanted, from where it was left.

Every run draws from a generator of its own, named by seed, reproduction, cell and number of the repetition.
So the rows are the same on every pool, in every order, and whether or not somebody ended it in between.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

import numpy as np

from weft.papers.reproduction import (
    Chart,
    ChartedReproduction,
    ExperimentCell,
    Measures,
    Reproduction,
    ResultRow,
    Results,
)
from weft.randomness import generator
from weft.search.pool import INLINE_POOL, Pool

__all__ = [
    "ReproductionProgress",
    "ReproductionResult",
    "ResultLedger",
    "RunKey",
    "find_sources",
    "ledger_path",
    "reproduce",
    "source_digest",
]


_ENTRY = re.compile(r"weft(\.\w+)+:\w+")
_SOURCE_ROOT = Path(__file__).parents[2]
"""Where the package is."""


def source_digest(module: str) -> str:
    """Give a few letters that change with the sources of a module, their tables, and NumPy.

    NumPy counts because its random numbers decide; weft has a say in everything else.
    """
    digest = hashlib.sha256(np.__version__.encode())
    sources = find_sources(module)
    tables = {
        table for source in sources for kind in ("*.csv", "*.yaml") for table in source.parent.glob(kind)
    }
    for path in sorted({*sources, *tables}):
        digest.update(f"{path.relative_to(_SOURCE_ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def find_sources(module: str) -> set[Path]:
    """Find the file of a module and of everything of weft it imports, inside functions and by
    registries too.
    """
    found: set[Path] = set()
    todo = [module]
    while todo:
        path = _find_file(todo.pop())
        if path is not None and path not in found:
            found.add(path)
            todo += _find_imports(ast.parse(path.read_bytes()))
    return found


def _find_file(module: str) -> Path | None:
    """Give the file of a module; None: it is none of weft's, or a name inside one."""
    if module.partition(".")[0] != "weft":
        return None
    path = _SOURCE_ROOT.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def _find_imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            # What is imported may be a module itself.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _ENTRY.fullmatch(node.value):
            # An entry of a registry is loaded when somebody names it.
            yield node.value.partition(":")[0]


RunKey = tuple[str, int]
"""The name of a cell, and the number of the repetition."""


def ledger_path(folder: Path, reproduction: Reproduction, seed: int) -> Path:
    """Say where the runs of a reproduction are kept."""
    digest = source_digest(type(reproduction).__module__)
    return folder / f"{reproduction.name}-{seed}-{digest}.jsonl"


class ResultLedger:
    """The runs made so far. Used as a context it takes further ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def results(self) -> dict[RunKey, Measures]:
        """Read all runs."""
        found: dict[RunKey, Measures] = {}
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

    def add(self, run: RunKey, measures: Measures) -> None:
        """Write a run down, at once."""
        assert self._file is not None
        record = {"cell": run[0], "repetition": run[1], "measures": dict(measures)}
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()


class ReproductionProgress(NamedTuple):
    """How far it is, after each run."""

    done: int
    total: int
    """Runs, those taken over included."""
    work_done: float
    work_left: float
    """Without those taken over; ``Cell.work`` is the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionResult:
    """What came of it."""

    rows: Sequence[ResultRow]
    runs: int
    taken_over: int
    """How many of the runs were made before."""
    charts: Sequence[Chart] = ()

    @property
    def outside(self) -> list[ResultRow]:
        """List the figures that are not as demanded."""
        return [row for row in self.rows if row.within is False]


def reproduce(
    reproduction: Reproduction,
    ledger: ResultLedger,
    *,
    full: bool = False,
    runs: int | None = None,
    seed: int = 0,
    pool: Pool = INLINE_POOL,
    tell: Callable[[ReproductionProgress], None] | None = None,
) -> ReproductionResult:
    """Make all runs that the ledger lacks; ``runs`` replaces the number that cells ask for."""
    cells = reproduction.cells(full=full)
    wanted = [(cell, number) for cell in cells for number in range(cell.runs if runs is None else runs)]
    known = ledger.results()
    missing = [(cell, number) for cell, number in wanted if (cell.name, number) not in known]
    taken_over = len(wanted) - len(missing)
    work_left = sum(cell.work for cell, _ in missing)
    work_done = 0.0
    with ledger:
        made = pool.map(partial(_run_cell, reproduction, seed), missing)
        for done, ((cell, number), measures) in enumerate(zip(missing, made, strict=True), start=1):
            known[cell.name, number] = measures
            ledger.add((cell.name, number), measures)
            work_done += cell.work
            if tell is not None:
                tell(ReproductionProgress(taken_over + done, len(wanted), work_done, work_left - work_done))
    results = _collect_results(wanted, known)
    return ReproductionResult(
        rows=reproduction.rows(results, full=full),
        runs=len(wanted),
        taken_over=taken_over,
        charts=reproduction.charts(results, full=full)
        if isinstance(reproduction, ChartedReproduction)
        else (),
    )


def _run_cell(reproduction: Reproduction, seed: int, run: tuple[ExperimentCell, int]) -> Measures:
    cell, number = run
    return reproduction.run(cell, generator(seed, reproduction.name, cell.name, str(number)))


def _collect_results(
    wanted: Sequence[tuple[ExperimentCell, int]], known: Mapping[RunKey, Measures]
) -> Results:
    found: dict[str, list[Measures]] = {}
    for cell, number in wanted:
        found.setdefault(cell.name, []).append(known[cell.name, number])
    return Results(found)
