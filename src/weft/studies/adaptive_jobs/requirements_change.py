"""``s3-requirements``: jobs that need more memory in their second phase queue for the one machine that has
it.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids (spec
s3 section 9, scenario B; A3.2). Five jobs of 100 units and then 50, before which each demands 512 MB: only
pegasus has them. Job 0 is there from the start; when it ends, job 1 finds a better machine; the others ask
for self-migration, wait without a machine, and run on pegasus one after another.

Deviations: the paper prints a chart; what is tolerated is that of the specification. As in ``degradation`` a
first start takes 19 s that the prototype left out. Better machines are looked for every 30 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np

from weft.studies.adaptive_jobs.stage_log import StageLog, run_jobs
from weft.studies.adaptive_jobs.testbed import JOBS, requirements
from weft.studies.reproduction import Band, Cell, Measures, Results, Row

__all__ = ["RequirementsChange", "measures_of"]

_CELL = "scenario B"
_UNITS, _POLL_S = 150, 30.0
_SELF, _BETTER = "self-migration", "better-machine"
_EVENTS = (
    ("job 0 is through on pegasus", "through_s", "629 s"),
    ("job 1 leaves for pegasus", "better_s", "630 s"),
    ("jobs 2 to 4 ask to leave", "request_s", "1030 s"),
    ("job 2 leaves for pegasus", "to_pegasus_2_s", "1050 s"),
    ("job 3 leaves for pegasus", "to_pegasus_3_s", "1320 s"),
    ("job 4 leaves for pegasus", "to_pegasus_4_s", "1590 s"),
    ("job 0 ends", "end_0_s", "648 s"),
    ("job 1 ends", "end_1_s", "1066 s"),
    ("job 2 ends", "end_2_s", "1326 s"),
    ("job 3 ends", "end_3_s", "1596 s"),
    ("job 4 ends", "end_4_s", "1866 s"),
)
"""Figure, measure, and when it happened in the prototype."""
_DEMANDED = (
    ("events in the order of the paper (1 = yes)", "in_order", 1),
    ("opportunistic migrations", "better", 1),
    ("self-migrations", "self", 3),
    ("other migrations", "other", 0),
    ("jobs at once on pegasus, at most", "most_at_once", 1),
)
"""Figure, measure, and what it must be."""


class RequirementsChange:
    """Scenario B of S3."""

    name: ClassVar[str] = "s3-requirements"
    title: ClassVar[str] = "jobs demand another machine (Huedo et al., GridWay; S3 section 9, B)"

    def cells(self, *, full: bool) -> Sequence[Cell]:  # noqa: ARG002 -- nothing is drawn: one run says it all
        """Give the only cell."""
        return [Cell(name=_CELL, runs=1)]

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:  # noqa: ARG002 -- nothing is drawn
        """Run the scenario."""
        return measures_of(run_jobs(_UNITS, requirements(), poll_every_s=_POLL_S))

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:  # noqa: ARG002
        """Give the figures of section 9."""
        rows = []
        for figure, measure, prototype in _EVENTS:
            found = results.of(_CELL, measure)
            table = "what happens"
            rows.append(
                Row(table=table, figure=figure, ours=found[0], unit="s", runs=len(found), prototype=prototype)
            )
        for figure, measure, wanted in _DEMANDED:
            found = results.of(_CELL, measure)
            rows.append(
                Row(
                    table="what is demanded",
                    figure=figure,
                    ours=found[0],
                    digits=0,
                    runs=len(found),
                    paper=str(wanted),
                    band=Band(least=wanted, most=wanted),
                    accepts="A3.2",
                )
            )
        return rows


def measures_of(log: StageLog) -> Measures:
    """Read the figures out of a stage log."""
    ends = {job: log.of("completed", job)[0].at_s for job in range(JOBS)}
    through_s = max(line.at_s for line in log.of("ended", 0))
    better, asked = log.moves(reason=_BETTER), log.moves(reason=_SELF)
    requests = [_first_s(log, "cancel", job, _SELF) for job in range(2, JOBS)]
    arrivals = {job: _first_s(log, "assign", job, _SELF) for job in range(2, JOBS)}
    order = (through_s, _first_s(log, "assign", 1, _BETTER), min(requests), *arrivals.values())
    return {
        "through_s": through_s,
        "better_s": order[1],
        "request_s": min(requests),
        **{f"to_pegasus_{job}_s": at_s for job, at_s in arrivals.items()},
        **{f"end_{job}_s": at_s for job, at_s in ends.items()},
        "in_order": float(
            all(before < after for before, after in pairwise(order))
            and all(ends[job] < ends[job + 1] for job in range(JOBS - 1))
            and all(line.machine == "pegasus" for line in (*better, *asked))
            and not log.moves(0)
        ),
        "better": len(better),
        "self": len(asked),
        "other": len(log.moves()) - len(better) - len(asked),
        "most_at_once": log.most_at_once("pegasus"),
    }


def _first_s(log: StageLog, what: str, job: int, reason: str) -> float:
    """Give when something first happened to a job for a reason; 0: never, which breaks every order."""
    return next((line.at_s for line in log.of(what, job, reason=reason)), 0.0)
