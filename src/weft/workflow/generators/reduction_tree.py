"""Reduction trees: simulations whose files are processed two by two until one is left (S2 section 6).

M. Jaros, J. Jaros, Performance-cost optimization of moldable scientific workflows. Deviations: the times
are those of S2 section 7, see ``moldable_stage``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.workflow.generators.generator import MOST_TASKS, Generated, parameter, require, within
from weft.workflow.generators.moldable_stage import MOST_NODES, joined, processing, simulations

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ReductionTree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionTree:
    """A binary tree: simulations are its leaves, processing tasks its inner nodes."""

    name: ClassVar[str] = "reduction-tree"
    title: ClassVar[str] = "moldable simulations, processed two by two (Jaros, Jaros)"

    tasks: int = parameter(15, "tasks in total, one less than a power of two")
    perturbed: bool = parameter(True, "times vary from task to task")
    nodes: int = parameter(64, "nodes of the cluster")

    def __post_init__(self) -> None:
        tree = self.tasks > 0 and (self.tasks + 1) & self.tasks == 0
        require(
            self,
            (
                "tasks",
                tree and 3 <= self.tasks <= MOST_TASKS,
                f"one less than a power of two, such as 15, from 3 to {MOST_TASKS:,}",
            ),
            within(self, "nodes", 1, MOST_NODES),
        )

    def generate(self, rng: np.random.Generator) -> Generated:
        """Make the leaves, then level by level half as many."""
        draws = rng if self.perturbed else None
        count, above = (self.tasks + 1) // 2, "simulate"
        stages = {above: simulations(draws, count)}
        while count > 1:
            # Of two tasks a level has no index: both are what the root waits for.
            after = f"{above}[2*k - 1..2*k]" if count > 2 else above
            count //= 2
            above = f"process{len(stages)}"
            stages[above] = processing(draws, count, after, files=2)
        return joined(f"reduction-tree-{self.tasks}", stages, self.nodes)
