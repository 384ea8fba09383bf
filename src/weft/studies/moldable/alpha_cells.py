"""The cells of ``s2-alpha``: which workflow, which objective, which settings (spec s2 sections 8, 10, 12)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from weft.search.operators.selection import Selection
from weft.studies.moldable.workflows import SIZES
from weft.studies.reproduction import Cell

__all__ = [
    "ALPHAS",
    "INDEPENDENT",
    "OBJECTIVES",
    "TABLE",
    "Case",
    "Used",
    "cells_of",
    "compared_cases",
    "sweep_cases",
    "table_case",
    "timed_case",
    "used",
]

ALPHAS = (0.95, 0.8, 0.5, 0.2, 0.05)
OBJECTIVES = ("on-demand", "static", "static-literal")
INDEPENDENT = (8, 16, 32, 64)
_RUNS = 20
_MANY = 31
"""Tasks from which on a workflow is one of the large ones in Table 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is searched, and how: by default as S2 recommends for large workflows."""

    objective: str = "on-demand"
    alpha: float = 0.5
    tasks: int
    dependent: bool = True
    perturbed: bool = False
    population: int = 50
    generations: int = 500
    selection: Selection = "steady-state"
    mutation_rate: float = 0.01

    @property
    def name(self) -> str:
        """Name the cell."""
        kind = ("dependent" if self.dependent else "independent") + (" perturbed" if self.perturbed else "")
        how = f"{self.population}x{self.generations} {self.selection} {self.mutation_rate:g}"
        return f"{self.objective} alpha={self.alpha:g} {kind} tasks={self.tasks} {how}"

    def cell(self, runs: int = _RUNS) -> Cell:
        """Make the cell."""
        # A generation costs something by itself, about as much as 2,000 tasks decoded.
        work = self.generations * (self.population * self.tasks + 2000.0)
        return Cell(name=self.name, settings=asdict(self), runs=runs, work=work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A line of Table 2: the settings that were best, and how many evaluations they took."""

    population: int
    selection: Selection
    evaluations: str


TABLE = {
    0.95: (
        Used(population=25, selection="rank", evaluations="2,000 to 19,750"),
        Used(population=50, selection="steady-state", evaluations="5,000 to 10,000"),
    ),
    0.8: (
        Used(population=25, selection="steady-state", evaluations="1,250 to 2,500"),
        Used(population=50, selection="rank", evaluations="22,000 to 45,000"),
    ),
    0.5: (
        Used(population=50, selection="rank", evaluations="from 2,500"),
        Used(population=100, selection="rank", evaluations="up to 65,000"),
    ),
    0.2: (
        Used(population=25, selection="rank", evaluations="from 8,750"),
        Used(population=50, selection="rank", evaluations="up to 42,500"),
    ),
    0.05: (
        Used(population=50, selection="steady-state", evaluations="from 5,000"),
        Used(population=100, selection="steady-state", evaluations="up to 30,000"),
    ),
}
"""By alpha: for small and for large workflows. Rank came with mutation 0.001, steady-state with 0.01."""


def used(alpha: float, tasks: int) -> Used:
    """Give the line of Table 2 for a workflow."""
    return TABLE[alpha][int(tasks >= _MANY)]


def table_case(alpha: float, tasks: int, *, dependent: bool = True) -> Case:
    """Give the case of a line of Table 2."""
    line = used(alpha, tasks)
    return Case(
        alpha=alpha,
        tasks=tasks,
        dependent=dependent,
        population=line.population,
        generations=1000,
        selection=line.selection,
        mutation_rate=0.001 if line.selection == "rank" else 0.01,
    )


def compared_cases() -> list[Case]:
    """Give what is compared with the local optimum (A2.4, A2.5)."""
    return [Case(objective=objective, tasks=tasks) for objective in OBJECTIVES for tasks in (15, 16)]


def sweep_cases() -> list[Case]:
    """Give the sweep over alpha, on times that vary as the prototype's did (A2.6)."""
    return [Case(alpha=alpha, tasks=16, perturbed=True) for alpha in ALPHAS]


def timed_case() -> Case:
    """Give the search whose time is limited (A2.9)."""
    return Case(tasks=64)


def cells_of(*, full: bool) -> list[Cell]:
    """Give all cells."""
    cells = [case.cell() for case in (*compared_cases(), *sweep_cases())] + [timed_case().cell(1)]
    if full:
        cells += [table_case(alpha, tasks).cell() for alpha in ALPHAS for tasks in SIZES]
        cells += [
            table_case(alpha, tasks, dependent=False).cell() for alpha in ALPHAS for tasks in INDEPENDENT
        ]
    return cells
