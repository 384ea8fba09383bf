"""A task: one node of the workflow, with the facets it needs (unified section 2)."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from weft.errors import Problem
from weft.expressions import Expression
from weft.workflow.records.amount import Amount, stated_quantities
from weft.workflow.records.data import Input, Output
from weft.workflow.records.dependency import Dependency
from weft.workflow.records.job import Job
from weft.workflow.records.moldable import Measured, SpeedUp
from weft.workflow.records.quantity import Quantity
from weft.workflow.records.recovery import NO_RECOVERY, RESERVED_CODES, Recovery
from weft.workflow.records.sweep import Range, Sweep

__all__ = ["Kind", "NodeCounts", "Task", "Transfer", "resource_path"]


class Kind(enum.Enum):
    """What a task is."""

    COMPUTE = "compute"
    """Runs a program on nodes of a machine."""
    TRANSFER = "transfer"
    """Moves a file between two abstract machines; occupies no nodes."""
    VIRTUAL = "virtual"
    """Does nothing and takes no time; ties dependencies together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What a transfer task moves, and between which abstract machines."""

    source: str
    target: str
    file: str
    size: Quantity | None = None


NodeCounts = tuple[Quantity | Range, ...]
"""Allowed node counts: single counts and ranges of them."""

_ONE: NodeCounts = (1,)
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task as the user describes it; with a sweep it stands for many subtasks."""

    name: str
    kind: Kind = Kind.COMPUTE
    sweep: Sweep | None = None
    after: tuple[Dependency, ...] = ()
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    work: Quantity | None = None
    """What a machine of speed 1 does in that many seconds."""
    seconds: Quantity | Mapping[str, Quantity] | None = None
    """Explicit times instead of work/speed: everywhere, or per machine."""
    nodes: NodeCounts = _ONE
    speedup: SpeedUp | None = None
    """How time falls with the nodes; None: not at all."""
    machine: str | None = None
    """Abstract machine: tasks that name the same one land on the same machine."""
    service: str | None = None
    """Only machines that offer it."""
    requirements: Expression | None = None
    """Only machines for which it holds."""
    rank: Expression | None = None
    """Machines with a higher value are preferred by policies that ask."""
    cores: Quantity | None = None
    """Cores needed on each node."""
    resources: Mapping[str, Amount] = field(default_factory=lambda: _NOTHING)
    """Countable amounts of the machine taken while running: memory (bytes), gpus, any name."""
    consumes: Mapping[str, Amount] = field(default_factory=lambda: _NOTHING)
    """What is used up of the workflow's budgets, for good."""
    transfer: Transfer | None = None
    job: Job | None = None
    recovery: Recovery = NO_RECOVERY
    outcomes: tuple[int, ...] = ()
    """Exit codes that are results, not failures."""
    attributes: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    """What a file of another system said about the task and weft keeps without reading."""

    @property
    def program(self) -> str:
        """Name what tasks have in common: the program where a trace tells it, else this description."""
        return str(self.attributes.get("program") or self.name)

    def faults(self) -> Iterator[Problem]:
        """Find what breaks this record's rules on its own; what needs the other records is in ``checks``."""
        if self.kind is not Kind.COMPUTE or self.transfer is not None:
            yield from self._kind_faults()
        if not (_sound(self.work) and _sound(self.cores)) or self.seconds is not None:
            yield from self._number_faults()
        if self.resources or self.consumes:
            yield from self._amount_faults()
        if self.nodes != _ONE:
            yield from self._count_faults()
        if self.recovery is not NO_RECOVERY:
            yield from self.recovery.faults()
        if self.speedup is not None:
            yield from self._speedup_faults(self.speedup)
        for code in self.outcomes:
            if code in RESERVED_CODES:
                rule = "85 (checkpointed, run me again) and 99 (requeue) are never outcomes"
                yield Problem(what=f"exit code {code} as an outcome", rule=rule, path=("outcomes",))

    def _kind_faults(self) -> Iterator[Problem]:
        if (self.kind is Kind.TRANSFER) != (self.transfer is not None):
            given = "with" if self.transfer else "without"
            what = f"task of kind {self.kind.value} {given} from/to/file"
            rule = "a transfer task has from, to and file, other tasks have not"
            yield Problem(what=what, rule=rule, path=("kind",))
        if self.kind is Kind.VIRTUAL and (self.work is not None or self.seconds is not None):
            yield Problem(what="a virtual task with work", rule="kind: virtual means no work", path=("kind",))

    def _number_faults(self) -> Iterator[Problem]:
        numbers: list[tuple[tuple[str, ...], Quantity | None]] = [
            (("work",), self.work),
            (("cores",), self.cores),
        ]
        if isinstance(self.seconds, Mapping):
            numbers += [(("seconds", machine), value) for machine, value in self.seconds.items()]
        else:
            numbers.append((("seconds",), self.seconds))
        for path, quantity in numbers:
            if not _sound(quantity):
                yield _unsound(path[-1], quantity, path)
        if self.work is not None and self.seconds is not None:
            rule = "only one of them says how long it takes"
            what = "both work and seconds are given"
            yield Problem(what=what, rule=rule, advice="remove one of them", path=("seconds",))

    def _amount_faults(self) -> Iterator[Problem]:
        for name, path, amount in self.amounts():
            for keys, quantity in stated_quantities(amount):
                if not _sound(quantity):
                    on = f" on {keys[0]} nodes" if keys else ""
                    yield _unsound(f"{name}{on}", quantity, (*path, *keys))
            if isinstance(amount, Mapping) and not (amount and min(amount) >= 1):
                what = f"{name} on {min(amount)} nodes" if amount else f"{name} by node count, but for none"
                yield Problem(what=what, rule="node counts are whole numbers, at least 1", path=path)
        if self.consumes and self.kind is not Kind.COMPUTE:
            what = f"a {self.kind.value} task that consumes {', '.join(self.consumes)}"
            yield Problem(what=what, rule="only compute tasks consume budgets", path=("consumes",))

    def amounts(self) -> Iterator[tuple[str, tuple[str, ...], Amount]]:
        """List what the task takes of resources and budgets: the name, its key in the file, the amount."""
        for name, amount in self.resources.items():
            yield name, resource_path(name), amount
        for name, amount in self.consumes.items():
            yield name, ("consumes", name), amount

    def _count_faults(self) -> Iterator[Problem]:
        for count in self.nodes:
            if isinstance(count, int | float) and not (count >= 1 and count % 1 == 0):
                rule = "must be a whole number, at least 1"
                yield Problem(what=f"node count {count}", rule=rule, path=("nodes",))

    def _speedup_faults(self, law: SpeedUp) -> Iterator[Problem]:
        yield from (replace(problem, path=("speedup", *problem.path)) for problem in law.faults())
        if self.nodes == _ONE and not isinstance(law, Measured):
            yield Problem(
                what="a speed-up law without node counts",
                rule="speedup describes a moldable task",
                advice="add `nodes:` with the allowed counts, such as [1, 2, 4]",
                path=("speedup",),
            )


def resource_path(name: str) -> tuple[str, ...]:
    """Give the key of the file format under which a resource is asked for."""
    return (name,) if name in ("memory", "gpus") else ("resources", name)


def _unsound(name: str, quantity: Quantity | None, path: tuple[str, ...]) -> Problem:
    return Problem(what=f"{name} is {quantity}", rule="must be a number, at least 0", path=path)


def _sound(quantity: Quantity | None) -> bool:
    return quantity is None or isinstance(quantity, Expression) or 0 <= quantity < math.inf
