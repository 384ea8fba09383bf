"""What is wrong with a job: its command cannot be written, or what it left cannot be read.

Replacements in a line for the shell: each is quoted for the place where it stands.

A value may come from a file that another task wrote, so it must never become shell text. Outside of quotes it
becomes one word; between the user's own quotes its special characters are taken away; where nothing protects
it (arithmetic, backquotes, here-documents) only letters, digits and a few harmless marks are let through.

Values: what the names in braces stand for once an attempt has been given its machine and its nodes.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weft.errors import Problem, WeftError, nearest, shorten
from weft.expressions import Value
from weft.workflow.templates import TemplateField, format_value, list_fields, split_template

if TYPE_CHECKING:
    from weft.platform.machine import Machine

__all__ = [
    "ALLOCATED",
    "COMMENT",
    "DOUBLE",
    "PLAIN",
    "SINGLE",
    "UNSAFE",
    "JobProblem",
    "TemplateValues",
    "machine_values",
    "quote_words",
    "quoting_contexts",
    "template_names",
]


class JobProblem(WeftError):
    """An attempt cannot be started as described, or its files say nothing that can be understood."""

    def __init__(self, what: str, *, rule: str = "", advice: str = "") -> None:
        self.problem = Problem(what=what, rule=rule, advice=advice)
        super().__init__(str(self.problem))


PLAIN, SINGLE, DOUBLE, COMMENT, UNSAFE = "plain", "single", "double", "comment", "unsafe"
"""Where a replacement stands: outside of quotes, in both kinds, in a comment, or where quoting is no help."""

_BACKQUOTE, _GROUP = "backquote", "group"
_SUBSTITUTION, _ARITHMETIC, _TERM = "substitution", "arithmetic", "term"
_NUMBERS = (_ARITHMETIC, _TERM)
_LITERAL = {SINGLE: "'", COMMENT: "\n"}
"""Where no mark has a meaning but the one that ends it."""
_SHELL_BRACES = {"{{": "{", "}}": "}"}
_HARMLESS = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_BEFORE_COMMENT = " \t\n;&|("
_SPECIAL = re.compile(r'[\\"$`]')


def quote_words(words: list[str], context: str, name: str) -> str:
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
def quoting_contexts(text: str) -> tuple[str, ...]:
    """Tell for every name in braces of a line where it stands."""
    reader = _ShellScanner(has_case=re.search(r"\bcase\b", text) is not None)
    found = []
    for piece in split_template(text):
        if isinstance(piece, TemplateField):
            found.append(reader.context())
        elif piece.startswith("${") and piece.endswith("}"):
            reader.pass_parameter(piece)
        else:
            reader.read(_SHELL_BRACES.get(piece, piece))
    # Quotes that do not match: where the names really stand is anybody's guess.
    return tuple(found) if reader.is_closed() else (UNSAFE,) * len(found)


class _ShellScanner:
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


ALLOCATED = ("nodes", "cores", "memory_mb")
"""Names that speak of the attempt, as ``machine.*`` do: another attempt of the same task has other values."""

_BRACES = {"{{": "{", "}}": "}"}
_OF_TASKS = ("exit_code", "result")


def template_names(texts: Sequence[str]) -> tuple[str, ...]:
    """List the names that templates use, each once."""
    return tuple(dict.fromkeys(field.name for text in texts for field in list_fields(text)))


class TemplateValues:
    """The values of one attempt; ``known`` by their names, the dotted ones of machine and other tasks."""

    def __init__(
        self,
        known: Mapping[str, Value],
        machine: Mapping[str, Value],
        results: Mapping[str, Mapping[str, Value]],
        *,
        by_name: bool = False,
    ) -> None:
        """``by_name``: what differs between attempts of one task is not filled in, but named."""
        self._known = known
        self._machine = machine
        self._results = results
        self._by_name = by_name

    def line(self, text: str) -> str:
        """Fill in a line for the shell, every replacement quoted."""
        if "{" not in text and "}" not in text:
            return text
        where = iter(quoting_contexts(text))
        parts = []
        for piece in split_template(text):
            if isinstance(piece, str):
                parts.append(_BRACES.get(piece, piece))
                continue
            context, words = next(where), self._words(piece)
            parts.append(" ".join(words) if piece.raw else quote_words(words, context, piece.name))
        return "".join(parts)

    def text(self, text: str) -> str:
        """Fill in a name or a word, in which nothing is quoted."""
        if "{" not in text and "}" not in text:
            return text
        return "".join(
            _BRACES.get(piece, piece) if isinstance(piece, str) else " ".join(self._words(piece))
            for piece in split_template(text)
        )

    def words(self, words: Sequence[str]) -> list[str]:
        """Fill in the words of a command; one that is nothing but a list (``{inputs}``) becomes several."""
        found: list[str] = []
        for word in words:
            parts = split_template(word) if "{" in word else ()
            if len(parts) == 1 and isinstance(parts[0], TemplateField):
                found += self._words(parts[0])
            else:
                found.append(self.text(word))
        return found

    def _words(self, field: TemplateField) -> list[str]:
        value = self.of(field.name)
        words = [format_value(entry) for entry in (value if isinstance(value, list) else [value])]
        for word in words:
            if not word.isascii() or "\0" in word:
                _check_word(field.name, word)
        return words

    def of(self, name: str) -> Value:
        """Give what a name stands for."""
        if self._by_name and (name in ALLOCATED or name.startswith("machine.")):
            return f"@{name}@"  # harmless wherever it stands in a line
        if name in self._known:
            value = self._known[name]
            if value is None:
                advice = "state `memory` of the task or of the machine" if name == "memory_mb" else ""
                raise JobProblem(f"{{{name}}} has no value", advice=advice)
            return value
        head, _, rest = name.partition(".")
        if head == "machine":
            return _machine_value(self._machine, rest)
        return self._of_task(name, head, rest)

    def _of_task(self, name: str, task: str, rest: str) -> Value:
        kind, _, key = rest.partition(".")
        if kind not in _OF_TASKS or (kind == "result") != bool(key):
            raise JobProblem(
                f"{{{name}}} is unknown",
                rule="of other tasks there are {TASK.exit_code} and {TASK.result.NAME}",
            )
        ended = self._results.get(task)
        if ended is None:
            return ""  # in the first iteration of a loop the task that ends it has not run yet
        if kind == "exit_code":
            return ended.get(kind)
        result = ended.get(kind)
        if not isinstance(result, Mapping) or key not in result:
            known = ", ".join(map(str, result)) if isinstance(result, Mapping) and result else "nothing"
            raise JobProblem(
                f"{{{name}}}: the result of {task} has no {key}",
                rule=f"it wrote {shorten(known)} to its result file",
            )
        value: Value = result[key]
        return value


def machine_values(machine: Machine) -> dict[str, Value]:
    """Give what commands may ask of the chosen machine; None: not stated."""
    memory = machine.memory
    return {
        **machine.resources,
        **machine.attributes,
        "name": machine.name,
        "arch": machine.arch,
        "os": machine.os,
        "site": machine.site_name,
        "host": machine.host_name,
        "nodes": machine.nodes,
        "cores": machine.cores,
        "gpus": machine.gpus,
        "speed": machine.speed,
        "memory": memory,
        "memory_mb": None if memory is None else int(memory // 1_000_000),
    }


def _machine_value(machine: Mapping[str, Value], name: str) -> Value:
    if name not in machine:
        close = nearest(name, machine)
        advice = f"did you mean {{machine.{close}}}?" if close else f"known: {', '.join(machine)}"
        raise JobProblem(f"{{machine.{name}}} is unknown", advice=advice)
    value = machine[name]
    if value is None:
        advice = f"state `{name}` of the machine in the platform file"
        raise JobProblem(f"{{machine.{name}}}: machine {machine['name']} does not state it", advice=advice)
    return value


def _check_word(name: str, word: str) -> None:
    """Refuse what no program can be given: a NUL ends a text, and half a character has no bytes."""
    try:
        word.encode()
    except UnicodeEncodeError:
        fault = "half a character"
    else:
        fault = "a NUL" if "\0" in word else ""
    if fault:
        raise JobProblem(f"{{{name}}} is {shorten(repr(word))}", rule=f"{fault} cannot be given to a program")
