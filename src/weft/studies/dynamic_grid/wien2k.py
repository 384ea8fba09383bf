"""WIEN2k-50, the pilot application of S1: one iteration with 50 k-points (spec s1 section 2.2).

R. Prodan, T. Fahringer, SAC 2005. The paper's figure of the workflow is not at hand; tasks, work and bytes
are those of the specification, which follow the paper's models of LAPW1 and LAPW2.
"""

from __future__ import annotations

from functools import cache

from weft.workflow.builder import Builder
from weft.workflow.records.workflow import Workflow

__all__ = ["wien2k"]

_POINTS = 50
_ATOMS, _MATRIX = 64, 6000
_WORK = 7.0 * _ATOMS * _MATRIX**2 + float(_MATRIX) ** 3
"""Of LAPW1 at one k-point."""
_SMALL_BYTES, _VECTOR_BYTES = 1e5, 200.0 * _MATRIX * _ATOMS


@cache
def wien2k(*, shared: bool) -> Workflow:
    """Build it with 56 machines to be chosen, where LAPW2 of a k-point runs with its LAPW1, or with 106."""
    flow = Builder("WIEN2k-50")
    sweep = {"sweep": {"k": f"1..{_POINTS}"}}
    host = {"machine": "host{k}"} if shared else {}
    points = range(1, _POINTS + 1)
    flow.task("lapw0", work=0.5 * _WORK, outputs={"potential": _SMALL_BYTES})
    flow.task(
        "lapw1",
        work=_WORK,
        inputs=["potential"],
        outputs={"vector.{k}": _VECTOR_BYTES, "energy.{k}": _SMALL_BYTES},
        **sweep,
        **host,
    )
    energies = [f"energy.{point}" for point in points]
    flow.task("fermi", work=0.01 * _WORK, inputs=energies, outputs={"level": _SMALL_BYTES})
    flow.task(
        "lapw2",
        work=0.1 * _WORK,
        inputs=["level", "vector.{k}"],
        outputs={"density.{k}": _SMALL_BYTES},
        **sweep,
        **host,
    )
    densities = [f"density.{point}" for point in points]
    flow.task("sumpara", work=0.02 * _WORK, inputs=densities, outputs={"sum": _SMALL_BYTES})
    flow.task("lcore", work=0.05 * _WORK, inputs=["sum"], outputs={"core": _SMALL_BYTES})
    flow.task("mixer", work=0.02 * _WORK, inputs=["core"], outputs={"mixed": _SMALL_BYTES})
    flow.task("conv", work=0.001 * _WORK, inputs=["mixed"])
    return flow.build()
