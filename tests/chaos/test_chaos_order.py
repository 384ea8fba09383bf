"""The order of journal entries and messages makes a crash between them harmless."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from weft.api.run import run
from weft.backends.local import link
from weft.backends.runner.runner_link import RunnerLink
from weft.engine.journal import JournalEntry
from weft.engine.messages import Ended, Start
from weft.engine.state.state import EngineState
from weft.repository.journal_store import JournalStore


def test_starts_and_ends_are_in_the_journal_before_the_runner_is_notified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a runner had dropped an end that a killed engine had not recorded, and the run hung.

    An end is dropped only when its entry is on disk, too.
    """
    monkeypatch.setattr(link, "_FORGET_BATCH", 1)
    written: dict[tuple[str, int], int] = {}
    stores: list[JournalStore] = []
    waiting: set[tuple[str, int]] = set()
    reported: list[tuple[str, int]] = []
    append, commit, send = JournalStore.append, JournalStore.commit, RunnerLink.send

    def appended(store: JournalStore, entry: JournalEntry, state: EngineState) -> None:
        append(store, entry, state)
        waiting.update(("start", each.attempt) for each in entry.commands if type(each) is Start)
        waiting.update([("forget", entry.event.attempt)] if type(entry.event) is Ended else [])

    def committed(store: JournalStore) -> int:
        position = commit(store)
        for each in waiting:
            written.setdefault(each, position)
        stores.append(store)
        return position

    def sent(link: RunnerLink, message: Mapping[str, Any]) -> None:
        numbers = message.get("attempts") or [message.get("attempt", -1)]
        reported.extend((message["do"], number) for number in numbers if message["do"] in ("start", "forget"))
        assert set(reported) <= written.keys(), f"{message} was sent too early"
        if message["do"] == "forget":
            assert written["forget", numbers[0]] <= stores[-1].durable, "the end is not on disk yet"
        send(link, message)

    monkeypatch.setattr(JournalStore, "append", appended)
    monkeypatch.setattr(JournalStore, "commit", committed)
    monkeypatch.setattr(RunnerLink, "send", sent)
    (tmp_path / "flow.yaml").write_text(
        "weft: 1\nname: f\ntasks:\n  a: {sweep: {k: 1..6}, command: ['true']}\n"
    )
    ran = run(tmp_path / "flow.yaml", project=tmp_path, policy="fcfs")
    assert ran.completed
    assert {number for what, number in reported if what == "start"} == set(range(6))
    assert [number for what, number in reported if what == "forget"]
