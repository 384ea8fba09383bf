"""Workflows from YAML text for the tests of this package."""

from __future__ import annotations

import textwrap

from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml
from weft.formats.yaml_document import parse_document
from weft.workflow.checks import check_and_unfold, find_problems
from weft.workflow.file_format import read_workflow


def read(text):
    """Return the workflow of a valid text; ``weft: 1`` is added."""
    return WeftYaml().read(SourceFile(name="flow.yaml", data=("weft: 1\n" + textwrap.dedent(text)).encode()))


def read_task(text):
    """Return the only task of a workflow, given the lines below its name."""
    (task,) = read("tasks:\n  t:\n" + textwrap.indent(textwrap.dedent(text), "    ")).tasks
    return task


def graph_of(text):
    """Return the task graph of a text."""
    return check_and_unfold(read(text))


def problems_in(text):
    """Return all problems of a text; ``weft: 1`` is added, so lines count from 2."""
    document = parse_document("weft: 1\n" + textwrap.dedent(text), "flow.yaml")
    workflow, reader = read_workflow(document)
    return find_problems(workflow, reader.problems)


def messages_of(text):
    """Return the messages of the problems of a text."""
    return [problem.what for problem in problems_in(text)]


def edges(graph):
    """Return the edges as pairs of task names."""
    return {
        (graph.names[source], graph.names[task])
        for task in range(len(graph))
        for source in graph.predecessors(task).tolist()
    }


def sources(graph, name):
    """Return the names of the predecessors of a task, in order of their index."""
    return [graph.names[source] for source in graph.predecessors(graph.index(name)).tolist()]


__all__ = ["InvalidInput", "edges", "graph_of", "messages_of", "problems_in", "read", "read_task", "sources"]
