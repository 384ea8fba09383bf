"""The ladder: a search for the front of time against something else, one objective after the other.

List planners give the first plans. Then the fastest plan and the one that takes least are searched for, and
what lies between: each rung takes one of the widest gaps between plans that were searched for, first with
weights under which its ends are worth the same (``trades``), then, since weights alone miss what lies in a
hollow of the front, for the plan that takes least up to the middle of the gap, then up to its end. Every rung
goes on from the best plan that is known for its objective. Mixtures of neighbours (``mixing``), which cost
next to nothing, fill the front between them, and are known to the rungs that follow.

The budget is shared evenly over the rungs, but that the two ends get twice as much. Rungs of one flight are
searched side by side, from what was known before, so that with a budget of steps the front does not depend on
clock or workers.

The published search for a front: many genetic searches under five weights, the best of which stay.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (spec s2 section 9, S2.8):
20 independent runs per alpha of 0.95, 0.8, 0.5, 0.2 and 0.05 with the recommended settings; all results are
collected and sorted by fitness, and the best 5 % are drawn by alpha. Time against cost is searched with the
on-demand fitness, time against idle nodes with the static one as printed.

Deviations: fitness under one alpha says nothing about another, so results are sorted per alpha: of 20 runs
the best one stays. A result is the best individual of a run. The front are those of them that no other
covers; all runs are drawn beside it.
"""

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
    FrontEntry,
    ParetoArchive,
    Tradeoff,
    hypervolume_share,
    make_entry,
    mix_genomes,
)
from weft.planners.plan_search import plan_seeds
from weft.planners.planner import Budget, ClockSlice, Plan, Unsupported
from weft.planners.portfolio import SearchSlice, SliceOutcome, run_slice
from weft.schedule.objective import Objective, make_objective
from weft.schedule.schedule import Schedule
from weft.search.pool import Pool
from weft.workflow.task_graph import Floats

__all__ = [
    "ALPHAS",
    "RUNS",
    "FrontProgress",
    "FrontResult",
    "FrontSearch",
    "FrontTrial",
    "check_alpha_support",
    "run_alphas",
]


_SEARCH = "auto"
"""Who searches on every rung."""
_MIXING = "mixing"
"""Who finds mixtures."""
_SIDE_BY_SIDE = 4
"""The most rungs of one flight."""
_SMALL = 1e-6
"""Share of the rectangle between the ends of a front below which a gap is closed."""
_PARTS = (0.5, 1.0 - 1e-6, 0.25, 0.75)
"""Up to where in a gap the plan that takes least is looked for, one after the other.

Who finds nothing but the faster end in all of it has shown that the gap is empty.
"""
_LOOKS = 3
"""Looks into a gap after which it is left alone, if all rungs are climbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProgress:
    """How far the search for a front is."""

    done: int
    """Objectives that were searched."""
    of: int
    """How many there will be, about."""
    points: int
    filled: float
    """Share of the rectangle between the ends of the front that is worse than some point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontTrial:
    """A schedule that was found on the way."""

    makespan_s: float
    amount: float
    alpha: float | None
    """Weight of time under which it was found; None: nobody weighed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrontResult:
    """What a search for a front gives."""

    entries: tuple[FrontEntry, ...]
    """By makespan; none: no schedule keeps the limits."""
    trials: tuple[FrontTrial, ...]
    nearest: Schedule
    """Of all schedules the one that misses the limits by least."""
    steps: int
    bound_s: float
    """A lower bound of the makespan that was proven; 0: none."""
    cut: bool
    """Whether the clock or somebody ended it."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _FrontTask:
    objective: Objective
    piece: SearchSlice


class FrontSearch:
    """A search for the front of one instance."""

    def __init__(
        self,
        instance: Instance,
        trade: Tradeoff,
        goal: Objective,
        *,
        rungs: int,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool,
        tell: Callable[[FrontProgress], None] | None = None,
    ) -> None:
        self._instance = instance
        self._trade = trade
        self._goal = goal
        """The makespan, with the limits that every plan has to keep."""
        self._max_cost = goal.max_cost if instance.price_per_node_s.any() else None
        self._rungs = rungs
        self._budget = budget
        self._rng = rng
        self._pool = pool
        self._tell = tell
        self._archive = ParetoArchive()
        self._searched = ParetoArchive()
        """Without mixtures, which lie between those that were searched for and hide how wide a gap is."""
        self._known: list[Schedule] = []
        self._trials: list[FrontTrial] = []
        self._looks: dict[tuple[FrontEntry, FrontEntry], int] = {}
        self._mixed: set[tuple[FrontEntry, FrontEntry]] = set()
        self._notes: list[str] = []
        self._done = 0
        self._steps = 0
        self._bound_s = 0.0
        self._interrupted = False

    def climb(self) -> FrontResult:
        """Search until the budget is spent or every gap is closed."""
        try:
            self._seed()
            self._fly(self._ends(), self._rungs // 2 + 1)
            while not self._is_over() and (objectives := self._next()):
                self._fly(objectives, max(len(objectives), self._rungs - self._done))
        except KeyboardInterrupt:
            if not self._known:
                raise
            self._interrupted = True
        if self._interrupted:
            self._notes.append("the search was interrupted: this is the front until then")
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
        """Ask list planners; where none serves this, whoever searches."""
        try:
            seeds = plan_seeds(self._trade.searched, self._limited(self._goal), self._budget, self._rng)
            found, self._steps = seeds.schedules, seeds.steps
        except Infeasible:
            part = Budget(steps=self._share(2), left=self._stretch(1, 2).remaining_s)
            plan = Auto(islands=1).plan(self._instance, objective=self._goal, budget=part, rng=self._rng)
            found, self._steps = (plan.schedule,), plan.steps
        for schedule in found:
            self._take(schedule, alpha=None, by="a list planner")

    def _take(self, schedule: Schedule, *, alpha: float | None, by: str) -> None:
        entry = make_entry(self._instance, schedule, self._trade.amount, alpha=alpha, by=by)
        self._known.append(entry.schedule)
        self._trials.append(FrontTrial(makespan_s=entry.makespan_s, amount=entry.amount, alpha=alpha))
        if evaluate_loss(self._instance, self._goal, entry.schedule).missed == 0:
            self._archive.offer(entry)
            if by != _MIXING:
                self._searched.offer(entry)

    def _ends(self) -> list[Objective]:
        """Search for the fastest plan, and for the one that takes least."""
        least = min(trial.amount for trial in self._trials)
        return [self._limited(self._goal), self._limited(self._trade.least(least))]

    def _limited(self, objective: Objective, deadline_s: float = math.inf) -> Objective:
        """Add the limits that every plan has to keep, and one more."""
        soonest = min(deadline_s, math.inf if self._goal.deadline_s is None else self._goal.deadline_s)
        return replace(
            objective,
            deadline_s=None if soonest == math.inf else soonest,
            max_cost=self._max_cost,
        )

    def _next(self) -> list[Objective]:
        """Choose what to search next: in the largest gaps, those first that nobody has looked into."""
        left = self._rungs - self._done
        if len(self._searched.entries) < 2:
            return self._ends() if left > 0 else []
        gaps = [
            (area / (1 + looks), pair)
            for area, pair in _gaps(self._searched.entries)
            if (looks := self._looks.get(pair, 0)) < _LOOKS or left > 0
        ]
        gaps.sort(key=lambda gap: -gap[0])
        return [self._into(*pair) for _, pair in gaps[: max(1, min(_SIDE_BY_SIDE, left))]]

    def _mix(self) -> None:
        """Let mixtures of neighbours enter the front, in its largest gaps."""
        gaps = [pair for _, pair in _gaps(self._archive.entries) if pair not in self._mixed]
        searched = self._trade.searched
        for fast, slow in gaps[:_SIDE_BY_SIDE]:
            self._mixed.add((fast, slow))
            orders, bound, modes = mix_genomes(searched, fast.genome, slow.genome)
            decoded = decode_population(searched, orders, bound, modes)
            self._steps += len(orders)
            for row in _undominated(decoded.makespan_s, self._trade.amounts(decoded)):
                self._take(decode(searched, orders[row], bound[row], modes[row]), alpha=None, by=_MIXING)

    def _into(self, fast: FrontEntry, slow: FrontEntry) -> Objective:
        """Look into a gap: below the line between its ends, then for what takes least up to some time."""
        looks = self._looks.get((fast, slow), 0)
        self._looks[fast, slow] = looks + 1
        if looks == 0:
            return self._limited(self._trade.between(fast, slow))
        part = _PARTS[(looks - 1) % len(_PARTS)]
        until_s = fast.makespan_s + part * (slow.makespan_s - fast.makespan_s)
        return self._limited(self._trade.least(slow.amount), until_s)

    def _fly(self, objectives: Sequence[Objective], pieces: int) -> None:
        """Search under some objectives side by side, each with one of so many pieces of what is left."""
        searched = self._trade.searched
        flight = [
            _FrontTask(
                objective=objective,
                piece=SearchSlice(
                    planner=_SEARCH,
                    start=min(self._known, key=partial(evaluate_loss, searched, objective)),
                    steps=self._share(pieces),
                    stretch=self._stretch(place, pieces),
                    rng=own,
                ),
            )
            for place, (objective, own) in enumerate(
                zip(objectives, self._rng.spawn(len(objectives)), strict=True)
            )
        ]
        outcomes = self._pool.map(partial(_run_task, searched), flight)
        for rung, outcome in zip(flight, outcomes, strict=True):
            self._done += 1
            self._interrupted = self._interrupted or outcome.interrupted
            if outcome.plan is None:
                self._notes.append(outcome.failure)
            else:
                self._accept(rung.objective, outcome.plan)
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
        """Give the weight of time; None where a deadline of our own tells as much."""
        if objective.deadline_s != self._goal.deadline_s:
            return None
        return objective.alpha if objective.has_alpha else 1.0

    def _share(self, pieces: int) -> int | None:
        """Give the steps of one of so many pieces of what is left; None: steps are not counted."""
        steps = self._budget.steps
        return None if steps is None else max(1, (steps - self._steps) // pieces)

    def _stretch(self, place: int, pieces: int) -> ClockSlice:
        """Give the time of one of so many pieces of what is left, as many at once as there are workers."""
        left = self._budget.left
        if left is None:
            return ClockSlice(left=None)
        workers = self._pool.workers
        turns, turn = -(-pieces // workers), place // workers + 1
        return ClockSlice(left=left, until_s=max(0.0, left()) * (1.0 - turn / turns))

    def _report(self) -> None:
        if self._tell is not None:
            entries = self._archive.entries
            of = max(self._rungs, self._done)
            self._tell(
                FrontProgress(done=self._done, of=of, points=len(entries), filled=hypervolume_share(entries))
            )


def _gaps(entries: Sequence[FrontEntry]) -> list[tuple[float, tuple[FrontEntry, FrontEntry]]]:
    """Give neighbours and the share of the front's rectangle that lies between them, the largest first."""
    if len(entries) < 2:
        return []
    first, last = entries[0], entries[-1]
    whole = (last.makespan_s - first.makespan_s) * (first.amount - last.amount)
    found = [
        ((slow.makespan_s - fast.makespan_s) * (fast.amount - slow.amount) / whole, (fast, slow))
        for fast, slow in pairwise(entries)
    ]
    return sorted((gap for gap in found if gap[0] > _SMALL), key=lambda gap: -gap[0])


def _undominated(times: Floats, amounts: Floats) -> list[int]:
    """Give the rows of a population that no other row beats in both, by time."""
    found: list[int] = []
    least = math.inf
    for row in np.lexsort((np.arange(len(times)), amounts, times)).tolist():
        if amounts[row] < least and math.isfinite(times[row]):
            least = float(amounts[row])
            found.append(row)
    return found


def _run_task(instance: Instance, rung: _FrontTask) -> SliceOutcome:
    return run_slice(instance, rung.objective, rung.piece)


ALPHAS = (0.95, 0.8, 0.5, 0.2, 0.05)
RUNS = 20
_KEPT_SHARE = 0.05
_PLANNER = MoldableGeneticPlanner(preset="s2-recommended")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _AlphaRun:
    objective: Objective
    budget: Budget
    rng: np.random.Generator


def check_alpha_support(instance: Instance, trade: Tradeoff, goal: Objective) -> Unsupported | None:
    """Say why an instance cannot be served; None: it can."""
    if (goal.deadline_s, goal.max_cost) != (None, None):
        return Unsupported(reason="the published search knows no limits")
    return _PLANNER.supports(instance, _objective(trade, ALPHAS[0]))


def run_alphas(
    instance: Instance,
    trade: Tradeoff,
    *,
    budget: Budget,
    rng: np.random.Generator,
    pool: Pool,
    tell: Callable[[FrontProgress], None] | None = None,
) -> FrontResult:
    """Run the search as often as was published, alpha by alpha in turn, and keep the best."""
    runs = [
        _AlphaRun(objective=_objective(trade, alpha), budget=_part(budget, place, pool.workers), rng=own)
        for place, (alpha, own) in enumerate(zip(ALPHAS * RUNS, rng.spawn(len(ALPHAS) * RUNS), strict=True))
    ]
    plans: list[Plan] = []
    interrupted = False
    try:
        for plan, stopped in pool.map(partial(_plan_run, instance), runs):
            plans.append(plan)
            if tell is not None:
                tell(FrontProgress(done=len(plans), of=len(runs), points=len(plans), filled=0.0))
            if interrupted := stopped:
                break
    except KeyboardInterrupt:
        if not plans:
            raise
        interrupted = True
    notes = (f"the search was interrupted after {len(plans)} of {len(runs)} runs",) if interrupted else ()
    return _collect_front(instance, trade, plans, cut=interrupted or _is_over(budget), notes=notes)


def _is_over(budget: Budget) -> bool:
    return budget.left is not None and budget.left() <= 0


def _objective(trade: Tradeoff, alpha: float) -> Objective:
    return make_objective("on-demand" if trade.against == "cost" else "static-literal", alpha)


def _part(budget: Budget, place: int, workers: int) -> Budget:
    """Give one run its part of the budget."""
    number = len(ALPHAS) * RUNS
    steps = None if budget.steps is None else max(1, budget.steps // number)
    if budget.left is None:
        return Budget(steps=steps)
    turns, turn = -(-number // workers), place // workers + 1
    stretch = ClockSlice(left=budget.left, until_s=max(0.0, budget.left()) * (1.0 - turn / turns))
    return Budget(steps=steps, left=stretch.remaining_s)


def _plan_run(instance: Instance, run: _AlphaRun) -> tuple[Plan, bool]:
    """Run the search once; say whether somebody ended it: neither clock nor steps did."""
    plan = _PLANNER.plan(instance, objective=run.objective, budget=run.budget, rng=run.rng)
    return plan, plan.cut and run.budget.allows(plan.steps)


def _collect_front(
    instance: Instance, trade: Tradeoff, plans: list[Plan], *, cut: bool, notes: tuple[str, ...]
) -> FrontResult:
    """Keep the best of every alpha."""
    archive, kept = ParetoArchive(), []
    trials: list[FrontTrial] = []
    for place, alpha in enumerate(ALPHAS):
        own = plans[place :: len(ALPHAS)]
        for plan in own:
            made = plan.schedule
            trials.append(FrontTrial(makespan_s=made.makespan_s, amount=trade.amount(made), alpha=alpha))
        goal = _objective(trade, alpha)
        # Stable, so that of equals the first run stays.
        best = sorted(own, key=lambda plan: evaluate_loss(instance, goal, plan.schedule))
        for plan in best[: math.ceil(_KEPT_SHARE * len(own))]:
            entry = make_entry(
                instance, plan.schedule, trade.amount, alpha=alpha, by=_PLANNER.name, decoder="queue"
            )
            kept.append(entry)
            archive.offer(entry)
    return FrontResult(
        entries=archive.entries,
        trials=tuple(trials),
        nearest=kept[0].schedule,
        steps=sum(plan.steps for plan in plans),
        bound_s=0.0,
        cut=cut,
        notes=notes,
    )
