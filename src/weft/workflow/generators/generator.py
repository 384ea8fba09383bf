"""The contract of the registry of generators: read it first.

A generator makes workflows of one kind, and the platform they are meant for where there is one. It is a
frozen dataclass whose fields are its parameters: the command line, the documentation and studies read them
from there. All its random numbers come from the generator passed in, so the same seed gives the same
workflow.

Parameters of generators as users give them: by name, as text or as values, checked against the fields.

The ending of a parameter's name is its unit, and text may use any unit of that kind: ``work_s=1h30m``,
``bandwidth_Bps=100MB/s``, ``part_bytes=40MB``.

Random work and sizes, as short numbers that are the same in memory and in a file.

The random platform that comes with a workflow which is not tied to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args, get_origin, get_type_hints

import numpy as np

from weft.errors import InvalidInput, Problem, nearest, shorten
from weft.platform.platform import DEFAULT_LINK, Platform
from weft.units import format_bytes, parse_bytes, parse_rate, parse_seconds
from weft.workflow.workflow import Workflow

if TYPE_CHECKING:
    import numpy as np

if TYPE_CHECKING:
    import numpy as np

    from weft.platform.platform import Platform

__all__ = [
    "LARGEST",
    "MEANING",
    "MOST_MACHINES",
    "MOST_TASKS",
    "GeneratedWorkflow",
    "Generator",
    "GeneratorParameter",
    "Rule",
    "check_rules",
    "configure_generator",
    "draw_around",
    "draw_bytes",
    "draw_platform",
    "list_parameters",
    "parameter",
    "range_rule",
    "round_digits",
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
class GeneratedWorkflow:
    """What a generator gives."""

    workflow: Workflow
    platform: Platform | None = None
    """The platform the workflow was made for; None: any will do."""


class Generator(Protocol):
    """One kind of workflow. Its fields are its parameters, each declared by ``parameter``."""

    name: ClassVar[str]
    """The word under which it stands on the registry."""
    title: ClassVar[str]
    """What it makes, in a line, with the paper."""

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Make one workflow."""
        ...


def parameter(default: Any, meaning: str) -> Any:
    """Declare a parameter of a generator: its default and one sentence about it."""
    return field(default=default, metadata={MEANING: meaning})


def range_rule(generator: Generator, name: str, least: float, most: float) -> Rule:
    """Make the rule that a number lies between two bounds, both included."""
    bounds = [f"{bound:,}" if isinstance(bound, int) else f"{bound:g}" for bound in (least, most)]
    return name, least <= getattr(generator, name) <= most, f"from {bounds[0]} to {bounds[1]}"


def check_rules(generator: Generator, *rules: Rule) -> None:
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


_UNITS: tuple[tuple[str, Callable[[str], float | None], str], ...] = (
    ("_Bps", parse_rate, "a bandwidth, such as 100MB/s"),
    ("_bytes", parse_bytes, "a size, such as 40MB"),
    ("_s", parse_seconds, "a time, such as 90s or 1h30m"),
)
"""The ending of a name, how text of that unit is read, and the rule for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorParameter:
    """One parameter of a kind, for lists and for reading its value."""

    name: str
    type: Any
    default: Any
    meaning: str

    @property
    def choices(self) -> tuple[Any, ...]:
        """Give the words it can be; none: it is a number, or true or false."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def text(self) -> str:
        """Write the parameter with its default, as it is given on the command line."""
        return f"{self.name}={self._shown()}"

    def _shown(self) -> str:
        value = self.default
        if self.name.endswith(("_bytes", "_Bps")):
            rate = "/s" if self.name.endswith("_Bps") else ""
            return format_bytes(value).replace(" ", "") + rate
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:g}" if isinstance(value, float) else str(value)

    def as_record(self) -> dict[str, object]:
        """Give the parameter as plain data."""
        record = {"name": self.name, "default": self.default, "meaning": self.meaning}
        return record | ({"choices": list(self.choices)} if self.choices else {})


def list_parameters(kind: type) -> tuple[GeneratorParameter, ...]:
    """List the parameters of a kind, in the order they are written."""
    types = get_type_hints(kind)
    return tuple(
        GeneratorParameter(
            name=field.name,
            type=types[field.name],
            default=field.default,
            meaning=str(field.metadata.get(MEANING, "")),
        )
        for field in fields(kind)
    )


def configure_generator(kind: type, given: Mapping[str, object]) -> Generator:
    """Make the generator of a kind with these parameters. Raises InvalidInput with everything wrong."""
    known = {setting.name: setting for setting in list_parameters(kind)}
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        try:
            if name not in known:
                raise _unknown(str(kind.name), key, list(known))  # type: ignore[attr-defined]
            values[name] = _read(known[name], value)
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    made: Generator = kind(**values)
    return made


def _unknown(kind: str, key: str, known: list[str]) -> InvalidInput:
    close = nearest(key, known)
    advice = f"did you mean {close!r}?" if close else f"it has: {', '.join(known)}"
    return InvalidInput(Problem(what=f"{kind} has no parameter {shorten(repr(key))}", advice=advice))


def _read(setting: GeneratorParameter, value: object) -> object:
    """Turn a value into the type of its parameter, or refuse it."""
    found, rule = _converted(setting, value)
    if found is None:
        raise InvalidInput(Problem(what=f"{setting.name}={shorten(value)}", rule=f"must be {rule}"))
    return found


def _converted(setting: GeneratorParameter, value: object) -> tuple[object | None, str]:
    """Give the value, None where it is none, and the rule for it."""
    if setting.choices:
        rule = f"one of {', '.join(map(str, setting.choices))}"
        return (value if value in setting.choices else None), rule
    if setting.type is bool:
        words = {True: True, False: False, "true": True, "false": False}
        known = isinstance(value, bool | str)
        return (words.get(value) if known else None), "true or false"
    if setting.type is int:
        return _whole(value), "a whole number"
    for ending, parse, rule in _UNITS:
        if setting.name.endswith(ending):
            return (parse(value) if isinstance(value, str) else _number(value)), rule
    return _number(value), "a number"


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None or number % 1 else int(number)


def _number(value: object) -> float | None:
    """Give a finite number: one that is given, or the text of one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


_DIGITS = 6
"""Enough for a time or a size that nobody measured; the whole double would only fill the file."""


def round_digits(number: float) -> float:
    """Round to the digits worth writing."""
    return float(f"{number:.{_DIGITS}g}")


def draw_around(rng: np.random.Generator, mean: float, spread: float, count: int) -> list[float]:
    """Draw numbers evenly between ``mean * (1 - spread)`` and ``mean * (1 + spread)``."""
    factors = rng.uniform(1.0 - spread, 1.0 + spread, size=count)
    return [round_digits(mean * factor) for factor in factors.tolist()]


def draw_bytes(rng: np.random.Generator, mean_bytes: float, spread: float, count: int) -> list[int]:
    """Draw file sizes in whole bytes, evenly around their mean."""
    return [round(size) for size in draw_around(rng, mean_bytes, spread, count)]


MOST_MACHINES = 1_000_000
"""As many as a platform can name."""


def draw_platform(
    rng: np.random.Generator,
    machines: int,
    heterogeneity: float,
    bandwidth_Bps: float = DEFAULT_LINK.bandwidth_Bps,  # noqa: N803 -- B is bytes, b would be bits
) -> Platform | None:
    """Draw one-node machines whose speeds lie between 1 and the heterogeneity; None if none are wanted."""
    from weft.platform.generator import random_platform

    if machines == 0:
        return None
    return random_platform(machines, rng=rng, heterogeneity=heterogeneity, bandwidth_Bps=bandwidth_Bps)
