"""Simulate workflows on a platform: the call behind ``weft simulate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.api.runs.recorder import Recorder, Tell
from weft.api.runs.simulated import SimulatedRun, SimulatedRuns
from weft.engine.explaining.waiting import standstill
from weft.engine.settings import Settings, settings_named
from weft.engine.state.known import Library
from weft.errors import Infeasible, InvalidInput, Problem
from weft.formats.files import load_platform, read_workflow_file
from weft.formats.plain_names import plainly_named
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.planners.naming import planner_named
from weft.platform.platform import Platform
from weft.policies.naming import policy_named
from weft.randomness import generator
from weft.repository.header import Header
from weft.repository.journal_files import journal_file
from weft.schedule.objective import objective_named
from weft.simulation.arrivals import arrivals_of
from weft.simulation.reading.checks import check_scenario
from weft.simulation.reading.files import load_arriving, load_scenario
from weft.simulation.scenario import AS_BELIEVED, Arrival, Scenario
from weft.simulation.simulate import Simulation
from weft.workflow.checks import checked_graph
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.parameters import with_params

__all__ = ["DEFAULT_PLANNER", "DEFAULT_POLICY", "DEFAULT_STEPS", "simulate"]

DEFAULT_POLICY, DEFAULT_PLANNER = "plan", "heft"
DEFAULT_STEPS = 200
"""What a planner that searches may spend, at the start and at each re-planning."""

_Source = Workflow | str | Path


def simulate(
    workflows: _Source | Sequence[_Source] = (),
    *,
    on: Platform | str | Path = "local",
    policy: str = DEFAULT_POLICY,
    planner: str = DEFAULT_PLANNER,
    scenario: Scenario | str | Path | None = None,
    preset: str = "default",
    settings: Settings | None = None,
    seed: int = 0,
    repeat: int = 1,
    params: Mapping[str, Any] | None = None,
    plan_steps: int = DEFAULT_STEPS,
    format_name: str | None = None,
    journal: str | Path | None = None,
    progress: Tell | None = None,
) -> SimulatedRuns:
    """Simulate workflows (records or files) that arrive at 0, and those that a scenario lets arrive.

    ``policy`` and ``planner`` may carry options (``"foft:intra=priority"``); the planner is asked by
    policies that follow plans, and by re-planning. ``settings`` say how the engine adapts; ``preset`` names
    a set of them. With ``repeat`` the seeds ``seed``, ``seed + 1``, ... are simulated. ``journal`` is a file
    to write the journal to.

    Raises Infeasible where the platform can run some task nowhere. A run that fails or comes to a standstill
    is no error of the simulation: ``SimulatedRun.outcome`` says so.
    """
    if repeat < 1:
        raise InvalidInput(Problem(what=f"repeat {repeat}", rule="must be at least 1"))
    if repeat > 1 and journal is not None:
        raise InvalidInput(Problem(what="a journal of several runs", advice="give either repeat or journal"))
    if seed < 0:
        raise InvalidInput(Problem(what=f"seed {seed}", rule="must be at least 0"))
    truth = _scenario(scenario)
    platform = on if isinstance(on, Platform) else load_platform(on)
    first = _first(workflows, params or {}, format_name)
    arriving = {key: plainly_named(flow) for key, flow in load_arriving(truth).items()}
    _refuse_clash(first, arriving)
    flows = {**first, **arriving}
    if not flows:
        advice = "name one, or a scenario in which some arrive"
        raise InvalidInput(Problem(what="no workflow to simulate", advice=advice))
    check_scenario(truth, platform, flows)
    prepared = _Prepared(
        flows=flows,
        platform=platform,
        instances=_compiled(flows, platform),
        scenario=truth,
        policy=policy,
        planner=planner,
        settings=settings_named(preset) if settings is None else settings,
        plan_steps=plan_steps,
        first=tuple(first),
    )
    prepared.refuse_planner()
    runs = [prepared.run(seed + number, journal, progress) for number in range(repeat)]
    return SimulatedRuns(
        platform=platform,
        policy=policy,
        planner=planner if prepared.plans else None,
        scenario=truth.name,
        preset=preset if settings is None else "given",
        runs=tuple(runs),
    )


def _scenario(given: Scenario | str | Path | None) -> Scenario:
    if given is None:
        return AS_BELIEVED
    return given if isinstance(given, Scenario) else load_scenario(given)


def _first(
    workflows: _Source | Sequence[_Source], params: Mapping[str, Any], format_name: str | None
) -> dict[str, Workflow]:
    """Load the workflows that arrive at 0, by name; the second of one name gets a number."""
    sources = [workflows] if isinstance(workflows, Workflow | str | Path) else list(workflows)
    found: dict[str, Workflow] = {}
    for source in sources:
        loaded = (
            source if isinstance(source, Workflow) else read_workflow_file(source, format_name=format_name)
        )
        flow = plainly_named(with_params(loaded, params))
        found[_free(flow.name, found)] = flow
    return found


def _free(name: str, taken: Mapping[str, object]) -> str:
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _refuse_clash(first: Mapping[str, Workflow], arriving: Mapping[str, Workflow]) -> None:
    clash = sorted(first.keys() & arriving.keys())
    if clash:
        what = f"workflow {clash[0]!r} is named on the command line and by the scenario"
        raise InvalidInput(Problem(what=what, advice="let only one of them name it"))


def _compiled(flows: Mapping[str, Workflow], platform: Platform) -> dict[str, Instance]:
    """Compile every workflow; what keeps one from running anywhere is told with its name."""
    found = {}
    for key, flow in flows.items():
        try:
            found[key] = compile_instance(checked_graph(flow), platform)
        except Infeasible as error:
            raise Infeasible(f"{key}: {error}") from None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """Everything that all repetitions share."""

    flows: Mapping[str, Workflow]
    platform: Platform
    instances: Mapping[str, Instance]
    scenario: Scenario
    policy: str
    planner: str
    settings: Settings
    plan_steps: int
    first: tuple[str, ...]

    @property
    def plans(self) -> bool:
        """Say whether a planner is asked at all."""
        return policy_named(self.policy).needs_plan

    def refuse_planner(self) -> None:
        """Refuse a planner that cannot plan some workflow, before anything is simulated."""
        if not self.plans:
            return
        goal, chosen = objective_named("makespan"), planner_named(self.planner)
        for key, instance in self.instances.items():
            refusal = chosen.supports(instance, goal)
            if refusal is not None:
                what = f"planner {self.planner!r} cannot plan {key!r}: {refusal.reason}"
                raise InvalidInput(Problem(what=what, advice="`weft planners` lists the others"))

    def run(self, seed: int, journal: str | Path | None, tell: Tell | None) -> SimulatedRun:
        """Simulate once."""
        simulation = Simulation(
            library=Library(self.instances),
            arrivals=list(self._arrivals(seed)),
            policy=policy_named(self.policy),
            settings=self.settings,
            scenario=self.scenario,
            planner=self.planner,
            plan_steps=self.plan_steps,
            seed=seed,
        )
        opened = nullcontext() if journal is None else journal_file(journal, self._header(simulation))
        with opened as writer:
            recorder = Recorder(writer, tell)
            engine = simulation.run(record=recorder.record, check=recorder.check, stop=recorder.stop)
        stuck = [recorder.endless] if recorder.endless else standstill(engine.state)
        return SimulatedRun(
            seed=seed,
            history=recorder.history.finish(),
            machines=tuple((machine.name, machine.nodes) for machine in engine.state.machines),
            instances=self.instances,
            stuck=tuple(stuck),
            pending=len(simulation.arrivals) - len(engine.state.runs),
        )

    def _arrivals(self, seed: int) -> Iterator[Arrival]:
        """List what arrives when: what was named at 0, in its order, then what the scenario says."""
        drawn = arrivals_of(self.scenario, generator(seed, "arrivals"))
        own = [Arrival(workflow=key, owner=self.flows[key].owner) for key in self.first]
        yield from sorted([*own, *drawn], key=lambda arrival: arrival.at_s)

    def _header(self, simulation: Simulation) -> Header:
        return Header(
            policy=self.policy,
            settings=simulation.settings,
            seed=simulation.seed,
            planner=self.planner,
            platform=self.platform,
            workflows=self.flows,
            scenario=self.scenario.name,
        )
