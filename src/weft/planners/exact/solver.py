"""The solver: OR-Tools' CP-SAT behind the few things our models say. Nothing else here imports it.

L. Perron, F. Didier, S. Gay, The CP-SAT-LP Solver, CP 2023. Variables are whole numbers; a literal is one of
0 and 1; ``when`` names literals that must all be 1 for a rule to hold.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from ortools.sat.python import cp_model, cp_model_helper

__all__ = [
    "Expression",
    "Interval",
    "Limits",
    "Literal",
    "Model",
    "SolutionCallback",
    "SolverResult",
    "Value",
]

Expression = cp_model.LinearExpr
"""A variable, or a sum of variables and numbers."""
Literal = cp_model_helper.Literal
Interval = cp_model.IntervalVar
Value = Callable[[Expression], int]
"""Gives what an expression is in a solution."""
SolutionCallback = Callable[[float, Value], bool]
"""Hears of a solution, the bound and its values; says whether to search on."""


_SEARCHES = ("quick_restart_no_lp", "no_lp", "default_lp")
"""What one worker runs in turn beside searches of neighbourhoods: clauses prove more here than LPs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how to search."""

    seed: int
    workers: int
    """Threads; one searches the same way every time."""
    effort: float | None
    """CP-SAT's deterministic seconds; None: no limit."""
    clock_s: float | None
    """None: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SolverResult:
    """What a search came to."""

    found: bool
    """Whether there is a solution."""
    proven: bool
    """Whether nothing better can exist (or, without a solution, nothing at all)."""
    bound: float
    """No solution has a smaller objective."""
    effort: float
    """Deterministic seconds spent."""
    taken_s: float
    """By the clock."""
    value: Value
    """Of the best solution."""


class Model:
    """Variables and rules."""

    def __init__(self) -> None:
        self._model = cp_model.CpModel()
        self._hints: dict[int, tuple[cp_model.IntVar, int]] = {}

    def integer(self, low: int, high: int) -> Expression:
        """Make a variable."""
        return self._model.new_int_var(low, high, "")

    def literal(self) -> Literal:
        """Make a variable that is 0 or 1."""
        return self._model.new_bool_var("")

    def always(self) -> Literal:
        """Give a literal that is 1."""
        return self._model.new_constant(1)

    def one_of(self, literals: Sequence[Literal]) -> None:
        """Let exactly one be 1."""
        self._model.add_exactly_one(literals)

    def some_of(self, literals: Sequence[Literal]) -> None:
        """Let at least one be 1."""
        self._model.add_bool_or(literals)

    def at_most(self, left: Expression, right: Expression | int, when: Sequence[Literal] = ()) -> None:
        """Let one expression be no more than another."""
        rule = self._model.add(left <= right)
        if when:
            rule.only_enforce_if(when)

    def equal(self, left: Expression, right: Expression) -> None:
        """Let two expressions be the same."""
        self._model.add(left == right)

    def total(self, variables: Sequence[Expression], weights: Sequence[int]) -> Expression:
        """Give a weighted sum."""
        return cp_model.LinearExpr.weighted_sum(variables, weights)

    def interval(
        self, start: Expression | int, length: int, end: Expression | int, when: Literal | None = None
    ) -> Interval:
        """Make a stretch of time; it exists if ``when`` is 1."""
        if when is None:
            return self._model.new_interval_var(start, length, end, "")
        return self._model.new_optional_interval_var(start, length, end, when, "")

    def in_turn(self, intervals: Sequence[Interval]) -> None:
        """Let no two overlap."""
        self._model.add_no_overlap(intervals)

    def together(self, intervals: Sequence[Interval], taken: Sequence[int], capacity: int) -> None:
        """Let no more be taken at any moment than there is."""
        self._model.add_cumulative(intervals, taken, capacity)

    def hint(self, variable: Expression, value: int) -> None:
        """Say where to start from; of two hints the last counts, those of sums and numbers do not."""
        if isinstance(variable, cp_model.IntVar):
            self._hints[variable.index] = (variable, value)

    def minimise(self, expression: Expression) -> None:
        """Say what is to be small."""
        self._model.minimize(expression)

    def solve(self, limits: Limits, told: SolutionCallback | None = None) -> SolverResult:
        """Search; ``told`` hears of every better solution. An error in it ends the search and is raised."""
        solver = cp_model.CpSolver()
        _set(solver, limits)
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in self._hints.values():
            self._model.add_hint(variable, value)
        ear = None if told is None else _SolutionReporter(told)
        with _SignalHandover() as interrupts:
            solver.parameters.catch_sigint_signal = interrupts.lent
            status = solver.solve(self._model, ear)
        if ear is not None and ear.failure is not None:
            raise ear.failure
        assert status != cp_model.MODEL_INVALID, self._model.validate()
        return SolverResult(
            found=status in (cp_model.OPTIMAL, cp_model.FEASIBLE),
            proven=status in (cp_model.OPTIMAL, cp_model.INFEASIBLE),
            bound=float(solver.best_objective_bound),
            effort=float(solver.deterministic_time),
            taken_s=float(solver.wall_time),
            value=solver.value,
        )


def _set(solver: cp_model.CpSolver, limits: Limits) -> None:
    given = solver.parameters
    given.random_seed = limits.seed
    given.num_workers = limits.workers
    if limits.workers == 1:
        given.interleave_search = True
        given.subsolvers.extend(_SEARCHES)
    if limits.effort is not None:
        given.max_deterministic_time = limits.effort
    if limits.clock_s is not None:
        given.max_time_in_seconds = max(0.0, limits.clock_s)
    # Wrong in OR-Tools 9.15 where a task has several optional intervals: "optimal" solutions that are not
    # (PSPLIB j1039_1.mm, a third of all seeds). The cuts add nothing to our own rows.
    given.use_disjunctive_constraint_in_cumulative = False
    given.cut_level = 0
    given.cp_model_probing_level = 0
    given.max_presolve_iterations = 1


class _SolutionReporter(cp_model.CpSolverSolutionCallback):
    """Passes every better solution on."""

    def __init__(self, told: SolutionCallback) -> None:
        super().__init__()
        self.told = told
        self.failure: BaseException | None = None

    def on_solution_callback(self) -> None:
        """Tell of the solution; nothing may be raised through the solver."""
        try:
            if not self.told(self.best_objective_bound, self.value):
                self.stop_search()
        except BaseException as failure:  # KeyboardInterrupt, too
            self.failure = failure
            self.stop_search()


class _SignalHandover:
    """Lends Ctrl-C to the solver, which then stops and gives what it has.

    The solver leaves the signal as the system knows it, not as Python does, so it has to be put back. Only
    the main thread can; elsewhere the solver does not get it.
    """

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self.lent = self._put_back()
        return self

    def __exit__(self, *failure: object) -> None:
        if self.lent:
            self._put_back()

    def _put_back(self) -> bool:
        try:
            signal.signal(signal.SIGINT, self._before)
        except (TypeError, ValueError):  # set by other than Python; not the main thread
            return False
        return True
