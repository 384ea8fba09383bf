"""Run workflows on real machines: the call behind ``weft run`` and ``weft resume``."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.api.executions.project import existing_project, project_at
from weft.api.executions.until import only_until
from weft.api.simulating import DEFAULT_PLANNER, DEFAULT_POLICY, DEFAULT_STEPS
from weft.backends.layout import Layout
from weft.engine.messages.events import Submitted
from weft.engine.settings import Settings, settings_named
from weft.errors import Infeasible, InvalidInput, Problem
from weft.formats.files import load_platform, read_workflow_file
from weft.formats.plain_names import plainly_named
from weft.instance.compilation import compile_instance
from weft.planners.naming import planner_named
from weft.platform.platform import Platform
from weft.policies.naming import policy_named
from weft.randomness import generator
from weft.repository.database import Database
from weft.repository.header import Header
from weft.repository.runs import Runs
from weft.runtime.execution import Ending, Execution, backend_of, open_project
from weft.runtime.lock import Lock
from weft.runtime.loop import Arriving, Listener
from weft.schedule.objective import objective_named
from weft.simulation.arrivals import arrivals_of
from weft.simulation.reading.files import load_arriving, load_scenario
from weft.workflow.checks import checked_graph
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.parameters import with_params

__all__ = ["Ran", "Watcher", "resume", "run"]

Source = Workflow | str | Path

Watcher = Callable[[Execution], Sequence[Listener]]
"""Is shown an execution before anything happens, and gives who is to hear of every entry."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ran:
    """What became of an execution."""

    layout: Layout
    execution: int
    ending: Ending
    resumed: bool
    """Whether it went on with one that was not finished."""

    @property
    def outcome(self) -> str:
        """Say how it ended: ``completed``, ``failed``, ``stopped``, ``cancelled``, ``interrupted``."""
        return self.ending.state


def run(
    workflows: Source | Sequence[Source] = (),
    *,
    on: Platform | str | Path = "local",
    project: str | Path | None = None,
    policy: str = DEFAULT_POLICY,
    planner: str = DEFAULT_PLANNER,
    plan_steps: int = DEFAULT_STEPS,
    preset: str = "default",
    settings: Settings | None = None,
    params: Mapping[str, Any] | None = None,
    until: Sequence[str] = (),
    most_nodes: int | None = None,
    keep_going: bool = False,
    retries: int | None = None,
    arrivals: str | Path | None = None,
    seed: int = 0,
    fresh: bool = False,
    format_name: str | None = None,
    command: Sequence[str] = (),
    watch: Watcher | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Ran:
    """Run workflows (records or files) to their end.

    State lies in ``.weft/`` of ``project`` (the current directory, or the nearest above that has one). An
    unfinished execution that was asked for the same is gone on with, unless ``fresh``. ``until`` names tasks
    after which nothing more is run; ``most_nodes`` limits the nodes of every machine; ``keep_going`` goes on
    with what does not depend on a task that failed. ``watch`` is shown the execution before it begins.
    ``interrupted`` is asked all the time: when it says so, all programs are ended in order, and ``resume``
    goes on.

    Raises InvalidInput, Infeasible, or Locked where another engine works in the project.
    """
    layout = project_at(project)
    asked = _asked(workflows, layout, params or {}, format_name, until)
    coming, more = _arriving(arrivals, layout)
    flows = {**asked.flows, **more.flows}
    if not flows:
        raise InvalidInput(Problem(what="no workflow to run", advice="name one, or a file of arrivals"))
    platform = on if isinstance(on, Platform) else load_platform(on)
    if most_nodes is not None:
        platform = _limited(platform, most_nodes)
    backend_of(platform)
    header = Header(
        policy=policy,
        settings=_settings(settings or settings_named(preset), keep_going=keep_going, retries=retries),
        seed=seed,
        planner=planner,
        platform=platform,
        workflows=flows,
        folders={**asked.folders, **more.folders},
        owner=getpass.getuser(),
        command=tuple(command),
    )
    _refuse(header)
    first = [(0.0, key, asked.flows[key].owner or "") for key in asked.flows]
    expected = [
        (at_s, Submitted(run=number, workflow=key, owner=owner or header.owner))
        for number, (at_s, key, owner) in enumerate(sorted([*first, *coming], key=lambda each: each[0]))
    ]
    lock, database = open_project(layout, command)
    try:
        unfinished = None if fresh else Runs(database).unfinished(header.fingerprint)
        if unfinished is not None:
            return _resumed(layout, lock, database, unfinished.number, watch, interrupted)
        begun = replace(header, started_at_s=time.time())
        return _begun(layout, lock, database, begun, expected, plan_steps, watch, interrupted)
    finally:
        database.close()
        lock.release()


def resume(
    execution: int | None = None,
    *,
    project: str | Path | None = None,
    command: Sequence[str] = (),
    watch: Watcher | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Ran:
    """Go on with an execution that was not finished: the one of this number, or the last one."""
    layout = existing_project(project)
    lock, database = open_project(layout, command)
    try:
        return _resumed(layout, lock, database, _resumable(database, execution), watch, interrupted)
    finally:
        database.close()
        lock.release()


def _resumable(database: Database, execution: int | None) -> int:
    runs = Runs(database)
    if execution is None:
        found = runs.unfinished()
        if found is None:
            advice = "`weft run WORKFLOW` begins another; `weft ls` lists what was run"
            raise InvalidInput(Problem(what="nothing to resume: the last run is over", advice=advice))
        return found.number
    stated = runs.execution(execution)
    if stated.state not in ("running", "interrupted", "stopped"):
        what = f"execution {execution} is over ({stated.state})"
        raise InvalidInput(Problem(what=what, advice="`weft run WORKFLOW` begins another"))
    return execution


def _begun(
    layout: Layout,
    lock: Lock,
    database: Database,
    header: Header,
    expected: Sequence[Arriving],
    plan_steps: int,
    watch: Watcher | None,
    interrupted: Callable[[], bool],
) -> Ran:
    execution = Execution.begin(layout, lock, database, header, expected, plan_steps=plan_steps)
    return _driven(execution, watch, interrupted, resumed=False)


def _resumed(
    layout: Layout,
    lock: Lock,
    database: Database,
    number: int,
    watch: Watcher | None,
    interrupted: Callable[[], bool],
) -> Ran:
    execution = Execution.take_up(layout, lock, database, number)
    return _driven(execution, watch, interrupted, resumed=True)


def _driven(
    execution: Execution, watch: Watcher | None, interrupted: Callable[[], bool], *, resumed: bool
) -> Ran:
    try:
        if watch is not None:
            execution.loop.listen(watch(execution))
        ending = execution.run(interrupted)
    finally:
        execution.close()
    return Ran(layout=execution.layout, execution=execution.number, ending=ending, resumed=resumed)


@dataclass(frozen=True, slots=True)
class _Asked:
    flows: dict[str, Workflow]
    folders: dict[str, str]


def _asked(
    workflows: Source | Sequence[Source],
    layout: Layout,
    params: Mapping[str, Any],
    format_name: str | None,
    until: Sequence[str],
) -> _Asked:
    """Load the workflows that are to be run now, by name; the second of one name gets a number."""
    sources = [workflows] if isinstance(workflows, Workflow | str | Path) else list(workflows)
    found = _Asked({}, {})
    for source in sources:
        loaded = (
            source if isinstance(source, Workflow) else read_workflow_file(source, format_name=format_name)
        )
        flow = only_until(plainly_named(with_params(loaded, params)), until)
        key = _free(flow.name, found.flows)
        found.flows[key] = flow
        found.folders[key] = "." if isinstance(source, Workflow) else _folder(layout, source)
    return found


def _free(name: str, taken: Mapping[str, object]) -> str:
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _folder(layout: Layout, source: str | Path) -> str:
    """Give the folder of a workflow file, from the project."""
    folder = Path(source).resolve().parent
    if not folder.is_relative_to(layout.project):
        raise InvalidInput(
            Problem(
                what=f"{str(source)!r} does not lie in the project {str(layout.project)!r}",
                rule="weft reads and writes nothing outside the project but what a workflow names",
                advice=f"run it in its own project: --project {folder}",
            )
        )
    return str(folder.relative_to(layout.project))


def _arriving(file: str | Path | None, layout: Layout) -> tuple[list[tuple[float, str, str]], _Asked]:
    """Load the workflows that arrive later, and when."""
    if file is None:
        return [], _Asked({}, {})
    scenario = load_scenario(file)
    flows = {key: plainly_named(flow) for key, flow in load_arriving(scenario).items()}
    drawn = arrivals_of(scenario, generator(0, "arrivals"))
    folder = _folder(layout, file)
    return (
        [(each.at_s, each.workflow, each.owner or "") for each in drawn],
        _Asked(flows, dict.fromkeys(flows, folder)),
    )


def _limited(platform: Platform, most_nodes: int) -> Platform:
    if most_nodes < 1:
        raise InvalidInput(Problem(what=f"at most {most_nodes} nodes", rule="must be at least 1"))
    machines = tuple(replace(each, nodes=min(each.nodes, most_nodes)) for each in platform.machines)
    return replace(platform, machines=machines)


def _settings(settings: Settings, *, keep_going: bool, retries: int | None) -> Settings:
    """Add to the settings what holds in every real world, and what was asked for."""
    return replace(
        settings,
        begins_at_once=True,
        brings_results=True,
        on_failure="continue" if keep_going else settings.on_failure,
        retries=settings.retries if retries is None else retries,
    )


def _refuse(header: Header) -> None:
    """Refuse what cannot be run, before anything is written."""
    chosen = policy_named(header.policy)
    goal, planning = objective_named("makespan"), planner_named(header.planner)
    for key, flow in header.workflows.items():
        try:
            instance = compile_instance(checked_graph(flow), header.platform)
        except Infeasible as error:
            raise Infeasible(f"{key}: {error}") from None
        refusal = planning.supports(instance, goal) if chosen.needs_plan else None
        if refusal is not None:
            what = f"planner {header.planner!r} cannot plan {key!r}: {refusal.reason}"
            raise InvalidInput(Problem(what=what, advice="`weft planners` lists the others"))
