"""Simulations: one engine and one simulation backend, driven until no event is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.backends.backend import BackendContext
from weft.backends.simulation.backend import SimulationBackend
from weft.backends.simulation.scenario import UNDISTURBED, Arrival, Scenario
from weft.engine.engine import Engine
from weft.engine.explanation import describe_standstill
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.messages import SUBMITTED, PlanReady, Replan, Submitted
from weft.engine.replan.remainder import ReplanRequest, prepare_replan
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.plan import StoredPlan
from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners.planner import make_planner
from weft.policies.policy import Policy, make_policy
from weft.runtime.budget import PlanningBudget, exclude_compilation
from weft.runtime.driver import Clock, DriverLoop, Listener, planner_name, planning_generator
from weft.schedule.schedule import Schedule
from weft.workflow.settings import RunSettings, SettingsLayers

_BUDGET = PlanningBudget(steps=200)


@dataclass(slots=True)
class Simulation:
    """Input of a simulation: arriving workflows, a policy, settings, and a scenario."""

    library: WorkflowLibrary
    arrivals: Sequence[Arrival]
    """Arrivals ordered by time; each names a workflow of the library."""
    policy: Policy
    settings: SettingsLayers | RunSettings
    scenario: Scenario = UNDISTURBED
    planner: str = "heft"
    budget: PlanningBudget = _BUDGET
    """Budget of each plan."""
    given: Mapping[int, StoredPlan] = field(default_factory=dict)
    """By run: a first plan that was made before the simulation."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Set the setting ``begins_at_once`` if the scenario has no stage latency.

        Then programs start at once and report no start.
        """
        at_once = self.scenario.stage_latency_s == 0
        if isinstance(self.settings, RunSettings):
            self.settings = SettingsLayers(base=self.settings)
        self.settings = replace(self.settings, base=replace(self.settings.base, begins_at_once=at_once))

    @property
    def layers(self) -> SettingsLayers:
        """Return the settings of the simulation as layers, from which those of a run or task are resolved."""
        assert isinstance(self.settings, SettingsLayers), "__post_init__ converts settings"
        return self.settings

    def run(
        self,
        *,
        record: Callable[[JournalEntry], None] | None = None,
        check: Callable[[Engine], None] | None = None,
        stop: Callable[[Engine], bool] | None = None,
    ) -> Engine:
        """Simulate until all runs have ended, none can continue, or ``stop`` returns True; return the engine.

        ``record`` is called with every journal entry, and ``check`` with the engine after every entry.
        """
        first = self.library[self.arrivals[0].key].instance
        engine = Engine(self.library, first, self.policy, self.settings, policy_named=make_policy)
        backend = SimulationBackend(
            BackendContext(
                machines=first.machines,
                instance=first,
                compiled_workflow=lambda run: engine.state.runs[run].compiled,
            ),
            scenario=self.scenario,
            seed=self.seed,
            reports_machines=engine.settings.ladder_every_s is None,
        )
        listeners: list[Listener] = []
        if record is not None:
            listeners.append(lambda entry, _: record(entry))
        if check is not None:
            listeners.append(lambda _, engine: check(engine))
        plans = _SimulatedPlanner(self, engine, backend.clock)
        driver = DriverLoop(engine, backend, backend.clock, plans, listeners=listeners)
        driver.expect(
            (
                each.at_s,
                Submitted(
                    run=number,
                    workflow=each.key,
                    owner=each.owner or "",
                    priority=each.priority,
                    results=each.results or "",
                ),
            )
            for number, each in enumerate(self.arrivals)
        )
        driver.run(None if stop is None else lambda: stop(engine))
        return engine


class _SimulatedPlanner:
    """Plan service that plans at once and delivers the answer after the simulated planning time."""

    busy = False

    def __init__(self, simulation: Simulation, engine: Engine, clock: Clock) -> None:
        self._simulation = simulation
        self._engine = engine
        self._clock = clock
        self._requested = 0

    def request(self, command: Replan) -> None:
        """Compute the plan now, and schedule the answer for the end of the simulated planning time."""
        simulation, state = self._simulation, self._engine.state
        number = self._requested
        self._requested += 1
        key, steps, problem = "", 0, ""
        try:
            stored = self._plan(prepare_replan(state, command.run), command, number)
        except Infeasible as error:
            problem = str(error)
        else:
            state.plans[stored.key] = stored
            key, steps = stored.key, stored.steps
        ready = PlanReady(plan=key, run=command.run, version=command.version, steps=steps, problem=problem)
        at_s = self._clock.now() + steps * simulation.scenario.replanning_s_per_point
        self._clock.schedule(ready, at_s)

    def _plan(self, request: ReplanRequest, command: Replan, number: int) -> StoredPlan:
        simulation = self._simulation
        if command.version == 0 and (given := simulation.given.get(command.run)) is not None:
            return request.adopted(given)
        planner = make_planner(planner_name(self._engine, simulation.planner, command))
        rng = planning_generator(simulation.seed, planner, command, number)
        budget = simulation.budget.budget(planner, first=command.reason == SUBMITTED)
        with exclude_compilation(budget):
            return request.answered(planner, budget, rng)

    def answers(self) -> Sequence[PlanReady]:
        """Return an empty sequence, because the clock delivers the answers."""
        return ()


def simulate_policy(instance: Instance, policy: str, *, planner: str = "heft", seed: int = 0) -> Schedule:
    """Return the schedule of a simulated run under a policy.

    In this run all estimates are true, and every loop runs once. ``planner`` is used for policies that follow
    a plan. Raises Infeasible if the run cannot continue or fails.
    """
    key, graph = instance.graph.workflow.name, instance.graph
    simulation = Simulation(
        library=WorkflowLibrary({key: instance}),
        arrivals=[Arrival(workflow=key)],
        policy=make_policy(policy),
        settings=RunSettings(),
        scenario=replace(UNDISTURBED, iterations={body.loop.name: 1 for body in graph.loops}),
        planner=planner,
        seed=seed,
    )
    history, entries = History(), list[JournalEntry]()
    engine = simulation.run(
        record=entries.append, check=lambda engine: history.take(entries.pop(), engine.state)
    )
    if stuck := describe_standstill(engine.state):
        raise Infeasible(f"the simulation under policy {policy!r} cannot continue: {'; '.join(stuck)}")
    if (ending := engine.state.runs[0].ending) != "completed":
        raise Infeasible(f"the simulated run under policy {policy!r} ended as {ending}, not completed")
    return _schedule_of(instance, history.finish())


def _schedule_of(instance: Instance, history: History) -> Schedule:
    """Return the schedule that a simulated run followed; virtual tasks end when their predecessors end."""
    graph, number = instance.graph, {name: index for index, name in enumerate(instance.graph.names)}
    first = np.array([found[0] for found in instance.candidate_sets], dtype=np.uint32)
    machine = first[instance.candidates[graph.variable]]
    nodes = np.zeros(len(graph), dtype=np.uint32)
    start_s, finish_s = np.zeros(len(graph)), np.zeros(len(graph))
    attempts = {number[each.task]: each for each in history.attempts.values() if each.ending == "completed"}
    for task in range(len(graph)):
        if (attempt := attempts.get(task)) is None:
            start_s[task] = finish_s[task] = finish_s[graph.predecessors(task)].max(initial=0.0)
            continue
        machine[task], nodes[task] = attempt.machine, attempt.nodes
        start_s[task], finish_s[task] = attempt.started_s or 0.0, attempt.ended_s or 0.0
    return Schedule(
        tasks=graph.names,
        machines=tuple(each.name for each in instance.machines),
        machine=machine,
        nodes=nodes,
        start_s=start_s,
        finish_s=finish_s,
    )
