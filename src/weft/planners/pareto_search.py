"""Searches for a Pareto front of time against cost, idle nodes or a formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners.auto import Auto
from weft.planners.decoding import decode, decode_population
from weft.planners.evaluation import evaluate_loss
from weft.planners.moldable_genetic import MoldableGeneticPlanner
from weft.planners.pareto_front import (
    MEASURES,
    FrontEntry,
    ParetoArchive,
    Tradeoff,
    hypervolume_share,
    keep_budgets,
    make_entry,
    mix_genomes,
)
from weft.planners.plan_search import plan_seeds
from weft.planners.planner import Budget, ClockSlice, Plan, PlanRequest, Unsupported
from weft.planners.portfolio import SearchSlice, SliceOutcome, run_slice
from weft.schedule.objective import Objective, make_objective
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Floats

ALPHAS = (0.95, 0.8, 0.5, 0.2, 0.05)
RUNS = 20
_PLANNER = MoldableGeneticPlanner(preset="s2-recommended")
_SEARCH = "auto"
"""Name of the planner that runs every search."""
_MIXING = "mixing"
"""Name under which mixtures of plans are reported."""
_BATCH = 4
"""Largest number of searches in one batch."""
_CLOSED = 1e-6
"""A gap is closed if its area is at most this share of the rectangle between the ends of the front."""
_PARTS = (0.5, 1.0 - 1e-6, 0.25, 0.75)
"""Deadlines of successive searches in a gap, as shares of the distance between the makespans of its ends.

Each search minimises the amount within its deadline. If a search with (nearly) the largest deadline returns
the faster end of the gap, the gap is probably empty.
"""
_MAX_VISITS = 3
"""Largest number of searches in a gap once the planned number of searches is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProgress:
    """The progress of a search for a Pareto front."""

    done: int
    """Number of objectives searched."""
    of: int
    """Approximate number of objectives to search."""
    points: int
    filled: float
    """Share of the rectangle between the ends of the front that its points dominate, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontTrial:
    """A schedule found during the search, on the front or not."""

    makespan_s: float
    amount: float
    alpha: float | None
    """Weight of time in the objective of the search that found the schedule; None if there was no weight."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrontResult:
    """The result of a search for a Pareto front."""

    entries: tuple[FrontEntry, ...]
    """The front by ascending makespan; empty if every schedule found exceeds the limits.

    ``run_alphas`` returns one front per alpha (weight of time), so that entries of different alphas may cover
    each other.
    """
    trials: tuple[FrontTrial, ...]
    nearest: Schedule
    """The schedule that exceeds the limits least; among equal ones the best by objective."""
    steps: int
    bound_s: float
    """Proven lower bound on the makespan; 0 if there is none."""
    cut: bool
    """Whether the clock or Ctrl-C ended the search."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _FrontTask:
    objective: Objective
    piece: SearchSlice


class FrontSearch:
    """A search for the Pareto front of one instance.

    The method is our own. List planners build the first plans. Then the fastest plan and the plan of least
    amount (cost, idle share or formula value) are searched: the ends of the front. Further searches look for
    plans in the widest gaps between neighbouring plans of the front. The first search in a gap uses the
    weights that give both ends of the gap the same value. Weighted sums miss plans in concave parts of the
    front, so later searches in the gap minimise the amount up to some makespan inside it. Every search starts
    from the best known plan for its objective. Mixtures of neighbouring plans (``mix_genomes``) take hardly
    any time and fill the front between these plans. The budget is divided equally among the searches, but
    each of the two ends gets about twice as much. The searches of one batch run in parallel and start from
    the plans known before the batch, so that with a budget of steps the front depends neither on a clock nor
    on the pool.

    The objective of the request is the makespan, with the limits that every plan has to keep. About
    ``points`` objectives are searched.
    """

    def __init__(
        self,
        request: PlanRequest,
        tradeoff: Tradeoff,
        *,
        points: int,
        on_progress: Callable[[FrontProgress], None] | None = None,
    ) -> None:
        self._request = request
        self._instance = request.instance
        self._tradeoff = tradeoff
        self._goal = request.objective
        self._max_cost = self._goal.max_cost if self._instance.price_per_node_s.any() else None
        self._points = points
        self._budget = request.budget
        self._rng = request.rng
        self._on_progress = on_progress
        self._archive = ParetoArchive()
        self._searched = ParetoArchive()
        """The front without mixtures, which would hide how wide the gaps between searched plans are."""
        self._known: list[Schedule] = []
        self._trials: list[FrontTrial] = []
        self._visits: dict[tuple[FrontEntry, FrontEntry], int] = {}
        self._mixed: set[tuple[FrontEntry, FrontEntry]] = set()
        self._notes: list[str] = []
        self._done = 0
        self._steps = 0
        self._bound_s = 0.0
        self._interrupted = False

    def run(self) -> FrontResult:
        """Search until the budget is spent or every gap is closed, and return the front."""
        try:
            self._seed()
            self._search_batch(self._end_objectives(), self._points // 2 + 1)
            while not self._is_over() and (objectives := self._next_objectives()):
                self._search_batch(objectives, max(len(objectives), self._points - self._done))
        except KeyboardInterrupt:
            if not self._known:
                raise
            self._interrupted = True
        if self._interrupted:
            self._notes.append("the search was interrupted: this is the front so far")
        timed = self._budget.left is not None and self._budget.left() <= 0
        return FrontResult(
            entries=self._archive.entries,
            trials=tuple(self._trials),
            nearest=min(self._known, key=lambda one: evaluate_loss(self._instance, self._goal, one)),
            steps=self._steps,
            bound_s=self._bound_s,
            cut=timed or self._interrupted,
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _is_over(self) -> bool:
        return self._interrupted or not self._budget.allows(self._steps)

    def _seed(self) -> None:
        """Add the plans of list planners; if none of them supports the instance, add a plan of ``Auto``."""
        request = replace(
            self._request, instance=self._tradeoff.searched, objective=self._limited(self._goal)
        )
        try:
            seeds = plan_seeds(request)
            found, self._steps = seeds.schedules, seeds.steps
        except Infeasible:
            part = Budget(steps=self._share(2), left=self._clock(1, 2).remaining_s)
            request = PlanRequest(instance=self._instance, objective=self._goal, budget=part, rng=self._rng)
            plan = Auto(islands=1).plan(request)
            found, self._steps = (plan.schedule,), plan.steps
        for schedule in found:
            self._take(schedule, alpha=None, by="a list planner")

    def _take(self, schedule: Schedule, *, alpha: float | None, by: str) -> None:
        entry = make_entry(self._instance, schedule, self._tradeoff.amount, alpha=alpha, by=by)
        self._known.append(entry.schedule)
        self._trials.append(FrontTrial(makespan_s=entry.makespan_s, amount=entry.amount, alpha=alpha))
        if evaluate_loss(self._instance, self._goal, entry.schedule).excess == 0:
            self._archive.offer(entry)
            if by != _MIXING:
                self._searched.offer(entry)

    def _end_objectives(self) -> list[Objective]:
        """Return the objectives of both ends: the fastest plan, and the plan of least amount."""
        least = min(trial.amount for trial in self._trials)
        return [self._limited(self._goal), self._limited(self._tradeoff.least(least))]

    def _limited(self, objective: Objective, deadline_s: float = math.inf) -> Objective:
        """Return an objective with the limits of the request and a further deadline."""
        soonest = min(deadline_s, math.inf if self._goal.deadline_s is None else self._goal.deadline_s)
        return replace(
            objective,
            deadline_s=None if soonest == math.inf else soonest,
            max_cost=self._max_cost,
        )

    def _next_objectives(self) -> list[Objective]:
        """Return an objective for each of the next gaps.

        Gaps with a large area and few past searches come first.
        """
        left = self._points - self._done
        if len(self._searched.entries) < 2:
            return self._end_objectives() if left > 0 else []
        gaps = [
            (area / (1 + visits), pair)
            for area, pair in _gaps(self._searched.entries)
            if (visits := self._visits.get(pair, 0)) < _MAX_VISITS or left > 0
        ]
        gaps.sort(key=lambda gap: -gap[0])
        return [self._objective_in(*pair) for _, pair in gaps[: max(1, min(_BATCH, left))]]

    def _mix(self) -> None:
        """Add mixtures of the two plans at the ends of each of the largest gaps."""
        gaps = [pair for _, pair in _gaps(self._archive.entries) if pair not in self._mixed]
        searched = self._tradeoff.searched
        for fast, slow in gaps[:_BATCH]:
            self._mixed.add((fast, slow))
            orders, bound, modes = mix_genomes(searched, fast.genome, slow.genome)
            decoded = decode_population(searched, orders, bound, modes)
            self._steps += len(orders)
            if (amounts := self._tradeoff.amounts(decoded)) is None:
                return
            kept = keep_budgets(searched, modes)
            for row in _undominated(np.where(kept, decoded.makespan_s, math.inf), amounts):
                self._take(decode(searched, orders[row], bound[row], modes[row]), alpha=None, by=_MIXING)

    def _objective_in(self, fast: FrontEntry, slow: FrontEntry) -> Objective:
        """Return the objective of the next search in the gap between two entries.

        The first search minimises a weighted sum of makespan and amount that is equal for both entries. Later
        searches minimise the amount (cost, idle share or formula value) within a deadline (``_PARTS``).
        """
        visits = self._visits.get((fast, slow), 0)
        self._visits[fast, slow] = visits + 1
        if visits == 0:
            return self._limited(self._tradeoff.between(fast, slow))
        part = _PARTS[(visits - 1) % len(_PARTS)]
        until_s = fast.makespan_s + part * (slow.makespan_s - fast.makespan_s)
        return self._limited(self._tradeoff.least(slow.amount), until_s)

    def _search_batch(self, objectives: Sequence[Objective], pieces: int) -> None:
        """Run one search per objective in parallel, each with 1 / ``pieces`` of the remaining budget."""
        searched = self._tradeoff.searched
        batch = [
            _FrontTask(
                objective=objective,
                piece=SearchSlice(
                    planner=_SEARCH,
                    start=min(self._known, key=partial(evaluate_loss, searched, objective)),
                    steps=self._share(pieces),
                    clock=self._clock(place, pieces),
                    rng=own,
                ),
            )
            for place, (objective, own) in enumerate(
                zip(objectives, self._rng.spawn(len(objectives)), strict=True)
            )
        ]
        outcomes = self._request.pool.map(partial(_run_task, searched), batch)
        for task, outcome in zip(batch, outcomes, strict=True):
            self._done += 1
            self._interrupted = self._interrupted or outcome.interrupted
            if outcome.plan is None:
                self._notes.append(outcome.failure)
            else:
                self._accept(task.objective, outcome.plan)
            self._report()
            if self._interrupted:
                return
        if not self._is_over():
            self._mix()

    def _accept(self, objective: Objective, plan: Plan) -> None:
        self._steps += plan.steps
        self._bound_s = max(self._bound_s, plan.bound_s)
        self._take(plan.schedule, alpha=self._weight(objective), by=plan.by or _SEARCH)

    def _weight(self, objective: Objective) -> float | None:
        """Return the weight of time in an objective; None for a formula or an objective with its own
        deadline.
        """
        if objective.deadline_s != self._goal.deadline_s or objective.formula is not None:
            return None
        return objective.alpha if objective.has_alpha else 1.0

    def _share(self, pieces: int) -> int | None:
        """Return 1 / ``pieces`` of the remaining steps, at least 1; None if steps are not limited."""
        steps = self._budget.steps
        return None if steps is None else max(1, (steps - self._steps) // pieces)

    def _clock(self, place: int, pieces: int) -> ClockSlice:
        """Return the time slice of a search.

        ``pieces`` searches share the time and the workers; ``place`` is the number of the search, from 0.
        """
        left = self._budget.left
        if left is None:
            return ClockSlice(left=None)
        workers = self._request.pool.workers
        turns, turn = -(-pieces // workers), place // workers + 1
        return ClockSlice(left=left, until_s=max(0.0, left()) * (1.0 - turn / turns))

    def _report(self) -> None:
        if self._on_progress is not None:
            entries = self._archive.entries
            self._on_progress(
                FrontProgress(
                    done=self._done,
                    of=max(self._points, self._done),
                    points=len(entries),
                    filled=hypervolume_share(entries),
                )
            )


def _gaps(entries: Sequence[FrontEntry]) -> list[tuple[float, tuple[FrontEntry, FrontEntry]]]:
    """Return the open gaps between neighbouring entries of a front, by descending area.

    A gap is a pair: its area as a share of the rectangle between the ends of the front, and its two entries.
    """
    if len(entries) < 2:
        return []
    first, last = entries[0], entries[-1]
    whole = (last.makespan_s - first.makespan_s) * (first.amount - last.amount)
    found = [
        ((slow.makespan_s - fast.makespan_s) * (fast.amount - slow.amount) / whole, (fast, slow))
        for fast, slow in pairwise(entries)
    ]
    return sorted((gap for gap in found if gap[0] > _CLOSED), key=lambda gap: -gap[0])


def _undominated(times: Floats, amounts: Floats) -> list[int]:
    """Return the rows of a population that no other row dominates, by ascending time."""
    found: list[int] = []
    least = math.inf
    for row in np.lexsort((np.arange(len(times)), amounts, times)).tolist():
        if amounts[row] < least and math.isfinite(times[row]):
            least = float(amounts[row])
            found.append(row)
    return found


def _run_task(instance: Instance, task: _FrontTask) -> SliceOutcome:
    return run_slice(instance, task.objective, task.piece)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _AlphaRun:
    objective: Objective
    budget: Budget
    rng: np.random.Generator


def check_alpha_support(instance: Instance, tradeoff: Tradeoff, goal: Objective) -> Unsupported | None:
    """Return why the published search cannot run on an instance; None if it can."""
    if tradeoff.against not in MEASURES:
        return Unsupported(reason="the published search trades time against cost or idle nodes only")
    if (goal.deadline_s, goal.max_cost) != (None, None):
        return Unsupported(reason="the published search supports neither deadline nor maximal cost")
    return _PLANNER.supports(instance, _alpha_objective(tradeoff, ALPHAS[0]))


def run_alphas(
    request: PlanRequest,
    tradeoff: Tradeoff,
    *,
    on_progress: Callable[[FrontProgress], None] | None = None,
) -> FrontResult:
    """Return the fronts of the published search: for each alpha, the uncovered results of 20 runs.

    M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows
    (docs/papers/moldable.md, section 9, S2.8). For each alpha (weight of time) of 0.95, 0.8, 0.5, 0.2 and
    0.05 there are 20 independent runs of the genetic search with the recommended settings. In the paper all
    results are sorted by fitness, the best are kept, and fronts are drawn in the colour of their alpha. Time
    against cost is searched with the on-demand fitness, time against idle nodes with the static fitness as
    printed.

    Deviations: fitness values of different alphas cannot be compared, so that every alpha has its own front.
    It has the results that no other result of the same alpha covers, and always the best result by fitness. A
    result is the best individual of a run. The results of all runs are returned as trials.
    """
    instance, budget, pool = request.instance, request.budget, request.pool
    number = len(ALPHAS) * RUNS
    runs = [
        _AlphaRun(
            objective=_alpha_objective(tradeoff, alpha),
            budget=_run_budget(budget, place, pool.workers),
            rng=own,
        )
        for place, (alpha, own) in enumerate(zip(ALPHAS * RUNS, request.rng.spawn(number), strict=True))
    ]
    plans: list[Plan] = []
    interrupted = False
    try:
        for plan, stopped in pool.map(partial(_plan_run, instance), runs):
            plans.append(plan)
            if on_progress is not None:
                on_progress(FrontProgress(done=len(plans), of=len(runs), points=len(plans), filled=0.0))
            if interrupted := stopped:
                break
    except KeyboardInterrupt:
        if not plans:
            raise
        interrupted = True
    notes = (f"the search was interrupted after {len(plans)} of {len(runs)} runs",) if interrupted else ()
    timed = budget.left is not None and budget.left() <= 0
    return _collect_front(instance, tradeoff, plans, cut=interrupted or timed, notes=notes)


def _alpha_objective(tradeoff: Tradeoff, alpha: float) -> Objective:
    return make_objective("on-demand" if tradeoff.against == "cost" else "static-literal", alpha)


def _run_budget(budget: Budget, place: int, workers: int) -> Budget:
    """Return the budget of run number ``place``: the same share of steps and time for every run."""
    number = len(ALPHAS) * RUNS
    steps = None if budget.steps is None else max(1, budget.steps // number)
    if budget.left is None:
        return Budget(steps=steps)
    turns, turn = -(-number // workers), place // workers + 1
    clock = ClockSlice(left=budget.left, until_s=max(0.0, budget.left()) * (1.0 - turn / turns))
    return Budget(steps=steps, left=clock.remaining_s)


def _plan_run(instance: Instance, run: _AlphaRun) -> tuple[Plan, bool]:
    """Return the plan of one run, and whether it was interrupted before its budget was spent."""
    request = PlanRequest(instance=instance, objective=run.objective, budget=run.budget, rng=run.rng)
    plan = _PLANNER.plan(request)
    return plan, plan.cut and run.budget.allows(plan.steps)


def _collect_front(
    instance: Instance, tradeoff: Tradeoff, plans: list[Plan], *, cut: bool, notes: tuple[str, ...]
) -> FrontResult:
    """Return the fronts of all alphas from the plans of all runs.

    The alphas take turns in ``plans``: every ``len(ALPHAS)``-th plan belongs to the same alpha.
    """
    kept: list[FrontEntry] = []
    trials: list[FrontTrial] = []
    for place, alpha in enumerate(ALPHAS):
        archive, goal = ParetoArchive(), _alpha_objective(tradeoff, alpha)
        # The sort is stable: of equal runs the first is kept.
        own = plans[place :: len(ALPHAS)]
        for plan in sorted(own, key=lambda plan: evaluate_loss(instance, goal, plan.schedule)):
            archive.offer(
                make_entry(
                    instance, plan.schedule, tradeoff.amount, alpha=alpha, by=_PLANNER.name, decoder="queue"
                )
            )
        for plan in own:
            made = plan.schedule
            trials.append(FrontTrial(makespan_s=made.makespan_s, amount=tradeoff.amount(made), alpha=alpha))
        kept += archive.entries
    kept.sort(key=lambda entry: (entry.makespan_s, entry.amount))
    return FrontResult(
        entries=tuple(kept),
        trials=tuple(trials),
        nearest=kept[0].schedule,
        steps=sum(plan.steps for plan in plans),
        bound_s=0.0,
        cut=cut,
        notes=notes,
    )
