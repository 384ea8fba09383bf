"""``s2-alpha``: cost and duration of plans when time and cost are weighted by alpha.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (docs/papers/moldable.md,
sections 4, 8, 10 and 12; A2.4 to A2.6, A2.9). The on-demand fitness counts the cost of the nodes in use. The
static fitness counts the cost of the whole cluster; two versions of it are used: the formula as printed, and
our reading of the formula. Plans are compared with the local optimum, in which every task has its fastest
node count. Figures are medians of 20 runs. Both kinds of fitness are swept over alpha. The static plans
(Figures 6 and 7) are also evaluated with the on-demand fitness, from their time and the node-seconds that
they use.

Deviations: all runs use the settings that the paper finally recommends, 50 individuals and 500 generations;
``full`` adds all workflows and alphas with the settings of Table 2, on demand, and 1,000 generations. Times
are processor times, which do not depend on other load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from typing import Any, ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.papers.moldable_local import (
    QUEUE,
    SIZES,
    dependent_instance,
    independent_instance,
    local_metrics,
    workflow_label,
)
from weft.papers.reproduction import (
    JUDGED_BELOW,
    NO_FIGURE,
    NOT_REPRODUCED,
    ONLY_WORDS,
    OWN_TIMES,
    THIS_HOST,
    ExperimentCell,
    Figure,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    give_reasons,
    median_row,
)
from weft.planners.moldable_genetic import MoldableGeneticPlanner, NodeCountEncoding
from weft.planners.planner import PlanRequest
from weft.planners.tuning import run_trial
from weft.randomness import generator
from weft.schedule.costs import sequential_execution
from weft.schedule.metrics import measure_schedule
from weft.schedule.objective import Objective, make_objective
from weft.search.operators import Selection
from weft.search.space import Floats

ALPHAS = (0.95, 0.8, 0.5, 0.2, 0.05)
OBJECTIVES = ("on-demand", "static", "static-literal")
INDEPENDENT = (8, 16, 32, 64)
_RUNS = 20
_MANY = 31
"""Minimum number of tasks of the large workflows in Table 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaCase:
    """A problem and the settings of its search; the defaults are recommended for large workflows."""

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
        """Return the name of the cell of this case."""
        kind = ("dependent" if self.dependent else "independent") + (" perturbed" if self.perturbed else "")
        how = f"{self.population}x{self.generations} {self.selection} {self.mutation_rate:g}"
        return f"{self.objective} alpha={self.alpha:g} {kind} tasks={self.tasks} {how}"

    def cell(self, runs: int = _RUNS) -> ExperimentCell:
        """Return the cell of this case, with an estimate of its work."""
        # The fixed cost of a generation is about that of decoding 2,000 tasks.
        work = self.generations * (self.population * self.tasks + 2000.0)
        return ExperimentCell(name=self.name, settings=asdict(self), runs=runs, work=work)


@dataclass(frozen=True, slots=True)
class TableSettings:
    """A line of the paper's Table 2: the best settings of the search, and their number of evaluations."""

    population: int
    selection: Selection
    evaluations: str


TABLE = {
    0.95: (
        TableSettings(25, "rank", "2,000 to 19,750"),
        TableSettings(50, "steady-state", "5,000 to 10,000"),
    ),
    0.8: (TableSettings(25, "steady-state", "1,250 to 2,500"), TableSettings(50, "rank", "22,000 to 45,000")),
    0.5: (TableSettings(50, "rank", "from 2,500"), TableSettings(100, "rank", "up to 65,000")),
    0.2: (TableSettings(25, "rank", "from 8,750"), TableSettings(50, "rank", "up to 42,500")),
    0.05: (
        TableSettings(50, "steady-state", "from 5,000"),
        TableSettings(100, "steady-state", "up to 30,000"),
    ),
}
"""By alpha: settings for small and large workflows. Mutation was 0.001 with rank, 0.01 with steady-state
selection.
"""


def table_settings(alpha: float, tasks: int) -> TableSettings:
    """Return the line of Table 2 for an alpha and a number of tasks."""
    return TABLE[alpha][int(tasks >= _MANY)]


def table_case(alpha: float, tasks: int, *, dependent: bool = True) -> AlphaCase:
    """Return the case with the settings of Table 2 for an alpha and a number of tasks."""
    line = table_settings(alpha, tasks)
    return AlphaCase(
        alpha=alpha,
        tasks=tasks,
        dependent=dependent,
        population=line.population,
        generations=1000,
        selection=line.selection,
        mutation_rate=0.001 if line.selection == "rank" else 0.01,
    )


def compared_cases() -> list[AlphaCase]:
    """Return the cases that are compared with the local optimum: every task on its fastest node count.

    They are judged by A2.4 and A2.5.
    """
    return [AlphaCase(objective=objective, tasks=tasks) for objective in OBJECTIVES for tasks in (15, 16)]


def sweep_cases() -> list[AlphaCase]:
    """Return the cases of the sweep over alpha with perturbed times, as in the prototype (A2.6)."""
    return [AlphaCase(alpha=alpha, tasks=16, perturbed=True) for alpha in ALPHAS]


STATIC = ("static", "static-literal")


def static_cases(*, full: bool) -> list[AlphaCase]:
    """Return the cases of the static fitness for all alphas (Figures 6, 7); if ``full``, also the tree."""
    return [
        AlphaCase(objective=objective, alpha=alpha, tasks=tasks, perturbed=True)
        for tasks in ((16, 15) if full else (16,))
        for objective in STATIC
        for alpha in ALPHAS
    ]


def timed_case() -> AlphaCase:
    """Return the case with a limit on processor time (A2.9)."""
    return AlphaCase(tasks=64)


_REASONS = {
    "on-demand, barrier-16": JUDGED_BELOW,
    "static, alpha": NO_FIGURE,
    "static-literal, alpha": NO_FIGURE,
    "processor time": THIS_HOST,
}
_MOST_CPU_S = 120.0
_ROUNDING = 1e-9


_SHORTER, _IDLE = ToleranceBand(least=-55.0, most=-19.0), ToleranceBand(most=39.0)
_COST = ToleranceBand(least=-45.0, most=-33.0)
_MAKESPAN, _SPENT, _UNUSED = (
    ("makespan_percent", "makespan against local", "%"),
    ("cost_percent", "cost against local", "%"),
    ("idle_percent", "idle nodes", "%"),
)
_FIGURES = {
    ("on-demand", 15): (
        Figure(*_SPENT, "-37 %", "-39 %", _COST, "A2.4"),
        Figure(*_MAKESPAN, "-30 %", "-8 %", ToleranceBand(least=-35.0, most=10.0), "A2.4"),
        Figure(*_UNUSED, "58 %", "69 %"),
    ),
    ("on-demand", 16): (
        Figure(*_SPENT, "-40 %", "-41 %", _COST, "A2.4"),
        Figure(*_MAKESPAN, "+37 %", "+5 %", ToleranceBand(least=-10.0, most=40.0), "A2.4"),
        Figure(*_UNUSED, "81 %", "75 %"),
    ),
    ("static", 15): (
        Figure(*_MAKESPAN, "-34 %", "-47 %", _SHORTER, "A2.5"),
        Figure(*_UNUSED, "30.8 %", "27.2 %", _IDLE, "A2.5"),
        Figure(*_SPENT, "", "-20 %"),
    ),
    ("static", 16): (
        Figure(*_MAKESPAN, "-19 %", "-50 %", _SHORTER, "A2.5"),
        Figure(*_UNUSED, "38.2 or 37.7 %", "20.3 %", _IDLE, "A2.5"),
        Figure(*_SPENT, "", "-20 %"),
    ),
    ("static-literal", 15): (
        Figure(*_MAKESPAN, "-34 %", "-46 %", _SHORTER, "A2.5"),
        Figure(*_UNUSED, "30.8 %", "25.8 %", _IDLE, "A2.5"),
        Figure(*_SPENT, "", "-17 %"),
    ),
    ("static-literal", 16): (
        Figure(*_MAKESPAN, "-19 %", "-47 %", _SHORTER, "A2.5"),
        Figure(*_UNUSED, "38.2 or 37.7 %", "17.2 %", _IDLE, "A2.5"),
        Figure(*_SPENT, "", "-12 %"),
    ),
}
"""Figures for alpha 0.5, by objective and number of tasks. Where the prototype states no medians, its figures
are those of its best run.
"""
_STATIC_SWEEP = {
    ("static", 16, 0.95): {"makespan_s": "910 s", "idle_percent": "20.9 %"},
    ("static", 16, 0.05): {"makespan_s": "972 s", "idle_percent": "18.4 %"},
    ("static-literal", 16, 0.5): {"makespan_s": "965 s", "idle_percent": "17.8 %"},
    ("static-literal", 16, 0.05): {"makespan_s": "1,716 s", "idle_percent": "45 %"},
}
"""By objective, number of tasks and alpha: the prototype's figures, by measure."""
_SWEEP = {0.95: ("904 s", "37,988"), 0.05: ("5,402 s", "33,345")}
"""By alpha: the prototype's makespan (seconds) and cost (node-seconds), as texts."""


def _compared_rows(results: Results) -> list[ResultRow]:
    rows = []
    for case in compared_cases():
        for figure in _FIGURES[case.objective, case.tasks]:
            found = results.summary(case.name, figure.measure)
            row = median_row(found, table=f"{case.objective}, alpha 0.5, medians", **figure.fields())
            rows.append(replace(row, figure=f"{workflow_label(case.tasks)}: {figure.figure}"))
    return rows


def _sweep_rows(results: Results) -> list[ResultRow]:
    cases = sweep_cases()
    measures = (("makespan_s", "makespan", "s"), ("node_seconds", "cost in node-seconds", ""))
    table = "on-demand, barrier-16 with varying times, medians by alpha"
    rows, medians = [], []
    for place, (measure, title, unit) in enumerate(measures):
        found = [results.summary(case.name, measure) for case in cases]
        medians.append([one.median for one in found])
        rows += [
            median_row(
                one,
                table=table,
                figure=f"{title}, alpha {case.alpha:g}",
                unit=unit,
                digits=0,
                prototype=_SWEEP[case.alpha][place] if case.alpha in _SWEEP else "",
            )
            for case, one in zip(cases, found, strict=True)
        ]
    times, costs = medians
    wrong = (
        ("steps of falling alpha with a shorter makespan", _count_falls(times)),
        ("steps of falling alpha with a higher cost", _count_falls([-cost for cost in costs])),
    )
    runs = min(len(results.of(case.name, "makespan_s")) for case in cases)
    for title, steps in wrong:
        figure = Figure("", title, "", "none", "none", ToleranceBand(most=0.0), "A2.6")
        rows.append(ResultRow(table=table, ours=steps, runs=runs, **figure.fields()))
    return rows


def _count_falls(values: Sequence[float]) -> int:
    return sum(after < before - _ROUNDING * abs(before) for before, after in pairwise(values))


def _static_rows(results: Results, *, full: bool) -> Iterator[ResultRow]:
    """Yield rows of the static sweep: time, idle nodes, their correlation, longest / shortest time."""
    for tasks, objective in product((16, 15) if full else (16,), STATIC):
        cases = [one for one in static_cases(full=full) if (one.tasks, one.objective) == (tasks, objective)]
        table = f"{objective}, {workflow_label(tasks)} with varying times, medians by alpha (Figures 6 and 7)"
        for measure, title, unit in (("makespan_s", "makespan", "s"), ("idle_percent", "idle nodes", "%")):
            for case in cases:
                found = results.summary(case.name, measure)
                known = _STATIC_SWEEP.get((objective, tasks, case.alpha), {}).get(measure, "")
                label, digits = f"{title}, alpha {case.alpha:g}", int(unit == "%")
                yield median_row(
                    found, table=table, figure=label, unit=unit, digits=digits, prototype=known, why=NO_FIGURE
                )
        runs = sum(len(results.of(case.name, "makespan_s")) for case in cases)
        medians = [results.summary(case.name, "makespan_s").median for case in cases]
        overlap = NOT_REPRODUCED if objective == "static-literal" else ONLY_WORDS
        for figure, ours in (
            (
                Figure("", "longest / shortest median", "", "all overlap", digits=2, why=overlap),
                max(medians) / min(medians),
            ),
            (
                Figure("", "correlation of makespan and idle share", "", "strong", digits=2, why=ONLY_WORDS),
                _correlation(results, cases),
            ),
        ):
            yield ResultRow(table=table, ours=ours, runs=runs, **figure.fields())


def _correlation(results: Results, cases: Sequence[AlphaCase]) -> float:
    """Return the correlation of makespan and idle share over all runs; 0 if one of them does not vary."""
    times, idle = (
        np.array([value for case in cases for value in results.of(case.name, measure)])
        for measure in ("makespan_s", "idle_percent")
    )
    if not times.std() or not idle.std():
        return 0.0
    return float(np.corrcoef(times, idle)[0, 1])


def _rescored_rows(results: Results) -> Iterator[ResultRow]:
    """Yield rows that compare static plans with plans searched on demand, by the on-demand fitness."""
    demanded = _points(results, sweep_cases())
    for objective in STATIC:
        cases = [one for one in static_cases(full=False) if one.objective == objective]
        table = f"{objective} plans rescored on demand, barrier-16 with varying times"
        for case in cases:
            found = results.summary(case.name, "node_seconds")
            figure = f"cost in node-seconds, alpha {case.alpha:g}"
            yield median_row(found, table=table, figure=figure, digits=0, why=NO_FIGURE)
        points = _points(results, cases)
        fitness = {
            alpha: _on_demand(np.median(points, axis=0), alpha)
            / _on_demand(_median_of(results, alpha), alpha)
            for alpha in ALPHAS
        }
        for alpha, ratio in fitness.items():
            figure = f"on-demand fitness, all static plans / plans on demand, alpha {alpha:g}"
            yield ResultRow(table=table, figure=figure, ours=ratio, digits=2, runs=len(points), why=NO_FIGURE)
        free = sum(not _is_covered(point, demanded) for point in points)
        figure = "plans that no plan on demand beats in time and cost"
        ours = 100.0 * free / len(points)
        yield ResultRow(table=table, figure=figure, ours=ours, unit="%", runs=len(points), why=NO_FIGURE)


def _points(results: Results, cases: Sequence[AlphaCase]) -> Floats:
    """Return (makespan, node-seconds) of all runs of the cases."""
    times, costs = (
        [value for case in cases for value in results.of(case.name, measure)]
        for measure in ("makespan_s", "node_seconds")
    )
    return np.array([times, costs]).T


def _median_of(results: Results, alpha: float) -> Floats:
    (case,) = (one for one in sweep_cases() if one.alpha == alpha)
    found: Floats = np.median(_points(results, [case]), axis=0)
    return found


def _on_demand(point: Floats, alpha: float) -> float:
    """Return the on-demand fitness of ``point`` (makespan, node-seconds) for the workflow of the sweeps."""
    whole = sequential_execution(dependent_instance(16, perturbed=True))
    return float(alpha * point[0] / whole.time_s + (1.0 - alpha) * point[1] / whole.node_seconds)


def _is_covered(point: Floats, others: Floats) -> bool:
    return bool((others <= point * (1.0 + _ROUNDING)).all(axis=1).any())


def _timed_rows(results: Results) -> list[ResultRow]:
    case = timed_case()
    found = results.summary(case.name, "cpu_s")
    table = "processor time, barrier-64, 50 individuals, 500 generations (differs from run to run)"
    most = ToleranceBand(most=_MOST_CPU_S)
    whole = Figure("cpu_s", "whole search, mean", "s", "about 60 s", "", most, "A2.9", digits=2)
    generation = Figure("cpu_s", "one generation, mean", "ms", "120 ms", digits=2)
    return [
        ResultRow(table=table, ours=ours, runs=found.number, **figure.fields())
        for figure, ours in ((whole, found.mean), (generation, found.mean / case.generations * 1e3))
    ]


def _table_rows(results: Results) -> list[ResultRow]:
    """Return the rows of Table 2: evaluations until the best schedule was found."""
    rows = []
    for alpha in ALPHAS:
        for tasks in SIZES:
            case = table_case(alpha, tasks)
            found = results.summary(case.name, "evaluations_to_best")
            table = f"on-demand, alpha {alpha:g}: median evaluations until the best"
            label = f"{workflow_label(tasks)}, {case.population} individuals, {case.selection}"
            paper = table_settings(alpha, tasks).evaluations
            rows.append(median_row(found, table=table, figure=label, digits=0, paper=paper))
            rows += _time_and_cost_rows(results, case, workflow_label(tasks))
    return rows


def _independent_rows(results: Results) -> list[ResultRow]:
    return [
        row
        for tasks in INDEPENDENT
        for alpha in ALPHAS
        for row in _time_and_cost_rows(
            results, table_case(alpha, tasks, dependent=False), f"independent-{tasks}"
        )
    ]


def _time_and_cost_rows(results: Results, case: AlphaCase, shape: str) -> list[ResultRow]:
    """Return rows with the median makespan and cost of a case; they have no tolerances."""
    return [
        median_row(
            results.summary(case.name, measure),
            table=f"{case.objective}, alpha {case.alpha:g}: {title}, medians",
            figure=shape,
            unit="%",
        )
        for measure, title, _ in (_MAKESPAN, _SPENT)
    ]


class AlphaStudy:
    """The experiment with plans that weight time and cost by alpha."""

    name: ClassVar[str] = "s2-alpha"
    title: ClassVar[str] = "time against cost and idle nodes by alpha (Jaros, Jaros; moldable, section 10)"

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:
        """Return the cells of the judged cases and, if ``full``, of Table 2."""
        cases = (*compared_cases(), *sweep_cases(), *static_cases(full=full))
        cells = [case.cell() for case in cases] + [timed_case().cell(1)]
        if full:
            for dependent, sizes in ((True, SIZES), (False, INDEPENDENT)):
                cells += [
                    table_case(alpha, tasks, dependent=dependent).cell()
                    for alpha in ALPHAS
                    for tasks in sizes
                ]
        return cells

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:
        """Run one search and return its measures."""
        given: dict[str, Any] = dict(cell.settings)
        case = AlphaCase(**given)
        instance, goal = _instance(case), make_objective(case.objective, case.alpha)
        warm_up(instance, goal)
        begun_s = time.process_time()
        found = run_trial(_planner(case), PlanRequest(instance=instance, objective=goal, rng=rng))
        taken_s = time.process_time() - begun_s
        plan, local = measure_schedule(found.schedule, instance), local_metrics(instance)
        return {
            "makespan_s": plan.makespan_s,
            "makespan_percent": 100.0 * (plan.makespan_s / local.makespan_s - 1.0),
            "node_seconds": plan.node_seconds,
            "cost_percent": 100.0 * (plan.node_seconds / local.node_seconds - 1.0),
            "idle_percent": 100.0 * plan.idle_share,
            "evaluations_to_best": found.evaluations_to_best,
            "visited": found.visited,
            "cpu_s": taken_s,
        }

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:
        """Return the rows of docs/papers/moldable.md, section 10, and if ``full`` of Table 2."""
        rows = [*_compared_rows(results), *_sweep_rows(results), *_static_rows(results, full=full)]
        rows += [*_rescored_rows(results), *_timed_rows(results)]
        rows += [*_table_rows(results), *_independent_rows(results)] if full else []
        return give_reasons(rows, OWN_TIMES, _REASONS)


def _instance(case: AlphaCase) -> Instance:
    if case.dependent:
        return dependent_instance(case.tasks, perturbed=case.perturbed)
    return independent_instance(case.tasks)


def warm_up(instance: Instance, goal: Objective) -> None:
    """Compile or load the kernels, so that their time is not measured as part of a search."""
    counts = NodeCountEncoding(instance, goal, queue=QUEUE)
    counts.values(counts.space.draw(generator(0, "warm-up"), 1))


def _planner(case: AlphaCase) -> MoldableGeneticPlanner:
    """Return the planner that a user would name ``moldable-genetic:preset=s2-recommended,queue=fifo,...``."""
    return MoldableGeneticPlanner(
        preset="s2-recommended",
        queue="fifo",
        population=case.population,
        generations=case.generations,
        selection=case.selection,
        mutation_rate=case.mutation_rate,
    )
