"""The placement of HEFT as published, in plain Python: every machine and every gap for each task.

For machines of one node and tasks of one count, without abstract machines, transfers or countable amounts.
"""

from __future__ import annotations

__all__ = ["textbook_finish_s"]


def textbook_finish_s(instance, order):
    """Return the finish of every task if tasks are placed in this order, each where it finishes first."""
    graph, network = instance.graph, instance.network
    location, host = network.location.tolist(), network.host.tolist()
    latency, inverse = network.latency_s.tolist(), network.inverse_bandwidth.tolist()
    pointer, before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
    size, files, fixed = graph.edge_bytes.tolist(), graph.edge_files.tolist(), graph.edge_seconds.tolist()
    finish, where = [0.0] * len(graph), [0] * len(graph)
    busy = [[] for _ in instance.machines]

    def ready(task, machine):
        latest = 0.0
        for edge in range(pointer[task], pointer[task + 1]):
            other = before[edge]
            source, moved = where[other], 0.0
            if host[source] != host[machine]:
                here, there = location[source], location[machine]
                moved = fixed[edge] + files[edge] * latency[here][there] + size[edge] * inverse[here][there]
            latest = max(latest, finish[other] + moved)
        return latest

    def earliest(machine, start, spent):
        for taken, ended in busy[machine]:
            if start + spent <= taken:
                break
            start = max(start, ended)
        return start

    for task in order:
        modes = instance.modes(task)
        best = None
        for machine, spent in zip(modes.machine.tolist(), modes.seconds.tolist(), strict=True):
            start = ready(task, machine)
            if spent > 0:
                start = earliest(machine, start, spent)
            if best is None or start + spent < best[0]:
                best = (start + spent, machine, start)
        finish[task], where[task], start = best
        if finish[task] > start:
            busy[where[task]].append((start, finish[task]))
            busy[where[task]].sort()
    return finish
