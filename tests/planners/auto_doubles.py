"""Planners that stand in for those a portfolio asks; workers import them from here."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.planners import PLANNERS
from weft.planners.decoding import INSERTION, decode
from weft.planners.evaluation import evaluate_loss
from weft.planners.genome import encode_schedule, select_modes
from weft.planners.planner import Plan, PlanProgress, Unsupported

calls: list[str] = []


@contextmanager
def on_the_shelf(**doubles):
    """Let names of planners stand for these classes; whoever is missing is not there at all."""
    before = dict(PLANNERS._own)
    rivals = ("weave", "cp-sat", "genetic", "moldable-genetic", "annealing")
    kept = {name: target for name, target in before.items() if name not in rivals}
    named = {name.replace("_", "-"): f"planners.auto_doubles:{kind}" for name, kind in doubles.items()}
    PLANNERS._own, PLANNERS._all = kept | named, None
    calls.clear()
    try:
        yield calls
    finally:
        PLANNERS._own, PLANNERS._all = before, None


class Double:
    name: ClassVar[str] = "double"
    title: ClassVar[str] = "a planner for tests of others"

    def supports(self, instance, objective):
        return None

    def plan(self, instance, *, objective, budget, rng, pool=None):
        raise AssertionError("nobody should ask for this")


@dataclass(frozen=True)
class Drawing(Double):
    """Draws machines at random and keeps what is better."""

    counts_as: int = 20
    """Steps it says a schedule takes: many steps then take little time."""

    def improve(self, instance, *, objective, start, budget, rng):
        calls.append("drawing")
        best, steps = start, 0
        genome = encode_schedule(instance, start)
        while budget.allows(steps):
            bound = np.array([rng.choice(instance.candidate_sets[index]) for index in instance.candidates])
            bound = np.where(rng.random(len(bound)) < 0.3, bound, genome.bound).astype(np.uint32)
            made = decode(instance, genome.order, bound, select_modes(instance, bound), rule=INSERTION)
            steps += self.counts_as if budget.steps is None else min(self.counts_as, budget.steps - steps)
            if evaluate_loss(instance, objective, made) < evaluate_loss(instance, objective, best):
                best, genome = made, genome._replace(bound=bound)
                _tell(budget, objective.value(best, instance), best, steps)
        return Plan(schedule=best, steps=steps, cut=budget.left is not None and budget.left() <= 0)


def _tell(budget, value, best, steps):
    if budget.tell is not None:
        news = PlanProgress(by="drawing", value=value, makespan_s=best.makespan_s, bound_s=0.0, steps=steps)
        budget.tell(news)


class Proving(Double):
    """Finds nothing, and proves that there is nothing."""

    def improve(self, instance, *, objective, start, budget, rng):
        calls.append("proving")
        return Plan(schedule=start, steps=1, bound_s=start.makespan_s)


class Idle(Double):
    """Finds nothing and proves nothing."""

    def improve(self, instance, *, objective, start, budget, rng):
        calls.append("idle")
        return Plan(schedule=start, steps=budget.steps or 1)


class Breaking(Double):
    def improve(self, instance, *, objective, start, budget, rng):
        calls.append("breaking")
        raise ZeroDivisionError("by nothing")


class Stopped(Double):
    """Somebody presses Ctrl-C, and it goes up."""

    def improve(self, instance, *, objective, start, budget, rng):
        calls.append("stopped")
        raise KeyboardInterrupt


class Obliging(Double):
    """Somebody presses Ctrl-C, and it gives what it has."""

    def improve(self, instance, *, objective, start, budget, rng):
        calls.append("obliging")
        return Plan(schedule=start, steps=3, cut=True)


class Vanishing(Double):
    """Takes its worker along; here it only finds nothing."""

    def improve(self, instance, *, objective, start, budget, rng):
        if multiprocessing.parent_process() is not None:
            os._exit(3)
        return Plan(schedule=start, steps=budget.steps or 1)


class Refusing(Double):
    def supports(self, instance, objective):
        return Unsupported(reason="never")


class Beginning(Double):
    """Makes the first plan where no list planner can."""

    def plan(self, instance, *, objective, budget, rng, pool=None):
        calls.append("beginning")
        from weft.planners.heft import Heft

        return Heft().plan(instance, objective=objective, budget=budget, rng=rng)

    def improve(self, instance, *, objective, start, budget, rng):
        calls.append("improving")
        return Plan(schedule=start, steps=budget.steps or 1)
