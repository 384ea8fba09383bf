"""Orders: in which order the applications arrive (spec s5 section 6).

Every 12 s one workflow, drawn without replacement from 25 MAXDo, 16 PipeAlign and 10 GEE, which are 2,000 s
of work each; 51 of them from 0 s on, and the same numbers again from 1,200 s on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.simulation.scenario import Arrival

if TYPE_CHECKING:
    import numpy as np

__all__ = ["BOUND_S", "REFERENCES", "SERIES", "drawn", "reference", "starving"]

SERIES = {"GEE": 10, "MAXDo": 25, "PipeAlign": 16}
"""How many of each arrive in a series."""
BOUND_S = 3000.0
"""Work of both series over four servers."""
_EVERY_S, _STARTS_S = 12.0, (0.0, 1200.0)
_REFERENCES = (
    (
        "MMPPPGGPGPPGGMMMPMMPPMMMMMMPMGPGPGPMGPMPMMMMMMMGMPM",
        "MMPMGPMGMPPGPGMMPMPGPPPMMMPMMMMGMMGMMPPGMMGMMPMGPMP",
    ),
    (
        "GMPGMMPGPMMMMMPMPPMMPMPPMMGMPMMMPGMPGPGMMPMMMGMGPPG",
        "GPPMGMPGMGPMPPGMGMMMMMMPGPMPMMPMGMPMPMMPMMMGMPMGPPM",
    ),
    (
        "MMGMGGPMMMGMPMPMPGMMPPPMPMMGPGMMMPMMMPPGPMPMMPMMPGG",
        "MGMGPGMMGPPPGMGMMMPMMGPGMGPMPGMPMPPPMPMPMMMMPMPMMMM",
    ),
    (
        "MPMMGPMPMGMMMPMMGGMGGMPPPMMGPMMMMPMMPMPGPGPPMPMGMPM",
        "GPMMPGPMMPPPMGPMGPPGMGMMPMMGPMPMGMMPMMPMMMMPMPMMMGG",
    ),
    (
        "PMPMMPPPPPGMMMPMMGMPPPMMMMGPGPMMMMMMMGMPPGGGGMMPGMM",
        "PMMMPGPMMGGMGPGPPPPPMPGPMMPMPGMGMMMMMMPGGMMMMMPMPMM",
    ),
)
"""The orders of the specification's figures, one letter for each workflow."""
REFERENCES = len(_REFERENCES)
_STARVING, _STARVING_EVERY_S = 100, 45.0


def reference(number: int) -> list[Arrival]:
    """Give one of the orders for which the specification has figures; 0 is that of A5.2."""
    names = {name[0]: name for name in SERIES}
    return _arrivals([[names[letter] for letter in series] for series in _REFERENCES[number]])


def drawn(rng: np.random.Generator) -> list[Arrival]:
    """Draw an order."""
    names = [name for name, number in SERIES.items() for _ in range(number)]
    return _arrivals([[names[index] for index in rng.permutation(len(names))] for _ in _STARTS_S])


def starving() -> list[Arrival]:
    """Give more work than four servers can do: 200 s of it every 45 s (A5.8)."""
    return [Arrival(workflow="GEE", at_s=number * _STARVING_EVERY_S) for number in range(_STARVING)]


def _arrivals(series: list[list[str]]) -> list[Arrival]:
    return [
        Arrival(workflow=name, at_s=start_s + number * _EVERY_S)
        for start_s, names in zip(_STARTS_S, series, strict=True)
        for number, name in enumerate(names)
    ]
