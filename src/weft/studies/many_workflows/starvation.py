"""``s5-starvation``: who still ends when more work arrives than servers can do (spec s5 section 10, A5.8).

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms, say that G-HEFT starves the last tasks of workflows while others arrive, and that aging helps.
The experiment is the specification's: 100 GEE, one every 45 s, which is 1.11 times what four servers can do.
Nothing in it is random, so one run says everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from weft.studies.many_workflows.applications import SERVERS
from weft.studies.many_workflows.contests import LABELS, run_one
from weft.studies.many_workflows.orders import starving
from weft.studies.reproduction import Band, Cell, Measures, Results, Row

__all__ = ["Starvation"]

_OFTEN = Band(least=80.0)
_DEMANDED = {
    "srpt": _OFTEN,
    "foft": _OFTEN,
    "aging-e": _OFTEN,
    "fcfs": _OFTEN,
    "aging": Band(least=50.0),
    "g-heft": Band(most=5.0),
}
_PROTOTYPE = {"aging": "68", "g-heft": "2", "basic": ""}


class Starvation:
    """More work than can be done."""

    name: ClassVar[str] = "s5-starvation"
    title: ClassVar[str] = "workflows that end although more arrive than can (Bolze et al.; S5 section 10)"

    def cells(self, *, full: bool) -> Sequence[Cell]:  # noqa: ARG002
        """Give a cell for every policy."""
        return [Cell(name=policy, settings={"policy": policy}, runs=1) for policy in LABELS]

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:  # noqa: ARG002
        """Simulate one policy."""
        arrivals = starving()
        last_s = arrivals[-1].at_s
        history = run_one(arrivals, str(cell.settings["policy"]), servers=SERVERS).history
        ends_s = [run.ended_s for run in history.runs if run.ended_s is not None]
        return {"early": float(sum(end_s < last_s for end_s in ends_s)), "end_s": history.end_s}

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:  # noqa: ARG002
        """Give how many ended before the last arrived."""
        return [
            Row(
                table="of 100 workflows: ended before the last one arrived",
                figure=label,
                ours=results.summary(policy, "early").mean,
                digits=0,
                runs=len(results.of(policy, "early")),
                paper="starves" if policy == "g-heft" else "",
                prototype=_PROTOTYPE.get(policy, "86 or 87"),
                band=_DEMANDED.get(policy),
                accepts="A5.8" if policy in _DEMANDED else "",
            )
            for policy, label in LABELS.items()
        ]
