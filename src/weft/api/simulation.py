"""Simulate workflows on a platform and present the results: the functions behind ``weft simulate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.api.request import (
    DEFAULT_PLANNER,
    DEFAULT_POLICY,
    PredictionFiles,
    Request,
    add_predictions,
    apply_params,
    compile_request,
    load_machines,
    stated_options,
    unique_key,
)
from weft.api.settings import (
    ProfileSource,
    SettingsSource,
    find_profile,
    load_layers,
    set_poll_interval,
    set_state_interval,
)
from weft.backends.simulation.scenario import UNDISTURBED, Arrival, Scenario, draw_arrivals
from weft.backends.simulation.scenario_checks import check_scenario, list_submissions
from weft.backends.simulation.scenario_reader import load_overridden_arrivals, load_scenario
from weft.engine.engine import Engine
from weft.engine.explanation import describe_standstill
from weft.engine.history import (
    History,
    MachineUse,
    count_causes,
    count_migration_reasons,
    list_slowdowns,
    measure_machines,
    replicated_share,
)
from weft.engine.journal import JournalEntry
from weft.engine.state.plan import StoredPlan
from weft.errors import InvalidInput
from weft.formats.files import read_workflow_file
from weft.formats.native import replace_unwritable_names
from weft.formats.profiles import DEFAULT_PRESET, load_profile_platform
from weft.instance.instance import Instance
from weft.papers.statistics import Summary, summarise
from weft.platform.platform import Platform, list_crowded, list_shares, planned_machines
from weft.policies.policy import make_policy
from weft.randomness import generator
from weft.reports.simulation import SimulationView, fairness_facts, simulation_html, transfers_text
from weft.repository.journal import JournalHeader
from weft.repository.journal_store import JournalFileWriter, open_journal_file
from weft.runtime.budget import PlanningBudget
from weft.runtime.simulation import Simulation
from weft.schedule.bounds import bound_arrivals
from weft.units import format_change, format_count, format_seconds
from weft.workflow.settings import RunSettings, SettingsLayers
from weft.workflow.workflow import Workflow

__all__ = [
    "DEFAULT_PLANNER",
    "DEFAULT_POLICY",
    "MEASURES",
    "MOST_ITERATIONS",
    "SimulatedRun",
    "SimulatedRuns",
    "SimulationProgress",
    "SimulationRecorder",
    "render_simulation",
    "simulate",
    "simulation_facts",
    "simulation_notes",
    "simulation_title",
    "simulation_view",
    "spread_facts",
]


_CURVE_POINTS = 1_000
"""Maximal number of points of a step function in ``SimulatedRun.as_record``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedRun:
    """Result of one simulation."""

    seed: int
    history: History
    machines: tuple[tuple[str, int], ...]
    """Name and node count of each machine."""
    instances: Mapping[str, Instance]
    shares: Mapping[str, str]
    """Name of the physical machine of each share, by name of the share."""
    crowded: frozenset[str]
    """Machines on which more programs than nodes may run."""
    stuck: tuple[str, ...] = ()
    """Reasons why the simulation could not continue; empty if every run ended."""
    pending: int = 0
    """Number of workflows that had not arrived when the simulation ended."""

    @property
    def machine_names(self) -> tuple[str, ...]:
        """Return the names of the machines."""
        return tuple(name for name, _ in self.machines)

    @property
    def end_s(self) -> float:
        """Return the time at which the last run ended."""
        return self.history.end_s

    @property
    def outcome(self) -> str:
        """Return ``completed``, ``failed`` (some run did not complete) or ``stuck``."""
        if self.stuck:
            return "stuck"
        return "completed" if all(run.outcome == "completed" for run in self.history.runs) else "failed"

    @cached_property
    def lower_bound_s(self) -> float:
        """Return a lower bound of ``end_s`` for all workflows together; it assumes exact estimates.

        Completed runs are counted with the tasks that they executed, such as all iterations of loops.
        """
        done, known = self.history.references, self.instances
        return bound_arrivals(
            [(done.get(run.index, known[run.workflow]), run.arrival_s) for run in self.history.runs]
        )

    @cached_property
    def uses(self) -> list[MachineUse]:
        """Return the busy and replicated node-seconds, attempts and downtime of each machine."""
        return measure_machines(self.history, self.machines, self.shares, self.crowded)

    @property
    def utilisation(self) -> float:
        """Return the share of all node-seconds up to ``end_s`` in which nodes were busy."""
        offered = sum(nodes for _, nodes in self.machines)
        used = zip(self.uses, self.machines, strict=True)
        return sum(use.share * nodes for use, (_, nodes) in used) / offered if offered > 0 else 0.0

    @property
    def replicated(self) -> float:
        """Return the share of busy node-seconds spent on replicated work."""
        return replicated_share(self.uses)

    @property
    def migrations(self) -> int:
        """Return the number of migrations that have begun and were not called off."""
        return sum(move.happened for move in self.history.moves)

    @cached_property
    def slowdown(self) -> Summary | None:
        """Return statistics of the slowdowns of completed runs; None if no run completed."""
        found = [value for values in list_slowdowns(self.history.runs).values() for value in values]
        return summarise(found) if found else None

    @cached_property
    def slowdown_of(self) -> dict[str, Summary]:
        """Return statistics of the slowdowns of completed runs by workflow."""
        return {name: summarise(values) for name, values in list_slowdowns(self.history.runs).items()}

    def as_record(self) -> dict[str, Any]:
        """Return the result as plain data for JSON."""
        history, names = self.history, self.machine_names
        return {
            "seed": self.seed,
            "outcome": self.outcome,
            "stuck": list(self.stuck),
            "end_s": self.end_s,
            "lower_bound_s": self.lower_bound_s,
            "entries": history.entries,
            "utilisation": self.utilisation,
            "replicated_share": self.replicated,
            "violations": history.violations,
            "migration_reasons": count_migration_reasons(history),
            "failure_causes": count_causes(history),
            "runs": [run.as_record() for run in history.runs],
            "slowdowns": {name: asdict(found) for name, found in self.slowdown_of.items()},
            "machines": [asdict(use) for use in self.uses],
            "migrations": [move.as_record(names) for move in history.moves],
            "failures": [failure.as_record() for failure in history.failures],
            "attempts": [attempt.as_record(names) for attempt in history.attempts.values()],
            "active": [list(step) for step in history.active.thinned(_CURVE_POINTS)],
            "ready": [list(step) for step in history.ready.thinned(_CURVE_POINTS)],
        }


def _mean_slowdown(run: SimulatedRun) -> float | None:
    return None if run.slowdown is None else run.slowdown.mean


MEASURES: Mapping[str, Callable[[SimulatedRun], float | None]] = {
    "end_s": lambda run: run.end_s,
    "mean_slowdown": _mean_slowdown,
    "migrations": lambda run: float(run.migrations),
    "replicated_share": lambda run: run.replicated,
    "utilisation": lambda run: run.utilisation,
}
"""Functions that compute the measures whose median and spread over the seeds are reported, by name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedRuns:
    """Results of simulations with consecutive seeds."""

    platform: Platform
    policy: str
    planner: str | None
    """Name of the planner that the policy uses; None if it uses none."""
    scenario: str
    preset: str
    runs: tuple[SimulatedRun, ...]

    @property
    def first(self) -> SimulatedRun:
        """Return the result of the first seed."""
        return self.runs[0]

    @property
    def end_s(self) -> float:
        """Return the median over the seeds of the time at which the last run ended."""
        return self.spread("end_s").median

    @property
    def outcome(self) -> str:
        """Return the worst outcome over the seeds."""
        found = {run.outcome for run in self.runs}
        return next(word for word in ("stuck", "failed", "completed") if word in found)

    def spread(self, measure: str) -> Summary:
        """Return statistics of a measure in MEASURES over the seeds; unknown values are left out.

        If the measure is unknown for all seeds, the statistics are those of the single value 0.
        """
        found = [value for value in [MEASURES[measure](run) for run in self.runs] if value is not None]
        return summarise(found or [0.0])

    def as_record(self) -> dict[str, Any]:
        """Return the object printed by ``weft simulate --json``."""
        return {
            "platform": self.platform.name,
            "policy": self.policy,
            "planner": self.planner,
            "scenario": self.scenario,
            "preset": self.preset,
            "outcome": self.outcome,
            "end_s": self.end_s,
            "measures": {name: asdict(self.spread(name)) for name in MEASURES},
            "simulations": [run.as_record() for run in self.runs],
        }


MOST_ITERATIONS = 1_000
"""Number of iterations after which a loop without ``max_iterations`` counts as endless."""

_REPORT_EVERY = 1_000

SimulationProgress = Callable[[int, float, int], None]
"""Callback with the number of journal entries, the simulated seconds and the number of active runs."""


class SimulationRecorder:
    """Keeps the history of a simulation, writes its journal and detects endless loops."""

    def __init__(
        self, journal: JournalFileWriter | None = None, progress: SimulationProgress | None = None
    ) -> None:
        self.history = History()
        self.endless = ""
        """Message about an endless loop; empty if none was detected."""
        self._journal = journal
        self._progress = progress
        self._entry: JournalEntry | None = None

    def record(self, entry: JournalEntry) -> None:
        """Store the entry until ``check`` is called with the updated engine."""
        self._entry = entry

    def check(self, engine: Engine) -> None:
        """Add the stored entry to history and journal; ``engine`` must have applied the entry."""
        entry = self._entry
        assert entry is not None
        if self._journal is not None:
            self._journal.write(entry, engine.state)
        self.history.take(entry, engine.state)
        body = self.history.open_loop
        if body is not None and body.iteration > MOST_ITERATIONS:
            self.endless = (
                f"loop {body.loop.name} has run {MOST_ITERATIONS} times and `{body.loop.until}` never held: "
                "set its max_iterations, or state its iterations or results in the scenario"
            )
        if self._progress is not None and entry.sequence % _REPORT_EVERY == 0:
            self._progress(entry.sequence, entry.now, len(engine.state.active))

    def stop(self, engine: Engine) -> bool:  # noqa: ARG002
        """Return whether the simulation should stop because of an endless loop."""
        return bool(self.endless)


_Source = Workflow | str | Path


def simulate(
    workflows: _Source | Sequence[_Source] = (),
    *,
    on: Platform | str | Path | None = None,
    policy: str | None = None,
    planner: str | None = None,
    objective: str | None = None,
    alpha: float | None = None,
    deadline_s: float | None = None,
    max_cost: float | None = None,
    plan: str | Path | None = None,
    choose: int | None = None,
    scenario: Scenario | str | Path | None = None,
    preset: str = DEFAULT_PRESET,
    profile: ProfileSource = None,
    settings: SettingsSource = None,
    seed: int = 0,
    repeat: int = 1,
    params: Mapping[str, Any] | None = None,
    predictions: PredictionFiles = (),
    plan_time_s: float | None = None,
    plan_steps: int | None = None,
    format_name: str | None = None,
    journal: str | Path | None = None,
    progress: SimulationProgress | None = None,
) -> SimulatedRuns:
    """Simulate workflows (objects or files) that arrive at time 0 and those that arrive in a scenario.

    ``objective``, ``alpha``, ``deadline_s``, ``max_cost``, ``plan``, ``choose``, ``plan_time_s``,
    ``plan_steps`` and ``predictions`` are those of ``run``; with ``plan_steps`` simulations are reproducible.
    ``policy`` and ``planner`` may have options (``"foft:intra=priority"``); the planner is used by policies
    that follow plans, and for re-planning. ``settings`` is a mapping with the keys of `settings:` in a
    workflow file; ``profile`` is a file or name with settings, ``preset`` a profile that ships with weft.
    ``repeat`` simulates the seeds ``seed``, ``seed + 1``, ... ``journal`` is a file for the journal.

    Raises Infeasible if some task can run on no machine. A failed or stuck run raises nothing; see
    ``SimulatedRun.outcome``.
    """
    if repeat < 1:
        raise InvalidInput(f"repeat {repeat}", rule="must be at least 1")
    if repeat > 1 and journal is not None:
        what = f"a journal of {repeat} simulations"
        raise InvalidInput(what, rule="a journal holds one simulation", advice="omit repeat or journal")
    if seed < 0:
        raise InvalidInput(f"seed {seed}", rule="must be at least 0")
    truth = _load_scenario(scenario)
    found = find_profile(profile)
    options = stated_options(
        policy=policy, planner=planner, plan_time_s=plan_time_s, plan_steps=plan_steps,
        objective=objective, alpha=alpha, deadline_s=deadline_s, max_cost=max_cost,
    )  # fmt: skip
    layers = load_layers(preset=preset, profile=found, settings=settings, options=options)
    platform = load_machines(on or load_profile_platform(found) or "local", None)
    first = _load_first(workflows, format_name, predictions)
    truth, arriving = load_overridden_arrivals(truth, params or {})
    _check_clash(first, arriving)
    flows = {
        key: replace_unwritable_names(flow)
        for key, flow in apply_params({**first, **arriving}, params or {}).items()
    }
    if not flows:
        advice = "name a workflow, or a scenario with arrivals"
        raise InvalidInput("no workflow to simulate", advice=advice)
    check_scenario(truth, platform, flows)
    request = compile_request(flows, platform)
    layers = set_poll_interval(layers, request.instances.values())
    layers = set_state_interval(layers, request.instances.values())
    count = len(first) + sum(1 for entry in truth.arrivals for _ in list_submissions(entry))
    chosen = request.choose_planning(layers, runs=count, planned=plan is not None or choose is not None)
    plans, layers = request.prepare_plans(layers, chosen, plan_file=plan, choose=choose, seed=seed)
    prepared = _PreparedSimulation(
        request=request,
        scenario=truth,
        policy=chosen.policy,
        planner=chosen.planner,
        layers=layers,
        budget=chosen.budget,
        plans=plans,
        first=tuple(first),
    )
    runs = [prepared.run(seed + number, journal, progress) for number in range(repeat)]
    return SimulatedRuns(
        platform=platform,
        policy=chosen.policy,
        planner=chosen.planner if chosen.plans else None,
        scenario=truth.name,
        preset=preset if not isinstance(settings, RunSettings) else "given",
        runs=tuple(runs),
    )


def _load_scenario(given: Scenario | str | Path | None) -> Scenario:
    if given is None:
        return UNDISTURBED
    return given if isinstance(given, Scenario) else load_scenario(given)


def _load_first(
    workflows: _Source | Sequence[_Source], format_name: str | None, predictions: PredictionFiles
) -> dict[str, Workflow]:
    """Return the workflows that arrive at time 0, by name; repeated names get a number."""
    sources = [workflows] if isinstance(workflows, Workflow | str | Path) else list(workflows)
    found: dict[str, Workflow] = {}
    for source in sources:
        loaded = (
            source if isinstance(source, Workflow) else read_workflow_file(source, format_name=format_name)
        )
        found[unique_key(loaded.name, found)] = add_predictions(loaded, predictions)
    return found


def _check_clash(first: Mapping[str, Workflow], arriving: Mapping[str, Workflow]) -> None:
    if clash := sorted(first.keys() & arriving.keys()):
        what = f"workflow {clash[0]!r} is named on the command line and by the scenario"
        raise InvalidInput(what, advice="name it only once")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedSimulation:
    """Input that the simulations of all seeds share."""

    request: Request
    scenario: Scenario
    policy: str
    planner: str
    layers: SettingsLayers
    budget: PlanningBudget
    plans: Mapping[str, StoredPlan]
    first: tuple[str, ...]

    def run(self, seed: int, journal: str | Path | None, progress: SimulationProgress | None) -> SimulatedRun:
        """Simulate with one seed and return the result."""
        arrivals = list(self._arrivals(seed))
        simulation = Simulation(
            library=self.request.library,
            arrivals=arrivals,
            policy=make_policy(self.policy),
            settings=self.layers,
            scenario=self.scenario,
            planner=self.planner,
            budget=self.budget,
            given={
                run: self.plans[each.workflow]
                for run, each in enumerate(arrivals)
                if each.workflow in self.plans
            },
            seed=seed,
        )
        opened = nullcontext() if journal is None else open_journal_file(journal, self._header(simulation))
        with opened as writer:
            recorder = SimulationRecorder(writer, progress)
            engine = simulation.run(record=recorder.record, check=recorder.check, stop=recorder.stop)
        stuck = [recorder.endless] if recorder.endless else describe_standstill(engine.state)
        return SimulatedRun(
            seed=seed,
            history=recorder.history.finish(),
            machines=tuple((machine.name, machine.nodes) for machine in engine.state.machines),
            instances=self.request.instances,
            shares=list_shares(planned_machines(self.request.platform)),
            crowded=list_crowded(self.request.platform.machines),
            stuck=tuple(stuck),
            pending=len(simulation.arrivals) - len(engine.state.runs),
        )

    def _arrivals(self, seed: int) -> Iterator[Arrival]:
        """Yield all arrivals by time: the given workflows at 0, and those of the scenario."""
        drawn = draw_arrivals(self.scenario, generator(seed, "arrivals"))
        own = [
            Arrival(workflow=key, owner=self.request.instances[key].graph.workflow.owner)
            for key in self.first
        ]
        yield from sorted([*own, *drawn], key=lambda arrival: arrival.at_s)

    def _header(self, simulation: Simulation) -> JournalHeader:
        return JournalHeader(
            policy=self.policy,
            settings=simulation.layers.base,
            profile=simulation.layers.profile,
            overrides=simulation.layers.overrides,
            seed=simulation.seed,
            planner=self.planner,
            platform=self.request.platform,
            workflows=self.request.workflows,
            scenario=self.scenario.name,
        )


def simulation_title(runs: SimulatedRuns) -> str:
    """Return a title for simulations: workflows, platform, policy and planner."""
    names = list(dict.fromkeys(run.workflow for run in runs.first.history.runs))
    what = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    by = f"{runs.policy} with {runs.planner}" if runs.planner else runs.policy
    return f"{what or 'nothing'} on {runs.platform.name}, policy {by}"


def simulation_facts(run: SimulatedRun) -> list[tuple[str, str]]:
    """Return (label, text) pairs that summarise one simulation."""
    history = run.history
    facts = [
        ("end", format_seconds(run.end_s)),
        ("lower bound", _bound_text(run)),
        *fairness_facts(run.slowdown),
        ("migrations", _counts(run.migrations, count_migration_reasons(history))),
        ("failures", _counts(len(history.failures), count_causes(history))),
        *([("transfers", moves)] if (moves := transfers_text(history.attempts.values())) else []),
        ("replicated work", f"{run.replicated:.1%} of the node-seconds taken"),
        ("nodes busy", f"{run.utilisation:.1%}"),
    ]
    if run.outcome != "completed":
        facts.insert(0, ("outcome", run.outcome))
    return facts


def _bound_text(run: SimulatedRun) -> str:
    comparable = run.outcome == "completed" and run.lower_bound_s > 0
    above = f" ({format_change(run.end_s / run.lower_bound_s - 1)})" if comparable else ""
    return format_seconds(run.lower_bound_s) + above


def _counts(total: int, by_reason: dict[str, int]) -> str:
    parts = ", ".join(f"{count} {reason or 'without a reason'}" for reason, count in by_reason.items())
    return f"{total} ({parts})" if parts else str(total)


def spread_facts(runs: SimulatedRuns) -> list[tuple[str, str]]:
    """Return (label, text) pairs with the outcomes, and median and spread of measures over the seeds."""

    def text(measure: str, shown: str) -> str:
        found = runs.spread(measure)
        values = (found.median, found.least, found.lower_quartile, found.upper_quartile, found.most)
        if shown == "time":
            median, least, low, high, most = (format_seconds(value) for value in values)
        else:
            median, least, low, high, most = (format(value, shown) for value in values)
        return f"median {median}, quartiles {low} to {high}, range {least} to {most}"

    outcomes = [run.outcome for run in runs.runs]
    counts = {word: outcomes.count(word) for word in dict.fromkeys(outcomes)}
    return [
        ("outcomes", ", ".join(f"{count} {word}" for word, count in counts.items())),
        ("end", text("end_s", "time")),
        ("mean slowdown", text("mean_slowdown", ".3g")),
        ("migrations", text("migrations", ".3g")),
        ("replicated work", text("replicated_share", ".1%")),
        ("nodes busy", text("utilisation", ".1%")),
    ]


def simulation_notes(run: SimulatedRun) -> list[str]:
    """Return notes on a simulation.

    The notes name runs that failed, reasons why the simulation could not continue, and the number of
    workflows that had not arrived.
    """
    notes = []
    for story in run.history.runs:
        if story.outcome not in ("completed", ""):
            why = f": {story.reason}" if story.reason else ""
            notes.append(f"run {story.index} ({story.workflow}) {story.outcome}{why}")
    notes += [f"standstill: {line}" for line in run.stuck]
    if run.pending:
        notes.append(f"{format_count(run.pending, 'workflow')} had not arrived when the simulation stopped")
    return notes


def simulation_view(runs: SimulatedRuns) -> SimulationView:
    """Return the data of the charts and the HTML page for the simulation of the first seed."""
    run = runs.first
    return SimulationView(
        title=simulation_title(runs),
        history=run.history,
        machines=run.machines,
        sites=tuple(machine.site or "" for machine in planned_machines(runs.platform)),
        facts=tuple(simulation_facts(run)),
        uses=tuple(run.uses),
        slowdowns=tuple(run.slowdown_of.items()),
        lower_bound_s=run.lower_bound_s,
        notes=tuple(simulation_notes(run)),
    )


def render_simulation(runs: SimulatedRuns) -> str:
    """Return the simulation of the first seed as a self-contained HTML page."""
    return simulation_html(simulation_view(runs))
