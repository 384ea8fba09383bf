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
from weft.planners.aims import worth_of
from weft.planners.decoding import decode, decode_population
from weft.planners.pareto.fronts import Archive, Entry, entry_of, filled
from weft.planners.pareto.mixing import mixtures
from weft.planners.pareto.trades import Trade
from weft.planners.planner import Budget, Plan
from weft.planners.portfolio.auto import Auto
from weft.planners.portfolio.slices import Outcome, Slice, improved
from weft.planners.searches.seeding import seeds_of
from weft.planners.stretch import Stretch
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import Pool
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Climb", "FrontProgress", "Ladder", "Trial"]

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
class Trial:
    """A schedule that was found on the way."""

    makespan_s: float
    amount: float
    alpha: float | None
    """Weight of time under which it was found; None: nobody weighed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Climb:
    """What a search for a front gives."""

    entries: tuple[Entry, ...]
    """By makespan; none: no schedule keeps the limits."""
    trials: tuple[Trial, ...]
    nearest: Schedule
    """Of all schedules the one that misses the limits by least."""
    steps: int
    bound_s: float
    """A lower bound of the makespan that was proven; 0: none."""
    cut: bool
    """Whether the clock or somebody ended it."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rung:
    objective: Objective
    piece: Slice


class Ladder:
    """A search for the front of one instance."""

    def __init__(
        self,
        instance: Instance,
        trade: Trade,
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
        self._archive = Archive()
        self._searched = Archive()
        """Without mixtures, which lie between those that were searched for and hide how wide a gap is."""
        self._known: list[Schedule] = []
        self._trials: list[Trial] = []
        self._looks: dict[tuple[Entry, Entry], int] = {}
        self._mixed: set[tuple[Entry, Entry]] = set()
        self._notes: list[str] = []
        self._done = 0
        self._steps = 0
        self._bound_s = 0.0
        self._interrupted = False

    def climb(self) -> Climb:
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
        return Climb(
            entries=self._archive.entries,
            trials=tuple(self._trials),
            nearest=min(self._known, key=lambda one: worth_of(self._instance, self._goal, one)),
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
            seeds = seeds_of(self._trade.searched, self._limited(self._goal), self._budget, self._rng)
            found, self._steps = seeds.schedules, seeds.steps
        except Infeasible:
            part = Budget(steps=self._share(2), left=self._stretch(1, 2).remaining_s)
            plan = Auto(islands=1).plan(self._instance, objective=self._goal, budget=part, rng=self._rng)
            found, self._steps = (plan.schedule,), plan.steps
        for schedule in found:
            self._take(schedule, alpha=None, by="a list planner")

    def _take(self, schedule: Schedule, *, alpha: float | None, by: str) -> None:
        entry = entry_of(self._instance, schedule, self._trade.amount, alpha=alpha, by=by)
        self._known.append(entry.schedule)
        self._trials.append(Trial(makespan_s=entry.makespan_s, amount=entry.amount, alpha=alpha))
        if worth_of(self._instance, self._goal, entry.schedule).missed == 0:
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
            orders, bound, modes = mixtures(searched, fast.genome, slow.genome)
            decoded = decode_population(searched, orders, bound, modes)
            self._steps += len(orders)
            for row in _undominated(decoded.makespan_s, self._trade.amounts(decoded)):
                self._take(decode(searched, orders[row], bound[row], modes[row]), alpha=None, by=_MIXING)

    def _into(self, fast: Entry, slow: Entry) -> Objective:
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
            _Rung(
                objective=objective,
                piece=Slice(
                    planner=_SEARCH,
                    start=min(self._known, key=partial(worth_of, searched, objective)),
                    steps=self._share(pieces),
                    stretch=self._stretch(place, pieces),
                    rng=own,
                ),
            )
            for place, (objective, own) in enumerate(
                zip(objectives, self._rng.spawn(len(objectives)), strict=True)
            )
        ]
        outcomes = self._pool.map(partial(_climbed, searched), flight)
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

    def _stretch(self, place: int, pieces: int) -> Stretch:
        """Give the time of one of so many pieces of what is left, as many at once as there are workers."""
        left = self._budget.left
        if left is None:
            return Stretch(left=None)
        workers = self._pool.workers
        turns, turn = -(-pieces // workers), place // workers + 1
        return Stretch(left=left, until_s=max(0.0, left()) * (1.0 - turn / turns))

    def _report(self) -> None:
        if self._tell is not None:
            entries = self._archive.entries
            of = max(self._rungs, self._done)
            self._tell(FrontProgress(done=self._done, of=of, points=len(entries), filled=filled(entries)))


def _gaps(entries: Sequence[Entry]) -> list[tuple[float, tuple[Entry, Entry]]]:
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


def _climbed(instance: Instance, rung: _Rung) -> Outcome:
    return improved(instance, rung.objective, rung.piece)
