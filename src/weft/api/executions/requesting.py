"""Asking a running engine for something from another process, and waiting for its answer."""

from __future__ import annotations

import getpass
import time
from dataclasses import dataclass

from weft.api.observing.following import Place
from weft.repository.requests import Requests
from weft.repository.runs import Run

__all__ = ["PATIENCE_S", "Answer", "ask"]

PATIENCE_S = 10.0
"""How long an engine may take to answer: it looks several times a second."""

_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a request."""

    granted: bool
    text: str
    heard: bool = True
    """Whether an engine has answered."""


def ask(
    place: Place,
    what: str,
    run: Run,
    *,
    task: str | None = None,
    machine: str | None = None,
    patience_s: float = PATIENCE_S,
) -> Answer:
    """Ask the engine at work for something about a run; without one, or without an answer, say so."""
    if place.engine is None:
        return Answer(granted=False, text="no engine is at work in this project", heard=False)
    requests = Requests(place.database)
    number = requests.ask(
        what,
        execution=run.execution,
        run=run.position,
        task=task,
        machine=machine,
        owner=getpass.getuser(),
        at_s=time.time(),
    )
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s and place.engine is not None:
        reply = requests.reply(number)
        if reply is not None:
            return Answer(granted=reply.granted, text=reply.text)
        time.sleep(_PAUSE_S)
    if requests.withdraw(number):
        gone = place.engine is None
        why = (
            "the engine ended before it answered"
            if gone
            else f"the engine did not answer in {patience_s:g} s"
        )
        return Answer(granted=False, text=why, heard=False)
    reply = requests.reply(number)
    assert reply is not None
    return Answer(granted=reply.granted, text=reply.text)
