"""Workflows of moldable tasks: independent simulations, two-level barriers and reduction trees.

M. Jaros, J. Jaros, Performance-cost optimization of moldable scientific workflows (docs/papers/moldable.md,
section 6): simulations run on 1 to 36 nodes and are fastest on 35; processing runs on 1 or 2 nodes, and its
time is linear in the number of files. Perturbed simulations take up to 25 % longer because of varying time
steps, and every task up to 5 % more or less because of the nodes.

Deviations: the paper shows its measured times only in a figure, so the times follow section 7, which
describes scaling, idle nodes and cost; all times are parameters. The paper has 8, 16, 32 and 64 tasks; here
any number that fits the structure is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from weft.platform.short_forms import parse_short_form
from weft.workflow.builder import Builder
from weft.workflow.generators.generator import (
    MOST_TASKS,
    GeneratedWorkflow,
    check_parameters,
    parameter,
    round_digits,
)

MOST_NODES = 1_000_000
"""Maximum number of nodes of the cluster."""
_MOST_COUNTS = 10_000
"""Maximum number of node counts of a simulation; each is a line of its table of times."""

_DECOMPOSITION = {16: 0.94, 32: 0.97, 36: 1.03}
"""By node count: a factor on the time of a simulation, where its domain divides well (< 1) or badly (> 1)."""
_LONGEST_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class _MoldableStage:
    """Tasks with the same table of times and the same form of dependency."""

    count: int
    seconds: Mapping[int, float]
    """Seconds by node count, without perturbation."""
    after: str | None = None
    """The dependency of each task; ``k`` is the number of the task, from 1. None: no dependency."""
    factors: tuple[float, ...] = ()
    """Per task: the factor of its times; empty: times are not perturbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoldableTimes:
    """The common parameters of the generators: times of simulations and of processing, and how they vary."""

    tasks: int = parameter(16, "tasks in total", 1, MOST_TASKS)
    nodes: int = parameter(64, "nodes of the cluster", 1, MOST_NODES)
    perturbed: bool = parameter(True, "times vary from task to task")
    longer: float = parameter(0.25, "largest share by which a perturbed simulation takes longer", 0, 1e6)
    fluctuation: float = parameter(
        0.05, "largest deviation of a perturbed task, as a share of its time", 0, 0.99
    )
    simulation_s: float = parameter(2100.0, "time of a simulation on one node", 1e-6, _LONGEST_S)
    serial_share: float = parameter(1 / 45, "share of a simulation that does not scale with its nodes", 0, 1)
    most_nodes: int = parameter(36, "largest node count of a simulation", 1, _MOST_COUNTS)
    processing_s: float = parameter(60.0, "time of processing without files on one node", 1e-6, _LONGEST_S)
    file_s: float = parameter(8.0, "time that processing takes per file on one node", 0, _LONGEST_S)
    second_node: float = parameter(0.6, "time of processing on two nodes, as a share of that on one", 1e-6, 1)

    def simulation_seconds(self) -> dict[int, float]:
        """Return the seconds of a simulation by node count."""
        share = self.serial_share
        return {
            nodes: self.simulation_s * (share + (1 - share) / nodes) * _DECOMPOSITION.get(nodes, 1.0)
            for nodes in range(1, self.most_nodes + 1)
        }

    def processing_seconds(self, files: int) -> dict[int, float]:
        """Return the seconds that processing this number of files takes, by node count."""
        alone_s = self.processing_s + self.file_s * files
        return {1: alone_s, 2: self.second_node * alone_s}

    def make_simulations(
        self, rng: np.random.Generator, count: int, after: str | None = None
    ) -> _MoldableStage:
        """Return a stage of ``count`` simulations, with random factors of their times if ``perturbed``."""
        drawn: tuple[float, ...] = ()
        if self.perturbed:
            longer = 1.0 + rng.uniform(0.0, self.longer, size=count)
            drawn = tuple((longer * self._fluctuate(rng, count)).tolist())
        return _MoldableStage(count=count, seconds=self.simulation_seconds(), after=after, factors=drawn)

    def make_processing(
        self, rng: np.random.Generator, count: int, after: str, *, files: int
    ) -> _MoldableStage:
        """Return a stage of ``count`` processing tasks that read ``files`` files each."""
        drawn = tuple(self._fluctuate(rng, count).tolist()) if self.perturbed else ()
        seconds = self.processing_seconds(files)
        return _MoldableStage(count=count, seconds=seconds, after=after, factors=drawn)

    def _fluctuate(
        self, rng: np.random.Generator, count: int
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return 1.0 + rng.uniform(-self.fluctuation, self.fluctuation, size=count)


def _join_stages(name: str, stages: Mapping[str, _MoldableStage], nodes: int) -> GeneratedWorkflow:
    work = {
        stage_name: [round_digits(stage.seconds[1] * factor) for factor in stage.factors]
        for stage_name, stage in stages.items()
    }
    flow = Builder(name, params={f"{key}_s": found for key, found in work.items() if len(found) > 1})
    for stage_name, stage in stages.items():
        keys: dict[str, Any] = {"speedup": {"seconds": dict(stage.seconds)}}
        if stage.count > 1:
            keys["sweep"] = {"k": f"1..{stage.count}"}
        if stage.after is not None:
            keys["after"] = stage.after
        if stage.factors:
            # Work that differs from the table scales all times of the table.
            keys["work"] = f"{stage_name}_s[k - 1]" if stage.count > 1 else work[stage_name][0]
        flow.task(stage_name, **keys)
    return GeneratedWorkflow(
        workflow=replace(flow.build(), document=None), platform=parse_short_form(f"cluster:{nodes}")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(MoldableTimes):
    """k simulations, one processing task, k simulations, one processing task."""

    name: ClassVar[str] = "barrier"
    title: ClassVar[str] = "moldable simulations in two levels, a barrier after each (Jaros, Jaros)"

    tasks: int = parameter(16, "tasks in total, an even number")

    def __post_init__(self) -> None:
        even = self.tasks % 2 == 0
        check_parameters(
            self,
            ("tasks", even and 4 <= self.tasks <= MOST_TASKS, f"an even number from 4 to {MOST_TASKS:,}"),
        )

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Return the workflow of both levels and its cluster."""
        level = self.tasks // 2 - 1
        stages = {
            "simulate1": self.make_simulations(rng, level),
            "process1": self.make_processing(rng, 1, "simulate1", files=level),
            "simulate2": self.make_simulations(rng, level, "process1"),
            "process2": self.make_processing(rng, 1, "simulate2", files=level),
        }
        return _join_stages(f"barrier-{self.tasks}", stages, self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent(MoldableTimes):
    """Simulations without dependencies."""

    name: ClassVar[str] = "independent"
    title: ClassVar[str] = "moldable simulations without dependencies (Jaros, Jaros)"

    def __post_init__(self) -> None:
        check_parameters(self)

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Return the workflow of one stage of simulations and its cluster."""
        stages = {"simulate": self.make_simulations(rng, self.tasks)}
        return _join_stages(f"independent-{self.tasks}", stages, self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionTree(MoldableTimes):
    """A binary tree: simulations are its leaves, processing tasks its inner nodes."""

    name: ClassVar[str] = "reduction-tree"
    title: ClassVar[str] = "moldable simulations, processed in pairs (Jaros, Jaros)"

    tasks: int = parameter(15, "tasks in total, one less than a power of two")

    def __post_init__(self) -> None:
        tree = self.tasks > 0 and (self.tasks + 1) & self.tasks == 0
        check_parameters(
            self,
            (
                "tasks",
                tree and 3 <= self.tasks <= MOST_TASKS,
                f"one less than a power of two, such as 15, from 3 to {MOST_TASKS:,}",
            ),
        )

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Return the tree and its cluster: a level of simulations, then levels of half as many tasks each."""
        count, above = (self.tasks + 1) // 2, "simulate"
        stages = {above: self.make_simulations(rng, count)}
        while count > 1:
            # The last level is a single task without index k, which depends on both tasks above.
            after = f"{above}[2*k - 1..2*k]" if count > 2 else above
            count //= 2
            above = f"process{len(stages)}"
            stages[above] = self.make_processing(rng, count, after, files=2)
        return _join_stages(f"reduction-tree-{self.tasks}", stages, self.nodes)
