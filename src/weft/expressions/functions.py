"""The white list of functions: what they accept, what they give, and what they do with single values.

A function sees only arguments of the kinds it accepts, never an unknown one: that is checked once, for all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from weft.errors import shorten
from weft.expressions.failure import Refusal
from weft.expressions.kinds import Kind, Value, describe, kind_of, listed, plain
from weft.expressions.operators import arithmetic, bounded, truth

__all__ = ["FUNCTIONS", "MAX_ENTRIES", "Function"]

MAX_ENTRIES = 1_000_000
"""Entries that all ranges of one evaluation may have together."""
_MAX_PATTERN = 200
_MAX_TEXT = 10_000
_MAX_DIGITS = 300

_NUMBER = frozenset({Kind.NUMBER})
_STRING = frozenset({Kind.STRING})
_LIST = frozenset({Kind.LIST})
_NUMBERS = frozenset({Kind.NUMBER, Kind.LIST})
_SIMPLE = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOLEAN})
_SIZED = frozenset({Kind.LIST, Kind.STRING, Kind.MAPPING})
_ANY = frozenset(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of the language."""

    name: str
    accepts: tuple[frozenset[Kind], ...]
    """The kinds each argument may have."""
    gives: Kind
    apply: Callable[..., Value]
    needed: int
    """How many of the arguments must be there."""
    repeats: bool = False
    """The last argument may come again and again."""
    if_unknown: Value = math.nan
    """The value when an argument is unknown."""
    deferred: bool = False
    """Has no value before the run has made the file it reads."""
    lenient: bool = False
    """Takes unknown values as they are; its first argument may be a name that nobody knows."""

    def accepted(self, position: int) -> frozenset[Kind]:
        """Tell which kinds the argument at this position may have."""
        return self.accepts[min(position, len(self.accepts) - 1)]

    def check_count(self, count: int) -> None:
        """Refuse too few or too many arguments."""
        most = None if self.repeats else len(self.accepts)
        if count >= self.needed and (most is None or count <= most):
            return
        wanted = f"{self.needed}" if most == self.needed else f"{self.needed} to {most}"
        rule = f"it takes {wanted if most else 'at least 1'} argument{'' if wanted == '1' else 's'}"
        raise Refusal(f"{self.name}() has {count} argument{'' if count == 1 else 's'}", rule=rule)

    def check_kind(self, position: int, kind: Kind, found: str) -> None:
        """Refuse an argument of a kind that is not accepted; unknown is always accepted."""
        if kind is Kind.UNKNOWN or kind in self.accepted(position):
            return
        rule = f"it takes {listed(self.accepted(position))} there"
        raise Refusal(f"{self.name}() is given {found}", rule=rule, argument=position)

    def __call__(self, *arguments: Value) -> Value:
        """Give the value for these arguments, or refuse."""
        if self.deferred:
            advice = "use it in a sweep, which is unfolded when the file exists"
            raise Refusal(f"{self.name}() is known only when the file exists", advice=advice)
        kinds = [kind_of(argument) for argument in arguments]
        for position, (argument, kind) in enumerate(zip(arguments, kinds, strict=True)):
            self.check_kind(position, kind, describe(argument))
        if Kind.UNKNOWN in kinds and not self.lenient:
            return self.if_unknown
        try:
            return self.apply(*arguments)
        except OverflowError:
            raise Refusal(f"the result of {self.name}() is too large") from None


def _extreme(choose: Callable[[list[Any]], Value]) -> Callable[..., Value]:
    def apply(*arguments: Value) -> Value:
        listing = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else list(arguments)
        values = [plain(value) for value in listing]
        if not values:
            raise Refusal("an empty list has no smallest or largest entry", argument=0)
        kinds = {kind_of(value) for value in values}
        if kinds - {Kind.NUMBER, Kind.UNKNOWN}:
            raise Refusal("smallest and largest are asked of something else than numbers", argument=0)
        return math.nan if Kind.UNKNOWN in kinds else choose(values)

    return apply


def _sum(values: list[Any]) -> Value:
    # Entry by entry: from 3.12 on Python's sum() compensates rounding, and results must not depend on that.
    total: Value = 0
    for value in values:
        total = arithmetic("+", total, plain(value))
    return total


def _square_root(value: float) -> float:
    if value < 0:
        raise Refusal(
            f"sqrt() of {describe(value)}", rule="only numbers from 0 on have a square root", argument=0
        )
    return math.sqrt(value)


def _logarithm(name: str, function: Callable[[float], float]) -> Callable[[float], float]:
    def apply(value: float) -> float:
        if value <= 0:
            rule = "only numbers above 0 have a logarithm"
            raise Refusal(f"{name}() of {describe(value)}", rule=rule, argument=0)
        return function(value)

    return apply


def _log(value: float, base: float = math.e) -> float:
    if base <= 0 or base == 1:
        raise Refusal(f"log() to the base {describe(base)}", rule="a base is above 0 and not 1", argument=1)
    natural = _logarithm("log", math.log)
    return natural(value) if base == math.e else natural(value) / natural(base)


def _round(value: float, digits: float | None = None) -> float:
    if digits is None:
        return round(value)
    if not isinstance(digits, int) or abs(digits) > _MAX_DIGITS:
        rule = f"digits are a whole number from -{_MAX_DIGITS} to {_MAX_DIGITS}"
        raise Refusal(f"round() to {describe(digits)} digits", rule=rule, argument=1)
    return round(value, digits)


def _whole(value: float | str) -> float:
    return int(_parsed("int", int, value))


def _floating(value: float | str) -> float:
    return float(_parsed("float", float, value))


def _parsed(name: str, convert: Callable[[str], float], value: float | str) -> float:
    if not isinstance(value, str):
        return value
    try:
        number = convert(value) if len(value) <= _MAX_DIGITS else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Refusal(f"{name}() of {describe(value)}", rule="the string must hold a number", argument=0)
    return number


def _string(value: bool | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(bounded(value)) if isinstance(value, int) else str(value)


def _matches(text: str, pattern: str) -> bool:
    if len(pattern) > _MAX_PATTERN:
        raise Refusal("a pattern that is too long", rule=f"at most {_MAX_PATTERN} characters", argument=1)
    if len(text) > _MAX_TEXT:
        raise Refusal("a text that is too long to match", rule=f"at most {_MAX_TEXT} characters", argument=0)
    try:
        return fnmatchcase(text, pattern)
    except re.error:
        raise Refusal(f"the pattern {shorten(repr(pattern), 40)} is malformed", argument=1) from None


def _range(low: float, high: float) -> list[int]:
    if not (isinstance(low, int) and isinstance(high, int)):
        raise Refusal(
            "range() with a broken number", rule="its ends are whole numbers", advice="use int(...)"
        )
    if high - low >= MAX_ENTRIES:
        raise Refusal("range() is too long", rule=f"at most {MAX_ENTRIES} entries")
    return list(range(low, high + 1))


def _of_list(choose: Callable[[list[bool]], bool]) -> Callable[[list[Any]], bool]:
    return lambda values: choose([truth(plain(value)) for value in values])


def _default(value: Value, otherwise: Value) -> Value:
    return otherwise if kind_of(value) is Kind.UNKNOWN else value


def _deferred(*_arguments: Value) -> Value:
    raise Refusal("not known before the file exists")


def _numeric(name: str, apply: Callable[..., Value]) -> Function:
    return Function(name=name, accepts=(_NUMBER,), needed=1, gives=Kind.NUMBER, apply=apply)


def _textual(name: str, apply: Callable[..., Value], count: int, gives: Kind) -> Function:
    unknown = False if gives is Kind.BOOLEAN else None
    accepts = (_STRING,) * count
    return Function(name=name, accepts=accepts, needed=count, gives=gives, apply=apply, if_unknown=unknown)


_ALL = (
    Function(
        name="min",
        accepts=(_NUMBERS, _NUMBER),
        needed=1,
        repeats=True,
        gives=Kind.NUMBER,
        apply=_extreme(min),
    ),
    Function(
        name="max",
        accepts=(_NUMBERS, _NUMBER),
        needed=1,
        repeats=True,
        gives=Kind.NUMBER,
        apply=_extreme(max),
    ),
    _numeric("abs", abs),
    _numeric("ceil", math.ceil),
    _numeric("floor", math.floor),
    Function(name="round", accepts=(_NUMBER, _NUMBER), needed=1, gives=Kind.NUMBER, apply=_round),
    _numeric("sqrt", _square_root),
    Function(name="log", accepts=(_NUMBER, _NUMBER), needed=1, gives=Kind.NUMBER, apply=_log),
    _numeric("log2", _logarithm("log2", math.log2)),
    _numeric("log10", _logarithm("log10", math.log10)),
    _numeric("exp", math.exp),
    Function(name="len", accepts=(_SIZED,), needed=1, gives=Kind.NUMBER, apply=len),
    Function(name="sum", accepts=(_LIST,), needed=1, gives=Kind.NUMBER, apply=_sum),
    Function(
        name="any", accepts=(_LIST,), needed=1, gives=Kind.BOOLEAN, apply=_of_list(any), if_unknown=False
    ),
    Function(
        name="all", accepts=(_LIST,), needed=1, gives=Kind.BOOLEAN, apply=_of_list(all), if_unknown=False
    ),
    Function(name="int", accepts=(_SIMPLE,), needed=1, gives=Kind.NUMBER, apply=_whole),
    Function(name="float", accepts=(_SIMPLE,), needed=1, gives=Kind.NUMBER, apply=_floating),
    Function(name="str", accepts=(_SIMPLE,), needed=1, gives=Kind.STRING, apply=_string, if_unknown=None),
    _textual("matches", _matches, 2, Kind.BOOLEAN),
    _textual("startswith", str.startswith, 2, Kind.BOOLEAN),
    _textual("endswith", str.endswith, 2, Kind.BOOLEAN),
    _textual("lower", str.lower, 1, Kind.STRING),
    _textual("upper", str.upper, 1, Kind.STRING),
    Function(
        name="range", accepts=(_NUMBER, _NUMBER), needed=2, gives=Kind.LIST, apply=_range, if_unknown=None
    ),
    Function(
        name="default", accepts=(_ANY, _ANY), needed=2, gives=Kind.UNKNOWN, apply=_default, lenient=True
    ),
    Function(name="lines", accepts=(_STRING,), needed=1, gives=Kind.LIST, apply=_deferred, deferred=True),
)

FUNCTIONS: Mapping[str, Function] = {function.name: function for function in _ALL}
"""Every function there is, by name."""
