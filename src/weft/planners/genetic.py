"""Genetic search over bindings: the machine of every binding variable."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.instance.instance import Instance
from weft.planners.decoding import (
    APPEND,
    EXCLUSIVE,
    INSERTION,
    UNLIMITED,
    decode,
    decode_population,
    encode_schedule,
    select_modes,
)
from weft.planners.evaluation import PopulationEvaluator, evaluate_loss
from weft.planners.plan_search import PreparedSearch, plan_seeds, run_search
from weft.planners.planner import BasePlanner, Plan, PlanRequest, Unsupported, check_no_budgets
from weft.planners.problem import compile_problem
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search import genetic as search
from weft.search.islands import Islands
from weft.search.operators import Crossover, Selection
from weft.search.optimiser import Optimiser
from weft.search.space import Floats, Points, Space, make_space
from weft.workflow.task_graph import COMPUTE, Indices

OccupancyName = Literal["append", "insertion", "exclusive", "none"]
DECODER_RULES = {"append": APPEND, "insertion": INSERTION, "exclusive": EXCLUSIVE, "none": UNLIMITED}
_MAX_CELLS = 20_000_000
"""Largest number of cells of the table of modes (machines x node counts of all mode groups)."""
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
"""Our own settings, for a search that starts from good plans, keeps them and also explores other plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneticOptions(BasePlanner):
    """The options of planners that use the genetic algorithm; an option not set has the preset's value.

    The options are the settings of two papers: docs/papers/dynamic-grid.md, sections 4 and 12 (below:
    "grid"), and docs/papers/moldable.md, section 8 (below: "moldable").
    """

    population: int = 0
    """Number of individuals; 0: as in the preset."""
    generations: int = 0
    """Largest number of generations; 0: as in the preset."""
    selection: Selection | None = None
    """Selection of parents (grid: remainder, moldable: steady-state)."""
    parent_share: float | None = None
    """Number of parents as a share of the population (grid 1, moldable 0.5)."""
    scaling: float | None = None
    """Ratio of the best to the mean fitness after linear scaling; 1: no scaling (grid 2)."""
    const_factor: float | None = None
    """Const as a multiple of the largest objective value of the first generation.

    The fitness of an individual is Const minus its objective value.
    """
    crossover: Crossover | None = None
    """Crossover operator (grid: single-point, moldable: uniform)."""
    crossover_rate: float | None = None
    """Probability that a pair exchanges genes (grid 0.9, moldable 0.7)."""
    mutation_rate: float | None = None
    """Probability that a gene is replaced by a random value (grid 0.001, moldable 0.01)."""
    mutations: float | None = None
    """Mean number of mutated genes per generation; sets the rate to mutations / (population x genes)."""
    elitist: bool | None = None
    """Whether the best individual so far replaces the worst if a whole generation is worse (grid: true)."""
    elite_share: float | None = None
    """Share of the population that survives unchanged (moldable 0.05)."""
    steady_share: float | None = None
    """Stop when the best value is unchanged for this share of the generations; 0: never stop (grid 0.2)."""
    islands: int = 1
    """Number of parallel populations, which exchange their best individuals."""
    island_steps: int = 1000
    """Approximate number of evaluated schedules per island between two exchanges."""
    island_rounds: int = 25
    """Largest number of exchanges of islands."""

    def __post_init__(self) -> None:
        self.require_at_least(0, "population", "generations", note=" (0: as in the preset)")
        self.require_at_least(1, "islands", "island_steps", "island_rounds")
        if self.mutations is not None and not 0 <= self.mutations < np.inf:
            raise InvalidInput(f"{self.name}:mutations={self.mutations:g}", rule="must be at least 0")
        if self.mutations is not None and self.mutation_rate is not None:
            raise InvalidInput(
                f"{self.name}: both mutations and mutation-rate are given", rule="only one may be given"
            )
        self.settings(search.GeneticSettings(), genes=1)  # refuses values that no preset allows

    def settings(self, preset: search.GeneticSettings, *, genes: int) -> search.GeneticSettings:
        """Return the settings of a preset, replaced by the options that are set.

        If the option ``mutations`` is set, the mutation rate is ``mutations`` divided by population times
        ``genes``, the number of genes of an individual.
        """
        given = {field.name: getattr(self, field.name) for field in fields(preset)}
        # Sizes of 0 are not given; other options may be 0.
        given = {name: value for name, value in given.items() if value is not None}
        given |= {name: getattr(preset, name) for name in ("population", "generations") if not given[name]}
        found = replace(preset, **given)
        if self.mutations is None:
            return found
        return replace(found, mutation_rate=min(1.0, self.mutations / (found.population * genes)))

    def optimiser(self, preset: search.GeneticSettings, space: Space) -> Optimiser:
        """Return the genetic algorithm with the settings of a preset and the given options."""
        one = search.GeneticAlgorithm(settings=self.settings(preset, genes=space.genes))
        if self.islands == 1:
            return one
        return Islands(
            search=one,
            islands=self.islands,
            steps_per_round=self.island_steps,
            rounds=self.island_rounds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneticPlanner(GeneticOptions):
    """Searches bindings and node counts with a genetic algorithm.

    R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid: A Case Study,
    SAC 2005 (docs/papers/dynamic-grid.md, sections 4 and 12). With ``preset=s1-tuned`` it is the published
    search with the final settings of the paper: the first generation is random, and tasks are decoded in the
    order of their indices.

    Deviations of the default: the plans of list planners are in the first generation, and tasks are decoded
    in the order of the best of these plans. The result is never worse than these plans. The settings are our
    own. The best plan is decoded again with insertion into gaps. Moldable tasks have genes for their node
    counts.

    Complexity O(v + e) per individual for v tasks and e edges, more if nodes are counted or gaps are filled.
    """

    name = "genetic"
    title = "genetic search over machines (Prodan and Fahringer 2005)"
    label = "the genetic search"
    anytime = True
    any_objective = True

    preset: Literal["seeded", "s1-tuned"] = "seeded"
    """``seeded``: our settings, from plans of list planners; ``s1-tuned``: the paper's, from random plans."""
    occupancy: OccupancyName = "append"
    """The rule by which a machine starts a task (``DECODER_RULES``); "none": tasks never wait for nodes."""

    def check(self, instance: Instance) -> Unsupported | None:
        """Refuse instances with budgets that a plan could exceed, or with too many node counts."""
        return check_bindings_support(self.label, instance)

    def prepare(self, request: PlanRequest) -> PreparedSearch:
        """Return the search, which starts from the incumbent, from plans of list planners, or randomly."""
        rule, seeds, order = DECODER_RULES[self.occupancy], None, None
        if self.preset == "seeded" or request.incumbent is not None:
            seeds = plan_seeds(request)
            order = encode_schedule(request.instance, seeds.schedules[0]).order
        encoding = BindingEncoding(request.instance, request.objective, rule=rule, order=order)
        settings = search.PRESETS["s1-tuned"] if self.preset == "s1-tuned" else _SEEDED
        return PreparedSearch(encoding, self.optimiser(settings, encoding.space), seeds)

    def plan(self, request: PlanRequest) -> Plan:
        """Return the best plan found from the incumbent, from plans of list planners, or randomly."""
        prepared = self.prepare(request)
        plan = run_search(request, prepared, by=self.name)
        return plan if prepared.seeds is None else fill_gaps(request, plan)


def check_bindings_support(label: str, instance: Instance) -> Unsupported | None:
    """Return why a search over bindings cannot plan an instance; None if it can.

    Instances with budgets that a plan could exceed, or with too large a table of modes, are refused.
    """
    moldable = compile_problem(instance).modes.moldable.astype(bool)
    counts = sum(len(np.unique(group.count)) for group in instance.groups) if moldable.any() else 0
    if counts * len(instance.machines) > _MAX_CELLS:
        size = f"{counts:,} node counts x {len(instance.machines):,} machines"
        most = f"at most {_MAX_CELLS:,} cells are allowed"
        return Unsupported(reason=f"{label} would need a table of {size}; {most}")
    return check_no_budgets(label, instance)


def fill_gaps(request: PlanRequest, plan: Plan) -> Plan:
    """Return the better of a plan and the same plan decoded again with insertion into gaps."""
    instance, objective = request.instance, request.objective
    genome = encode_schedule(instance, plan.schedule)
    filled = decode(instance, genome.order, genome.bound, genome.modes, rule=INSERTION)
    before, after = (evaluate_loss(instance, objective, one) for one in (plan.schedule, filled))
    return replace(plan, schedule=filled if after < before else plan.schedule, steps=plan.steps + 1)


class BindingEncoding:
    """The bindings and node counts of an instance as points of a search space.

    Tasks of one abstract machine share one gene, the position among their candidate machines; every other
    task has its own gene. The application in the paper therefore has 56 genes with abstract machines and 106
    without. A variable with only one candidate has no gene.

    A moldable task has a second gene, the position among all its node counts. If the machine does not allow
    that count, the next smaller one is taken, or else the smallest. All individuals have the same task order.
    """

    def __init__(
        self, instance: Instance, objective: Objective, *, rule: int = APPEND, order: Indices | None = None
    ) -> None:
        """Prepare the encoding; tasks are decoded in the given order under ``rule`` (see ``DECODER_RULES``).

        If ``order`` is None, tasks are decoded by index.
        """
        self._instance = instance
        self._evaluator = PopulationEvaluator(instance, objective)
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
        """Return the number of points to evaluate between two checks of the budget."""
        return self._evaluator.batch

    def values(self, points: Points) -> Floats:
        """Return the value of every point; the search maximises it."""
        bound, modes = self._genomes(points)
        evaluator = self._evaluator
        decoded = decode_population(
            self._instance,
            self._order,
            bound,
            modes,
            rule=self._rule,
            times=evaluator.timed,
            priced=evaluator.priced,
        )
        nothing = np.zeros((0, 0), dtype=np.uint32)
        if not evaluator.of_schedules:
            return evaluator.values(decoded, nothing, nothing)
        taken = select_modes(self._instance, bound) if modes is None else modes
        return evaluator.values(decoded, bound[:, self._instance.graph.variable], self._nodes(taken))

    def schedule(self, point: Points) -> Schedule:
        """Return the schedule of a point; if the rule of the search is UNLIMITED, APPEND is used instead."""
        bound, modes = self._genomes(point[None])
        rule = APPEND if self._rule == UNLIMITED else self._rule
        one = None if modes is None else modes[0]
        return decode(self._instance, self._order, bound[0], one, rule=rule)

    def point(self, schedule: Schedule) -> Points:
        """Return the point whose genes are the machines and node counts of a schedule."""
        genome = encode_schedule(self._instance, schedule)
        genes = [self._candidates.positions(genome.bound[self._free])]
        if self._counts is not None:
            genes.append(self._counts.positions(genome.modes))
        joined = np.concatenate(genes).astype(np.uint32)
        return joined if len(joined) else np.zeros(1, dtype=np.uint32)

    def _genomes(self, points: Points) -> tuple[Indices, Indices | None]:
        """Return bindings and modes of points; modes are None if no task is moldable."""
        machines = len(self._free)
        bound = np.repeat(self._bound[None], len(points), axis=0)
        bound[:, self._free] = self._candidates.machines(points[:, :machines])
        if self._counts is None:
            return bound, None
        return bound, self._counts.modes(bound[:, self._instance.graph.variable], points[:, machines:])

    def _nodes(self, modes: Indices) -> Indices:
        """Return the nodes of the given modes (individuals x tasks); 0 for transfers and virtual tasks."""
        instance, known = self._instance, compile_problem(self._instance).modes
        compute = instance.graph.kind == COMPUTE
        nodes = np.zeros(modes.shape, dtype=np.uint32)
        first = known.first[known.group[compute]]
        nodes[:, compute] = known.nodes[first + modes[:, compute]]
        return nodes


class _CandidateTable:
    """The candidate machines of given binding variables; variables with equal candidates share one list."""

    def __init__(self, instance: Instance, variables: NDArray[np.intp]) -> None:
        sets = instance.candidate_sets
        ends = np.cumsum([len(found) for found in sets], dtype=np.int64)
        self._set = instance.candidates[variables]
        self._first = np.concatenate([[0], ends])[self._set].astype(np.int64)
        self._machine = np.concatenate(sets)
        self._sets = sets

    def machines(self, positions: Points) -> Indices:
        """Return the machines at given positions of the candidate lists (individuals x variables)."""
        found: Indices = self._machine[self._first + positions]
        return found

    def positions(self, machines: Indices) -> NDArray[np.intp]:
        """Return the position of each variable's machine in the candidate list of the variable."""
        found = np.zeros(len(machines), dtype=np.intp)
        for number in np.unique(self._set).tolist():
            mine = self._set == number
            found[mine] = np.searchsorted(self._sets[number], machines[mine])
        return found


class _CountTable:
    """The node counts of moldable tasks, and the mode of each count on each machine."""

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
        """Return the modes (individuals x tasks) for machines and positions in the lists of node counts."""
        place = np.zeros((len(positions), self._tasks), dtype=np.int64)
        place[:, self.moldable] = positions
        found: Indices = self._table[self._first + machine * self._width + place]
        return found

    def positions(self, modes: Indices) -> NDArray[np.intp]:
        """Return for each moldable task the position of its mode's node count in the list of node counts."""
        found = np.zeros(self._tasks, dtype=np.intp)
        for tasks, place in self._places:
            found[tasks] = place[modes[tasks]]
        return found[self.moldable]


def _mode_table(machine: Indices, place: NDArray[np.intp], machines: int, counts: int) -> Indices:
    """Return a table (machines x counts): the mode of each count on each machine.

    If a machine does not allow a count, the entry is the mode of the next smaller count, or else of the
    smallest count.
    """
    modes = np.arange(len(machine), dtype=np.int64)
    table = np.full((machines, counts), -1, dtype=np.int64)
    table[machine, place] = modes
    # Modes ascend with the count, so the running maximum is the mode of the next smaller count.
    table = np.maximum.accumulate(table, axis=1)
    there, smallest = np.unique(machine, return_index=True)
    least = np.zeros(machines, dtype=np.int64)
    least[there] = smallest
    return np.where(table < 0, least[:, None], table).astype(np.uint32)
