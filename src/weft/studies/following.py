"""Following: a simulation to its end, with its history."""

from __future__ import annotations

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


def followed(simulation: Simulation) -> Followed:
    """Simulate, and follow the journal entry by entry."""
    history, waiting = History(), list[Entry]()

    def take(engine: Engine) -> None:
        # The history reads names from the state as it is after the entry.
        history.take(waiting.pop(), engine.state)

    engine = simulation.run(record=waiting.append, check=take)
    return Followed(engine, history.finish())
