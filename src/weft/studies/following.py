"""Following: a simulation to its end, with its history."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from weft.engine.engine import Engine
from weft.engine.history.history import History
from weft.engine.journal import Entry
from weft.simulation.simulate import Simulation

__all__ = ["Followed", "followed"]


class Followed(NamedTuple):
    """The engine after the last event, and what happened."""

    engine: Engine
    history: History


def followed(simulation: Simulation, check: Callable[[Engine], None] | None = None) -> Followed:
    """Simulate, and follow the journal entry by entry; ``check`` looks at the engine after each."""
    history, waiting = History(), list[Entry]()

    def take(engine: Engine) -> None:
        # The history reads names from the state as it is after the entry.
        history.take(waiting.pop(), engine.state)
        if check is not None:
            check(engine)

    engine = simulation.run(record=waiting.append, check=take)
    return Followed(engine, history.finish())
