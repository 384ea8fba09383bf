"""Independent moldable simulations (S2 section 6).

M. Jaros, J. Jaros, Performance-cost optimization of moldable scientific workflows. Deviations: the times
are those of S2 section 7, see ``moldable_stage``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.workflow.generators.generator import MOST_TASKS, Generated, parameter, require, within
from weft.workflow.generators.moldable_stage import MOST_NODES, joined, simulations

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Independent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent:
    """Simulations without dependencies."""

    name: ClassVar[str] = "independent"
    title: ClassVar[str] = "moldable simulations without dependencies (Jaros, Jaros)"

    tasks: int = parameter(16, "tasks in total")
    perturbed: bool = parameter(True, "times vary from task to task")
    nodes: int = parameter(64, "nodes of the cluster")

    def __post_init__(self) -> None:
        require(
            self,
            within(self, "tasks", 1, MOST_TASKS),
            within(self, "nodes", 1, MOST_NODES),
        )

    def generate(self, rng: np.random.Generator) -> Generated:
        """Make one stage."""
        stages = {"simulate": simulations(rng if self.perturbed else None, self.tasks)}
        return joined(f"independent-{self.tasks}", stages, self.nodes)
