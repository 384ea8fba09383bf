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
"""Allowed retries by cause of failure, unless the task or the run states a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanRule:
    """When to plan the rest of a run again (docs/papers/unified.md, section 5, step 7)."""

    planner: str = "heft"
    violators: float | None = None
    """Share of the running tasks that must violate their contracts; None: violations cause no new plan."""
    on_machines: bool = True
    """Whether to plan again when a machine goes down or comes back."""
    on_iteration: bool = False
    """Whether to plan again when a loop starts its next iteration."""
    every_s: float | None = None
    """Seconds between plans; 0: plan again as soon as a plan is ready; None: no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How the engine reacts to slow attempts, failures and changes."""

    begins_at_once: bool = False
    """Whether the backend starts a program as soon as it gets the command, and sends no Started event."""
    contract: float | None = None
    """Contract factor of tasks that state no factor; None: no contract."""
    grace_s: float | None = None
    """Seconds before the first check, for tasks without own contract; None: a tenth of the estimate."""
    iteration_limit_s: float | None = None
    """Seconds an iteration of an application may take (profile threshold of adaptive-jobs.md); None: any."""
    belief_s: float = 600.0
    """Seconds for which a machine counts as slow after an attempt on it was slow."""
    poll_every_s: float = 30.0
    """Seconds between progress probes of attempts with a contract."""
    migrate: str = "pays"
    """When a violating attempt migrates: ``never``; ``always``, as in both papers; ``pays``: if the move,
    with the restart cost, saves at least the share ``gain`` of the remaining time.
    """
    gain: float = 0.2
    """Share of the attempt's remaining time that a migration must save."""
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
    """Seconds between liveness probes (adaptive-jobs.md, section 5); None: no probes."""
    discover_every_s: float | None = None
    """Seconds for which a machine list of the information service is valid; None: all machines are used."""
    fetch_every_s: float | None = None
    """Seconds between queries of a machine's dynamic state; None: no queries, the backend reports changes."""
    authorise: bool = False
    """Whether access to a machine is tested before it is used."""
    bound_ancestors: str = "lost"
    """Which completed tasks run again when their abstract machine moves: ``always`` (dynamic-grid.md), or
    ``lost``: only those whose outputs are no longer available.
    """
    retries: int | None = None
    """Retries for every cause that is not in ``retries_by_cause``; None: DEFAULT_RETRIES."""
    retries_by_cause: Mapping[str, int] = field(default_factory=dict)
    growth: float = 2.0
    """Factor by which a memory or time limit is multiplied after an attempt exceeded it."""
    on_failure: str = "stop"
    """Reaction when a task has no retry left: ``hold`` (wait for the user), ``reschedule`` (start it on
    another machine), ``stop`` (end the run) or ``continue`` (run all tasks that do not depend on it).
    """
    brings_results: bool = False
    """Whether outputs that no task reads are copied to the folder of the workflow."""
    strict_plan: bool = False
    """Whether the planned order is kept even if a machine stays idle."""
    replanning: ReplanRule | None = None

    def retries_of(self, cause: str) -> int:
        """Return the allowed retries for a cause, for tasks that state no number."""
        if cause in self.retries_by_cause:
            return self.retries_by_cause[cause]
        return DEFAULT_RETRIES.get(cause, 0) if self.retries is None else self.retries


PRESETS: Mapping[str, EngineSettings] = {
    "default": EngineSettings(),
    "patient": EngineSettings(migrate="never"),
    "s1": EngineSettings(
        contract=0.5,
        # The grace of dynamic-grid.md, section 9, applies only while no work is done; _time_ratio grants it.
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
    """Return the settings of a preset by its name; raise InvalidInput if there is none."""
    if name not in PRESETS:
        close = nearest(name, PRESETS)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(PRESETS)}"
        raise InvalidInput(f"unknown preset {name!r}", advice=hint)
    return PRESETS[name]
