"""Tune the options of a search planner for a workflow: the function behind ``weft tune``."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from weft.api.plan import open_pool, run_planner
from weft.api.request import load_request
from weft.errors import InvalidInput
from weft.formats.files import open_source
from weft.instance.instance import Instance
from weft.papers.repetition import ReproductionProgress, ResultLedger, repeat_cells, source_digest
from weft.papers.reproduction import ExperimentCell, Measures, Results
from weft.planners.evaluation import compute_bounds
from weft.planners.plan_search import SearchPlanner
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.planners.tuning import OptionValue, TuningGrid, find_planners, option_text, read_grid, run_trial
from weft.platform.file_format import platform_document
from weft.platform.platform import Platform
from weft.records import dataclass
from weft.reports.tuning import TunedExperiment, TuningResult
from weft.schedule.objective import Formula, Objective, make_objective
from weft.search.pool import INLINE_POOL, Pool
from weft.workflow.file_format import workflow_document
from weft.workflow.workflow import Workflow

DEFAULT_REPEAT = 30
"""Default number of runs of every experiment, as in the paper."""
BEST, BOUND = "best", "bound"
"""Names of references: the best value of all runs, and the lower bound of the makespan."""
_MEASURES = ("value", "first_value", "visited", "generation_of_best", "evaluations_to_best")

GridSource = TuningGrid | Mapping[str, Sequence[OptionValue]] | str | Path
"""A grid, a mapping from options to their values, or a file with a grid."""


def tune(
    workflow: Workflow | str | Path,
    *,
    on: Platform | str | Path = "local",
    planner: str = "genetic",
    grid: GridSource | None = None,
    repeat: int = DEFAULT_REPEAT,
    objective: str | Formula | Objective = "makespan",
    alpha: float | None = None,
    reference: str | float = BEST,
    tolerance: float = 0.0,
    stop_at_reference: bool = False,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    plan_steps: int | None = None,
    workers: int = 1,
    cluster: str | None = None,
    pool: Pool | str | None = None,
    folder: Path | None = None,
    fresh: bool = False,
    progress: Callable[[ReproductionProgress], None] | None = None,
) -> TuningResult:
    """Run a planner's search ``repeat`` times with every setting of a grid and return the results.

    ``planner`` is ``genetic``, ``moldable-genetic`` or ``annealing``, possibly with options; the options of
    ``grid`` replace them. Precision and success are relative to ``reference``: ``"best"`` (the best value of
    all runs), ``"bound"`` (the lower bound of the makespan), a number, or the name of a planner, whose plan
    is evaluated. With ``stop_at_reference`` a run ends when it reaches the reference; ``plan_steps`` limits
    the number of schedules that a run evaluates. Every run has its own random generator, so that the result
    depends on the seed only.

    Finished runs are stored in ``folder``, so that an interrupted call can continue; ``fresh`` discards them.
    """
    for number, noun, least in ((repeat, "repetitions", 1), (seed, "seed", 0)):
        if number < least:
            raise InvalidInput(f"{noun}: {number}", rule=f"must be at least {least}")
    if not 0 <= tolerance < math.inf:
        raise InvalidInput(f"a tolerance of {tolerance:g}", rule="must be a fraction, at least 0")
    goal, settings = make_objective(objective, alpha), _load_grid(grid)
    planners = find_planners(planner, settings)
    request = load_request(workflow, on=on, params=params)
    instance = request.instance
    if (refusal := next(iter(planners.values())).supports(instance, goal)) is not None:
        raise InvalidInput(f"planner {planner!r} cannot plan this: {refusal.reason}")
    with open_pool(workers=workers, cluster=cluster, pool=pool) as opened:
        known = None if reference == BEST else _find_reference(reference, instance, goal, seed)
        if stop_at_reference and known is None:
            rule = "the best value of all runs is known only after the last run"
            raise InvalidInput(
                "a run cannot stop at the best value of all runs",
                rule=rule,
                advice="set the reference to bound, a number or the name of a planner",
            )
        trials = _TuningTrials(
            instance=instance,
            objective=goal,
            planners=planners,
            target=known if stop_at_reference else None,
            plan_steps=plan_steps,
        )
        ledger = None if folder is None else ResultLedger(_ledger_path(folder, trials, planner, seed))
        if ledger is not None and fresh:
            ledger.delete()
        cells = [trials.cell(text) for text in planners]
        repeated = repeat_cells(trials, cells, ledger, runs=repeat, seed=seed, pool=opened, report=progress)
    experiments = tuple(_collect(options, repeated.results) for options in settings.experiments())
    made = TuningResult(
        workflow=instance.graph.workflow.name,
        platform=instance.platform.name,
        planner=planner,
        objective=goal.name,
        maximised=goal.sense == "maximise",
        reference=str(reference),
        reference_value=math.nan if known is None else known,
        tolerance=tolerance,
        repeat=repeat,
        seed=seed,
        experiments=experiments,
        reused=repeated.reused,
    )
    return made if known is not None else replace(made, reference_value=made.best_value)


def _load_grid(grid: GridSource | None) -> TuningGrid:
    """Return a grid of option values from an object, a mapping or a file.

    If ``grid`` is None, the grid is empty: there is one experiment, with the planner's own options.
    """
    if grid is None:
        return TuningGrid()
    if isinstance(grid, TuningGrid):
        return grid
    if isinstance(grid, Mapping):
        return TuningGrid(options={name: tuple(values) for name, values in grid.items()})
    from weft.formats.yaml_document import parse_document

    return read_grid(parse_document(open_source(grid).text(), str(grid)))


def _find_reference(reference: str | float, instance: Instance, goal: Objective, seed: int) -> float:
    """Return the value of a reference: a number, the lower bound, or the value of a planner's plan."""
    if isinstance(reference, int | float):
        return float(reference)
    try:
        return float(reference)
    except ValueError:
        pass
    if reference == BOUND:
        if not goal.is_makespan:
            rule = "only the makespan has a lower bound"
            raise InvalidInput(
                f"the objective {goal.name!r} has no lower bound", rule=rule, advice="state a number"
            )
        return compute_bounds(instance).best_s
    chosen = make_planner(reference)
    makespan = make_objective("makespan")
    # The reference planner may optimise the makespan instead; its plan is still measured by ``goal``.
    planned_for = goal if chosen.supports(instance, goal) is None else makespan
    if (refusal := chosen.supports(instance, planned_for)) is not None:
        raise InvalidInput(f"reference {reference!r} cannot plan this: {refusal.reason}")
    steps = Budget(steps=1000) if getattr(chosen, "anytime", False) else Budget()
    made, _ = run_planner(instance, chosen, planned_for, seed, steps, INLINE_POOL)
    return goal.value(made.schedule, instance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TuningTrials:
    """Runs the search of one experiment."""

    name: ClassVar[str] = "tune"

    instance: Instance
    objective: Objective
    planners: Mapping[str, SearchPlanner]
    target: float | None
    plan_steps: int | None

    def cell(self, text: str) -> ExperimentCell:
        """Return the cell of an experiment; the cell's work is estimated as population times generations."""
        planner = self.planners[text]
        work = float(getattr(planner, "population", 0) or 50) * (getattr(planner, "generations", 0) or 500)
        return ExperimentCell(name=text, runs=DEFAULT_REPEAT, work=work)

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:
        """Run one search and return its measures."""
        request = PlanRequest(
            instance=self.instance, objective=self.objective, rng=rng, budget=Budget(steps=self.plan_steps)
        )
        found = run_trial(self.planners[cell.name], request, target=self.target)
        return {name: float(getattr(found, name)) for name in _MEASURES}


def _collect(options: Mapping[str, OptionValue], results: Results) -> TunedExperiment:
    cell = option_text(options)
    values, first, visited, generation, evaluations = (tuple(results.of(cell, name)) for name in _MEASURES)
    return TunedExperiment(
        options=options,
        values=values,
        first_values=first,
        visited=visited,
        generation_of_best=generation,
        evaluations_to_best=evaluations,
    )


def _ledger_path(folder: Path, trials: _TuningTrials, planner: str, seed: int) -> Path:
    """Return the file that stores finished runs; its name contains a digest of the input of the runs."""
    graph, goal = trials.instance.graph, trials.objective
    given = {
        "workflow": workflow_document(graph.workflow),
        "platform": platform_document(trials.instance.platform),
        "planner": planner,
        "objective": [goal.name, goal.alpha],
        "target": trials.target,
        "plan_steps": trials.plan_steps,
        "code": source_digest("weft.planners.tuning"),
    }
    text = json.dumps(given, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
    return folder / f"{seed}-{digest}.jsonl"
