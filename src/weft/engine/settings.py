"""How the engine adapts: contracts, migration, retries, polling, re-planning. One record, with presets.

The presets ``s1`` and ``s3`` are literal readings of the two papers; the default migrates only when it pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.errors import InvalidInput, Problem, nearest

__all__ = ["DEFAULT_RETRIES", "PRESETS", "EngineSettings", "ReplanRule", "find_settings"]

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
"""How often a task is tried again, by cause, where neither the task nor the run says anything. What is not
the program's fault is forgiven more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanRule:
    """When what remains of a run is planned again (unified section 5, step 7)."""

    planner: str = "heft"
    violators: float | None = None
    """Share of the running tasks that must violate their contracts; None: violations alone do not re-plan."""
    on_machines: bool = True
    """When a machine goes or comes back."""
    on_iteration: bool = False
    """When a loop begins its next iteration."""
    every_s: float | None = None
    """At this interval; 0: as soon as the last re-planning is done (S1's maximal frequency)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What the engine does about slowness, failure and change."""

    begins_at_once: bool = False
    """Whether the world begins a program the moment it is told to, and so never reports that it did."""
    contract: float | None = None
    """Contract factor of tasks that state none; None: they owe nothing."""
    grace_s: float | None = None
    """Seconds before attempts whose tasks state no contract are first judged; None: a tenth of the
    estimate."""
    iteration_limit_s: float | None = None
    """What an iteration of an application that reports them may take (S3's profile threshold)."""
    belief_s: float = 600.0
    """How long a machine is believed to be slow after somebody was slow there."""
    poll_every_s: float = 30.0
    """How often attempts that owe something are asked for their progress."""
    migrate: str = "pays"
    """``never``; ``pays``: if the time left here exceeds restart cost plus time left there by ``gain``;
    ``always``: at every violation (S1 and S3 as printed)."""
    gain: float = 0.2
    """The share of the time left that a migration must save; grows with every migration of a task."""
    gain_growth: float = 1.5
    """What the gain is multiplied with after each migration of a task, so that nothing bounces for ever."""
    checkpoints: bool = True
    """Whether a migrated task goes on from its last restart files; False: from zero (S1)."""
    restart_cost_s: float = 0.0
    """What a restart is believed to cost beyond moving the files."""
    better_every_s: float | None = None
    """How often running tasks look for a better machine (S3's rescheduling interval); None: never."""
    suspension_timeout_s: float | None = 600.0
    """How long a remote system may suspend an attempt before it migrates; None: for ever."""
    waiting_timeout_s: float | None = None
    """How long a remote system may keep an attempt from starting before it migrates; None: for ever."""
    ladder_every_s: float | None = None
    """How often job managers are probed (S3 section 5); None: worlds report failures by themselves."""
    discover_every_s: float | None = None
    """How long a list of machines from the information service is believed; None: the platform is the
    list."""
    fetch_every_s: float | None = None
    """How long a machine's dynamic state is believed; None: worlds report changes by themselves."""
    authorise: bool = False
    """Whether access to a machine is probed before it is used."""
    bound_ancestors: str = "lost"
    """Which completed tasks of a re-bound abstract machine run again: ``always`` (S1), ``lost``: only those
    whose outputs can no longer be had."""
    retries: int | None = None
    """For every cause without its own number; None: DEFAULT_RETRIES."""
    retries_by_cause: Mapping[str, int] = field(default_factory=dict)
    growth: float = 2.0
    """What memory or time limit is multiplied with after running out of it."""
    on_failure: str = "stop"
    """When the retries are used up: ``hold`` (wait for the user), ``reschedule`` (try again from the start,
    elsewhere), ``stop`` (the run ends), ``continue`` (what does not depend on it goes on)."""
    brings_results: bool = False
    """Whether outputs that no task reads are brought to where the workflow lies."""
    strict_plan: bool = False
    """Whether a plan's order is kept even where a machine stands idle."""
    replanning: ReplanRule | None = None

    def retries_of(self, cause: str) -> int:
        """Give how often a failure of this cause is forgiven where a task says nothing."""
        if cause in self.retries_by_cause:
            return self.retries_by_cause[cause]
        return DEFAULT_RETRIES.get(cause, 0) if self.retries is None else self.retries


PRESETS: Mapping[str, EngineSettings] = {
    "default": EngineSettings(),
    "patient": EngineSettings(migrate="never"),
    "s1": EngineSettings(
        contract=0.5,
        # S1 section 9 waits only where nothing is done yet; that grace is part of the ratio itself.
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
    """Give a preset by its name."""
    if name not in PRESETS:
        close = nearest(name, PRESETS)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(PRESETS)}"
        raise InvalidInput(Problem(what=f"unknown preset {name!r}", advice=hint))
    return PRESETS[name]
