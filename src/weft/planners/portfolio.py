"""The incumbent: the best schedule and the best bound that anybody in a portfolio has found so far.

Slices: the part of a portfolio's budget that one planner gets at a time, wherever it works.

The rounds of a portfolio: who searches when, for how long, side by side with whom.

Every planner goes on from the best schedule of all before it, for a slice of what is left of the budget; the
better it did, the more often it is asked. One island asks one planner after the other. Several islands search
side by side with random numbers of their own, and one of them runs the exact planner, of which two would do
the same. With a budget of steps nothing depends on a clock, on workers or on who is done first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, cycle, islice

import numpy as np

from weft.errors import InvalidInput, WeftError
from weft.instance.instance import Instance
from weft.planners.evaluation import Loss, evaluate_loss, linearise_objective
from weft.planners.planner import (
    GAP_TOLERANCE,
    Budget,
    ClockSlice,
    Improver,
    Plan,
    PlanProgress,
    make_planner,
)
from weft.schedule.costs import cheapest_cost
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import Pool

__all__ = ["Contender", "Incumbent", "PortfolioSearch", "SearchSlice", "SliceOutcome", "run_slice"]


class Incumbent:
    """What is known of one instance under one objective."""

    def __init__(
        self, instance: Instance, objective: Objective, tell: Callable[[PlanProgress], None] | None
    ) -> None:
        self._instance = instance
        self._objective = objective
        self._tell = tell
        self._cheapest: float | None = None
        self._found: tuple[Loss, Schedule] | None = None
        self._by = ""
        self._bound_by = ""
        self.bound_s = 0.0
        self.steps = 0

    @property
    def schedule(self) -> Schedule | None:
        """Give the best schedule so far, if there is one."""
        return None if self._found is None else self._found[1]

    def offer(self, plan: Plan, by: str) -> float:
        """Take what is better; give by which share plan or bound became better."""
        self.steps += plan.steps
        gain = max(self._shorter(plan.schedule, by), self._tighter(plan.bound_s, by))
        if gain > 0:
            self._report(by)
        return gain

    def raise_bound(self, bound_s: float, by: str) -> None:
        """Take a better bound of the makespan."""
        if self._tighter(bound_s, by) > 0:
            self._report(by)

    def _shorter(self, schedule: Schedule, by: str) -> float:
        worth = evaluate_loss(self._instance, self._objective, schedule)
        before = self._found
        if before is not None and worth >= before[0]:
            return 0.0
        self._found, self._by = (worth, schedule), by
        if before is None:
            return 1.0
        return max(_share(old, new) for old, new in zip(before[0], worth, strict=True))

    def _tighter(self, bound_s: float, by: str) -> float:
        if bound_s <= self.bound_s:
            return 0.0
        gain = 1.0 - self.bound_s / bound_s
        self.bound_s, self._bound_by = bound_s, by
        return gain

    @property
    def is_settled(self) -> bool:
        """Say whether no schedule can be better, or none can keep the limits."""
        if self._found is None:
            return False
        worth, schedule = self._found
        objective = self._objective
        if worth.missed > 0:
            return self._is_hopeless()
        if objective.is_makespan:
            return schedule.makespan_s <= self.bound_s * (1.0 + GAP_TOLERANCE)
        return worth.value <= self._least_value() + GAP_TOLERANCE * abs(worth.value)

    def _is_hopeless(self) -> bool:
        objective = self._objective
        late = objective.deadline_s is not None and self.bound_s > objective.deadline_s * (
            1.0 + GAP_TOLERANCE
        )
        most = objective.max_cost
        return late or (most is not None and self._cheapest_cost() > most * (1.0 + GAP_TOLERANCE))

    def _least_value(self) -> float:
        """Give a number below which the objective cannot be; minus infinity where nothing is known."""
        instance, objective = self._instance, self._objective
        if objective.name == "local":
            return float(instance.shortest_s().sum())
        aim = linearise_objective(instance, objective)
        if aim is None or min(aim.per_second, aim.per_node_s, aim.per_price) < 0:
            return -math.inf
        return aim.value(self.bound_s, 0.0, self._cheapest_cost())

    def _cheapest_cost(self) -> float:
        if self._cheapest is None:
            self._cheapest = cheapest_cost(self._instance)
        return self._cheapest

    def relay(self, by: str, news: PlanProgress) -> None:
        """Pass on what a planner tells while it searches, with what is known beside it."""
        if self._tell is not None and news.makespan_s > 0:
            bound_s = max(self.bound_s, news.bound_s)
            self._tell(replace(news, by=by, bound_s=bound_s, steps=self.steps + news.steps))

    def _report(self, by: str) -> None:
        if self._tell is None or self._found is None:
            return
        schedule = self._found[1]
        self._tell(
            PlanProgress.of(
                schedule, self._instance, self._objective, by=by, steps=self.steps, bound_s=self.bound_s
            )
        )

    def plan(self, *, cut: bool, notes: tuple[str, ...]) -> Plan:
        """Give what was found as a plan."""
        assert self._found is not None
        return Plan(
            schedule=self._found[1],
            steps=self.steps,
            bound_s=self.bound_s,
            cut=cut,
            by=self._by,
            bound_by=self._bound_by,
            notes=notes,
        )


def _share(old: float, new: float) -> float:
    return (old - new) / abs(old) if old else old - new


_MARGIN = 0.2
"""A planner whose clock stands above this share of its time was not ended by it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchSlice:
    """What one planner shall do: go on from a schedule, for some steps or some time."""

    planner: str
    start: Schedule
    steps: int | None
    stretch: ClockSlice
    rng: np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SliceOutcome:
    """What came of a slice."""

    plan: Plan | None
    failure: str = ""
    """Why there is no plan."""
    interrupted: bool = False
    """Whether the planner ended before its time because somebody wants the plan now."""


def run_slice(instance: Instance, objective: Objective, piece: SearchSlice) -> SliceOutcome:
    """Let a planner go on from a schedule. What breaks inside it is told, as others may still go on."""
    stretch = piece.stretch
    timed = stretch.left is not None
    before_s = stretch.remaining_s()
    budget = Budget(steps=piece.steps, left=stretch.remaining_s if timed else None, tell=stretch.hear)
    planner: Improver = make_planner(piece.planner)  # type: ignore[assignment]
    try:
        plan = planner.improve(instance, objective=objective, start=piece.start, budget=budget, rng=piece.rng)
    except InvalidInput:
        raise
    except Exception as error:
        return SliceOutcome(plan=None, failure=f"{piece.planner} failed: {type(error).__name__}: {error}")
    early = budget.steps is None or plan.steps < budget.steps
    unspent = not timed or (not stretch.reached and stretch.remaining_s() > _MARGIN * before_s)
    return SliceOutcome(plan=plan, interrupted=plan.cut and early and unspent)


_SHARES = (0.15, 0.35, 0.6, 1.0)
"""Of what is left, for one slice after the other: few long ones, as a search that begins anew has to cool
again. The first is short and done here: where plan and bound meet easily they do so now, no exact planner is
loaded and no worker started; and what it loads and compiles, workers that are forked need not."""
_FIRST_PROOF = 0.6
"""Of all, where the exact planner comes first: its model is small, and with a proof all is done."""
_MOST_S = 20.0
"""Longest slice: then news are exchanged."""
_PATIENCE = 1
"""Slices without a gain after which others come first."""


@dataclass(slots=True, kw_only=True)
class Contender:
    """A planner that improves schedules, and how it did."""

    name: str
    alone: bool
    """Whether two of them would do the same."""
    least_s: float
    least_steps: int
    """With less it does not come to anything."""
    without_gain: int = 0


class PortfolioSearch:
    """A search by several planners."""

    def __init__(
        self,
        instance: Instance,
        objective: Objective,
        budget: Budget,
        incumbent: Incumbent,
        contenders: Sequence[Contender],
    ) -> None:
        self._budget = budget
        self._objective = objective
        self._incumbent = incumbent
        self._contenders = list(contenders)
        self._improved: Callable[[SearchSlice], SliceOutcome] = partial(run_slice, instance, objective)
        self.notes: list[str] = []
        self.interrupted = False
        """Whether somebody wanted the plan at once."""
        self.broken = False
        """Whether there is nobody left who could work."""

    def run(self, islands: int, pool: Pool, rng: np.random.Generator) -> None:
        """Search until the budget is spent, or nothing better can be found."""
        for turn in count():
            if self._is_over():
                return
            lineup = self._lineup(turn, islands)
            if not lineup:
                return
            pieces = self._pieces(turn, lineup, rng)
            outcomes = self._side_by_side(pieces, pool) if turn and islands > 1 else self._here(pieces)
            for contender, outcome in zip(lineup, outcomes, strict=False):
                self._take(contender, outcome)
                if self._incumbent.is_settled:
                    return  # those who still search are stopped by not being read

    def _is_over(self) -> bool:
        incumbent = self._incumbent
        ended = self.interrupted or self.broken or incumbent.is_settled
        return ended or not self._budget.allows(incumbent.steps)

    def _lineup(self, turn: int, islands: int) -> list[Contender]:
        """Say who searches next."""
        able = [contender for contender in self._contenders if self._has_room(contender)]
        eager = [one for one in able if one.without_gain < _PATIENCE] or able
        many = [one for one in able if not one.alone]
        if turn == 0 or islands == 1:
            return [eager[turn % len(eager)]] if eager else []
        single = [one for one in eager if one.alone][:1]
        return [*single, *islice(cycle(many), islands - len(single))] if many else single

    def _has_room(self, contender: Contender) -> bool:
        steps, left = self._budget.steps, self._budget.left
        if steps is not None and steps - self._incumbent.steps < contender.least_steps:
            return False
        return left is None or left() >= contender.least_s or not contender.alone

    def _pieces(self, turn: int, lineup: Sequence[Contender], rng: np.random.Generator) -> list[SearchSlice]:
        steps, left = self._budget.steps, self._budget.left
        share = _FIRST_PROOF if turn == 0 and lineup[0].alone else _SHARES[min(turn, len(_SHARES) - 1)]
        each = None
        if steps is not None:
            least = len(lineup) * max(one.least_steps for one in lineup)
            # Above 0 for everybody: whoever is asked takes at least one step.
            each = max(1, int(_slice_size(steps - self._incumbent.steps, share, least)) // len(lineup))
        until_s = 0.0
        if left is not None:
            remaining_s = left()
            least_s = max(one.least_s for one in lineup)
            until_s = remaining_s - min(_MOST_S, _slice_size(remaining_s, share, least_s))
        start = self._incumbent.schedule
        assert start is not None
        goal_s = self._incumbent.bound_s if self._objective.is_makespan else 0.0
        return [
            SearchSlice(
                planner=one.name,
                start=start,
                steps=each,
                stretch=ClockSlice(left=left, until_s=until_s, goal_s=goal_s),
                rng=own,
            )
            for one, own in zip(lineup, rng.spawn(len(lineup)), strict=True)
        ]

    def _here(self, pieces: list[SearchSlice]) -> Iterator[SliceOutcome]:
        """Search in this process, where every piece of news can be told at once."""
        for piece in pieces:
            piece.stretch.listener = partial(self._incumbent.relay, piece.planner)
            yield self._improved(piece)

    def _side_by_side(self, pieces: list[SearchSlice], pool: Pool) -> Iterator[SliceOutcome]:
        try:
            yield from pool.map(self._improved, pieces)
        except WeftError as error:
            self.notes.append(f"the search ended early: {error}")
            self.broken = True

    def _take(self, contender: Contender, outcome: SliceOutcome) -> None:
        if outcome.plan is None:
            self.notes.append(outcome.failure)
            self._contenders = [one for one in self._contenders if one is not contender]
            return
        self.interrupted = self.interrupted or outcome.interrupted
        gain = self._incumbent.offer(outcome.plan, contender.name)
        contender.without_gain = 0 if gain > 0 else contender.without_gain + 1


def _slice_size(left: float, share: float, least: float) -> float:
    """Give a share of what is left, at least so much; all, if the rest would be too little."""
    wanted = max(least, share * left)
    return wanted if left - wanted >= least else left
