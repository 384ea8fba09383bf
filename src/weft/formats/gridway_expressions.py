"""GridWay's requirement and rank expressions, translated to ours; never evaluated by Python.

A requirement is ``VAR = value`` (also ``!= > < >= <=``), joined by ``&`` and ``|``, with ``!``, parentheses
and an optional ``;`` at the end; texts match with shell wildcards. A rank is ``+ - * /`` over numbers (S3
section 2). As in the public GridWay release ``&`` and ``|`` bind equally and are read from the left:
``A | B & C`` means ``(A | B) & C``. An attribute that no machine states is 0 as a number and matches nothing
as a text, which is what ``default(NAME, 0)`` and ``default(NAME, null)`` say.

Deviations: real numbers, ``>=`` and ``<=``; a division by 0 gives 0; the name of an operating system is
compared without regard to case, since platforms write ``linux`` where GridWay has ``Linux``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from weft.errors import InvalidInput, shorten
from weft.expressions import Expression, parse
from weft.expressions.nodes import Binary, Call, Comparison, Conditional, Literal, Logical, Node, Unary
from weft.expressions.printing import to_text
from weft.formats.complaints import Complaints
from weft.formats.gridway_template import Entry

__all__ = ["translate_rank", "translate_requirement"]

_TOKEN = re.compile(
    r"""(?P<name>[A-Za-z][A-Za-z0-9_]*)
    |(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
    |(?P<text>"[^"]*")
    |(?P<mark>!=|>=|<=|[=><!&|();+*/-])""",
    re.VERBOSE,
)
_BLANK = re.compile(r"\s*")
_COMPARISONS = {"=": "==", "!=": "!=", ">": ">", "<": "<", ">=": ">=", "<=": "<="}
_JOINTS = {"&": "and", "|": "or"}
_MOST_TOKENS = 300
_MOST_DIGITS = 30
_DEEPEST = 20

_NUMBERS: Mapping[str, str] = {
    "CPU_SMP": "cores",
    "CPU_FREE": "default(CPU_FREE, 100 * cores * availability)",
    "NODECOUNT": "nodes",
    "FREENODECOUNT": "default(FREENODECOUNT, nodes)",
    "QUEUE_NODECOUNT": "default(QUEUE_NODECOUNT, nodes)",
    "QUEUE_FREENODECOUNT": "default(QUEUE_FREENODECOUNT, nodes)",
    "SIZE_MEM_MB": "default(memory, 0) / MB",
    "FREE_MEM_MB": "default(FREE_MEM_MB, default(memory, 0) / MB)",
    "SIZE_DISK_MB": "default(disk, 0) / MB",
    "FREE_DISK_MB": "default(FREE_DISK_MB, default(disk, 0) / MB)",
    "CPU_MHZ": "default(CPU_MHZ, 0)",
}
"""Attributes that are numbers, and what they are here; any other is ``default(NAME, 0)``."""

_TEXTS: Mapping[str, str] = {"HOSTNAME": "name", "ARCH": "arch", "OS_NAME": "lower(os)"}
"""Attributes that are texts, and what they are here; any other is ``default(NAME, null)``."""

_MORE_TEXTS = ("OS_VERSION", "CPU_MODEL", "FORK_NAME", "LRMS_NAME", "LRMS_TYPE", "QUEUE_NAME", "QUEUE_STATUS",
               "QUEUE_DISPATCHTYPE")  # fmt: skip


def translate_requirement(entry: Entry, complaints: Complaints) -> Expression | None:
    """Translate a requirement; None: every machine will do, or it was complained about."""
    return _translated(entry, complaints, "requirement")


def translate_rank(entry: Entry, complaints: Complaints) -> Expression | None:
    """Translate a rank; None: there is none, or it was complained about."""
    return _translated(entry, complaints, "rank")


def _translated(entry: Entry, complaints: Complaints, kind: str) -> Expression | None:
    try:
        parser = _Parser(entry.value)
        tree = parser.whole(parser.requirement if kind == "requirement" else parser.rank)
        return None if tree is None else parse(to_text(tree))
    except _Refused as refused:
        column = entry.column + refused.position
        what, rule = f"{refused.what} in {entry.key}", refused.rule
        complaints.add(what, rule=rule, line=entry.line, column=column)
    except InvalidInput as error:
        what = f"{entry.key} cannot be said in weft: {error.problems[0].what}"
        complaints.add(what, rule=error.problems[0].rule, line=entry.line, column=entry.column)
    return None


class _Refused(Exception):
    """A text that does not follow the grammar, and the position in it."""

    def __init__(self, what: str, rule: str, position: int) -> None:
        super().__init__(what)
        self.what, self.rule, self.position = what, rule, position


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """``name``, ``number``, ``text``, ``end``, or the mark itself."""
    text: str
    position: int


def _scan(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = _skip(text, 0)
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _Refused(f"{text[position]!r}", "texts stand in double quotes", position)
        kind = match.lastgroup or ""
        tokens.append(_Token(match[0] if kind == "mark" else kind, match[0], position))
        position = _skip(text, match.end())
        if len(tokens) > _MOST_TOKENS:
            raise _Refused(f"more than {_MOST_TOKENS} parts", "expressions are short", position)
    return [*tokens, _Token("end", "the end", len(text))]


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


class _Parser:
    """Recursive descent, one token ahead; every method gives what it has read as a tree of our language."""

    def __init__(self, text: str) -> None:
        self.tokens = _scan(text)
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        """Give the token that comes next."""
        return self.tokens[self.at]

    def whole(self, rule: Callable[[], Node]) -> Node | None:
        """Read everything; None where there is nothing."""
        tree = None if self.token.kind in ("end", ";") else rule()
        self._accept(";")
        if self.token.kind != "end":
            self._fail("something is missing before it")
        return tree

    def requirement(self) -> Node:
        """Read conditions joined by & and |, from the left."""
        tree = self._condition()
        while self.token.kind in _JOINTS:
            operator = _JOINTS[self._take().kind]
            operands = _operands(tree, operator) + _operands(self._condition(), operator)
            tree = Logical(operator=operator, operands=operands)
        return tree

    def _condition(self) -> Node:
        if self._accept("!"):
            return Unary(operator="not", operand=self._deeper(self._condition))
        if self._accept("("):
            return self._closed(self.requirement)
        return self._comparison()

    def _comparison(self) -> Node:
        name = self._expect("name", "a condition is written NAME = value")
        operator = self.token
        if operator.kind not in _COMPARISONS:
            self._fail("after the name of an attribute comes one of = != > < >= <=")
        self._take()
        if self.token.kind == "text":
            return _matching(name, operator, self._take())
        sign = -1.0 if self._accept("-") else 1.0
        number = _number(self._expect("number", 'a value is a number or a text in "quotes"'), sign)
        left = _numeric(name)
        return Comparison(operators=(_COMPARISONS[operator.kind],), operands=(left, number), columns=(1,))

    def rank(self) -> Node:
        """Read a sum."""
        tree = self._product()
        while self.token.kind in ("+", "-"):
            tree = Binary(operator=self._take().kind, left=tree, right=self._product())
        return tree

    def _product(self) -> Node:
        tree = self._factor()
        while self.token.kind in ("*", "/"):
            operator = self._take().kind
            right = self._factor()
            ratio = Binary(operator=operator, left=tree, right=right)
            tree = ratio if operator == "*" or _surely_not_0(right) else _guarded(ratio, right)
        return tree

    def _factor(self) -> Node:
        if self._accept("-"):
            return Unary(operator="-", operand=self._deeper(self._factor))
        if self._accept("("):
            return self._closed(self.rank)
        if self.token.kind == "number":
            return _number(self._take(), 1.0)
        return _numeric(self._expect("name", "a rank is made of numbers and of attributes that are numbers"))

    def _closed(self, rule: Callable[[], Node]) -> Node:
        tree = self._deeper(rule)
        self._expect(")", "a parenthesis is open")
        return tree

    def _deeper(self, rule: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail(f"at most {_DEEPEST} levels are nested")
        tree = rule()
        self.depth -= 1
        return tree

    def _take(self) -> _Token:
        token = self.token
        self.at += 1
        return token

    def _accept(self, kind: str) -> bool:
        if self.token.kind != kind:
            return False
        self.at += 1
        return True

    def _expect(self, kind: str, rule: str) -> _Token:
        if self.token.kind != kind:
            self._fail(rule)
        return self._take()

    def _fail(self, rule: str) -> NoReturn:
        token = self.token
        what = token.text if token.kind == "end" else shorten(repr(token.text), 40)
        raise _Refused(f"{what} is not expected", rule, token.position)


def _operands(tree: Node, operator: str) -> tuple[Node, ...]:
    return tree.operands if isinstance(tree, Logical) and tree.operator == operator else (tree,)


def _surely_not_0(tree: Node) -> bool:
    return isinstance(tree, Literal) and tree.value != 0


def _guarded(ratio: Node, divisor: Node) -> Node:
    not_0 = Comparison(operators=("!=",), operands=(divisor, Literal(value=0)), columns=(1,))
    return Conditional(condition=not_0, then=ratio, otherwise=Literal(value=0))


def _number(token: _Token, sign: float) -> Node:
    if len(token.text) > _MOST_DIGITS:
        raise _Refused("a number that is too long", f"at most {_MOST_DIGITS} digits", token.position)
    value = float(token.text) if "." in token.text else int(token.text)
    return Literal(value=value) if sign > 0 else Unary(operator="-", operand=Literal(value=value))


def _numeric(name: _Token) -> Node:
    """Give what an attribute is here as a number."""
    if name.text in _TEXTS or name.text in _MORE_TEXTS:
        rule = 'a text is compared with a text: NAME = "..." or NAME != "..."'
        raise _Refused(f"the text {name.text} where a number is needed", rule, name.position)
    return parse(_NUMBERS.get(name.text, f"default({name.text}, 0)")).tree


def _matching(name: _Token, operator: _Token, text: _Token) -> Node:
    """Compare an attribute as a text: by shell wildcards where there are any."""
    if name.text in _NUMBERS:
        raise _Refused(f"the number {name.text} compared with a text", "leave out the quotes", name.position)
    if operator.kind not in ("=", "!="):
        raise _Refused(f"{operator.kind} before a text", "texts are compared by = and !=", operator.position)
    left = parse(_TEXTS.get(name.text, f"default({name.text}, null)")).tree
    pattern = text.text[1:-1].lower() if name.text == "OS_NAME" else text.text[1:-1]
    if not re.search(r"[*?\[\\]", pattern):
        return Comparison(
            operators=(_COMPARISONS[operator.kind],), operands=(left, Literal(value=pattern)), columns=(1,)
        )
    # GridWay escapes a wildcard with a backslash, our `matches` with brackets.
    pattern = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], pattern)
    found = Call(function="matches", arguments=(left, Literal(value=pattern)))
    if operator.kind == "=":
        return found
    # A text that nobody states does not match, and does not differ either.
    stated = Comparison(operators=("==",), operands=(left, left), columns=(1,))
    return Logical(operator="and", operands=(stated, Unary(operator="not", operand=found)))
