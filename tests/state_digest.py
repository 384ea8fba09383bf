"""Comparison of engine states: two engines with equal digests make the same decisions."""

from __future__ import annotations

from typing import Any

from weft.engine.state.snapshot import _ASKED, _BY_TASK, take_snapshot
from weft.engine.state.state import EngineState

__all__ = ["digest_state"]


def digest_state(state: EngineState) -> dict[str, Any]:
    """Return all parts of a state that influence decisions, as plain data; tables are sorted."""
    found = take_snapshot(state)
    for name in (*_ASKED, "cached"):
        found[name] = sorted(found[name])
    found["attempts"] = {attempt["number"]: attempt for attempt in found["attempts"]}
    found["timers"] = dict(sorted(found["timers"].items()))
    for run, record in zip(state.runs, found["runs"], strict=True):
        record |= {name: sorted(record[name], key=lambda pair: pair[0]) for name in _BY_TASK}
        record |= {"ready": list(run.ready), "early": sorted(run.early), "virtual": sorted(run.virtual)}
        record["facts"] = {task: facts for task, facts in record["facts"] if facts}
    for attempt in found["attempts"].values():
        # The starts of a task are counted by its live attempt or, after a restore, by its facts.
        if tries := attempt.pop("tries"):
            facts = found["runs"][attempt["run"]]["facts"]
            facts.setdefault(attempt["task"], {})["tries"] = tries
    return found
