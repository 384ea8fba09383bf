"""Requirements and ranks while a run is under way (S3 section 2).

What the workflow states is part of the instance: machines that fail it are no candidates. Here are the
expressions an application changed while it ran, and the ranks. A text from a running application is parsed
and evaluated, never executed; what cannot be read counts as unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weft.engine.selection.meaning import Meaning, meaning, parsed
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.errors import InvalidInput
from weft.expressions import Expression, Value, evaluate_columns, parse
from weft.platform.columns import columns

__all__ = ["Wishes", "accepts", "rank_of", "requirement_problem", "wishes"]


class Wishes(NamedTuple):
    """What a task demands of machines by now, and how it ranks them."""

    key: tuple[Meaning | None, Meaning | None]
    """Tasks for which it is the same wish the same."""
    demanded: Sequence[object] | None
    """Per machine: whether it will do; None: all will."""
    ranks: Sequence[object] | None
    """Per machine; None: they are all the same to it."""


def wishes(state: State, run: Run, task: int) -> Wishes:
    """Say what a task wants by now, beyond what the workflow states."""
    demanded, _ = run.requirements.get(task, (None, None))
    rank = _rank_text(run, task)
    keys = [meaning(run.known, task, text) if text else None for text in (demanded, rank)]
    accepted, ranks = (None if key is None else _values(state, run, task, key) for key in keys)
    return Wishes((keys[0], keys[1]), accepted, ranks)


def accepts(state: State, run: Run, task: int, machine: int) -> bool:
    """Say whether a machine meets what the task's application demands by now."""
    changed = run.requirements.get(task)
    if changed is None or not changed[0]:
        return True
    values = _values(state, run, task, meaning(run.known, task, changed[0]))
    return values is None or bool(values[machine])


def rank_of(state: State, run: Run, task: int, machine: int) -> float | None:
    """Evaluate a task's own rank for a machine; None: it has none, or it gives no number."""
    text = _rank_text(run, task)
    values = None if text is None else _values(state, run, task, meaning(run.known, task, text))
    if values is None:
        return None
    value = values[machine]
    return float(value) if isinstance(value, int | float) else None


def _rank_text(run: Run, task: int) -> str | None:
    """Give how a task ranks machines by now; None: it does not."""
    _, changed = run.requirements.get(task, (None, None))
    stated = run.known.description(task).rank
    return changed or (None if stated is None else str(stated))


def requirement_problem(text: str, run: Run, task: int) -> str:
    """Say what is wrong with an expression that an application has written; "": nothing."""
    try:
        _evaluated(parse(text), run, run.known.graph.context(task))
    except InvalidInput as error:
        return str(error)
    return ""


def _values(state: State, run: Run, task: int, key: Meaning) -> Sequence[object] | None:
    """Evaluate an expression for all machines, once for all tasks for which it means the same."""
    if key not in state.evaluated:
        expression = parsed(key[0])
        try:
            context = run.known.graph.context(task)
            state.evaluated[key] = None if expression is None else _evaluated(expression, run, context)
        except InvalidInput:
            state.evaluated[key] = None
    return state.evaluated[key]


def _evaluated(expression: Expression, run: Run, context: Mapping[str, Value]) -> Sequence[object]:
    machines = run.instance.machines
    found = evaluate_columns(expression, columns(machines), len(machines), dict(context))
    values: Sequence[object] = found.tolist()
    return values
