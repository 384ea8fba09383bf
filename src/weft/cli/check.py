"""``weft check``: report all problems of a file."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.units import format_count
from weft.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.errors import Problem
    from weft.formats.format import SourceFile
    from weft.platform.platform import Platform
    from weft.workflow.task import Task
    from weft.workflow.task_graph import TaskGraph
    from weft.workflow.workflow import Workflow


_TASKS_KEY = re.compile(r"^tasks\s*:", re.MULTILINE)
_SERVICES_KEY = re.compile(r"^services\s*:", re.MULTILINE)
_RUN_FORMATS = ("weft", "gridway", "dagman")
"""Formats whose missing inputs are noted; inputs in other formats often name files of another site."""
_PREDICTIONS_KEY = re.compile(r"^predictions\s*:", re.MULTILINE)
_GRID_KEY = re.compile(r"^grid\s*:", re.MULTILINE)


@click.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=str), metavar="FILE...")
@click.option(
    "--on",
    "platform",
    metavar="PLATFORM",
    help="Also check that tasks can run on this platform and that scenarios name its machines.",
)
@click.option("-v", "--verbose", is_flag=True, expose_value=False, help="Print all problems, not only 30.")
@options.as_json
def command(files: tuple[str, ...], platform: str | None, as_json: bool) -> None:
    """Report all problems of files: workflow, platform, scenario, profile, grid, services, predictions.

    Problems include what `weft run` would reject: file names outside the task directory, URLs of an unknown
    kind, programs to copy that do not exist, and invalid settings of local machines, such as a sandbox that
    can never be created. Input files that do not exist and that no task produces are only noted; so are URLs
    with a password, a token or a signature. Without --on, names in `requirements` and `rank` that only
    machines can state are noted. With --on, it is a problem if the planner named in the settings cannot plan
    the workflow on that platform. If the machines of the platform have a backend, tasks without a program,
    transfers of files that no task writes, and tasks that cannot be isolated are problems, too. Exit code 0:
    no problems; 2: problems, each with position, value, rule and advice; 3: with --on, some task can run on
    no machine.
    """
    from weft.formats.files import load_platform

    records, findings, machines = [], _Findings(), None
    if platform is not None:
        with findings.collect(platform, is_read=False):
            machines = _check_machines(load_platform(platform))
    for name in files:
        with findings.collect(name, is_read=False):
            records.append(_check_file(name, machines, findings))
    findings.refuse()
    if as_json:
        options.print_json({"problems": [], "files": records})
        return
    for record in records:
        click.echo(f"{record['file']}: {record['summary']}")
        for note in record.get("notes", ()):
            click.echo(f"note: {note}")


class _Findings:
    """The problems of all groups of checks; a group that raises an error does not prevent the next one."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.impossible: list[Problem] = []
        """Tasks that no machine can run."""

    @contextmanager
    def collect(self, file: str, *, is_read: bool = True) -> Iterator[None]:
        """Context manager that keeps the problems of InvalidInput and Infeasible.

        ``file`` is added to problems without a location. If ``is_read`` is false, the file may not exist, and
        it is added only to tasks that no machine can run.
        """
        from weft.errors import Infeasible, InvalidInput, Problem, SourceLocation

        where = SourceLocation(file=file)
        try:
            yield
        except InvalidInput as error:
            for each in error.problems:
                problem = replace(each, location=each.location or where) if is_read else each
                if problem not in self.problems:
                    self.problems.append(problem)
        except Infeasible as error:
            self.impossible.append(Problem(what=str(error), location=where))

    def refuse(self) -> None:
        """Raise InvalidInput or Infeasible with all problems, if there are any."""
        from weft.errors import Infeasible, InvalidInput

        if self.problems:
            raise InvalidInput(self.problems + self.impossible)
        if self.impossible:
            raise Infeasible("\n".join(str(problem) for problem in self.impossible))


def _check_machines(platform: Platform) -> Platform:
    """Return the platform unchanged; raise InvalidInput if some of its machines cannot be used."""
    from weft.api.project import find_project
    from weft.backends import BACKENDS
    from weft.backends.layout import check_sandboxes, refuse_wrong_sandboxes

    findings = _Findings()
    findings.problems += platform.find_unknown_backends(BACKENDS)
    kinds = {str(machine.backend["kind"]) for machine in platform.machines if "kind" in machine.backend}
    for kind in sorted(kind for kind in kinds if kind in BACKENDS):
        machines = [each for each in platform.machines if each.backend.get("kind") == kind]
        with findings.collect("", is_read=False):
            BACKENDS.load(kind).check_machines(machines)
        if any(each.backend.get("sandbox") for each in machines):
            with findings.collect("", is_read=False):
                check_sandboxes(find_project(), machines)
                refuse_wrong_sandboxes(find_project(), machines)
    findings.refuse()
    return platform


def _note_sharing(platform: Platform) -> list[str]:
    """Return a note about each time-shared machine of a platform."""
    return [
        f"machine {machine.name!r} is time-shared: no task waits for a node; programs that together use more "
        f"than {format_count(machine.nodes, 'node')} slow each other down"
        for machine in platform.machines
        if machine.is_time_shared
    ]


def _machine_names(platform: Platform | None) -> list[str] | None:
    """Return the names of machines and hosts to which predictions may refer; None without a platform."""
    from weft.platform.platform import planned_machines

    if platform is None:
        return None
    return [name for each in planned_machines(platform) for name in (each.name, each.host_name)]


def _check_file(name: str, machines: Platform | None, findings: _Findings) -> dict[str, Any]:
    """Return the summary record of a file without problems; problems are added to ``findings`` or raised."""
    from weft.api.file_names import check_file_names, check_result_references, find_open_secrets
    from weft.formats.files import detect_format, open_source
    from weft.formats.native import WeftYaml, describes_platform, read_platform_file
    from weft.formats.services import bind_services
    from weft.instance.preferences import note_unchecked_names
    from weft.predictions import note_unused
    from weft.workflow.checks import check_and_unfold

    source = open_source(name)
    if source.data.strip() and describes_platform(source):
        found = _check_machines(read_platform_file(source))
        nodes = sum(machine.nodes for machine in found.machines)
        count = format_count(len(found.machines), "machine")
        summary = f"a platform of {count}, {format_count(nodes, 'node')}; no problems found"
        notes = [*_note_sharing(found), *note_unused(found.predictions, None, _machine_names(found))]
        return {"file": name, "kind": "platform", "summary": summary, "notes": notes}
    if (scenario := _check_scenario(source, machines, findings)) is not None:
        return scenario
    if (profile := _check_profile(source)) is not None:
        return profile
    if (other := _check_grid(source) or _check_services(source)) is not None:
        return other
    if (predictions := _check_predictions(source, machines)) is not None:
        return predictions
    reader = detect_format(source)
    workflow = reader.read(source)
    before = len(findings.problems)
    _check_settings(workflow, name, findings)
    has_valid_settings = len(findings.problems) == before
    graph = check_and_unfold(workflow if machines is None else bind_services(workflow, machines))
    with findings.collect(name):
        _check_programs(graph, name)
    if reader.name == WeftYaml.name:
        with findings.collect(name):
            check_file_names(graph.workflow)
        with findings.collect(name):
            check_result_references(graph)
    notes = list[str]()
    with findings.collect(name):
        notes += _check_inputs(graph, name, noted=reader.name in _RUN_FORMATS)
    notes += map(str, find_open_secrets(graph.workflow))
    notes += note_unused(
        graph.workflow.predictions, [task.name for task in graph.workflow.tasks], _machine_names(machines)
    )
    summary = (
        f"{format_count(len(graph), 'task')}, {format_count(graph.edge_count, 'edge')} "
        f"({reader.name}); no problems found"
    )
    if machines is not None:
        notes += _check_on(graph, name, machines, findings, has_valid_settings=has_valid_settings)
        summary += f"; every task can run on {machines.name}"
    else:
        notes += note_unchecked_names(graph.workflow)
    return {
        "file": name,
        "kind": "workflow",
        "format": reader.name,
        "tasks": len(graph),
        "edges": graph.edge_count,
        "summary": summary,
        "notes": notes,
    }


def _check_on(
    graph: TaskGraph, name: str, machines: Platform, findings: _Findings, *, has_valid_settings: bool
) -> list[str]:
    """Check that a workflow can be planned and run on a platform; return notes."""
    from weft.api.file_names import check_runnable
    from weft.api.request import Request, compile_graph
    from weft.backends.attempt.isolation import check_isolation
    from weft.instance.preferences import note_unstated_attributes
    from weft.workflow.settings import SettingsLayers

    notes = list[str]()
    if all("kind" in machine.backend for machine in machines.machines):
        with findings.collect(name):
            check_runnable([graph], machines)
        with findings.collect(name):
            check_isolation([graph.workflow])
    with findings.collect(name):
        instance = compile_graph(graph, machines)
        notes += note_unstated_attributes(graph, instance.machines)
        if graph.workflow.settings and has_valid_settings:
            request = Request(platform=machines, instances={graph.workflow.name: instance})
            request.choose_planning(SettingsLayers())
    return notes


def _check_grid(source: SourceFile) -> dict[str, object] | None:
    """Check a tuning grid and return its summary record; None if the file is not a tuning grid."""
    from weft.formats.native import WeftYaml
    from weft.formats.yaml_document import parse_document

    if not WeftYaml().recognises(source) or not _GRID_KEY.search(source.head):
        return None
    from weft.planners.tuning import find_tuned_planners, read_grid

    grid = read_grid(parse_document(source.text(), source.name))
    planners = find_tuned_planners(grid)
    summary = (
        f"a tuning grid of {format_count(grid.count, 'experiment')} "
        f"for {', '.join(planners)}; no problems found"
    )
    return {"file": source.name, "kind": "grid", "summary": summary}


def _check_settings(workflow: Workflow, origin: str, findings: _Findings) -> None:
    """Collect the problems of the settings of a workflow and of the selectors of its tasks."""
    from weft.workflow.settings import DEFAULTS

    with findings.collect(origin):
        _check_selectors(workflow)
    if workflow.settings:
        from weft.api.request import check_values, refuse_unknown_names

        with findings.collect(origin):
            refuse_unknown_names(workflow.settings, workflow.document, ("settings",))
            check_values(DEFAULTS.with_layers(workflow.settings))


def _check_selectors(workflow: Workflow) -> None:
    """Raise InvalidInput if a task's selector is a policy that is unknown or needs a plan."""
    if not any(task.job is not None and task.job.selector for task in workflow.tasks):
        return
    from weft.api.request import find_unknown_selectors
    from weft.errors import InvalidInput

    if problems := list(find_unknown_selectors(workflow)):
        raise InvalidInput(problems)


def _check_services(source: SourceFile) -> dict[str, object] | None:
    """Check a file with programs of services and return its summary record; None for any other file."""
    from weft.formats.native import WeftYaml

    if (
        not WeftYaml().recognises(source)
        or _TASKS_KEY.search(source.text())
        or not _SERVICES_KEY.search(source.head)
    ):
        return None
    from weft.formats.services import read_services

    summary = f"{format_count(len(read_services(source)), 'service')} with programs; no problems found"
    return {"file": source.name, "kind": "services", "summary": summary}


def _check_programs(graph: TaskGraph, name: str) -> None:
    """Raise InvalidInput if an evaluator, selector, checkpoint store or URL of a workflow is unusable."""
    tasks = graph.workflow.tasks
    programs = any(task.job is not None and (task.job.evaluator or task.job.selector) for task in tasks)
    stores = any(task.recovery.checkpoint is not None and task.recovery.checkpoint.url for task in tasks)
    far = any(is_url(text) or "{" in text for task in tasks if task.job is not None for text in _places(task))
    if not programs and not stores and not far:
        return
    from pathlib import Path

    from weft.backends.attempt.modules import check_programs
    from weft.formats.files import STDIN

    check_programs({"": graph.workflow}, {"": Path() if name == STDIN else Path(name).parent})


def _places(task: Task) -> Iterator[str]:
    """Yield the paths or URLs from which a task reads inputs and to which it copies outputs."""
    yield from (given.source or given.file for given in task.inputs)
    yield from (output.target for output in task.outputs if output.target is not None)


def _check_inputs(graph: TaskGraph, name: str, *, noted: bool) -> list[str]:
    """Return notes about missing input files, if ``noted``; raise InvalidInput for files that a run needs."""
    from pathlib import Path

    from weft.api.file_names import check_staged_files, find_missing_inputs
    from weft.formats.files import STDIN

    folder = Path() if name == STDIN else Path(name).parent
    check_staged_files({"": graph}, {"": folder})
    return [str(problem) for problem in find_missing_inputs(graph, folder)] if noted else []


def _check_profile(source: SourceFile) -> dict[str, object] | None:
    """Check a profile and the platform that it names; return its summary record, None for any other file."""
    from weft.api.settings import find_profile
    from weft.formats.native import WeftYaml
    from weft.formats.profiles import load_profile_platform, read_profile
    from weft.formats.yaml_document import parse_document

    if not WeftYaml().recognises(source) or _TASKS_KEY.search(source.head):
        return None
    root = parse_document(source.text(), source.name).root
    if root is None or not isinstance(root.value, dict) or "profile" not in root.value:
        return None
    profile = read_profile(source)
    find_profile(profile)
    load_profile_platform(profile)
    summary = f"a profile of {format_count(len(profile.settings), 'setting')}; no problems found"
    return {"file": source.name, "kind": "profile", "summary": summary}


def _check_predictions(source: SourceFile, machines: Platform | None) -> dict[str, object] | None:
    """Check a file that has only predictions; return its summary record, None for any other file."""
    from weft.formats.native import WeftYaml
    from weft.formats.predictions import is_csv_predictions, read_csv_predictions, read_yaml_predictions
    from weft.predictions import note_unused

    if WeftYaml().recognises(source):
        if not _has_only_predictions(source):
            return None
        rows = read_yaml_predictions(source)
    elif is_csv_predictions(source):
        rows = read_csv_predictions(source)
    else:
        return None
    summary = f"{format_count(len(rows), 'prediction')}; no problems found"
    notes = note_unused(rows, None, _machine_names(machines))
    return {"file": source.name, "kind": "predictions", "summary": summary, "notes": notes}


def _has_only_predictions(source: SourceFile) -> bool:
    """Return whether a YAML file of weft has predictions and nothing else."""
    from weft.formats.yaml_document import parse_document

    if _TASKS_KEY.search(source.head) or not _PREDICTIONS_KEY.search(source.head):
        return False
    root = parse_document(source.text(), source.name).root
    if root is None or not isinstance(root.value, dict):
        return False
    return not root.value.keys() - {"weft", "predictions"}


def _check_scenario(
    source: SourceFile, machines: Platform | None, findings: _Findings
) -> dict[str, object] | None:
    """Check a scenario and the workflows that it names; return its summary record, None for other files."""
    from weft.backends.simulation.scenario_checks import check_scenario, list_submissions
    from weft.backends.simulation.scenario_reader import is_scenario, load_arrival_workflows, read_scenario
    from weft.formats.native import WeftYaml
    from weft.formats.yaml_document import parse_document

    # Workflow files may be large, so do not parse a file that has a key `tasks`.
    if not WeftYaml().recognises(source) or _TASKS_KEY.search(source.head):
        return None
    document = parse_document(source.text(), source.name)
    if not is_scenario(document):
        return None
    scenario = read_scenario(document)
    workflows = load_arrival_workflows(scenario)
    for key, workflow in workflows.items():
        _check_settings(workflow, key, findings)
    files = [file for entry in scenario.arrivals for file, _ in list_submissions(entry)]
    check_scenario(scenario, machines, workflows or None)
    summary = (
        f"a scenario of {format_count(len(files), 'arrival')} of "
        f"{format_count(len(set(files)), 'workflow')}; no problems found"
    )
    return {"file": source.name, "kind": "scenario", "summary": summary}
