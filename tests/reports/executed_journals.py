"""Journals of simulated runs, and what the reports of executed runs make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.engine.engine import Engine
from weft.engine.journal import Entry
from weft.engine.settings import Settings
from weft.engine.state.known import Library
from weft.engine.state.plans import StoredPlan
from weft.formats.files import load_platform
from weft.instance.compilation import compile_instance
from weft.platform.platform import Platform
from weft.policies.naming import policy_named
from weft.randomness import generator
from weft.reports.execution import ExecutedRun, executed_run
from weft.reports.execution_chronicle import Chronicle, chronicle_of
from weft.reports.execution_evidence import NO_EVIDENCE, Evidence
from weft.simulation.arrivals import arrivals_of
from weft.simulation.reading.files import load_arriving, load_scenario
from weft.simulation.scenario import AS_BELIEVED, Arrival, Scenario
from weft.simulation.simulate import Simulation
from weft.workflow.checks import checked_graph
from weft.workflow.records.workflow import Workflow

EXAMPLES = Path(__file__).parents[2] / "examples"

_ROUGH = 2
"""The seed of a day on which machines are lost, tasks move, some runs fail and the loop converges."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """A journal as it would be read from disk."""

    simulation: Simulation
    platform: Platform
    entries: tuple[Entry, ...]
    plans: dict[str, StoredPlan]

    def engine(self) -> Engine:
        """Give a fresh engine."""
        library = self.simulation.library
        first = library[next(iter(library))]
        return Engine(
            library,
            first.instance,
            self.simulation.policy,
            self.simulation.settings,
            policy_named=policy_named,
        )

    def chronicle(self) -> Chronicle:
        """Tell what happened."""
        return chronicle_of(self.engine(), self.entries, self.plans)

    def executed(self, evidence: Evidence = NO_EVIDENCE, runs: Sequence[int] | None = None) -> ExecutedRun:
        """Give what the reports show."""
        return executed_run(self.chronicle(), self.platform, evidence=evidence, runs=runs)


def journal_of(
    flows: Workflow | Sequence[Workflow],
    on: Platform | str,
    *,
    scenario: Scenario = AS_BELIEVED,
    policy: str = "plan",
    arrivals: Sequence[float] = (),
    settings: Settings | None = None,
) -> Written:
    """Simulate workflows that arrive at 0, or at the times given."""
    listed = [flows] if isinstance(flows, Workflow) else list(flows)
    platform = on if isinstance(on, Platform) else load_platform(on)
    times = arrivals or [0.0] * len(listed)
    found = [Arrival(workflow=flow.name, at_s=at) for flow, at in zip(listed, times, strict=True)]
    return _simulated({flow.name: flow for flow in listed}, platform, scenario, found, policy, settings)


def example_journal() -> Written:
    """Simulate the scenario of the examples: loops, failures, migrations, several users."""
    scenario = load_scenario(EXAMPLES / "scenario.yaml")
    flows = load_arriving(scenario)
    arrivals = arrivals_of(scenario, generator(0, "arrivals"))
    platform = load_platform(EXAMPLES / "grid.yaml")
    return _simulated(flows, platform, scenario, arrivals, "plan", None, seed=_ROUGH)


def _simulated(
    flows: dict[str, Workflow],
    platform: Platform,
    scenario: Scenario,
    arrivals: Sequence[Arrival],
    policy: str,
    settings: Settings | None,
    *,
    seed: int = 0,
) -> Written:
    library = Library({key: compile_instance(checked_graph(flow), platform) for key, flow in flows.items()})
    simulation = Simulation(
        library=library,
        arrivals=arrivals,
        policy=policy_named(policy),
        settings=settings or Settings(),
        scenario=scenario,
        seed=seed,
    )
    entries: list[Entry] = []
    engine = simulation.run(record=entries.append)
    return Written(
        simulation=simulation, platform=platform, entries=tuple(entries), plans=dict(engine.state.plans)
    )
