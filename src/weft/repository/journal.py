"""A journal that was read: from it alone an engine is rebuilt, as it was after any entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from weft.engine.engine import Engine
from weft.engine.journal import Entry
from weft.engine.replaying import rebuild
from weft.engine.state.known import Library
from weft.engine.state.plans import StoredPlan
from weft.engine.state.snapshot import restore
from weft.instance.compilation import compile_instance
from weft.policies.naming import policy_named
from weft.policies.policy import Policy
from weft.repository.header import Header
from weft.workflow.checks import checked_graph

__all__ = ["Journal"]


@dataclass(frozen=True, kw_only=True)
class Journal:
    """A journal that was read."""

    header: Header
    plans: Mapping[str, StoredPlan]
    entries: tuple[Entry, ...]
    snapshots: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """By the number of the entry after which each was taken."""

    @cached_property
    def library(self) -> Library:
        """Give the workflows, compiled on the platform."""
        platform = self.header.platform
        workflows = self.header.workflows.items()
        return Library({key: compile_instance(checked_graph(flow), platform) for key, flow in workflows})

    def engine(self, policy: Policy | None = None) -> Engine:
        """Make a fresh engine as the journal's, or with another policy."""
        first = self.library[next(iter(self.library))]
        chosen = policy_named(self.header.policy) if policy is None else policy
        return Engine(self.library, first.instance, chosen, self.header.settings, policy_named=policy_named)

    def rebuilt(self, entries: int) -> Engine:
        """Give the engine as it was after so many entries, from the last snapshot before that on."""
        last = max((number for number in self.snapshots if number < entries), default=-1)
        return self.rebuilt_from(last, self.entries[last + 1 : entries])

    def rebuilt_from(self, snapshot: int, entries: Iterable[Entry]) -> Engine:
        """Give the engine of a snapshot (-1: of the beginning) after these entries, which follow it."""
        engine = self.engine()
        engine.state.plans.update(self.plans)
        if snapshot >= 0:
            restore(engine.state, self.snapshots[snapshot])
        return rebuild(engine, entries, {})
