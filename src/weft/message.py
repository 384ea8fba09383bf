"""The decorator for messages: records that are never modified after construction.

Type checkers treat messages as frozen. At run time they are not, because constructing a frozen dataclass
takes three times as long and the engine constructs several messages per task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

__all__ = ["message"]

_Kind = TypeVar("_Kind")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def message(kind: type[_Kind]) -> type[_Kind]:
    """Make a class a message: a slotted dataclass with keyword fields, compared and hashed by value."""
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(kind)
