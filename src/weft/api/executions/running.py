"""Run workflows on real machines: the call behind ``weft run`` and ``weft resume``."""

from __future__ import annotations

import getpass
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from weft.api.executions.asked_for import Source, arriving, asked_for, machines_of
from weft.api.executions.interrupting import Interruptions
from weft.api.executions.pace import paced
from weft.api.executions.project import existing_project, project_at
from weft.api.executions.ran import Ran
from weft.api.simulating import DEFAULT_PLANNER, DEFAULT_POLICY
from weft.backends.layout import Layout
from weft.engine.messages.events import Submitted
from weft.engine.settings import Settings, settings_named
from weft.errors import Infeasible, InvalidInput, Problem
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.planners.naming import planner_named
from weft.platform.platform import Platform
from weft.policies.naming import policy_named
from weft.repository.database import Database
from weft.repository.header import Header
from weft.repository.runs import UNFINISHED, Runs
from weft.runtime.execution import Execution, open_project, refuse_unreachable
from weft.runtime.lock import Lock
from weft.runtime.loop import Listener
from weft.runtime.plan_clock import Spending
from weft.schedule.objective import objective_named
from weft.workflow.checks import checked_graph

__all__ = ["Watcher", "resume", "run"]

Watcher = Callable[[Execution], Sequence[Listener]]
"""Is shown an execution before anything happens, and gives who is to hear of every entry."""

_Interrupted = Callable[[], bool] | None


def run(
    workflows: Source | Sequence[Source] = (),
    *,
    on: Platform | str | Path = "local",
    project: str | Path | None = None,
    policy: str = DEFAULT_POLICY,
    planner: str = DEFAULT_PLANNER,
    plan_time_s: float | None = None,
    plan_steps: int | None = None,
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
    interrupted: Callable[[], bool] | None = None,
) -> Ran:
    """Run workflows (records, builders, calls of tasks, or files) to their end.

    State lies in ``.weft/`` of ``project`` (the current directory, or the nearest above that has one). An
    unfinished execution that was asked for the same is gone on with, and what was done before and is still
    valid is taken over, unless ``fresh``. ``until`` names tasks after which nothing more is run;
    ``most_nodes`` limits the nodes of every machine; ``keep_going`` goes on with what does not depend on a
    task that failed. Planners that search may search for ``plan_time_s`` (2 if nothing is said), or for
    ``plan_steps``; what is said holds for each plan that is made again during the run too.

    ``watch`` is shown the execution before it begins. ``interrupted`` is asked all the time: when it says so,
    all programs are ended in order, and ``resume`` goes on. If it is not given, Ctrl-C does that, and
    KeyboardInterrupt is raised then; a second Ctrl-C raises it at once.

    Raises InvalidInput, Infeasible, or Locked where another engine works in the project.
    """
    spending = Spending(time_s=plan_time_s, steps=plan_steps)
    layout = project_at(project)
    asked = asked_for(workflows, layout, params or {}, format_name, until)
    coming, more = arriving(arrivals, layout, seed)
    flows = {**asked.flows, **more.flows}
    if not flows:
        raise InvalidInput(Problem(what="no workflow to run", advice="name one, or a file of arrivals"))
    platform = machines_of(on, most_nodes)
    refuse_unreachable(platform)
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
    header = replace(header, settings=paced(header.settings, _compiled(header)))
    first = [(0.0, key, asked.flows[key].owner or "") for key in asked.flows]
    expected = [
        (at_s, Submitted(run=number, workflow=key, owner=owner or header.owner))
        for number, (at_s, key, owner) in enumerate(sorted([*first, *coming], key=lambda each: each[0]))
    ]
    lock, database = open_project(layout, command)
    try:
        unfinished = None if fresh else Runs(database).unfinished(header.fingerprint)
        if unfinished is None:
            begun = replace(header, started_at_s=time.time())
            execution = Execution.begin(
                layout, lock, database, begun, expected, spending=spending, fresh=fresh
            )
        else:
            execution = _taken_up(layout, lock, database, unfinished.number)
        return _driven(execution, watch, interrupted, resumed=unfinished is not None)
    finally:
        database.close()
        lock.release()


def resume(
    execution: int | None = None,
    *,
    project: str | Path | None = None,
    cancel: Sequence[int] = (),
    command: Sequence[str] = (),
    watch: Watcher | None = None,
    interrupted: Callable[[], bool] | None = None,
) -> Ran:
    """Go on with an execution that was not finished: the one of this number, or the last one.

    Tasks that had failed and wait for the user are tried again. ``cancel`` names runs, as the engine counts
    them, that are given up instead: what still runs of them is ended.
    """
    layout = existing_project(project)
    lock, database = open_project(layout, command)
    try:
        made = _taken_up(layout, lock, database, _resumable(database, execution), cancel)
        return _driven(made, watch, interrupted, resumed=True)
    finally:
        database.close()
        lock.release()


def _resumable(database: Database, execution: int | None) -> int:
    runs = Runs(database)
    if execution is None:
        found = runs.unfinished()
        if found is None:
            earlier = [run.number for run in runs.all() if runs.execution(run.execution).state in UNFINISHED]
            begin = "`weft run WORKFLOW` begins another; `weft ls` lists what was run"
            advice = f"`weft resume {earlier[-1]}` goes on with an earlier one" if earlier else begin
            raise InvalidInput(Problem(what="nothing to resume: the last run is over", advice=advice))
        return found.number
    stated = runs.execution(execution)
    if stated.state not in UNFINISHED:
        what = f"nothing to resume: it is over ({stated.state})"
        raise InvalidInput(Problem(what=what, advice="`weft run WORKFLOW` begins another"))
    return execution


def _taken_up(
    layout: Layout, lock: Lock, database: Database, number: int, cancel: Sequence[int] = ()
) -> Execution:
    execution = Execution.take_up(layout, lock, database, number)
    runs = execution.engine.state.runs
    stopped = [run.index for run in runs if run.ending == "stopped" and run.index not in cancel]
    execution.ask("resume", stopped)
    execution.ask("cancel", [run.index for run in runs if run.index in cancel and not run.ending])
    return execution


def _driven(execution: Execution, watch: Watcher | None, interrupted: _Interrupted, *, resumed: bool) -> Ran:
    try:
        if watch is not None:
            execution.loop.listen(watch(execution))
        if interrupted is not None:
            ending = execution.run(interrupted)
        else:
            with Interruptions(_at_once, signals=[signal.SIGINT]) as asked:
                ending = execution.run(asked)
            if asked():
                raise KeyboardInterrupt
    finally:
        execution.close()
    return Ran(layout=execution.layout, execution=execution.number, ending=ending, resumed=resumed)


def _at_once(number: int) -> NoReturn:  # noqa: ARG001 -- it was Ctrl-C
    raise KeyboardInterrupt


def _settings(settings: Settings, *, keep_going: bool, retries: int | None) -> Settings:
    """Add to the settings what holds in every real world, and what was asked for."""
    return replace(
        settings,
        begins_at_once=True,
        brings_results=True,
        on_failure="continue" if keep_going else settings.on_failure,
        retries=settings.retries if retries is None else retries,
    )


def _compiled(header: Header) -> list[Instance]:
    """Compile the workflows; what cannot be run is refused before anything is written."""
    instances = []
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
        instances.append(instance)
    return instances
