"""What an expression that an application has written means for its task."""

from __future__ import annotations

from functools import lru_cache

from weft.engine.state.known import Known
from weft.errors import InvalidInput
from weft.expressions import Expression, parse

__all__ = ["Meaning", "meaning", "parsed"]

Meaning = tuple[str, tuple[tuple[str, str], ...]]
"""An expression, and the values of its names that are the task's own; all others are the machine's."""


def meaning(known: Known, task: int, text: str) -> Meaning:
    """Say what an expression means: the same for most tasks of a sweep."""
    expression = parsed(text)
    if expression is None:
        return text, ()
    context = known.graph.context(task)
    heads = dict.fromkeys(name.partition(".")[0] for name in expression.names)
    return text, tuple((head, repr(context[head])) for head in heads if head in context)


@lru_cache(maxsize=1024)
def parsed(text: str) -> Expression | None:
    """Read an expression; None: it cannot be read."""
    try:
        return parse(text)
    except InvalidInput:
        return None
