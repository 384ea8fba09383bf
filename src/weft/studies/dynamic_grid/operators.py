"""The operators of S1's genetic search by themselves: what scaling keeps, how many copies selection gives.

The conditions (A1.4, A1.5; spec s1 section 4) are written down here once more, apart from ``weft.search``,
and looked for on random populations. Exact means: but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.search.operators.scaling import scaled
from weft.search.operators.selection import remainder
from weft.search.space import Floats
from weft.studies.dynamic_grid.factors import OPERATORS
from weft.studies.reproduction import Band, Measures, Results, Row

__all__ = ["operator_measures", "operator_rows"]

_TRIALS, _POPULATION = 200, 150
_FACTORS = (1.5, 2.0)
_ROUNDING = 1e-12
"""Share that counts as exact."""


def operator_measures(rng: np.random.Generator) -> Measures:
    """Scale and select on random populations; give the largest deviations."""
    found = {
        "best_deviation": 0.0, "mean_deviation": 0.0, "worst_deviation": 0.0, "parents_deviation": 0.0,
        "copies_missing": 0.0, "usual": 0.0, "other": 0.0,
    }  # fmt: skip
    for trial in range(_TRIALS):
        # Powers give populations with a few that are outstanding, or outstandingly bad: the other branch.
        powers = rng.random(_POPULATION) ** (1 + trial // 2 % 8)
        fitness = 1.0 - powers if trial % 2 else powers
        for factor in _FACTORS:
            after = scaled(fitness, factor)
            mean = float(fitness.mean())
            usual = fitness.min() > (factor * mean - fitness.max()) / (factor - 1.0)
            if usual:
                _note(found, "best_deviation", abs(float(after.max()) - factor * mean) / mean)
            else:
                _note(found, "worst_deviation", abs(float(after.min())) / mean)
            _note(found, "mean_deviation", abs(float(after.mean()) - mean) / mean)
            found["usual" if usual else "other"] += 1
            _note_copies(found, after, rng)
    return found


def _note(found: dict[str, float], name: str, deviation: float) -> None:
    found[name] = max(found[name], deviation)


def _note_copies(found: dict[str, float], fitness: Floats, rng: np.random.Generator) -> None:
    parents = remainder(fitness, _POPULATION, rng)
    copies = np.bincount(parents, minlength=_POPULATION)
    whole = np.floor(fitness / fitness.mean() * (1.0 - _ROUNDING))
    _note(found, "parents_deviation", abs(int(copies.sum()) - _POPULATION))
    _note(found, "copies_missing", float((whole - copies).max()))


def operator_rows(results: Results) -> Sequence[Row]:
    """Give the deviations, which must be none."""
    figures = (
        ("scaling: best off factor times average", "best_deviation", "A1.4", _ROUNDING),
        ("scaling: average off what it was", "mean_deviation", "A1.4", _ROUNDING),
        ("scaling, other branch: worst off 0", "worst_deviation", "A1.4", _ROUNDING),
        ("selection: parents off the population", "parents_deviation", "A1.5", 0.0),
        ("selection: copies missing of the whole part", "copies_missing", "A1.5", 0.0),
    )
    return [
        Row(
            table="operators (largest deviation on random populations)",
            figure=figure,
            ours=results.summary(OPERATORS, measure).most,
            digits=0,
            runs=int(sum(sum(results.of(OPERATORS, branch)) for branch in ("usual", "other"))),
            paper="none",
            prototype="none",
            band=Band(most=most),
            accepts=accepts,
        )
        for figure, measure, accepts, most in figures
    ]
