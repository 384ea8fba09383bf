"""Operators and functions of expressions, applied to single values.

Every result is bounded (integers in bits, strings in characters, floats must be finite), so that no
expression can make evaluation slow. ``FUNCTIONS`` is the list of allowed functions. ``Function`` checks the
kinds of the arguments and handles unknown arguments, so that implementations see only values of the kinds
they accept.
"""

from __future__ import annotations

import math
import operator as standard
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

from weft.errors import shorten, suggest
from weft.expressions.values import Refusal, Value, ValueKind, describe, format_kinds, kind_of, to_value
from weft.records import dataclass

MAX_BITS = 4096
"""Maximum number of bits of an integer."""
_MAX_EXPONENT = 1024
"""Maximum absolute value of an exponent."""
_MAX_STRING = 10_000
"""Maximum length of a concatenated string."""

_NUMERIC = (ValueKind.NUMBER, ValueKind.UNKNOWN)
_TEXTUAL = (ValueKind.STRING, ValueKind.UNKNOWN)


def apply_arithmetic(operator: str, left: Value, right: Value) -> Value:
    """Return the result of ``+ - * / // % **``. ``+`` concatenates strings; an unknown operand gives NaN."""
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
    _check_bounds(left)
    _check_bounds(right)
    try:
        result = _CALCULATIONS[operator](left, right)
    except ZeroDivisionError:
        raise Refusal(
            "division by zero", advice="test the divisor, for example `a / b if b != 0 else 0`"
        ) from None
    except OverflowError:
        raise _too_large() from None
    return _check_bounds(result, left, right)


def _power(base: float, exponent: float) -> float:
    if not -_MAX_EXPONENT <= exponent <= _MAX_EXPONENT:
        rule = f"exponents lie between -{_MAX_EXPONENT} and {_MAX_EXPONENT}"
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


def _check_bounds(result: float, *operands: float) -> float:
    """Return the result, or raise Refusal if it is too large or not a number."""
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
    rule = f"integers have at most {MAX_BITS} bits, other numbers are below 1.8e308"
    return Refusal("the result is too large", rule=rule, advice="use larger units, such as 1e9 operations")


def _join(left: str, right: str) -> str:
    if len(left) + len(right) > _MAX_STRING:
        raise Refusal("the joined string is too long", rule=f"strings have at most {_MAX_STRING} characters")
    return left + right


def apply_sign(operator: str, operand: Value) -> Value:
    """Return a number with the sign ``-`` or ``+`` applied; NaN for an unknown operand."""
    if (kind := kind_of(operand)) is ValueKind.UNKNOWN:
        return math.nan
    if kind is not ValueKind.NUMBER:
        raise Refusal(f"`{operator}` before {describe(operand)}", rule="unary + and - need a number")
    number = _check_bounds(cast("float", operand))
    return -number if operator == "-" else number


def to_condition(value: Value) -> bool:
    """Return a truth value, False for an unknown value; raise Refusal for other kinds."""
    if (kind := kind_of(value)) is ValueKind.BOOLEAN:
        return bool(value)
    if kind is ValueKind.UNKNOWN:
        return False
    advice = f"compare it, for example `x {'!= 0' if kind is ValueKind.NUMBER else '== ...'}`"
    what = f"{describe(value)} is used as a condition"
    raise Refusal(what, rule="conditions are true or false", advice=advice)


def compare(operator: str, left: Value, right: Value) -> bool:
    """Return the result of a comparison; with an unknown operand it is false, also for ``!=``."""
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
        advice="compare values of one kind; only == and != compare any values",
    )


def _equal(left: Value, right: Value) -> bool:
    if (kind := kind_of(left)) is ValueKind.UNKNOWN or kind is not kind_of(right):
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
        types = set(map(type, container))
        if type(item) is str or (type(item) in (int, float) and types <= {int, float, str}):
            return item in container  # Python compares these types as expressions do
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
    """Return the entry of a list at a position, or the entry of a mapping with a key.

    A negative position counts from the end of the list. Return None if the list, mapping or key is unknown.
    """
    if ValueKind.UNKNOWN in (kind_of(target), kind_of(key)):
        return None
    if isinstance(target, list):
        return _entry(target, key)
    if not isinstance(target, Mapping):
        raise Refusal(f"{describe(target)} has no entries", rule="only lists and mappings can be indexed")
    if isinstance(key, bool) or not isinstance(key, str | int | float):
        raise Refusal(f"{describe(key)} is used as a key", rule="keys are strings or numbers")
    if key not in target:
        texts = [entry for entry in target if isinstance(entry, str)]
        advice = suggest(str(key), texts, f"known: {shorten(', '.join(map(str, target)))}")
        raise Refusal(f"no entry {shorten(repr(key), 40)} in the mapping", advice=advice)
    return to_value(target[key])


def _entry(target: list[Any], position: Value) -> Value:
    if isinstance(position, bool) or not isinstance(position, int):
        advice = "round it with int(...)" if isinstance(position, float) else ""
        what = f"{describe(position)} is used as a position"
        raise Refusal(what, rule="positions in a list are whole numbers", advice=advice)
    if not -len(target) <= position < len(target):
        bounds = f"a list of {len(target)} has positions 0 to {len(target) - 1}"
        rule = bounds if target else "the list is empty"
        raise Refusal(f"position {describe(position)} is outside the list", rule=rule, advice="count from 0")
    return to_value(target[position])


MAX_ENTRIES = 1_000_000
"""Maximum number of entries that all lists made in one evaluation have in total."""
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
    """A function that expressions can call, with the kinds of its arguments and of its result."""

    name: str
    accepts: tuple[frozenset[ValueKind], ...]
    """The accepted kinds of each argument."""
    gives: ValueKind
    apply: Callable[..., Value]
    needed: int
    """Minimum number of arguments."""
    repeats: bool = False
    """Whether the last argument may be repeated."""
    if_unknown: Value = math.nan
    """The result if an argument is unknown."""
    deferred: bool = False
    """Whether the value exists only after a run has written the file that the function reads."""
    lenient: bool = False
    """Whether the function accepts unknown values; if so, its first argument may be an undefined name."""

    def accepted(self, position: int) -> frozenset[ValueKind]:
        """Return the accepted kinds of the argument at a position."""
        return self.accepts[min(position, len(self.accepts) - 1)]

    def check_count(self, count: int) -> None:
        """Raise Refusal for too few or too many arguments."""
        most = None if self.repeats else len(self.accepts)
        if count >= self.needed and (most is None or count <= most):
            return
        wanted = f"{self.needed}" if most == self.needed else f"{self.needed} to {most}"
        plural = "" if most is None or wanted == "1" else "s"
        rule = f"it takes {wanted if most else 'at least 1'} argument{plural}"
        raise Refusal(f"{self.name}() has {count} argument{'' if count == 1 else 's'}", rule=rule)

    def check_kind(self, position: int, kind: ValueKind, found: str) -> None:
        """Raise Refusal for an argument of a kind that is not accepted; unknown is always accepted."""
        if kind is ValueKind.UNKNOWN or kind in self.accepted(position):
            return
        rule = f"it takes {format_kinds(self.accepted(position))} there"
        raise Refusal(f"an argument of {self.name}() is {found}", rule=rule, argument=position)

    def __call__(self, *arguments: Value) -> Value:
        """Return the value for these arguments, or raise Refusal."""
        if self.deferred:
            advice = "use it only for the values of a sweep"
            raise Refusal(f"{self.name}() has no value before the file exists", advice=advice)
        kinds = [kind_of(argument) for argument in arguments]
        for position, (argument, kind) in enumerate(zip(arguments, kinds, strict=True)):
            self.check_kind(position, kind, describe(argument))
        if ValueKind.UNKNOWN in kinds and not self.lenient:
            return self.if_unknown
        try:
            return self.apply(*arguments)
        except OverflowError:
            raise Refusal(f"the result of {self.name}() is too large") from None


def _are_numbers(values: list[Any]) -> bool:
    """Return whether all values are finite integers or floats, which Python's own functions can process."""
    return {int, float}.issuperset(map(type, values)) and all(value - value == 0 for value in values)


def _extreme(choose: Callable[[list[Any]], Value]) -> Callable[..., Value]:
    def apply(*arguments: Value) -> Value:
        listing = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else list(arguments)
        if listing and _are_numbers(listing):
            return choose(listing)
        values = [to_value(value) for value in listing]
        if not values:
            raise Refusal("min() or max() is called with an empty list", argument=0)
        kinds = {kind_of(value) for value in values}
        if kinds - {ValueKind.NUMBER, ValueKind.UNKNOWN}:
            raise Refusal("min() or max() is called with values that are not numbers", argument=0)
        return math.nan if ValueKind.UNKNOWN in kinds else choose(values)

    return apply


def _sum(values: list[Any]) -> Value:
    # Not sum(): it compensates rounding from Python 3.12 on, and results must not depend on the version.
    total: Value = 0
    if _are_numbers(values):
        for value in values:
            total += value
        return _check_bounds(cast("float", total), 0)
    for value in values:
        total = apply_arithmetic("+", total, to_value(value))
    return total


def _square_root(value: float) -> float:
    if value < 0:
        raise Refusal(
            f"sqrt() is called with {describe(value)}", rule="the argument must be at least 0", argument=0
        )
    return math.sqrt(value)


def _logarithm(name: str, function: Callable[[float], float]) -> Callable[[float], float]:
    def apply(value: float) -> float:
        if value <= 0:
            raise Refusal(
                f"{name}() is called with {describe(value)}", rule="the argument must be above 0", argument=0
            )
        return function(value)

    return apply


def _log(value: float, base: float = math.e) -> float:
    if base <= 0 or base == 1:
        raise Refusal(
            f"log() is called with the base {describe(base)}",
            rule="the base must be above 0 and not 1",
            argument=1,
        )
    natural = _logarithm("log", math.log)
    return natural(value) if base == math.e else natural(value) / natural(base)


def _round(value: float, digits: float | None = None) -> float:
    if digits is None:
        return round(value)
    if not isinstance(digits, int) or abs(digits) > _MAX_DIGITS:
        rule = f"the number of digits must be a whole number from -{_MAX_DIGITS} to {_MAX_DIGITS}"
        raise Refusal(
            f"round() is called with {describe(digits)} as the number of digits", rule=rule, argument=1
        )
    return round(value, digits)


def _to_number(name: str, convert: Callable[[str], float], value: float | str) -> float:
    if not isinstance(value, str):
        return value
    try:
        number = convert(value) if len(value) <= _MAX_DIGITS else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Refusal(
            f"{name}() is called with {describe(value)}", rule="the string must contain a number", argument=0
        )
    return number


def _string(value: bool | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(_check_bounds(value)) if isinstance(value, int) else str(value)


def _matches(text: str, pattern: str) -> bool:
    if len(pattern) > _MAX_PATTERN:
        raise Refusal(
            "the pattern is too long",
            rule=f"a pattern must have at most {_MAX_PATTERN} characters",
            argument=1,
        )
    if len(text) > _MAX_TEXT:
        raise Refusal(
            "the text is too long to match",
            rule=f"a text must have at most {_MAX_TEXT} characters",
            argument=0,
        )
    try:
        return fnmatchcase(text, pattern)
    except re.error:
        raise Refusal(f"the pattern {shorten(repr(pattern), 40)} is malformed", argument=1) from None


def _range(low: float, high: float) -> list[int]:
    if not (isinstance(low, int) and isinstance(high, int)):
        raise Refusal(
            "a bound of range() is a fraction",
            rule="both bounds must be whole numbers",
            advice="use int(...)",
        )
    if high - low >= MAX_ENTRIES:
        raise Refusal(
            "the list of range() is too long", rule=f"a list must have at most {MAX_ENTRIES} entries"
        )
    return list(range(low, high + 1))


def _of_list(choose: Callable[[list[bool]], bool]) -> Callable[[list[Any]], bool]:
    return lambda values: choose([to_condition(to_value(value)) for value in values])


def _default(value: Value, otherwise: Value) -> Value:
    return otherwise if kind_of(value) is ValueKind.UNKNOWN else value


def _deferred(*_arguments: Value) -> Value:
    raise Refusal("the value is unknown until the file exists")


def _functions() -> Iterator[Function]:
    """Yield every function of the language."""

    def define(
        name: str, apply: Callable[..., Value], gives: ValueKind, *accepts: frozenset[ValueKind], **more: Any
    ) -> Function:
        more.setdefault("needed", len(accepts))
        more.setdefault("if_unknown", {ValueKind.NUMBER: math.nan, ValueKind.BOOLEAN: False}.get(gives))
        return Function(name=name, apply=apply, gives=gives, accepts=accepts, **more)

    number, string, boolean = ValueKind.NUMBER, ValueKind.STRING, ValueKind.BOOLEAN
    yield define("min", _extreme(min), number, _NUMBERS, _NUMBER, needed=1, repeats=True)
    yield define("max", _extreme(max), number, _NUMBERS, _NUMBER, needed=1, repeats=True)
    yield define("abs", abs, number, _NUMBER)
    yield define("ceil", math.ceil, number, _NUMBER)
    yield define("floor", math.floor, number, _NUMBER)
    yield define("round", _round, number, _NUMBER, _NUMBER, needed=1)
    yield define("sqrt", _square_root, number, _NUMBER)
    yield define("log", _log, number, _NUMBER, _NUMBER, needed=1)
    yield define("log2", _logarithm("log2", math.log2), number, _NUMBER)
    yield define("log10", _logarithm("log10", math.log10), number, _NUMBER)
    yield define("exp", math.exp, number, _NUMBER)
    yield define("len", len, number, _SIZED)
    yield define("sum", _sum, number, _LIST)
    yield define("any", _of_list(any), boolean, _LIST)
    yield define("all", _of_list(all), boolean, _LIST)
    yield define("int", lambda value: int(_to_number("int", int, value)), number, _SIMPLE)
    yield define("float", lambda value: float(_to_number("float", float, value)), number, _SIMPLE)
    yield define("str", _string, string, _SIMPLE)
    yield define("matches", _matches, boolean, _STRING, _STRING)
    yield define("startswith", str.startswith, boolean, _STRING, _STRING)
    yield define("endswith", str.endswith, boolean, _STRING, _STRING)
    yield define("lower", str.lower, string, _STRING)
    yield define("upper", str.upper, string, _STRING)
    yield define("range", _range, ValueKind.LIST, _NUMBER, _NUMBER)
    yield define("default", _default, ValueKind.UNKNOWN, _ANY, _ANY, lenient=True)
    yield define("lines", _deferred, ValueKind.LIST, _STRING, deferred=True)


FUNCTIONS: Mapping[str, Function] = {function.name: function for function in _functions()}
"""All functions by name."""
