"""Replay a journal file: the call behind ``weft replay``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.engine.replaying import Replayed, replay
from weft.policies.naming import policy_named
from weft.repository.journal import Journal
from weft.repository.journal_sources import find_journal

__all__ = ["ReplayedJournal", "replay_journal"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplayedJournal:
    """A journal, and what deciding it again gave."""

    journal: Journal
    policy: str
    """Who decided now."""
    replayed: Replayed

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data: the object ``weft replay --json`` prints."""
        replayed = self.replayed
        return {
            "policy": self.policy,
            "recorded_policy": self.journal.header.policy,
            "recorded_version": self.journal.header.version,
            "entries": replayed.total,
            "decided": replayed.entries,
            "commands": replayed.commands,
            "same": replayed.same,
            "differences": [difference.as_record() for difference in replayed.differences],
        }


def replay_journal(
    journal: Journal | str | Path, *, policy: str | None = None, run: int | None = None
) -> ReplayedJournal:
    """Decide a journal again, with its own policy or another.

    Of a project ``run`` says which journal: that of the run of this number, if not given of the last.
    """
    read = journal if isinstance(journal, Journal) else find_journal(journal, run).journal
    name = read.header.policy if policy is None else policy
    engine = read.engine(policy_named(name))
    return ReplayedJournal(journal=read, policy=name, replayed=replay(engine, read.entries, read.plans))
