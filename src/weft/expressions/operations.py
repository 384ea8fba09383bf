"""What the operators do with single values: arithmetic with bounds, comparison, truth, indexing.

Every result is bounded (integers in bits, strings in characters, floats by being finite), so that no text
makes evaluation slow, however it is written.

The white list of functions: what they accept, what they give, and what they do with single values.

A function sees only arguments of the kinds it accepts, never an unknown one: that is checked once, for all.
"""

from __future__ import annotations

import math
import operator as standard
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from weft.errors import nearest, shorten
from weft.expressions.values import Refusal, Value, ValueKind, describe, format_kinds, kind_of, to_value

__all__ = [
    "FUNCTIONS",
    "MAX_BITS",
    "MAX_ENTRIES",
    "MAX_EXPONENT",
    "MAX_STRING",
    "Function",
    "apply_arithmetic",
    "apply_sign",
    "check_bounds",
    "compare",
    "take_entry",
    "to_condition",
]


MAX_BITS = 4096
"""Bits an integer may have."""
MAX_EXPONENT = 1024
"""How large an exponent may be, either way."""
MAX_STRING = 10_000
"""Characters that joining strings may give."""

_NUMERIC = (ValueKind.NUMBER, ValueKind.UNKNOWN)
_TEXTUAL = (ValueKind.STRING, ValueKind.UNKNOWN)


def apply_arithmetic(operator: str, left: Value, right: Value) -> Value:
    """Apply ``+ - * / // % **``; strings can be joined with ``+``; an unknown operand gives NaN."""
    kinds = kind_of(left), kind_of(right)
    if kinds == (ValueKind.NUMBER, ValueKind.NUMBER):
        return _calculate(operator, cast("float", left), cast("float", right))
    if operator == "+" and kinds == (ValueKind.STRING, ValueKind.STRING):
        return _join(cast("str", left), cast("str", right))
    if all(kind in _NUMERIC for kind in kinds) or (
        operator == "+" and all(kind in _TEXTUAL for kind in kinds)
    ):
        return math.nan
    raise Refusal(
        f"`{operator}` between {describe(left)} and {describe(right)}",
        rule="arithmetic takes two numbers" + (" or, with +, two strings" if operator == "+" else ""),
        advice="check the names and types of the operands",
    )


def _calculate(operator: str, left: float, right: float) -> float:
    check_bounds(left)
    check_bounds(right)
    try:
        result = _CALCULATIONS[operator](left, right)
    except ZeroDivisionError:
        advice = "guard it, for example `a / b if b != 0 else 0`"
        raise Refusal("division by zero", advice=advice) from None
    except OverflowError:
        raise _too_large() from None
    return check_bounds(result, left, right)


def _power(base: float, exponent: float) -> float:
    if not -MAX_EXPONENT <= exponent <= MAX_EXPONENT:
        rule = f"exponents lie between -{MAX_EXPONENT} and {MAX_EXPONENT}"
        raise Refusal(f"the exponent of ** is {describe(exponent)}", rule=rule)
    if isinstance(base, int) and isinstance(exponent, int) and (base.bit_length() - 1) * exponent > MAX_BITS:
        raise _too_large()
    result = base**exponent
    if isinstance(result, complex):
        raise Refusal(f"a negative number to the power {exponent} has no real value")
    return cast("float", result)


_CALCULATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": standard.add,
    "-": standard.sub,
    "*": standard.mul,
    "/": standard.truediv,
    "//": standard.floordiv,
    "%": standard.mod,
    "**": _power,
}


def check_bounds(result: float, *operands: float) -> float:
    """Give the result back, or refuse one that outgrew its operands."""
    if isinstance(result, int):
        if result.bit_length() > MAX_BITS:
            raise _too_large()
    elif math.isinf(result) and not any(isinstance(value, float) and math.isinf(value) for value in operands):
        if operands:
            raise _too_large()
    elif math.isnan(result):
        raise Refusal("the result is not a number", advice="check for infinite operands")
    return result


def _too_large() -> Refusal:
    rule = f"integers have at most {MAX_BITS} bits, other numbers stay below 1.8e308"
    return Refusal("the result is too large", rule=rule, advice="use smaller units, such as 1e9 operations")


def _join(left: str, right: str) -> str:
    if len(left) + len(right) > MAX_STRING:
        raise Refusal("the joined string is too long", rule=f"strings have at most {MAX_STRING} characters")
    return left + right


def apply_sign(operator: str, operand: Value) -> Value:
    """Apply ``-`` or ``+`` to one operand."""
    kind = kind_of(operand)
    if kind is ValueKind.UNKNOWN:
        return math.nan
    if kind is not ValueKind.NUMBER:
        raise Refusal(f"`{operator}` before {describe(operand)}", rule="a sign takes a number")
    number = check_bounds(cast("float", operand))
    return -number if operator == "-" else number


def to_condition(value: Value) -> bool:
    """Read a value as a condition; unknown counts as false."""
    kind = kind_of(value)
    if kind is ValueKind.BOOLEAN:
        return bool(value)
    if kind is ValueKind.UNKNOWN:
        return False
    advice = (
        "compare it, for example `x != 0`"
        if kind is ValueKind.NUMBER
        else "compare it, for example `x == ...`"
    )
    raise Refusal(
        f"{describe(value)} used as a condition", rule="conditions are true or false", advice=advice
    )


def compare(operator: str, left: Value, right: Value) -> bool:
    """Apply a comparison; with an unknown side every one of them is false, ``!=`` and ``not in`` too."""
    kinds = kind_of(left), kind_of(right)
    if ValueKind.UNKNOWN in kinds:
        return False
    try:
        if operator in _ORDERINGS:
            return _order(operator, left, right, kinds)
        if operator in ("==", "!="):
            return _equal(left, right) == (operator == "==")
        return _contains(right, left) == (operator == "in")
    except RecursionError:
        raise Refusal("the lists to compare are nested too deeply") from None


_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "<": standard.lt,
    "<=": standard.le,
    ">": standard.gt,
    ">=": standard.ge,
}


def _order(operator: str, left: Value, right: Value, kinds: tuple[ValueKind, ValueKind]) -> bool:
    if kinds in ((ValueKind.NUMBER, ValueKind.NUMBER), (ValueKind.STRING, ValueKind.STRING)):
        return _ORDERINGS[operator](left, right)
    raise Refusal(
        f"`{operator}` between {describe(left)} and {describe(right)}",
        rule="only two numbers or two strings have an order",
        advice="compare values of one kind; == and != take any",
    )


def _equal(left: Value, right: Value) -> bool:
    kind = kind_of(left)
    if kind is ValueKind.UNKNOWN or kind is not kind_of(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            _equal(to_value(one), to_value(other)) for one, other in zip(left, right, strict=True)
        )
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            _equal(to_value(left[key]), to_value(right[key])) for key in left
        )
    return left == right


def _contains(container: Value, item: Value) -> bool:
    if isinstance(container, list):
        return any(_equal(to_value(entry), item) for entry in container)
    if isinstance(container, str) and isinstance(item, str):
        return item in container
    if isinstance(container, Mapping):
        return isinstance(item, str | int | float) and item in container
    raise Refusal(
        f"`in` between {describe(item)} and {describe(container)}",
        rule="`in` looks for a value in a list, a string in a string, or a key in a mapping",
    )


def take_entry(target: Value, key: Value) -> Value:
    """Take one entry: of a list by position (from 0, or from the end), of a mapping by key."""
    if ValueKind.UNKNOWN in (kind_of(target), kind_of(key)):
        return None
    if isinstance(target, list):
        return _entry(target, key)
    if not isinstance(target, Mapping):
        raise Refusal(f"{describe(target)} has no entries", rule="only lists and mappings can be indexed")
    if isinstance(key, bool) or not isinstance(key, str | int | float):
        raise Refusal(f"{describe(key)} used as a key", rule="keys are strings or numbers")
    if key not in target:
        close = nearest(str(key), [entry for entry in target if isinstance(entry, str)])
        advice = f"did you mean {close!r}?" if close else f"known: {shorten(', '.join(map(str, target)))}"
        raise Refusal(f"no entry {shorten(repr(key), 40)} in the mapping", advice=advice)
    return to_value(target[key])


def _entry(target: list[Any], position: Value) -> Value:
    if isinstance(position, bool) or not isinstance(position, int):
        advice = "round it with int(...)" if isinstance(position, float) else ""
        raise Refusal(
            f"{describe(position)} used as a position", rule="positions are whole numbers", advice=advice
        )
    if not -len(target) <= position < len(target):
        rule = (
            f"a list of {len(target)} has positions 0 to {len(target) - 1}" if target else "the list is empty"
        )
        raise Refusal(f"position {describe(position)} is outside the list", rule=rule, advice="count from 0")
    return to_value(target[position])


MAX_ENTRIES = 1_000_000
"""Entries that all ranges of one evaluation may have together."""
_MAX_PATTERN = 200
_MAX_TEXT = 10_000
_MAX_DIGITS = 300

_NUMBER = frozenset({ValueKind.NUMBER})
_STRING = frozenset({ValueKind.STRING})
_LIST = frozenset({ValueKind.LIST})
_NUMBERS = frozenset({ValueKind.NUMBER, ValueKind.LIST})
_SIMPLE = frozenset({ValueKind.NUMBER, ValueKind.STRING, ValueKind.BOOLEAN})
_SIZED = frozenset({ValueKind.LIST, ValueKind.STRING, ValueKind.MAPPING})
_ANY = frozenset(ValueKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of the language."""

    name: str
    accepts: tuple[frozenset[ValueKind], ...]
    """The kinds each argument may have."""
    gives: ValueKind
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

    def accepted(self, position: int) -> frozenset[ValueKind]:
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

    def check_kind(self, position: int, kind: ValueKind, found: str) -> None:
        """Refuse an argument of a kind that is not accepted; unknown is always accepted."""
        if kind is ValueKind.UNKNOWN or kind in self.accepted(position):
            return
        rule = f"it takes {format_kinds(self.accepted(position))} there"
        raise Refusal(f"{self.name}() is given {found}", rule=rule, argument=position)

    def __call__(self, *arguments: Value) -> Value:
        """Give the value for these arguments, or refuse."""
        if self.deferred:
            advice = "use it in a sweep, which is unfolded when the file exists"
            raise Refusal(f"{self.name}() is known only when the file exists", advice=advice)
        kinds = [kind_of(argument) for argument in arguments]
        for position, (argument, kind) in enumerate(zip(arguments, kinds, strict=True)):
            self.check_kind(position, kind, describe(argument))
        if ValueKind.UNKNOWN in kinds and not self.lenient:
            return self.if_unknown
        try:
            return self.apply(*arguments)
        except OverflowError:
            raise Refusal(f"the result of {self.name}() is too large") from None


def _extreme(choose: Callable[[list[Any]], Value]) -> Callable[..., Value]:
    def apply(*arguments: Value) -> Value:
        listing = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else list(arguments)
        values = [to_value(value) for value in listing]
        if not values:
            raise Refusal("an empty list has no smallest or largest entry", argument=0)
        kinds = {kind_of(value) for value in values}
        if kinds - {ValueKind.NUMBER, ValueKind.UNKNOWN}:
            raise Refusal("smallest and largest are asked of something else than numbers", argument=0)
        return math.nan if ValueKind.UNKNOWN in kinds else choose(values)

    return apply


def _sum(values: list[Any]) -> Value:
    # Entry by entry: from 3.12 on Python's sum() compensates rounding, and results must not depend on that.
    total: Value = 0
    for value in values:
        total = apply_arithmetic("+", total, to_value(value))
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
    return str(check_bounds(value)) if isinstance(value, int) else str(value)


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
    return lambda values: choose([to_condition(to_value(value)) for value in values])


def _default(value: Value, otherwise: Value) -> Value:
    return otherwise if kind_of(value) is ValueKind.UNKNOWN else value


def _deferred(*_arguments: Value) -> Value:
    raise Refusal("not known before the file exists")


def _numeric(name: str, apply: Callable[..., Value]) -> Function:
    return Function(name=name, accepts=(_NUMBER,), needed=1, gives=ValueKind.NUMBER, apply=apply)


def _textual(name: str, apply: Callable[..., Value], count: int, gives: ValueKind) -> Function:
    unknown = False if gives is ValueKind.BOOLEAN else None
    accepts = (_STRING,) * count
    return Function(name=name, accepts=accepts, needed=count, gives=gives, apply=apply, if_unknown=unknown)


_ALL = (
    Function(
        name="min",
        accepts=(_NUMBERS, _NUMBER),
        needed=1,
        repeats=True,
        gives=ValueKind.NUMBER,
        apply=_extreme(min),
    ),
    Function(
        name="max",
        accepts=(_NUMBERS, _NUMBER),
        needed=1,
        repeats=True,
        gives=ValueKind.NUMBER,
        apply=_extreme(max),
    ),
    _numeric("abs", abs),
    _numeric("ceil", math.ceil),
    _numeric("floor", math.floor),
    Function(name="round", accepts=(_NUMBER, _NUMBER), needed=1, gives=ValueKind.NUMBER, apply=_round),
    _numeric("sqrt", _square_root),
    Function(name="log", accepts=(_NUMBER, _NUMBER), needed=1, gives=ValueKind.NUMBER, apply=_log),
    _numeric("log2", _logarithm("log2", math.log2)),
    _numeric("log10", _logarithm("log10", math.log10)),
    _numeric("exp", math.exp),
    Function(name="len", accepts=(_SIZED,), needed=1, gives=ValueKind.NUMBER, apply=len),
    Function(name="sum", accepts=(_LIST,), needed=1, gives=ValueKind.NUMBER, apply=_sum),
    Function(
        name="any", accepts=(_LIST,), needed=1, gives=ValueKind.BOOLEAN, apply=_of_list(any), if_unknown=False
    ),
    Function(
        name="all", accepts=(_LIST,), needed=1, gives=ValueKind.BOOLEAN, apply=_of_list(all), if_unknown=False
    ),
    Function(name="int", accepts=(_SIMPLE,), needed=1, gives=ValueKind.NUMBER, apply=_whole),
    Function(name="float", accepts=(_SIMPLE,), needed=1, gives=ValueKind.NUMBER, apply=_floating),
    Function(
        name="str", accepts=(_SIMPLE,), needed=1, gives=ValueKind.STRING, apply=_string, if_unknown=None
    ),
    _textual("matches", _matches, 2, ValueKind.BOOLEAN),
    _textual("startswith", str.startswith, 2, ValueKind.BOOLEAN),
    _textual("endswith", str.endswith, 2, ValueKind.BOOLEAN),
    _textual("lower", str.lower, 1, ValueKind.STRING),
    _textual("upper", str.upper, 1, ValueKind.STRING),
    Function(
        name="range",
        accepts=(_NUMBER, _NUMBER),
        needed=2,
        gives=ValueKind.LIST,
        apply=_range,
        if_unknown=None,
    ),
    Function(
        name="default", accepts=(_ANY, _ANY), needed=2, gives=ValueKind.UNKNOWN, apply=_default, lenient=True
    ),
    Function(
        name="lines", accepts=(_STRING,), needed=1, gives=ValueKind.LIST, apply=_deferred, deferred=True
    ),
)

FUNCTIONS: Mapping[str, Function] = {function.name: function for function in _ALL}
"""Every function there is, by name."""
