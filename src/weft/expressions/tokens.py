"""The first look at a text: only known characters, sound literals, bounded nesting.

What is refused here is refused before Python's own parser sees it, so that a hostile or broken text costs one
linear pass and gives a message about our language instead of a warning or an error about Python.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from weft.errors import shorten
from weft.expressions.failure import Refusal

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "Token", "scan"]

MAX_LENGTH = 10_000
"""Characters an expression may have."""
MAX_DEPTH = 100
"""How deeply an expression may be nested."""
_MAX_DIGITS = 1300
_SURROUNDING = " \t\r\n"

_DIGITS = r"[0-9][0-9_]*"
_TOKEN = re.compile(
    r"(?P<blank>[ \t]+)"
    rf"|(?P<number>(?:{_DIGITS}(?:\.[0-9_]*)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?)"
    r"|(?P<name>[^\W0-9]\w*)"
    r"""|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"|(?P<operator>\*\*|//|<=|>=|==|!=|[-+*/%<>()\[\],.])"
)
_BAD_ESCAPE = re.compile(
    r"""(?<!\\)(?:\\\\)*(\\(?![\\'"ntr]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}))"""
)
_INSTEAD = {
    "=": "compare with ==",
    "&": "write `and`",
    "|": "write `or`",
    "!": "write `not`, or != to compare",
    "^": "write ** for a power",
    "~": "write `not`",
    "{": "write a list in [ ]",
    "}": "write a list in [ ]",
    ":": "an index is one value, and there are no functions to define",
    "#": "put comments outside the expression",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
    "×": "write *",
    "\n": "write it on one line",
    "\u00a0": "write a plain space",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One word of the text; ``start`` counts characters from 0."""

    kind: str
    text: str
    start: int


def scan(text: str) -> list[Token]:
    """Cut a text into tokens without blanks, or refuse it."""
    if len(text) > MAX_LENGTH:
        rule = f"an expression has at most {MAX_LENGTH} characters"
        raise Refusal(f"{len(text)} characters", rule=rule, advice="shorten it, or name parts of it").at(1)
    # What surrounds it does not matter: YAML's block strings end with a newline.
    text = text.rstrip(_SURROUNDING)
    begin = len(text) - len(text.lstrip(_SURROUNDING))
    for start, character in enumerate(text[begin:], start=begin):
        if not (character.isprintable() or character == "\t"):
            raise _stray(character, start)
    tokens: list[Token] = []
    position = begin
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _stray(text[position], position)
        if match.lastgroup != "blank":
            token = Token(kind=match.lastgroup or "", text=match[0], start=position)
            _check(token, tokens[-1] if tokens else None)
            tokens.append(token)
        position = match.end()
    _check_nesting(tokens)
    return tokens


def _stray(character: str, start: int) -> Refusal:
    if character in "\"'":
        return Refusal("a string without an end", advice=f"close it with {character}").at(start + 1)
    advice = _INSTEAD.get(character, "remove it, or write it inside a string as an escape such as \\u00e9")
    return Refusal(f"the character {character!r} is not part of expressions", advice=advice).at(start + 1)


def _check(token: Token, before: Token | None) -> None:
    touching = before is not None and before.start + len(before.text) == token.start
    if before is not None and before.kind == "number" and touching:
        _check_after_number(token, before)
    if token.kind == "number" and len(token.text) > _MAX_DIGITS:
        raise Refusal("a number with too many digits", rule="a number has at most 1233 digits").at(
            token.start + 1
        )
    if token.kind == "string":
        _check_string(token, before, touching)


def _check_after_number(token: Token, before: Token) -> None:
    found = f"the number {shorten(before.text, 20)} runs into {shorten(token.text, 20)!r}"
    if token.text.startswith("."):
        advice = "ranges such as 1..50 belong into sweeps; here write range(1, 50)"
        raise Refusal(found, advice=advice).at(token.start + 1)
    if token.kind in ("name", "number"):
        advice = f"write {shorten(before.text, 20)}*{shorten(token.text, 20)}"
        raise Refusal(found, advice=advice).at(token.start + 1)


def _check_string(token: Token, before: Token | None, touching: bool) -> None:
    if before is not None and before.kind == "name" and touching:
        prefix = shorten(before.text, 20)
        raise Refusal(
            f"the string has the prefix {prefix!r}", rule="strings have no prefix", advice="remove it"
        ).at(before.start + 1)
    if before is not None and before.kind == "string":
        raise Refusal("two strings side by side", advice="join them with +").at(token.start + 1)
    if bad := _BAD_ESCAPE.search(token.text):
        found = token.text[bad.start(1) : bad.start(1) + 2]
        advice = "write \\\\ for a backslash"
        raise Refusal(f"unknown escape {found!r} in a string", advice=advice).at(
            token.start + bad.start(1) + 1
        )


def _check_nesting(tokens: list[Token]) -> None:
    depth = prefixes = 0
    for token in tokens:
        prefixes = prefixes + 1 if token.text in ("-", "+", "not") else 0
        if token.kind == "operator":
            depth += (token.text in "([") - (token.text in ")]")
        if max(depth, prefixes) > MAX_DEPTH:
            rule = f"an expression is nested at most {MAX_DEPTH} deep"
            raise Refusal("too many nested parts", rule=rule, advice="name parts of it").at(token.start + 1)
