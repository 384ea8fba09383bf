"""Loops that run until converged: a back edge with a condition (S1 sections 2.2 and 10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.errors import Problem
from weft.expressions import Expression
from weft.workflow.records.quantity import Quantity, constant

__all__ = ["ON_EXHAUSTED", "Loop"]

ON_EXHAUSTED = ("fail", "continue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """The body from task ``first`` to task ``last`` runs again until the condition holds.

    ``until`` is evaluated when ``last`` has ended. Tasks outside the body that wait for the loop, or for
    ``last``, run once, when the loop is left.
    """

    name: str
    last: str
    """Where the back edge starts (``from`` in files)."""
    first: str
    """Where the back edge leads (``to`` in files)."""
    until: Expression | None = None
    max_iterations: Quantity | None = None
    expect: Quantity | None = None
    """How many iterations are expected; None: the total is unknown before the run."""
    on_exhausted: str = "fail"

    def faults(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if self.until is None and self.max_iterations is None:
            yield Problem(
                what=f"loop {self.name} has neither until nor max_iterations",
                rule="a loop must be able to end",
                advice="add `until: CONDITION` or `max_iterations: N`",
            )
        for label, quantity in (("max_iterations", self.max_iterations), ("expect", self.expect)):
            number = constant(quantity)
            if number is not None and not (number >= 1 and number % 1 == 0):
                yield Problem(
                    what=f"{label} {number}", rule="must be a whole number, at least 1", path=(label,)
                )
