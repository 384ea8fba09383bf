"""Requirements and ranks while a run is under way (S3 section 2).

What the workflow states is part of the instance: machines that fail it are no candidates. Here are the
expressions an application changed while it ran, and the ranks. A text from a running application is parsed
and evaluated, never executed; what cannot be read counts as unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.errors import InvalidInput
from weft.expressions import Expression, evaluate_columns, parse
from weft.platform.columns import columns

__all__ = ["accepts", "rank_of", "requirement_problem"]


def accepts(state: State, run: Run, task: int, machine: int) -> bool:
    """Say whether a machine meets what the task's application demands by now."""
    changed = run.requirements.get(task)
    if changed is None or not changed[0]:
        return True
    values = _values(state, run, changed[0])
    return values is None or bool(values[machine])


def rank_of(state: State, run: Run, task: int, machine: int) -> float | None:
    """Evaluate a task's own rank for a machine; None: it has none, or it gives no number."""
    changed = run.requirements.get(task)
    text = changed[1] if changed is not None and changed[1] else None
    expression = run.known.graph.description(task).rank
    if text is None and expression is None:
        return None
    values = _values(state, run, text if text is not None else str(expression))
    if values is None:
        return None
    value = values[machine]
    return float(value) if isinstance(value, int | float) else None


def requirement_problem(text: str, run: Run) -> str:
    """Say what is wrong with a requirement that an application has written; "": nothing."""
    try:
        _evaluated(parse(text), run)
    except InvalidInput as error:
        return str(error)
    return ""


def _values(state: State, run: Run, text: str) -> Sequence[object] | None:
    """Evaluate an expression for all machines, once."""
    if text not in state.evaluated:
        try:
            state.evaluated[text] = _evaluated(parse(text), run)
        except InvalidInput:
            state.evaluated[text] = None
    return state.evaluated[text]


def _evaluated(expression: Expression, run: Run) -> Sequence[object]:
    machines = run.instance.machines
    found = evaluate_columns(expression, columns(machines), len(machines), dict(run.known.graph.params))
    values: Sequence[object] = found.tolist()
    return values
