"""Replacements in a line for the shell: each is quoted for the place where it stands.

A value may come from a file that another task wrote, so it must never become shell text. Outside of quotes it
becomes one word; between the user's own quotes its special characters are taken away; where nothing protects
it (arithmetic, backquotes, here-documents) only letters, digits and a few harmless marks are let through.
"""

from __future__ import annotations

import functools
import re
import shlex

from weft.backends.jobs.problem import JobProblem
from weft.errors import shorten
from weft.workflow.templates import Field, pieces

__all__ = ["COMMENT", "DOUBLE", "PLAIN", "SINGLE", "UNSAFE", "contexts", "quoted"]

PLAIN, SINGLE, DOUBLE, COMMENT, UNSAFE = "plain", "single", "double", "comment", "unsafe"
"""Where a replacement stands: outside of quotes, in both kinds, in a comment, or where quoting is no help."""

_BACKQUOTE, _GROUP = "backquote", "group"
_SUBSTITUTION, _ARITHMETIC, _TERM = "substitution", "arithmetic", "term"
_NUMBERS = (_ARITHMETIC, _TERM)
_LITERAL = {SINGLE: "'", COMMENT: "\n"}
"""Where no mark has a meaning but the one that ends it."""
_BRACES = {"{{": "{", "}}": "}"}
_HARMLESS = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_BEFORE_COMMENT = " \t\n;&|("
_SPECIAL = re.compile(r'[\\"$`]')


def quoted(words: list[str], context: str, name: str) -> str:
    """Write the words of a replacement so that the shell takes them as they are."""
    if context == PLAIN:
        return " ".join(map(shlex.quote, words))
    text = " ".join(words)
    if context == SINGLE:
        return text.replace("'", "'\\''")
    if context == DOUBLE:
        return _SPECIAL.sub(r"\\\g<0>", text)
    if context == COMMENT:
        return text.replace("\n", " ")  # an end of line would end the comment
    if text and not _HARMLESS.fullmatch(text):
        raise JobProblem(
            f"{{{name}}} is {shorten(repr(text))} where it cannot be quoted for the shell",
            rule="in arithmetic, backquotes and here-documents only letters, digits and @%+=:,./-_ may stand",
            advice=f"write `x={{{name}}};` first and use $x, or use {{{name}:raw}}",
        )
    return text


@functools.lru_cache(maxsize=4096)
def contexts(text: str) -> tuple[str, ...]:
    """Tell for every name in braces of a line where it stands."""
    reader = _Reader(has_case=re.search(r"\bcase\b", text) is not None)
    found = []
    for piece in pieces(text):
        if isinstance(piece, Field):
            found.append(reader.context())
        elif piece.startswith("${") and piece.endswith("}"):
            reader.pass_parameter(piece)
        else:
            reader.read(_BRACES.get(piece, piece))
    # Quotes that do not match: where the names really stand is anybody's guess.
    return tuple(found) if reader.is_closed() else (UNSAFE,) * len(found)


class _Reader:
    """Follows quotes and parentheses through a line, one character at a time."""

    def __init__(self, *, has_case: bool) -> None:
        self.open: list[str] = [PLAIN]
        self.last = "\n"
        """The character before; a backslash only if it takes away the meaning of the next one."""
        self.lost = False
        """Whether from here on nobody can say what the shell makes of a replacement."""
        self.has_case = has_case

    def is_closed(self) -> bool:
        """Say whether all quotes and parentheses were closed, as far as the line could be followed."""
        return self.lost or self.open in ([PLAIN], [PLAIN, COMMENT])

    def context(self) -> str:
        """Tell where a replacement would stand that comes now."""
        top, escaped = self.open[-1], self.last == "\\"
        self.last = "x"
        if self.lost or escaped or top in (_BACKQUOTE, *_NUMBERS):
            return UNSAFE
        return top if top in (SINGLE, DOUBLE, COMMENT) else PLAIN

    def pass_parameter(self, text: str) -> None:
        """Pass ``${...}``, in which quotes follow rules of their own."""
        self.lost |= self.open[-1] != SINGLE and any(mark in text for mark in "'\"`\\(")
        self.last = "x"

    def read(self, text: str) -> None:
        """Read a piece of the line."""
        at = 0
        while at < len(text) and not self.lost:
            at += self._step(text, at)

    def _step(self, text: str, at: int) -> int:
        """Read what stands at a position; give how many characters it has."""
        top, mark, before = self.open[-1], text[at], self.last
        if top in _LITERAL:
            if mark == _LITERAL[top]:
                self.open.pop()
            self.last = "\n" if top == COMMENT else "x"
            return 1
        self.last = "x" if before == "\\" else mark
        if before == "\\" or mark == "\\" or (top == _BACKQUOTE and mark != "`"):
            return 1
        if mark == "`":
            self._toggle(_BACKQUOTE)
        elif text.startswith("$(", at):
            return self._substitution(text, at)
        elif top in _NUMBERS:
            return self._in_arithmetic(text, at)
        elif mark == '"':
            self._toggle(DOUBLE)
        elif top != DOUBLE:
            self._among_words(text, at, before)
        return 1

    def _toggle(self, kind: str) -> None:
        if self.open[-1] == kind:
            self.open.pop()
        else:
            self.open.append(kind)

    def _substitution(self, text: str, at: int) -> int:
        self.last = "("
        if text.startswith("$((", at):
            self.open.append(_ARITHMETIC)
            return 3
        self.open.append(_SUBSTITUTION)
        # `case x in a) ...` closes a parenthesis that nobody opened.
        self.lost |= self.has_case
        return 2

    def _in_arithmetic(self, text: str, at: int) -> int:
        if text[at] == "(":
            self.open.append(_TERM)
        elif text[at] == ")" and self.open.pop() == _ARITHMETIC:
            # `$((` may also begin a substitution whose first command stands in parentheses.
            self.lost |= not text.startswith("))", at)
            return 2
        return 1

    def _among_words(self, text: str, at: int, before: str) -> None:
        mark = text[at]
        if mark == "'":
            self.open.append(SINGLE)
            self.lost |= before == "$"  # some shells know escapes in quotes after a dollar, others do not
        elif mark == "#" and before in _BEFORE_COMMENT:
            self.open.append(COMMENT)
        elif mark == "(":
            self.open.append(_GROUP)
            self.lost |= before == "("  # arithmetic to some shells, a group in a group to others
        elif mark == ")" and self.open[-1] != PLAIN:
            self.open.pop()
        elif mark == before == "<":
            self.lost = True
