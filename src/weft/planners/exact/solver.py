"""A thin layer over CP-SAT; no other module imports OR-Tools.

L. Perron, F. Didier, S. Gay, The CP-SAT-LP Solver, CP 2023. Variables are integers; a literal is 0 or 1; a
constraint with ``when`` is enforced only if all literals in ``when`` are 1.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from ortools.sat.python import cp_model, cp_model_helper

Expression = cp_model.LinearExpr
"""A variable, or a linear sum of variables."""
Literal = cp_model_helper.Literal
Interval = cp_model.IntervalVar
Value = Callable[[Expression], int]
"""Function that returns the value of an expression in a solution."""
SolutionCallback = Callable[[float, Value], bool]
"""Function called for every better solution, with the bound and a function that returns its values.

It returns whether the solver continues.
"""


_SEARCHES = ("quick_restart_no_lp", "no_lp", "default_lp")
"""Subsolvers of a single worker besides neighbourhood searches.

On these models the subsolvers without linear programming (LP) prove better bounds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits and settings of a call of the solver."""

    seed: int
    workers: int
    """Number of threads; only one thread is deterministic."""
    effort: float | None
    """Deterministic seconds of CP-SAT; None: no limit."""
    clock_s: float | None
    """Seconds of wall-clock time; None: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SolverResult:
    """The result of a call of the solver."""

    found: bool
    """Whether the solver found a solution."""
    proven: bool
    """Whether the solution is proven optimal or, without a solution, the model proven infeasible."""
    bound: float
    """Lower bound on the objective."""
    effort: float
    """Deterministic seconds spent."""
    taken_s: float
    """Seconds of wall-clock time spent."""
    value: Value
    """Function that returns the value of an expression in the best solution."""


class Model:
    """A model for CP-SAT: variables, constraints, hints and objective."""

    def __init__(self) -> None:
        self._model = cp_model.CpModel()
        self._hints: dict[int, tuple[cp_model.IntVar, int]] = {}

    def integer(self, low: int, high: int) -> Expression:
        """Return a new integer variable with values from ``low`` to ``high``."""
        return self._model.new_int_var(low, high, "")

    def literal(self) -> Literal:
        """Return a new variable that is 0 or 1."""
        return self._model.new_bool_var("")

    def always(self) -> Literal:
        """Return a literal that is 1."""
        return self._model.new_constant(1)

    def one_of(self, literals: Sequence[Literal]) -> None:
        """Require that exactly one literal is 1."""
        self._model.add_exactly_one(literals)

    def some_of(self, literals: Sequence[Literal]) -> None:
        """Require that at least one literal is 1."""
        self._model.add_bool_or(literals)

    def at_most(self, left: Expression, right: Expression | int, when: Sequence[Literal] = ()) -> None:
        """Require ``left <= right`` if all literals of ``when`` are 1."""
        rule = self._model.add(left <= right)
        if when:
            rule.only_enforce_if(when)

    def equal(self, left: Expression, right: Expression) -> None:
        """Require ``left == right``."""
        self._model.add(left == right)

    def total(self, variables: Sequence[Expression], weights: Sequence[int]) -> Expression:
        """Return the sum of the variables times their weights."""
        return cp_model.LinearExpr.weighted_sum(variables, weights)

    def interval(
        self, start: Expression | int, length: int, end: Expression | int, when: Literal | None = None
    ) -> Interval:
        """Return a new interval; with ``when``, constraints ignore the interval if this literal is 0."""
        if when is None:
            return self._model.new_interval_var(start, length, end, "")
        return self._model.new_optional_interval_var(start, length, end, when, "")

    def in_turn(self, intervals: Sequence[Interval]) -> None:
        """Require that no two intervals overlap."""
        self._model.add_no_overlap(intervals)

    def together(self, intervals: Sequence[Interval], taken: Sequence[int], capacity: int) -> None:
        """Require that overlapping intervals together take at most the capacity."""
        self._model.add_cumulative(intervals, taken, capacity)

    def hint(self, variable: Expression, value: int) -> None:
        """Set the start value of a variable, or replace it. Hints for sums and constants are ignored."""
        if isinstance(variable, cp_model.IntVar):
            self._hints[variable.index] = (variable, value)

    def minimise(self, expression: Expression) -> None:
        """Set the expression that the solver minimises."""
        self._model.minimize(expression)

    def solve(self, limits: Limits, on_solution: SolutionCallback | None = None) -> SolverResult:
        """Run the solver and return its result; an exception of the callback ends the call and is raised."""
        solver = cp_model.CpSolver()
        _set(solver, limits)
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in self._hints.values():
            self._model.add_hint(variable, value)
        reporter = None if on_solution is None else _SolutionReporter(on_solution)
        with _SignalHandover() as interrupts:
            solver.parameters.catch_sigint_signal = interrupts.handed_over
            status = solver.solve(self._model, reporter)
        if reporter is not None and reporter.failure is not None:
            raise reporter.failure
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
    # OR-Tools 9.15 returns wrong "optimal" solutions with this option if a task has several optional
    # intervals (PSPLIB j1039_1.mm, a third of all seeds). The cuts add nothing to our redundant constraints.
    given.use_disjunctive_constraint_in_cumulative = False
    given.cut_level = 0
    given.cp_model_probing_level = 0
    given.max_presolve_iterations = 1


class _SolutionReporter(cp_model.CpSolverSolutionCallback):
    """Passes every better solution to the callback."""

    def __init__(self, on_solution: SolutionCallback) -> None:
        super().__init__()
        self.on_solution = on_solution
        self.failure: BaseException | None = None

    def on_solution_callback(self) -> None:
        """Call the callback and store its exception, which must not propagate through the solver."""
        try:
            if not self.on_solution(self.best_objective_bound, self.value):
                self.stop_search()
        except BaseException as failure:  # including KeyboardInterrupt
            self.failure = failure
            self.stop_search()


class _SignalHandover:
    """Passes Ctrl-C to the solver, which then stops and returns its best solution.

    The solver restores the signal handler of the operating system, but not that of Python, so that Python's
    handler is set again on exit. Only the main thread can set a handler; in other threads the solver does not
    handle the signal.
    """

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self.handed_over = self._put_back()
        return self

    def __exit__(self, *failure: object) -> None:
        if self.handed_over:
            self._put_back()

    def _put_back(self) -> bool:
        try:
            signal.signal(signal.SIGINT, self._before)
        except (TypeError, ValueError):  # the handler is not a Python one, or this is not the main thread
            return False
        return True
