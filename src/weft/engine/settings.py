"""Settings of the engine: contracts, migration, retries, probes, re-planning; and named presets.

The presets ``s1`` and ``s3`` follow docs/papers/dynamic-grid.md and docs/papers/adaptive-jobs.md literally;
the default migrates only when it saves time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from weft.errors import InvalidInput, nearest
from weft.records import dataclass

DEFAULT_RETRIES: Mapping[str, int] = {
    "error": 0,
    "oom": 1,
    "timeout": 1,
    "preempted": 10,
    "lost": 10,
    "staging": 3,
    "contract": 10,
    "cancelled": 0,
}
"""Retries by cause, unless the task or the run states a number. Causes outside the program have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanRule:
    """When to plan the rest of a run again (docs/papers/unified.md, section 5, step 7)."""

    planner: str = "heft"
    violators: float | None = None
    """Share of the running tasks that must violate their contracts; None: violations cause no new plan."""
    on_machines: bool = True
    """When a machine goes down or comes back."""
    on_iteration: bool = False
    """When a loop starts its next iteration."""
    every_s: float | None = None
    """Interval in seconds; 0: as soon as the last plan is there (maximal frequency of dynamic-grid.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How the engine reacts to slow attempts, failures and changes."""

    begins_at_once: bool = False
    """Whether the backend starts a program as soon as it gets the command, and sends no Started event."""
    contract: float | None = None
    """Contract factor of tasks that state none; None: no contract."""
    grace_s: float | None = None
    """Seconds before the first check of an attempt without own contract; None: a tenth of the estimate."""
    iteration_limit_s: float | None = None
    """Seconds an iteration of an application may take (profile threshold of adaptive-jobs.md)."""
    belief_s: float = 600.0
    """Seconds for which a machine counts as slow after a slow attempt."""
    poll_every_s: float = 30.0
    """Seconds between progress probes of attempts with a contract."""
    migrate: str = "pays"
    """``never``; ``pays``: if the remaining time here exceeds restart cost plus remaining time there by
    ``gain``; ``always``: at every violation, as in both papers.
    """
    gain: float = 0.2
    """Share of the remaining time that a migration must save."""
    gain_growth: float = 1.5
    """Factor on ``gain`` after each migration of a task, so that a task does not move back and forth."""
    checkpoints: bool = True
    """Whether a migrated task continues from its last restart files; False: from zero (dynamic-grid.md)."""
    restart_cost_s: float = 0.0
    """Estimated seconds of a restart beyond copying the files."""
    better_every_s: float | None = None
    """Seconds between searches for a better machine (rescheduling in adaptive-jobs.md); None: never."""
    suspension_timeout_s: float | None = 600.0
    """Seconds an attempt may be suspended by the machine's scheduler before it migrates; None: no limit."""
    waiting_timeout_s: float | None = None
    """Seconds an attempt may wait in the machine's own queue before it migrates; None: no limit."""
    ladder_every_s: float | None = None
    """Seconds between liveness probes (adaptive-jobs.md, section 5); None: the backend reports failures."""
    discover_every_s: float | None = None
    """Seconds for which a list of the information service is valid; None: the platform is the list."""
    fetch_every_s: float | None = None
    """Seconds for which the dynamic state of a machine is valid; None: the backend reports changes itself."""
    authorise: bool = False
    """Whether access to a machine is tested before it is used."""
    bound_ancestors: str = "lost"
    """Which completed tasks run again when their abstract machine moves: ``always`` (dynamic-grid.md), or
    ``lost``: only those whose outputs are no longer available.
    """
    retries: int | None = None
    """Retries for every cause without its own number; None: DEFAULT_RETRIES."""
    retries_by_cause: Mapping[str, int] = field(default_factory=dict)
    growth: float = 2.0
    """Factor on memory or time limit after an attempt exceeded it."""
    on_failure: str = "stop"
    """When no retry is left: ``hold`` (wait for the user), ``reschedule`` (start again on another machine),
    ``stop`` (end the run) or ``continue`` (run everything that does not depend on the task).
    """
    brings_results: bool = False
    """Whether outputs that no task reads are copied to the folder of the workflow."""
    strict_plan: bool = False
    """Whether the planned order is kept even if a machine stays idle."""
    replanning: ReplanRule | None = None

    def retries_of(self, cause: str) -> int:
        """Return the retries for a cause if the task states none."""
        if cause in self.retries_by_cause:
            return self.retries_by_cause[cause]
        return DEFAULT_RETRIES.get(cause, 0) if self.retries is None else self.retries


PRESETS: Mapping[str, EngineSettings] = {
    "default": EngineSettings(),
    "patient": EngineSettings(migrate="never"),
    "s1": EngineSettings(
        contract=0.5,
        # dynamic-grid.md, section 9, waits only while no work is done; that grace is part of the ratio.
        grace_s=0.0,
        poll_every_s=30.0,
        migrate="always",
        checkpoints=False,
        bound_ancestors="always",
        replanning=ReplanRule(planner="genetic", violators=0.0, every_s=0.0),
    ),
    "s3": EngineSettings(
        contract=1.0,
        poll_every_s=10.0,
        migrate="always",
        gain=0.2,
        gain_growth=1.0,
        better_every_s=30.0,
        suspension_timeout_s=600.0,
        waiting_timeout_s=600.0,
        ladder_every_s=30.0,
        discover_every_s=300.0,
        fetch_every_s=30.0,
        authorise=True,
        on_failure="reschedule",
    ),
}


def find_settings(name: str) -> EngineSettings:
    """Return the preset with this name."""
    if name not in PRESETS:
        close = nearest(name, PRESETS)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(PRESETS)}"
        raise InvalidInput(f"unknown preset {name!r}", advice=hint)
    return PRESETS[name]
