"""Random layered graphs, the usual benchmark of list planners.

Tasks are in layers of about equal size. Every task after the first layer reads the file of one random task of
the previous layer. It reads the file of each other task of that layer with a given probability. Work and file
sizes are uniform around their means; the ratio of the means is the communication to computation ratio (CCR).
The parameters are those of H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-effective and low-complexity task
scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002, section 5.1.

Deviations: the number of layers is a parameter, not random; a task writes one file for all its readers, as in
workflows, so the size of an edge depends on its source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.platform.machine import MOST_MACHINES
from weft.platform.platform import DEFAULT_LINK
from weft.workflow.generators.generator import (
    LARGEST,
    MOST_TASKS,
    GeneratedWorkflow,
    check_parameters,
    draw_around,
    draw_bytes,
    draw_platform,
    parameter,
)
from weft.workflow.task import Input, Output, Task
from weft.workflow.workflow import Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredGraph:
    """Layers of tasks that read files of the previous layer."""

    name: ClassVar[str] = "layered"
    title: ClassVar[str] = "random graph in layers (Topcuoglu, Hariri, Wu 2002)"

    tasks: int = parameter(100, "tasks in total", 1, MOST_TASKS)
    layers: int = parameter(0, "layers; 0: the square root of the tasks")
    density: float = parameter(0.1, "probability of an edge from each other task of the previous layer", 0, 1)
    work_s: float = parameter(60.0, "mean work of a task, in seconds on speed 1", 0, LARGEST)
    work_spread: float = parameter(0.5, "maximum relative deviation of work from its mean", 0, 1)
    ccr: float = parameter(0.5, "mean transfer time of a file over mean work, at bandwidth_Bps", 0, LARGEST)
    bytes_spread: float = parameter(0.5, "maximum relative deviation of file sizes from their mean", 0, 1)
    bandwidth_Bps: float = parameter(DEFAULT_LINK.bandwidth_Bps, "bandwidth of all links", 1, LARGEST)  # noqa: N815
    machines: int = parameter(8, "machines of the platform; 0: no platform", 0, MOST_MACHINES)
    heterogeneity: float = parameter(4.0, "speed of the fastest machine; the slowest has 1", 1, LARGEST)

    def __post_init__(self) -> None:
        check_parameters(
            self,
            ("layers", 0 <= self.layers <= self.tasks, "from 0 to the number of tasks"),
        )

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Return a random graph; edges are drawn first, then work, file sizes and the platform."""
        readers = list(self._parents(rng))
        work = draw_around(rng, self.work_s, self.work_spread, self.tasks)
        mean_bytes = self.ccr * self.work_s * self.bandwidth_Bps
        sizes = draw_bytes(rng, mean_bytes, self.bytes_spread, self.tasks)
        tasks = tuple(
            Task(
                name=f"t{index + 1}",
                inputs=tuple(Input(file=f"f{parent + 1}") for parent in parents),
                outputs=(Output(file=f"f{index + 1}", size=sizes[index]),),
                work=work[index],
            )
            for index, parents in enumerate(readers)
        )
        platform = draw_platform(rng, self.machines, self.heterogeneity, self.bandwidth_Bps)
        return GeneratedWorkflow(
            workflow=Workflow(name=f"layered-{self.tasks}", tasks=tasks), platform=platform
        )

    def _parents(self, rng: np.random.Generator) -> Iterator[list[int]]:
        """Yield the parents of each task, in the order of tasks."""
        layers = self.layers or math.isqrt(self.tasks)
        edges = [self.tasks * layer // layers for layer in range(layers + 1)]
        yield from ([] for _ in range(edges[1]))
        for above, start, end in zip(edges, edges[1:], edges[2:], strict=False):
            width = start - above
            first = rng.integers(width, size=end - start)
            for sure in first.tolist():
                # One row at a time: a matrix of two wide layers might not fit into memory.
                drawn = rng.random(width) < self.density
                drawn[sure] = True
                yield (np.flatnonzero(drawn) + above).tolist()
