"""The performance a running attempt owes, and the moment at which it breaks its contract.

One interface for the promises of two papers (spec unified section 6): a ratio of projected to predicted time,
and a limit it must not exceed.

- Performance contract: R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the
  Grid: A Case Study, SAC 2005 (spec s1 section 9). The total time projected from the work done, over the time
  predicted, minus 1. Unknown or no progress: the time passed stands for the total, a timeout.
- Iteration profile and suspension timeout: E. Huedo, R. Montero, I. Llorente, The GridWay Framework for
  Adaptive Scheduling and Execution on Grids (spec s3 sections 2, 3 and 6). The last iteration over the
  expected one, minus 1; seconds an attempt may wait or be suspended.
- The delay of a whole workflow (S5) is the first with unknown progress: arrival and makespan when alone.

A breach is judged by comparing moments (start plus what was allowed), never quotients: a timer set for the
last allowed moment finds the contract kept, one set for the next double finds it broken.

Deviations from S1: its definition ends at the predicted end, ours when the attempt does. Work done is known
as of the last report: in between, time counts against the attempt only once a report is overdue
(``reported_s`` None is the paper's reading: the work done is known at every moment). With an iteration
profile the work done is not asked; the timeout stays. The grace period holds for every performance rule, not
only where nothing is done yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from weft.units import parse_seconds
from weft.workflow.records import recovery

__all__ = [
    "NO_CONTRACT",
    "Breach",
    "Contract",
    "Watched",
    "breach",
    "contract_of",
    "next_check_s",
    "ratio",
    "violated",
]

_GRACE_SHARE = 0.1
"""Of the predicted time, before an attempt is first judged (spec s1 section 9)."""


class Breach(Enum):
    """Which promise was broken; a migration names it as its reason."""

    PERFORMANCE = "performance"
    """Too slow: work, iterations or the whole time."""
    WAITING = "waiting"
    """Suspended, or not started by the other side, for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is known of an attempt; after a resume from a checkpoint, of what remained then."""

    started_s: float | None = None
    """When its program started; None: not yet."""
    predicted_s: float = math.inf
    """Predicted time of this attempt; 0 and inf: never late by time."""
    work: float = 1.0
    """All the work of this attempt, in any unit."""
    done: float | None = None
    """Work done in this attempt, in the same unit; None: unknown."""
    reported_s: float | None = None
    """When ``done`` was true; None: it is true at every moment it is asked for."""
    reports_every_s: float | None = None
    """Seconds between two reports of progress; None: unknown."""
    last_iteration_s: float | None = None
    """Seconds the last iteration took, by the application's own profile; None: no profile."""
    expected_iteration_s: float | None = None
    waiting_since_s: float | None = None
    """Since when it waits or is suspended; None: it does not."""

    @property
    def finished(self) -> bool:
        """Whether all its work is reported done."""
        return self.done is not None and self.done >= self.work

    @property
    def timed(self) -> bool:
        """Whether there is a prediction that time can be held against."""
        return 0 < self.predicted_s < math.inf

    @property
    def profiled(self) -> bool:
        """Whether its iterations can be held against what was expected of them."""
        return self.last_iteration_s is not None and bool(self.expected_iteration_s)

    def grace_end_s(self, grace_s: float | None = None) -> float:
        """When it can first be judged: after the grace, and not before its first report is due."""
        if grace_s is None:
            grace_s = _GRACE_SHARE * self.predicted_s if self.timed else 0.0
        return (self.started_s or 0.0) + max(grace_s, self.reports_every_s or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What an attempt may take before it is in breach."""

    limit: float | None = 0.5
    """Largest ratio allowed (the paper's factor); None: never in breach by ratio."""
    grace_s: float | None = None
    """Seconds before it is first judged; None: a tenth of the predicted time."""
    iteration_limit_s: float | None = None
    """Seconds an iteration may take, instead of ``limit`` times what was expected; None: by ``limit``."""
    waiting_limit_s: float | None = None
    """Seconds it may wait or be suspended; None: for ever."""


NO_CONTRACT = Contract(limit=None)
"""Owes nothing."""


def contract_of(
    facet: recovery.Contract | None, default: Contract = NO_CONTRACT, *, evaluator: str | None = None
) -> Contract:
    """Make the contract of a task from what its description says; the run's default says the rest.

    ``evaluator`` is S3's own module of a job: ``none``, a factor (``0.5``), or the seconds an iteration may
    take (``8s``). Anything else is a program that a world runs.
    """
    if evaluator is not None:
        default = _evaluated(evaluator.strip(), default)
    if facet is None:
        return default
    return replace(default, limit=facet.factor, grace_s=facet.grace_s)


def _evaluated(text: str, default: Contract) -> Contract:
    if text == "none":
        return NO_CONTRACT
    try:
        return replace(default, limit=float(text))
    except ValueError:
        iteration_s = parse_seconds(text)
    return default if iteration_s is None else replace(default, iteration_limit_s=iteration_s)


def ratio(watched: Watched, now_s: float) -> float | None:
    """Give the projected over the predicted time, minus 1; None: not to be judged now.

    0: on schedule; 1: twice as long as predicted; -0.5: half as long.
    """
    if watched.started_s is None or watched.finished:
        return None
    if now_s <= watched.started_s:
        return 0.0
    known = [share for share in (_profile(watched), _elapsed(watched, now_s)) if share is not None]
    return max(known) - 1.0 if known else None


def breach(watched: Watched, contract: Contract, now_s: float) -> Breach | None:
    """Say which promise is broken now, if any; waiting comes first, it explains the rest."""
    if now_s >= _waited_s(watched, contract):
        return Breach.WAITING
    return Breach.PERFORMANCE if now_s >= _late_s(watched, contract) else None


def violated(watched: Watched, contract: Contract, now_s: float) -> bool:
    """Say whether the contract is broken now."""
    return breach(watched, contract, now_s) is not None


def next_check_s(watched: Watched, contract: Contract, now_s: float) -> float | None:
    """Give the first moment, from now on, at which it is broken unless something is reported; None: never."""
    moment_s = min(_waited_s(watched, contract), _late_s(watched, contract))
    return max(moment_s, now_s) if moment_s < math.inf else None


def _profile(watched: Watched) -> float | None:
    """Give the last iteration over the expected one."""
    if watched.last_iteration_s is None or not watched.expected_iteration_s:
        return None
    return watched.last_iteration_s / watched.expected_iteration_s


def _elapsed(watched: Watched, now_s: float) -> float | None:
    """Give the time passed, or projected from the work done, over the predicted time."""
    started_s = watched.started_s or 0.0
    if not watched.timed:
        return None
    if watched.done == 0 and not watched.profiled and now_s < watched.grace_end_s():
        return None  # infinite by the formula
    passed = (now_s - started_s) / watched.predicted_s
    if not watched.done or watched.profiled:
        return passed
    share_s = watched.predicted_s * (watched.done / watched.work)
    projected = (_known_until_s(watched, now_s) - started_s) / share_s if share_s > 0 else math.inf
    return max(passed, projected)


def _known_until_s(watched: Watched, now_s: float) -> float:
    """Give the moment up to which the work done must be what was reported: a late report says no progress."""
    if watched.reported_s is None:
        return now_s
    if watched.reports_every_s is None:
        return watched.reported_s
    return max(watched.reported_s, now_s - watched.reports_every_s)


def _waited_s(watched: Watched, contract: Contract) -> float:
    """Give the first moment at which it has waited for too long."""
    if watched.waiting_since_s is None or contract.waiting_limit_s is None:
        return math.inf
    return _after(watched.waiting_since_s + contract.waiting_limit_s)


def _late_s(watched: Watched, contract: Contract) -> float:
    """Give the first moment at which it is too slow, if nothing more is reported."""
    if watched.started_s is None or watched.finished:
        return math.inf
    moments = (
        _iteration_late_s(watched, contract, watched.started_s),
        _work_late_s(watched, contract, watched.started_s),
    )
    return max(min(moments), watched.grace_end_s(contract.grace_s))


def _iteration_late_s(watched: Watched, contract: Contract, started_s: float) -> float:
    """Give when the last iteration is too slow: at once, or not before the next one."""
    allowed_s = contract.iteration_limit_s
    if allowed_s is None and contract.limit is not None and watched.profiled:
        allowed_s = (1 + contract.limit) * (watched.expected_iteration_s or 0.0)
    slow = allowed_s is not None and (watched.last_iteration_s or 0.0) > allowed_s
    return started_s if slow else math.inf


def _work_late_s(watched: Watched, contract: Contract, started_s: float) -> float:
    """Give the first moment at which more time has passed than what is done allows."""
    if contract.limit is None or not watched.timed:
        return math.inf
    allowed_s = (1 + contract.limit) * watched.predicted_s
    overdue_s = _after(started_s + allowed_s)
    if not watched.done or watched.profiled:
        return overdue_s
    last_s = started_s + allowed_s * (watched.done / watched.work)
    if watched.reported_s is None:
        return min(overdue_s, _after(last_s))
    if watched.reported_s > last_s:
        return watched.reported_s
    if watched.reports_every_s is None:
        return overdue_s
    return min(overdue_s, _after(last_s + watched.reports_every_s))


def _after(moment_s: float) -> float:
    """Give the next moment that a double can tell apart."""
    return math.nextafter(moment_s, math.inf)
