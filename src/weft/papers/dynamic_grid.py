"""Testbed and workflows of the dynamic-grid paper (docs/papers/dynamic-grid.md, sections 2.2, 11 and 13).

R. Prodan, T. Fahringer, SAC 2005, used more than 314 machines at four Austrian sites: 16 fast ones, a cluster
with a fast network, and many of medium or low speed. The machines are not published; this testbed is
synthetic and follows that description. WIEN2k-50 is one iteration with 50 k-points. The paper's figure of the
workflow is not available; tasks, work and bytes follow its models of LAPW1 and LAPW2. The dynamic evaluation
also uses a larger problem, the loop with its convergence test, and the LAPW1 stage alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.workflow.builder import Builder
from weft.workflow.workflow import Workflow

FAST_MACHINES = 16
"""Number of fast machines (3 GHz, idle), which are the first machines of the testbed."""
_INSIDE_BPS = {"A": 12.5e6, "B": 160e6, "C": 12.5e6, "D": 12.5e6}
"""Bytes per second inside each site; only B has a fast network."""
_BETWEEN_BPS = 1e6
_WORK_PER_GHZ = 1e9
"""Units of work per second and GHz."""


@cache
def grid_testbed() -> Platform:
    """Return the platform of 314 machines."""
    lines = files("weft.papers").joinpath("dynamic_grid_testbed.csv").read_text(encoding="utf-8").splitlines()
    machines = []
    for number, line in enumerate(lines[1:]):
        site, ghz, availability = line.split(",")
        machines.append(
            Machine(
                name=f"{site}{number:03d}",
                site=site,
                speed=float(ghz) * _WORK_PER_GHZ,
                availability=float(availability),
            )
        )
    return Platform(
        machines=tuple(machines),
        sites={site: Link(bandwidth_Bps=speed) for site, speed in _INSIDE_BPS.items()},
        default_link=Link(bandwidth_Bps=_BETWEEN_BPS),
    )


_POINTS, _ATOMS, _MATRIX = 50, 64, 6000
_SMALL_BYTES = 1e5
_CONTRACT = {"factor": 0.5, "grace": 0.0}
"""The paper's contract for all tasks, without a grace period (docs/papers/dynamic-grid.md, section 9).

With weft's default grace period, a slow task could not migrate at once, although its machine is already
estimated as slow. Such a task dominates the predicted end. A search for the shortest makespan then places
other tasks on arbitrary slow machines, because their placement does not change the makespan.
"""
_RESTARTABLE = {"files": ["restart"]}
"""Checkpoints without an interval: they are written on cancellation."""


def _lapw1_work(matrix: int) -> float:
    return 7.0 * _ATOMS * matrix**2 + float(matrix) ** 3


@cache
def wien2k(
    *,
    shared: bool,
    points: int = _POINTS,
    matrix: int = _MATRIX,
    loop: bool = False,
    watched: bool = False,
    restartable: bool = False,
) -> Workflow:
    """Return WIEN2k as a workflow.

    ``shared``: LAPW2 of a k-point runs on the machine of its LAPW1, which gives 56 binding variables instead
    of 106. ``loop``: iterate until convergence. ``watched``: tasks report progress and have the paper's
    contract. ``restartable``: tasks write checkpoints.
    """
    work = _lapw1_work(matrix)
    flow = Builder(f"WIEN2k-{points}")
    sweep = {"sweep": {"k": f"1..{points}"}}
    host = {"machine": "host{k}"} if shared else {}
    each = _recovery(watched=watched, restartable=restartable)
    numbers = range(1, points + 1)
    flow.task("lapw0", work=0.5 * work, outputs={"potential": _SMALL_BYTES}, **each)
    flow.task(
        "lapw1",
        work=work,
        inputs=["potential"],
        outputs={"vector.{k}": 200.0 * matrix * _ATOMS, "energy.{k}": _SMALL_BYTES},
        **sweep,
        **host,
        **each,
    )
    energies = [f"energy.{point}" for point in numbers]
    flow.task("fermi", work=0.01 * work, inputs=energies, outputs={"level": _SMALL_BYTES}, **each)
    flow.task(
        "lapw2",
        work=0.1 * work,
        inputs=["level", "vector.{k}"],
        outputs={"density.{k}": _SMALL_BYTES},
        **sweep,
        **host,
        **each,
    )
    densities = [f"density.{point}" for point in numbers]
    flow.task("sumpara", work=0.02 * work, inputs=densities, outputs={"sum": _SMALL_BYTES}, **each)
    flow.task("lcore", work=0.05 * work, inputs=["sum"], outputs={"core": _SMALL_BYTES}, **each)
    flow.task("mixer", work=0.02 * work, inputs=["core"], outputs={"mixed": _SMALL_BYTES}, **each)
    flow.task("conv", work=0.001 * work, inputs=["mixed"], **each)
    if loop:
        flow.loop("scf", last="conv", first="lapw0", until="conv.exit_code == 0", max_iterations=40)
    return flow.build()


@cache
def lapw1_stage(*, restartable: bool) -> Workflow:
    """Return a workflow of the LAPW1 stage alone, as in the prototype."""
    flow = Builder("LAPW1-50")
    flow.task(
        "lapw1",
        work=_lapw1_work(_MATRIX),
        sweep={"k": f"1..{_POINTS}"},
        **_recovery(watched=True, restartable=restartable),
    )
    return flow.build()


def _recovery(*, watched: bool, restartable: bool) -> Mapping[str, object]:
    found: dict[str, object] = {"progress": "progress", "contract": _CONTRACT} if watched else {}
    return found | ({"checkpoint": _RESTARTABLE} if restartable else {})
