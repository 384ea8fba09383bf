"""The sets of the static DAG generation of docs/papers/dynamic-grid.md, written from their definitions."""

from __future__ import annotations

from types import SimpleNamespace

__all__ = ["acyclic", "initial_back_edges", "window_sets"]


def closure(edges):
    """Return all pairs (a, b) with a path of at least one edge from a to b."""
    pairs = set(edges)
    while True:
        more = {(a, d) for a, b in pairs for c, d in edges if b == c} - pairs
        if not more:
            return pairs
        pairs |= more


def acyclic(tasks, edges):
    """Return whether the graph is acyclic, by removing tasks without predecessors."""
    tasks, edges = set(tasks), set(edges)
    while free := {task for task in tasks if all(head != task for _, head in edges)}:
        tasks -= free
        edges = {(a, b) for a, b in edges if a not in free}
    return not tasks


def search(edges, roots):
    """Return the edges to a task on the current path of a depth-first search from the roots in order."""
    seen, found = set(), set()

    def visit(task, way):
        seen.add(task)
        for child in sorted(b for a, b in edges if a == task):
            if child in (*way, task):
                found.add((task, child))
            elif child not in seen:
                visit(child, (*way, task))

    for root in roots:
        if root not in seen:
            visit(root, ())
    return found


def initial_back_edges(count, edges, declared):
    rest = set(edges) - set(declared)
    entries = [task for task in range(count) if task not in {b for _, b in rest}]
    return set(declared) | search(rest, [*entries, *range(count)])


def window_sets(count, edges, declared, machine, source, state, iteration, violating, decided):
    """Return the sets by their names in the paper; states are the paper's terms."""
    edges = set(edges) | set(declared)
    tasks = set(range(count))
    back = initial_back_edges(count, edges, declared)

    def standing(*words):
        return {task for task in tasks if state[task] in words}

    undecided = edges - set(decided)
    ways = closure(undecided)
    heads = {b for a, b in decided if (a, b) not in back}
    doubtful = {t for t in standing("queued") if t in heads or any((h, t) in ways for h in heads)}
    dropped = {t for t in doubtful if not any((s, t) in ways for s in tasks - doubtful)}
    edges = {(a, b) for a, b in undecided if not {a, b} & dropped}
    ways = closure(edges)

    slow = {task for task in standing("running") if task in violating}
    early = closure(edges - back)
    migr = standing("failed") | slow
    for task in sorted(migr):
        bound = machine[task] if source[task] is None else source[task]
        migr = migr | {
            other
            for other in standing("completed")
            if (other, task) in early and machine[other] == bound and iteration[other] == iteration[task]
        }
    proper = standing("running") - slow
    waiting = standing("queued") - dropped
    active = standing("running", "failed") | waiting | migr
    queued = (waiting | {b for a, b in ways if a in active}) - migr - proper
    led = active | {b for a, b in ways if a in active}
    returned = {b for a, b in edges & back if a in led}
    returned |= {b for a, b in ways if a in returned}
    again = queued & standing("completed") & returned
    inside = migr | queued

    dag = {(a, b) for a, b in edges if a in inside and b in inside}
    edges_migr = {(a, b) for a, b in dag if a in again and b in migr and (b, a) in closure(dag)}
    rest = dag - edges_migr
    round_ways = closure(rest)
    served = {
        (a, b)
        for a, b in rest
        if a in again
        and (b, a) in round_ways
        and iteration[a] == (iteration[b] + 1 if b in again else iteration[b])
    }
    rest -= served
    following = {b for a, b in edges if a in proper} & queued
    ready = {t for t in waiting & queued if all(state[a] == "completed" for a, b in edges - back if b == t)}
    roots = [*sorted(migr), *sorted(following | ready), *range(count)]
    searched = search(rest, roots)
    return SimpleNamespace(
        nodes_migr=migr, nodes_queued=queued, edges_dag=dag, edges_migr=edges_migr,
        edges_queued=served | searched, edges_t=rest - searched, dropped=dropped, fresh=again,
        repeated=(queued & standing("completed")) - returned,
    )  # fmt: skip
