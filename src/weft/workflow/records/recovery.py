"""What keeps a task's promise: checkpoints, progress, the performance contract, retries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from weft.errors import Problem
from weft.workflow.records.quantity import Quantity, constant

__all__ = ["CAUSES", "NO_RECOVERY", "ON_FAILURE", "RESERVED_CODES", "Checkpoint", "Contract", "Recovery"]

CAUSES = ("error", "oom", "timeout", "preempted", "lost", "staging", "contract", "cancelled")
"""Causes of failure that may have retries of their own (design section 6)."""

ON_FAILURE = ("hold", "reschedule", "stop", "continue")
"""What happens when the retries are used up."""

RESERVED_CODES = (85, 99)
"""Exit codes with a meaning of their own (checkpointed, run me again; requeue): never an outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Restart files written at intervals (S3 section 2)."""

    files: tuple[str, ...]
    every: Quantity | None = None
    """Seconds between two checkpoints."""
    nodes: str = "same"
    """``any``: valid for any node count; ``same``: only for the count it was written with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The performance a running attempt owes (S1 section 9): violated when the projected time exceeds
    ``(1 + factor)`` times the estimate, after a grace period.
    """

    factor: float | None = 0.5
    """None: never violated by time."""
    grace_s: float | None = None
    """Seconds before it is first judged; None: a tenth of the estimate."""

    def faults(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if self.factor is not None and not (self.factor >= 0 and math.isfinite(self.factor)):
            what = f"contract factor {self.factor}"
            yield Problem(what=what, rule="must be at least 0", path=("contract",))
        if self.grace_s is not None and not self.grace_s >= 0:
            yield Problem(what=f"grace of {self.grace_s} s", rule="must be at least 0", path=("contract",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How a task is watched and what happens when it fails."""

    checkpoint: Checkpoint | None = None
    progress: str | None = None
    """Name of the file in which the task reports its progress."""
    contract: Contract | None = None
    retries: int | None = None
    """For every cause without its own number; None: the default of the run."""
    retries_by_cause: Mapping[str, int] = field(default_factory=dict)
    on_failure: str | None = None
    time_limit: Quantity | None = None
    """Seconds after which an attempt is ended."""

    def faults(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if self.contract is not None:
            yield from self.contract.faults()
        limit = constant(self.time_limit)
        if limit is not None and not limit > 0:
            yield Problem(what=f"time limit of {limit} s", rule="must be above 0", path=("time_limit",))
        every = constant(self.checkpoint.every) if self.checkpoint else None
        if every is not None and not every > 0:
            what = f"a checkpoint every {every} s"
            yield Problem(what=what, rule="must be above 0", path=("checkpoint", "every"))


NO_RECOVERY = Recovery()
"""What most tasks say: nothing."""
