"""Rebinding: abstract machines that were bound to a lost machine may be bound anew.

Members that have not started may go elsewhere. Those that completed there do not run again: outputs, like restart
files (``restarts``), are believed to be kept on our side too, and outlive the machine that made them.
"""

from __future__ import annotations

from weft.engine.desk import Desk
from weft.engine.messages.commands import Note
from weft.engine.state.states import FINAL

__all__ = ["leave_lost"]


def leave_lost(desk: Desk, machine: int) -> None:
    """Free the abstract machines of all runs that are bound to a lost machine and still needed."""
    for run in list(desk.state.active.values()):
        for variable, bound in sorted(run.binding.items()):
            if bound != machine:
                continue
            waiting = [task for task in run.members(variable) if run.state[task] not in FINAL]
            if waiting:
                text = f"{desk.state.machines[machine].name} is lost"
                desk.emit(Note(kind="rebound", run=run.index, task=waiting[0], machine=machine, text=text))
