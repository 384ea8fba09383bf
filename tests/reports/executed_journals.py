"""Journals of simulated runs and their reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.backends.simulation.scenario import UNDISTURBED, Arrival, Scenario, draw_arrivals
from weft.backends.simulation.scenario_reader import load_arrival_workflows, load_scenario
from weft.engine.engine import Engine
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.plan import StoredPlan
from weft.engine.state.state import EngineState
from weft.formats.files import load_platform
from weft.instance.compilation import compile_instance
from weft.platform.platform import Platform
from weft.policies.policy import make_policy
from weft.randomness import generator
from weft.reports.execution import ExecutedRun, build_executed_run
from weft.reports.execution_records import NO_RECORDS, ExecutionRecords
from weft.runtime.simulation import Simulation
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings
from weft.workflow.workflow import Workflow

EXAMPLES = Path(__file__).parents[2] / "examples"

_ROUGH = 2
"""Seed with lost machines, migrations, failed runs and a loop that converges."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """A journal as it would be read from disk."""

    simulation: Simulation
    platform: Platform
    entries: tuple[JournalEntry, ...]
    plans: dict[str, StoredPlan]

    def engine(self) -> Engine:
        """Return a new engine."""
        library = self.simulation.library
        first = library[next(iter(library))]
        return Engine(
            library,
            first.instance,
            self.simulation.policy,
            self.simulation.settings,
            policy_named=make_policy,
        )

    def history(self) -> History:
        """Return the history of the journal."""
        history = History()
        for entry, state in self.replay():
            history.take(entry, state)
        return history.finish()

    def replay(self) -> Iterator[tuple[JournalEntry, EngineState]]:
        """Apply the journal to a new engine; yield every entry with the state after it."""
        engine = self.engine()
        engine.state.plans.update(self.plans)
        for entry in self.entries:
            engine.apply(entry.event, entry.now, entry.commands)
            yield entry, engine.state

    def executed(
        self, records: ExecutionRecords = NO_RECORDS, runs: Sequence[int] | None = None
    ) -> ExecutedRun:
        """Return the executed run from which reports are made."""
        history = History()
        for entry, state in self.replay():
            history.take(entry, state)
        return build_executed_run(history.finish(), state, self.platform, records=records, runs=runs)


def journal_of(
    flows: Workflow | Sequence[Workflow],
    on: Platform | str,
    *,
    scenario: Scenario = UNDISTURBED,
    policy: str = "plan",
    arrivals: Sequence[float] = (),
    settings: RunSettings | None = None,
) -> Written:
    """Return the journal of simulated workflows that arrive at 0 s or at the given times."""
    listed = [flows] if isinstance(flows, Workflow) else list(flows)
    platform = on if isinstance(on, Platform) else load_platform(on)
    times = arrivals or [0.0] * len(listed)
    found = [Arrival(workflow=flow.name, at_s=at) for flow, at in zip(listed, times, strict=True)]
    return _simulated({flow.name: flow for flow in listed}, platform, scenario, found, policy, settings)


def example_journal() -> Written:
    """Return the journal of the examples' scenario: loops, failures, migrations, several users."""
    scenario = load_scenario(EXAMPLES / "scenario.yaml")
    flows = load_arrival_workflows(scenario)
    arrivals = draw_arrivals(scenario, generator(0, "arrivals"))
    platform = load_platform(EXAMPLES / "grid.yaml")
    return _simulated(flows, platform, scenario, arrivals, "plan", None, seed=_ROUGH)


def _simulated(
    flows: dict[str, Workflow],
    platform: Platform,
    scenario: Scenario,
    arrivals: Sequence[Arrival],
    policy: str,
    settings: RunSettings | None,
    *,
    seed: int = 0,
) -> Written:
    library = WorkflowLibrary(
        {key: compile_instance(check_and_unfold(flow), platform) for key, flow in flows.items()}
    )
    simulation = Simulation(
        library=library,
        arrivals=arrivals,
        policy=make_policy(policy),
        settings=settings or RunSettings(),
        scenario=scenario,
        seed=seed,
    )
    entries: list[JournalEntry] = []
    engine = simulation.run(record=entries.append)
    return Written(
        simulation=simulation, platform=platform, entries=tuple(entries), plans=dict(engine.state.plans)
    )
