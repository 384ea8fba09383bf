"""The genetic algorithm with the operators of two papers; ``GeneticSettings`` selects among them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.search.operators import (
    CROSSOVERS,
    SELECTIONS,
    Crossover,
    ParentIndices,
    Selection,
    compute_fitness,
    cross_pairs,
    keep_best,
    mutate,
    scale_fitness,
    select_elite,
)
from weft.search.optimiser import Evaluator, OptimiserBase
from weft.search.space import Floats, Points, Space


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneticSettings:
    """Settings of the genetic algorithm; the defaults are those of Jaros and Jaros.

    The docstrings of the fields state the values of two papers. "grid": R. Prodan, T. Fahringer, Dynamic
    Scheduling of Scientific Workflow Applications on the Grid, SAC 2005 (docs/papers/dynamic-grid.md, section
    4). "moldable": M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows
    (docs/papers/moldable.md, section 8). A generation replaces the one before, except for elites.
    """

    population: int = 50
    """Points per generation (grid 150; moldable 25 below 31 genes, otherwise 50)."""
    generations: int = 500
    """Largest number of generations, including the first (grid 500, moldable 100 to 500)."""
    selection: Selection = "steady-state"
    """Selection of parents (grid remainder, moldable steady-state)."""
    parent_share: float = 0.5
    """Number of parents as a share of the population (grid 1, moldable 0.5)."""
    scaling: float = 1.0
    """Ratio of the best fitness to the mean fitness after scaling; 1 disables scaling (grid 2)."""
    crossover: Crossover = "uniform"
    """Crossover operator (grid single-point, moldable uniform)."""
    crossover_rate: float = 0.7
    """Probability that a pair exchanges genes (grid 0.9, moldable 0.7)."""
    mutation_rate: float = 0.01
    """Probability that a gene is replaced by a random value (grid 0.001, moldable 0.01)."""
    elitist: bool = False
    """Whether the best point so far replaces the worst one if a whole generation is worse (grid yes)."""
    elite_share: float = 0.05
    """Share of the population that survives unchanged, at least one point if not 0 (moldable 5 %)."""
    steady_share: float = 0.0
    """Stop when the best value has not improved for this share of ``generations``; 0: never (grid 20 %)."""
    const_factor: float = 2.0
    """Const (see ``GeneticAlgorithm``) as a multiple of the largest metric of the first generation."""

    def __post_init__(self) -> None:
        if (invalid := self._invalid_field()) is not None:
            name, rule = invalid
            raise InvalidInput(f"{name} of the genetic algorithm is {getattr(self, name)!r}", rule=rule)

    def _invalid_field(self) -> tuple[str, str] | None:
        if self.population < 2:
            return "population", "must be at least 2"
        if self.generations < 1:
            return "generations", "must be at least 1"
        if self.selection not in SELECTIONS:
            return "selection", f"must be one of {', '.join(SELECTIONS)}"
        if self.crossover not in CROSSOVERS:
            return "crossover", f"must be one of {', '.join(CROSSOVERS)}"
        for field in fields(self):
            share = field.name.endswith(("_rate", "_share"))
            if share and not 0.0 <= getattr(self, field.name) <= 1.0:
                return field.name, "must be from 0 to 1"
        for name in ("scaling", "const_factor"):
            if not 1.0 <= getattr(self, name) < np.inf:
                return name, "must be at least 1"
        return None


PRESETS = {
    "s1-tuned": GeneticSettings(
        population=150,
        generations=500,
        selection="remainder",
        parent_share=1.0,
        scaling=2.0,
        crossover="single-point",
        crossover_rate=0.9,
        mutation_rate=0.001,
        elitist=True,
        elite_share=0.0,
        steady_share=0.2,
    ),
    "s2-recommended": GeneticSettings(),
}
"""Settings of the two papers.

``s1-tuned``: the final settings of docs/papers/dynamic-grid.md, section 12. ``s2-recommended``: those of
docs/papers/moldable.md, section 8, for more than 30 genes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneticAlgorithm(OptimiserBase):
    """The genetic algorithm: selection, crossover, mutation and elitism as in ``GeneticSettings``.

    Deviations: the first generation counts as one of ``generations``. If half of the population are parents
    (moldable) and more children are needed, the parents are shuffled and mate again. The value of a point is
    the negated metric that is minimised. Its fitness is ``Const - metric``, at least 0, where Const is a
    multiple of the largest metric of the first generation (grid, section 4.2).
    """

    name: ClassVar[str] = "genetic"
    title: ClassVar[str] = "genetic algorithm (Prodan and Fahringer 2005; Jaros and Jaros)"

    settings: GeneticSettings = PRESETS["s2-recommended"]

    def search(
        self, space: Space, evaluator: Evaluator, rng: np.random.Generator, starts: list[ArrayLike]
    ) -> None:
        """Evaluate up to ``generations`` generations, or until the best value stays the same."""
        settings = self.settings
        patience = settings.steady_share * settings.generations
        points = evaluator.last = space.first_points(rng, settings.population, starts)
        values = evaluator.evaluate(points)
        const = _const(values, settings.const_factor)
        while evaluator.generations < settings.generations:
            if 0 < patience <= evaluator.generations - 1 - evaluator.generation_of_best:
                return
            children = self._children(space, points, values, const, rng)
            values = evaluator.evaluate(children)
            points = evaluator.last = children
            if settings.elitist:
                keep_best(points, values, evaluator.best, evaluator.value)

    def _children(
        self, space: Space, points: Points, values: Floats, const: float, rng: np.random.Generator
    ) -> Points:
        """Return the next generation: elites, then children by selection, crossover and mutation."""
        settings, number = self.settings, len(points)
        elites = max(1, int(settings.elite_share * number)) if settings.elite_share else 0
        wanted = number - elites
        fitness = scale_fitness(compute_fitness(values, const), settings.scaling)
        many = max(2, round(settings.parent_share * number))
        parents = SELECTIONS[settings.selection](fitness, many, rng)
        # A pair has two children, so there may be one more than wanted.
        mates = _shuffle_parents(parents, wanted + wanted % 2, rng)
        children = cross_pairs(points[mates], settings.crossover, settings.crossover_rate, rng)[:wanted]
        mutate(children, space, settings.mutation_rate, rng)
        return np.concatenate([select_elite(points, values, elites), children]) if elites else children


def _const(values: Floats, factor: float) -> float:
    """Return Const, which is ``factor`` times the largest metric; values are negated metrics."""
    possible = values[np.isfinite(values)]
    return factor * max(0.0, -float(possible.min())) if len(possible) else 0.0


def _shuffle_parents(parents: ParentIndices, number: int, rng: np.random.Generator) -> ParentIndices:
    """Return ``number`` parents in random order; all parents occur once before any occurs again."""
    rounds = -(-number // len(parents))
    return parents[rng.random((rounds, len(parents))).argsort(axis=1).reshape(-1)[:number]]
