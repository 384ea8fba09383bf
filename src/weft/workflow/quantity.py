"""A number that is known, or a formula that will give one.

An amount a task takes: the same on any number of nodes, or one that depends on the node count.

Parameter sweeps: one task description, many subtasks, one per point of a value space.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

from weft.errors import InvalidInput, Problem, shorten
from weft.expressions import Expression, Value, evaluate, evaluate_number
from weft.expressions.tree import FunctionCall, Literal, Name

__all__ = [
    "COUNT_NAME",
    "MAX_POINTS",
    "Amount",
    "Context",
    "Quantity",
    "Range",
    "Sweep",
    "Values",
    "constant_value",
    "depends_on_count",
    "evaluate_quantity",
    "growth_file",
    "is_growing",
    "list_points",
    "list_values",
    "stated_quantities",
]


Quantity = float | Expression
"""A number by nature: work, a size, a time, a node count."""

Context = Mapping[str, Value]
"""The names an expression may use: parameters, sweep variables, results of other tasks."""


_MOST_BITS = 996
"""Larger integers do not fit into a float."""


def evaluate_quantity(quantity: Quantity, context: Context) -> float:
    """Give the number in a context of parameters and sweep variables."""
    if not isinstance(quantity, Expression):
        return quantity
    number = evaluate_number(quantity, context)
    if isinstance(number, int) and number.bit_length() > _MOST_BITS:
        what = f"{shorten(quantity.text)} gives a number of {number.bit_length()} bits"
        raise InvalidInput(Problem(what=what, rule="must lie within 1e300"))
    return number


def constant_value(quantity: Quantity | None) -> float | None:
    """Give the number if it is known without a context, else None."""
    return None if quantity is None or isinstance(quantity, Expression) else quantity


Amount = Quantity | Mapping[int, Quantity]
"""One quantity, or one per allowed node count: ``{1: 2, 2: 3}``; a formula may speak of ``nodes``."""

COUNT_NAME = "nodes"
"""The node count in the formula of an amount; a parameter or sweep variable of that name wins."""


def depends_on_count(amount: Amount, taken: Container[str]) -> bool:
    """Say whether an amount may differ by node count; ``taken``: names with another meaning."""
    if isinstance(amount, Expression):
        return COUNT_NAME in amount.names and COUNT_NAME not in taken
    return isinstance(amount, Mapping)


def stated_quantities(amount: Amount) -> Iterator[tuple[tuple[str, ...], Quantity]]:
    """List the quantities of an amount, each with the keys below its own under which the file has it."""
    if isinstance(amount, Mapping):
        yield from (((str(count),), quantity) for count, quantity in amount.items())
    else:
        yield (), amount


MAX_POINTS = 1_000_000
"""More subtasks than this are a mistake in the description, not a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Numbers from low to high, both included: ``1..50``, ``0.4..1.0 step 0.2``."""

    low: Expression
    high: Expression
    step: Expression | None = None

    def values(self, context: Context) -> list[Value]:
        """List the numbers; rounding of the step never loses the last one."""
        low = evaluate_quantity(self.low, context)
        high = evaluate_quantity(self.high, context)
        step = 1 if self.step is None else evaluate_quantity(self.step, context)
        if not step > 0:
            raise InvalidInput(Problem(what=f"step {step} of a range", rule="must be above 0"))
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InvalidInput(Problem(what=f"range {self}", rule="its ends must be finite numbers"))
        steps = (high - low) / step
        if steps >= MAX_POINTS:
            what = f"range {self} has more than {MAX_POINTS:,} values"
            raise InvalidInput(Problem(what=what, rule=f"at most {MAX_POINTS:,} are allowed"))
        count = max(0, math.floor(steps + 1e-9) + 1)
        if isinstance(low, int) and isinstance(step, int):
            return [low + index * step for index in range(count)]
        # 0.4 + 2*0.2 is 0.8 to the reader: drop the noise of binary fractions.
        return [float(f"{low + index * step:.12g}") for index in range(count)]

    def __str__(self) -> str:
        return f"{self.low}..{self.high}" + ("" if self.step is None else f" step {self.step}")


Values = Range | Expression | tuple[Value, ...]
"""The value set of one sweep variable: a range, an expression that gives a list, or the list itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The space of a parameter-sweep task: the cross product of its variables, or their pairing (``zip``)."""

    variables: tuple[tuple[str, Values], ...]
    paired: bool = False
    from_file: tuple[str, ...] = ()
    """The variables whose values are no words of the user: a task has written them (``lines(...)``)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Name the sweep variables, in the order they were written."""
        return tuple(name for name, _ in self.variables)


def is_growing(values: Values) -> bool:
    """Say whether a value set is known only during the run: ``lines(split.parts)``."""
    return growth_file(values) is not None


def growth_file(values: Values) -> str | None:
    """Name the file whose lines are the values of a growing sweep; None if it does not grow."""
    tree = values.tree if isinstance(values, Expression) else None
    if not isinstance(tree, FunctionCall) or tree.function != "lines":
        return None
    (argument,) = tree.arguments
    if isinstance(argument, Name):
        return argument.name
    return argument.value if isinstance(argument, Literal) and isinstance(argument.value, str) else None


def list_values(name: str, values: Values, context: Context) -> list[Value]:
    """List the values of one sweep variable."""
    if isinstance(values, tuple):
        listed: list[Value] = list(values)
    elif isinstance(values, Range):
        listed = values.values(context)
    elif is_growing(values):
        # Unfolded when the file exists; planners see one task until then (format.md, "Growth").
        listed = ["*"]
    else:
        found = evaluate(values, context)
        if not isinstance(found, list):
            what = f"sweep variable {name}: {values} gives {shorten(found)}"
            raise InvalidInput(Problem(what=what, rule="must give a list"))
        listed = found
    if not isinstance(values, Range):
        _check_values(name, listed)
    if not listed:
        advice = "give at least one value, or remove the sweep"
        raise InvalidInput(Problem(what=f"sweep variable {name} has no values", advice=advice))
    return listed


def _check_values(name: str, listed: list[Value]) -> None:
    for value in listed:
        if not isinstance(value, str | int | float) or (
            isinstance(value, float) and not math.isfinite(value)
        ):
            what = f"sweep variable {name} takes the value {shorten(value)}"
            raise InvalidInput(Problem(what=what, rule="must be a finite number, text or true/false"))


def _column(name: str, values: Values, context: Context) -> list[Value]:
    try:
        return list_values(name, values, context)
    except InvalidInput as error:
        raise InvalidInput([replace(problem, path=(name,)) for problem in error.problems]) from None


def list_points(sweep: Sweep, context: Context) -> list[tuple[Value, ...]]:
    """List the points of a sweep in row-major order; an error says which variable it belongs to."""
    columns = [_column(name, values, context) for name, values in sweep.variables]
    if sweep.paired:
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            sizes = ", ".join(
                f"{name} has {len(column)}" for name, column in zip(sweep.names, columns, strict=True)
            )
            what = f"zip of sweep variables of different length: {sizes}"
            raise InvalidInput(Problem(what=what, rule="paired variables need equally many values"))
        return list(zip(*columns, strict=True))
    total = math.prod(len(column) for column in columns)
    if total > MAX_POINTS:
        what = f"a sweep of {total} points"
        raise InvalidInput(Problem(what=what, rule=f"at most {MAX_POINTS:,} are allowed"))
    return list(itertools.product(*columns))
