"""``s3-degradation``: a machine gets competing processes, and the job on it moves to a slower one that is
free.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids (spec
s3 section 9, scenario A; A3.1, A3.3). Five jobs of 100 iterations; after two minutes pegasus, where job 0
runs at 4 s an iteration, gets three competing processes. An iteration of more than twice the expected time
breaks the contract; the profile is read every 10 s.

Deviations: the paper prints a chart and the overhead; what is tolerated is that of the specification. Here a
stage takes 19 s also when a job is started for the first time, which the prototype left out: everything is
about that much later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np

from weft.studies.adaptive_jobs.stage_log import StageLog, run_jobs
from weft.studies.adaptive_jobs.testbed import JOBS, degradation
from weft.studies.reproduction import Band, Cell, Measures, Results, Row

__all__ = ["Degradation", "measures_of"]

_CELL = "scenario A"
_UNITS, _POLL_S = 100, 10.0
_STAGES = ("cancel", "prolog", "clean-up", "start")
"""Of a migration, in the order of S3 section 4."""
_YES = Band(least=1.0, most=1.0)
_EVENTS, _JUDGED, _LOG = "what happens", "what is demanded", "stage log of the migration of job 0"
_SHARE = Band(least=4.0, most=8.0)
_FIGURES: tuple[tuple[str, str, str, str, str, str, Band | None, str], ...] = (
    (_EVENTS, "violation seen", "violation_s", "s", "", "130 s", None, ""),
    (_EVENTS, "iterations done by then", "iterations", "", "", "23", None, ""),
    (_EVENTS, "overhead", "overhead_s", "s", "", "57.5 s", None, ""),
    (_EVENTS, "job 0 ends", "first_end_s", "s", "", "977 s", None, ""),
    (_EVENTS, "the others end", "others_end_s", "s", "", "1049 s", None, ""),
    (_JUDGED, "migrations", "moves", "", "1", "1", _YES, "A3.1"),
    (_JUDGED, "of them for performance, to babieca", "to_babieca", "", "1", "1", _YES, "A3.1"),
    (_JUDGED, "overhead, share of job 0", "overhead_percent", "%", "about 6 %", "5.9 %", _SHARE, "A3.1"),
    (_JUDGED, "job 0 ends first (1 = yes)", "ends_first", "", "1", "1", _YES, "A3.1"),
    (_JUDGED, "stages in this order (1 = yes)", "in_order", "", "1", "", _YES, "A3.3"),
    (_LOG, "cancel on pegasus", "cancel_s", "s", "", "", None, ""),
    (_LOG, "prolog on babieca", "prolog_s", "s", "", "", None, ""),
    (_LOG, "clean-up on pegasus", "clean-up_s", "s", "", "", None, ""),
    (_LOG, "start on babieca", "start_s", "s", "", "", None, ""),
    (_LOG, "runs on babieca", "begun_s", "s", "", "", None, ""),
)
"""Table, figure, measure, unit, the paper's, the prototype's, what is demanded, and under which name."""


class Degradation:
    """Scenario A of S3."""

    name: ClassVar[str] = "s3-degradation"
    title: ClassVar[str] = "a job leaves a machine that became slow (Huedo et al., GridWay; S3 section 9, A)"

    def cells(self, *, full: bool) -> Sequence[Cell]:  # noqa: ARG002 -- nothing is drawn: one run says it all
        """Give the only cell."""
        return [Cell(name=_CELL, runs=1)]

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:  # noqa: ARG002 -- nothing is drawn
        """Run the scenario."""
        return measures_of(run_jobs(_UNITS, degradation(), poll_every_s=_POLL_S))

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:  # noqa: ARG002
        """Give the figures of section 9."""
        return [
            Row(
                table=table,
                figure=figure,
                ours=results.of(_CELL, measure)[0],
                runs=len(results.of(_CELL, measure)),
                unit=unit,
                digits=1 if unit else 0,
                paper=paper,
                prototype=prototype,
                band=band,
                accepts=accepts,
            )
            for table, figure, measure, unit, paper, prototype, band, accepts in _FIGURES
        ]


def measures_of(log: StageLog) -> Measures:
    """Read the figures out of a stage log."""
    moves = log.moves()
    cancelled_s = moves[0].at_s if moves else 0.0
    later = [line for line in log.lines if line.job == 0 and line.at_s >= cancelled_s]
    stages = [line for line in later if line.what in _STAGES]
    begun_s = max((line.at_s for line in later if line.what == "begun"), default=cancelled_s)
    ends = {job: log.of("completed", job)[0].at_s for job in range(JOBS)}
    others = [ends[job] for job in range(1, JOBS)]
    return {
        "violation_s": log.of("violation")[0].at_s if log.of("violation") else 0.0,
        "iterations": _UNITS * max((line.value for line in log.of("start", 0)), default=0.0),
        "moves": len(moves),
        "to_babieca": sum(move.machine == "babieca" for move in log.moves(0, reason="performance")),
        "overhead_s": begun_s - cancelled_s,
        "overhead_percent": 100.0 * (begun_s - cancelled_s) / ends[0],
        "first_end_s": ends[0],
        "others_end_s": max(others),
        "ends_first": float(ends[0] < min(others)),
        "in_order": float(
            tuple(line.what for line in stages) == _STAGES
            and all(before.at_s <= after.at_s for before, after in pairwise(stages))
        ),
        **{
            f"{stage}_s": next((line.at_s for line in stages if line.what == stage), 0.0) for stage in _STAGES
        },
        "begun_s": begun_s,
    }
