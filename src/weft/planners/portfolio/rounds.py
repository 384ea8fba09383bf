"""The rounds of a portfolio: who searches when, for how long, side by side with whom.

Every planner goes on from the best schedule of all before it, for a slice of what is left of the budget; the
better it did, the more often it is asked. One island asks one planner after the other. Several islands search
side by side with random numbers of their own, and one of them runs the exact planner, of which two would do
the same. With a budget of steps nothing depends on a clock, on workers or on who is done first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle, islice

import numpy as np

from weft.errors import WeftError
from weft.instance.instance import Instance
from weft.planners.planner import Budget
from weft.planners.portfolio.incumbent import Incumbent
from weft.planners.portfolio.slices import Outcome, Slice, improved
from weft.planners.stretch import Stretch
from weft.schedule.objective import Objective
from weft.search.pool import Pool

__all__ = ["Contender", "Rounds"]

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


class Rounds:
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
        self._improved: Callable[[Slice], Outcome] = partial(improved, instance, objective)
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

    def _pieces(self, turn: int, lineup: Sequence[Contender], rng: np.random.Generator) -> list[Slice]:
        steps, left = self._budget.steps, self._budget.left
        share = _FIRST_PROOF if turn == 0 and lineup[0].alone else _SHARES[min(turn, len(_SHARES) - 1)]
        each = None
        if steps is not None:
            least = len(lineup) * max(one.least_steps for one in lineup)
            # Above 0 for everybody: whoever is asked takes at least one step.
            each = max(1, int(_slice(steps - self._incumbent.steps, share, least)) // len(lineup))
        until_s = 0.0
        if left is not None:
            remaining_s = left()
            least_s = max(one.least_s for one in lineup)
            until_s = remaining_s - min(_MOST_S, _slice(remaining_s, share, least_s))
        start = self._incumbent.schedule
        assert start is not None
        goal_s = self._incumbent.bound_s if self._objective.is_makespan else 0.0
        return [
            Slice(
                planner=one.name,
                start=start,
                steps=each,
                stretch=Stretch(left=left, until_s=until_s, goal_s=goal_s),
                rng=own,
            )
            for one, own in zip(lineup, rng.spawn(len(lineup)), strict=True)
        ]

    def _here(self, pieces: list[Slice]) -> Iterator[Outcome]:
        """Search in this process, where every piece of news can be told at once."""
        for piece in pieces:
            piece.stretch.listener = partial(self._incumbent.relay, piece.planner)
            yield self._improved(piece)

    def _side_by_side(self, pieces: list[Slice], pool: Pool) -> Iterator[Outcome]:
        try:
            yield from pool.map(self._improved, pieces)
        except WeftError as error:
            self.notes.append(f"the search ended early: {error}")
            self.broken = True

    def _take(self, contender: Contender, outcome: Outcome) -> None:
        if outcome.plan is None:
            self.notes.append(outcome.failure)
            self._contenders = [one for one in self._contenders if one is not contender]
            return
        self.interrupted = self.interrupted or outcome.interrupted
        gain = self._incumbent.offer(outcome.plan, contender.name)
        contender.without_gain = 0 if gain > 0 else contender.without_gain + 1


def _slice(left: float, share: float, least: float) -> float:
    """Give a share of what is left, at least so much; all, if the rest would be too little."""
    wanted = max(least, share * left)
    return wanted if left - wanted >= least else left
