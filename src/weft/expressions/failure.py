"""What goes wrong with an expression: the error users see, and the refusal that becomes one.

Operators and functions know values, not columns: they raise a ``Refusal``. Whoever walks the tree knows the
column and turns it into an ``ExpressionError``.
"""

from __future__ import annotations

from weft.errors import InvalidInput, Problem

__all__ = ["ExpressionError", "Refusal"]

_BEFORE, _AFTER = 30, 40


class ExpressionError(InvalidInput):
    """An expression that cannot be read or evaluated, with the column (from 1) where the trouble is."""

    def __init__(self, message: str, text: str, column: int, rule: str = "", advice: str = "") -> None:
        self.message = message
        self.text = text
        self.column = column
        self.rule = rule
        self.advice = advice
        what = f"{message} at column {column} of expression `{_excerpt(text, column)}`"
        super().__init__(Problem(what=what, rule=rule, advice=advice))

    def __reduce__(self) -> tuple[type[ExpressionError], tuple[str, str, int, str, str]]:
        # The default rebuilds an exception from its message alone; errors cross process borders in pools.
        return ExpressionError, (self.message, self.text, self.column, self.rule, self.advice)


class Refusal(Exception):
    """An operation that has no value for these operands; ``column`` is filled in by the tree walker."""

    def __init__(
        self, message: str, *, rule: str = "", advice: str = "", argument: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.rule = rule
        self.advice = advice
        self.argument = argument
        self.column: int | None = None

    def at(self, column: int) -> Refusal:
        """Say where it happened, unless a part further inside has said so already."""
        if self.column is None:
            self.column = column
        return self

    def error(self, text: str) -> ExpressionError:
        """Turn the refusal into the error users see."""
        return ExpressionError(self.message, text, self.column or 1, self.rule, self.advice)


def _excerpt(text: str, column: int) -> str:
    start, stop = max(0, column - 1 - _BEFORE), column - 1 + _AFTER
    part = "".join(_visible(character) for character in text[start:stop])
    return f"{'…' if start > 0 else ''}{part}{'…' if stop < len(text) else ''}"


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
