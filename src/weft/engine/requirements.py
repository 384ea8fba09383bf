"""Requirements and ranks while a run is under way (S3 section 2).

What the workflow states is part of the instance: machines that fail it are no candidates. Here are the
expressions an application changed while it ran, and the ranks. A text from a running application is parsed
and evaluated, never executed; what cannot be read counts as unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.errors import InvalidInput
from weft.expressions import Expression, Value, evaluate_columns, parse
from weft.platform.columns import columns

__all__ = ["accepts", "rank_of", "requirement_problem"]


def accepts(state: State, run: Run, task: int, machine: int) -> bool:
    """Say whether a machine meets what the task's application demands by now."""
    changed = run.requirements.get(task)
    if changed is None or not changed[0]:
        return True
    values = _values(state, run, task, changed[0])
    return values is None or bool(values[machine])


def rank_of(state: State, run: Run, task: int, machine: int) -> float | None:
    """Evaluate a task's own rank for a machine; None: it has none, or it gives no number."""
    changed = run.requirements.get(task)
    text = changed[1] if changed is not None and changed[1] else None
    expression = run.known.description(task).rank
    if text is None and expression is None:
        return None
    values = _values(state, run, task, text if text is not None else str(expression))
    if values is None:
        return None
    value = values[machine]
    return float(value) if isinstance(value, int | float) else None


def requirement_problem(text: str, run: Run, task: int) -> str:
    """Say what is wrong with an expression that an application has written; "": nothing."""
    try:
        _evaluated(parse(text), run, run.known.graph.context(task))
    except InvalidInput as error:
        return str(error)
    return ""


def _values(state: State, run: Run, task: int, text: str) -> Sequence[object] | None:
    """Evaluate an expression for all machines, once for all tasks for which it means the same."""
    expression = _parsed(text)
    if expression is None:
        return None
    context = run.known.graph.context(task)
    heads = dict.fromkeys(name.partition(".")[0] for name in expression.names)
    meant = tuple((head, repr(context[head])) for head in heads if head in context)
    if (text, meant) not in state.evaluated:
        try:
            state.evaluated[text, meant] = _evaluated(expression, run, context)
        except InvalidInput:
            state.evaluated[text, meant] = None
    return state.evaluated[text, meant]


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Expression | None:
    try:
        return parse(text)
    except InvalidInput:
        return None


def _evaluated(expression: Expression, run: Run, context: Mapping[str, Value]) -> Sequence[object]:
    machines = run.instance.machines
    found = evaluate_columns(expression, columns(machines), len(machines), dict(context))
    values: Sequence[object] = found.tolist()
    return values
