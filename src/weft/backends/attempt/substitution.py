"""Substitution of ``{name}`` fields in commands, with quoting that depends on the position in a shell line.

A value may come from a file that another task wrote, so it must never be interpreted as shell text. Outside
quotes it becomes one word; inside the user's quotes its special characters are escaped; where quoting has no
effect (arithmetic, backquotes, here-documents) only letters, digits and a few harmless characters are
accepted.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weft.errors import Problem, WeftError, nearest, shorten
from weft.expressions import Value
from weft.records import dataclass
from weft.redaction import redact
from weft.workflow.templates import TemplateField, format_value, list_fields, split_template

if TYPE_CHECKING:
    from weft.platform.machine import Machine


class JobProblem(WeftError):
    """An attempt cannot be started as described, or a file it wrote cannot be interpreted."""

    def __init__(self, what: str, *, rule: str = "", advice: str = "") -> None:
        self.problem = Problem(what=what, rule=rule, advice=advice)
        super().__init__(redact(str(self.problem)))


PLAIN, SINGLE, DOUBLE, COMMENT, UNSAFE = "plain", "single", "double", "comment", "unsafe"
"""Position of a field: outside quotes, in single or double quotes, in a comment, or where quoting has no
effect.
"""

_BACKQUOTE, _GROUP = "backquote", "group"
_SUBSTITUTION, _ARITHMETIC, _TERM = "substitution", "arithmetic", "term"
_NUMBERS = (_ARITHMETIC, _TERM)
_LITERAL = {SINGLE: "'", COMMENT: "\n"}
"""Contexts in which only their own end character has a meaning."""
_SHELL_BRACES = {"{{": "{", "}}": "}"}
_HARMLESS = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_BEFORE_COMMENT = " \t\n;&|("
_SPECIAL = re.compile(r'[\\"$`]')


def quote_words(words: list[str], context: str, name: str) -> str:
    """Quote the words of a field for its position in a shell line; raise JobProblem if impossible."""
    if context == PLAIN:
        return " ".join(map(shlex.quote, words))
    text = " ".join(words)
    if context == SINGLE:
        return text.replace("'", "'\\''")
    if context == DOUBLE:
        return _SPECIAL.sub(r"\\\g<0>", text)
    if context == COMMENT:
        return text.replace("\n", " ")  # A newline would end the comment.
    if text and not _HARMLESS.fullmatch(text):
        raise JobProblem(
            f"{{{name}}} is {shorten(repr(text))} where it cannot be quoted for the shell",
            rule="in arithmetic, backquotes, here-documents only letters, digits and @%+=:,./-_ are allowed",
            advice=f"write `x={{{name}}};` first and use $x, or use {{{name}:raw}}",
        )
    return text


@functools.lru_cache(maxsize=4096)
def quoting_contexts(text: str) -> tuple[str, ...]:
    """Return the quoting context of every field of a shell line."""
    reader = _ShellScanner(has_case=re.search(r"\bcase\b", text) is not None)
    found = []
    for piece in split_template(text):
        if isinstance(piece, TemplateField):
            found.append(reader.context())
        elif piece.startswith("${") and piece.endswith("}"):
            reader.pass_parameter(piece)
        else:
            reader.read(_SHELL_BRACES.get(piece, piece))
    # With unbalanced quotes the position of the fields is uncertain.
    return tuple(found) if reader.is_closed() else (UNSAFE,) * len(found)


class _ShellScanner:
    """Scanner that tracks quotes and parentheses of a shell line, character by character."""

    def __init__(self, *, has_case: bool) -> None:
        self.open: list[str] = [PLAIN]
        self.last = "\n"
        """The previous character; a backslash only if it escapes the next one."""
        self.lost = False
        """Whether the interpretation of the rest of the line depends on the shell."""
        self.has_case = has_case

    def is_closed(self) -> bool:
        """Return whether all quotes and parentheses are closed, as far as the line could be scanned."""
        return self.lost or self.open in ([PLAIN], [PLAIN, COMMENT])

    def context(self) -> str:
        """Return the context of a field at the current position."""
        top, escaped = self.open[-1], self.last == "\\"
        self.last = "x"
        if self.lost or escaped or top in (_BACKQUOTE, *_NUMBERS):
            return UNSAFE
        return top if top in (SINGLE, DOUBLE, COMMENT) else PLAIN

    def pass_parameter(self, text: str) -> None:
        """Skip ``${...}``, which has its own quoting rules."""
        self.lost |= self.open[-1] != SINGLE and any(mark in text for mark in "'\"`\\(")
        self.last = "x"

    def read(self, text: str) -> None:
        """Scan a piece of the line."""
        at = 0
        while at < len(text) and not self.lost:
            at += self._step(text, at)

    def _step(self, text: str, at: int) -> int:
        """Scan the token at a position; return its length."""
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
        # `case x in a) ...` contains an unmatched closing parenthesis.
        self.lost |= self.has_case
        return 2

    def _in_arithmetic(self, text: str, at: int) -> int:
        if text[at] == "(":
            self.open.append(_TERM)
        elif text[at] == ")" and self.open.pop() == _ARITHMETIC:
            # `$((` may also start a command substitution whose first command is in parentheses.
            self.lost |= not text.startswith("))", at)
            return 2
        return 1

    def _among_words(self, text: str, at: int, before: str) -> None:
        mark = text[at]
        if mark == "'":
            self.open.append(SINGLE)
            self.lost |= before == "$"  # $'...': only some shells interpret escapes
        elif mark == "#" and before in _BEFORE_COMMENT:
            self.open.append(COMMENT)
        elif mark == "(":
            self.open.append(_GROUP)
            self.lost |= before == "("  # Arithmetic in some shells, nested groups in others.
        elif mark == ")" and self.open[-1] != PLAIN:
            self.open.pop()
        elif mark == before == "<":
            self.lost = True


ALLOCATED = ("nodes", "cores", "memory_mb")
"""Names of allocated amounts. As with ``machine.*``, their values differ between attempts of one task."""

_BRACES = {"{{": "{", "}}": "}"}
_OF_TASKS = ("exit_code", "result")


def template_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct field names of some templates."""
    return tuple(dict.fromkeys(field.name for text in texts for field in list_fields(text)))


@dataclass(frozen=True, slots=True, eq=False)
class TemplateValues:
    """Values of the fields of one attempt."""

    known: Mapping[str, Value]
    """Plain values by name."""
    machine: Mapping[str, Value]
    """Values of ``machine.*``."""
    results: Mapping[str, Mapping[str, Value]]
    """Results by task description."""
    by_name: bool = False
    """Whether fields whose value differs between attempts of one task are replaced by their name."""

    def line(self, text: str) -> str:
        """Substitute the fields of a shell line, quoted for their positions."""
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
        """Substitute the fields of a name or word, without quoting."""
        if "{" not in text and "}" not in text:
            return text
        return "".join(
            _BRACES.get(piece, piece) if isinstance(piece, str) else " ".join(self._words(piece))
            for piece in split_template(text)
        )

    def words(self, words: Sequence[str]) -> list[str]:
        """Substitute the fields of an argument list; a word that is only ``{inputs}`` becomes several."""
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
        """Return the value of a field; raise JobProblem if it has none."""
        if self.by_name and (name in ALLOCATED or name.startswith("machine.")):
            return f"@{name}@"  # Harmless at any position of a line.
        if name in self.known:
            if (value := self.known[name]) is None:
                advice = "state `memory` of the task or of the machine" if name == "memory_mb" else ""
                raise JobProblem(f"{{{name}}} has no value", advice=advice)
            return value
        head, _, rest = name.partition(".")
        if head == "machine":
            return _machine_value(self.machine, rest)
        return self._of_task(name, head, rest)

    def _of_task(self, name: str, task: str, rest: str) -> Value:
        kind, _, key = rest.partition(".")
        if kind not in _OF_TASKS or (kind == "result") != bool(key):
            rule = "other tasks provide {TASK.exit_code} and {TASK.result.NAME}"
            raise JobProblem(f"{{{name}}} is unknown", rule=rule)
        if (ended := self.results.get(task)) is None:
            return ""  # In the first iteration of a loop the task that ends it has not run yet.
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
    """Return the values of ``machine.*`` fields; None: not stated in the platform file."""
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
    if (value := machine[name]) is None:
        advice = f"state `{name}` of the machine in the platform file"
        raise JobProblem(f"{{machine.{name}}} is not stated for machine {machine['name']}", advice=advice)
    return value


def _check_word(name: str, word: str) -> None:
    """Raise JobProblem for a word that cannot be an argument: one with a NUL or a lone surrogate."""
    try:
        word.encode()
    except UnicodeEncodeError:
        fault = "a lone surrogate"
    else:
        fault = "a NUL" if "\0" in word else ""
    if fault:
        rule = f"{fault} cannot be passed to a program"
        raise JobProblem(f"{{{name}}} is {shorten(repr(word))}", rule=rule)
