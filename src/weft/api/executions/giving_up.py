"""Giving up a run that no engine drives any more: what still runs of it is ended, and it is marked."""

from __future__ import annotations

import time
from collections.abc import Callable

from weft.api.executions.running import resume
from weft.api.observing.following import Place
from weft.repository.database import open_database
from weft.repository.runs import UNFINISHED, Run, Runs
from weft.runtime.execution import Execution
from weft.runtime.loop import Listener

__all__ = ["give_up"]


def give_up(place: Place, run: Run, *, interrupted: Callable[[], bool]) -> Run:
    """Take up the execution of a run only to cancel it; give the run as it is then.

    Other runs of the same execution stay as they are, to be resumed.
    """
    engines: list[Execution] = []

    def watch(execution: Execution) -> list[Listener]:
        engines.append(execution)
        return []

    def over() -> bool:
        return interrupted() or bool(engines and engines[0].engine.state.runs[run.position].ending)

    resume(run.execution, project=place.layout.project, cancel=[run.position], watch=watch, interrupted=over)
    with open_database(place.layout.database) as database:
        _mark(Runs(database), run)
        database.commit()
        return Runs(database).run(run.number)


def _mark(runs: Runs, run: Run) -> None:
    """Call cancelled what only waited for the user: no engine has anything to do about it."""
    if runs.run(run.number).state == "stopped":
        runs.set_state(
            run.execution, run.position, "cancelled", at_s=time.time(), reason="cancelled by the user"
        )
    others = [each for each in runs.of(run.execution) if each.number != run.number]
    if not any(each.state in UNFINISHED for each in others):
        runs.set_execution_state(run.execution, "cancelled", at_s=time.time())
