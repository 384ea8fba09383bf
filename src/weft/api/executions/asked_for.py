"""What is asked for: the workflows of a run, where their files lie, those that arrive later, the machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from weft.api.executions.foreseeing import refuse_astray_names
from weft.api.executions.until import only_until
from weft.backends.layout import Layout
from weft.errors import InvalidInput, Problem
from weft.formats.files import STDIN, load_platform, read_workflow_file
from weft.formats.plain_names import plainly_named
from weft.platform.platform import Platform
from weft.randomness import generator
from weft.simulation.arrivals import arrivals_of
from weft.simulation.reading.files import load_arriving, load_scenario
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.parameters import with_params

__all__ = ["Arrivals", "AskedFor", "Buildable", "Source", "arriving", "asked_for", "machines_of"]


@runtime_checkable
class Buildable(Protocol):
    """What a workflow is made from, such as a Builder."""

    def build(self) -> Workflow:
        """Make the workflow."""


@runtime_checkable
class _BuiltInProject(Protocol):
    """What a workflow is made from that has files of its own, such as the call of a function."""

    def build_in(self, layout: Layout) -> Workflow:
        """Make the workflow, and its files in the project."""


Source = Workflow | Buildable | _BuiltInProject | str | Path
"""A workflow, what one is made from, or a file."""

Arrivals = list[tuple[float, str, str]]
"""When a workflow arrives, its key, its owner."""


@dataclass(frozen=True, slots=True)
class AskedFor:
    """Workflows by key, and the folder of each, from the project."""

    flows: dict[str, Workflow]
    folders: dict[str, str]


def asked_for(
    workflows: Source | Sequence[Source],
    layout: Layout,
    params: Mapping[str, Any],
    format_name: str | None,
    until: Sequence[str],
) -> AskedFor:
    """Load the workflows that are to be run now, by name; the second of one name gets a number."""
    sources = (
        list(workflows) if isinstance(workflows, Sequence) and not isinstance(workflows, str) else [workflows]
    )
    found = AskedFor({}, {})
    for source in sources:
        loaded = _loaded(source, layout, format_name)
        flow = only_until(plainly_named(with_params(loaded, params)), until)
        refuse_astray_names(flow)
        key = _free(flow.name, found.flows)
        found.flows[key] = flow
        is_file = isinstance(source, str | Path) and str(source) != STDIN
        found.folders[key] = _folder(layout, str(source)) if is_file else "."
    return found


def _loaded(source: Any, layout: Layout, format_name: str | None) -> Workflow:
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


def _free(name: str, taken: Mapping[str, object]) -> str:
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _folder(layout: Layout, source: str) -> str:
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


def arriving(file: str | Path | None, layout: Layout, seed: int) -> tuple[Arrivals, AskedFor]:
    """Load the workflows that arrive later, and when."""
    if file is None:
        return [], AskedFor({}, {})
    scenario = load_scenario(file)
    flows = {key: plainly_named(flow) for key, flow in load_arriving(scenario).items()}
    for flow in flows.values():
        refuse_astray_names(flow)
    drawn = arrivals_of(scenario, generator(seed, "arrivals"))
    folder = _folder(layout, str(file))
    return (
        [(each.at_s, each.workflow, each.owner or "") for each in drawn],
        AskedFor(flows, dict.fromkeys(flows, folder)),
    )


def machines_of(on: Platform | str | Path, most_nodes: int | None) -> Platform:
    """Load a platform; ``most_nodes`` limits the nodes of every machine."""
    platform = on if isinstance(on, Platform) else load_platform(on)
    if most_nodes is None:
        return platform
    if most_nodes < 1:
        raise InvalidInput(Problem(what=f"at most {most_nodes} nodes", rule="must be at least 1"))
    machines = tuple(replace(each, nodes=min(each.nodes, most_nodes)) for each in platform.machines)
    return replace(platform, machines=machines)
