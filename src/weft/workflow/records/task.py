"""A task: one node of the workflow, with the facets it needs (unified section 2)."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from weft.errors import Problem
from weft.expressions import Expression
from weft.workflow.records.data import Input, Output
from weft.workflow.records.dependency import Dependency
from weft.workflow.records.job import Job
from weft.workflow.records.moldable import Measured, SpeedUp
from weft.workflow.records.quantity import Quantity, constant
from weft.workflow.records.recovery import Recovery
from weft.workflow.records.sweep import Range, Sweep

__all__ = ["Kind", "NodeCounts", "Task", "Transfer"]


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
_NO_RECOVERY = Recovery()
_NO_RESOURCES: Mapping[str, Quantity] = {}


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
    resources: Mapping[str, Quantity] = field(default_factory=lambda: _NO_RESOURCES)
    """Countable amounts of the machine taken while running: memory (bytes), gpus, any name."""
    transfer: Transfer | None = None
    job: Job | None = None
    recovery: Recovery = _NO_RECOVERY
    outcomes: tuple[int, ...] = ()
    """Exit codes that are results, not failures."""
    attributes: Mapping[str, object] = field(default_factory=lambda: _NO_RESOURCES)
    """What a file of another system said about the task and weft keeps without reading."""

    def faults(self) -> Iterator[Problem]:
        """Find what breaks this record's rules on its own; what needs the other records is in ``checks``."""
        yield from self._number_faults()
        yield from self._kind_faults()
        yield from self.recovery.faults()
        if self.speedup is not None:
            yield from (_at(("speedup",), problem) for problem in self.speedup.faults())
            if self.nodes == _ONE and not isinstance(self.speedup, Measured):
                yield Problem(
                    what="a speed-up law without node counts",
                    rule="speedup describes a moldable task",
                    advice="add `nodes:` with the allowed counts, such as [1, 2, 4]",
                    path=("speedup",),
                )

    def _number_faults(self) -> Iterator[Problem]:
        numbers: list[tuple[str, Quantity | None]] = [("work", self.work), ("cores", self.cores)]
        if isinstance(self.seconds, Mapping):
            numbers += [("seconds", value) for value in self.seconds.values()]
        else:
            numbers.append(("seconds", self.seconds))
        numbers += list(self.resources.items())
        for label, quantity in numbers:
            number = constant(quantity)
            if number is not None and not (number >= 0 and math.isfinite(number)):
                path = (
                    (label,)
                    if label in ("work", "cores", "seconds", "memory", "gpus")
                    else ("resources", label)
                )
                yield Problem(what=f"{label} is {number:g}", rule="must be a number, at least 0", path=path)
        for count in self.nodes:
            if isinstance(count, int | float) and (count < 1 or count != int(count)):
                yield Problem(
                    what=f"node count {count}", rule="must be a whole number, at least 1", path=("nodes",)
                )

    def _kind_faults(self) -> Iterator[Problem]:
        if (self.kind is Kind.TRANSFER) != (self.transfer is not None):
            yield Problem(
                what=f"task of kind {self.kind.value} "
                + ("with" if self.transfer else "without")
                + " from/to/file",
                rule="a transfer task has from, to and file, other tasks have not",
                path=("kind",),
            )
        if self.work is not None and self.seconds is not None:
            yield Problem(
                what="both work and seconds are given", rule="only one of them says how long it takes",
                advice="remove one of them", path=("seconds",),
            )  # fmt: skip
        if self.kind is Kind.VIRTUAL and (self.work is not None or self.seconds is not None):
            yield Problem(what="a virtual task with work", rule="kind: virtual means no work", path=("kind",))


def _at(path: tuple[str, ...], problem: Problem) -> Problem:
    return Problem(what=problem.what, rule=problem.rule, advice=problem.advice, path=(*path, *problem.path))
