"""Tuning of planners that search: grids of their options, and trials that measure one search each.

R. Prodan, T. Fahringer, SAC 2005 (docs/papers/dynamic-grid.md, sections 3 and 12) vary the settings of their
genetic search over a grid and measure precision, improvement and visited points; M. Jaros, J. Jaros
(docs/papers/moldable.md, section 8) measure success rates and generations. The reproductions of both studies
and ``weft tune`` use the functions of this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import product
from typing import Literal, get_args

import numpy as np

from weft.documents import Document, DocumentNode, Reader, locate_problems
from weft.errors import DocumentPath, InvalidInput, Problem, suggest
from weft.fields import Field, Record, Shape, ValueType, any_of, choice, mapping_shape, version_field
from weft.planners import PLANNERS
from weft.planners.plan_search import SearchPlanner
from weft.planners.planner import PlanRequest, make_planner
from weft.records import dataclass
from weft.registry import list_options
from weft.schedule.schedule import Schedule
from weft.search.optimiser import Limit, SearchState
from weft.workflow.file_format import read_range, split_range

OptionValue = int | float | str | bool
Vary = Literal["all", "alone"]
"""``all``: try all combinations of the values; ``alone``: try every value with the other options unset."""

MOST_EXPERIMENTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningGrid:
    """Values of planner options to try."""

    options: Mapping[str, tuple[OptionValue, ...]] = field(default_factory=dict)
    vary: Vary = "all"
    document: Document | None = field(default=None, compare=False, repr=False)
    """The document it was read from, for the locations of errors; ignored by comparisons."""

    @property
    def count(self) -> int:
        """Return the number of experiments."""
        sizes = [len(values) for values in self.options.values()]
        return int(np.prod(sizes, dtype=object)) if self.vary == "all" else 1 + sum(sizes)

    def experiments(self) -> Iterator[dict[str, OptionValue]]:
        """Yield the options of each experiment.

        ``all``: the Cartesian product of the values; ``alone``: no option, then one value at a time.
        """
        if self.vary == "all":
            for values in product(*self.options.values()):
                yield dict(zip(self.options, values, strict=True))
            return
        yield {}
        for name, values in self.options.items():
            yield from ({name: value} for value in values)


def option_text(options: Mapping[str, OptionValue]) -> str:
    """Return options as they follow a planner's name: ``population=50,elitist=true``."""
    shown = {
        name: str(value).lower() if isinstance(value, bool) else value for name, value in options.items()
    }
    return ",".join(f"{name}={value}" for name, value in shown.items())


def find_planners(planner: str, grid: TuningGrid) -> dict[str, SearchPlanner]:
    """Return the planner of each experiment by the text of its options; raise InvalidInput with all problems.

    ``planner`` is a name, possibly with options; options of the grid replace them.
    """
    _check_count(grid)
    if not isinstance(base := make_planner(planner), SearchPlanner):
        what = f"planner {planner!r} is not an optimiser whose runs can be measured"
        raise InvalidInput(what, advice=f"use {', '.join(_TUNED[:-1])} or {_TUNED[-1]}")
    if problems := list(_option_problems(planner, type(base), grid)):
        raise InvalidInput(list(locate_problems(problems, grid.document)))
    texts = [option_text(options) for options in grid.experiments()]
    return {text: make_planner(f"{planner}:{text}" if text else planner) for text in texts}  # type: ignore[misc]


def _check_count(grid: TuningGrid) -> None:
    if grid.count > MOST_EXPERIMENTS:
        what = f"the grid has {grid.count:,} experiments"
        rule, where = f"at most {MOST_EXPERIMENTS:,} are allowed", grid.document
        location = None if where is None else where.location(("grid",))
        raise InvalidInput(what, rule=rule, advice="use fewer values", path=("grid",), location=location)


_TUNED = ("genetic", "moldable-genetic", "annealing")


def find_tuned_planners(grid: TuningGrid) -> list[str]:
    """Return the planners that have all options of a grid; raise InvalidInput if there is none.

    The error lists the problems of the planner that has the fewest problems.
    """
    _check_count(grid)
    found = {name: list(_option_problems(name, PLANNERS.load(name), grid)) for name in _TUNED}
    if fitting := [name for name, problems in found.items() if not problems]:
        return fitting
    fewest = min(found.values(), key=len)
    raise InvalidInput(list(locate_problems(fewest, grid.document)))


def _option_problems(planner: str, kind: type, grid: TuningGrid) -> Iterator[Problem]:
    """Yield the problems of a planner with the options of a grid.

    First each value is tried alone. If none is a problem, the first values of all options are tried together.
    This suffices, because some options exclude each other whatever their values are.
    """
    if problems := list(_value_problems(planner, kind, grid)):
        yield from problems
    elif grid.vary == "all" and all(grid.options.values()):
        together = {name: values[0] for name, values in grid.options.items()}
        yield from _planner_problems(f"{planner}:{option_text(together)}" if together else planner, ("grid",))


def _value_problems(planner: str, kind: type, grid: TuningGrid) -> Iterator[Problem]:
    known = [option.name for option in list_options(kind)]
    for name, values in grid.options.items():
        if name not in known:
            advice = suggest(name, known, f"its options: {', '.join(known)}")
            path = _option_path(grid, name)
            yield Problem(what=f"planner {planner!r} has no option {name!r}", advice=advice, path=path)
            continue
        for value in values:
            path = _option_path(grid, name, value)
            yield from _planner_problems(f"{planner}:{option_text({name: value})}", path)


def _planner_problems(name: str, path: DocumentPath) -> Iterator[Problem]:
    """Yield the problems of a planner's name and options; nothing if such a planner can be made.

    ``path``: the path of the options in the document.
    """
    try:
        make_planner(name)
    except InvalidInput as error:
        yield from (replace(problem, path=path) for problem in error.problems)


def _option_path(grid: TuningGrid, name: str, value: OptionValue | None = None) -> DocumentPath:
    """Return the path of an option, or of one of its values, in the document of a grid."""
    document = grid.document or Document()
    for key in (name, name.replace("_", "-")):
        if (stated := document.find("grid", key)) is not None:
            items = stated.value if isinstance(stated.value, list) else []
            places = [at for at, item in enumerate(items) if value is not None and item.value == value]
            return "grid", key, *places[:1]
    return "grid", name


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTrial:
    """The result of one run of a search."""

    value: float
    """Objective value of the best schedule, computed by the search itself."""
    first_value: float
    """Best objective value of the first generation."""
    visited: int
    """Number of evaluated schedules, without those of list planners."""
    generations: int
    generation_of_best: int
    """Index of the generation in which the best schedule was found."""
    population: int
    """Mean number of schedules per generation."""
    schedule: Schedule

    @property
    def evaluations_to_best(self) -> int:
        """Return the number of evaluated schedules up to the generation in which the best was found."""
        return self.population * (self.generation_of_best + 1)


def run_trial(planner: SearchPlanner, request: PlanRequest, *, target: float | None = None) -> SearchTrial:
    """Run the search of a planner to its end and return what it found.

    With ``target`` the search ends after the first generation that reaches this objective value. Raises
    KeyboardInterrupt if the search was interrupted: a partial result must not be recorded.
    """
    prepared = planner.prepare(request)
    encoding = prepared.encoding
    sign = -1.0 if request.objective.sense == "minimise" else 1.0
    limit = _TrialLimit(request.budget, None if target is None else sign * target)
    found = prepared.optimiser.optimise(
        encoding.space,
        encoding.values,
        rng=request.rng,
        limit=limit,
        starts=prepared.starts,
        on_progress=limit.look,
        pool=request.pool,
        batch=encoding.batch,
    )
    if found.cut and limit.allows(found.visited):
        raise KeyboardInterrupt
    return SearchTrial(
        value=sign * found.value,
        first_value=sign * found.first_best,
        visited=found.visited,
        generations=found.generations,
        generation_of_best=found.generation_of_best,
        population=max(1, round(found.visited / max(1, found.generations))),
        schedule=encoding.schedule(found.best),
    )


class _TrialLimit:
    """Ends a search when the budget is spent or the target is reached."""

    def __init__(self, budget: Limit, target: float | None) -> None:
        self._budget = budget
        self._target = np.inf if target is None else target
        self._value = -np.inf

    def look(self, standing: SearchState) -> None:
        self._value = standing.value

    def allows(self, steps_taken: int) -> bool:
        return self._value < self._target and self._budget.allows(steps_taken)


def _read_options(reader: Reader, node: DocumentNode) -> dict[str, tuple[OptionValue, ...]]:
    found = {}
    for name, below in reader.mapping(node).items():
        values = tuple(value for item in reader.listing(below) for value in _read_values(reader, item))
        if not values:
            reader.add_problem(
                below, f"option {name!r} has no values", rule="must be a list or a range of values"
            )
        found[str(name).replace("-", "_")] = tuple(dict.fromkeys(values))
    return found


def _read_values(reader: Reader, node: DocumentNode) -> Sequence[OptionValue]:
    """Return the values of a range such as ``50..200 step 50``, or a single value."""
    if isinstance(node.value, str) and split_range(node.value) is not None:
        span = read_range(reader, node, node.value)
        drawn = None if span is None else reader.collect_problems(node, lambda: span.values({}))
        return drawn or ()
    if isinstance(node.value, int | float | str):
        return (node.value,)
    reader.add_type_problem(node, "a number, a word, true or false")
    return ()


_VALUES_SHAPE: Shape = any_of(
    {"type": ["number", "string", "boolean"]},
    {"type": "array", "items": {"type": ["number", "string", "boolean"]}, "minItems": 1},
)
# fmt: off
GRID = Record("a tuning grid", (
    version_field(required=True),
    Field("vary", choice(get_args(Vary)),
          "`all`: all combinations of the values; `alone`: the planner as named, then every value alone",
          default="all"),
    Field("grid", ValueType("values by option", mapping_shape(_VALUES_SHAPE, least=1), _read_options),
          "per option of the planner: a list of values, or a range such as `50..200 step 50`",
          attribute="options", required=True, advice="add `grid:` with options and their values"),
))
# fmt: on
TUNING_RECORDS = {"grid": GRID}
"""The records of a tuning grid by the names of their tables on the reference page."""


def read_grid(document: Document) -> TuningGrid:
    """Return the tuning grid of a document; raise InvalidInput with every problem."""
    if document.root is None:
        raise InvalidInput("the file is empty", advice="write `weft: 1` and `grid:` with options")
    reader = Reader()
    values = GRID.read(reader, document.root)
    reader.finish(document)
    return TuningGrid(**values, document=document)
