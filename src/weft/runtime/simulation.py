"""Simulate: one engine, one simulated world, until nothing more happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.backends.simulation.backend import SimulationBackend
from weft.backends.simulation.scenario import UNDISTURBED, Arrival, Scenario
from weft.engine import messages as cm
from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.engine.messages import (
    Answered,
    Discovered,
    Fetched,
    MachineChanged,
    PlanReady,
    Progressed,
    Submitted,
    TimerFired,
)
from weft.engine.replan.remainder import plan_remaining
from weft.engine.settings import EngineSettings
from weft.engine.state.compiled import WorkflowLibrary
from weft.errors import Infeasible
from weft.planners.planner import make_planner
from weft.policies.policy import Policy, make_policy
from weft.randomness import generator

__all__ = ["Simulation"]


_PATIENCE, _REPLAN_COUNTS = 10_000, 200
"""Idle events after which nothing is expected any more, and how many of them a re-planning counts for."""

_IDLE = (cm.SetTimer, cm.Probe, cm.Discover, cm.Fetch, cm.Replan, *cm.RECORDS)
"""Commands that do nothing to a task."""


@dataclass(slots=True)
class Simulation:
    """What is simulated: workflows that arrive, a policy, and what really happens."""

    library: WorkflowLibrary
    arrivals: Sequence[Arrival]
    """By time; each names a workflow of the library."""
    policy: Policy
    settings: EngineSettings
    scenario: Scenario = UNDISTURBED
    planner: str = "heft"
    plan_steps: int = 200
    """What a planner that searches may spend."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Agree on what this world does: programs begin at once where stages have no latency."""
        at_once = self.scenario.stage_latency_s == 0
        self.settings = replace(self.settings, begins_at_once=at_once)

    def run(
        self,
        *,
        record: Callable[[JournalEntry], None] | None = None,
        check: Callable[[Engine], None] | None = None,
        stop: Callable[[Engine], bool] | None = None,
    ) -> Engine:
        """Simulate to the end; ``record`` hears of every entry, ``check`` looks at the engine after each."""
        first = self.library[self.arrivals[0].workflow]
        engine = Engine(self.library, first.instance, self.policy, self.settings, policy_named=make_policy)
        planning = _SimulatedPlanner(self, engine)
        world = SimulationBackend(
            self.scenario,
            lambda run: engine.state.runs[run].compiled,
            first,
            seed=self.seed,
            reports_machines=self.settings.ladder_every_s is None,
            replan=planning.plan,
        )
        for number, arrival in enumerate(self.arrivals):
            world.submit(arrival.at_s, number, arrival.workflow, arrival.owner or "")
        waiting = len(self.arrivals)
        sequence = 0
        patience = _IdleLimit(world)
        while (found := world.next_event()) is not None:
            now, event = found
            commands = engine.handle(event, now)
            if record is not None:
                record(JournalEntry(sequence=sequence, now=now, event=event, commands=tuple(commands)))
            sequence += 1
            world.execute(commands)
            if check is not None:
                check(engine)
            if type(event) is Submitted:
                waiting -= 1
            if not waiting and not engine.state.active:
                break
            if stop is not None and stop(engine):
                break
            if not waiting and type(event) in _IDLE_EVENTS and patience.ends_with(commands):
                break
        return engine


_IDLE_EVENTS = (TimerFired, Answered, Discovered, Fetched, PlanReady, MachineChanged, Progressed)


class _IdleLimit:
    """Sees that nothing will ever happen again although timers go on: a run that waits for a lost machine.

    It ends after many events in a row about which nothing was done while nothing computed and nothing moved.
    A repair may still come: so the number is large. A re-planning counts for many, for it takes time.
    """

    def __init__(self, world: SimulationBackend) -> None:
        self._world = world
        self._left = _PATIENCE

    def ends_with(self, commands: Sequence[cm.Command]) -> bool:
        """Say whether it has come to an end."""
        if (commands and type(commands[0]) not in _IDLE) or self._world.at_work:
            self._left = _PATIENCE
        else:
            planned = any(isinstance(command, cm.Replan) for command in commands)
            self._left -= _REPLAN_COUNTS if planned else 1
        return self._left <= 0


class _SimulatedPlanner:
    """Plans what remains of a run when the engine asks for it."""

    def __init__(self, simulation: Simulation, engine: Engine) -> None:
        self._simulation = simulation
        self._engine = engine
        self._asked = 0

    def plan(self, command: cm.Replan) -> tuple[str, int, str]:
        """Plan; give the plan's key, the points visited, and a problem."""
        simulation, state = self._simulation, self._engine.state
        rule = simulation.settings.replanning
        name = simulation.planner if rule is None or command.reason == "submitted" else rule.planner
        rng = generator(simulation.seed, "planner", str(command.run), str(self._asked))
        self._asked += 1
        try:
            stored = plan_remaining(
                state, command.run, make_planner(name), steps=simulation.plan_steps, rng=rng
            )
        except Infeasible as error:
            return "", 0, str(error)
        state.plans[stored.key] = stored
        return stored.key, stored.steps, ""
