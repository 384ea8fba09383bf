"""Which tasks must run again when some move: completed ones tied to the abstract machine that is re-bound.

S1 (Prodan and Fahringer 2005), spec s1 section 10, Nodes_N. Of a task JS(M) or FT(M, .) that moves: every
completed JS'(M) and FT'(., M) of the same iteration among its ancestors along edges that are not back edges.
Not repeated for the tasks so found, as in the paper.

Deviations: none. One pass against the edges for all tasks that move: a node carries one bit per re-bound
variable, so O((v + e) b / 64) for b variables that some completed task shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.engine.window.situation import Situation, Standing

__all__ = ["rebound_variable", "tied_ancestors"]


def rebound_variable(situation: Situation, task: int) -> tuple[int, int]:
    """Give the (abstract machine, iteration) that is bound anew when a task moves."""
    source = situation.graph.source[task]
    machine = situation.graph.machine[task] if source is None else source
    return machine, situation.iteration[task]


def tied_ancestors(situation: Situation, present: Sequence[Sequence[int]], moving: Iterable[int]) -> set[int]:
    """Collect what must run again for the tasks that move, along the edges that are still present."""
    graph = situation.graph
    variables = {task: rebound_variable(situation, task) for task in moving}
    written: dict[tuple[int, int], list[int]] = {variable: [] for variable in variables.values()}
    for task, standing in enumerate(situation.standing):
        variable = (graph.machine[task], situation.iteration[task])
        if standing is Standing.COMPLETED and variable in written:
            written[variable].append(task)
    shared = [variable for variable, writers in written.items() if writers]
    if not shared:
        return set()
    bit = {variable: 1 << position for position, variable in enumerate(shared)}
    below = [0] * len(graph)  # bits of the moving tasks among the descendants
    for task in reversed(graph.order):
        bits = 0
        for child in present[task]:
            if (task, child) not in graph.back:
                bits |= below[child]
                if child in variables:
                    bits |= bit.get(variables[child], 0)
        below[task] = bits
    return {task for variable in shared for task in written[variable] if below[task] & bit[variable]}
