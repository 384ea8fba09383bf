"""Two-level barriers: simulations, processing of all their files, and both once more (S2 section 6).

M. Jaros, J. Jaros, Performance-cost optimization of moldable scientific workflows. Deviations: the times
are those of S2 section 7, see ``moldable_stage``; the paper has 8, 16, 32 and 64 tasks, here any even
number will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.workflow.generators.generator import MOST_TASKS, Generated, parameter, require, within
from weft.workflow.generators.moldable_stage import MOST_NODES, joined, processing, simulations

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Barrier"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """k simulations, one processing task, k simulations, one processing task."""

    name: ClassVar[str] = "barrier"
    title: ClassVar[str] = "moldable simulations in two levels, a barrier after each (Jaros, Jaros)"

    tasks: int = parameter(16, "tasks in total, an even number")
    perturbed: bool = parameter(True, "times vary from task to task")
    nodes: int = parameter(64, "nodes of the cluster")

    def __post_init__(self) -> None:
        even = self.tasks % 2 == 0
        require(
            self,
            ("tasks", even and 4 <= self.tasks <= MOST_TASKS, f"an even number from 4 to {MOST_TASKS:,}"),
            within(self, "nodes", 1, MOST_NODES),
        )

    def generate(self, rng: np.random.Generator) -> Generated:
        """Make both levels."""
        draws = rng if self.perturbed else None
        level = self.tasks // 2 - 1
        stages = {
            "simulate1": simulations(draws, level),
            "process1": processing(draws, 1, "simulate1", files=level),
            "simulate2": simulations(draws, level, "process1"),
            "process2": processing(draws, 1, "simulate2", files=level),
        }
        return joined(f"barrier-{self.tasks}", stages, self.nodes)
