"""Quantities, amounts by node count, ranges and parameter sweeps.

A quantity is a number or a formula. With a sweep, one task describes many subtasks: one per point, that is,
per combination of values of the sweep variables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from weft.errors import InvalidInput, shorten
from weft.expressions import Expression, Value, evaluate, evaluate_number
from weft.expressions.tree import FunctionCall, Literal, Name
from weft.records import dataclass

_Item = TypeVar("_Item")

Quantity = float | Expression
"""A number or a formula: work, a size, a time, a node count."""

Context = Mapping[str, Value]
"""Values by name that expressions use: parameters, sweep variables, results of other tasks."""


LARGEST_NUMBER = 1e300
"""All quantities must be smaller than this in magnitude; a larger one is a mistake whose sums overflow."""


def evaluate_quantity(quantity: Quantity, context: Context) -> float:
    """Return the value of a quantity; a formula is evaluated with these parameters and sweep variables."""
    if not isinstance(quantity, Expression):
        return quantity
    number = evaluate_number(quantity, context)
    if abs(number) >= LARGEST_NUMBER:  # NaN is refused where it is used
        size = f"a number of {number.bit_length()} bits" if isinstance(number, int) else f"{number:g}"
        raise InvalidInput(f"{shorten(quantity.text)} gives {size}", rule="must lie between -1e300 and 1e300")
    return number


def constant_value(quantity: Quantity | None) -> float | None:
    """Return the number of a quantity that is not a formula; None for formulas and None."""
    return None if quantity is None or isinstance(quantity, Expression) else quantity


Amount = Quantity | Mapping[int, Quantity]
"""One quantity, or one per allowed node count: ``{1: 2, 2: 3}``. A formula may use ``nodes``."""

COUNT_NAME = "nodes"
"""The name of the node count in formulas of amounts; parameters and sweep variables take precedence."""


def depends_on_count(amount: Amount, taken: Container[str]) -> bool:
    """Return whether an amount may depend on the node count.

    ``taken`` are the names of parameters and sweep variables. If one of them is ``nodes``, formulas read its
    value instead of the node count.
    """
    if isinstance(amount, Expression):
        return COUNT_NAME in amount.names and COUNT_NAME not in taken
    return isinstance(amount, Mapping)


def stated_quantities(amount: Amount) -> Iterator[tuple[tuple[str, ...], Quantity]]:
    """Yield (path below the amount, quantity); the path is the node count, or () for a single quantity."""
    if isinstance(amount, Mapping):
        yield from (((str(count),), quantity) for count, quantity in amount.items())
    else:
        yield (), amount


MAX_POINTS = 1_000_000
"""Maximum number of subtasks of a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Numbers from low to high, inclusive: ``1..50``, ``0.4..1.0 step 0.2``."""

    low: Expression
    high: Expression
    step: Expression | None = None

    def values(self, context: Context) -> Sequence[int] | Sequence[float]:
        """Return the numbers of the range; rounding errors of the step do not exclude the last one."""
        low = evaluate_quantity(self.low, context)
        high = evaluate_quantity(self.high, context)
        step = 1 if self.step is None else evaluate_quantity(self.step, context)
        if not step > 0:
            raise InvalidInput(f"the step of a range is {step}", rule="must be above 0")
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InvalidInput(f"range {self}", rule="the bounds of a range must be finite numbers")
        steps = (high - low) / step
        if steps >= MAX_POINTS:
            what = f"range {self} has more than {MAX_POINTS:,} values"
            raise InvalidInput(what, rule=f"at most {MAX_POINTS:,} are allowed")
        count = max(0, math.floor(steps + 1e-9) + 1)
        if isinstance(low, int) and isinstance(step, int):
            return range(low, low + count * step, step)
        # Round off the error of binary fractions: 0.4 + 2*0.2 is 0.8.
        return [float(f"{low + index * step:.12g}") for index in range(count)]

    def __str__(self) -> str:
        return f"{self.low}..{self.high}" + ("" if self.step is None else f" step {self.step}")


Values = Range | Expression | tuple[Value, ...]
"""The values of a sweep variable: a range, a list, or an expression that gives a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The variables of a sweep; its points are all combinations of their values, or pairs (``zip``)."""

    variables: tuple[tuple[str, Values], ...]
    paired: bool = False
    grown: tuple[tuple[str, str], ...] = ()
    """Variables whose values are the lines of a file that a task of the run has written, with this file."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the variables in the order of the file."""
        return tuple(name for name, _ in self.variables)

    @property
    def from_file(self) -> tuple[str, ...]:
        """Return the variables whose values a task of the run has written (``lines(...)``), not the user."""
        return tuple(name for name, _ in self.grown)


def is_growing(values: Values) -> bool:
    """Return whether the values are known only during the run: ``lines(split.parts)``."""
    return growth_file(values) is not None


def growth_file(values: Values) -> str | None:
    """Return the file whose lines are the values (``lines(...)``); None for other values."""
    tree = values.tree if isinstance(values, Expression) else None
    if not isinstance(tree, FunctionCall) or tree.function != "lines":
        return None
    (argument,) = tree.arguments
    if isinstance(argument, Name):
        return argument.name
    return argument.value if isinstance(argument, Literal) and isinstance(argument.value, str) else None


def grows(sweep: Sweep | None) -> bool:
    """Return whether some values of a sweep are known only during the run."""
    return sweep is not None and any(is_growing(values) for _, values in sweep.variables)


class SweepPoints(Sequence[tuple[Value, ...]]):
    """The points of a sweep; the last variable varies fastest.

    A point is computed when it is read, so a million points need only the memory of the variables' values.
    """

    __slots__ = ("_length", "columns", "paired")

    def __init__(self, columns: Sequence[Sequence[Value]], *, paired: bool = False) -> None:
        self.columns = tuple(columns)
        """Per variable: its values."""
        self.paired = paired
        if paired:
            self._length = len(self.columns[0]) if self.columns else 0
        else:
            self._length = math.prod(map(len, self.columns))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self._length))]
        rest = int(index)
        if not 0 <= rest < self._length:
            raise IndexError(f"point {rest} of {self._length}")
        if self.paired:
            return tuple(column[rest] for column in self.columns)
        found: list[Value] = []
        for column in reversed(self.columns):
            rest, position = divmod(rest, len(column))
            found.append(column[position])
        return tuple(reversed(found))

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        return combine(self.columns, paired=self.paired)


def combine(columns: Sequence[Sequence[_Item]], *, paired: bool) -> Iterator[tuple[_Item, ...]]:
    """Return the pairs or the cross product of columns, in the order of the points of a sweep."""
    return zip(*columns, strict=True) if paired else itertools.product(*columns)


def _list_values(name: str, values: Values, context: Context) -> Sequence[Value]:
    """Return the values of a sweep variable, or raise InvalidInput."""
    listed: Sequence[Value]
    if isinstance(values, tuple):
        listed = values
    elif isinstance(values, Range):
        listed = values.values(context)
    elif is_growing(values):
        # One task until the file exists (docs/reference/file-format.md, "Growth").
        listed = ["*"]
    else:
        found = evaluate(values, context)
        if not isinstance(found, list):
            what = f"sweep variable {name}: {values} gives {shorten(found)}"
            raise InvalidInput(what, rule="the expression must give a list")
        listed = found
    if not isinstance(values, Range):
        _check_values(name, listed)
    if not listed:
        advice = "give at least one value, or remove the sweep"
        raise InvalidInput(f"sweep variable {name} has no values", advice=advice)
    return listed


def _check_values(name: str, listed: Sequence[Value]) -> None:
    for value in listed:
        if not isinstance(value, str | int | float) or (
            isinstance(value, float) and not math.isfinite(value)
        ):
            what = f"sweep variable {name} takes the value {shorten(value)}"
            raise InvalidInput(what, rule="must be a finite number, text or true/false")


def _column(name: str, values: Values, context: Context) -> Sequence[Value]:
    try:
        return _list_values(name, values, context)
    except InvalidInput as error:
        raise InvalidInput([replace(problem, path=(name,)) for problem in error.problems]) from None


def list_points(sweep: Sweep, context: Context) -> SweepPoints:
    """Return the points of a sweep.

    Raises InvalidInput; the path of a problem with one variable is the name of the variable.
    """
    columns = [_column(name, values, context) for name, values in sweep.variables]
    if sweep.paired:
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            sizes = ", ".join(
                f"{name} has {len(column)}" for name, column in zip(sweep.names, columns, strict=True)
            )
            what = f"paired sweep variables have different numbers of values: {sizes}"
            raise InvalidInput(what, rule="with `zip`, all sweep variables must have equally many values")
        return SweepPoints(columns, paired=True)
    if (total := math.prod(len(column) for column in columns)) > MAX_POINTS:
        what = f"the sweep has {total} points"
        raise InvalidInput(what, rule=f"at most {MAX_POINTS:,} are allowed")
    return SweepPoints(columns)
