"""``weft check``: everything that is wrong with a file, at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.units import counted

if TYPE_CHECKING:
    from weft.formats.format import Source
    from weft.platform.platform import Platform
    from weft.workflow.unfolding.task_graph import TaskGraph

__all__ = ["command"]

_TASKS_KEY = re.compile(r"^tasks\s*:", re.MULTILINE)


@click.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=str), metavar="FILE...")
@click.option(
    "--on",
    "platform",
    metavar="PLATFORM",
    help="Check also that tasks can run on this platform, and that scenarios speak of its machines.",
)
@options.as_json
def command(files: tuple[str, ...], platform: str | None, as_json: bool) -> None:
    """Say everything that is wrong with workflow, platform and scenario files.

    Also what `weft run` would refuse is told: names of files that lead out of a task's directory, and what a
    machine of this computer asks for. Files that no task makes and that do not exist yet are noted. Exit code
    0: nothing; 2: problems, each with its place, the value, the rule and what to do; 3: with --on, some task
    can run on no machine.
    """
    from weft.errors import Infeasible, InvalidInput, Place, Problem
    from weft.formats.files import load_platform

    machines = None if platform is None else _reachable(load_platform(platform))
    records, problems, impossible = [], list[Problem](), list[Problem]()
    for name in files:
        try:
            records.append(_check_file(name, machines))
        except InvalidInput as error:
            problems += error.problems
        except Infeasible as error:
            impossible.append(Problem(what=str(error), place=Place(file=name)))
    if problems:
        raise InvalidInput(problems + impossible)
    if impossible:
        raise Infeasible("\n".join(str(problem) for problem in impossible))
    if as_json:
        options.print_json({"problems": [], "files": records})
        return
    for record in records:
        click.echo(f"{record['file']}: {record['summary']}")
        for note in record.get("notes", ()):
            click.echo(f"note: {note}")


def _reachable(platform: Platform) -> Platform:
    """Give a platform; what `weft run` refuses of machines of this computer is refused here too."""
    from weft.backends.local.stated import refuse_misstated

    refuse_misstated(each for each in platform.machines if each.backend.get("kind") == "local")
    return platform


def _check_file(name: str, machines: Platform | None) -> dict[str, Any]:
    from weft.formats.files import detect, open_source
    from weft.formats.native import WeftYaml, describes_platform, platform_from
    from weft.workflow.checks import checked_graph

    source = open_source(name)
    if source.data.strip() and describes_platform(source):
        found = _reachable(platform_from(source))
        nodes = sum(machine.nodes for machine in found.machines)
        summary = f"a platform of {len(found.machines)} machines, {nodes} nodes; no problems"
        return {"file": name, "kind": "platform", "summary": summary}
    if (scenario := _check_scenario(source, machines)) is not None:
        return scenario
    reader = detect(source)
    graph = checked_graph(reader.read(source))
    notes = _foreseen(graph, name) if reader.name == WeftYaml.name else []
    summary = (
        f"{counted(len(graph), 'task')}, {counted(graph.edge_count, 'edge')} ({reader.name}); no problems"
    )
    if machines is not None:
        from weft.instance.compilation import compile_instance

        compile_instance(graph, machines)
        summary += f"; every task can run on {machines.name}"
    return {
        "file": name,
        "kind": "workflow",
        "format": reader.name,
        "tasks": len(graph),
        "edges": graph.edge_count,
        "summary": summary,
        "notes": notes,
    }


def _foreseen(graph: TaskGraph, name: str) -> list[str]:
    """Refuse what cannot be run, and list what may be missing then; recorded workflows are not run here."""
    from pathlib import Path

    from weft.api.executions.foreseeing import absent_inputs, refuse_astray_names
    from weft.formats.files import STDIN

    refuse_astray_names(graph.workflow)
    folder = Path() if name == STDIN else Path(name).parent
    return [str(problem) for problem in absent_inputs(graph, folder)]


def _check_scenario(source: Source, machines: Platform | None) -> dict[str, object] | None:
    """Check a scenario together with the workflows it names; None: the file is none."""
    from weft.formats.native import WeftYaml
    from weft.formats.yaml_document import parse_document
    from weft.simulation.reading.checks import check_scenario, workflow_keys
    from weft.simulation.reading.files import load_arriving
    from weft.simulation.reading.scenario_reader import describes_scenario, read_scenario

    # Parsed only if need be: workflows may be large.
    if not WeftYaml().recognises(source) or _TASKS_KEY.search(source.head):
        return None
    document = parse_document(source.text(), source.name)
    if not describes_scenario(document):
        return None
    scenario = read_scenario(document)
    workflows = load_arriving(scenario)
    arrivals = sum(1 for entry in scenario.arrivals for _ in workflow_keys(entry))
    check_scenario(scenario, machines, workflows or None)
    summary = (
        f"a scenario of {counted(arrivals, 'arrival')} of {counted(len(workflows), 'workflow')}; no problems"
    )
    return {"file": source.name, "kind": "scenario", "summary": summary}
