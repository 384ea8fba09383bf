"""Simulate: one engine, one simulated world, until nothing more happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.engine.engine import Engine
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.remaining import plan_remaining
from weft.engine.settings import Settings
from weft.engine.state.known import Library
from weft.errors import Infeasible
from weft.planners.naming import planner_named
from weft.policies.policy import Policy
from weft.randomness import generator
from weft.simulation.scenario import AS_BELIEVED, Arrival, Scenario
from weft.simulation.world import World

__all__ = ["Simulation"]


@dataclass(slots=True)
class Simulation:
    """What is simulated: workflows that arrive, a policy, and what really happens."""

    library: Library
    arrivals: Sequence[Arrival]
    """By time; each names a workflow of the library."""
    policy: Policy
    settings: Settings
    scenario: Scenario = AS_BELIEVED
    planner: str = "heft"
    plan_steps: int = 200
    """What a planner that searches may spend."""
    seed: int = 0

    def run(
        self,
        *,
        record: Callable[[Entry], None] | None = None,
        check: Callable[[Engine], None] | None = None,
        stop: Callable[[Engine], bool] | None = None,
    ) -> Engine:
        """Simulate to the end; ``record`` hears of every entry, ``check`` looks at the engine after each."""
        first = self.library[self.arrivals[0].workflow]
        engine = Engine(self.library, first.instance, self.policy, self.settings)
        planning = _Planning(self, engine)
        world = World(
            self.scenario,
            lambda run: engine.state.runs[run].known,
            first,
            seed=self.seed,
            reports_machines=self.settings.ladder_every_s is None,
            replan=planning.plan,
        )
        for number, arrival in enumerate(self.arrivals):
            world.submit(arrival.at_s, number, arrival.workflow, arrival.owner or "")
        waiting = len(self.arrivals)
        sequence = 0
        while (found := world.next_event()) is not None:
            now, event = found
            commands = engine.handle(event, now)
            if record is not None:
                record(Entry(sequence=sequence, now=now, event=event, commands=tuple(commands)))
            sequence += 1
            world.carry_out(commands)
            if check is not None:
                check(engine)
            if type(event).__name__ == "Submitted":
                waiting -= 1
            if not waiting and not engine.state.active:
                break
            if stop is not None and stop(engine):
                break
        return engine


class _Planning:
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
                state, command.run, planner_named(name), steps=simulation.plan_steps, rng=rng
            )
        except Infeasible as error:
            return "", 0, str(error)
        state.plans[stored.key] = stored
        return stored.key, stored.steps, ""
