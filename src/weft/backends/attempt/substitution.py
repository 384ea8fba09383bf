"""Substitution of ``{name}`` fields: in names and words by values, in shell commands by variables.

A value may come from a file that another task wrote, so it must never be interpreted as shell text. The text
of a shell command therefore refers to variables and positional parameters (``weft.workflow.shell_text``),
which hold the values. Only the value of ``{name:raw}`` becomes a part of the text.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import Problem, WeftError, nearest, shorten
from weft.expressions import Value
from weft.records import dataclass
from weft.redaction import redact
from weft.workflow.code_arguments import Scope
from weft.workflow.command_checks import describe_refusal
from weft.workflow.shell_text import (
    FieldPlace,
    ShellField,
    ShellLiteral,
    ShellPieces,
    expansion,
    split_shell_pieces,
)
from weft.workflow.templates import TemplateField, format_value, list_fields, split_template

if TYPE_CHECKING:
    from weft.platform.machine import Machine


class JobProblem(WeftError):
    """An attempt cannot be started as described, or a file it wrote cannot be interpreted."""

    def __init__(self, what: str, *, rule: str = "", advice: str = "", number: int | None = None) -> None:
        self.problem = Problem(what=what, rule=rule, advice=advice)
        self.number = number
        """The ``errno`` of the failure, such as ``errno.EMFILE``."""
        super().__init__(redact(str(self.problem)))


ALLOCATED = ("nodes", "cores", "memory_mb")
"""Names of allocated amounts. As with ``machine.*``, their values differ between attempts of one task."""

_BRACES = {"{{": "{", "}}": "}"}
_OF_TASKS = ("exit_code", "result")


def template_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct names of the fields in several templates."""
    return tuple(dict.fromkeys(field.name for text in texts for field in list_fields(text)))


@dataclass(frozen=True, slots=True, eq=False)
class TemplateValues:
    """Values of the template fields of one attempt."""

    known: Mapping[str, Value]
    """By field name: the value of a field that refers to no machine and no result."""
    machine: Mapping[str, Value]
    """By name: the value of the field ``machine.NAME``."""
    results: Mapping[str, Mapping[str, Value]]
    """By name of a description: ``exit_code`` and ``result`` of its task."""
    by_name: bool = False
    """Whether fields are replaced by their names if their values differ between attempts of one task."""

    def text(self, text: str) -> str:
        """Substitute the fields of a name or word, without quoting."""
        if "{" not in text and "}" not in text:
            return text
        return "".join(
            _BRACES.get(piece, piece) if isinstance(piece, str) else " ".join(self._words(piece.name))
            for piece in split_template(text)
        )

    def words(self, words: Sequence[str]) -> list[str]:
        """Substitute the fields of an argument list.

        A word that consists only of a field with a list, such as ``{inputs}``, becomes several words.
        """
        found: list[str] = []
        for word in words:
            parts = split_template(word) if "{" in word else ()
            if len(parts) == 1 and isinstance(parts[0], TemplateField):
                found += self._words(parts[0].name)
            else:
                found.append(self.text(word))
        return found

    def fill_raw(self, pieces: ShellPieces) -> ShellPieces:
        """Substitute the fields ``{name:raw}`` of a shell command; all other fields are kept."""
        if not any(isinstance(piece, TemplateField) and piece.raw for piece in pieces):
            return pieces
        return tuple(
            ShellLiteral(" ".join(self._words(piece.name)))
            if isinstance(piece, TemplateField) and piece.raw
            else piece
            for piece in pieces
        )

    def shell_value(self, name: str) -> str | list[str]:
        """Return the value of a field as text; if the value is a list, return the texts of its entries."""
        words = self._words(name)
        return words if isinstance(self.of(name), list) else words[0]

    def _words(self, name: str) -> list[str]:
        value = self.of(name)
        words = [format_value(entry) for entry in (value if isinstance(value, list) else [value])]
        for word in words:
            if not word.isascii() or "\0" in word:
                _check_word(name, word)
        return words

    def of(self, name: str) -> Value:
        """Return the value of a field; raise JobProblem if the field has no value."""
        if self.by_name and (name in ALLOCATED or name.startswith("machine.")):
            return f"@{name}@"
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


VARIABLE_PREFIX = "WEFT_V_"
"""Prefix of the names of shell variables that hold the values of fields."""
_NOT_IN_NAME = re.compile(r"\W", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]+", re.ASCII)


class FilledShell(NamedTuple):
    """Shell texts that refer to variables and positional parameters, and the values of these."""

    texts: tuple[str, ...]
    variables: Mapping[str, str]
    """By name of a shell variable: its value."""
    parameters: tuple[str, ...]
    """Positional parameters: the entries of all lists, after the words given as ``before``."""


@functools.lru_cache(maxsize=4096)
def compile_shell(texts: tuple[ShellPieces, ...]) -> ShellTemplate:
    """Compile the shell texts of one command."""
    return ShellTemplate(texts)


class ShellTemplate:
    """The shell texts of one command (line, prolog, wrapper, epilog), which share their variables."""

    def __init__(self, texts: tuple[ShellPieces, ...]) -> None:
        self._texts = [split_shell_pieces(text) for text in texts]
        fields = [piece for text in self._texts for piece in text.pieces if isinstance(piece, ShellField)]
        self.names = tuple(dict.fromkeys(field.name for field in fields))
        self._numbers = {field.name for field in fields if field.place is FieldPlace.NUMBER}
        self._single = {field.name for field in fields if field.place is FieldPlace.ONE}
        self._spread = {field.name for field in fields if field.place is FieldPlace.WORD}
        self._joined = {field.name for field in fields if field.place is not FieldPlace.WORD}
        self._fixed_lists = {
            refusal.name: refusal
            for text in self._texts
            for refusal in text.refusals
            if refusal.scope is Scope.LISTS
        }
        self._variables = _variable_names(self.names)
        self._rendered: dict[tuple[tuple[str, int], ...], tuple[str, ...]] = {}

    def fill(self, values: TemplateValues, before: Sequence[str] = ()) -> FilledShell:
        """Return the texts and the values to which they refer.

        ``before`` are values for the first positional parameters; the texts do not refer to them.
        """
        variables: dict[str, str] = {}
        lists: dict[str, list[str]] = {}
        for name in self.names:
            value = values.shell_value(name)
            if isinstance(value, list):
                self._check_list(name, value)
                if name in self._spread:
                    lists[name] = value
                if name not in self._joined:
                    continue
                value = " ".join(value)
            if name in self._numbers:
                _check_number(name, value)
            variables[self._variables[name]] = value
        counts = (("", len(before)), *((name, len(entries)) for name, entries in lists.items()))
        # The text does not depend on the length of a single list.
        key = counts if before or len(lists) > 1 else tuple((name, 0) for name in lists)
        if (texts := self._rendered.get(key)) is None:
            texts = self._rendered[key] = self._render(key, shared=before != () or len(lists) > 1)
        parameters = (*before, *(entry for entries in lists.values() for entry in entries))
        return FilledShell(texts, variables, parameters)

    def describe(self, values: TemplateValues) -> list[str]:
        """Return the texts with values in place of fields, to be shown to users.

        They must not be executed, because not every value is quoted for a shell.
        """
        return ["".join(_describe(piece, values) for piece in text.pieces) for text in self._texts]

    def _check_list(self, name: str, entries: Sequence[str]) -> None:
        if (refusal := self._fixed_lists.get(name)) is not None:
            raise JobProblem(describe_refusal(refusal), advice=refusal.advice)
        if name in self._single and len(entries) != 1:
            raise JobProblem(
                f"{{{name}}} has {len(entries)} entries where the shell needs one word",
                rule="redirections, assignments and `case` take one word",
                advice=f'write "{{{name}}}" for one word with blanks between the entries',
            )

    def _render(self, counts: tuple[tuple[str, int], ...], *, shared: bool) -> tuple[str, ...]:
        lists, start = {}, 1
        for name, count in counts:
            numbers = range(start, start + count)
            lists[name] = " ".join(f'"${{{number}}}"' for number in numbers) if shared else '"$@"'
            start += count
        return tuple("".join(self._piece(piece, lists) for piece in text.pieces) for text in self._texts)

    def _piece(self, piece: str | ShellField, lists: Mapping[str, str]) -> str:
        if isinstance(piece, str):
            return piece
        if piece.place is FieldPlace.WORD and piece.name in lists:
            return lists[piece.name]
        return expansion(piece.place, self._variables[piece.name])


def _describe(piece: str | ShellField, values: TemplateValues) -> str:
    if isinstance(piece, str):
        return piece
    value = values.shell_value(piece.name)
    words = value if isinstance(value, list) else [value]
    is_word = piece.place in (FieldPlace.WORD, FieldPlace.ONE)
    return " ".join(map(shlex.quote, words) if is_word else words)


def _variable_names(names: Sequence[str]) -> dict[str, str]:
    """Return the shell variable of each field, by field name; a number is added to equal names."""
    found: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        variable = first = VARIABLE_PREFIX + _NOT_IN_NAME.sub("_", name)
        number = 1
        while variable in used:
            number += 1
            variable = f"{first}_{number}"
        used.add(variable)
        found[name] = variable
    return found


def _check_number(name: str, value: str) -> None:
    if value and not _WHOLE_NUMBER.fullmatch(value):
        raise JobProblem(
            f"{{{name}}} is {shorten(repr(value))} in arithmetic of the shell",
            rule="$((...)) takes whole numbers",
            advice=f"check the value, or write {{{name}}} outside $((...))",
        )


def machine_values(machine: Machine) -> dict[str, Value]:
    """Return the values of ``machine.*`` fields by name; None: not stated in the platform file."""
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
