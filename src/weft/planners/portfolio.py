"""The search of a portfolio: several anytime planners improve one schedule, the incumbent, in turn."""

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
    Plan,
    PlanProgress,
    PlanRequest,
    make_planner,
)
from weft.schedule.costs import cheapest_cost
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import Pool

_SHARES = (0.15, 0.35, 0.6, 1.0)
"""Share of the remaining budget for the first slice, the second slice, and so on.

Slices are few and long, because an annealing that starts again has to cool again. The first slice is short
and runs in this process. The search of an easy instance ends with it, before the exact planner is loaded or a
worker is started. Workers forked later inherit the modules and compiled kernels that it has loaded.
"""
_FIRST_PROOF = 0.6
"""Share of the budget for the first slice if the exact planner runs in it, since a proof ends the search."""
_MAX_SLICE_S = 20.0
"""Longest time of a slice; after each slice results are exchanged."""
_PATIENCE = 1
"""Number of consecutive slices without improvement after which other planners are preferred."""
_MARGIN = 0.2
"""A planner that ends while more than this share of its time is left was not ended by the clock."""


@dataclass(slots=True, eq=False)
class Incumbent:
    """The best schedule and the best lower bound so far, of one instance under one objective."""

    instance: Instance
    objective: Objective
    on_progress: Callable[[PlanProgress], None] | None
    bound_s: float = 0.0
    steps: int = 0
    _cheapest: float | None = None
    _found: tuple[Loss, Schedule] | None = None
    _by: str = ""
    _bound_by: str = ""

    @property
    def schedule(self) -> Schedule | None:
        """Return the best schedule so far; None if there is none."""
        return None if self._found is None else self._found[1]

    def offer(self, plan: Plan, by: str) -> float:
        """Keep the schedule of a plan if it is better, and the bound of the plan if it is higher.

        Return the larger of the two relative improvements; 0 if neither was kept.
        """
        self.steps += plan.steps
        gain = max(self._offer_schedule(plan.schedule, by), self._offer_bound(plan.bound_s, by))
        if gain > 0:
            self._report(by)
        return gain

    def raise_bound(self, bound_s: float, by: str) -> None:
        """Keep a lower bound on the makespan if it is higher than the present one."""
        if self._offer_bound(bound_s, by) > 0:
            self._report(by)

    def _offer_schedule(self, schedule: Schedule, by: str) -> float:
        loss = evaluate_loss(self.instance, self.objective, schedule)
        before = self._found
        if before is not None and loss >= before[0]:
            return 0.0
        self._found, self._by = (loss, schedule), by
        if before is None:
            return 1.0
        return max(_relative_gain(old, new) for old, new in zip(before[0], loss, strict=True))

    def _offer_bound(self, bound_s: float, by: str) -> float:
        if bound_s <= self.bound_s:
            return 0.0
        gain = 1.0 - self.bound_s / bound_s
        self.bound_s, self._bound_by = bound_s, by
        return gain

    @property
    def is_settled(self) -> bool:
        """Return whether the schedule is proven optimal, or the limits are proven impossible to keep."""
        if self._found is None:
            return False
        loss, schedule = self._found
        if loss.excess > 0:
            return self._is_hopeless()
        if self.objective.is_makespan:
            return schedule.makespan_s <= self.bound_s * (1.0 + GAP_TOLERANCE)
        return loss.value <= self._least_value() + GAP_TOLERANCE * abs(loss.value)

    def _is_hopeless(self) -> bool:
        deadline_s, max_cost = self.objective.deadline_s, self.objective.max_cost
        late = deadline_s is not None and self.bound_s > deadline_s * (1.0 + GAP_TOLERANCE)
        return late or (max_cost is not None and self._cheapest_cost() > max_cost * (1.0 + GAP_TOLERANCE))

    def _least_value(self) -> float:
        """Return a lower bound on the objective value; minus infinity if no bound is known."""
        instance, objective = self.instance, self.objective
        if objective.name == "local":
            return float(instance.shortest_s().sum())
        linear = linearise_objective(instance, objective)
        if linear is None or min(linear.per_second, linear.per_node_s, linear.per_price) < 0:
            return -math.inf
        return linear.value(self.bound_s, 0.0, self._cheapest_cost())

    def _cheapest_cost(self) -> float:
        if self._cheapest is None:
            self._cheapest = cheapest_cost(self.instance)
        return self._cheapest

    def relay(self, by: str, progress: PlanProgress) -> None:
        """Forward the progress of a planner, with the best bound and the steps of the whole portfolio."""
        if self.on_progress is not None and progress.makespan_s > 0:
            bound_s = max(self.bound_s, progress.bound_s)
            self.on_progress(replace(progress, by=by, bound_s=bound_s, steps=self.steps + progress.steps))

    def _report(self, by: str) -> None:
        if self.on_progress is None or self._found is None:
            return
        schedule = self._found[1]
        self.on_progress(
            PlanProgress.of(
                schedule, self.instance, self.objective, by=by, steps=self.steps, bound_s=self.bound_s
            )
        )

    def plan(self, *, cut: bool, notes: tuple[str, ...]) -> Plan:
        """Return the best schedule and the best bound so far as a plan."""
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


def _relative_gain(old: float, new: float) -> float:
    return (old - new) / abs(old) if old else old - new


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchSlice:
    """A planner, the schedule it starts from, and its part of the budget; can be sent to a worker process."""

    planner: str
    start: Schedule
    steps: int | None
    clock: ClockSlice
    rng: np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SliceOutcome:
    """The result of a slice."""

    plan: Plan | None
    failure: str = ""
    """Why there is no plan."""
    interrupted: bool = False
    """Whether Ctrl-C ended the planner before its budget was spent."""


def run_slice(instance: Instance, objective: Objective, piece: SearchSlice) -> SliceOutcome:
    """Run the planner of a slice from its start schedule and return the outcome.

    An exception other than InvalidInput becomes an outcome without a plan.
    """
    clock = piece.clock
    timed = clock.left is not None
    before_s = clock.remaining_s()
    left = clock.remaining_s if timed else None
    budget = Budget(steps=piece.steps, left=left, on_progress=clock.report)
    planner = make_planner(piece.planner)
    request = PlanRequest(
        instance=instance, objective=objective, budget=budget, rng=piece.rng, incumbent=piece.start
    )
    try:
        plan = planner.plan(request)
    except InvalidInput:
        raise
    except Exception as error:
        return SliceOutcome(plan=None, failure=f"{piece.planner} failed: {type(error).__name__}: {error}")
    early = budget.steps is None or plan.steps < budget.steps
    unspent = not timed or (not clock.reached and clock.remaining_s() > _MARGIN * before_s)
    return SliceOutcome(plan=plan, interrupted=plan.interrupted or (plan.cut and early and unspent))


@dataclass(slots=True, kw_only=True)
class Contender:
    """An anytime planner of a portfolio, and its recent success."""

    name: str
    alone: bool
    """Whether at most one copy of the planner runs at a time, because two would do the same work."""
    least_s: float
    """If ``alone``, the planner is not started when fewer seconds of the budget are left."""
    least_steps: int
    """The planner is not started when fewer steps of the budget are left."""
    without_gain: int = 0


class PortfolioSearch:
    """A search in which several anytime planners improve one incumbent in turn.

    Every planner continues from the best schedule so far, for a slice of the remaining budget. Planners that
    recently improved the schedule or the bound come first. With one island the planners run one after the
    other. Several islands search in parallel with their own random numbers; at most one island runs the exact
    planner, since two would do the same work. With a budget of steps the result depends neither on a clock
    nor on the pool.
    """

    def __init__(self, request: PlanRequest, incumbent: Incumbent, contenders: Sequence[Contender]) -> None:
        self._budget = request.budget
        self._objective = request.objective
        self._rng = request.rng
        self._pool: Pool = request.pool
        self._incumbent = incumbent
        self._contenders = list(contenders)
        self._run_slice: Callable[[SearchSlice], SliceOutcome] = partial(
            run_slice, request.instance, request.objective
        )
        self.notes: list[str] = []
        self.interrupted = False
        """Whether Ctrl-C ended a planner."""
        self.broken = False
        """Whether the pool failed, so that no planner can continue."""

    def run(self, islands: int) -> None:
        """Search until the budget is spent or no better plan can exist."""
        for turn in count():
            if self._is_over():
                return
            if not (lineup := self._lineup(turn, islands)):
                return
            pieces = self._slices(turn, lineup)
            outcomes = self._run_parallel(pieces) if turn and islands > 1 else self._run_inline(pieces)
            for contender, outcome in zip(lineup, outcomes, strict=False):
                self._take(contender, outcome)
                if self._incumbent.is_settled:
                    return  # the pool stops planners whose results are not read

    def _is_over(self) -> bool:
        incumbent = self._incumbent
        ended = self.interrupted or self.broken or incumbent.is_settled
        return ended or not self._budget.allows(incumbent.steps)

    def _lineup(self, turn: int, islands: int) -> list[Contender]:
        """Return the planners that run in a turn; empty if none may start.

        In turn 0 one planner runs; in later turns at most one planner per island.
        """
        able = [contender for contender in self._contenders if self._can_start(contender)]
        preferred = [one for one in able if one.without_gain < _PATIENCE] or able
        many = [one for one in able if not one.alone]
        if turn == 0 or islands == 1:
            return [preferred[turn % len(preferred)]] if preferred else []
        single = [one for one in preferred if one.alone][:1]
        return [*single, *islice(cycle(many), islands - len(single))] if many else single

    def _can_start(self, contender: Contender) -> bool:
        steps, left = self._budget.steps, self._budget.left
        if steps is not None and steps - self._incumbent.steps < contender.least_steps:
            return False
        return left is None or left() >= contender.least_s or not contender.alone

    def _slices(self, turn: int, lineup: Sequence[Contender]) -> list[SearchSlice]:
        steps, left = self._budget.steps, self._budget.left
        share = _FIRST_PROOF if turn == 0 and lineup[0].alone else _SHARES[min(turn, len(_SHARES) - 1)]
        each = None
        if steps is not None:
            least = len(lineup) * max(one.least_steps for one in lineup)
            # At least 1, as every planner takes at least one step.
            each = max(1, int(_slice_size(steps - self._incumbent.steps, share, least)) // len(lineup))
        until_s = 0.0
        if left is not None:
            remaining_s = left()
            least_s = max(one.least_s for one in lineup)
            until_s = remaining_s - min(_MAX_SLICE_S, _slice_size(remaining_s, share, least_s))
        start = self._incumbent.schedule
        assert start is not None
        goal_s = self._incumbent.bound_s if self._objective.is_makespan else 0.0
        return [
            SearchSlice(
                planner=one.name,
                start=start,
                steps=each,
                clock=ClockSlice(left=left, until_s=until_s, goal_s=goal_s),
                rng=own,
            )
            for one, own in zip(lineup, self._rng.spawn(len(lineup)), strict=True)
        ]

    def _run_inline(self, pieces: list[SearchSlice]) -> Iterator[SliceOutcome]:
        """Run the slices in this process, where progress can be reported at once."""
        for piece in pieces:
            piece.clock.listener = partial(self._incumbent.relay, piece.planner)
            yield self._run_slice(piece)

    def _run_parallel(self, pieces: list[SearchSlice]) -> Iterator[SliceOutcome]:
        try:
            yield from self._pool.map(self._run_slice, pieces)
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
    """Return ``share * left``, at least ``least``; all of ``left`` if less than ``least`` would remain."""
    wanted = max(least, share * left)
    return wanted if left - wanted >= least else left
