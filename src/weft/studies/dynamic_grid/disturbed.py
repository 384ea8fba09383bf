"""One simulated execution of S1's dynamic evaluation, and what is measured of it (spec s1 section 13)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean

from weft.engine.engine import Engine
from weft.engine.history.history import History
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.settings import PRESETS, Replanning, Settings
from weft.engine.state.known import Library
from weft.instance.compilation import compile_instance
from weft.policies.naming import policy_named
from weft.simulation.scenario import Arrival, Scenario
from weft.simulation.simulate import Simulation
from weft.studies.dynamic_grid.testbed import grid_testbed
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.unfold import unfold

__all__ = ["EVENT_S", "WAYS", "Execution", "Way", "executed"]

EVENT_S = 30.0
"""Between two scheduling events, as in the prototype; the paper raises one as soon as the last plan is done.
"""
_PLAN_STEPS = 75_000
"""Points a search may visit: all of the tuned settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to execute a workflow."""

    policy: str = "plan"
    migrates: bool = False
    """Whether slow tasks are moved and the rest is planned again; else the first plan is followed to its end.
    """
    restarts: bool = False
    """Whether moved tasks go on from restart files; else they begin again."""
    bound_ancestors: str = "always"

    def settings(self, planner: str) -> Settings:
        """Give what the engine does: the preset of the paper, but for events at an interval."""
        if not self.migrates:
            return replace(PRESETS["s1"], migrate="never", replanning=None)
        rule = Replanning(planner=planner, violators=0.0, on_iteration=True, every_s=EVENT_S)
        return replace(
            PRESETS["s1"],
            poll_every_s=EVENT_S,
            checkpoints=self.restarts,
            bound_ancestors=self.bound_ancestors,
            replanning=rule,
        )


WAYS = {
    "static": Way(),
    "migration": Way(migrates=True),
    "checkpoints": Way(migrates=True, restarts=True),
    "lost": Way(migrates=True, bound_ancestors="lost"),
    "lazy": Way(policy="lazy"),
}
"""``migration`` is the paper's; ``lost`` repeats completed tasks only if their outputs are lost (ours)."""


@dataclass(slots=True)
class Execution:
    """What one execution gave."""

    end_s: float = 0.0
    completed: bool = False
    iterations: int = 1
    migrations: int = 0
    replicated_share: float = 0.0
    """Of the time that all programs ran: what served nothing in the end."""
    rescheduling_share: float = 0.0
    """Of what migrations cost: the time for which slow tasks waited for a plan; the rest is replicated work.
    """
    predictions: list[tuple[float, float, str]] = field(default_factory=list)
    """At every plan: when it came, how long the rest was predicted to take, and why it was asked for."""

    @property
    def predicted_s(self) -> float:
        """Give the first prediction."""
        return self.predictions[0][1] if self.predictions else 0.0

    @property
    def falling_share(self) -> float:
        """Give the share of the events without violation at which the predicted rest was less than before."""
        pairs = zip(self.predictions, self.predictions[1:], strict=False)
        falls = [after[1] < before[1] for before, after in pairs if after[2] == "interval"]
        return fmean(falls) if falls else 1.0

    @property
    def iteration_spread(self) -> float:
        """Give the largest over the smallest prediction of a whole iteration, made when it began."""
        whole = [rest for _, rest, why in self.predictions if why in ("submitted", "next iteration")]
        return max(whole) / min(whole) if whole else 1.0


def executed(
    make: Callable[..., Workflow], way: Way, planner: str, scenario: Scenario, seed: int
) -> Execution:
    """Execute a workflow in one way; the same seed meets the same disturbances in every way."""
    simulation = Simulation(
        library=_library(make, restartable=way.restarts),
        arrivals=[Arrival(workflow=_KEY)],
        policy=policy_named(way.policy),
        settings=way.settings(planner),
        scenario=scenario,
        planner=planner,
        plan_steps=_PLAN_STEPS,
        seed=seed,
    )
    watch = _Watch()
    engine = simulation.run(record=watch.entries.append, check=watch.look)
    return watch.measured(engine)


_KEY = "workflow"


@cache
def _library(make: Callable[..., Workflow], *, restartable: bool) -> Library:
    graph = unfold(make(restartable=restartable))
    return Library({_KEY: compile_instance(graph, grid_testbed())})


class _Watch:
    """Follows an execution entry by entry."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._history = History()
        self._asked: tuple[float, str] = (0.0, "")
        self._waited_s = 0.0
        self._found = Execution()

    def look(self, engine: Engine) -> None:
        entry = self.entries.pop()
        self._history.take(entry, engine.state)
        if isinstance(entry.event, ev.PlanReady):
            self._note_plan(entry)
        for command in entry.commands:
            if isinstance(command, cm.Replan):
                self._asked = (entry.now, command.reason)

    def _note_plan(self, entry: Entry) -> None:
        asked_s, reason = self._asked
        for command in entry.commands:
            if isinstance(command, cm.Note) and command.kind == "adopted" and command.value is not None:
                self._found.predictions.append((entry.now, command.value - entry.now, reason))
            elif isinstance(command, cm.Cancel) and command.reason == "performance":
                self._waited_s += entry.now - asked_s

    def measured(self, engine: Engine) -> Execution:
        history, found = self._history.finish(), self._found
        run = engine.state.runs[0]
        ran_s = sum(attempt.ran_s for attempt in history.attempts.values())
        lost_s = ran_s - sum(attempt.useful_s for attempt in history.attempts.values())
        found.end_s = run.ended_s if run.ended_s is not None else engine.state.now
        found.completed = run.ending == "completed"
        found.iterations = max((body.iteration for body in run.loops.bodies), default=1)
        found.migrations = sum(not move.off for move in history.moves)
        found.replicated_share = lost_s / ran_s if ran_s > 0 else 0.0
        cost_s = self._waited_s + lost_s
        found.rescheduling_share = self._waited_s / cost_s if cost_s > 0 else 0.0
        return found
