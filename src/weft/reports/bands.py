"""Bands: machines drawn together where a chart has no room for one row each.

Machines of one site are a band. Where sites are unknown, or so many that they do not fit either, neighbours
in the platform's order are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.reports.report import PlanView

__all__ = ["Band", "bands_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Machines that share a row."""

    name: str
    machines: tuple[int, ...]
    """In the order of the platform."""


def bands_of(view: PlanView, machines: Sequence[int], most: int) -> list[Band]:
    """Put machines into not more than ``most`` bands, in the order of their first machine."""
    sites: dict[str, list[int]] = {}
    for machine in machines:
        name = view.machine_sites[machine] if view.machine_sites else ""
        sites.setdefault(name or view.schedule.machines[machine], []).append(machine)
    if len(sites) == len(machines) or len(sites) == 1:
        # Sites tell nothing: every machine is a site of its own, or all stand at the same one.
        sites = {view.schedule.machines[machine]: [machine] for machine in machines}
    return _joined(sites, most)


def _joined(parts: dict[str, list[int]], most: int) -> list[Band]:
    """Join neighbours until there are few enough."""
    names, each = list(parts), math.ceil(len(parts) / most) if parts else 1
    bands = []
    for first in range(0, len(names), each):
        chosen = names[first : first + each]
        name = chosen[0] if len(chosen) == 1 else f"{chosen[0]} - {chosen[-1]}"
        bands.append(Band(name=name, machines=tuple(machine for part in chosen for machine in parts[part])))
    return bands
