"""``events.jsonl``: one JSON object per event of an execution, in order.

Every object begins with the keys ``n``, ``at_s``, ``at``, ``what``, ``run``, ``workflow``, ``task``,
``iteration``, ``attempt`` and ``machine`` (null if not applicable), followed by the keys that ``EVENT_KINDS``
lists for its ``what``. Internal messages (timers, probes) are in the journal only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.history import History
from weft.engine.journal import JournalEntry, note_fields
from weft.engine.state.state import EngineState
from weft.redaction import redact
from weft.reports.execution_records import to_datetime

EVENT_KINDS: Mapping[type, tuple[str, tuple[str, ...]]] = {
    ev.Submitted: ("run-submitted", ("owner", "priority", "results")),
    cm.FinishRun: ("run-ended", ("outcome", "reason")),
    ev.RunStalled: ("run-ended", ("outcome", "reason")),
    ev.TasksAdded: ("run-grown", ("lines",)),
    ev.RequestReceived: ("run-asked", ("asked",)),
    cm.RepeatLoop: ("loop-repeated", ("body",)),
    cm.EndLoop: ("loop-left", ("body", "reason")),
    cm.SelectMachines: ("selector-asked", ("candidates",)),
    ev.MachinesSelected: ("selector-answered", ("machines", "problem")),
    cm.Replan: ("plan-asked", ("reason", "version")),
    ev.PlanReady: ("plan-ready", ("plan", "steps", "problem", "version")),
    cm.Assign: (
        "attempt-assigned",
        ("nodes", "count", "reserve", "replaces", "restart_from", "reason"),
    ),
    cm.StageIn: ("attempt-staging", ("part", "parcels", "bytes", "prolog")),
    ev.StagedIn: ("attempt-staged", ("part", "moved_bytes", "route", "taken_over", "problem", "module")),
    cm.Start: (
        "attempt-submitted",
        ("nodes", "count", "tries", "restart_from", "time_limit_s", "memory_bytes"),
    ),
    ev.Started: ("attempt-started", ()),
    ev.Progressed: (
        "attempt-progressed",
        ("work_done", "iterations", "all_iterations", "last_iteration_s", "degraded", "problem"),
    ),
    ev.Checkpointed: ("attempt-checkpointed", ("work_done", "problem")),
    ev.JobQueued: ("attempt-queued", ("job",)),
    ev.StartDelayed: ("attempt-delayed", ("reason",)),
    ev.Suspended: ("attempt-suspended", ()),
    ev.Resumed: ("attempt-resumed", ()),
    ev.RequirementsChanged: ("attempt-demands", ("requirements", "rank", "mandatory", "problem")),
    cm.Signal: ("attempt-signalled", ("signal",)),
    cm.Cancel: ("attempt-cancelled", ("reason",)),
    ev.Ended: (
        "attempt-ended",
        ("exit_code", "cause", "story", "result", "work_done", "taken_over", "ran_s", "late_s", "strays"),
    ),
    cm.RevertMigration: ("attempt-returned", ()),
    cm.CloseAttempt: ("attempt-dropped", ()),
    cm.StageOut: ("attempt-leaving", ()),
    ev.StagedOut: ("attempt-left", ("problem",)),
    cm.CleanUp: ("attempt-cleaning", ()),
    ev.CleanedUp: ("attempt-cleaned", ("problem", "module")),
    cm.Settle: ("task-settled", ("state", "cause", "reason", "again")),
    ev.MachineChanged: ("machine-changed", ("up", "speed_factor", "reason")),
    ev.ContactChanged: ("machine-contact", ("answers", "silent_s", "lost_in_s", "reason")),
    ev.Fetched: (
        "machine-measured",
        ("load", "free_memory_bytes", "free_disk_bytes", "free_nodes", "speed_factor"),
    ),
    **dict.fromkeys(cm.RECORDS, ("noted", ("kind", "value", "text"))),
}
"""By message type: the value of ``what``, and the keys that only objects of this type have."""

_RENAMED = {"signal": "what", "asked": "what"}
"""Maps a key of the JSON object to the field of the message, if the two names differ."""


class EventLines:
    """Converts journal entries to lines of ``events.jsonl``, during a run or afterwards."""

    def __init__(
        self,
        history: History,
        zero_at_s: float | None = None,
        number: Callable[[int], int] | None = None,
        *,
        run: int | None = None,
    ) -> None:
        """Create a converter; ``zero_at_s``: Unix time of the engine's time 0, None if unknown.

        ``number`` maps a run index to the number shown to users; if it is None, the index is used. If ``run``
        is given, only events of the run with this index are converted, and events of machines, which belong
        to no run.
        """
        self._history = history
        self._zero_at_s = zero_at_s
        self._run_number = number or int
        self._run = run

    def lines(self, entry: JournalEntry, state: EngineState) -> Iterator[str]:
        """Yield the JSON lines of an entry, without line ends; the history must already contain the entry."""
        for message in (entry.event, *entry.commands):
            kind = EVENT_KINDS.get(type(message))
            if kind is not None and self._is_wanted(message):
                yield self._line(entry, state, message, *kind)

    def _is_wanted(self, message: ev.Event | cm.Command) -> bool:
        return self._run is None or self._history.find_subject(message).run in (None, self._run)

    def _line(
        self, entry: JournalEntry, state: EngineState, message: Any, what: str, keys: tuple[str, ...]
    ) -> str:
        run, task, iteration, attempt, machine = self._history.find_subject(message)
        record = {
            "n": entry.sequence,
            "at_s": entry.now,
            "at": self._date(entry.now),
            "what": what,
            "run": None if run is None else self._run_number(run),
            "workflow": state.runs[run].compiled.key if run is not None and run < len(state.runs) else None,
            "task": task,
            "iteration": getattr(message, "iteration", iteration),
            "attempt": attempt,
            "machine": None if machine is None else state.machines[machine].name,
        }
        record |= {key: _plain(_value(message, key)) for key in keys}
        return redact(json.dumps(record, ensure_ascii=False, allow_nan=False))

    def _date(self, now_s: float) -> str | None:
        if self._zero_at_s is None:
            return None
        return to_datetime(self._zero_at_s + now_s).isoformat(timespec="milliseconds")


def _value(message: Any, key: str) -> Any:
    if isinstance(message, cm.SelectMachines) and key == "candidates":
        return len(message.candidates)
    if isinstance(message, cm.StageIn) and key in ("parcels", "bytes"):
        sizes = [parcel.size_bytes for parcel in message.parcels]
        return len(sizes) if key == "parcels" else sum(sizes)
    if type(message) in cm.RECORDS and (note := note_fields(message)) is not None:
        return note._asdict()[key]
    if isinstance(message, cm.Settle) and key == "state":
        return message.state.name
    return getattr(message, _RENAMED.get(key, key))


def _plain(value: Any) -> Any:
    """Return a value that JSON can express; infinite numbers and NaN become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value
