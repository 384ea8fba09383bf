"""What a task waits for: all subtasks of another task, some of them by index, and under which condition."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.expressions import Expression, Value

__all__ = ["ALL", "Dependency", "IndexRange"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRange:
    """Values from low to high, both included: ``a[2*j-1..2*j]``. Values outside the sweep are left out."""

    low: Expression
    high: Expression


ALL = "*"
"""An index that stands for every value of its sweep variable: ``a[i, *]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """An edge, or a family of edges, from ``task`` to the task that holds this record.

    Patterns (S4 section 7, unified section 2): no index = all to all; ``a[k]`` one to one;
    ``a[(j-1)//2 + 1]`` fan-out; ``a[2*j-1..2*j]`` fan-in; ``a[k-1..k+1]`` window, clipped; ``pairs``
    explicit.
    """

    task: str
    """Name of a task, or of a loop: then the edge starts when the loop is left."""
    index: tuple[Expression | IndexRange | str, ...] | None = None
    """One entry per sweep variable of ``task``: an expression, a range, or ALL."""
    pairs: tuple[tuple[Value, Value], ...] | None = None
    """Explicit (value of task, value of this task) pairs; each task has one sweep variable."""
    condition: Expression | None = None
    """Over ``exit_code`` and ``result`` of ``task``; false: this branch is not taken."""
    entry: int | None = field(default=None, compare=False, repr=False)
    """Which entry of ``after`` in the file it comes from, so that errors can point there."""
