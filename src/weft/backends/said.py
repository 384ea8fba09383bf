"""What tasks say: lines that sweeps grow over, and results. They are values, and never say where weft goes.

A file that the user names may lie anywhere. What a task has written is not the user's word: filled into the
name of a file that weft itself reads or writes, it must not lead out of the folder that the user meant.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.backends.staging.problem import StagingProblem
from weft.expressions import Value
from weft.workflow.records.task import Task
from weft.workflow.templates import pieces

__all__ = ["refuse_astray"]


def refuse_astray(task: Task, text: str, values: Mapping[str, Value]) -> None:
    """Refuse a name of a file that leads elsewhere by the word of a task; raises StagingProblem."""
    if "{" not in text:
        return
    said = task.sweep.said if task.sweep is not None else ()
    for piece in pieces(text):
        if isinstance(piece, str) or not (piece.name in said or _is_result(piece.name)):
            continue
        word = str(values.get(piece.name, ""))
        if word.startswith("/") or "://" in word or ".." in word.split("/"):
            why = f"a task has said so ({piece.name}), and only what the user names may lie elsewhere"
            advice = "let the program open it itself"
            raise StagingProblem("is neither read nor written", word, why, advice=advice, lasting=True)


def _is_result(name: str) -> bool:
    return "." in name and not name.startswith("machine.")
