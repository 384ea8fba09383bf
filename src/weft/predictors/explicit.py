"""Explicit seconds: the user, or a task graph of the literature, says how long a task takes on each machine.

A machine that is not named (by its own name, its host's, or ``"*"``) cannot run the task: the answer is
"impossible" and not None, so that a chain does not fall back to work for it. A machine's speed does not
change explicit seconds; a speed-up law does: they hold for the smallest allowed node count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.platform.machine import Machine
from weft.predictors.building.explicit_table import explicit_table, reference_gains
from weft.predictors.building.laws import gain, reference_gain
from weft.predictors.predictor import Estimate, Flags, Reads, Subject, impossible
from weft.predictors.seconds import Classes, Table
from weft.predictors.tabulate import tabulate
from weft.workflow.unfolding.task_graph import COMPUTE, EVERYWHERE, Floats, TaskGraph

__all__ = ["ExplicitSeconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitSeconds:
    """Answers for every task with ``seconds:``; its estimates count as exact."""

    name: ClassVar[str] = "explicit"
    source: ClassVar[str] = "seconds"
    reads: ClassVar[Reads] = Reads(rate=False)
    final: ClassVar[bool] = True
    rated: ClassVar[bool] = False

    def applies(self, graph: TaskGraph) -> Flags:
        """Take the tasks with explicit seconds."""
        return np.asarray((graph.kind == COMPUTE) & (np.diff(graph.explicit_pointer) > 0))

    def predict(self, subject: Subject, machine: Machine, nodes: int) -> Estimate | None:
        """Look the machine up, and scale from the smallest allowed count to the asked one."""
        if not subject.explicit:
            return None
        for name in (machine.name, machine.host_name, EVERYWHERE):
            if name in subject.explicit:
                work = subject.explicit[name] * reference_gain(subject.law, subject.counts)
                seconds = work / gain(subject.law, nodes)
                found = Estimate(p50_s=seconds, source=self.source)
                return impossible(self.source) if math.isnan(seconds) else found
        return impossible(self.source)

    def works(self, graph: TaskGraph) -> Floats:
        """Give the work of tasks whose seconds are the same everywhere; nan for all others."""
        single = self.applies(graph) & (np.diff(graph.explicit_pointer) == 1)
        tasks = np.flatnonzero(single)
        entry = graph.explicit_pointer[tasks]
        same = np.array([name == EVERYWHERE for name in graph.explicit_names], dtype=np.bool_)
        everywhere = same[graph.explicit_machine[entry]]
        tasks, entry = tasks[everywhere], entry[everywhere]
        works = np.full(len(graph), np.nan)
        works[tasks] = graph.explicit_seconds[entry] * reference_gains(graph)[tasks]
        return works

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> Table | Classes:
        """Write the given seconds down as they are; where that is too much, by classes."""
        written = explicit_table(graph, machines, self.source)
        return tabulate(self, graph, machines) if written is None else written
