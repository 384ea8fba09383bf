"""Which sign and which colour stand for which kind of task, the same in chart and legend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.reports.report import PlanView

__all__ = ["Palette", "palette_of"]

_SIGNS = "▓▒░█▞▚▄▀"
_ASCII_SIGNS = "#=+-*%o~"
_COLORS = (75, 214, 78, 204, 141, 80, 185, 248)
"""Of the terminal's 256: light enough for dark letters on them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Palette:
    """Up to eight shown kinds; with more, the last stands for all the others."""

    names: tuple[str, ...]
    of_task: NDArray[np.intp]
    """Per task: index of its shown kind."""
    signs: str

    def color(self, kind: int) -> int:
        """Give the colour of a shown kind."""
        return _COLORS[kind]


def palette_of(view: PlanView, *, ascii_only: bool) -> Palette:
    """Give the kinds that take the most node-seconds signs of their own; ties go to the first in the plan."""
    index: dict[str, int] = {}
    kind = np.fromiter((index.setdefault(name, len(index)) for name in view.kinds), np.intp, len(view.kinds))
    schedule = view.schedule
    weight = np.bincount(kind, schedule.nodes * (schedule.finish_s - schedule.start_s), minlength=len(index))
    order = np.argsort(-weight, kind="stable")
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    names = [list(index)[position] for position in order]
    most = len(_SIGNS)
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} other kinds"]
    of_task: NDArray[np.intp] = np.minimum(rank, most - 1)[kind]
    return Palette(names=tuple(names), of_task=of_task, signs=_ASCII_SIGNS if ascii_only else _SIGNS)
