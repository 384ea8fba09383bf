"""WIEN2k-50 and the reference testbed (docs/papers/dynamic-grid.md, sections 2.2 and 11), built by the tests."""

from __future__ import annotations

from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.workflow.builder import Builder

__all__ = ["POINTS", "SMALL", "WORK", "grid_of", "wien2k"]

POINTS = range(1, 51)
ATOMS, SIZE = 64, 6000
WORK = 7 * ATOMS * SIZE**2 + SIZE**3
SMALL, VECTOR = 1e5, 200 * SIZE * ATOMS
INSIDE = {"A": 12.5e6, "B": 160e6, "C": 12.5e6, "D": 12.5e6}
"""Bytes a second inside each site; only B has a fast network."""


def wien2k():
    """Build one iteration with 56 abstract machines: LAPW2 of a k-point runs on the machine of its LAPW1."""
    flow = Builder("WIEN2k-50")
    every = {"sweep": {"k": f"1..{len(POINTS)}"}, "machine": "host{k}"}
    flow.task("lapw0", work=0.5 * WORK, outputs={"potential": SMALL})
    flow.task(
        "lapw1",
        work=WORK,
        inputs=["potential"],
        outputs={"vector.{k}": VECTOR, "energy.{k}": SMALL},
        **every,
    )
    energies = [f"energy.{point}" for point in POINTS]
    flow.task("fermi", work=0.01 * WORK, inputs=energies, outputs={"level": SMALL})
    flow.task(
        "lapw2", work=0.1 * WORK, inputs=["level", "vector.{k}"], outputs={"density.{k}": SMALL}, **every
    )
    densities = [f"density.{point}" for point in POINTS]
    flow.task("sumpara", work=0.02 * WORK, inputs=densities, outputs={"sum": SMALL})
    flow.task("lcore", work=0.05 * WORK, inputs=["sum"], outputs={"core": SMALL})
    flow.task("mixer", work=0.02 * WORK, inputs=["core"], outputs={"mixed": SMALL})
    flow.task("conv", work=0.001 * WORK, inputs=["mixed"])
    return flow.build()


def grid_of(facts, number=None):
    """Return the platform of the first ``number`` machines listed, or of all 314."""
    machines = tuple(
        Machine(name=one["id"], site=one["site"], speed=one["ghz"] * 1e9, availability=one["availability"])
        for one in facts["machines"][:number]
    )
    used = {machine.site for machine in machines}
    return Platform(
        machines=machines,
        sites={site: Link(bandwidth_Bps=speed) for site, speed in INSIDE.items() if site in used},
        default_link=Link(bandwidth_Bps=1e6),
    )
