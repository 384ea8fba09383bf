"""The recorder: hears of every entry of a simulation, keeps its history, and writes its journal."""

from __future__ import annotations

from collections.abc import Callable

from weft.engine.engine import Engine
from weft.engine.history.history import History
from weft.engine.journal import Entry
from weft.engine.messages.commands import Repeat
from weft.repository.journal_files import JournalWriter

__all__ = ["MOST_ITERATIONS", "Recorder", "Tell"]

MOST_ITERATIONS = 1_000
"""After so many a loop without ``max_iterations`` is taken for one that never ends."""

_TELL_EVERY = 1_000

Tell = Callable[[int, float, int], None]
"""Hears of progress: entries so far, the simulated time, active workflows."""


class Recorder:
    """What a simulation reports to."""

    def __init__(self, journal: JournalWriter | None = None, tell: Tell | None = None) -> None:
        self.history = History()
        self.endless = ""
        """Which loop seems to run for ever; "": none."""
        self._journal = journal
        self._tell = tell
        self._entry: Entry | None = None

    def record(self, entry: Entry) -> None:
        """Hear of an entry."""
        self._entry = entry

    def check(self, engine: Engine) -> None:
        """Take the entry in, now that the engine's state can be asked for names."""
        entry = self._entry
        assert entry is not None
        if self._journal is not None:
            self._journal.write(entry, engine.state)
        self.history.take(entry, engine.state)
        for command in entry.commands:
            if isinstance(command, Repeat) and command.iteration > MOST_ITERATIONS:
                self._judge(engine, command)
        if self._tell is not None and entry.sequence % _TELL_EVERY == 0:
            self._tell(entry.sequence, entry.now, len(engine.state.active))

    def stop(self, engine: Engine) -> bool:  # noqa: ARG002
        """Say whether the simulation should end."""
        return bool(self.endless)

    def _judge(self, engine: Engine, command: Repeat) -> None:
        body = engine.state.runs[command.run].loops.bodies[command.body]
        if body.most is None:
            self.endless = (
                f"loop {body.loop.name} has run {MOST_ITERATIONS} times and `{body.loop.until}` never held: "
                "give it max_iterations, or state its iterations or results in the scenario"
            )
