"""Random genomes of an instance: an order that keeps precedence, candidates, modes."""

from __future__ import annotations

import numpy as np

from weft.planners.decoding import Genome


def random_order(made, rng):
    """Draw a topological order: each next task is any of the ready tasks."""
    graph = made.graph
    missing = np.diff(graph.predecessor_pointer).tolist()
    ready = [task for task, number in enumerate(missing) if number == 0]
    order = []
    while ready:
        task = ready.pop(int(rng.integers(len(ready))))
        order.append(task)
        for after in graph.successors(task).tolist():
            missing[after] -= 1
            if missing[after] == 0:
                ready.append(after)
    return np.array(order, dtype=np.uint32)


def random_genome(made, rng):
    """Draw a genome: an order of tasks, a machine per binding variable, and a mode per task."""
    graph = made.graph
    bound = np.zeros(len(graph.variables), dtype=np.uint32)
    for variable in range(len(bound)):
        bound[variable] = made.pinned.get(variable, rng.choice(made.candidates_of(variable)))
    modes = np.zeros(len(graph), dtype=np.uint32)
    for task in np.flatnonzero(made.group >= 0).tolist():
        modes[task] = rng.choice(np.flatnonzero(made.modes(task).machine == bound[graph.variable[task]]))
    return Genome(order=random_order(made, rng), bound=bound, modes=modes)
