"""Until: the part of a workflow that some of its tasks need, and nothing after them.

Foreseeing: what would go wrong when a workflow is run here, and can be said before anything is.

Only tasks with a program are looked at: a workflow that is planned or simulated may name its files as it
likes. Names are judged as far as they are known by now; the rest is judged when a task begins.

What is asked for: the workflows of a run, where their files lie, those that arrive later, the machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from weft.backends.attempt.external_files import file_url_path, is_url
from weft.backends.attempt.inputs import ProducerIndex
from weft.backends.attempt.safe_paths import StagingProblem, quote_name, split_name
from weft.backends.layout import ProjectLayout
from weft.backends.simulation.scenario import draw_arrivals
from weft.backends.simulation.scenario_reader import load_arrival_workflows, load_scenario
from weft.documents import locate_problems
from weft.errors import DocumentPath as Keys
from weft.errors import InvalidInput, Problem, nearest
from weft.formats.files import STDIN, load_platform, read_workflow_file
from weft.formats.native import replace_unwritable_names
from weft.platform.platform import Platform
from weft.randomness import generator
from weft.workflow.checks import check_and_unfold
from weft.workflow.task import Input, Task
from weft.workflow.task_graph import TaskGraph
from weft.workflow.templates import fill_template, list_fields, split_template
from weft.workflow.workflow import Workflow, set_params

__all__ = [
    "Arrivals",
    "Buildable",
    "LoadedWorkflows",
    "WorkflowSource",
    "check_file_names",
    "find_missing_inputs",
    "load_arrivals",
    "load_machines",
    "load_workflows",
    "select_until",
]


def select_until(workflow: Workflow, names: Sequence[str]) -> Workflow:
    """Keep the tasks of these names and what they need; without names all of them.

    A loop stays if its body is needed; what is needed of a sweep is all of it.
    """
    if not names:
        return workflow
    described = {task.name for task in workflow.tasks}
    for name in names:
        if name not in described:
            _refuse_part(name, described)
            near = nearest(name, described)
            advice = f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(described))}"
            raise InvalidInput(Problem(what=f"no task {name!r} in {workflow.name!r}", advice=advice))
    needed = _needed_tasks(workflow, set(names))
    return replace(
        workflow,
        tasks=tuple(task for task in workflow.tasks if task.name in needed),
        loops=tuple(loop for loop in workflow.loops if {loop.first, loop.last} <= needed),
    )


def _refuse_part(name: str, described: set[str]) -> None:
    """Refuse one point of a sweep, or one iteration of a loop: what is described is run as a whole."""
    for sign, word in (("[", "one point of a sweep"), ("#", "one iteration of a loop")):
        whole = name.partition(sign)[0]
        if sign in name and whole in described:
            rule = "what is run of a task is all of it"
            raise InvalidInput(
                Problem(what=f"{name!r} is {word}", rule=rule, advice=f"name the task: {whole!r}")
            )


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
        name = todo.pop()
        if name in needed:
            continue
        needed.add(name)
        todo += before.get(name, ())
        todo += [member for body in bodies if name in body for member in body]
    return needed


_OUTPUT_ADVICE = "name it as it lies in the task's own directory; `to:` says where it goes"
_INPUT_ADVICE = "name it as it shall lie in the task's own directory; `from:` says where it lies now"


def check_file_names(workflow: Workflow) -> None:
    """Refuse names of inputs and outputs that lead out of the directories in which tasks work."""
    found = [problem for task in workflow.tasks if task.job is not None for problem in _name_problems(task)]
    if found:
        raise InvalidInput(list(locate_problems(found, workflow.document)))


def _name_problems(task: Task) -> Iterator[Problem]:
    for position, given in enumerate(task.inputs):
        yield from _path_problems(given.file, _input_keys(task, given, position), _INPUT_ADVICE)
    for output in task.outputs:
        yield from _path_problems(output.file, ("tasks", task.name, "outputs"), _OUTPUT_ADVICE)


def _path_problems(name: str, keys: Keys, advice: str) -> Iterator[Problem]:
    try:
        # What is filled in later stands for any plain word.
        split_name("".join(piece if isinstance(piece, str) else "x" for piece in split_template(name)))
    except StagingProblem as problem:
        yield Problem(what=f"{quote_name(name)} {problem.what}", rule=problem.why, advice=advice, path=keys)


def find_missing_inputs(graph: TaskGraph, folder: Path) -> list[Problem]:
    """List the files of this computer that tasks read, that no task makes, and that do not exist by now.

    ``folder`` is that of the workflow. Of what one entry stands for, the first file that is absent is named.
    """
    makers, found, judged = ProducerIndex(graph), list[Problem](), set[Keys]()
    tasks = graph.workflow.tasks
    for task, template in enumerate(graph.template.tolist()):
        described = tasks[template]
        for position, given in enumerate(described.inputs if described.job is not None else ()):
            keys = _input_keys(described, given, position)
            text = given.source or given.file
            if keys in judged or _is_read_later(described, text):
                continue
            if "{" not in text:
                judged.add(keys)  # it is the same for every point of a sweep
            name = fill_template(text, graph.context(task), last=False)
            if (given.source is None and makers.of(name)) or _may_exist(name, folder):
                continue
            judged.add(keys)
            what = f"{quote_name(fill_template(name, {}))} does not exist, and no task makes it"
            found.append(Problem(what=what, advice="it must be there when the task begins", path=keys))
    return list(locate_problems(found, graph.workflow.document))


def _is_read_later(task: Task, text: str) -> bool:
    """Say whether a name speaks of lines that another task has yet to write."""
    said = task.sweep.from_file if task.sweep is not None else ()
    return any(field.name in said for field in list_fields(text))


def _may_exist(name: str, folder: Path) -> bool:
    """Say whether a file exists, or cannot be looked for: it lies elsewhere, or its name is not known yet."""
    if list_fields(name):
        return True
    try:
        stated = file_url_path(name) if is_url(name) else fill_template(name, {})
        return stated is None or (folder / stated).exists()
    except (StagingProblem, OSError, ValueError):
        return False


def _input_keys(task: Task, given: Input, position: int) -> Keys:
    return ("tasks", task.name, "inputs", position if given.entry is None else given.entry)


@runtime_checkable
class Buildable(Protocol):
    """What a workflow is made from, such as a Builder."""

    def build(self) -> Workflow:
        """Make the workflow."""


@runtime_checkable
class _BuiltInProject(Protocol):
    """What a workflow is made from that has files of its own, such as the call of a function."""

    def build_in(self, layout: ProjectLayout) -> Workflow:
        """Make the workflow, and its files in the project."""


WorkflowSource = Workflow | Buildable | _BuiltInProject | str | Path
"""A workflow, what one is made from, or a file."""

Arrivals = list[tuple[float, str, str]]
"""When a workflow arrives, its key, its owner."""


@dataclass(frozen=True, slots=True)
class LoadedWorkflows:
    """Workflows by key, and the folder of each, from the project."""

    flows: dict[str, Workflow]
    folders: dict[str, str]


def load_workflows(
    workflows: WorkflowSource | Sequence[WorkflowSource],
    layout: ProjectLayout,
    params: Mapping[str, Any],
    format_name: str | None,
    until: Sequence[str],
) -> LoadedWorkflows:
    """Load the workflows that are to be run now, by name; the second of one name gets a number."""
    sources = (
        list(workflows) if isinstance(workflows, Sequence) and not isinstance(workflows, str) else [workflows]
    )
    found = LoadedWorkflows({}, {})
    for source in sources:
        loaded = _load_source(source, layout, format_name)
        flow = select_until(replace_unwritable_names(set_params(loaded, params)), until)
        check_file_names(flow)
        key = _unique_key(flow.name, found.flows)
        found.flows[key] = flow
        is_file = isinstance(source, str | Path) and str(source) != STDIN
        found.folders[key] = _workflow_folder(layout, str(source)) if is_file else "."
    return found


def _load_source(source: Any, layout: ProjectLayout, format_name: str | None) -> Workflow:
    if isinstance(source, Workflow):
        return source
    if isinstance(source, _BuiltInProject):
        return source.build_in(layout)
    if isinstance(source, Buildable):
        return source.build()
    if isinstance(source, str | Path):
        return read_workflow_file(source, format_name=format_name)
    what = f"{type(source).__name__} cannot be run"
    raise InvalidInput(Problem(what=what, rule="a workflow, a Builder, the call of a task, or a file's name"))


def _unique_key(name: str, taken: Mapping[str, object]) -> str:
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _workflow_folder(layout: ProjectLayout, source: str) -> str:
    """Give the folder of a workflow file, from the project."""
    folder = Path(source).resolve().parent
    if not folder.is_relative_to(layout.project):
        raise InvalidInput(
            Problem(
                what=f"{source!r} does not lie in the project {str(layout.project)!r}",
                rule="weft reads and writes nothing outside the project but what a workflow names",
                advice=f"run it in its own project: --project {folder}",
            )
        )
    return str(folder.relative_to(layout.project))


def load_arrivals(
    file: str | Path | None, layout: ProjectLayout, seed: int
) -> tuple[Arrivals, LoadedWorkflows]:
    """Load the workflows that arrive later, and when."""
    if file is None:
        return [], LoadedWorkflows({}, {})
    scenario = load_scenario(file)
    flows = {key: replace_unwritable_names(flow) for key, flow in load_arrival_workflows(scenario).items()}
    for flow in flows.values():
        check_file_names(flow)
    drawn = draw_arrivals(scenario, generator(seed, "arrivals"))
    folder = _workflow_folder(layout, str(file))
    return (
        [(each.at_s, each.workflow, each.owner or "") for each in drawn],
        LoadedWorkflows(flows, dict.fromkeys(flows, folder)),
    )


def load_machines(on: Platform | str | Path, most_nodes: int | None) -> Platform:
    """Load a platform; ``most_nodes`` limits the nodes of every machine."""
    platform = on if isinstance(on, Platform) else load_platform(on)
    if most_nodes is None:
        return platform
    if most_nodes < 1:
        raise InvalidInput(Problem(what=f"at most {most_nodes} nodes", rule="must be at least 1"))
    machines = tuple(replace(each, nodes=min(each.nodes, most_nodes)) for each in platform.machines)
    return replace(platform, machines=machines)
