"""``u4``: the experiments of S3 with real processes, a real load and real staging (unified section 9, U4).

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids (spec
s3 section 9, scenarios A and B; A3.1 to A3.3, A3.7 to A3.9). Everything is described in ``jobs``; a minute of
the paper takes 1.2 s. Judged are reasons and the order of events, not times.

Deviations: in A the competing processes come after 20 iterations of job 0 instead of after 120 s, which is
the same where nothing else disturbs. In B the phases have 90 and 60 units instead of 100 and 50: with these
job 1 ends 17 s after the others ask to leave, and that is less than real processes can be relied on for. A
is also run without restart files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from weft.studies.adaptive_jobs import degradation, requirements_change
from weft.studies.adaptive_jobs.stage_log import StageLog
from weft.studies.adaptive_jobs.testbed import grid
from weft.studies.real_time.jobs import Case, Happened, cores, run_jobs_here
from weft.studies.reproduction import Band, Cell, Measures, Results, Row

__all__ = ["CASES", "DEGRADATION", "DEMANDS", "FROM_ZERO", "Adapting", "in_paper_seconds", "measures_of"]

DEGRADATION, FROM_ZERO, DEMANDS = "A", "A without restart files", "B"
CASES: Mapping[str, Case] = {
    DEGRADATION: Case(units=100, slow_after=20),
    FROM_ZERO: Case(units=30, slow_after=10, restarts=False),
    DEMANDS: Case(units=150, demand_after=90, poll_every_s=30.0),
}
_HAPPENS = (
    (DEGRADATION, "violation seen", "violation_s", "130 s"),
    (DEGRADATION, "job 0 is moved, iterations done", "iterations", "23"),
    (DEGRADATION, "overhead", "overhead_s", "57.5 s"),
    (DEGRADATION, "overhead, share of job 0", "overhead_percent", "5.9 %"),
    (DEGRADATION, "job 0 ends", "first_end_s", "977 s"),
    (DEGRADATION, "the others end", "others_end_s", "1049 s"),
    (DEMANDS, "job 0 is through on pegasus", "through_s", "629 s"),
    (DEMANDS, "job 1 leaves for pegasus", "better_s", "630 s"),
    (DEMANDS, "jobs 2 to 4 ask to leave", "request_s", "1030 s"),
    *((DEMANDS, f"job {job} leaves for pegasus", f"to_pegasus_{job}_s", "") for job in (2, 3, 4)),
    *((DEMANDS, f"job {job} ends", f"end_{job}_s", "") for job in range(5)),
)
"""Cell, figure, measure, and when it happened in the prototype."""
_DEMANDED = (
    (DEGRADATION, "migrations", "moves", 1, "A3.1"),
    (DEGRADATION, "of them for performance, to babieca", "to_babieca", 1, "A3.1"),
    (DEGRADATION, "job 0 ends first (1 = yes)", "ends_first", 1, "A3.1"),
    (DEGRADATION, "cancel, prolog, clean-up, start in this order (1 = yes)", "in_order", 1, "A3.3"),
    (DEGRADATION, "iterations done twice or left out", "lost", 0, "A3.3"),
    (DEGRADATION, "fetches of the shared file per machine", "fetches", 1, "A3.7"),
    (DEGRADATION, "programs of other architectures (0 = none)", "wrong_programs", 0, "A3.8"),
    (DEGRADATION, "without restart files: migrations for performance", "zero.to_babieca", 1, "A3.9"),
    (DEGRADATION, "without restart files: iterations that were spared", "zero.spared", 0, "A3.9"),
    (DEMANDS, "events in the order of the paper (1 = yes)", "in_order", 1, "A3.2"),
    (DEMANDS, "opportunistic migrations", "better", 1, "A3.2"),
    (DEMANDS, "self-migrations", "self", 3, "A3.2"),
    (DEMANDS, "other migrations", "other", 0, "A3.2"),
    (DEMANDS, "jobs at once on pegasus, at most", "most_at_once", 1, "A3.2"),
    (DEMANDS, "iterations done twice or left out", "lost", 0, "A3.3"),
    (DEMANDS, "fetches of the shared file per machine", "fetches", 1, "A3.7"),
    (DEMANDS, "programs of other architectures (0 = none)", "wrong_programs", 0, "A3.8"),
)
"""Cell, figure, measure, what it must be, and under which name that is demanded."""


class Adapting:
    """Jobs that leave machines."""

    name: ClassVar[str] = "u4"
    title: ClassVar[str] = "jobs that leave machines, real processes (Huedo et al., S3; unified section 9)"

    def __init__(self, scale: float = 0.02, cases: Mapping[str, Case] = CASES) -> None:
        self._scale = scale
        self._cases = cases

    def cells(self, *, full: bool) -> Sequence[Cell]:  # noqa: ARG002 -- nothing is drawn: one run says it all
        """Give the scenarios."""
        return [Cell(name=name, settings={"scenario": name}, runs=1) for name in (DEGRADATION, DEMANDS)]

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:  # noqa: ARG002 -- nothing is drawn
        """Run a scenario; the one with a load also without restart files, one after the other."""
        found = measures_of(cell.name, self.happened(cell.name), self._scale)
        if cell.name == DEGRADATION:
            zero = measures_of(FROM_ZERO, self.happened(FROM_ZERO), self._scale)
            return {**found, **{f"zero.{name}": value for name, value in zero.items()}}
        return found

    def happened(self, name: str) -> Happened:
        """Run a scenario; a load goes to the first core, so that the others are left to everybody else."""
        return run_jobs_here(self._cases[name], self._scale, core=cores()[0])

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:  # noqa: ARG002
        """Give what is demanded, then when it happened."""
        return [*_demanded(results), *_happens(results)]


def measures_of(name: str, found: Happened, scale: float) -> Measures:
    """Read the figures out of what became of the jobs; seconds are those of the paper."""
    log = in_paper_seconds(found.log, scale)
    if name == DEMANDS:
        return {**requirements_change.measures_of(log), **_carried(found)}
    trail = found.best[0]["trail"]
    figures = {**degradation.measures_of(log), **_carried(found), "spared": trail[-1]["from"]}
    if len(trail) > 1:
        overhead_s = (trail[1]["began_at"] - trail[0]["ended_at"]) / scale
        figures |= {
            "iterations": trail[0]["to"],
            "overhead_s": overhead_s,
            "overhead_percent": 100.0 * overhead_s / figures["first_end_s"],
        }
    return figures


def in_paper_seconds(log: StageLog, scale: float) -> StageLog:
    """Count from the first start of a job, in seconds as they were before scaling."""
    zero_s = next((line.at_s for line in log.lines if line.what == "start"), 0.0)
    return StageLog(tuple(line._replace(at_s=(line.at_s - zero_s) / scale) for line in log.lines))


def _carried(found: Happened) -> dict[str, float]:
    """Say what was moved with the jobs: their work, the shared file, their programs."""
    parts = [part for best in found.best for part in best["trail"]]
    arch = {machine.name: machine.arch for machine in grid().machines}
    machines = {line.machine for line in found.log.of("begun")}
    return {
        "lost": float(sum(map(_lost, found.best))),
        "fetches": found.fetched / len(machines),
        "wrong_programs": float(sum(part["made_for"] != arch[part["machine"]] for part in parts)),
    }


def _lost(best: Mapping[str, Any]) -> int:
    """Count the iterations between where a job left and where it went on; twice is as bad as never."""
    trail = best["trail"]
    gaps = sum(abs(after["from"] - before["to"]) for before, after in pairwise(trail))
    return int(gaps + abs(best["structures"] - best["done"]) + trail[0]["from"])


def _demanded(results: Results) -> Iterator[Row]:
    for cell, figure, measure, wanted, accepts in _DEMANDED:
        if cell in results:
            yield Row(
                table=f"{cell}: what is demanded",
                figure=figure,
                ours=results.of(cell, measure)[0],
                digits=0,
                runs=len(results.of(cell, measure)),
                paper=str(wanted),
                band=Band(least=wanted, most=wanted),
                accepts=accepts,
            )


def _happens(results: Results) -> Iterator[Row]:
    for cell, figure, measure, prototype in _HAPPENS:
        if cell in results:
            unit = "%" if measure.endswith("percent") else "s" if measure.endswith("_s") else ""
            yield Row(
                table=f"{cell}: what happens, in seconds of the paper",
                figure=figure,
                ours=results.of(cell, measure)[0],
                unit=unit,
                digits=1 if unit else 0,
                runs=len(results.of(cell, measure)),
                prototype=prototype,
            )
