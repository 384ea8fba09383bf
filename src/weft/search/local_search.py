"""Iterated local search: improve one gene at a time; at a local optimum perturb the best point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.search.optimiser import Evaluator, OptimiserBase
from weft.search.space import Points, Space, list_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSearchSettings:
    """Settings of iterated local search."""

    improvement: Literal["first", "best"] = "first"
    """``first``: take the best change of the first batch with an improvement; ``best``: of all batches."""
    together: int = 32
    """Number of changes evaluated per batch."""
    restarts: int = 20
    """Number of perturbations."""
    shaken: float = 0.1
    """Share of the genes that a perturbation replaces by random values; at least two genes."""

    def __post_init__(self) -> None:
        for name, least in (("together", 1), ("restarts", 0)):
            if getattr(self, name) < least:
                what = f"{name} of local search is {getattr(self, name)}"
                raise InvalidInput(what, rule=f"must be at least {least}")
        if not 0.0 <= self.shaken <= 1.0:
            raise InvalidInput(f"shaken of local search is {self.shaken}", rule="must be from 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSearch(OptimiserBase):
    """Iterated local search over changes of single genes.

    H. R. Lourenço, O. C. Martin, T. Stützle, Iterated Local Search, 2003. All changes of one gene are tried
    in random order, in batches. ``first`` takes the best change of the first batch with an improvement;
    ``best`` tries all changes.
    """

    name: ClassVar[str] = "local-search"
    title: ClassVar[str] = "iterated local search over single genes"

    settings: LocalSearchSettings = LocalSearchSettings()

    def search(
        self, space: Space, evaluator: Evaluator, rng: np.random.Generator, starts: list[ArrayLike]
    ) -> None:
        """Climb from the best start to a local optimum; then perturb the best point and climb again."""
        evaluator.evaluate(space.first_points(rng, max(1, len(starts)), starts))
        point, value = evaluator.best, evaluator.value
        for restart in range(self.settings.restarts + 1):
            if restart:
                point = self._perturb(evaluator.best, space, rng)
                value = float(evaluator.evaluate(point[None])[0])
            self._climb(point.copy(), value, space, evaluator, rng)

    def _climb(
        self, point: Points, value: float, space: Space, evaluator: Evaluator, rng: np.random.Generator
    ) -> None:
        """Apply improving changes of one gene until no change improves the point."""
        together = self.settings.together
        while True:
            gene, other = list_changes(point, space)
            order = rng.permutation(len(gene))
            best, taken = value, -1
            for start in range(0, len(order), together):
                changes = order[start : start + together]
                tried = np.repeat(point[None], len(changes), axis=0)
                tried[np.arange(len(changes)), gene[changes]] = other[changes]
                values = evaluator.evaluate(tried)
                number = int(values.argmax())
                if values[number] > best:
                    best, taken = float(values[number]), int(changes[number])
                    if self.settings.improvement == "first":
                        break
            if taken < 0:
                return
            point[gene[taken]], value = other[taken], best

    def _perturb(self, point: Points, space: Space, rng: np.random.Generator) -> Points:
        """Return a copy of a point with some genes replaced at random."""
        number = min(space.genes, max(2, round(self.settings.shaken * space.genes)))
        genes = rng.choice(space.genes, number, replace=False)
        result = point.copy()
        result[genes] = space.draw(rng, 1)[0, genes]
        return result
