"""The optimal makespan of a tiny instance by exhaustive search, without code of planners or bounds.

Tries tasks in every topological order and every mode, each at the earliest feasible time; for given modes and
orders no shorter schedule exists.
"""

from __future__ import annotations

import math

from weft.workflow.task_graph import COMPUTE, TRANSFER


def shortest_makespan(made) -> float:
    """Return the optimal makespan."""
    search = _Search(made)
    search.extend(frozenset(), {}, {}, 0.0)
    return search.best


class _Search:
    def __init__(self, made):
        self.made, self.graph = made, made.graph
        self.best = math.inf
        self.before = [self.graph.predecessors(task).tolist() for task in range(len(made))]

    def extend(self, done, bound, placed, finish):
        """Add one more task in every possible way. ``placed``: task -> (machine, start, finish, nodes,
        amounts).
        """
        if finish >= self.best:
            return
        if len(done) == len(self.before):
            self.best = finish
            return
        for task, before in enumerate(self.before):
            if task not in done and done.issuperset(before):
                for binding, place in self.choices(task, bound, placed):
                    self.extend(done | {task}, binding, {**placed, task: place}, max(finish, place[2]))

    def machines_of(self, variable, bound):
        pinned = self.made.pinned.get(variable)
        fixed = bound.get(variable, pinned)
        return [fixed] if fixed is not None else self.made.candidates_of(variable).tolist()

    def choices(self, task, bound, placed):
        kind, variable = self.graph.kind[task], int(self.graph.variable[task])
        for machine in self.machines_of(variable, bound):
            mine = {**bound, variable: machine}
            if kind == TRANSFER:
                source = int(self.graph.source_variable[task])
                for origin in self.machines_of(source, mine):
                    start = self.ready(task, origin, placed)
                    seconds = self.made.transfer_s(task, origin, machine)
                    yield {**mine, source: origin}, (machine, start, start + seconds, 0, ())
            elif kind == COMPUTE:
                ready = self.ready(task, machine, placed)
                modes = self.made.modes(task)
                for at, nodes, count, seconds in zip(
                    modes.machine.tolist(),
                    modes.nodes.tolist(),
                    modes.count.tolist(),
                    modes.seconds.tolist(),
                    strict=True,
                ):
                    if at == machine:
                        amounts = tuple(self.graph.demand_of(task, count).tolist())
                        start = self.fitting(machine, ready, seconds, nodes, amounts, placed)
                        yield mine, (machine, start, start + seconds, nodes, amounts)
            else:
                ready = self.ready(task, machine, placed)
                yield mine, (machine, ready, ready, 0, ())

    def ready(self, task, machine, placed):
        first = int(self.graph.predecessor_pointer[task])
        arrivals = [
            placed[other][2] + self.made.edge_s(edge, placed[other][0], machine)
            for edge, other in enumerate(self.before[task], start=first)
        ]
        return max([float(self.made.earliest_start_s[task]), *arrivals])

    def fitting(self, machine, ready, seconds, nodes, amounts, placed):
        """Return the first time from which nodes and amounts are free for the whole duration."""
        if seconds == 0 or self.made.unlimited[machine]:
            return ready
        running = [
            entry[1:] for entry in placed.values() if entry[0] == machine and entry[3] and entry[2] > entry[1]
        ]
        for held in self.made.busy:
            if held.machine == machine and held.finish_s > max(0.0, held.start_s):
                taken = held.amounts or (0.0,) * len(amounts)
                running.append((max(0.0, held.start_s), held.finish_s, held.nodes, taken))
        for start in sorted({ready, *(finish for _, finish, _, _ in running if finish > ready)}):
            moments = {start, *(begin for begin, _, _, _ in running if start < begin < start + seconds)}
            if all(self.has_capacity(machine, moment, nodes, amounts, running) for moment in moments):
                return start
        raise AssertionError("after everything has ended all nodes must be free")

    def has_capacity(self, machine, moment, nodes, amounts, running):
        now = [entry for entry in running if entry[0] <= moment < entry[1]]
        if nodes + sum(entry[2] for entry in now) > self.made.capacity[machine]:
            return False
        totals = self.made.amounts[machine].tolist()
        return all(
            amount == 0 or amount + sum(entry[3][column] for entry in now) <= totals[column] * (1 + 1e-9)
            for column, amount in enumerate(amounts)
        )
