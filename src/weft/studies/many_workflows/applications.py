"""The three applications of S5, and the servers they share (spec s5 sections 5, 6).

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms. Table 1 tells tasks, services, work and makespan; which task takes how long stands in a figure
that is not at hand. The durations are the reconstruction of the specification, which fits all of the table.
"""

from __future__ import annotations

from functools import cache

from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.builder import Builder
from weft.workflow.checks import checked_graph
from weft.workflow.records.workflow import Workflow

__all__ = ["ALONE_S", "APPLICATIONS", "SERVERS", "WORK_S", "compiled"]

SERVERS = 4
"""Identical ones, one task at a time."""
ALONE_S = {"MAXDo": 32.9, "PipeAlign": 96.0, "GEE": 123.0}
"""Makespans alone on the four servers."""
WORK_S = {"MAXDo": 80.0, "PipeAlign": 125.0, "GEE": 200.0}
"""Sums of all durations."""
_DOCKINGS, _FAMILIES = 4, 14


def _maxdo() -> Workflow:
    """Build the docking of proteins: 6 tasks of 3 services."""
    flow = Builder("MAXDo")
    prepare = flow.task("prepare", seconds=8.0)
    dock = flow.task("dock", seconds=15.7, sweep={"part": f"1..{_DOCKINGS}"}, after=prepare)
    flow.task("collect", seconds=9.2, after=dock)
    return flow.build()


def _pipealign() -> Workflow:
    """Build the alignment of proteins: 9 tasks of 7 services, of which one is used three times."""
    flow = Builder("PipeAlign")
    ballast = flow.task("ballast", seconds=30.0)
    blastp = flow.task("blastp", seconds=21.0)
    dbclustal = flow.task("dbclustal", seconds=15.0, after=[ballast, blastp])
    rascal = flow.task("rascal", seconds=10.0, after=dbclustal)
    first = flow.task("normd1", seconds=4.0, after=dbclustal)
    second = flow.task("normd2", seconds=4.0, after=rascal)
    leon = flow.task("leon", seconds=20.0, after=[first, second])
    flow.task("normd3", seconds=4.0, after=leon)
    flow.task("secator", seconds=17.0, after=leon)
    return flow.build()


def _gee() -> Workflow:
    """Build the study of gene expression: 17 tasks of 4 services."""
    flow = Builder("GEE")
    mapped = flow.task("map", seconds=45.0)
    family = flow.task("family", seconds=7.7, sweep={"number": f"1..{_FAMILIES}"}, after=mapped)
    integrate = flow.task("integrate", seconds=27.2, after=family)
    flow.task("select", seconds=20.0, after=integrate)
    return flow.build()


_BUILD = {"MAXDo": _maxdo, "PipeAlign": _pipealign, "GEE": _gee}
APPLICATIONS = tuple(_BUILD)


@cache
def compiled(servers: int) -> dict[str, Instance]:
    """Compile all applications for so many servers."""
    platform = Platform(machines=tuple(Machine(name=f"server{number}") for number in range(1, servers + 1)))
    return {name: compile_instance(checked_graph(build()), platform) for name, build in _BUILD.items()}
