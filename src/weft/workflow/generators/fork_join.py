"""Fork-join workflows: a task splits its data, parallel tasks process the parts, one task joins them.

Each join also splits the data for the next stage, so n stages of w parts have n (w + 1) + 1 tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.platform.machine import MOST_MACHINES
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkJoin:
    """Stages of parallel parts, each between a split and a join."""

    name: ClassVar[str] = "fork-join"
    title: ClassVar[str] = "stages of parallel parts, each between a split and a join"

    width: int = parameter(10, "parts of each stage", 1, MOST_TASKS)
    stages: int = parameter(3, "stages")
    work_s: float = parameter(60.0, "mean work of a part, in seconds on speed 1", 0, LARGEST)
    work_spread: float = parameter(0.5, "maximum relative deviation of work from its mean", 0, 1)
    join_work_s: float = parameter(
        6.0, "work of the split and of each join, in seconds on speed 1", 0, LARGEST
    )
    part_bytes: float = parameter(100e6, "mean size of what a part reads, and of what it writes", 0, LARGEST)
    bytes_spread: float = parameter(0.5, "maximum relative deviation of file sizes from their mean", 0, 1)
    machines: int = parameter(8, "machines of the platform; 0: no platform", 0, MOST_MACHINES)
    heterogeneity: float = parameter(4.0, "speed of the fastest machine; the slowest has 1", 1, LARGEST)

    def __post_init__(self) -> None:
        most = max(1, MOST_TASKS // (max(1, self.width) + 1))
        check_parameters(
            self,
            ("stages", 1 <= self.stages <= most, f"at least 1, with at most {MOST_TASKS:,} tasks in total"),
        )

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Return a workflow with a split task, the parts and the join of every stage, and a platform."""
        tasks = [Task(name="split", outputs=self._scattered(rng, 1), work=self.join_work_s)]
        for stage in range(1, self.stages + 1):
            tasks += self._parts(rng, stage)
            tasks.append(
                Task(
                    name=f"join{stage}",
                    inputs=tuple(Input(file=f"out{stage}.{part}") for part in range(1, self.width + 1)),
                    outputs=self._scattered(rng, stage + 1) if stage < self.stages else (),
                    work=self.join_work_s,
                )
            )
        name = f"fork-join-{self.stages}x{self.width}"
        workflow = Workflow(name=name, tasks=tuple(tasks))
        return GeneratedWorkflow(
            workflow=workflow, platform=draw_platform(rng, self.machines, self.heterogeneity)
        )

    def _scattered(self, rng: np.random.Generator, stage: int) -> tuple[Output, ...]:
        sizes = draw_bytes(rng, self.part_bytes, self.bytes_spread, self.width)
        return tuple(Output(file=f"in{stage}.{part}", size=size) for part, size in enumerate(sizes, start=1))

    def _parts(self, rng: np.random.Generator, stage: int) -> Iterator[Task]:
        work = draw_around(rng, self.work_s, self.work_spread, self.width)
        sizes = draw_bytes(rng, self.part_bytes, self.bytes_spread, self.width)
        for part in range(1, self.width + 1):
            yield Task(
                name=f"part{stage}.{part}",
                inputs=(Input(file=f"in{stage}.{part}"),),
                outputs=(Output(file=f"out{stage}.{part}", size=sizes[part - 1]),),
                work=work[part - 1],
            )
