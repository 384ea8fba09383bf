"""A number that is known, or a formula that will give one."""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import InvalidInput, Problem, shorten
from weft.expressions import Expression, Value, evaluate_number

__all__ = ["Context", "Quantity", "constant", "value_of"]

Quantity = float | Expression
"""A number by nature: work, a size, a time, a node count."""

Context = Mapping[str, Value]
"""The names an expression may use: parameters, sweep variables, results of other tasks."""


_MOST_BITS = 996
"""Larger integers do not fit into a float."""


def value_of(quantity: Quantity, context: Context) -> float:
    """Give the number in a context of parameters and sweep variables."""
    if not isinstance(quantity, Expression):
        return quantity
    number = evaluate_number(quantity, context)
    if isinstance(number, int) and number.bit_length() > _MOST_BITS:
        what = f"{shorten(quantity.text)} gives a number of {number.bit_length()} bits"
        raise InvalidInput(Problem(what=what, rule="must lie within 1e300"))
    return number


def constant(quantity: Quantity | None) -> float | None:
    """Give the number if it is known without a context, else None."""
    return None if quantity is None or isinstance(quantity, Expression) else quantity
