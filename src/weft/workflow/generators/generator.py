"""The contract of the shelf of generators: read it first.

A generator makes workflows of one kind, and the platform they are meant for where there is one. It is a
frozen dataclass whose fields are its parameters: the command line, the documentation and studies read them
from there. All its random numbers come from the generator passed in, so the same seed gives the same
workflow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from weft.errors import InvalidInput, Problem, shorten
from weft.platform.platform import Platform
from weft.workflow.records.workflow import Workflow

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "LARGEST",
    "MEANING",
    "MOST_TASKS",
    "Generated",
    "Generator",
    "Rule",
    "parameter",
    "require",
    "within",
]

MOST_TASKS = 1_000_000
"""A larger workflow than this is a slip of the finger."""

LARGEST = 1e15
"""Seconds, bytes and factors beyond this are slips too, and their products would end in infinity."""

MEANING = "meaning"
"""Where a field keeps the sentence about its parameter."""

Rule = tuple[str, bool, str]
"""The name of a parameter, whether its value is allowed, and which values are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What a generator gives."""

    workflow: Workflow
    platform: Platform | None = None
    """The platform the workflow was made for; None: any will do."""


class Generator(Protocol):
    """One kind of workflow. Its fields are its parameters, each declared by ``parameter``."""

    name: ClassVar[str]
    """The word under which it stands on the shelf."""
    title: ClassVar[str]
    """What it makes, in a line, with the paper."""

    def generate(self, rng: np.random.Generator) -> Generated:
        """Make one workflow."""
        ...


def parameter(default: Any, meaning: str) -> Any:
    """Declare a parameter of a generator: its default and one sentence about it."""
    return field(default=default, metadata={MEANING: meaning})


def within(generator: Generator, name: str, least: float, most: float) -> Rule:
    """Make the rule that a number lies between two bounds, both included."""
    bounds = [f"{bound:,}" if isinstance(bound, int) else f"{bound:g}" for bound in (least, most)]
    return name, least <= getattr(generator, name) <= most, f"from {bounds[0]} to {bounds[1]}"


def require(generator: Generator, *rules: Rule) -> None:
    """Raise InvalidInput with every rule that the parameters of a generator break."""
    problems = [
        Problem(
            what=f"{name} of {generator.name} is {shorten(getattr(generator, name))}",
            rule=f"must be {allowed}",
        )
        for name, holds, allowed in rules
        if not holds
    ]
    if problems:
        raise InvalidInput(problems)
