"""Estimated seconds of all modes of all tasks, in one of three layouts with one interface (design section 5).

``Related`` keeps work, rates and speed-ups; ``Classes`` keeps one row per class of like tasks; ``Table``
keeps every mode. Machines and tasks are indices; a mode with more nodes than the machine has is not possible.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from weft.predictors.layouts.classes import Classes
from weft.predictors.layouts.related import Related
from weft.predictors.layouts.sizes import MAX_ENTRIES, check_entries
from weft.predictors.layouts.table import Table
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["MAX_ENTRIES", "Classes", "Related", "Seconds", "Table", "check_entries"]


class Seconds(Protocol):
    """What every layout can be asked."""

    @property
    def layout(self) -> str:
        """``related``, ``classes`` or ``table``."""
        ...

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the estimates come from."""
        ...

    @property
    def source(self) -> NDArray[np.uint8]:
        """Per task: index into ``sources``; of several, that of the mode with the widest spread."""
        ...

    @property
    def spread(self) -> Floats:
        """Per task: the largest P90/P50 of its modes; nan: no P90 known, the estimates count as exact."""
        ...

    @property
    def entries(self) -> int:
        """Count the stored numbers."""
        ...

    def at(self, task: int, machine: int, count: int) -> float:
        """Give the seconds of one mode; nan: not possible."""
        ...

    def modes(self, task: int) -> tuple[Indices, Indices, Floats]:
        """Give machine, count and seconds of all possible modes, by machine, then count."""
        ...

    def least(self, task: int, machines: Indices) -> Floats:
        """Give the least seconds over the allowed counts on each of these machines; nan: not possible."""
        ...

    def mean_over(self, task: int, machines: Indices) -> float:
        """Give the mean of the least seconds over those of these machines that can run it; nan: none can."""
        ...

    def fastest(self) -> Floats:
        """Give per task the least seconds over all machines and counts; nan: no mode."""
        ...

    def means_over(self, machines: Indices) -> Floats:
        """Give ``mean_over`` of every task for one set of machines."""
        ...
