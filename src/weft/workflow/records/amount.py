"""An amount a task takes: the same on any number of nodes, or one that depends on the node count."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from weft.expressions import Expression
from weft.workflow.records.quantity import Quantity

__all__ = ["COUNT_NAME", "Amount", "depends_on_count", "stated_quantities"]

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
