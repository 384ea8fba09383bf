"""Expressions and their parser: a subset of Python's expression grammar.

``scan`` checks characters, literals and nesting in one linear pass, so that malicious or malformed text gets
a message about this language before Python's parser sees it. Then ``ast`` parses the text, and its nodes are
converted one by one; a node type without a rule is an error. Nothing is compiled or executed.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import field, replace

from weft.errors import shorten, suggest
from weft.expressions import tree
from weft.expressions.operations import FUNCTIONS, MAX_BITS
from weft.expressions.tree import ExpressionNode
from weft.expressions.values import BUILT_IN, ExpressionError, Refusal, unknown_name
from weft.records import dataclass

MAX_LENGTH = 10_000
"""Maximum length of an expression in characters."""
MAX_DEPTH = 100
"""Maximum nesting depth of an expression."""
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
    ":": "an index is one value; slices and lambdas are not supported",
    "#": "put comments outside the expression",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
    "×": "write *",
    "\n": "write it on one line",
    "\u00a0": "write a plain space",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    """One token of the text; ``start`` counts characters from 0."""

    kind: str
    text: str
    start: int


def scan(text: str) -> list[_Token]:
    """Return the tokens of a text, except blanks; raise Refusal if the text is not allowed."""
    if len(text) > MAX_LENGTH:
        rule = f"an expression has at most {MAX_LENGTH} characters"
        raise Refusal(
            f"the expression has {len(text)} characters",
            rule=rule,
            advice="shorten it, or define parameters for parts of it",
        ).at(1)
    # Surrounding blanks are ignored: YAML's block strings end with a newline.
    text = text.rstrip(_SURROUNDING)
    begin = len(text) - len(text.lstrip(_SURROUNDING))
    for start, character in enumerate(text[begin:], start=begin):
        if not (character.isprintable() or character == "\t"):
            raise _stray(character, start)
    tokens: list[_Token] = []
    position = begin
    while position < len(text):
        if (match := _TOKEN.match(text, position)) is None:
            raise _stray(text[position], position)
        if match.lastgroup != "blank":
            token = _Token(kind=match.lastgroup or "", text=match[0], start=position)
            _check_token(token, tokens[-1] if tokens else None)
            tokens.append(token)
        position = match.end()
    _check_nesting(tokens)
    return tokens


def _stray(character: str, start: int) -> Refusal:
    if character in "\"'":
        return Refusal("the string is not closed", advice=f"close it with {character}").at(start + 1)
    advice = _INSTEAD.get(character, "remove it; inside a string, write an escape such as \\u00e9")
    return Refusal(f"the character {character!r} is not allowed in expressions", advice=advice).at(start + 1)


def _check_token(token: _Token, before: _Token | None) -> None:
    touching = before is not None and before.start + len(before.text) == token.start
    if before is not None and before.kind == "number" and touching:
        _check_after_number(token, before)
    if token.kind == "number" and len(token.text) > _MAX_DIGITS:
        raise Refusal("the number has too many digits", rule="a number has at most 1233 digits").at(
            token.start + 1
        )
    if token.kind == "string":
        _check_string(token, before, touching)


def _check_after_number(token: _Token, before: _Token) -> None:
    found = f"the number {shorten(before.text, 20)} runs into {shorten(token.text, 20)!r}"
    if token.text.startswith("."):
        advice = "ranges such as 1..50 are for sweeps; here write range(1, 50)"
        raise Refusal(found, advice=advice).at(token.start + 1)
    if token.kind in ("name", "number"):
        advice = f"write {shorten(before.text, 20)}*{shorten(token.text, 20)}"
        raise Refusal(found, advice=advice).at(token.start + 1)


def _check_string(token: _Token, before: _Token | None, touching: bool) -> None:
    if before is not None and before.kind == "name" and touching:
        prefix = shorten(before.text, 20)
        raise Refusal(
            f"the string has the prefix {prefix!r}", rule="strings must not have a prefix", advice="remove it"
        ).at(before.start + 1)
    if before is not None and before.kind == "string":
        raise Refusal("two strings follow each other", advice="join them with +").at(token.start + 1)
    if bad := _BAD_ESCAPE.search(token.text):
        found = token.text[bad.start(1) : bad.start(1) + 2]
        advice = "write \\\\ for a backslash"
        raise Refusal(f"unknown escape {found!r} in a string", advice=advice).at(
            token.start + bad.start(1) + 1
        )


def _check_nesting(tokens: list[_Token]) -> None:
    depth = prefixes = 0
    for token in tokens:
        prefixes = prefixes + 1 if token.text in ("-", "+", "not") else 0
        if token.kind == "operator":
            depth += (token.text in "([") - (token.text in ")]")
        if max(depth, prefixes) > MAX_DEPTH:
            rule = f"an expression has at most {MAX_DEPTH} levels"
            raise Refusal(
                "the expression is nested too deeply", rule=rule, advice="define parameters for parts of it"
            ).at(token.start + 1)


MAX_NODES = 2_000
"""Maximum number of nodes of an expression."""

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not"}
_COMPARISON: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_FOREIGN: dict[type[ast.expr], str] = {
    ast.ListComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.Starred: "a star",
    ast.Await: "`await`",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield`",
}


def parse_tree(text: str) -> ExpressionNode:
    """Return the tree of a text, or raise ExpressionError."""
    try:
        return _read(text)
    except Refusal as refusal:
        raise refusal.error(text) from None


def _read(text: str) -> ExpressionNode:
    if not (tokens := scan(text)):
        raise Refusal("the expression is empty", advice="write a value, such as 1 or memory >= 4*GB").at(1)
    # Python reads a leading blank as indentation, so the text starts at the first token.
    offset = tokens[0].start
    body = text[offset:]
    try:
        parsed = ast.parse(body, mode="eval")
    except SyntaxError as error:
        raise _syntax(error, tokens, len(body.rstrip()), offset) from None
    except (RecursionError, MemoryError, ValueError, OverflowError):
        raise _too_deep(offset + 1) from None
    return _TreeBuilder(body, tokens, offset).node(parsed.body, 1)


def _syntax(error: SyntaxError, tokens: Sequence[_Token], length: int, offset: int) -> Refusal:
    # For an unexpected end of the text Python reports offset 0.
    column = offset + min(error.offset or length + 1, length + 1)
    here = next(
        (token for token in tokens if token.start + 1 <= column <= token.start + len(token.text)), None
    )
    found = f"{shorten(here.text, 30)!r}" if here else "the end"
    reason = "" if error.msg == "invalid syntax" else f" ({shorten(error.msg, 80)})"
    return Refusal(
        f"invalid syntax at {found}{reason}",
        rule="expressions are written as in Python",
        advice="look for a missing operator, operand or bracket before this place",
    ).at(column)


def _too_deep(column: int) -> Refusal:
    rule = f"an expression has at most {MAX_DEPTH} levels"
    return Refusal(
        "the expression is nested too deeply", rule=rule, advice="define parameters for parts of it"
    ).at(column)


class _TreeBuilder:
    """Converts the nodes of ``ast``, counts them and finds the columns of operators."""

    def __init__(self, body: str, tokens: Sequence[_Token], offset: int) -> None:
        self._tokens = tokens
        self._offset = offset
        self._count = 0
        # Python counts columns in UTF-8 bytes, users in characters.
        self._characters: list[int] | None = None
        if not body.isascii():
            sizes = [len(character.encode()) for character in body]
            self._characters = [position for position, size in enumerate(sizes) for _ in range(size)] + [
                len(body)
            ]

    def _column(self, position: int) -> int:
        return self._offset + (self._characters[position] if self._characters else position) + 1

    def _operator_column(self, left: ast.expr) -> int:
        """Return the column of the operator that follows an operand.

        It is the next token that is not a closing parenthesis.
        """
        end = self._column(left.end_col_offset or 0) - 1
        low, high = 0, len(self._tokens)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._tokens[middle].start < end else (low, middle)
        while self._tokens[low].text == ")":
            low += 1
        return self._tokens[low].start + 1

    def node(self, node: ast.expr, depth: int) -> ExpressionNode:
        """Return the node of the expression tree, with its children, for a node of ``ast``."""
        column = self._column(node.col_offset)
        self._count += 1
        if depth > MAX_DEPTH:
            raise _too_deep(column)
        if self._count > MAX_NODES:
            rule = f"an expression has at most {MAX_NODES} parts"
            raise Refusal(
                "the expression has too many parts",
                rule=rule,
                advice="define parameters for parts of it, or use a list",
            ).at(column)
        match node:
            case ast.Constant():
                return self._constant(node, column)
            case ast.Name(id=name):
                return tree.Name(name=name, column=column)
            case ast.Attribute():
                return tree.Name(name=self._dotted(node), column=column)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return tree.ListOf(items=self._all(items, depth), column=column)
            case ast.Call():
                return self._call(node, column, depth)
            case ast.Subscript():
                return self._index(node, column, depth)
            case _:
                return self._operation(node, column, depth)

    def _all(self, nodes: Sequence[ast.expr], depth: int) -> tuple[ExpressionNode, ...]:
        return tuple(self.node(node, depth + 1) for node in nodes)

    def _operation(self, node: ast.expr, column: int, depth: int) -> ExpressionNode:
        match node:
            case ast.UnaryOp(op=operator, operand=operand) if type(operator) in _UNARY:
                name = _UNARY[type(operator)]
                return tree.Unary(operator=name, operand=self.node(operand, depth + 1), column=column)
            case ast.BinOp(op=operator, left=left, right=right) if type(operator) in _BINARY:
                first, second = self._all((left, right), depth)
                place = self._operator_column(left)
                return tree.Binary(operator=_BINARY[type(operator)], left=first, right=second, column=place)
            case ast.BoolOp(op=operator, values=values):
                return self._logical("and" if isinstance(operator, ast.And) else "or", values, column, depth)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                then, condition, otherwise = self._all((body, test, orelse), depth)
                return tree.Conditional(condition=condition, then=then, otherwise=otherwise, column=column)
            case ast.Compare():
                return self._comparison(node, depth)
            case _:
                raise _foreign(_FOREIGN.get(type(node), "this"), column)

    def _constant(self, node: ast.Constant, column: int) -> ExpressionNode:
        value = node.value
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            raise Refusal("the number is too large", rule="numbers must be below 1.8e308").at(column)
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise Refusal("the number is too large", rule=f"integers have at most {MAX_BITS} bits").at(column)
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise _foreign("this literal", column)
        return tree.Literal(value=value, column=column)

    def _dotted(self, node: ast.Attribute) -> str:
        parts: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            raise Refusal(
                f"`.{shorten(parts[-1], 30)}` follows something that is not a name",
                rule="a dot only joins the parts of a name",
                advice='take an entry with [ ], for example x["name"]',
            ).at(self._column(inner.end_col_offset or 0))
        return ".".join([inner.id, *reversed(parts)])

    def _call(self, node: ast.Call, column: int, depth: int) -> ExpressionNode:
        if not isinstance(node.func, ast.Name):
            raise _foreign("a call of something other than a named function", column)
        name = node.func.id
        if name not in FUNCTIONS:
            advice = suggest(name, FUNCTIONS, f"known: {', '.join(FUNCTIONS)}")
            raise Refusal(f"unknown function {shorten(name, 40)}()", advice=advice).at(column)
        if node.keywords:
            raise _foreign("a keyword argument", column)
        try:
            FUNCTIONS[name].check_count(len(node.args))
        except Refusal as refusal:
            raise refusal.at(column) from None
        arguments = self._all(node.args, depth)
        if FUNCTIONS[name].lenient and isinstance(first := arguments[0], tree.Name):
            arguments = (replace(first, optional=True), *arguments[1:])
        return tree.FunctionCall(function=name, arguments=arguments, column=column)

    def _index(self, node: ast.Subscript, column: int, depth: int) -> ExpressionNode:
        if isinstance(node.slice, ast.Slice | ast.Tuple):
            raise _foreign("a slice or an index with several values", column)
        target, key = self._all((node.value, node.slice), depth)
        return tree.Index(target=target, key=key, column=column)

    def _logical(self, operator: str, values: Sequence[ast.expr], column: int, depth: int) -> ExpressionNode:
        operands: list[ExpressionNode] = []
        for operand in self._all(values, depth):
            same = isinstance(operand, tree.Logical) and operand.operator == operator
            operands.extend(operand.operands if same and isinstance(operand, tree.Logical) else (operand,))
        return tree.Logical(operator=operator, operands=tuple(operands), column=column)

    def _comparison(self, node: ast.Compare, depth: int) -> ExpressionNode:
        parts = (node.left, *node.comparators)
        columns = tuple(self._operator_column(part) for part in parts[:-1])
        names: list[str] = []
        for operator, column in zip(node.ops, columns, strict=True):
            if type(operator) not in _COMPARISON:
                raise Refusal("`is` is not allowed in expressions", advice="compare with == or !=").at(column)
            names.append(_COMPARISON[type(operator)])
        operands = self._all(parts, depth)
        return tree.Compare(operators=tuple(names), operands=operands, columns=columns, column=columns[0])


def _foreign(what: str, column: int) -> Refusal:
    rule = "allowed are literals, lists, names, operators, `if else`, indexes and calls of known functions"
    return Refusal(f"{what} is not allowed in expressions", rule=rule).at(column)


_CACHED_LENGTH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A parsed expression; expressions are equal if their canonical texts are equal."""

    text: str
    """The canonical text: parsing it gives an equal expression."""
    tree: ExpressionNode = field(compare=False, repr=False)
    names: tuple[str, ...] = field(compare=False, repr=False)
    """Dotted names in order of first appearance, including units such as ``GB``."""
    source: str = field(compare=False, repr=False)
    """The original text; columns of the tree and of errors refer to it."""

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Expression:
    """Return the expression of a text, or raise ExpressionError."""
    return _parse_cached(text) if len(text) <= _CACHED_LENGTH else _parse(text)


def _parse(text: str) -> Expression:
    parsed = parse_tree(text)
    canonical = tree.format_tree(parsed)
    if len(canonical) > MAX_LENGTH:
        rule = f"an expression has at most {MAX_LENGTH} characters in canonical form"
        raise ExpressionError(
            f"the expression has {len(canonical)} characters",
            text,
            1,
            rule,
            "define parameters for parts of it",
        )
    names = dict.fromkeys(node.name for node in tree.walk(parsed) if isinstance(node, tree.Name))
    return Expression(text=canonical, tree=parsed, names=tuple(names), source=text)


_parse_cached = functools.lru_cache(maxsize=4096)(_parse)


def find_unknown_names(expression: Expression, known: Container[str]) -> list[ExpressionError]:
    """Return an error for each undefined name of an expression.

    A name is defined if the name or a dotted prefix of it is in ``known``, or if it is built in or optional.
    """
    columns: dict[str, int] = {}
    for node in tree.walk(expression.tree):
        if isinstance(node, tree.Name) and not (node.optional or _is_known(node.name, known)):
            columns.setdefault(node.name, node.column)
    suggestions = [name for name in known if isinstance(name, str)] if isinstance(known, Iterable) else []
    return [
        unknown_name(name, suggestions).at(column).error(expression.source)
        for name, column in columns.items()
    ]


def _is_known(name: str, known: Container[str]) -> bool:
    parts = name.split(".")
    return name in BUILT_IN or any(".".join(parts[:count]) in known for count in range(len(parts), 0, -1))
