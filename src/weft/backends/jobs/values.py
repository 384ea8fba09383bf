"""Values: what the names in braces stand for once an attempt has been given its machine and its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weft.backends.jobs.problem import JobProblem
from weft.backends.jobs.shell import contexts, quoted
from weft.errors import nearest, shorten
from weft.expressions import Value
from weft.workflow.templates import Field, fields, pieces, shown

if TYPE_CHECKING:
    from weft.platform.machine import Machine

__all__ = ["ALLOCATED", "Values", "machine_values", "names_in"]

ALLOCATED = ("nodes", "cores", "memory_mb")
"""Names that speak of the attempt, as ``machine.*`` do: another attempt of the same task has other values."""

_BRACES = {"{{": "{", "}}": "}"}
_OF_TASKS = ("exit_code", "result")


def names_in(texts: Sequence[str]) -> tuple[str, ...]:
    """List the names that templates use, each once."""
    return tuple(dict.fromkeys(field.name for text in texts for field in fields(text)))


class Values:
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
        where = iter(contexts(text))
        parts = []
        for piece in pieces(text):
            if isinstance(piece, str):
                parts.append(_BRACES.get(piece, piece))
                continue
            context, words = next(where), self._words(piece)
            parts.append(" ".join(words) if piece.raw else quoted(words, context, piece.name))
        return "".join(parts)

    def text(self, text: str) -> str:
        """Fill in a name or a word, in which nothing is quoted."""
        if "{" not in text and "}" not in text:
            return text
        return "".join(
            _BRACES.get(piece, piece) if isinstance(piece, str) else " ".join(self._words(piece))
            for piece in pieces(text)
        )

    def words(self, words: Sequence[str]) -> list[str]:
        """Fill in the words of a command; one that is nothing but a list (``{inputs}``) becomes several."""
        found: list[str] = []
        for word in words:
            parts = pieces(word) if "{" in word else ()
            if len(parts) == 1 and isinstance(parts[0], Field):
                found += self._words(parts[0])
            else:
                found.append(self.text(word))
        return found

    def _words(self, field: Field) -> list[str]:
        value = self.of(field.name)
        words = [shown(entry) for entry in (value if isinstance(value, list) else [value])]
        for word in words:
            if not word.isascii() or "\0" in word:
                _check(field.name, word)
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
            return _stated(self._machine, rest)
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


def _stated(machine: Mapping[str, Value], name: str) -> Value:
    if name not in machine:
        close = nearest(name, machine)
        advice = f"did you mean {{machine.{close}}}?" if close else f"known: {', '.join(machine)}"
        raise JobProblem(f"{{machine.{name}}} is unknown", advice=advice)
    value = machine[name]
    if value is None:
        advice = f"state `{name}` of the machine in the platform file"
        raise JobProblem(f"{{machine.{name}}}: machine {machine['name']} does not state it", advice=advice)
    return value


def _check(name: str, word: str) -> None:
    """Refuse what no program can be given: a NUL ends a text, and half a character has no bytes."""
    try:
        word.encode()
    except UnicodeEncodeError:
        fault = "half a character"
    else:
        fault = "a NUL" if "\0" in word else ""
    if fault:
        raise JobProblem(f"{{{name}}} is {shorten(repr(word))}", rule=f"{fault} cannot be given to a program")
