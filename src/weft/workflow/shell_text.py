"""Shell commands with fields: the kind of place of each field ``{name}``, and the text that replaces it.

Except with ``{name:raw}``, a value never becomes a part of a shell command. The value is passed in a
variable, and the field is replaced by a quoted expansion of that variable; its text depends on the quotes
around the field. Fields at places where no expansion is possible, or where an expanded value would be read as
code, are refused.

Reference: IEEE Std 1003.1-2024, Shell and Utilities, sections 2.2 (quoting), 2.3 (token recognition), 2.6
(word expansions), 2.7.4 (here-documents), 2.9 (commands). Deviations: text that dash, bash and busybox sh
read differently (``$'...'`` with a backslash, ``((``, arrays, quotes inside ``"${...}"``) is refused if the
command has fields. Syntax errors are left to the shell, except open quotes and open compound commands.
"""

from __future__ import annotations

import enum
import functools
import re
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress

from weft.records import dataclass
from weft.workflow.code_arguments import (
    ASSIGNMENT,
    EXPANSION_MARK,
    FIELD_MARK,
    Scope,
    ShellWord,
    find_code_arguments,
    find_code_settings,
    find_evaluated_names,
    find_evaluated_words,
    find_exported_names,
    find_input_reader,
    find_program_text,
    find_shell_texts,
    find_started_programs,
    prints_arguments,
    reads_piped_code,
    replaces_parameters,
)
from weft.workflow.templates import TemplateField, split_template


class FieldPlace(enum.Enum):
    """The kind of place at which a field stands in a shell command."""

    WORD = "word"
    """Outside quotes, where a list becomes several words."""
    ONE = "one"
    """Outside quotes, where exactly one word may stand: a redirection, an assignment, ``case``."""
    QUOTED = "quoted"
    """In double quotes, or in a here-document."""
    SINGLE = "single"
    """In single quotes."""
    NUMBER = "number"
    """In arithmetic, ``$((...))``."""


@dataclass(frozen=True, slots=True)
class ShellField:
    """A field of a shell command and its place."""

    name: str
    place: FieldPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRefusal:
    """The reason why a field must not stand where it does."""

    name: str
    """The name of the field; "" if the whole command is refused."""
    what: str
    advice: str
    line: int
    """Line in the command, from 1; 0 if it is not determined."""
    column: int
    scope: Scope = Scope.ALL


@dataclass(frozen=True, slots=True)
class ShellText:
    """A shell command split into fixed text and fields, with the fields that are refused."""

    pieces: tuple[str | ShellField, ...]
    refusals: tuple[ShellRefusal, ...]


_EXPANSIONS = {
    FieldPlace.WORD: '"${%s}"',
    FieldPlace.ONE: '"${%s}"',
    FieldPlace.QUOTED: "${%s}",
    FieldPlace.SINGLE: "'\"${%s}\"'",
    FieldPlace.NUMBER: "(${%s:-0})",
}


def expansion(place: FieldPlace, variable: str) -> str:
    """Return the shell text that expands to the value of a variable at a place, as one word."""
    return _EXPANSIONS[place] % variable


_RAW = "x"
"""Stands for a field ``{name:raw}`` in the scanned text; the value of such a field is not checked."""
_FIELD = FIELD_MARK
_BRACES = {"{{": "{", "}}": "}"}
_IN_PARAMETER = re.compile(r"(?<!\{)\{([A-Za-z_]\w*(?:\.\w+)*)(?::raw)?\}\Z")


@dataclass(frozen=True, slots=True)
class ShellLiteral:
    """Text of a command that is no template: its braces have no meaning."""

    text: str


ShellPieces = tuple[str | TemplateField | ShellLiteral, ...]
"""A shell command: pieces of templates (``split_template``) and other text."""


def format_pieces(pieces: ShellPieces) -> str:
    """Return a shell command as text, with fields written as ``{name}``."""
    return "".join(map(_format, pieces))


def _format(piece: str | TemplateField | ShellLiteral) -> str:
    if isinstance(piece, TemplateField):
        return f"{{{piece.name}:raw}}" if piece.raw else f"{{{piece.name}}}"
    return piece.text if isinstance(piece, ShellLiteral) else piece


def split_shell_text(text: str) -> ShellText:
    """Return a shell command split into fixed text and fields; a command without fields is not checked."""
    return split_shell_pieces(split_template(text))


@functools.lru_cache(maxsize=4096)
def split_shell_pieces(pieces: ShellPieces) -> ShellText:
    """Return a shell command, given in pieces, split into fixed text and fields with their places."""
    source = _Source(pieces)
    if not source.fields and not source.refused:
        return ShellText(("".join(piece or "" for piece in source.literals),), ())
    scanner = _Scanner(source.scanned)
    refused = list(source.refused)
    try:
        scanner.scan()
    except _Unreadable as problem:
        return ShellText((), (source.refusal("", problem.at, problem.what, problem.advice),))
    for index, what, advice, scope in scanner.refused:
        name, offset = source.fields[index]
        refused.append(source.refusal(name, offset, what, _with_name(advice, name), scope))
    fields = iter(
        [ShellField(name, place) for (name, _), place in zip(source.fields, scanner.places, strict=True)]
    )
    found = tuple(next(fields) if piece is None else piece for piece in source.literals)
    return ShellText(found, tuple(sorted(refused, key=lambda each: (each.line, each.column))))


class _Source:
    """The pieces of a command as text to scan, with the offsets of the fields."""

    def __init__(self, pieces: ShellPieces) -> None:
        self.text = format_pieces(pieces)
        self._lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self.literals: list[str | None] = []
        """Fixed text; None: a field."""
        self.fields: list[tuple[str, int]] = []
        """Name and offset of each field that is not raw."""
        self.refused: list[ShellRefusal] = []
        parts: list[str] = []
        self._starts: list[tuple[int, int]] = []
        scanned = offset = 0
        for piece in pieces:
            self._starts.append((scanned, offset))
            part = self._part(piece, offset)
            parts.append(part)
            scanned += len(part)
            offset += len(_format(piece))
        self.scanned = "".join(parts)

    def _part(self, piece: str | TemplateField | ShellLiteral, offset: int) -> str:
        if isinstance(piece, TemplateField):
            if piece.raw:
                self.literals.append(_format(piece))
                return _RAW
            self.literals.append(None)
            self.fields.append((piece.name, offset))
            return _FIELD
        literal = piece.text if isinstance(piece, ShellLiteral) else _BRACES.get(piece, piece)
        self.literals.append(literal)
        if piece == literal and piece.startswith("${") and (inner := _IN_PARAMETER.search(piece, len("${"))):
            what = "inside ${...}, where fields are not replaced"
            advice = f"write `value={{{inner[1]}}};` before the command and use $value"
            self.refused.append(self.refusal(inner[1], offset + inner.start(), what, advice))
        return literal.replace(_FIELD, EXPANSION_MARK)

    def refusal(
        self, name: str, offset: int, what: str, advice: str, scope: Scope = Scope.ALL
    ) -> ShellRefusal:
        """Return a refusal. ``offset`` is a position in ``text`` or, if ``name`` is empty, in ``scanned``."""
        if not name:
            scanned, start = self._starts[max(0, bisect_right(self._starts, (offset, len(self.text))) - 1)]
            offset = min(start + offset - scanned, len(self.text))
        line = bisect_right(self._lines, offset)
        column = offset - self._lines[line - 1] + 1
        return ShellRefusal(name=name, what=what, advice=advice, line=line, column=column, scope=scope)


class _Unreadable(Exception):
    """The text cannot be analysed: it is incomplete, or shells read it differently."""

    def __init__(self, at: int, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.at = at
        self.what = what
        self.advice = advice


@dataclass(slots=True)
class _HereDocument:
    """A here-document whose text begins in the line after the operator."""

    delimiter: str
    is_quoted: bool
    strips_tabs: bool
    reader: list[ShellWord]
    """Words of the command that reads the document."""


_QUOTES = ("\\", "'", '"')
_ENDS_WORD = " \t\n;&|<>()"
_REDIRECTIONS = ("<<<", "<&", "<>", "<", ">>", ">&", ">|", ">")
_ARM_ENDS = (";;&", ";;", ";&")
_PREFIXES = ("then", "else", "elif", "do", "!", "time")
"""Reserved words before a command that do not open a compound command."""
_CLOSERS = {"{": "}", "if": "fi", "while": "done", "until": "done", "for": "done", "select": "done"}
_LOOPS = ("while", "until", "for", "select")
_MOST_LEVELS = 100
_LEFT_SIDE = re.compile(rf"[\w{_FIELD}]+(\[.*)?\+?", re.ASCII | re.DOTALL)
_PLAIN = re.compile(rf"""[^\\'"`$={_FIELD} \t\n;&|<>()]+""")
"""Characters of a word that have no special meaning."""
_PLAIN_QUOTED = re.compile(rf"""[^\\'"`$}}{_FIELD}]+""")
"""Characters that have no special meaning in double quotes, ``${...}`` and here-documents."""
_PARAMETER = re.compile(r"\{?!?([A-Za-z_]\w*|[0-9@*])(@P)?", re.ASCII)
_PARAMETERS = (*"123456789", "@", "*")
_USER_SHELL = (EXPANSION_MARK, f"{EXPANSION_MARK}SHELL")
"""The literal text of the words ``${SHELL}`` and ``$SHELL``."""
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[(.*?)\]\+?=", re.ASCII | re.DOTALL)
"""The left side of an assignment to an array element; bash reads the subscript as arithmetic."""
_OFFSET = re.compile(r"\$\{[!#]?(?:\w+|[@*])(?:\[|:(?![-=?+]))", re.ASCII)
"""The beginning of ``${name[...]}`` and ``${name:...}``, where bash reads arithmetic."""
_NAME = re.compile(r"(?<!\w)[A-Za-z_]\w*", re.ASCII)
_LONGEST_RESERVED = len("function")


class _Scanner:
    """Recursive-descent reader of a shell program that records the place of each field."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.places: list[FieldPlace] = []
        self.refused: list[tuple[int, str, str, Scope]] = []
        self._known: set[tuple[int, Scope]] = set()
        self._documents: list[_HereDocument] = []
        """Here-documents whose text follows the next newline."""
        self._here_strings: list[tuple[Sequence[int], list[str], list[ShellWord]]] = []
        """Fields and expanded variables after ``<<<``, and the words of the command that reads them."""
        self._levels = 0
        self._functions = 0
        self._loops = 0
        self._loop_lists: list[int] = []
        """Fields outside quotes in the shell loops that are being read; their values may be lists."""
        self._replaces_list = False
        """Whether ``set`` or ``shift`` has replaced the positional parameters."""
        self._printed: list[int] = []
        """Fields that the commands before ``|`` print."""
        self._printed_names: list[str] = []
        """Variables that the commands before ``|`` print."""
        self._is_piped = False
        """Whether ``|`` was read last."""
        self._assigned: dict[str, list[int]] = {}
        """By variable: the fields in its values."""
        self._exported: set[str] = set()
        """Variables in the environment of programs."""
        self._computed: set[int] = set()
        """Fields in arithmetic, whose result is a number and therefore no code."""
        self._expanded: list[str] = []
        """Variables that the text expands, in order."""
        self._evaluated: list[tuple[str, str]] = []
        """Variables whose values are read as code, each with a text that says where."""

    def scan(self) -> None:
        """Read the whole text."""
        if (control := self.text.find(EXPANSION_MARK)) >= 0:
            raise _Unreadable(control, "the command contains a control character", "remove it")
        self._commands(())
        self._check_values()
        if self._documents:
            raise _Unreadable(self.end, "a here-document has no text")

    def _check_values(self) -> None:
        """Refuse the fields in values that the text, which has been read, uses as code."""
        for fields, names, reader in self._here_strings:
            self._refuse_input("after <<<, which", fields, names, reader)
        for name, where in self._evaluated:
            what = f"in the value of a variable that is read as code {where}"
            advice = _IN_ARITHMETIC if where == _ARITHMETIC else _NOT_EVALUATED
            self._refuse(self._assigned.get(name, ()), what, advice, Scope.DATA)

    # Characters. A backslash before a newline joins two lines (2.2.1), except in single quotes, comments and
    # quoted here-documents, which do not use these functions.

    def _peek(self) -> str:
        while self.at + 1 < self.end and self.text.startswith("\\\n", self.at):
            self.at += 2
        return self.text[self.at] if self.at < self.end else ""

    def _take(self, operator: str) -> bool:
        """Read an operator if it comes next; return whether it was read."""
        start = self.at
        for mark in operator:
            if self._peek() != mark:
                self.at = start
                return False
            self.at += 1
        return True

    def _take_one(self, operators: Sequence[str]) -> str:
        return next((operator for operator in operators if self._take(operator)), "")

    def _skip_blanks(self) -> str:
        """Skip blanks and a comment; return the next character."""
        while (mark := self._peek()) in (" ", "\t"):
            self.at += 1
        if mark == "#":
            self._comment()
        return self._peek()

    def _comment(self) -> None:
        stop = self.text.find("\n", self.at, self.end)
        stop = self.end if stop < 0 else stop
        advice = "remove the comment, or write the name without braces"
        self._refuse(self._pass_fields(stop), "in a comment", advice)

    def _pass_fields(self, stop: int) -> list[int]:
        """Skip text up to ``stop``; return the fields in it, which must be refused."""
        first = len(self.places)
        self.places += [FieldPlace.QUOTED] * self.text.count(_FIELD, self.at, stop)
        self.at = stop
        return list(range(first, len(self.places)))

    def _skip_newlines(self) -> str:
        while (mark := self._skip_blanks()) == "\n":
            self._newline()
        return mark

    def _newline(self) -> None:
        self.at += 1
        if not self._is_piped:
            self._end_pipeline()
        documents, self._documents = self._documents, []
        for document in documents:
            self._read_document(document)

    # Fields.

    def _field(self, place: FieldPlace) -> int:
        index = len(self.places)
        self.at += 1
        self.places.append(place)
        if place is FieldPlace.WORD:
            self._check_list(index)
        return index

    def _check_list(self, index: int) -> None:
        """Refuse a field with a list value where ``"$@"`` may not be the arguments of the whole command."""
        if self._functions:
            advice = 'pass it to the function as arguments and use "$@" in it'
            self._refuse([index], "as a list in a function, which has its own arguments", advice, Scope.LISTS)
        elif self._replaces_list:
            self._refuse([index], *_REPLACED, Scope.LISTS)
        elif self._loops:
            self._loop_lists.append(index)

    def _refuse(self, fields: Sequence[int], what: str, advice: str, scope: Scope = Scope.ALL) -> None:
        for index in fields:
            if not self._known.intersection(((index, scope), (index, Scope.ALL))):
                self._known.add((index, scope))
                self.refused.append((index, what, advice, scope))

    # Commands (2.9).

    def _commands(self, closers: tuple[str, ...]) -> str:
        """Read commands up to a reserved word or operator of ``closers``; return that word or operator."""
        start = self.at
        self._enter()
        while (closer := self._closer(closers)) is None:
            if self._peek() == "":
                if closers:
                    raise _Unreadable(start, f"{closers[0]!r} is missing after this place")
                closer = ""
                break
            if self._take_one(("||", "&", ";")):
                self._end_pipeline()
            elif self._take_one(("|&", "|")):
                self._is_piped = True
            else:
                self._is_piped = False
                self._command()
        self._levels -= 1
        return closer

    def _end_pipeline(self) -> None:
        self._printed.clear()
        self._printed_names.clear()

    def _enter(self) -> None:
        self._levels += 1
        if self._levels > _MOST_LEVELS:
            raise _Unreadable(self.at, f"the command is nested more than {_MOST_LEVELS} levels deep")

    def _closer(self, closers: tuple[str, ...]) -> str | None:
        mark = self._skip_newlines()
        if mark == ")":
            if ")" not in closers:
                raise _Unreadable(self.at, "')' stands without '('")
            self.at += 1
            return ")"
        if ";;" in closers and self._take_one(_ARM_ENDS):
            return ";;"
        word = self._next_reserved()
        return word if word in closers and self._take(word) else None

    def _next_reserved(self) -> str:
        """Return the next word if it may be a reserved word, which has no quotes; else ""."""
        start, found = self.at, ""
        while (mark := self._peek()).isalpha() or mark in ("{", "}", "!"):
            found += mark
            self.at += 1
            if len(found) > _LONGEST_RESERVED:
                break
        is_whole = mark == "" or mark in _ENDS_WORD
        self.at = start
        return found if is_whole else ""

    def _command(self) -> None:
        word = self._next_reserved()
        if word in _PREFIXES:
            self._take(word)
            return
        if self._peek() == "(":
            self.at += 1
            if self._peek() == "(":
                raise _Unreadable(self.at, "some shells read '((' as arithmetic", "write `( (` or `$((`")
            self._commands((")",))
        elif word == "function":
            self._take(word)
            self._skip_blanks()
            self._function([self._word()])
        elif word == "case":
            self._take(word)
            self._case()
        elif word in _CLOSERS:
            self._take(word)
            self._compound(word)
        else:
            self._simple()
            return
        self._redirections()

    def _compound(self, word: str) -> None:
        if word in ("for", "select"):
            self._loop_variable()
        is_loop = word in _LOOPS
        self._loops += is_loop
        self._commands((_CLOSERS[word],))
        self._loops -= is_loop
        if not self._loops:
            self._loop_lists.clear()

    def _loop_variable(self) -> None:
        self._skip_blanks()
        self._refuse(self._word().fields, "as the name of a variable", "write the name itself")
        self._skip_newlines()
        if self._next_reserved() == "in":
            self._take("in")
            while (mark := self._skip_blanks()) and mark not in _ENDS_WORD:
                self._word()

    def _case(self) -> None:
        start = self.at
        self._skip_blanks()
        self._word(place=FieldPlace.ONE)
        self._skip_newlines()
        if not self._take("in"):
            raise _Unreadable(start, "`in` is missing after `case`")
        closer = ";;"
        while closer != "esac":
            self._skip_newlines()
            if self._next_reserved() == "esac":
                self._take("esac")
                return
            self._patterns()
            closer = self._commands(("esac", ";;"))

    def _patterns(self) -> None:
        start = self.at
        self._take("(")
        while (mark := self._skip_blanks()) != ")":
            if mark == "" or mark in "\n;&<>(":
                raise _Unreadable(start, "a pattern of `case` has no ')'")
            if not self._take("|"):
                self._word(place=FieldPlace.ONE)
        self.at += 1

    def _function(self, words: Sequence[ShellWord]) -> None:
        """Read the definition of a function after its name."""
        if len(words) != 1 or "=" in words[0].literal:
            raise _Unreadable(
                self.at, "'(' stands after a word", "quote the parenthesis: not all shells have arrays"
            )
        self._refuse(words[0].fields, "as the name of a function", "write the name itself")
        self._skip_blanks()
        if self._take("("):
            self._skip_blanks()
            if not self._take(")"):
                raise _Unreadable(
                    self.at, "'(' stands after a word", "quote the parenthesis: not all shells have arrays"
                )
        self._skip_newlines()
        self._enter()
        self._functions += 1
        self._command()
        self._functions -= 1
        self._levels -= 1

    def _simple(self) -> None:
        words: list[ShellWord] = []
        may_assign, expanded = True, list[list[str]]()
        while (mark := self._skip_blanks()) and mark not in "\n;&|)":
            if mark in "<>":
                self._redirection(words)
            elif mark == "(":
                self._function(words)
                return
            else:
                first = len(self._expanded)
                word = self._word(may_assign=may_assign)
                expanded.append(self._expanded[first:])
                if word.literal in _USER_SHELL and expanded[-1] == ["SHELL"]:
                    word = ShellWord("sh")
                words.append(word)
                if may_assign and (subscript := _SUBSCRIPT.match(word.literal)):
                    self._evaluate_subscript(subscript[1], word, expanded[-1])
                may_assign = may_assign and ASSIGNMENT.match(words[-1].literal) is not None
                if (assignment := ASSIGNMENT.match(words[-1].literal)) is not None:
                    name = assignment[0].rstrip("+=")
                    self._assign(name, words[-1:], expanded[-1])
        self._check_command(words, expanded)
        if replaces_parameters(words):
            for name in _PARAMETERS:
                self._assign(name, words, [each for names in expanded for each in names])
        for at, where in find_evaluated_words(words):
            self._evaluated += [(name, where) for name in expanded[at]]
        self._evaluated += find_evaluated_names(words)
        self._evaluated += [(name, f"by programs, `{name}`") for name in find_code_settings(words)]
        self.check_inner_shells(words, expanded)

    def _evaluate_subscript(self, subscript: str, word: ShellWord, expanded: Sequence[str]) -> None:
        """Record the variables in the subscript of an assignment, which bash reads as arithmetic."""
        if word.literal.count(EXPANSION_MARK) == len(expanded):  # one variable each
            expanded = expanded[: subscript.count(EXPANSION_MARK)]
        names = [*expanded, *_NAME.findall(subscript)]
        self._evaluated += [(name, _ARITHMETIC) for name in names]

    def check_inner_shells(self, words: Sequence[ShellWord], expanded: Sequence[Sequence[str]]) -> None:
        """Refuse the fields that reach another shell as arguments or variables and are read as code there.

        ``expanded`` are the variables that each word expands. The text of the other shell (``sh -c TEXT``) is
        read with the same rules. Text that cannot be analysed is checked up to that place.
        """
        self._exported.update(find_exported_names(words))
        for at in find_shell_texts(words):
            inner = _Scanner(words[at].literal.replace(_FIELD, _RAW).replace(EXPANSION_MARK, _RAW))
            inner._levels = self._levels + 1
            inner._exported = self._exported.copy()
            inner._assigned = {name: self._assigned.get(name, []).copy() for name in self._exported}
            for number, argument in enumerate(range(at + 1, len(words))):
                values = self._find_values(words[argument : argument + 1], expanded[argument])
                for name in (str(number), "@", "*") if number else ("0",):
                    inner._assigned.setdefault(name, []).extend(values)
            with suppress(_Unreadable):
                inner._commands(())
            inner._check_values()
            for index, what, advice, scope in inner.refused:
                self._refuse([index], what, advice, scope)

    def _assign(self, name: str, words: Sequence[ShellWord], expanded: Sequence[str]) -> None:
        """Record the fields in words, and in the variables that the words expand, as values of a variable."""
        self._assigned.setdefault(name, []).extend(self._find_values(words, expanded))

    def _find_values(self, words: Sequence[ShellWord], expanded: Sequence[str]) -> list[int]:
        values = [index for word in words for index in word.fields if index not in self._computed]
        return values + [index for each in expanded for index in self._assigned.get(each, ())]

    def _redirections(self) -> None:
        while (mark := self._skip_blanks()) and mark in "<>0123456789":
            if mark in "<>":
                self._redirection([])
            else:
                self.at += 1

    def _redirection(self, words: list[ShellWord]) -> None:
        start = self.at
        if not self._take("<<<") and self._take("<<"):
            strips_tabs = self._take("-")
            self._skip_blanks()
            delimiter = self._word()
            if delimiter.fields or EXPANSION_MARK in delimiter.literal:
                raise _Unreadable(start, "the end mark of a here-document must be a fixed word")
            document = _HereDocument(delimiter.literal, not delimiter.is_plain, strips_tabs, words)
            self._documents.append(document)
            return
        self.at = start
        operator = self._take_one(_REDIRECTIONS)
        self._skip_blanks()
        first = len(self._expanded)
        target = self._word(place=FieldPlace.ONE)
        if operator in ("<&", ">&"):
            # bash expands the value of such a word a second time if it is not a number.
            advice = "write the number of the descriptor, or `> {name} 2>&1`"
            self._refuse(target.fields, f"after {operator}, where its value may be expanded again", advice)
        elif operator == "<<<":
            self._here_strings.append((target.fields, self._expanded[first:], words))

    # Words (2.2, 2.6).

    def _word(self, place: FieldPlace = FieldPlace.WORD, *, may_assign: bool = False) -> ShellWord:
        """Read a word; with ``may_assign``, fields after ``name=`` are the value of a variable."""
        parts, fields, first = list[str](), list[int](), len(self.places)
        is_plain, has_equals = True, False
        while (mark := self._peek()) and mark not in _ENDS_WORD:
            if mark == _FIELD:
                fields.append(self._field(place))
                parts.append(mark)
            elif mark in _QUOTES:
                is_plain = False
                parts.append(self._quoted(mark))
            elif mark in ("`", "$"):
                parts.append(self._quoted_character(mark, in_double=False))
            else:
                parts.append(self._plain(mark, _PLAIN))
                if mark == "=" and may_assign and not has_equals:
                    has_equals = True
                    place = FieldPlace.ONE if ASSIGNMENT.fullmatch("".join(parts)) else place
        literal = "".join(parts)
        left, equals, _ = literal.partition("=")
        if may_assign and equals and _FIELD in left and _LEFT_SIDE.fullmatch(left):
            self._refuse(fields, "on the left side of an assignment", "write the name of the variable itself")
        return ShellWord(literal, tuple(range(first, len(self.places))), is_plain)

    def _quoted(self, mark: str) -> str:
        """Read quoted text that begins with a backslash or a quote; return it without quotes."""
        if mark == "\\":
            return self._escaped()
        return self._single() if mark == "'" else self._double()

    def _escaped(self) -> str:
        """Read a backslash and the character after it."""
        self.at += 1
        mark = self.text[self.at : self.at + 1]
        if mark == _FIELD:
            self._refuse([self._field(FieldPlace.QUOTED)], "after a backslash", "remove the backslash")
            return mark
        self.at += 1
        return mark

    def _single(self) -> str:
        """Read text in single quotes."""
        start = self.at
        self.at += 1
        stop = self.text.find("'", self.at, self.end)
        if stop < 0:
            raise _Unreadable(start, "the quote ' is not closed")
        text = self.text[self.at : stop]
        self._check_newlines(start, text)
        self.places += [FieldPlace.SINGLE] * text.count(_FIELD)
        self.at = stop + 1
        return text

    def _double(self) -> str:
        """Read text in double quotes."""
        start, found = self.at, ""
        self.at += 1
        while not self._take('"'):
            mark = self._peek()
            if mark == "":
                raise _Unreadable(start, 'the quote " is not closed')
            found += self._quoted_character(mark)
        self._check_newlines(start, self.text[start : self.at])
        return found

    def _quoted_character(self, mark: str, *, in_double: bool = True) -> str:
        """Read a character or an expansion of double-quoted text or of a here-document."""
        if mark == _FIELD:
            self._field(FieldPlace.QUOTED)
            return mark
        if mark == "\\":
            return self._escaped()
        if mark == "`":
            self._backquotes()
            return EXPANSION_MARK
        if mark == "$":
            return self._dollar(in_double=in_double)
        return self._plain(mark, _PLAIN_QUOTED)

    def _plain(self, mark: str, pattern: re.Pattern[str]) -> str:
        """Read and return the text that matches a pattern here, else the single character ``mark``."""
        found = pattern.match(self.text, self.at, self.end)
        text = found[0] if found is not None else mark
        self.at += len(text)
        return text

    def _check_newlines(self, start: int, text: str) -> None:
        if self._documents and "\n" in text:
            raise _Unreadable(
                start, "a here-document begins inside quotes", "write '<<' after the closing quote"
            )

    def _backquotes(self) -> None:
        """Read a command substitution in backquotes."""
        start = stop = self.at
        while (stop := self.text.find("`", stop + 1, self.end)) >= 0:
            if not _is_escaped(self.text, stop):
                break
        inner = self.text[start + 1 : stop]
        if stop < 0 or inner.count("'") % 2 or inner.count('"') % 2:
            raise _Unreadable(start, "the text in backquotes is incomplete", "write $(...)")
        self._check_newlines(start, inner)
        self._refuse(self._pass_fields(stop + 1), "in backquotes", "write $(...) instead")

    def _dollar(self, *, in_double: bool) -> str:
        """Read an expansion; return the text that it adds to the literal text of its word."""
        start = self.at
        self.at += 1
        self._enter()
        if name := _PARAMETER.match(self.text, self.at, self.end):
            self._expanded.append(name[1])
            if name[0].startswith("{!") or name[2]:
                self._evaluated.append((name[1], "in ${...}"))
        mark = self._peek()
        if mark == "(":
            documents, self._documents = self._documents, []
            self._substitution(start)
            if self._documents or (documents and "\n" in self.text[start : self.at]):
                raise _Unreadable(start, "a here-document and a substitution overlap")
            self._documents = documents
        elif mark == "{":
            self._parameter(start, in_double=in_double)
        elif mark == _FIELD:
            self._refuse([self._field(FieldPlace.QUOTED)], "after $", "remove the $")
        elif mark == "[":
            raise _Unreadable(start, "some shells read '$[' as arithmetic", "write $((...)) or '$'")
        elif mark in ("'", '"') and not in_double:
            first = len(self.places)
            text = self._single() if mark == "'" else self._double()
            if mark == "'" and "\\" in text:
                raise _Unreadable(start, "shells differ in the meaning of \\ in $'...'", "write '...'")
            fields = range(first, len(self.places))
            self._refuse(fields, f"in ${mark}...{mark}", f"write {mark}...{mark}")
        self._levels -= 1
        return EXPANSION_MARK

    def _substitution(self, start: int) -> None:
        """Read ``$(...)`` or ``$((...))`` from the parenthesis."""
        self.at += 1
        if self._peek() != "(":
            self._commands((")",))
            return
        self.at += 1
        level, begin, first, expanded = 0, self.at, len(self.places), len(self._expanded)
        while (mark := self._peek()) != ")" or level:
            if mark == "" or mark in "'\"`\\#;":
                what = "'$((' is not followed by arithmetic and '))'"
                raise _Unreadable(start, what, "write `$( (` for a command, and no quotes in arithmetic")
            if mark == _FIELD:
                self._field(FieldPlace.NUMBER)
            elif mark == "$":
                self._dollar(in_double=True)
            else:
                level += (mark == "(") - (mark == ")")
                self.at += 1
        self._computed.update(range(first, len(self.places)))
        names = [*_NAME.findall(self.text, begin, self.at), *self._expanded[expanded:]]
        self._evaluated += [(name, _ARITHMETIC) for name in names]
        if not self._take("))"):
            raise _Unreadable(start, "'$((' is not closed by '))'", "write `$( (` for a command")

    def _parameter(self, start: int, *, in_double: bool) -> None:
        """Read ``${...}`` from the brace."""
        self.at += 1
        first, expanded = len(self.places), len(self._expanded)
        while (mark := self._peek()) != "}":
            if mark == "":
                raise _Unreadable(start, "'${' is not closed by '}'")
            if in_double and mark in "'\"\\":
                what = 'shells differ in the meaning of quotes and backslashes in "${...}"'
                raise _Unreadable(start, what, "write `value=...;` before the command and use $value")
            if mark == "'":
                self._single()
            elif mark == '"':
                self._double()
            else:
                self._quoted_character(mark)
        self.at += 1
        advice = "write `value={name};` before the command and use $value"
        self._refuse(range(first, len(self.places)), "inside ${...}", advice)
        if arithmetic := _OFFSET.match(self.text, start, self.at):
            names = [*_NAME.findall(self.text, arithmetic.end(), self.at), *self._expanded[expanded:]]
            self._evaluated += [(name, _ARITHMETIC) for name in names]

    # Here-documents (2.7.4).

    def _read_document(self, document: _HereDocument) -> None:
        """Read the text of a here-document, from the start of its first line."""
        first, expanded = len(self.places), len(self._expanded)
        stop, after = self._find_end(document)
        if document.is_quoted:
            advice = "remove the quotes of the end mark, and write \\$ for $ in the text"
            self._refuse(self._pass_fields(stop), "in a here-document with a quoted end mark", advice)
        else:
            end, self.end = self.end, stop
            while mark := self._peek():
                self._quoted_character(mark)
            self.end = end
        fields, names = range(first, len(self.places)), self._expanded[expanded:]
        self._refuse_input("in a here-document that", fields, names, document.reader)
        self.at = after

    def _refuse_input(
        self, where: str, fields: Sequence[int], names: Sequence[str], words: Sequence[ShellWord]
    ) -> None:
        """Refuse fields in the input of a command that reads its input as code, and in its variables."""
        if (found := find_input_reader(words)) is not None:
            reader, advice, scope = found
            self._refuse(fields, f"{where} {reader}", advice, scope)
            if scope is Scope.DATA or reads_piped_code(words):
                self._evaluated += [(name, "as the input of a program") for name in names]

    def _find_end(self, document: _HereDocument) -> tuple[int, int]:
        """Return the offsets of the line with the end mark and of the line after the end mark."""
        start, is_joined = self.at, False
        while start < self.end:
            stop = self.text.find("\n", start, self.end)
            stop = self.end if stop < 0 else stop
            line = self.text[start:stop]
            if (line.lstrip("\t") if document.strips_tabs else line) == document.delimiter:
                if is_joined:
                    raise _Unreadable(start, "a backslash stands before the end mark of a here-document")
                return start, min(stop + 1, self.end)
            is_joined = not document.is_quoted and line.endswith("\\")
            start = stop + 1
        raise _Unreadable(self.at, f"a here-document has no line {document.delimiter!r} at its end")

    def _check_command(self, words: Sequence[ShellWord], expanded: Sequence[Sequence[str]]) -> None:
        """Refuse the fields of a simple command that its program would read as code."""
        for refused in find_code_arguments(words):
            self._refuse(*refused)
        if reads_piped_code(words):
            self._refuse(self._printed, "in text that a shell reads through a pipe", _NOT_PIPED, Scope.DATA)
            self._evaluated += [(name, "by a shell, through a pipe") for name in self._printed_names]
        elif prints_arguments(words):
            self._printed += [index for word in words for index in word.fields]
            self._printed_names += [name for names in expanded for name in names]
        if replaces_parameters(words):
            self._replaces_list = True
            self._refuse(self._loop_lists, *_REPLACED, Scope.LISTS)


_NOT_PIPED = "pass it as an argument: `... | sh -s -- {name}` and use $1 in the text"
_ARITHMETIC = "in arithmetic"
_IN_ARITHMETIC = "write {name} itself in $((...)), where only numbers are accepted"
_NOT_EVALUATED = "use the variable in double quotes, as an argument of a program"
_REPLACED = (
    "as a list where `set` or `shift` may have replaced it",
    'use it before them, or use "$@" after `set -- {name}`',
)


def _is_escaped(text: str, at: int) -> bool:
    """Return whether an odd number of backslashes precedes the character at position ``at``."""
    start = at
    while text.startswith("\\", start - 1) and start > 0:
        start -= 1
    return (at - start) % 2 == 1


@functools.lru_cache(maxsize=4096)
def check_program_words(words: tuple[str, ...]) -> tuple[ShellRefusal, ...]:
    """Return the refused fields of a command without a shell: program names, and text for interpreters."""
    names, read = list[str](), list[ShellWord]()
    for word in words:
        source = _Source(split_template(word))
        first = len(names)
        names += [name for name, _ in source.fields]
        read.append(ShellWord(source.scanned, tuple(range(first, len(names)))))
    scanner = _Scanner("")
    scanner.check_inner_shells(read, [()] * len(read))
    inner = [([index], what, advice, scope) for index, what, advice, scope in scanner.refused]
    return tuple(
        ShellRefusal(
            name=names[index],
            what=what,
            advice=_with_name(advice, names[index]),
            line=0,
            column=0,
            scope=scope,
        )
        for fields, what, advice, scope in (*find_started_programs(read), *find_program_text(read), *inner)
        for index in fields
    )


def _with_name(advice: str, name: str) -> str:
    return advice.replace("{name}", f"{{{name}}}")
