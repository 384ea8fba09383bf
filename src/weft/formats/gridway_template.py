"""The syntax of GridWay job templates: lines ``KEYWORD = value``, and requirement and rank expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from weft.errors import InvalidInput, shorten, suggest
from weft.expressions import Expression, parse
from weft.expressions.tree import (
    Binary,
    Compare,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Literal,
    Logical,
    Unary,
    format_tree,
)
from weft.formats.format import ProblemCollector
from weft.records import dataclass

_KEYWORDS = (
    "NAME", "EXECUTABLE", "ARGUMENTS", "ENVIRONMENT", "INPUT_FILES", "OUTPUT_FILES", "STDIN_FILE",
    "STDOUT_FILE", "STDERR_FILE", "RESTART_FILES", "CHECKPOINT_INTERVAL", "CHECKPOINT_URL", "REQUIREMENTS",
    "RANK", "RESCHEDULING_INTERVAL", "RESCHEDULING_THRESHOLD", "SUSPENSION_TIMEOUT", "CPULOAD_THRESHOLD",
    "MONITOR", "PERFORMANCE_PROFILE", "PROFILE_THRESHOLD", "RESCHEDULE_ON_FAILURE", "NUMBER_OF_RETRIES",
    "WRAPPER", "PRE_WRAPPER", "PRE_WRAPPER_ARGUMENTS", "TYPE", "NP", "DEADLINE", "JOB_DEPENDENCIES",
    "TOTAL_TASKS",
)  # fmt: skip
"""All keywords; TOTAL_TASKS, PERFORMANCE_PROFILE and PROFILE_THRESHOLD are additions of weft."""

_LINE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateEntry:
    """The value of one keyword, with its line and column."""

    key: str
    value: str
    """The text after ``=``; never empty, because a keyword without a value is ignored."""
    line: int
    column: int
    """Column of the first character of the value."""


def parse_template(text: str, problems: ProblemCollector) -> Mapping[str, TemplateEntry]:
    """Return the entries of a template by keyword; add a problem for each invalid line."""
    entries: dict[str, TemplateEntry] = {}
    seen: set[str] = set()
    # Only line feeds end lines here; str.splitlines also breaks at characters that a value may contain.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (match := _LINE.fullmatch(line)) is None:
            rule = "a line must be KEYWORD = value, or a comment after #"
            problems.add(f"{shorten(repr(line.strip()), 60)}", rule=rule, line=number)
            continue
        key, value, column = match[1].upper(), match[2], match.start(2) + 1
        if key not in _KEYWORDS:
            advice = suggest(key, _KEYWORDS, f"known: {', '.join(_KEYWORDS)}")
            problems.add(f"unknown keyword {shorten(key, 40)}", advice=advice, line=number)
            continue
        if key in seen:
            problems.add(f"a second {key}", rule="a keyword occurs once in a template", line=number)
        seen.add(key)
        if len(value) > 1 and value[0] == value[-1] == '"' and '"' not in value[1:-1]:
            value, column = value[1:-1].strip(), column + 1
        if value:
            entries[key] = TemplateEntry(key=key, value=value, line=number, column=column)
    return entries


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
_MAX_TOKENS = 300
_MAX_DIGITS = 30
_MAX_DEPTH = 20

_NUMBERS: Mapping[str, str] = {
    "CPU_SMP": "cores",
    "CPU_FREE": "default(CPU_FREE, 100 * free_cpu)",
    "NODECOUNT": "nodes",
    "FREENODECOUNT": "default(FREENODECOUNT, free_nodes)",
    "QUEUE_NODECOUNT": "default(QUEUE_NODECOUNT, nodes)",
    "QUEUE_FREENODECOUNT": "default(QUEUE_FREENODECOUNT, free_nodes)",
    "SIZE_MEM_MB": "default(memory, 0) / MB",
    "FREE_MEM_MB": "default(FREE_MEM_MB, default(free_memory, 0) / MB)",
    "SIZE_DISK_MB": "default(disk, 0) / MB",
    "FREE_DISK_MB": "default(FREE_DISK_MB, default(free_disk, 0) / MB)",
    "CPU_MHZ": "default(CPU_MHZ, 0)",
}
"""Expressions of weft for GridWay's numeric attributes; any other NAME becomes ``default(NAME, 0)``."""

_TEXTS: Mapping[str, str] = {"HOSTNAME": "name", "ARCH": "arch", "OS_NAME": "lower(os)"}
"""Expressions of weft for GridWay's text attributes; any other NAME becomes ``default(NAME, null)``."""

_MORE_TEXTS = ("OS_VERSION", "CPU_MODEL", "FORK_NAME", "LRMS_NAME", "LRMS_TYPE", "QUEUE_NAME", "QUEUE_STATUS",
               "QUEUE_DISPATCHTYPE")  # fmt: skip


def translate_expression(
    entry: TemplateEntry | None, problems: ProblemCollector, *, is_rank: bool = False
) -> Expression | None:
    """Return REQUIREMENTS or RANK as an expression of weft.

    None if the entry is absent, empty, or invalid; a problem is added for an invalid entry.
    """
    if entry is None:
        return None
    try:
        parser = _ExpressionParser(entry.value)
        tree = parser.whole(parser.rank if is_rank else parser.requirement)
        return None if tree is None else parse(format_tree(tree))
    except _TemplateSyntaxError as refused:
        what, column = f"{refused.what} in {entry.key}", entry.column + refused.position
        problems.add(what, rule=refused.rule, line=entry.line, column=column)
    except InvalidInput as error:
        what = f"{entry.key} cannot be expressed in weft: {error.problems[0].what}"
        problems.add(what, rule=error.problems[0].rule, line=entry.line, column=entry.column)
    return None


class _TemplateSyntaxError(Exception):
    """A syntax error, with its position in the text."""

    def __init__(self, what: str, rule: str, position: int) -> None:
        super().__init__(what)
        self.what, self.rule, self.position = what, rule, position


@dataclass(frozen=True, slots=True)
class _ExpressionToken:
    kind: str
    """``name``, ``number``, ``text``, ``end``, or the mark itself."""
    text: str
    position: int


def _scan(text: str) -> list[_ExpressionToken]:
    tokens: list[_ExpressionToken] = []
    position = _skip(text, 0)
    while position < len(text):
        if (match := _TOKEN.match(text, position)) is None:
            raise _TemplateSyntaxError(f"{text[position]!r}", "texts must be in double quotes", position)
        kind = match.lastgroup or ""
        tokens.append(_ExpressionToken(match[0] if kind == "mark" else kind, match[0], position))
        position = _skip(text, match.end())
        if len(tokens) > _MAX_TOKENS:
            raise _TemplateSyntaxError(
                "the expression is too long",
                f"an expression must have at most {_MAX_TOKENS} tokens",
                position,
            )
    return [*tokens, _ExpressionToken("end", "the end", len(text))]


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


class _ExpressionParser:
    """Recursive-descent parser with one token of lookahead; methods return expression trees.

    A requirement is ``VAR = value`` (also ``!= > < >= <=``), combined by ``&`` and ``|``, with ``!``,
    parentheses and an optional ``;`` at the end; texts match with shell wildcards. A rank consists of ``+ - *
    /`` over numbers (docs/papers/adaptive-jobs.md, section 2). As in the public GridWay release ``&`` and
    ``|`` have the same precedence and associate to the left: ``A | B & C`` means ``(A | B) & C``. An
    attribute that a machine does not state is 0 as a number and matches no text, which is the meaning of
    ``default(NAME, 0)`` and ``default(NAME, null)``.

    Deviations: real numbers, ``>=`` and ``<=``; a division by 0 gives 0; the name of an operating system is
    compared without regard to case, since platforms write ``linux`` where GridWay has ``Linux``.
    """

    def __init__(self, text: str) -> None:
        self.tokens = _scan(text)
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> _ExpressionToken:
        """Return the next token."""
        return self.tokens[self.at]

    def whole(self, rule: Callable[[], ExpressionNode]) -> ExpressionNode | None:
        """Parse the whole text with the method ``rule`` and return the tree; None if the text is empty."""
        tree = None if self.token.kind in ("end", ";") else rule()
        self._accept(";")
        if self.token.kind != "end":
            self._fail("an operator is missing before it")
        return tree

    def requirement(self) -> ExpressionNode:
        """Return the tree of conditions combined by & and |, which associate to the left."""
        tree = self._condition()
        while self.token.kind in _JOINTS:
            operator = _JOINTS[self._take().kind]
            operands = _operands(tree, operator) + _operands(self._condition(), operator)
            tree = Logical(operator=operator, operands=operands)
        return tree

    def _condition(self) -> ExpressionNode:
        if self._accept("!"):
            return Unary(operator="not", operand=self._deeper(self._condition))
        if self._accept("("):
            return self._closed(self.requirement)
        return self._comparison()

    def _comparison(self) -> ExpressionNode:
        name = self._expect("name", "a condition must be NAME = value")
        operator = self.token
        if operator.kind not in _COMPARISONS:
            self._fail("an attribute must be followed by one of = != > < >= <=")
        self._take()
        if self.token.kind == "text":
            return _matching(name, operator, self._take())
        sign = -1.0 if self._accept("-") else 1.0
        number = _number(self._expect("number", 'a value must be a number or a text in "quotes"'), sign)
        left = _numeric(name)
        return Compare(operators=(_COMPARISONS[operator.kind],), operands=(left, number), columns=(1,))

    def rank(self) -> ExpressionNode:
        """Return the tree of a rank: a sum of products."""
        tree = self._product()
        while self.token.kind in ("+", "-"):
            tree = Binary(operator=self._take().kind, left=tree, right=self._product())
        return tree

    def _product(self) -> ExpressionNode:
        tree = self._factor()
        while self.token.kind in ("*", "/"):
            operator = self._take().kind
            right = self._factor()
            ratio = Binary(operator=operator, left=tree, right=right)
            safe = operator == "*" or (isinstance(right, Literal) and right.value != 0)
            tree = ratio if safe else _guard_division(ratio, right)
        return tree

    def _factor(self) -> ExpressionNode:
        if self._accept("-"):
            return Unary(operator="-", operand=self._deeper(self._factor))
        if self._accept("("):
            return self._closed(self.rank)
        if self.token.kind == "number":
            return _number(self._take(), 1.0)
        return _numeric(self._expect("name", "a rank consists of numbers and numeric attributes"))

    def _closed(self, rule: Callable[[], ExpressionNode]) -> ExpressionNode:
        tree = self._deeper(rule)
        self._expect(")", "a parenthesis is not closed")
        return tree

    def _deeper(self, rule: Callable[[], ExpressionNode]) -> ExpressionNode:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self._fail(f"at most {_MAX_DEPTH} levels of nesting")
        tree = rule()
        self.depth -= 1
        return tree

    def _take(self) -> _ExpressionToken:
        token = self.token
        self.at += 1
        return token

    def _accept(self, kind: str) -> bool:
        if self.token.kind != kind:
            return False
        self.at += 1
        return True

    def _expect(self, kind: str, rule: str) -> _ExpressionToken:
        if self.token.kind != kind:
            self._fail(rule)
        return self._take()

    def _fail(self, rule: str) -> NoReturn:
        token = self.token
        what = token.text if token.kind == "end" else shorten(repr(token.text), 40)
        raise _TemplateSyntaxError(f"{what} is not expected", rule, token.position)


def _operands(tree: ExpressionNode, operator: str) -> tuple[ExpressionNode, ...]:
    return tree.operands if isinstance(tree, Logical) and tree.operator == operator else (tree,)


def _guard_division(ratio: ExpressionNode, divisor: ExpressionNode) -> ExpressionNode:
    not_0 = Compare(operators=("!=",), operands=(divisor, Literal(value=0)), columns=(1,))
    return Conditional(condition=not_0, then=ratio, otherwise=Literal(value=0))


def _number(token: _ExpressionToken, sign: float) -> ExpressionNode:
    if len(token.text) > _MAX_DIGITS:
        raise _TemplateSyntaxError(
            "the number is too long", f"a number has at most {_MAX_DIGITS} digits", token.position
        )
    value = float(token.text) if "." in token.text else int(token.text)
    return Literal(value=value) if sign > 0 else Unary(operator="-", operand=Literal(value=value))


def _numeric(name: _ExpressionToken) -> ExpressionNode:
    """Return the numeric expression of weft for an attribute of GridWay."""
    if name.text in _TEXTS or name.text in _MORE_TEXTS:
        rule = 'a text is compared with a text: NAME = "..." or NAME != "..."'
        raise _TemplateSyntaxError(f"{name.text} is a text, but a number is required", rule, name.position)
    return parse(_NUMBERS.get(name.text, f"default({name.text}, 0)")).tree


def _matching(name: _ExpressionToken, operator: _ExpressionToken, text: _ExpressionToken) -> ExpressionNode:
    """Return the comparison of an attribute with a text, which may have shell wildcards."""
    if name.text in _NUMBERS:
        raise _TemplateSyntaxError(
            f"{name.text} is a number, but is compared with a text", "remove the quotes", name.position
        )
    if operator.kind not in ("=", "!="):
        raise _TemplateSyntaxError(
            f"{operator.kind} stands before a text",
            "texts can only be compared by = and !=",
            operator.position,
        )
    left = parse(_TEXTS.get(name.text, f"default({name.text}, null)")).tree
    pattern = text.text[1:-1].lower() if name.text == "OS_NAME" else text.text[1:-1]
    if not re.search(r"[*?\[\\]", pattern):
        return Compare(
            operators=(_COMPARISONS[operator.kind],), operands=(left, Literal(value=pattern)), columns=(1,)
        )
    # GridWay escapes a wildcard with a backslash, `matches` with brackets.
    pattern = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], pattern)
    found = FunctionCall(function="matches", arguments=(left, Literal(value=pattern)))
    if operator.kind == "=":
        return found
    # An attribute that a machine does not state neither equals nor differs from the text.
    stated = Compare(operators=("==",), operands=(left, left), columns=(1,))
    return Logical(operator="and", operands=(stated, Unary(operator="not", operand=found)))
