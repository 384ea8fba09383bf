"""How messages are declared: plain records that nobody changes.

Type checkers treat them as frozen. At run time they are not: freezing makes every record three times as dear
to make, and an engine makes several per task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

__all__ = ["message"]

_Kind = TypeVar("_Kind")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def message(kind: type[_Kind]) -> type[_Kind]:
    """Declare a message: a slotted record of keyword fields, equal and hashable by value."""
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(kind)
