"""A workflow: what the user wrote, whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.documents import Document
from weft.expressions import Expression, Value
from weft.workflow.records.loop import Loop
from weft.workflow.records.quantity import Quantity
from weft.workflow.records.task import Task

__all__ = ["Parameter", "Workflow"]

Parameter = Value | Expression
"""A parameter is a value, or a formula over other parameters (``"=7*atoms"``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A directed graph of tasks with loops and sweeps, and the parameters they use."""

    name: str
    tasks: tuple[Task, ...]
    loops: tuple[Loop, ...] = ()
    params: Mapping[str, Parameter] = field(default_factory=dict)
    budgets: Mapping[str, Quantity] = field(default_factory=dict)
    """Amounts that all tasks together may use up: what tasks consume is never given back."""
    description: str | None = None
    owner: str | None = None
    document: Document | None = field(default=None, compare=False, repr=False)
    """Where it was read from, so that errors can point there; not part of what it says."""
