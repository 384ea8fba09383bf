"""Parameters of generators as users give them: by name, as text or as values, checked against the fields.

The ending of a parameter's name is its unit, and text may use any unit of that kind: ``work_s=1h30m``,
``bandwidth_Bps=100MB/s``, ``part_bytes=40MB``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from weft.errors import InvalidInput, Problem, nearest, shorten
from weft.units import format_bytes, parse_bytes, parse_rate, parse_seconds
from weft.workflow.generators.generator import MEANING, Generator

__all__ = ["Setting", "configured", "settings_of"]

_UNITS: tuple[tuple[str, Callable[[str], float | None], str], ...] = (
    ("_Bps", parse_rate, "a bandwidth, such as 100MB/s"),
    ("_bytes", parse_bytes, "a size, such as 40MB"),
    ("_s", parse_seconds, "a time, such as 90s or 1h30m"),
)
"""The ending of a name, how text of that unit is read, and the rule for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
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


def settings_of(kind: type) -> tuple[Setting, ...]:
    """List the parameters of a kind, in the order they are written."""
    types = get_type_hints(kind)
    return tuple(
        Setting(
            name=field.name,
            type=types[field.name],
            default=field.default,
            meaning=str(field.metadata.get(MEANING, "")),
        )
        for field in fields(kind)
    )


def configured(kind: type, given: Mapping[str, object]) -> Generator:
    """Make the generator of a kind with these parameters. Raises InvalidInput with everything wrong."""
    known = {setting.name: setting for setting in settings_of(kind)}
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


def _read(setting: Setting, value: object) -> object:
    """Turn a value into the type of its parameter, or refuse it."""
    found, rule = _converted(setting, value)
    if found is None:
        raise InvalidInput(Problem(what=f"{setting.name}={shorten(value)}", rule=f"must be {rule}"))
    return found


def _converted(setting: Setting, value: object) -> tuple[object | None, str]:
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
