"""Bindings: a machine per binding variable, and a node count per moldable task, as points of a search.

The genes of R. Prodan, T. Fahringer, SAC 2005 (S1 section 4): tasks of one abstract machine share one, every
other task has its own; so the workflow decides between the 56 and the 106 genes of the paper's application.
Only what can be chosen has a gene. A moldable task has a second one, its place among all its node counts;
where the machine does not allow that count, the next smaller one is taken, else the smallest. Tasks go in one
order, by the rule of the decoder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.planners.decoding import APPEND, UNLIMITED, decode, decode_population
from weft.planners.genomes import genome_of, modes_of
from weft.planners.problem import problem_of
from weft.planners.searches.judging import Judge
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.space import Floats, Points, Space, space_of
from weft.workflow.unfolding.task_graph import COMPUTE, Indices

__all__ = ["Bindings", "too_many_counts"]

_MOST_CELLS = 20_000_000
"""Machines x node counts, over all groups of tasks, up to which a table of modes is kept."""


def too_many_counts(instance: Instance) -> bool:
    """Say whether the table of all node counts on all machines would be too large."""
    groups = problem_of(instance).modes.moldable.astype(bool)
    counts = sum(len(np.unique(group.count)) for group in instance.groups) if groups.any() else 0
    return counts * len(instance.machines) > _MOST_CELLS


class Bindings:
    """What can be chosen in an instance, and what becomes of it."""

    def __init__(
        self, instance: Instance, objective: Objective, *, rule: int = APPEND, order: Indices | None = None
    ) -> None:
        """Without an order tasks go by index."""
        self._instance = instance
        self._judge = Judge(instance, objective)
        self._rule = rule
        self._order = order
        self._bound = np.array([found[0] for found in instance.candidate_sets])[instance.candidates]
        for variable, machine in instance.pinned.items():
            self._bound[variable] = machine
        sizes = np.array([len(found) for found in instance.candidate_sets])[instance.candidates]
        sizes[list(instance.pinned)] = 1
        self._free = np.flatnonzero(sizes > 1)
        self._candidates = _Candidates(instance, self._free)
        self._counts = _Counts(instance) if problem_of(instance).modes.moldable.any() else None
        genes = [sizes[self._free], *([] if self._counts is None else [self._counts.sizes])]
        joined = np.concatenate(genes)
        self.space: Space = space_of(joined if len(joined) else [1])
        """The genes: machines first, then node counts."""

    @property
    def batch(self) -> int:
        """Say how many points may be evaluated between two looks at the budget."""
        return self._judge.batch

    def values(self, points: Points) -> Floats:
        """Give the value of every point, which is to be large."""
        bound, modes = self._genomes(points)
        judge = self._judge
        decoded = decode_population(
            self._instance,
            self._order,
            bound,
            modes,
            rule=self._rule,
            times=judge.timed,
            priced=judge.priced,
        )
        nothing = np.zeros((0, 0), dtype=np.uint32)
        if not judge.of_schedules:
            return judge.values(decoded, nothing, nothing)
        taken = modes_of(self._instance, bound) if modes is None else modes
        return judge.values(decoded, bound[:, self._instance.graph.variable], self._nodes(taken))

    def schedule(self, point: Points) -> Schedule:
        """Give the schedule of one point; where tasks did not disturb each other, behind one another."""
        bound, modes = self._genomes(point[None])
        rule = APPEND if self._rule == UNLIMITED else self._rule
        one = None if modes is None else modes[0]
        return decode(self._instance, self._order, bound[0], one, rule=rule)

    def point(self, schedule: Schedule) -> Points:
        """Give the point that chooses as a schedule did."""
        genome = genome_of(self._instance, schedule)
        genes = [self._candidates.positions(genome.bound[self._free])]
        if self._counts is not None:
            genes.append(self._counts.positions(genome.modes))
        joined = np.concatenate(genes).astype(np.uint32)
        return joined if len(joined) else np.zeros(1, dtype=np.uint32)

    def _genomes(self, points: Points) -> tuple[Indices, Indices | None]:
        """Give bindings and modes (None: the least counts) of points."""
        machines = len(self._free)
        bound = np.repeat(self._bound[None], len(points), axis=0)
        bound[:, self._free] = self._candidates.machines(points[:, :machines])
        if self._counts is None:
            return bound, None
        return bound, self._counts.modes(bound[:, self._instance.graph.variable], points[:, machines:])

    def _nodes(self, modes: Indices) -> Indices:
        """Give the nodes tasks take in some modes; transfers and virtual tasks take none."""
        instance, known = self._instance, problem_of(self._instance).modes
        compute = instance.graph.kind == COMPUTE
        nodes = np.zeros(modes.shape, dtype=np.uint32)
        first = known.first[known.group[compute]]
        nodes[:, compute] = known.nodes[first + modes[:, compute]]
        return nodes


class _Candidates:
    """The machines of the variables that have a choice; many variables share one list of them."""

    def __init__(self, instance: Instance, variables: NDArray[np.intp]) -> None:
        sets = instance.candidate_sets
        ends = np.cumsum([len(found) for found in sets], dtype=np.int64)
        self._set = instance.candidates[variables]
        self._first = np.concatenate([[0], ends])[self._set].astype(np.int64)
        self._machine = np.concatenate(sets)
        self._sets = sets

    def machines(self, positions: Points) -> Indices:
        """Give the machines at some positions."""
        found: Indices = self._machine[self._first + positions]
        return found

    def positions(self, machines: Indices) -> NDArray[np.intp]:
        """Give the positions of some machines, one per variable."""
        found = np.zeros(len(machines), dtype=np.intp)
        for number in np.unique(self._set).tolist():
            mine = self._set == number
            found[mine] = np.searchsorted(self._sets[number], machines[mine])
        return found


class _Counts:
    """The node counts of moldable tasks, and the mode that each has on each machine."""

    def __init__(self, instance: Instance) -> None:
        tasks = len(instance)
        self._width = np.ones(tasks, dtype=np.int64)
        self._first = np.zeros(tasks, dtype=np.int64)
        tables, filled = [np.zeros(len(instance.machines), dtype=np.uint32)], len(instance.machines)
        self._places: list[tuple[Indices, NDArray[np.intp]]] = []
        for group in instance.groups:
            counts, place = np.unique(group.count, return_inverse=True)
            table = _mode_table(group.machine, place, len(instance.machines), len(counts))
            self._width[group.tasks] = len(counts)
            self._first[group.tasks] = filled
            self._places.append((group.tasks, place))
            tables.append(table.reshape(-1))
            filled += table.size
        self._table = np.concatenate(tables)
        self.moldable = np.flatnonzero(self._width > 1)
        self.sizes = self._width[self.moldable]
        self._tasks = tasks

    def modes(self, machine: Indices, positions: Points) -> Indices:
        """Give the modes (individuals x tasks) of some places among the counts."""
        place = np.zeros((len(positions), self._tasks), dtype=np.int64)
        place[:, self.moldable] = positions
        found: Indices = self._table[self._first + machine * self._width + place]
        return found

    def positions(self, modes: Indices) -> NDArray[np.intp]:
        """Give the places of some modes, one per moldable task."""
        found = np.zeros(self._tasks, dtype=np.intp)
        for tasks, place in self._places:
            found[tasks] = place[modes[tasks]]
        return found[self.moldable]


def _mode_table(machine: Indices, place: NDArray[np.intp], machines: int, counts: int) -> Indices:
    """Give machines x counts: the mode of the count, of the next smaller one there, or of the smallest."""
    modes = np.arange(len(machine), dtype=np.int64)
    table = np.full((machines, counts), -1, dtype=np.int64)
    table[machine, place] = modes
    # Modes ascend with the count, so the largest so far is that of the next smaller count.
    table = np.maximum.accumulate(table, axis=1)
    there, smallest = np.unique(machine, return_index=True)
    least = np.zeros(machines, dtype=np.int64)
    least[there] = smallest
    return np.where(table < 0, least[:, None], table).astype(np.uint32)
