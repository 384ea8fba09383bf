"""The request behind every command: workflows, loaded, checked, unfolded and compiled for a platform."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from weft.documents import Document, locate_problems
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.plan import StoredPlan
from weft.errors import Infeasible, InvalidInput, Problem, collect_problems, nearest, shorten, suggest
from weft.formats.files import STDIN, describes_machines, load_platform, read_workflow_file
from weft.formats.native import replace_unwritable_names
from weft.formats.services import bind_services
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.planners.planner import check_no_budgets, make_planner
from weft.platform.platform import Platform
from weft.policies.policy import make_policy
from weft.predictions import unresolved_files
from weft.predictors.chain import chain_for
from weft.predictors.predictor import Predictor
from weft.randomness import generator
from weft.records import dataclass
from weft.runtime.budget import PlanningBudget
from weft.schedule.objective import make_objective
from weft.workflow.checks import check_and_unfold, find_prediction_problems
from weft.workflow.settings import SETTINGS, RunSettings, SettingsLayer, SettingsLayers, complete_layer
from weft.workflow.task import Isolation, Task
from weft.workflow.task_graph import TaskGraph
from weft.workflow.workflow import Workflow, set_params

if TYPE_CHECKING:
    from weft.backends.layout import ProjectLayout


_log = logging.getLogger(__name__)

FAIR_POLICY, SHARED_POLICY = "foft", "shared-plans"
"""Default policies of an execution with several runs: without plans, and with plans."""

DEFAULT_POLICY, DEFAULT_PLANNER = "plan", "auto"
"""Default policy of ``run`` and ``simulate``, and default planner of ``run``, ``simulate`` and ``plan``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningChoice:
    """Policy, planner and budget that the settings of an execution select."""

    policy: str
    planner: str
    budget: PlanningBudget
    plans: bool
    """Whether the policy follows plans."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """Workflows that were compiled for a platform."""

    platform: Platform
    instances: Mapping[str, Instance]
    """Compiled workflows by key."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Folder of each workflow, relative to the project, by key; empty if the workflows are not run."""
    predictor: Predictor | None = None
    """Predictor with which the instances were compiled; None: the default predictors."""
    compile_s: float = 0.0
    """Wall-clock seconds of the compilation."""

    @property
    def workflows(self) -> dict[str, Workflow]:
        """Return the workflows by key."""
        return {key: instance.graph.workflow for key, instance in self.instances.items()}

    @property
    def instance(self) -> Instance:
        """Return the instance of a request that has exactly one workflow."""
        (found,) = self.instances.values()
        return found

    @cached_property
    def library(self) -> WorkflowLibrary:
        """Return the workflows in the form that an engine reads."""
        return WorkflowLibrary(self.instances)

    def choose_planning(
        self, layers: SettingsLayers, *, runs: int = 1, planned: bool = False
    ) -> PlanningChoice:
        """Return the policy, planner and budget that settings select for an execution of ``runs`` runs.

        Without a stated policy, one run uses ``DEFAULT_POLICY``. Several runs use ``SHARED_POLICY`` if a
        planner, objective, limit, plan (``planned``) or rule of re-planning is stated, or if a plan could
        exceed a budget of a workflow; else ``FAIR_POLICY``. Raises InvalidInput for an unknown name, if a
        planner does not support a workflow or its objective, or if the policy does not keep its budgets.
        """
        common = layers.of_execution(self.workflows.values())
        self._check_names(layers, common)
        policy = common.policy or DEFAULT_POLICY
        if common.policy is None and runs > 1:
            each = [layers.of_workflow(flow) for flow in self.workflows.values()]
            planned = planned or common.planner is not None or any(map(_requires_plan, each))
            planned = planned or any(instance.binding_budgets() for instance in self.instances.values())
            policy = SHARED_POLICY if planned else FAIR_POLICY
        planner = common.planner or DEFAULT_PLANNER
        plans = make_policy(policy).needs_plan
        if plans:
            self._check_planners(layers, planner)
        else:
            _refuse_unused(layers.overrides, policy)
            self._refuse_budgets(policy)
        budget = PlanningBudget(time_s=common.plan_time_s, steps=common.plan_steps)
        return PlanningChoice(policy=policy, planner=planner, budget=budget, plans=plans)

    def prepare_plans(
        self,
        layers: SettingsLayers,
        chosen: PlanningChoice,
        *,
        plan_file: str | Path | None,
        choose: int | None,
        seed: int,
    ) -> tuple[dict[str, StoredPlan], SettingsLayers]:
        """Return the plans needed before a run and its settings layers (see ``api.plan.prepare_plans``)."""
        each = (layers.of_workflow(flow) for flow in self.workflows.values())
        limited = any((one.deadline_s, one.max_cost) != (None, None) for one in each)
        if plan_file is None and choose is None and not limited:
            return {}, layers
        from weft.api.plan import prepare_plans  # loads the lower bounds, which a run does not need

        return prepare_plans(self, layers, chosen, plan_file=plan_file, choose=choose, seed=seed)

    def _check_names(self, layers: SettingsLayers, common: RunSettings) -> None:
        """Raise InvalidInput if settings name an unknown policy, planner or objective, even an unused one."""
        problems: dict[Problem, None] = {}
        for flow in self.workflows.values():
            problems |= dict.fromkeys(find_unknown_in_workflow(flow, layers.of_workflow(flow)))
            problems |= dict.fromkeys(find_unknown_selectors(flow))
        if not problems:
            problems |= dict.fromkeys(find_unknown_names(complete_layer(common)))
        if problems:
            raise InvalidInput(list(problems))

    def _refuse_budgets(self, policy: str) -> None:
        """Raise InvalidInput if a workflow has budgets that a policy without a plan could exceed."""
        for key, instance in self.instances.items():
            if (refusal := check_no_budgets(f"policy {policy!r}", instance)) is not None:
                raise InvalidInput(f"{refusal.reason} of {key!r}", advice=_BUDGET_ADVICE)

    def _check_planners(self, layers: SettingsLayers, default: str) -> None:
        """Raise InvalidInput if the planner of a workflow does not support the workflow or its objective."""
        for key, instance in self.instances.items():
            settings = layers.of_workflow(instance.graph.workflow)
            refuse_functions(settings.objective)
            goal = make_objective(
                settings.objective,
                settings.alpha,
                deadline_s=settings.deadline_s,
                max_cost=settings.max_cost,
            )
            planner = settings.planner or default
            chosen = make_planner(planner)
            if (refusal := chosen.supports(instance, goal)) is not None:
                what = f"planner {planner!r} cannot plan {key!r}: {refusal.reason}"
                raise InvalidInput(what, advice="`weft planners` lists the others")


Keys = tuple[str, ...]
"""Keys of nested mappings in a document."""

PredictionFiles = str | Path | Sequence[str | Path]
"""One file of predictions or several."""


def add_predictions(workflow: Workflow, files: PredictionFiles = ()) -> Workflow:
    """Return a workflow with the predictions of ``files`` and of the files that the workflow names.

    Predictions in ``files`` have precedence over those of the workflow.
    """
    names = [files] if isinstance(files, str | Path) else list(files)
    if not names and not unresolved_files(workflow.predictions):
        return workflow
    from weft.formats.predictions import resolve_predictions

    found = resolve_predictions(workflow, Path(), names)
    if problems := list(find_prediction_problems(found)):
        raise InvalidInput(problems)
    return found


def refuse_functions(objective: object) -> None:
    """Raise InvalidInput if the objective of a run is a Python function, which no journal can record."""
    if not isinstance(objective, str):
        what = f"the objective {getattr(objective, '__qualname__', shorten(objective))}"
        rule = "a run records its objective: it must be a name or a formula"
        raise InvalidInput(what, rule=rule, advice="use functions only with plan, compare and tune")


def find_unknown_names(
    layer: SettingsLayer, document: Document | None = None, *places: Keys
) -> Iterator[Problem]:
    """Yield a problem for each unknown or invalid policy, planner, objective or option in settings.

    ``document``: the file that states the settings; ``places``: the paths in it below which it may state
    them. A problem has the location of the first place with the setting.
    """
    makers = {
        "policy": make_policy,
        "planner": make_planner,
        "replan_planner": make_planner,
        "objective": make_objective,
    }
    for attribute, make in makers.items():
        if not isinstance(name := layer.get(attribute), str):
            continue
        try:
            make(name)  # type: ignore[operator]
        except InvalidInput as error:
            path = _find_setting(attribute, document, places)
            found = (replace(each, path=path, location=None) for each in error.problems)
            yield from locate_problems(found, document)


def _find_setting(attribute: str, document: Document | None, places: Sequence[Keys]) -> Keys:
    """Return the path of a setting in the first of ``places`` that states it; () if none does."""
    if document is None:
        return ()
    key = next(setting.key for setting in SETTINGS if setting.attribute == attribute)
    paths = ((*place, *key.split(".")) for place in places)
    return next((path for path in paths if document.find(*path) is not None), ())


def find_unknown_in_workflow(workflow: Workflow, settings: RunSettings) -> Iterator[Problem]:
    """Yield the problems of names in the settings of a run of a workflow; see ``find_unknown_names``.

    ``settings``: the settings of the run. Names that the workflow states have their location in its file.
    """
    complete = complete_layer(settings)
    own = {name: value for name, value in workflow.settings.items() if value == complete[name]}
    yield from find_unknown_names(own, workflow.document, ("settings",))
    yield from find_unknown_names({name: value for name, value in complete.items() if name not in own})


def check_values(settings: RunSettings) -> None:
    """Raise InvalidInput if objective, alpha, limits and budget of a run do not fit together."""
    make_objective(
        settings.objective, settings.alpha, deadline_s=settings.deadline_s, max_cost=settings.max_cost
    )
    PlanningBudget(time_s=settings.plan_time_s, steps=settings.plan_steps)


def find_unknown_selectors(workflow: Workflow) -> Iterator[Problem]:
    """Yield the problems of the policies that tasks name as their selectors."""
    problems = (problem for task in workflow.tasks for problem in _selector_problems(task))
    return locate_problems(problems, workflow.document)


def _selector_problems(task: Task) -> Iterator[Problem]:
    job = task.job
    if job is None or not job.selector or job.selector_program:
        return
    what, path = f"selector of task {task.name!r}", ("tasks", task.name, "selector")
    try:
        planned = make_policy(job.selector).needs_plan
    except InvalidInput as error:
        advice = "a program is written with a slash: ./select"
        yield from (
            replace(each, what=f"{what}: {each.what}", advice=each.advice or advice, path=path)
            for each in error.problems
        )
        return
    if planned:
        rule = "it must be a policy that follows no plan, because a single job has none"
        advice = "`weft policies` lists the policies"
        yield Problem(what=f"{what}: {job.selector!r}", rule=rule, advice=advice, path=path)


def refuse_unknown_names(layer: SettingsLayer, document: Document | None = None, *places: Keys) -> None:
    """Raise InvalidInput with the problems that ``find_unknown_names`` yields, if there are any."""
    if problems := list(find_unknown_names(layer, document, *places)):
        raise InvalidInput(problems)


def stated_options(**values: Any) -> SettingsLayer:
    """Return the options that are not None; their names are attributes of ``RunSettings``."""
    return {name: value for name, value in values.items() if value is not None}


_BUDGET_ADVICE = f"use --policy {DEFAULT_POLICY}, or {SHARED_POLICY} for several workflows"


def _refuse_unused(stated: SettingsLayer, policy: str) -> None:
    """Raise InvalidInput if the user states how to plan, and the policy follows no plan.

    What workflows and profiles state is not refused: they are used with several policies.
    """
    names = [name for name in ("planner", "objective", "alpha") if stated.get(name) is not None]
    if names:
        what = f"policy {policy!r} follows no plan, so it does not use the {' and the '.join(names)}"
        rule = "--planner, --objective and --alpha need a policy that follows plans"
        raise InvalidInput(what, rule=rule, advice="use --policy plan, or omit them")


def _requires_plan(settings: RunSettings) -> bool:
    limited = (settings.deadline_s, settings.max_cost) != (None, None)
    return limited or settings.replans or settings.objective != "makespan" or settings.planner is not None


def load_request(
    workflow: Workflow | str | Path | Request,
    *,
    on: Platform | str | Path,
    params: Mapping[str, Any] | None = None,
    pinned: Mapping[str, str] | None = None,
    predictor: Predictor | None = None,
    predictions: PredictionFiles = (),
) -> Request:
    """Load and compile one workflow; a request is returned unchanged.

    ``predictor`` has precedence over files of ``predictions``, and these over the estimates in the workflow.
    """
    if isinstance(workflow, Request):
        return workflow
    loaded = workflow if isinstance(workflow, Workflow) else read_workflow_file(workflow)
    loaded = add_predictions(loaded, predictions)
    platform = on if isinstance(on, Platform) else load_platform(on)
    graph = check_and_unfold(set_params(bind_services(loaded, platform), params or {}))
    chain = None if predictor is None else chain_for(graph.workflow, platform, predictor)
    started = time.perf_counter()
    instance = compile_graph(graph, platform, predictor=chain, pinned=pinned)
    took_s = time.perf_counter() - started
    _log.info("compiled %s: %d tasks in %.3f s", graph.workflow.name, len(graph), took_s)
    instances = {graph.workflow.name: instance}
    return Request(platform=platform, instances=instances, predictor=chain, compile_s=took_s)


def compile_graph(graph: TaskGraph, platform: Platform, **how: Any) -> Instance:
    """Compile a task graph for a platform.

    If a task fits no machine and the workflow's file describes machines itself, the message of Infeasible
    suggests to use these machines.

    ``how``: further arguments of ``compile_instance``.
    """
    try:
        return compile_instance(graph, platform, **how)
    except Infeasible as error:
        document = graph.workflow.document
        file = None if document is None else document.file
        if file is None or not describes_machines(file):
            raise
        raise Infeasible(f"{error}; {file} describes machines: use --on {file}") from None


def compile_request(
    workflows: Mapping[str, Workflow],
    platform: Platform,
    folders: Mapping[str, str] | None = None,
    *,
    will_run: bool = False,
) -> Request:
    """Check, unfold and compile workflows for a platform.

    ``will_run``: also check what only a run needs, such as the program of every task. Raises InvalidInput
    with all problems; Infeasible names the workflow that cannot run on the platform.
    """
    problems: list[Problem] = []
    graphs: dict[str, TaskGraph] = {}
    for key, flow in workflows.items():
        with collect_problems(problems):
            graphs[key] = check_and_unfold(bind_services(flow, platform))
    if will_run:
        from weft.api.file_names import check_runnable  # loads backends, which planning does not need

        with collect_problems(problems):
            check_runnable(graphs.values(), platform)
    instances = {}
    for key, graph in graphs.items():
        try:
            with collect_problems(problems):
                instances[key] = compile_graph(graph, platform)
                _log.info("compiled %s: %d tasks", key, len(graph))
        except Infeasible as error:
            if problems:
                break
            raise Infeasible(f"{key}: {error}") from None
    if problems:
        raise InvalidInput(problems)
    return Request(platform=platform, instances=instances, folders=folders or {})


def select_until(workflow: Workflow, names: Sequence[str]) -> Workflow:
    """Return a workflow with only the named tasks and all their ancestors.

    If ``names`` is empty, the workflow is returned unchanged. Loops and sweeps are kept or removed as a
    whole. The whole workflow is unfolded to find the ancestors. The compilation unfolds the selected part
    again, because a journal stores this part and numbers its tasks.
    """
    if not names:
        return workflow
    described = {task.name for task in workflow.tasks}
    for name in names:
        if name not in described:
            _refuse_part(name, described)
            near = nearest(name, described)
            advice = f"did you mean {near!r}?" if near else f"tasks: {', '.join(sorted(described))}"
            raise InvalidInput(f"no task {name!r} in {workflow.name!r}", advice=advice)
    needed = _needed_tasks(workflow, set(names))
    return replace(
        workflow,
        tasks=tuple(task for task in workflow.tasks if task.name in needed),
        loops=tuple(loop for loop in workflow.loops if {loop.first, loop.last} <= needed),
    )


def _refuse_part(name: str, described: set[str]) -> None:
    """Raise InvalidInput if a name is a point of a sweep (``a[3]``) or an iteration of a loop (``a#2``)."""
    for sign, word in (("[", "one point of a sweep"), ("#", "one iteration of a loop")):
        whole = name.partition(sign)[0]
        if sign in name and whole in described:
            rule = "--until selects whole tasks"
            raise InvalidInput(f"{name!r} is {word}", rule=rule, advice=f"name the task: {whole!r}")


def _needed_tasks(workflow: Workflow, wanted: set[str]) -> set[str]:
    graph = check_and_unfold(workflow)
    bodies = [{graph.description(int(task)).name for task in body.tasks} for body in graph.loops]
    before: dict[str, set[str]] = {}
    for task in range(len(graph)):
        names = {graph.description(int(each)).name for each in graph.predecessors(task)}
        before.setdefault(graph.description(task).name, set()).update(names)
    needed: set[str] = set()
    todo = list(wanted)
    while todo:
        if (name := todo.pop()) in needed:
            continue
        needed.add(name)
        todo += before.get(name, ())
        todo += [member for body in bodies if name in body for member in body]
    return needed


@runtime_checkable
class Buildable(Protocol):
    """An object that builds a workflow, such as a Builder."""

    def build(self) -> Workflow:
        """Build the workflow."""


@runtime_checkable
class _BuiltInProject(Protocol):
    """An object that builds a workflow and its files, such as a function call."""

    def build_in(self, layout: ProjectLayout, isolate: Isolation | None = None) -> Workflow:
        """Build the workflow and write its files into the project; ``isolate``: isolation of the run."""


WorkflowSource = Workflow | Buildable | _BuiltInProject | str | Path
"""A workflow, an object that builds one, or a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The submission of one workflow: its key, time, owner, priority and folder for outputs."""

    key: str
    at_s: float = 0.0
    owner: str = ""
    priority: float = 1.0
    results: str = ""
    """Folder for the outputs, relative to the project; "": the folder of the workflow."""
    origin: str = ""
    """File of the workflow, relative to the project; several submissions may have the same origin."""


@dataclass(frozen=True, slots=True)
class LoadedWorkflows:
    """Workflows, and their folders and files relative to the project; all three by the same keys."""

    flows: dict[str, Workflow]
    folders: dict[str, str]
    origins: dict[str, str]


def apply_params(flows: Mapping[str, Workflow], params: Mapping[str, Any]) -> dict[str, Workflow]:
    """Return workflows with changed parameters; a workflow ignores parameters that only others have.

    Raises InvalidInput for a parameter that no workflow has.
    """
    known = dict.fromkeys(name for flow in flows.values() for name in flow.params)
    for name in params:
        if len(flows) > 1 and name not in known:
            advice = suggest(name, known, f"their parameters: {', '.join(list(known)[:20]) or 'none'}")
            raise InvalidInput(f"no workflow of this run has a parameter {name!r}", advice=advice)
    return {
        key: set_params(
            flow,
            {name: value for name, value in params.items() if len(flows) == 1 or name in flow.params},
        )
        for key, flow in flows.items()
    }


def load_workflows(
    workflows: WorkflowSource | Sequence[WorkflowSource],
    layout: ProjectLayout,
    format_name: str | None,
    isolate: Isolation | None = None,
    predictions: PredictionFiles = (),
) -> LoadedWorkflows:
    """Load or build workflows; the keys are their names, with a number added to a repeated name.

    ``isolate``: isolation of the run, for sources that write files when they build their workflow.
    """
    sources = (
        list(workflows) if isinstance(workflows, Sequence) and not isinstance(workflows, str) else [workflows]
    )
    found = LoadedWorkflows({}, {}, {})
    for source in sources:
        flow = add_predictions(_load_source(source, layout, format_name, isolate), predictions)
        key = unique_key(flow.name, found.flows)
        found.flows[key] = flow
        is_file = isinstance(source, str | Path) and str(source) != STDIN
        found.folders[key] = _workflow_folder(layout, str(source)) if is_file else "."
        # Two function calls never write the same output files, so their origins differ.
        name = key if isinstance(source, _BuiltInProject) else flow.name
        found.origins[key] = f"{found.folders[key]}/{Path(str(source)).name if is_file else name}"
    return found


def prepare_flows(
    flows: Mapping[str, Workflow], params: Mapping[str, Any], until: Sequence[str]
) -> dict[str, Workflow]:
    """Return workflows for a run: set parameters, keep the tasks that ``until`` needs, check file names."""
    from weft.api.file_names import check_file_names  # loads backends, which planning does not need

    prepared = {
        key: select_until(replace_unwritable_names(flow), until)
        for key, flow in apply_params(flows, params).items()
    }
    for flow in prepared.values():
        check_file_names(flow)
    return prepared


def _load_source(
    source: Any, layout: ProjectLayout, format_name: str | None, isolate: Isolation | None
) -> Workflow:
    if isinstance(source, Workflow):
        return source
    if isinstance(source, _BuiltInProject):
        return source.build_in(layout, isolate)
    if isinstance(source, Buildable):
        return source.build()
    if isinstance(source, str | Path):
        return read_workflow_file(source, format_name=format_name)
    what = f"{type(source).__name__} cannot be run"
    raise InvalidInput(what, rule="must be a workflow, a Builder, a task call or a file name")


def unique_key(name: str, taken: Mapping[str, object]) -> str:
    """Return ``name``, or ``name (2)``, ``name (3)``, ...: the first that is not in ``taken``."""
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _workflow_folder(layout: ProjectLayout, source: str) -> str:
    """Return the folder of a workflow file, relative to the project; raise InvalidInput if it is outside."""
    folder = Path(source).resolve().parent
    if not folder.is_relative_to(layout.project):
        raise InvalidInput(
            f"{source!r} is outside the project {str(layout.project)!r}",
            rule="weft accesses only those files outside the project that a workflow names",
            advice=f"run it in its own project: --project {folder}",
        )
    return str(folder.relative_to(layout.project))


def load_arrivals(
    file: str | Path | None, layout: ProjectLayout, seed: int, params: Mapping[str, Any]
) -> tuple[list[Submission], LoadedWorkflows]:
    """Return the submissions drawn from the arrivals of a scenario file, and the submitted workflows.

    ``params`` replace the values of parameters that the arrivals state.
    """
    if file is None:
        return [], LoadedWorkflows({}, {}, {})
    from weft.backends.simulation.scenario import draw_arrivals
    from weft.backends.simulation.scenario_reader import load_overridden_arrivals, load_scenario

    scenario, flows = load_overridden_arrivals(load_scenario(file), params)
    if not scenario.arrivals:
        raise InvalidInput(
            f"{str(file)!r} has no 'arrivals'",
            rule="a run takes only the arrivals from a scenario",
            advice="state arrivals in the file, or simulate the other keys: weft simulate --scenario FILE",
        )
    found = LoadedWorkflows(flows, {}, {})
    submitted = []
    for each in draw_arrivals(scenario, generator(seed, "arrivals")):
        path = Path(scenario.folder, each.workflow)
        if each.key not in found.folders:
            found.folders[each.key] = _workflow_folder(layout, str(path))
            found.origins[each.key] = f"{found.folders[each.key]}/{path.name}"
        submitted.append(
            Submission(
                key=each.key,
                at_s=each.at_s,
                owner=each.owner or found.flows[each.key].owner or "",
                priority=each.priority,
                results=each.results or "",
                origin=found.origins[each.key],
            )
        )
    return submitted, found


RESULTS_FOLDER = "results"
"""Folder, relative to the project, for the outputs of a workflow that is submitted several times."""


def separate_results(submissions: Sequence[Submission]) -> list[Submission]:
    """Return submissions whose outputs do not overwrite each other.

    If several submissions of one file have the same folder for results, each gets a subfolder, numbered in
    the order of submission: ``results/gee-1``, ``results/gee-2``, ... If they state no folder, the subfolders
    are in ``results``.
    """
    groups = Counter((each.origin, each.results) for each in submissions)
    numbers = Counter[tuple[str, str]]()
    found = []
    for each in submissions:
        group = each.origin, each.results
        if groups[group] > 1:
            numbers[group] += 1
            base = each.results.rstrip("/") or RESULTS_FOLDER
            each = replace(each, results=f"{base}/{Path(each.origin).stem}-{numbers[group]}")
        found.append(each)
    return found


def load_machines(on: Platform | str | Path, most_nodes: int | None) -> Platform:
    """Load a platform; ``most_nodes`` limits the nodes of every machine."""
    platform = on if isinstance(on, Platform) else load_platform(on)
    if most_nodes is None:
        return platform
    if most_nodes < 1:
        raise InvalidInput(f"a limit of {most_nodes} nodes per machine", rule="must be at least 1")
    machines = tuple(replace(each, nodes=min(each.nodes, most_nodes)) for each in platform.machines)
    limited = replace(platform, machines=machines)
    if problems := [problem for problem in limited.find_problems() if problem.path[:1] == ("virtual",)]:
        advice = "allow more nodes, or make the shares smaller"
        what = f"at most {most_nodes} nodes per machine: {problems[0].what}"
        raise InvalidInput(what, rule=problems[0].rule, advice=advice)
    return limited
