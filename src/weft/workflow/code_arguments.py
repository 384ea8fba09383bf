"""Commands that read some of their words as code: shells, interpreters, and builtins such as ``eval``.

A shell passes an expanded value on unchanged, but a program that it starts may interpret it. The tables here
name the programs and builtins that do, with those whose arguments are names of variables: bash evaluates
subscripts in them (``read 'a[$(command)]'``).
"""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile, pairwise

from weft.records import dataclass

FIELD_MARK = "\0"
"""Stands for a field in the literal text of a word."""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)


class Scope(enum.Enum):
    """The fields to which a refusal applies."""

    ALL = "all"
    LISTS = "lists"
    """Fields whose value is a list."""
    DATA = "data"
    """Fields whose value comes from a program: results, lines and names of files."""


@dataclass(frozen=True, slots=True)
class ShellWord:
    """A word of a command."""

    literal: str = ""
    """Text without quotes; expansions and fields are replaced by one character each."""
    fields: tuple[int, ...] = ()
    """Indices of the fields in it."""
    is_plain: bool = True
    """Whether no character is quoted."""

    @property
    def base_name(self) -> str:
        """Return the name of the program that the word may stand for."""
        return posixpath.basename(self.literal)


_Refused = tuple[Sequence[int], str, str, Scope]
"""Fields, where they stand, advice and scope."""

_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh")
_REMOTE_SHELLS = ("ssh", "rsh", "pdsh", "clush", "su", "runuser", "parallel", "watch")
"""Programs that pass their arguments to a shell."""
_FILTERS = ("awk", "gawk", "mawk", "nawk", "sed")
"""Programs whose first operand is program text."""
_LANGUAGES = {
    "python": ("-c",),
    "perl": ("-e", "-E", "-ne", "-pe"),
    "ruby": ("-e",),
    "node": ("-e", "-p"),
    "php": ("-r",),
    "Rscript": ("-e",),
    "julia": ("-e", "-E"),
    "lua": ("-e",),
}
"""Interpreters and their options that take program text."""
_RUNNERS = ("command", "builtin", "exec", "env", "nohup", "nice", "sudo", "timeout", "time")
"""Programs and builtins that run the command in their arguments."""
_CODE_BUILTINS = ("eval", "trap", "alias", "let", "declare", "typeset", "fc")
_NAME_BUILTINS = ("unset", "read", "getopts", "mapfile", "readarray")
_DECLARATIONS = ("export", "readonly", "local")
_OPERATOR_BUILTINS = ("[", "test", "printf", "wait")
"""Builtins with options that evaluate the next argument in bash."""

_VARIABLE_NAME = "write the name of the variable itself"
_ARGUMENT = "pass it as an argument: sh -c '... \"$1\"' sh {name}"
STANDARD_INPUT = "pass it as input: printf '%s\\n' {name} | ssh HOST 'read -r value; ...'"
_DATA_ARGUMENT = "pass it as an argument or in a variable, such as `awk -v value={name}`"


def is_shell(word: ShellWord) -> bool:
    """Return whether a word names a program that reads shell code."""
    return word.base_name in _SHELLS or word.base_name in _REMOTE_SHELLS


def replaces_parameters(words: Sequence[ShellWord]) -> bool:
    """Return whether a simple command replaces the positional parameters."""
    words = _without_prefix(words)
    name = words[0].literal if words else ""
    return name == "shift" or (name == "set" and any(map(_is_operand, words[1:])))


def find_code_arguments(words: Sequence[ShellWord]) -> Iterator[_Refused]:
    """Yield the fields of a simple command that are read as code or as names."""
    words = _without_prefix(words)
    if not words:
        return
    name, arguments = words[0].literal, words[1:]
    if name in _CODE_BUILTINS:
        advice = "write `value={name};` before it and use $value in single quotes"
        yield _fields(arguments), f"as an argument of `{name}`, which is read as code", advice, Scope.ALL
    elif name in _NAME_BUILTINS or name in _DECLARATIONS:
        if name in _DECLARATIONS:
            arguments = [word for word in arguments if FIELD_MARK in word.literal.partition("=")[0]]
        yield _fields(arguments), f"as a name in an argument of `{name}`", _VARIABLE_NAME, Scope.ALL
    elif name in _OPERATOR_BUILTINS:
        yield from _find_operands(name, arguments)
    elif name == "[[" or any(word.literal == "]]" for word in words):
        yield _fields(words), "in [[ ]], which evaluates it", "write [ ]", Scope.ALL
    yield from find_program_text(words)


def _find_operands(name: str, arguments: Sequence[ShellWord]) -> Iterator[_Refused]:
    """Yield operands whose option is, or may be, ``-v``, which evaluates them in bash."""
    for before, word in pairwise(arguments[:2] if name == "printf" else arguments):
        if before.literal == "-v" or before.literal.startswith(FIELD_MARK):
            what = f"as an argument of `{name}` after an option that may evaluate it"
            yield word.fields, what, "write the option or the format as fixed text", Scope.ALL


def find_program_text(words: Sequence[ShellWord]) -> Iterator[_Refused]:
    """Yield the fields in program text that a command passes to a shell or an interpreter."""
    command = list(dropwhile(_is_runner_word, words))
    name = command[0].base_name if command else ""
    if name in _REMOTE_SHELLS:
        yield _fields(command[1:]), f"in text that `{name}` passes to a shell", STANDARD_INPUT, Scope.ALL
    elif name in _FILTERS and (program := _first_operand(command[1:])) is not None:
        yield program.fields, f"in the program text of `{name}`", _DATA_ARGUMENT, Scope.DATA
    start = 0
    for at, word in enumerate(words):
        name = word.base_name
        if at < start:
            continue
        if name in _SHELLS:
            options, operand = _options(words, at + 1)
            # The word after the text of ``sh -c TEXT NAME`` is only a name.
            start = at + len(options) + 3
            yield from _find_shell_text(name, options, operand)
        elif (code_options := _LANGUAGES.get(name.rstrip("0123456789."))) is not None:
            options, operand = _options(words, at + 1)
            if operand is not None and options and options[-1].literal in code_options:
                yield operand.fields, f"in the program text of `{name}`", _DATA_ARGUMENT, Scope.DATA


def _options(words: Sequence[ShellWord], start: int) -> tuple[Sequence[ShellWord], ShellWord | None]:
    """Return the options from a position on, and the first word after them, if there is one."""
    end = start
    while end < len(words) and words[end].literal[:1] in ("-", "+"):
        end += 1
    return words[start:end], words[end] if end < len(words) else None


def _find_shell_text(
    name: str, options: Sequence[ShellWord], operand: ShellWord | None
) -> Iterator[_Refused]:
    if operand is None:
        return
    stated = [option.literal for option in options]
    if any("c" in option and not option.startswith("--") for option in stated):
        yield operand.fields, f"in text for another shell, `{name} -c`", _ARGUMENT, Scope.ALL
    elif operand.literal.startswith(FIELD_MARK) and "--" not in stated:
        what = f"as the first argument of `{name}`, which may be an option"
        yield operand.fields, what, f"write `{name} -- {{name}}`", Scope.DATA


def _without_prefix(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """Return a simple command without assignments and ``command``, ``exec``, ``time -p``."""
    words = list(dropwhile(lambda word: ASSIGNMENT.match(word.literal), words))
    return list(dropwhile(lambda word: word.literal in (*_RUNNERS, "-p"), words))


def _is_operand(word: ShellWord) -> bool:
    return word.literal == "--" or word.literal[:1] not in ("-", "+")


def _is_runner_word(word: ShellWord) -> bool:
    """Return whether a word may precede the command that a runner such as ``timeout 5`` runs."""
    return word.literal in _RUNNERS or word.literal[:1] in ("-", *"0123456789") or "=" in word.literal


def _fields(words: Sequence[ShellWord]) -> list[int]:
    return [index for word in words for index in word.fields]


def _first_operand(arguments: Sequence[ShellWord]) -> ShellWord | None:
    """Return the first word that is no option; None if an option provides the program text."""
    skips = False
    for word in arguments:
        if skips:
            skips = False
        elif word.literal[:1] != "-":
            return word
        elif word.literal in ("-f", "-e"):
            return None
        else:
            skips = word.literal in ("-v", "-F")
    return None
