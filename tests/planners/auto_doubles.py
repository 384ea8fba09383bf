"""Test planners for a portfolio; worker processes import them from here."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.planners import PLANNERS
from weft.planners.decoding import INSERTION, decode, encode_schedule, select_modes
from weft.planners.evaluation import evaluate_loss
from weft.planners.planner import Plan, PlanProgress, Unsupported
from weft.pools import processes

calls: list[str] = []


@contextmanager
def registered(**doubles):
    """Register these classes under names of anytime planners, and remove the other anytime planners."""
    before, context = dict(PLANNERS.builtin), processes._context
    rivals = ("weave", "cp-sat", "genetic", "moldable-genetic", "annealing")
    kept = {name: target for name, target in before.items() if name not in rivals}
    named = {name.replace("_", "-"): f"planners.auto_doubles:{kind}" for name, kind in doubles.items()}
    PLANNERS.builtin, PLANNERS._all = kept | named, None
    # Only forked workers inherit the registry; a thread that another test left would make the pool spawn them.
    processes._context = lambda: multiprocessing.get_context("fork")
    calls.clear()
    try:
        yield calls
    finally:
        PLANNERS.builtin, PLANNERS._all = before, None
        processes._context = context


class Double:
    """A test planner that only improves incumbents."""

    name: ClassVar[str] = "double"
    title: ClassVar[str] = "a planner for tests of others"
    anytime: ClassVar[bool] = True

    def supports(self, instance, objective):
        return None

    def plan(self, request):
        assert request.incumbent is not None, "this planner cannot make the first plan"
        return self.improve(request)

    def improve(self, request):
        raise NotImplementedError


@dataclass(frozen=True)
class Drawing(Double):
    """Draws machines at random and keeps the better schedule."""

    counts_as: int = 20
    """Number of steps that one schedule counts, so that many steps take little time."""

    def improve(self, request):
        calls.append("drawing")
        instance, objective, budget, rng = request.instance, request.objective, request.budget, request.rng
        best, steps = request.incumbent, 0
        genome = encode_schedule(instance, best)
        while budget.allows(steps):
            bound = np.array([rng.choice(instance.candidate_sets[index]) for index in instance.candidates])
            bound = np.where(rng.random(len(bound)) < 0.3, bound, genome.bound).astype(np.uint32)
            made = decode(instance, genome.order, bound, select_modes(instance, bound), rule=INSERTION)
            steps += self.counts_as if budget.steps is None else min(self.counts_as, budget.steps - steps)
            if evaluate_loss(instance, objective, made) < evaluate_loss(instance, objective, best):
                best, genome = made, genome._replace(bound=bound)
                if budget.on_progress is not None:
                    budget.on_progress(PlanProgress.of(best, instance, objective, by="drawing", steps=steps))
        return Plan(schedule=best, steps=steps, cut=budget.left is not None and budget.left() <= 0)


class Proving(Double):
    """Improves nothing, and proves the incumbent optimal."""

    def improve(self, request):
        calls.append("proving")
        return Plan(schedule=request.incumbent, steps=1, bound_s=request.incumbent.makespan_s)


class Idle(Double):
    """Improves nothing and proves nothing."""

    def improve(self, request):
        calls.append("idle")
        return Plan(schedule=request.incumbent, steps=request.budget.steps or 1)


class Breaking(Double):
    """Fails with an error."""

    def improve(self, request):
        calls.append("breaking")
        raise ZeroDivisionError("by nothing")


class Stopped(Double):
    """Raises KeyboardInterrupt, as after Ctrl-C."""

    def improve(self, request):
        calls.append("stopped")
        raise KeyboardInterrupt


class Obliging(Double):
    """Catches KeyboardInterrupt and returns its best plan."""

    def improve(self, request):
        calls.append("obliging")
        return Plan(schedule=request.incumbent, steps=3, cut=True)


class Vanishing(Double):
    """Ends its worker process; in the main process it improves nothing."""

    def improve(self, request):
        if multiprocessing.parent_process() is not None:
            os._exit(3)
        return Plan(schedule=request.incumbent, steps=request.budget.steps or 1)


class Refusing(Double):
    """Supports no instance."""

    def supports(self, instance, objective):
        return Unsupported(reason="never")


class Beginning(Double):
    """Plans without an incumbent, for instances that no list planner can plan."""

    def plan(self, request):
        if request.incumbent is not None:
            calls.append("improving")
            return Plan(schedule=request.incumbent, steps=request.budget.steps or 1)
        calls.append("beginning")
        from weft.planners.heft import Heft

        return Heft().plan(request)
