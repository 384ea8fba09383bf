"""One safe language for requirements, ranks, work formulas and conditions.

Text becomes a checked tree, and a tree with a context becomes a value, or an array for many contexts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.expressions.evaluation import evaluate, evaluate_boolean, evaluate_number
from weft.expressions.expression import Expression, parse, rename, unknown_names
from weft.expressions.failure import ExpressionError
from weft.expressions.inference import infer
from weft.expressions.kinds import Kind, Value

if TYPE_CHECKING:
    from weft.expressions.columns import evaluate_columns

__all__ = [
    "Expression",
    "ExpressionError",
    "Kind",
    "Value",
    "evaluate",
    "evaluate_boolean",
    "evaluate_columns",
    "evaluate_number",
    "infer",
    "parse",
    "rename",
    "unknown_names",
]


def __getattr__(name: str) -> Any:
    # NumPy is loaded by the first evaluation over columns, not by every command that reads an expression.
    if name == "evaluate_columns":
        from weft.expressions.columns import evaluate_columns

        return evaluate_columns
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
