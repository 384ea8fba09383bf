"""The workflows of S2 on its cluster of 64 nodes (spec s2 sections 6, 7): odd sizes are trees, even barriers.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows. Which structure has which
size is the reading of the specification; the times are those of ``weft.workflow.generators.moldable_stage``.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from weft.instance import compile_instance
from weft.instance.instance import Instance
from weft.planners.queueing import run_queue, submission_order
from weft.randomness import generator
from weft.schedule.metrics import Metrics, measure
from weft.workflow.generators.barrier import Barrier
from weft.workflow.generators.generator import Generator
from weft.workflow.generators.independent import Independent
from weft.workflow.generators.reduction_tree import ReductionTree
from weft.workflow.unfolding.task_graph import Indices
from weft.workflow.unfolding.unfold import unfold

__all__ = ["QUEUE", "SIZES", "dependent", "independent", "local_counts", "local_metrics", "shape_of"]

SIZES = (7, 8, 15, 16, 31, 32, 63, 64)
QUEUE = "fifo"
"""No task passes one that waits (S2 section 5)."""
_PERTURBATION_SEED = 1
"""Of the times that vary from task to task: one workflow for all runs."""


def shape_of(tasks: int) -> str:
    """Name the workflow of a size."""
    return f"{'tree' if tasks % 2 else 'barrier'}-{tasks}"


@cache
def dependent(tasks: int, *, perturbed: bool = False) -> Instance:
    """Make the tree or the barrier of a size."""
    kind = ReductionTree if tasks % 2 else Barrier
    return _made(kind(tasks=tasks, perturbed=perturbed))


@cache
def independent(tasks: int) -> Instance:
    """Make so many simulations without dependencies."""
    return _made(Independent(tasks=tasks, perturbed=False))


def _made(kind: Generator) -> Instance:
    made = kind.generate(generator(_PERTURBATION_SEED, "s2", kind.name))
    assert made.platform is not None
    return compile_instance(unfold(made.workflow), made.platform)


def local_counts(instance: Instance) -> Indices:
    """Give every task the node count on which it is fastest."""
    modes = [instance.modes(task) for task in range(len(instance))]
    return np.array([one.count[one.seconds.argmin()] for one in modes], dtype=np.uint32)


@cache
def local_metrics(instance: Instance) -> Metrics:
    """Measure the run in which every task has its fastest node count."""
    order = submission_order(instance)
    return measure(run_queue(instance, local_counts(instance), QUEUE, order=order), instance)
