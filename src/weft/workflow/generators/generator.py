"""The interface of generators, their parameters and the random numbers they share.

A generator makes workflows of one kind, and the platform they are meant for if there is one. It is a frozen
dataclass whose fields are its parameters; the command line, the documentation and studies read the parameters
from these fields. All random numbers come from the NumPy generator that is passed in, so equal seeds give
equal workflows. The suffix of a parameter's name is its unit. A value given as text may have any unit of the
same kind: ``work_s=1h30m``, ``bandwidth_Bps=100MB/s``, ``part_bytes=40MB``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args, get_origin, get_type_hints

from weft.errors import InvalidInput, Problem, shorten, suggest
from weft.platform.platform import DEFAULT_LINK, Platform
from weft.units import format_bytes, parse_bytes, parse_rate, parse_seconds
from weft.workflow.workflow import Workflow

if TYPE_CHECKING:
    import numpy as np


MOST_TASKS = 1_000_000
"""Maximum number of tasks of a generated workflow."""

LARGEST = 1e15
"""Maximum of seconds, bytes and factors, so that their products stay finite."""

Rule = tuple[str, bool, str]
"""The name of a parameter, whether its value is allowed, and the allowed values as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedWorkflow:
    """A workflow and its platform."""

    workflow: Workflow
    platform: Platform | None = None
    """The platform for which the workflow is meant; None if it is meant for any platform."""


class Generator(Protocol):
    """Makes workflows of one kind. Its fields are its parameters, each declared by ``parameter``."""

    name: ClassVar[str]
    """Its name in the registry."""
    title: ClassVar[str]
    """One line that describes the generated workflows and names their paper."""

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Return a random workflow, and the platform it is meant for if there is one."""
        ...


def parameter(default: Any, meaning: str, least: float | None = None, most: float = math.inf) -> Any:
    """Return a dataclass field for a parameter: its default, description and inclusive bounds."""
    return field(default=default, metadata={"meaning": meaning, "least": least, "most": most})


def check_parameters(generator: Any, *rules: Rule) -> None:
    """Raise InvalidInput with every parameter of a generator whose value is not allowed.

    ``rules`` replace the bounds of the parameters that they name.
    """
    further = {name: (holds, allowed) for name, holds, allowed in rules}
    problems: list[Problem] = []
    for part in fields(generator):
        value, least, most = getattr(generator, part.name), part.metadata["least"], part.metadata["most"]
        bounds = [f"{bound:,}" if isinstance(bound, int) else f"{bound:g}" for bound in (least or 0, most)]
        within = least is None or least <= value <= most
        holds, allowed = further.get(part.name, (within, f"from {bounds[0]} to {bounds[1]}"))
        if not holds:
            what = f"{part.name} of {generator.name} is {shorten(value)}"
            problems.append(Problem(what=what, rule=f"must be {allowed}"))
    if problems:
        raise InvalidInput(problems)


_UNITS: tuple[tuple[str, Callable[[str], float | None], str], ...] = (
    ("_Bps", parse_rate, "a bandwidth, such as 100MB/s"),
    ("_bytes", parse_bytes, "a size, such as 40MB"),
    ("_s", parse_seconds, "a time, such as 90s or 1h30m"),
)
"""Entries (suffix of a parameter's name, parser of the unit, description of allowed values)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorParameter:
    """The name, type, default and description of a parameter of a generator."""

    name: str
    type: Any
    default: Any
    meaning: str

    @property
    def choices(self) -> tuple[Any, ...]:
        """Return the allowed words; empty for numbers and booleans."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def text(self) -> str:
        """Return the parameter and its default in the syntax of the command line: ``tasks=100``."""
        return f"{self.name}={self._shown()}"

    def _shown(self) -> str:
        value = self.default
        if self.name.endswith(("_bytes", "_Bps")):
            rate = "/s" if self.name.endswith("_Bps") else ""
            return format_bytes(value).replace(" ", "") + rate
        if isinstance(value, bool):
            return str(value).lower()
        short = f"{value:g}" if isinstance(value, float) else str(value)
        return short if isinstance(value, str) or float(short) == value else repr(value)

    def as_record(self) -> dict[str, object]:
        """Return the parameter as a JSON object."""
        record = {"name": self.name, "default": self.default, "meaning": self.meaning}
        return record | ({"choices": list(self.choices)} if self.choices else {})


def list_parameters(kind: type) -> tuple[GeneratorParameter, ...]:
    """Return the parameters of a generator class in the order of its fields."""
    types = get_type_hints(kind)
    return tuple(
        GeneratorParameter(
            name=field.name,
            type=types[field.name],
            default=field.default,
            meaning=str(field.metadata["meaning"]),
        )
        for field in fields(kind)
    )


def configure_generator(kind: type, given: Mapping[str, object]) -> Generator:
    """Return a generator with these parameters, or raise InvalidInput with every problem."""
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
    advice = suggest(key, known, f"known: {', '.join(known)}")
    return InvalidInput(f"{kind} has no parameter {shorten(repr(key))}", advice=advice)


def _read(setting: GeneratorParameter, value: object) -> object:
    """Return a value converted to the type of its parameter, or raise InvalidInput."""
    found, rule = _converted(setting, value)
    if found is None:
        raise InvalidInput(f"{setting.name}={shorten(value)}", rule=f"must be {rule}")
    return found


def _converted(setting: GeneratorParameter, value: object) -> tuple[object | None, str]:
    """Return the value converted to the parameter's type (None if invalid) and the rule for valid values."""
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
    """Return a number or the number in a text as a finite float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


_DIGITS = 6
"""Significant digits of random numbers; few digits keep files short."""


def round_digits(number: float) -> float:
    """Return a number rounded to six significant digits, as it is written to files."""
    return float(f"{number:.{_DIGITS}g}")


def draw_around(rng: np.random.Generator, mean: float, spread: float, count: int) -> list[float]:
    """Return ``count`` uniform random numbers between ``mean * (1 - spread)`` and ``mean * (1 + spread)``."""
    factors = rng.uniform(1.0 - spread, 1.0 + spread, size=count)
    return [round_digits(mean * factor) for factor in factors.tolist()]


def draw_bytes(rng: np.random.Generator, mean_bytes: float, spread: float, count: int) -> list[int]:
    """Return ``count`` random file sizes in whole bytes, distributed as in ``draw_around``."""
    return [round(size) for size in draw_around(rng, mean_bytes, spread, count)]


def draw_platform(
    rng: np.random.Generator,
    machines: int,
    heterogeneity: float,
    bandwidth_Bps: float = DEFAULT_LINK.bandwidth_Bps,  # noqa: N803 -- B is bytes, b would be bits
) -> Platform | None:
    """Return a platform of one-node machines with random speeds from 1 to ``heterogeneity``.

    None if ``machines`` is 0.
    """
    from weft.platform.generator import random_platform

    if machines == 0:
        return None
    return random_platform(machines, rng=rng, heterogeneity=heterogeneity, bandwidth_Bps=bandwidth_Bps)
