"""Scenario files and the workflows they name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weft.documents import placed
from weft.errors import InvalidInput, Place, Problem
from weft.simulation.reading.checks import workflow_keys
from weft.simulation.reading.scenario_reader import read_scenario
from weft.simulation.scenario import Scenario
from weft.workflow.records.workflow import Workflow

__all__ = ["load_arriving", "load_scenario"]


def load_scenario(name: str | Path) -> Scenario:
    """Read a scenario file. The workflows it names are not opened yet."""
    from weft.formats.files import open_source
    from weft.formats.yaml_document import parse_document

    source = open_source(name)
    if not source.data.strip():
        place = Place(file=source.name)
        raise InvalidInput(Problem(what="the file is empty", advice="write a scenario into it", place=place))
    return read_scenario(parse_document(source.text(), source.name))


def load_arriving(scenario: Scenario) -> dict[str, Workflow]:
    """Read and check the workflows that arrive, each file once, under the names the scenario has for them."""
    from weft.formats.files import load_workflow

    found: dict[str, Workflow] = {}
    problems: list[Problem] = []
    tried: set[str] = set()
    for index, entry in enumerate(scenario.arrivals):
        for key in dict.fromkeys(workflow_keys(entry)):
            if key in tried:
                continue
            tried.add(key)
            try:
                found[key] = load_workflow(Path(scenario.folder, key))
            except InvalidInput as error:
                # A problem inside the file knows its place there; that there is none is one of the scenario.
                here = [replace(each, path=each.path or ("arrivals", index)) for each in error.problems]
                problems += placed(here, scenario.document)
    if problems:
        raise InvalidInput(problems)
    return found
