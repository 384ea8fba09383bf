"""Bindings: a machine per binding variable, and a node count per moldable task, as points of a search.

The genes of R. Prodan, T. Fahringer, SAC 2005 (S1 section 4): tasks of one abstract machine share one, every
other task has its own; so the workflow decides between the 56 and the 106 genes of the paper's application.
Only what can be chosen has a gene. A moldable task has a second one, its place among all its node counts;
where the machine does not allow that count, the next smaller one is taken, else the smallest. Tasks go in one
order, by the rule of the decoder.

Genetic search over bindings: which machine every binding variable gets.

R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid: A Case Study, SAC
2005 (S1 sections 4 and 12). Genes are binding variables, so a workflow that names abstract machines has fewer
(``weft.planners.genetic``). With ``preset=s1-tuned`` it is the published search, with the settings
the paper ended with: a first generation drawn at random, tasks by index, and what it finds is returned.

Deviations of the default: what list planners find is in the first generation, and tasks go in the order of
the best of these plans, so that it is never worse; settings are ours; the plan found is put into gaps. A
moldable task also has a gene for its node count.

Complexity O(v + e) per individual for v tasks and e edges, more where nodes are counted or gaps are filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners.decoding import APPEND, EXCLUSIVE, INSERTION, UNLIMITED, decode, decode_population
from weft.planners.evaluation import PopulationEvaluator, evaluate_loss
from weft.planners.genome import encode_schedule, select_modes
from weft.planners.plan_search import PlanSearch, plan_seeds
from weft.planners.planner import Budget, Plan, Unsupported, check_no_budgets
from weft.planners.problem import compile_problem
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search import genetic as search
from weft.search.islands import Islands
from weft.search.optimiser import Optimiser
from weft.search.pool import INLINE_POOL, Pool
from weft.search.space import Floats, Points, Space, make_space
from weft.workflow.task_graph import COMPUTE, Indices

__all__ = [
    "BindingEncoding",
    "GeneticPlanner",
    "OccupancyName",
    "check_bindings_support",
    "decoder_rule",
    "fill_gaps",
    "too_many_counts",
]


_MOST_CELLS = 20_000_000
"""Machines x node counts, over all groups of tasks, up to which a table of modes is kept."""


def too_many_counts(instance: Instance) -> bool:
    """Say whether the table of all node counts on all machines would be too large."""
    groups = compile_problem(instance).modes.moldable.astype(bool)
    counts = sum(len(np.unique(group.count)) for group in instance.groups) if groups.any() else 0
    return counts * len(instance.machines) > _MOST_CELLS


class BindingEncoding:
    """What can be chosen in an instance, and what becomes of it."""

    def __init__(
        self, instance: Instance, objective: Objective, *, rule: int = APPEND, order: Indices | None = None
    ) -> None:
        """Without an order tasks go by index."""
        self._instance = instance
        self._judge = PopulationEvaluator(instance, objective)
        self._rule = rule
        self._order = order
        self._bound = np.array([found[0] for found in instance.candidate_sets])[instance.candidates]
        for variable, machine in instance.pinned.items():
            self._bound[variable] = machine
        sizes = np.array([len(found) for found in instance.candidate_sets])[instance.candidates]
        sizes[list(instance.pinned)] = 1
        self._free = np.flatnonzero(sizes > 1)
        self._candidates = _CandidateTable(instance, self._free)
        self._counts = _CountTable(instance) if compile_problem(instance).modes.moldable.any() else None
        genes = [sizes[self._free], *([] if self._counts is None else [self._counts.sizes])]
        joined = np.concatenate(genes)
        self.space: Space = make_space(joined if len(joined) else [1])
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
        taken = select_modes(self._instance, bound) if modes is None else modes
        return judge.values(decoded, bound[:, self._instance.graph.variable], self._nodes(taken))

    def schedule(self, point: Points) -> Schedule:
        """Give the schedule of one point; where tasks did not disturb each other, behind one another."""
        bound, modes = self._genomes(point[None])
        rule = APPEND if self._rule == UNLIMITED else self._rule
        one = None if modes is None else modes[0]
        return decode(self._instance, self._order, bound[0], one, rule=rule)

    def point(self, schedule: Schedule) -> Points:
        """Give the point that chooses as a schedule did."""
        genome = encode_schedule(self._instance, schedule)
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
        instance, known = self._instance, compile_problem(self._instance).modes
        compute = instance.graph.kind == COMPUTE
        nodes = np.zeros(modes.shape, dtype=np.uint32)
        first = known.first[known.group[compute]]
        nodes[:, compute] = known.nodes[first + modes[:, compute]]
        return nodes


class _CandidateTable:
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


class _CountTable:
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


OccupancyName = Literal["append", "insertion", "exclusive", "none"]
_RULES = {"append": APPEND, "insertion": INSERTION, "exclusive": EXCLUSIVE, "none": UNLIMITED}
_SEEDED = search.GeneticSettings(
    population=60,
    generations=1000,
    selection="tournament",
    parent_share=1.0,
    crossover="uniform",
    crossover_rate=0.7,
    mutation_rate=0.01,
    elite_share=0.05,
    steady_share=0.3,
)
"""Ours: whoever starts from good plans must not lose them, nor follow them alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneticPlanner:
    """Breeds bindings."""

    name: ClassVar[str] = "genetic"
    title: ClassVar[str] = "genetic search over machines (Prodan and Fahringer 2005)"

    preset: Literal["seeded", "s1-tuned"] = "seeded"
    """Our settings from what list planners find, or the paper's from nothing."""
    occupancy: OccupancyName = "append"
    """When a machine lets a task start; none: as if tasks did not disturb each other."""
    population: int = 0
    """Individuals; 0: as the preset says."""
    generations: int = 0
    """The most generations; 0: as the preset says."""
    islands: int = 1
    """Searches side by side that exchange their best."""

    def __post_init__(self) -> None:
        for option in ("population", "generations"):
            if getattr(self, option) < 0:
                what = f"genetic:{option}={getattr(self, option)}"
                raise InvalidInput(Problem(what=what, rule="must be at least 0 (as the preset says)"))
        if self.islands < 1:
            raise InvalidInput(Problem(what=f"genetic:islands={self.islands}", rule="must be at least 1"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:  # noqa: ARG002
        """Serve every objective, where no budget has to be kept."""
        return check_bindings_support("the genetic search", instance)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool = INLINE_POOL,
    ) -> Plan:
        """Breed from list planners' plans, or from nothing."""
        hunt = PlanSearch(
            by=self.name, instance=instance, objective=objective, budget=budget, rng=rng, pool=pool
        )
        if self.preset == "s1-tuned":
            encoding = BindingEncoding(instance, objective, rule=decoder_rule(self.occupancy))
            return hunt.search(encoding, self._search())
        seeds = plan_seeds(instance, objective, budget, rng)
        return self._from(hunt, seeds.schedules, seeds.steps)

    def improve(
        self,
        instance: Instance,
        *,
        objective: Objective,
        start: Schedule,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Plan:
        """Breed from one plan."""
        hunt = PlanSearch(by=self.name, instance=instance, objective=objective, budget=budget, rng=rng)
        return self._from(hunt, (start,), 0)

    def _from(self, hunt: PlanSearch, known: Sequence[Schedule], steps: int) -> Plan:
        """Search from some plans, the best first, in the order of the best."""
        instance, objective = hunt.instance, hunt.objective
        order = encode_schedule(instance, known[0]).order
        encoding = BindingEncoding(instance, objective, rule=decoder_rule(self.occupancy), order=order)
        return fill_gaps(hunt, hunt.search(encoding, self._search(), known, steps))

    def _search(self) -> Optimiser:
        settings = search.PRESETS["s1-tuned"] if self.preset == "s1-tuned" else _SEEDED
        if self.population:
            settings = replace(settings, population=self.population)
        if self.generations:
            settings = replace(settings, generations=self.generations)
        if self.islands == 1:
            return search.GeneticAlgorithm(settings=settings)
        return Islands(search=search.GeneticAlgorithm(settings=settings), islands=self.islands)


def decoder_rule(occupancy: str) -> int:
    """Give the rule of the decoder for an occupancy."""
    return _RULES[occupancy]


def check_bindings_support(title: str, instance: Instance) -> Unsupported | None:
    """Refuse what cannot be searched by bindings: budgets to be kept, and too many node counts."""
    if too_many_counts(instance):
        return Unsupported(reason=f"{title} would need a table of too many node counts on too many machines")
    return check_no_budgets(title, instance)


def fill_gaps(hunt: PlanSearch, plan: Plan) -> Plan:
    """Put the tasks of a plan into the first gaps, in order of their starts, if that is better."""
    genome = encode_schedule(hunt.instance, plan.schedule)
    closer = decode(hunt.instance, genome.order, genome.bound, genome.modes, rule=INSERTION)
    judged = [evaluate_loss(hunt.instance, hunt.objective, one) for one in (plan.schedule, closer)]
    return replace(plan, schedule=closer if judged[1] < judged[0] else plan.schedule, steps=plan.steps + 1)
