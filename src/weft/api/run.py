"""Run workflows on real machines: the functions behind ``weft run``, ``weft resume`` and ``weft cancel``."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from weft.api.file_names import check_staged_files
from weft.api.project import OpenProject, find_project, require_project
from weft.api.report import ExecutionReport, read_report, reports_folder, write_reports
from weft.api.request import (
    PlanningChoice,
    PredictionFiles,
    Request,
    Submission,
    WorkflowSource,
    compile_request,
    load_arrivals,
    load_machines,
    load_workflows,
    prepare_flows,
    separate_results,
    stated_options,
)
from weft.api.settings import (
    ProfileSource,
    SettingsSource,
    find_profile,
    load_layers,
    set_poll_interval,
    set_state_interval,
)
from weft.backends.attempt.isolation import check_isolation
from weft.backends.attempt.modules import check_programs
from weft.backends.layout import ProjectLayout, check_sandboxes
from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.engine.messages import Submitted
from weft.engine.state.compiled import WorkflowLibrary
from weft.errors import Infeasible, InvalidInput, Problem, WeftError, collect_problems
from weft.formats.profiles import DEFAULT_PRESET, load_profile_platform
from weft.platform.platform import Platform
from weft.records import dataclass
from weft.redaction import redact
from weft.reports.execution_page import execution_facts, execution_lines, kind_table
from weft.reports.text import TextTable
from weft.repository.database import Database, DiskFull, open_database
from weft.repository.journal import JournalHeader
from weft.repository.runs import UNFINISHED, RunRecord, RunTable
from weft.runtime.driver import Listener
from weft.runtime.execution import JOINING, Execution, ExecutionOutcome, check_backend, open_project
from weft.runtime.lock import Lock, user_name
from weft.workflow.file_format import make_isolation
from weft.workflow.settings import (
    SettingsLayer,
    SettingsLayers,
    merge_layers,
    suit_real_runs,
)
from weft.workflow.task import CAUSES, Isolation
from weft.workflow.workflow import Workflow, isolate_tasks

if TYPE_CHECKING:
    from weft.api.plan import PlannedWorkflow


_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunResult:
    """Result of an execution; ``str()`` and notebooks show a summary."""

    layout: ProjectLayout
    execution: int
    ending: ExecutionOutcome
    resumed: bool
    """Whether an unfinished execution was resumed."""
    compiled: WorkflowLibrary
    """The compiled workflows of the execution."""

    @property
    def outcome(self) -> str:
        """Return the outcome: ``completed``, ``failed``, ``stopped``, ``cancelled`` or ``interrupted``."""
        return self.ending.state

    @property
    def completed(self) -> bool:
        """Return whether all runs completed."""
        return self.outcome == "completed"

    @cached_property
    def runs(self) -> tuple[RunRecord, ...]:
        """Return the runs with the numbers shown by ``weft ls``."""
        with OpenProject.at(str(self.layout.project)) as opened:
            return tuple(opened.runs.of(self.execution))

    @cached_property
    def report(self) -> ExecutionReport:
        """Return the report of the execution; the journal is read on first access."""
        with OpenProject.at(str(self.layout.project)) as opened:
            return read_report(opened, self.execution, compiled=self.compiled)

    def records(self, attempt: int) -> Path:
        """Return the directory of an attempt's ``command.sh``, ``out``, ``err`` and ``exitcode``."""
        with OpenProject.at(str(self.layout.project)) as opened:
            return opened.records(self.execution, attempt)

    def write_reports(self) -> Path:
        """Write the reports (HTML page, trace, events, WfFormat) and return their folder."""
        with OpenProject.at(str(self.layout.project)) as opened:
            write_reports(opened, self.execution, compiled=self.compiled)
        return self.reports

    @property
    def reports(self) -> Path:
        """Return the folder of the execution's reports."""
        return reports_folder(self.layout, self.runs[0].number if self.runs else 0)

    def __str__(self) -> str:
        return redact("\n".join([*execution_lines(self.report.executed), *self.ending.stuck]))

    def __repr__(self) -> str:
        return f"RunResult(execution={self.execution}, outcome={self.outcome!r})"

    def _repr_html_(self) -> str:
        executed = self.report.executed
        facts = "".join(
            f"<tr><th style='text-align:left'>{escape(label)}</th>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for label, text in execution_facts(executed)
        )
        shown = executed.listed_failures[:_SHOWN_FAILURES]
        failures = "".join(f"<pre>{escape(each.headline())}</pre>" for each in shown)
        kinds = _table_html(kind_table(executed))
        return redact(f"<b>{escape(executed.title)}</b><table>{facts}</table>{kinds}{failures}")


_SHOWN_FAILURES = 5


def _table_html(table: TextTable) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.heading)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows[:50]
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalHandler:
    """Context manager that records the first signal and calls a function at every further one.

    The caller polls the object and stops the run when it returns True. Python allows handlers in the main
    thread only; in other threads, as in some notebooks, signals keep their usual effect.
    """

    def __init__(
        self, at_once: Callable[[int], object], *, signals: Sequence[signal.Signals] = SIGNALS
    ) -> None:
        """Create a handler; ``at_once`` is called with the number of each signal after the first."""
        self.first: int | None = None
        """Number of the first signal; None if no signal has arrived."""
        self._at_once = at_once
        self._signals = signals
        self._before: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        """Return whether a signal has arrived."""
        return self.first is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for each in self._signals:
                # Signals that are ignored already (`nohup`) stay ignored.
                if signal.getsignal(each) is not signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 -- a handler is given both
        if self.first is None:
            self.first = number
        else:
            self._at_once(number)


Watcher = Callable[[Execution], Sequence[Listener]]
"""Function that gets the execution before it starts and returns listeners for its journal entries."""


def run(
    workflows: WorkflowSource | Sequence[WorkflowSource] = (),
    *,
    on: Platform | str | Path | None = None,
    project: str | Path | None = None,
    policy: str | None = None,
    planner: str | None = None,
    objective: str | None = None,
    alpha: float | None = None,
    deadline_s: float | None = None,
    max_cost: float | None = None,
    plan: str | Path | None = None,
    choose: int | None = None,
    plan_time_s: float | None = None,
    plan_steps: int | None = None,
    preset: str = DEFAULT_PRESET,
    profile: ProfileSource = None,
    settings: SettingsSource = None,
    params: Mapping[str, Any] | None = None,
    predictions: PredictionFiles = (),
    until: Sequence[str] = (),
    most_nodes: int | None = None,
    keep_going: bool = False,
    retries: int | None = None,
    arrivals: str | Path | None = None,
    seed: int = 0,
    fresh: bool = False,
    isolate: Isolation | str | Mapping[str, Any] | None = None,
    format_name: str | None = None,
    command: Sequence[str] = (),
    watch: Watcher | None = None,
    interrupted: Callable[[], bool] | None = None,
) -> RunResult:
    """Run workflows (objects, builders, task calls or files) to their end.

    State is stored in ``.weft/`` of ``project`` (default: the nearest parent directory with a project, else
    the current directory). An unfinished execution of the same request is resumed and valid results of
    earlier runs are reused, unless ``fresh``. ``until`` names the last tasks to run; ``most_nodes`` limits
    the nodes of every machine; ``keep_going`` continues with tasks that do not depend on a failed one. Search
    planners use ``plan_time_s`` (default 2) or ``plan_steps`` for the first plan and for each re-planning.
    ``objective``, ``alpha``, ``deadline_s`` and ``max_cost`` are those of ``weft.plan`` and hold for the
    first plan and all later ones. The first plan can be read from the file ``plan``, or be the point
    ``choose`` of the front that ``weft.pareto`` stored last. ``predictions`` are files with measured times.
    ``settings`` is a mapping with the keys of `settings:` in a workflow file; it has precedence over the
    workflow and over ``profile``. A profile is a file or name, and may also state the platform. ``isolate``
    is the isolation of tasks that state none: ``"bubblewrap"``, ``"unshare"``, or a mapping as in a workflow
    file.

    ``watch`` is called with the execution before it starts. ``interrupted`` is called several times per
    second; when it returns True, all programs are stopped and ``resume`` can continue. Without it, Ctrl-C
    stops the programs and raises KeyboardInterrupt; a second Ctrl-C raises KeyboardInterrupt immediately.

    Raises InvalidInput, Infeasible, or Locked if another engine uses the project.
    """
    options = stated_options(
        policy=policy, planner=planner, plan_time_s=plan_time_s, plan_steps=plan_steps,
        objective=objective, alpha=alpha, deadline_s=deadline_s, max_cost=max_cost,
    )  # fmt: skip
    checked = _check_run(
        workflows, on=on, project=project, options=options, planned=plan is not None or choose is not None,
        preset=preset, profile=profile, settings=settings, params=params, predictions=predictions,
        until=until, most_nodes=most_nodes, keep_going=keep_going, retries=retries, arrivals=arrivals,
        seed=seed, isolate=isolate, format_name=format_name,
    )  # fmt: skip
    layout, request, chosen = checked.layout, checked.request, checked.chosen
    plans, layers = request.prepare_plans(checked.layers, chosen, plan_file=plan, choose=choose, seed=seed)
    header = JournalHeader(
        policy=chosen.policy,
        settings=layers.base,
        profile=layers.profile,
        overrides=layers.overrides,
        seed=seed,
        planner=chosen.planner,
        platform=request.platform,
        workflows=request.workflows,
        platform_file=_name_platform_file(on),
        folders=request.folders,
        owner=user_name(),
        command=tuple(command),
    )
    expected = [
        (each.at_s, _submitted(number, each, header.owner)) for number, each in enumerate(checked.submissions)
    ]
    lock, database = open_project(layout, command)
    try:
        unfinished = None if fresh else RunTable(database).unfinished(header.fingerprint)
        if unfinished is None:
            begun = replace(header, started_at_s=time.time())
            execution = Execution.begin(
                layout, lock, database, begun, expected,
                compiled=request.library, budget=chosen.budget, fresh=fresh,
                plans={each.run: plans[each.workflow] for _, each in expected if each.workflow in plans},
            )  # fmt: skip
        else:
            execution = _resume_execution(layout, lock, database, unfinished.number, compiled=request.library)
        return _drive(execution, watch, interrupted, resumed=unfinished is not None)
    except (WeftError, OSError):
        database.check_place()  # whatever failed, it may have failed because the state was moved
        raise
    finally:
        database.close()
        lock.release()


def _name_platform_file(on: Platform | str | Path | None) -> str:
    """Return the absolute path of a platform file, for `weft machines reload`; "" if ``on`` is no file."""
    if on is None or isinstance(on, Platform) or not Path(on).is_file():
        return ""
    return str(Path(on).resolve())


def _submitted(number: int, submission: Submission, owner: str) -> Submitted:
    return Submitted(
        run=number,
        workflow=submission.key,
        owner=submission.owner or owner,
        priority=submission.priority,
        results=submission.results,
    )


def resume(
    execution: int | None = None,
    *,
    project: str | Path | None = None,
    cancel: Sequence[int] = (),
    command: Sequence[str] = (),
    watch: Watcher | None = None,
    interrupted: Callable[[], bool] | None = None,
) -> RunResult:
    """Resume an unfinished execution by its number (default: the last), and run it to its end.

    Failed tasks that wait for the user are retried. ``cancel`` lists the positions of runs in the execution
    that are cancelled instead of resumed; their running programs are stopped.
    """
    layout = require_project(project)
    lock, database = open_project(layout, command)
    try:
        made = _resume_execution(layout, lock, database, _resumable(database, layout, execution), cancel)
        return _drive(made, watch, interrupted, resumed=True)
    except (WeftError, OSError):
        database.check_place()
        raise
    finally:
        database.close()
        lock.release()


def _resumable(database: Database, layout: ProjectLayout, execution: int | None) -> int:
    runs = RunTable(database)
    if execution is None:
        if (found := runs.unfinished()) is None:
            earlier = [run.number for run in runs.all() if runs.execution(run.execution).state in UNFINISHED]
            begin = "`weft run WORKFLOW` starts a new run; `weft ls` lists all runs"
            advice = f"`weft resume {earlier[-1]}` resumes an earlier run" if earlier else begin
            what = f"nothing to resume: the last run in {layout.project} has ended"
            raise InvalidInput(what, advice=advice)
        return found.number
    stated = runs.execution(execution)
    if stated.state not in UNFINISHED:
        what = f"nothing to resume: the run has ended ({stated.state})"
        raise InvalidInput(what, advice="`weft run WORKFLOW` starts a new run")
    return execution


def _resume_execution(
    layout: ProjectLayout,
    lock: Lock,
    database: Database,
    number: int,
    cancel: Sequence[int] = (),
    *,
    compiled: WorkflowLibrary | None = None,
) -> Execution:
    execution = Execution.resume(layout, lock, database, number, compiled=compiled)
    runs = execution.engine.state.runs
    stopped = [run.index for run in runs if run.ending == "stopped" and run.index not in cancel]
    execution.request("resume", stopped)
    execution.request("cancel", [run.index for run in runs if run.index in cancel and not run.ending])
    return execution


def _drive(
    execution: Execution, watch: Watcher | None, interrupted: Callable[[], bool] | None, *, resumed: bool
) -> RunResult:
    action = "resume" if resumed else "start"
    _log.info("%s execution %d in %s", action, execution.number, execution.layout.home)
    try:
        ending = _run_once(execution, watch, interrupted)
        while ending.state == JOINING:
            execution = execution.reopen()
            ending = _run_once(execution, watch, interrupted)
    finally:
        execution.close()
    _log.info("execution %d: %s", execution.number, ending.state)
    return RunResult(
        layout=execution.layout,
        execution=execution.number,
        ending=ending,
        resumed=resumed,
        compiled=execution.engine.state.library,
    )


def _run_once(
    execution: Execution, watch: Watcher | None, interrupted: Callable[[], bool] | None
) -> ExecutionOutcome:
    """Drive an execution until it ends, is interrupted, or must be opened again because machines join."""
    if watch is not None:
        execution.loop.listen(watch(execution))
    if _log.isEnabledFor(logging.DEBUG):
        execution.loop.listen([_log_entry])
    if interrupted is not None:
        return execution.run(interrupted)
    with SignalHandler(_raise_interrupt, signals=[signal.SIGINT]) as signalled:
        ending = execution.run(signalled)
    if signalled():
        raise KeyboardInterrupt
    return ending


def _log_entry(entry: JournalEntry, engine: Engine) -> None:  # noqa: ARG001 -- a listener
    commands = ", ".join(type(command).__name__ for command in entry.commands)
    _log.debug("entry %d at %.3f s: %s -> %s", entry.sequence, entry.now, entry.event, commands or "nothing")


def _raise_interrupt(number: int) -> NoReturn:  # noqa: ARG001 -- it was Ctrl-C
    raise KeyboardInterrupt


def cancel_unfinished(
    layout: ProjectLayout, run: RunRecord, *, interrupted: Callable[[], bool]
) -> tuple[RunRecord, int]:
    """Cancel an unfinished run of a project without a running engine.

    The execution is resumed only until the run's programs have stopped. Its other runs can still be resumed.
    If the disk is full, directories of failed attempts are removed first. Return the new record of the run,
    and the number of bytes that were freed.
    """
    try:
        return _cancel_unfinished(layout, run, interrupted), 0
    except DiskFull:
        from weft.api.cleanup import free_space  # only needed on a full disk

        with OpenProject.at(str(layout.project)) as opened:
            freed_bytes = free_space(opened).freed_bytes
        if not freed_bytes:
            raise
        return _cancel_unfinished(layout, run, interrupted), freed_bytes


def _cancel_unfinished(layout: ProjectLayout, run: RunRecord, interrupted: Callable[[], bool]) -> RunRecord:
    engines: list[Execution] = []

    def watch(execution: Execution) -> list[Listener]:
        engines.append(execution)
        return []

    def over() -> bool:
        return interrupted() or bool(engines and engines[-1].engine.state.runs[run.position].ending)

    resume(run.execution, project=layout.project, cancel=[run.position], watch=watch, interrupted=over)
    with open_database(layout.database) as database:
        _mark_cancelled(RunTable(database), run)
        database.commit()
        return RunTable(database).run(run.number)


def _mark_cancelled(runs: RunTable, run: RunRecord) -> None:
    """Mark a stopped run as cancelled.

    The execution is marked as cancelled, too, if none of its other runs can be resumed.
    """
    if runs.run(run.number).state == "stopped":
        runs.set_state(
            run.execution, run.position, "cancelled", at_s=time.time(), reason="cancelled by the user"
        )
    others = [each for each in runs.of(run.execution) if each.number != run.number]
    if not any(each.state in UNFINISHED for each in others):
        runs.set_execution_state(run.execution, "cancelled", at_s=time.time())


_PLANNING_OPTIONS = (
    "policy", "planner", "objective", "alpha", "deadline_s", "max_cost", "plan_time_s", "plan_steps",
)  # fmt: skip
"""Arguments of ``run`` that have precedence over all settings."""


def plan_dry_run(
    workflows: WorkflowSource | Sequence[WorkflowSource] = (),
    *,
    plan: str | Path | None = None,
    choose: int | None = None,
    seed: int = 0,
    **how: Any,
) -> list[PlannedWorkflow]:
    """Return the first plan that ``run`` would follow for each workflow alone on empty machines; run nothing.

    Workflows of arrivals are planned, too. ``how``: further arguments of ``run``. What ``run`` refuses before
    it starts is refused with the same error.
    """
    from weft.api.plan import plan_first  # loads the lower bounds, which a run does not need

    options = stated_options(**{name: how.pop(name, None) for name in _PLANNING_OPTIONS})
    planned = plan is not None or choose is not None
    checked = _check_run(workflows, options=options, seed=seed, planned=planned, **how)
    return plan_first(
        checked.request, checked.layers, checked.chosen, plan_file=plan, choose=choose, seed=seed
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _CheckedRun:
    """The request of a run, after every check that needs no plan."""

    layout: ProjectLayout
    request: Request
    layers: SettingsLayers
    chosen: PlanningChoice
    submissions: Sequence[Submission]
    """All submissions, in the order of their times."""


def _compile_run(
    flows: Mapping[str, Workflow], platform: Platform, folders: Mapping[str, str], places: Mapping[str, Path]
) -> Request:
    """Check and compile the workflows of a run. Raises InvalidInput with all their problems, or Infeasible.

    By workflow, ``folders`` holds the folder of its file in the project, ``places`` the path of this folder.
    """
    problems: list[Problem] = []
    with collect_problems(problems):
        check_isolation(flows.values())
    with collect_problems(problems):
        check_programs(flows, places)
    try:
        with collect_problems(problems):
            request = compile_request(flows, platform, folders, will_run=True)
            check_staged_files({key: each.graph for key, each in request.instances.items()}, places)
    except Infeasible:
        if not problems:
            raise
    if problems:
        raise InvalidInput(problems)
    return request


def _check_run(
    workflows: WorkflowSource | Sequence[WorkflowSource],
    *,
    options: SettingsLayer,
    planned: bool,
    on: Platform | str | Path | None = None,
    project: str | Path | None = None,
    preset: str = DEFAULT_PRESET,
    profile: ProfileSource = None,
    settings: SettingsSource = None,
    params: Mapping[str, Any] | None = None,
    predictions: PredictionFiles = (),
    until: Sequence[str] = (),
    most_nodes: int | None = None,
    keep_going: bool = False,
    retries: int | None = None,
    arrivals: str | Path | None = None,
    seed: int = 0,
    isolate: Isolation | str | Mapping[str, Any] | None = None,
    format_name: str | None = None,
) -> _CheckedRun:
    """Load, check and compile the workflow of ``run`` or ``plan_dry_run``; both refuse the same inputs.

    ``planned``: whether the user names a plan. Raises InvalidInput or Infeasible.
    """
    found = find_profile(profile)
    layers = load_layers(preset=preset, profile=found, settings=settings, options=options)
    defaults = stated_options(
        on_failure="continue" if keep_going else None,
        retries=None if retries is None else dict.fromkeys(CAUSES, retries),
    )
    # The values that a task states have precedence over these two options.
    layers = replace(layers, profile=merge_layers(layers.profile, defaults))
    layout = find_project(project)
    isolation = None if isolate is None else make_isolation(isolate)
    loaded = load_workflows(workflows, layout, format_name, isolate=isolation, predictions=predictions)
    coming, more = load_arrivals(arrivals, layout, seed, params or {})
    if clash := sorted(loaded.flows.keys() & more.flows.keys()):
        what = f"workflow {clash[0]!r} is named on the command line and by the arrivals"
        raise InvalidInput(what, advice="name it only once")
    flows = prepare_flows({**loaded.flows, **more.flows}, params or {}, until)
    if isolation is not None:
        flows = {key: isolate_tasks(flow, isolation) for key, flow in flows.items()}
    if not flows:
        raise InvalidInput("no workflow to run", advice="name a workflow, or a file with arrivals")
    platform = load_machines(on or load_profile_platform(found) or "local", most_nodes)
    check_backend(platform, connect=True)
    check_sandboxes(layout, platform.machines)
    folders = {**loaded.folders, **more.folders}
    places = {key: layout.project / folder for key, folder in folders.items()}
    request = _compile_run(flows, platform, folders, places)
    layers = replace(layers, base=suit_real_runs(layers.base))
    layers = set_poll_interval(layers, request.instances.values())
    layers = set_state_interval(layers, request.instances.values())
    chosen = request.choose_planning(layers, runs=len(loaded.flows) + len(coming), planned=planned)
    first = [
        Submission(key=key, owner=flow.owner or "", origin=loaded.origins[key])
        for key, flow in loaded.flows.items()
    ]
    submissions = separate_results(sorted([*first, *coming], key=lambda each: each.at_s))
    return _CheckedRun(layout=layout, request=request, layers=layers, chosen=chosen, submissions=submissions)
