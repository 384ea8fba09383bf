"""Products: what completed tasks have made, where it lies and what it was made from.

The record of a task outlives its run: a later run takes a task over if its fingerprint is the same and its
files are still there (design section 7). The repository keeps them; this is the contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from weft.expressions import Value
from weft.message import message

__all__ = ["MadeFile", "Product", "Products"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFile:
    """One file (or directory) that a task has made."""

    name: str
    """As it lies in the task's directory, wildcards resolved."""
    size_bytes: int
    digest: str
    """BLAKE2b of its content, in hexadecimal; of a directory: of its sorted names and contents."""
    modified_ns: int = 0
    """When it was last changed: another time says that somebody has touched it since."""


@message
class Product:
    """What one completed task has left."""

    execution: int
    run: int
    task: int
    name: str
    """The task's name, such as ``lapw1[k=3]``."""
    kind: str
    """The name of its description, such as ``lapw1``."""
    workflow: str
    attempt: int
    iteration: int = 1
    machine: str = ""
    directory: str = ""
    """Where the files lie."""
    files: tuple[MadeFile, ...] = ()
    exit_code: int = 0
    result: Mapping[str, Value] = field(default_factory=dict)
    fingerprint: str = ""
    """What it was made from, in one word; "": unknown, and so never taken over."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint by part (``command``, ``environment``, ``inputs``, ``scripts``, ``version``)."""
    seconds: float = 0.0
    """How long its program ran."""


class Products(Protocol):
    """Where products are remembered."""

    def add(self, product: Product) -> None:
        """Remember a product; it is on disk before the next event is."""

    def of(self, execution: int, run: int, task: int) -> Product | None:
        """Give the last product of a task of a run."""

    def made_from(self, fingerprint: str, besides: int | None = None) -> Product | None:
        """Give the newest product of a fingerprint; ``besides``: that another execution has made."""

    def last_of(self, workflow: str, name: str) -> Product | None:
        """Give the newest product of a task by its name, whatever it was made from."""
