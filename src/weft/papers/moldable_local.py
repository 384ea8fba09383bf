"""``s2-local``: generations until the genetic search finds the known optimal node counts (Table 1).

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (docs/papers/moldable.md,
sections 6 to 8, 10 and 12; A2.2, A2.3): the objective is the sum of all times, so that the optimum of every
task is its fastest node count. Uniform crossover 0.7, mutation 0.01, 5 % elitism; 20 runs. Workflows on a
cluster of 64 nodes: odd sizes are trees, even sizes barriers; times come from ``weft.workflow.generators``.

Deviations: a run ends with the generation that finds the optimum or after 1,000 generations (the paper states
no limit). Without ``full``, selections other than steady-state, the best one in the paper, have 5 runs;
``full`` also tries every population with every size and selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from weft.instance import compile_instance
from weft.instance.instance import Instance
from weft.papers.reproduction import (
    NO_FIGURE,
    ExperimentCell,
    Figure,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    Value,
    median_row,
)
from weft.papers.statistics import share_percent
from weft.planners.moldable_genetic import MoldableGeneticPlanner
from weft.planners.planner import PlanRequest
from weft.planners.queue_decoding import run_queue, submission_order
from weft.planners.tuning import run_trial
from weft.randomness import generator
from weft.schedule.metrics import Metrics, measure_schedule
from weft.schedule.objective import make_objective
from weft.workflow.generators.generator import Generator
from weft.workflow.generators.moldable import Barrier, Independent, ReductionTree
from weft.workflow.task_graph import Indices
from weft.workflow.unfold import unfold

SIZES = (7, 8, 15, 16, 31, 32, 63, 64)
QUEUE = "fifo"
"""Queue discipline: no task overtakes a waiting one (docs/papers/moldable.md, section 5)."""
_PERTURBATION_SEED = 1
"""Seed of the perturbed times: all runs use one workflow."""


def workflow_label(tasks: int) -> str:
    """Return the label of the workflow with this number of tasks."""
    return f"{'tree' if tasks % 2 else 'barrier'}-{tasks}"


@cache
def dependent_instance(tasks: int, *, perturbed: bool = False) -> Instance:
    """Return the instance of the tree or barrier with this number of tasks."""
    kind = ReductionTree if tasks % 2 else Barrier
    return _compile(kind(tasks=tasks, perturbed=perturbed))


@cache
def independent_instance(tasks: int) -> Instance:
    """Return the instance of a workflow of ``tasks`` independent simulations."""
    return _compile(Independent(tasks=tasks, perturbed=False))


def _compile(kind: Generator) -> Instance:
    made = kind.generate(generator(_PERTURBATION_SEED, "s2", kind.name))
    assert made.platform is not None
    return compile_instance(unfold(made.workflow), made.platform)


def local_counts(instance: Instance) -> Indices:
    """Return the fastest node count of every task."""
    modes = [instance.modes(task) for task in range(len(instance))]
    return np.array([one.count[one.seconds.argmin()] for one in modes], dtype=np.uint32)


@cache
def local_metrics(instance: Instance) -> Metrics:
    """Return the metrics of the schedule in which every task has its fastest node count."""
    order = submission_order(instance)
    return measure_schedule(run_queue(instance, local_counts(instance), QUEUE, order=order), instance)


POPULATIONS = (25, 50, 100, 150)
JUDGED = "steady-state"
"""The selection whose results have tolerances."""
SELECTIONS = (JUDGED, "rank", "tournament", "roulette")
_IDLE = {15: (53.0, "51.9 %"), 16: (50.0, "49.8 %")}
"""By number of tasks: the idle share of nodes in the paper in percent, and in the prototype."""


class PublishedLine(NamedTuple):
    """A line of Table 1, with the prototype's result."""

    population: int
    generations: str
    """Median number of generations; a range covers all selections."""
    most_generations: int
    """Upper end of the range; the paper does not attribute values to selections."""
    success: str
    prototype: int
    """Median generations of the prototype."""


TABLE = {
    7: PublishedLine(25, "180", 180, "100 %", 253),
    8: PublishedLine(25, "220 to 250", 250, "100 %", 355),
    15: PublishedLine(50, "120 to 200", 200, "100 %", 194),
    16: PublishedLine(50, "180 to 200", 200, "100 %", 284),
    31: PublishedLine(100, "100", 100, "100 %", 161),
    32: PublishedLine(100, "190", 190, "90 to 95 %", 258),
    63: PublishedLine(100, "215", 215, "100 %", 301),
    64: PublishedLine(150, "260", 260, "90 to 95 %", 350),
}
"""By number of tasks: the line of Table 1."""


def local_cell(selection: str, tasks: int, population: int) -> str:
    """Return the name of the cell with these settings."""
    return f"{selection} tasks={tasks} population={population}"


def _judged_rows(results: Results) -> list[ResultRow]:
    successes, medians, cells = [], [], []
    for tasks, line in TABLE.items():
        name = local_cell(JUDGED, tasks, line.population)
        cells.append(name)
        generations = results.summary(name, "generation_of_best")
        figure = f"{workflow_label(tasks)}, {line.population} individuals"
        found = Figure("", figure, "%", line.success, "100 %", ToleranceBand(least=90.0), "A2.2", digits=0)
        table, share = f"{JUDGED} selection: runs that find the optimum", results.of(name, "success")
        successes.append(
            ResultRow(table=table, ours=share_percent(share), runs=generations.number, **found.fields())
        )
        band = ToleranceBand(most=2.0 * line.most_generations)
        found = Figure("", figure, "", line.generations, str(line.prototype), band, "A2.2", digits=1)
        table = f"{JUDGED} selection: median generation of the best"
        medians.append(median_row(generations, table=table, **found.fields()))
    return [*successes, *medians, _counts_row(results, cells)]


def _counts_row(results: Results, cells: Sequence[str]) -> ResultRow:
    """Return a row: the percentage of successful runs that have the fastest node counts.

    These are 35 nodes for every simulation and 2 for every processing task.
    """
    pairs = [
        zip(results.of(cell, "success"), results.of(cell, "fastest_counts"), strict=True) for cell in cells
    ]
    right = [counts for pair in pairs for success, counts in pair if success]
    title = "optimal runs with 35 nodes per simulation, 2 per processing"
    figure = Figure("", title, "%", "always", "100 %", ToleranceBand(least=100.0), "A2.2", digits=0)
    ours = share_percent(right) if right else 0.0
    return ResultRow(table=f"{JUDGED} selection: node counts", ours=ours, runs=len(right), **figure.fields())


def _idle_rows(results: Results) -> list[ResultRow]:
    rows = []
    for tasks, (paper, prototype) in _IDLE.items():
        found = results.summary(local_cell(JUDGED, tasks, TABLE[tasks].population), "idle_percent")
        band = ToleranceBand(least=paper - 3.0, most=paper + 3.0)
        title = f"{workflow_label(tasks)}, median"
        figure = Figure("idle_percent", title, "%", f"{paper:.1f} %", prototype, band, "A2.3")
        rows.append(median_row(found, table="idle nodes with the counts found", **figure.fields()))
    return rows


def _plain_rows(results: Results, selection: str, *, full: bool) -> list[ResultRow]:
    """Return rows with the generations and the success of a selection; they have no tolerances."""
    rows = []
    for tasks, line in TABLE.items():
        for population in POPULATIONS if full else (line.population,):
            published = population == line.population
            if selection == JUDGED and published:
                continue
            name = local_cell(selection, tasks, population)
            generations = results.summary(name, "generation_of_best")
            success = share_percent(results.of(name, "success"))
            table = f"{selection} selection: median generation of the best"
            label = f"{workflow_label(tasks)}, {population} individuals ({success:.0f} % optimal)"
            paper = line.generations if published else ""
            why = _ONE_RANGE if published else NO_FIGURE
            rows.append(median_row(generations, table=table, figure=label, paper=paper, why=why))
    return rows


_ONE_RANGE = "the paper has one range for all selections"
_RUNS, _OTHER_RUNS = 20, 5
_GENERATIONS = 1000
_ROUNDING = 1e-9


class LocalOptimumStudy:
    """The experiment that searches for the fastest node counts."""

    name: ClassVar[str] = "s2-local"
    title: ClassVar[str] = (
        "generations until the fastest node counts are found (Jaros, Jaros; moldable, Table 1)"
    )

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:
        """Return cells for all sizes and selections; populations as in Table 1 or, if ``full``, all."""
        cells = []
        for selection in SELECTIONS:
            for tasks in SIZES:
                own = TABLE[tasks].population
                for population in (own, *(other for other in POPULATIONS if full and other != own)):
                    runs = _RUNS if full or selection == JUDGED else _OTHER_RUNS
                    cells.append(_make_cell(selection, tasks, population, runs))
        return cells

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:
        """Run one search and return its measures."""
        instance = dependent_instance(int(cell.settings["tasks"]))
        fastest = local_counts(instance)
        optimum_s = float(sum(instance.modes(task).seconds.min() for task in range(len(instance))))
        optimum_s *= 1.0 + _ROUNDING
        request = PlanRequest(instance=instance, objective=make_objective("local"), rng=rng)
        found = run_trial(_planner(cell.settings), request, target=optimum_s)
        return {
            "success": float(found.value <= optimum_s),
            "fastest_counts": float((found.schedule.nodes == fastest).all()),
            "generation_of_best": found.generation_of_best,
            "visited": found.visited,
            "idle_percent": 100.0 * measure_schedule(found.schedule, instance).idle_share,
        }

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:
        """Return the rows of Table 1 for the judged selection, the idle shares, then the other selections."""
        rows = _judged_rows(results) + _idle_rows(results)
        for selection in SELECTIONS:
            rows += _plain_rows(results, selection, full=full)
        return rows


def _planner(settings: Mapping[str, Value]) -> MoldableGeneticPlanner:
    """Return the planner that a user would name ``moldable-genetic:preset=s2-recommended,queue=fifo,...``."""
    return MoldableGeneticPlanner(
        preset="s2-recommended",
        queue="fifo",
        population=int(settings["population"]),
        generations=_GENERATIONS,
        selection=settings["selection"],  # type: ignore[arg-type]
    )


def _make_cell(selection: str, tasks: int, population: int, runs: int) -> ExperimentCell:
    settings: dict[str, Value] = {"selection": selection, "tasks": tasks, "population": population}
    # Slow selections use all generations; a generation has a fixed cost.
    slow = 4.0 if selection == "roulette" else 1.0
    work = slow * (100.0 + population)
    return ExperimentCell(
        name=local_cell(selection, tasks, population), settings=settings, runs=runs, work=work
    )
