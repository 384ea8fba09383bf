"""A number that is known, or a formula that will give one."""

from __future__ import annotations

from collections.abc import Mapping

from weft.expressions import Expression, Value, evaluate_number

__all__ = ["Context", "Quantity", "constant", "value_of"]

Quantity = float | Expression
"""A number by nature: work, a size, a time, a node count."""

Context = Mapping[str, Value]
"""The names an expression may use: parameters, sweep variables, results of other tasks."""


def value_of(quantity: Quantity, context: Context) -> float:
    """Give the number in a context of parameters and sweep variables."""
    if isinstance(quantity, Expression):
        return evaluate_number(quantity, context)
    return quantity


def constant(quantity: Quantity | None) -> float | None:
    """Give the number if it is known without a context, else None."""
    return None if quantity is None or isinstance(quantity, Expression) else quantity
