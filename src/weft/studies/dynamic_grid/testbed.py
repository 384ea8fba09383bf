"""The reference testbed of S1: 314 machines on four sites (spec s1 section 11).

R. Prodan, T. Fahringer, SAC 2005, had more than 314 machines at four Austrian sites: 16 fast ones, a cluster
with a fast network of its own, and many of middling or poor speed. Which they were is not published, so this
is a synthetic testbed of that description, with speeds that differ from machine to machine.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from weft.platform.link import Link
from weft.platform.machine import Machine
from weft.platform.platform import Platform

__all__ = ["FAST_MACHINES", "grid_testbed"]

FAST_MACHINES = 16
"""The first machines: of 3 GHz, and idle."""
_INSIDE_BPS = {"A": 12.5e6, "B": 160e6, "C": 12.5e6, "D": 12.5e6}
"""Bytes a second inside each site; only B has a fast network."""
_BETWEEN_BPS = 1e6
_WORK_PER_GHZ = 1e9
"""Units of work a second."""


@cache
def grid_testbed() -> Platform:
    """Make the platform."""
    lines = (
        files("weft.studies.dynamic_grid").joinpath("testbed.csv").read_text(encoding="utf-8").splitlines()
    )
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
