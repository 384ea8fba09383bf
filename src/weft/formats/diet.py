"""DIET's workflow files, the XML of S5 (section 4, "Form"): read only.

A ``dag`` lists nodes: each is a task of the service that its ``path`` names, ports make data edges, ``prec``
is pure precedence (``diet_dag``). A ``workflow`` describes processors over streams of data, and is unfolded
where its size does not depend on values that only a run knows (``diet_workflow``). Neither says how long
services take: that is a matter of the platform.
"""

from __future__ import annotations

import re

from weft.errors import InvalidInput, Problem, shorten
from weft.formats.collection import collection_paused
from weft.formats.complaints import Complaints
from weft.formats.diet_dag import read_dag
from weft.formats.diet_workflow import read_functional
from weft.formats.format import Source, damaged
from weft.formats.xml_elements import read_elements
from weft.workflow.records.workflow import Workflow

__all__ = ["Diet"]

_ROOT = re.compile(
    r"\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>]*>\s*)*<(?:dag|workflow|data)[\s>/]", re.DOTALL
)


class Diet:
    """Workflows of DIET: the language of its workflow agent, and the functional one."""

    name = "diet"
    title = "DIET workflow (XML: dag, or functional workflow)"
    extensions: tuple[str, ...] = (".xml",)
    reads = True
    writes = False

    def recognises(self, source: Source) -> bool:
        """Say whether a file is XML whose first element is ``dag``, ``workflow`` or ``data``."""
        return _ROOT.match(source.head) is not None

    def read(self, source: Source) -> Workflow:
        """Read a workflow. Raises InvalidInput."""
        with collection_paused():
            return self._read(source)

    def _read(self, source: Source) -> Workflow:
        root = read_elements(source)
        complaints = Complaints(source)
        if root.name == "dag":
            return read_dag(root, complaints)
        if root.name == "workflow":
            return read_functional(root, complaints)
        if root.name == "data":
            what, rule = "input data of a functional workflow (element data)", "only workflows have tasks"
            advice = "give the workflow, and how many items its sources have by -p NAME_items=N"
        else:
            what = f"the first element is {shorten(root.name, 40)!r}"
            rule, advice = "a file of DIET holds one dag or one workflow", ""
        raise damaged(source, what, rule=rule, advice=advice, line=root.line)

    def write(self, workflow: Workflow) -> str:
        """Refuse: nobody asks for new ones."""
        advice = "write weft or wfformat instead"
        raise InvalidInput(Problem(what=f"{workflow.name} cannot be written as {self.name}", advice=advice))
