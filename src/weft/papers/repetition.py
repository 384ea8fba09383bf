"""Run the cells of a reproduction as often as requested and keep the results in a ledger file.

Every run draws from its own generator, seeded by seed, reproduction, cell and repetition. The rows are
therefore the same on every pool, in any order, and after an interruption.

The ledger has one line of JSON per run. An incomplete line (the process was killed while writing) is skipped
and its run is repeated. The file name contains the seed and a digest of the code, so that results of
different code are not mixed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, NamedTuple, Protocol, Self

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
from weft.private_files import make_folder, open_in_place
from weft.randomness import generator
from weft.search.pool import INLINE_POOL, Pool

_ENTRY = re.compile(r"weft(\.\w+)+:\w+")
_SOURCE_ROOT = Path(__file__).parents[2]
"""The folder that contains the package weft."""


def source_digest(module: str) -> str:
    """Return a short digest of the sources of a module, their data files, and the version of NumPy.

    The version of NumPy is included because results depend on its random numbers.
    """
    digest = hashlib.sha256(np.__version__.encode())
    sources = find_sources(module)
    tables = {
        table
        for source in sources
        for kind in ("*.csv", "*.yaml", "*/*.yaml")
        for table in source.parent.glob(kind)
    }
    for path in sorted({*sources, *tables}):
        digest.update(f"{path.relative_to(_SOURCE_ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def find_sources(module: str) -> set[Path]:
    """Return the files of a module and of all weft modules it imports, also in functions and through
    registries.
    """
    found: set[Path] = set()
    todo = [module]
    while todo:
        if (path := _find_file(todo.pop())) is not None and path not in found:
            found.add(path)
            todo += _find_imports(ast.parse(path.read_bytes()))
    return found


def _find_file(module: str) -> Path | None:
    """Return the file of a weft module; None for other packages and for names inside a module."""
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
            # An imported name may be a module.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _ENTRY.fullmatch(node.value):
            # Registry entries are imported on demand.
            yield node.value.partition(":")[0]


RunKey = tuple[str, int]
"""Cell name and repetition."""


def ledger_path(folder: Path, reproduction: Reproduction, seed: int) -> Path:
    """Return the path of the ledger of a reproduction with this seed and the current code."""
    digest = source_digest(type(reproduction).__module__)
    return folder / f"{reproduction.name}-{seed}-{digest}.jsonl"


class ResultLedger:
    """File with the results of finished runs; within a ``with`` block, results can be added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def read(self) -> dict[RunKey, Measures]:
        """Return the measures of all recorded runs."""
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

    def delete(self) -> None:
        """Delete the ledger file if it exists."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        make_folder(self.path.parent)
        cut = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        self._file = os.fdopen(open_in_place(self.path), "ab")
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
        """Append the measures of a run to the file and flush it."""
        assert self._file is not None
        record = {"cell": run[0], "repetition": run[1], "measures": dict(measures)}
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()


class ReproductionProgress(NamedTuple):
    """Progress of a reproduction, reported after each run."""

    done: int
    total: int
    """Number of runs, reused ones included."""
    work_done: float
    work_left: float
    """Work of the runs that are not done yet, in units of ``ExperimentCell.work``.

    Reused runs are counted neither here nor in ``work_done``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionResult:
    """The rows and charts of a finished reproduction."""

    rows: Sequence[ResultRow]
    runs: int
    reused: int
    """Number of runs whose results were reused from the ledger."""
    charts: Sequence[Chart] = ()

    @property
    def outside(self) -> list[ResultRow]:
        """Return the rows outside their tolerance."""
        return [row for row in self.rows if row.within is False]

    @property
    def by_chance(self) -> list[ResultRow]:
        """Return the rows that are not judged because they may be outside their tolerances by chance only."""
        return [row for row in self.rows if row.by_chance]

    @property
    def disturbed(self) -> list[ResultRow]:
        """Return the rows outside their tolerances that are not judged because other load disturbed them."""
        return [row for row in self.rows if row.disturbed and row.band is not None and row.within is None]


class CellRunner(Protocol):
    """Interface of an object that runs a cell once, with a random generator of its own."""

    name: ClassVar[str]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:
        """Run a cell once and return the measures of the run."""
        ...


class RepeatedRuns(NamedTuple):
    """The results of all repetitions of all cells."""

    results: Results
    runs: int
    reused: int
    """Number of runs whose results were reused from the ledger."""


def repeat_cells(
    runner: CellRunner,
    cells: Sequence[ExperimentCell],
    ledger: ResultLedger | None,
    *,
    runs: int | None = None,
    seed: int = 0,
    pool: Pool = INLINE_POOL,
    report: Callable[[ReproductionProgress], None] | None = None,
) -> RepeatedRuns:
    """Run the repetitions that are missing in the ledger and return the results of all repetitions.

    Without a ledger all repetitions are run. ``runs`` is the number of repetitions per cell; if it is None,
    every cell is run as often as the cell states.
    """
    wanted = [(cell, number) for cell in cells for number in range(cell.runs if runs is None else runs)]
    known = {} if ledger is None else ledger.read()
    missing = [(cell, number) for cell, number in wanted if (cell.name, number) not in known]
    reused = len(wanted) - len(missing)
    work_left = sum(cell.work for cell, _ in missing)
    work_done = 0.0
    with nullcontext() if ledger is None else ledger:
        made = pool.map(partial(_run_cell, runner, seed), missing)
        for done, ((cell, number), measures) in enumerate(zip(missing, made, strict=True), start=1):
            known[cell.name, number] = measures
            if ledger is not None:
                ledger.add((cell.name, number), measures)
            work_done += cell.work
            if report is not None:
                report(ReproductionProgress(reused + done, len(wanted), work_done, work_left - work_done))
    return RepeatedRuns(_collect_results(wanted, known), len(wanted), reused)


def reproduce(
    reproduction: Reproduction,
    ledger: ResultLedger,
    *,
    full: bool = False,
    runs: int | None = None,
    seed: int = 0,
    pool: Pool = INLINE_POOL,
    report: Callable[[ReproductionProgress], None] | None = None,
) -> ReproductionResult:
    """Run the repetitions that are missing in the ledger and return the rows and charts of all repetitions.

    ``runs`` is the number of repetitions per cell; if it is None, every cell is run as often as the cell
    states.
    """
    cells = reproduction.cells(full=full)
    results, number, reused = repeat_cells(
        reproduction, cells, ledger, runs=runs, seed=seed, pool=pool, report=report
    )
    rows = reproduction.rows(results, full=full)
    return ReproductionResult(
        # The tolerances are for the complete grid; with fewer runs a figure may be outside by chance.
        rows=rows if full else [row.left_to_chance() for row in rows],
        runs=number,
        reused=reused,
        charts=reproduction.charts(results, full=full)
        if isinstance(reproduction, ChartedReproduction)
        else (),
    )


def _run_cell(runner: CellRunner, seed: int, run: tuple[ExperimentCell, int]) -> Measures:
    cell, number = run
    return runner.run(cell, generator(seed, runner.name, cell.name, str(number)))


def _collect_results(
    wanted: Sequence[tuple[ExperimentCell, int]], known: Mapping[RunKey, Measures]
) -> Results:
    found: dict[str, list[Measures]] = {}
    for cell, number in wanted:
        found.setdefault(cell.name, []).append(known[cell.name, number])
    return Results(found)
