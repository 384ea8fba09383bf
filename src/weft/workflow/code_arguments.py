"""Commands that read some of their words as code: shells, interpreters, and builtins such as ``eval``.

A shell passes an expanded value on unchanged, but the program that receives the value may read it as code.
The tables here name such programs and builtins. They also name the builtins whose arguments are names of
variables: bash evaluates subscripts in these names (``read 'a[$(command)]'``).
"""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile, pairwise
from typing import NamedTuple

from weft.records import dataclass

FIELD_MARK = "\0"
"""The character that stands for a template field ``{name}`` in ``ShellWord.literal``."""
EXPANSION_MARK = "\1"
"""The character that stands for an expansion of the shell in ``ShellWord.literal``."""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Scope(enum.Enum):
    """The template fields that are refused at a place of a command."""

    ALL = "all"
    LISTS = "lists"
    """Fields whose value is a list."""
    DATA = "data"
    """Fields whose value comes from a program: results, lines and names of files."""


@dataclass(frozen=True, slots=True)
class ShellWord:
    """A word of a command, with the template fields that it contains."""

    literal: str = ""
    """Text without quotes; EXPANSION_MARK and FIELD_MARK stand for expansions and fields."""
    fields: tuple[int, ...] = ()
    """Numbers of the fields in the word; the fields of a command are numbered from 0."""
    is_plain: bool = True
    """Whether no character is quoted."""

    @property
    def base_name(self) -> str:
        """Return the text after the last slash: the name of the program if the word is its path."""
        return posixpath.basename(self.literal)


_Refused = tuple[Sequence[int], str, str, Scope]
"""Numbers of fields, a text that says where the fields stand, advice, and which of the fields are refused."""

_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh")
_REMOTE_SHELLS = ("ssh", "rsh", "pdsh", "clush", "su", "runuser", "parallel", "watch")
"""Programs that pass their arguments to a shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Interpreter:
    """The options of a program that reads program text from its arguments.

    Short options may be combined in one word.
    """

    code: str = ""
    """Short options whose argument, in the same word or the next, is program text."""
    statements: str = ""
    """Short options whose argument becomes a statement that precedes the program text."""
    values: str = ""
    """Short options whose argument, in the same word or the next, is not program text."""
    attached: str = ""
    """Short options whose argument is the rest of the same word; it may be empty."""
    last: str = ""
    """Short options that end the options: the words after their argument are passed to the program text."""
    long_code: tuple[str, ...] = ()
    """Words whose argument, after ``=`` or in the next word, is program text."""
    long_values: tuple[str, ...] = ()
    """Words whose argument, after ``=`` or in the next word, is not program text."""
    files: tuple[str, ...] | None = None
    """Options that name a file with the program text; without them, the first operand is the program text.

    None if the first operand is never program text.
    """

    def reads_code(self, option: str) -> bool:
        """Return whether the argument of an option is program text."""
        return option in self.long_code or option[1:] in tuple(self.code)

    def makes_statement(self, option: str) -> bool:
        """Return whether the argument of an option becomes a statement."""
        return option[1:] in tuple(self.statements)


_AWK = _Interpreter(
    code="e",
    values="fFvEilW",
    attached="dDLop",
    long_code=("--source",),
    long_values=("--file", "--exec", "--field-separator", "--assign", "--include", "--load"),
    files=("-f", "-E", "--file", "--exec"),
)
_PYTHON = _Interpreter(code="c", values="mWXQ", last="cm", long_values=("--check-hash-based-pycs",))
_NODE = _Interpreter(
    long_code=("-e", "-p", "-pe", "--eval", "--print"),
    long_values=("-r", "--require", "-C", "--conditions", "--import", "--loader", "--experimental-loader",
                 "--input-type", "--title", "--icu-data-dir", "--redirect-warnings"),
)  # fmt: skip
_LUA = _Interpreter(code="e", values="lj", attached="O")
_INTERPRETERS = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    "sed": _Interpreter(
        code="e",
        values="fl",
        attached="i",
        long_code=("--expression",),
        long_values=("--file", "--line-length"),
        files=("-f", "--file"),
    ),
    **dict.fromkeys(("python", "pypy"), _PYTHON),
    # ``:`` begins the argument of ``-d:Module``.
    "perl": _Interpreter(code="eE", statements="Mm", values="I", attached="iFxDCV:"),
    "ruby": _Interpreter(
        code="e",
        values="IrCXE",
        attached="iFxKTW",
        long_values=("--encoding", "--external-encoding", "--internal-encoding", "--enable", "--disable"),
    ),
    **dict.fromkeys(("node", "nodejs", "bun"), _NODE),
    "php": _Interpreter(
        code="rBRE",
        values="cdfFStz",
        long_code=("--run", "--process-begin", "--process-code", "--process-end"),
        long_values=("--php-ini", "--define", "--file", "--process-file", "--server", "--docroot"),
    ),
    "Rscript": _Interpreter(code="e"),
    "R": _Interpreter(code="e", values="fgd", long_values=("--file", "--gui", "--debugger")),
    "julia": _Interpreter(
        code="eE",
        values="LptJHC",
        attached="Og",
        long_code=("--eval", "--print"),
        long_values=(
            "--load",
            "--procs",
            "--threads",
            "--sysimage",
            "--home",
            "--machine-file",
            "--cpu-target",
        ),
    ),
    **dict.fromkeys(("lua", "luajit"), _LUA),
    "octave": _Interpreter(values="p", long_code=("--eval",), long_values=("--path",)),
}
"""Programs that read some of their arguments as program text, by name without a version."""
_INPUT_NAMES = ("-", "/dev/stdin")
_SHELL_VALUES = "oO"
"""Short options of shells whose argument is the next word (``bash -eo pipefail``)."""
_SHELL_LONG_VALUES = ("--rcfile", "--init-file")
_RUNNERS = ("command", "builtin", "exec", "env", "nohup", "nice", "sudo", "timeout", "time", "xargs",
            "stdbuf", "setsid", "ionice", "busybox")  # fmt: skip
"""Programs and builtins that run the command in their arguments."""
_RUNNER_VALUES = {
    "command": "", "builtin": "", "exec": "a", "env": "uCS", "nohup": "", "nice": "n", "timeout": "ks",
    "sudo": "CDghpRrTtUu", "time": "fo", "xargs": "adEILnPs", "stdbuf": "ioe", "setsid": "",
    "ionice": "cnpPu", "busybox": "",
}  # fmt: skip
"""By program that runs the command in its arguments: its short options whose argument is the next word."""
_LINE_RUNNERS = ("flock", "script")
"""Programs whose option ``-c`` is a command line for a shell."""
_CODE_BUILTINS = ("eval", "trap", "alias", "let", "declare", "typeset", "fc")
_EVALUATING = ("trap", "alias", "let", "fc", "unset", "read", "getopts", "mapfile", "readarray")
"""Builtins that read the values of variables in their arguments as code, besides ``eval``."""
_COMPARISONS = ("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v")
"""Operators of ``[[`` whose operands bash evaluates."""
_NAME_BUILTINS = ("unset", "read", "getopts", "mapfile", "readarray")
_DECLARATIONS = ("export", "readonly", "local")
_TYPING_BUILTINS = ("declare", "typeset", "local", "readonly", "export")
_NAMING_BUILTINS = ("declare", "typeset", "local")
"""Builtins that accept a subscript in the name of a variable, which bash evaluates."""
_EVALUATING_TYPES = re.compile(r"[-+]\w*[aAin]", re.ASCII)
"""Options of ``declare`` and similar builtins for arrays, integers and references.

Bash evaluates the values of such variables: arithmetic (``-i``), subscripts (``-n``), lists (``-a``, ``-A``).
"""
_OPERATOR_BUILTINS = ("[", "test", "printf", "wait")
"""Builtins with options that evaluate the next argument in bash."""

_CODE_VARIABLES = re.compile(
    r"PATH|IFS|ENV|BASH_\w+|BASHOPTS|SHELLOPTS|PS[0-4]|PROMPT_COMMAND|LD_\w+|PYTHON\w+|PERL5\w+|RUBYOPT|RUBYLIB|"
    r"NODE_OPTIONS|NODE_PATH|LUA_\w+|R_\w+|JULIA_\w+|AWKPATH|AWKLIBPATH|CDPATH|GCONV_PATH|LOCPATH|GLIBC_TUNABLES|"
    r"OPENSSL_CONF|(JAVA_TOOL|_JAVA|JDK_JAVA)_OPTIONS|CLASSPATH|(MAVEN|GRADLE|ANT|SBT)_OPTS|MAKEFLAGS|GNUMAKEFLAGS|"
    r"MAKEFILES|GIT_\w+|SSH_ASKPASS|RSYNC_RSH|CVS_RSH|HGRCPATH|TAR_OPTIONS|LESSOPEN|LESSCLOSE|\w*PAGER|EDITOR|VISUAL|"
    r"BROWSER|SHELL|HOME|TMPDIR|XDG_\w+_(HOME|DIRS?)|TCLLIBPATH|GUILE_LOAD_PATH|MATLABPATH|OCTAVE_PATH|WEFT_\w+"
)
"""Environment variables from which programs read code, options, or the location of code and settings."""

_COMMAND_VARIABLES = re.compile(
    r"ENV|BASH_ENV|PS[0-4]|PROMPT_COMMAND|PATH|LD_PRELOAD|LD_AUDIT|SHELL|EDITOR|VISUAL|\w*PAGER|BROWSER|LESSOPEN|"
    r"LESSCLOSE|RSYNC_RSH|CVS_RSH|SSH_ASKPASS|GIT_(SSH|ASKPASS|EXTERNAL_DIFF|\w*COMMAND|\w*EDITOR)"
)
"""Variables whose value is a command, or a file of commands.

In shell commands only these are refused: other names that ``_CODE_VARIABLES`` matches, such as ``R_max``,
may be variables of the user.
"""

_PROGRAM_NAME = "write the name itself, or choose it with `case {name} in ...`"
_VARIABLE_NAME = "write the name of the variable itself"
_ARGUMENT = "pass it as an argument: sh -c '... \"$1\"' sh {name}"
STANDARD_INPUT = "pass it as input: printf '%s\\n' {name} | ssh HOST 'read -r value; ...'"
_DATA_ARGUMENT = "pass it as an argument of the program text, or in a variable of `env`"
_DATA_VARIABLE = "pass it in a variable: `awk -v value={name}`"


def is_code_variable(name: str) -> bool:
    """Return whether programs read code, options or the location of code from an environment variable."""
    return _CODE_VARIABLES.fullmatch(name) is not None


def find_command_word(words: Sequence[ShellWord]) -> int:
    """Return the index of the word that names the program of a simple command.

    Assignments, and runners such as ``env`` or ``timeout 5`` with their options, are skipped. If no word
    remains, the result is at least ``len(words)``.
    """
    at = 0
    while at < len(words) and ASSIGNMENT.match(words[at].literal):
        at += 1
    while at < len(words) and (name := words[at].base_name) in _RUNNER_VALUES:
        at = _skip_options(words, at + 1, _RUNNER_VALUES[name])
        while name == "env" and at < len(words) and "=" in words[at].literal:
            at += 1
        at += name == "timeout"  # the duration
    return at


def _skip_options(words: Sequence[ShellWord], at: int, values: str) -> int:
    """Return the index of the first operand. ``values`` are short options whose argument is the next word."""
    while at < len(words) and words[at].literal.startswith("-"):
        literal = words[at].literal
        at += 1
        if literal == "--":
            break
        at += len(literal) == 2 and literal[1] in values
    return at


def reads_piped_code(words: Sequence[ShellWord]) -> bool:
    """Return whether a command is a shell that reads its standard input as code."""
    command = words[find_command_word(words) :]
    if not command or command[0].base_name not in _SHELLS:
        return False
    count, has_code, _ = _read_shell_options(command[1:])
    options = command[1 : count + 1]
    is_input = len(command) == count + 1 or any(
        word.literal.startswith("-") and "s" in word.literal for word in options
    )
    return is_input and not has_code


def prints_arguments(words: Sequence[ShellWord]) -> bool:
    """Return whether a command writes its arguments to its standard output."""
    at = find_command_word(words)
    return at < len(words) and words[at].base_name in ("echo", "printf")


def find_started_programs(words: Sequence[ShellWord]) -> Iterator[_Refused]:
    """Yield the fields that name a program or a file of commands, or that a program passes to a shell."""
    at = find_command_word(words)
    for before, word in pairwise(words):
        literal = word.literal
        if any(each.base_name == "env" for each in words[: at + 1]):
            attached = literal.startswith(("-S", "--split-string="))
            if before.literal in ("-S", "--split-string") or attached:
                yield word.fields, "in a command line that `env -S` splits", _PROGRAM_NAME, Scope.DATA
        if _has_command_line(before) and words[min(at, len(words) - 1)].base_name in _LINE_RUNNERS:
            yield (
                word.fields,
                "in a command line that another program passes to a shell",
                _ARGUMENT,
                Scope.DATA,
            )
    if at >= len(words):
        return
    yield words[at].fields, "as the name of the program to start", _PROGRAM_NAME, Scope.DATA
    if words[at].literal in (".", "source"):
        yield _fields(words[at + 1 : at + 2]), "as the name of a file of commands", _PROGRAM_NAME, Scope.DATA


def find_evaluated_words(words: Sequence[ShellWord]) -> Iterator[tuple[int, str]]:
    """Yield the indices of words whose expansions are read as code, each with a text that says by what."""
    command = find_command_word(words)
    for at, word in enumerate(words):
        if word.literal == "eval":
            yield from ((each, "by `eval`") for each in range(at + 1, len(words)))
    for shell, text, has_code in _find_shells(words):
        where = f"by `{words[shell].base_name} -c`"
        if has_code or shell == command:
            # An expansion without quotes may give several words: options, and the text for the shell.
            yield from ((at, where) for at in range(shell + 1, text) if _is_open_expansion(words[at]))
        if has_code and text < len(words):
            yield text, where
    name = words[command].base_name if command < len(words) else ""
    for at in range(command + 1, len(words)):
        if name in _EVALUATING or (name in _OPERATOR_BUILTINS and words[at - 1].literal == "-v"):
            yield at, f"by `{name}`"
        elif name in _LINE_RUNNERS and _has_command_line(words[at - 1]):
            yield at, f"by the shell that `{name}` starts"
        elif name == "[[" and any(each.literal in _COMPARISONS for each in words):
            yield at, "by `[[`"
    yield from _find_declared_values(words[command:], command)


def _find_declared_values(words: Sequence[ShellWord], first: int) -> Iterator[tuple[int, str]]:
    """Yield the indices of words whose values ``declare`` or a similar builtin evaluates.

    ``first`` is the index of the first word, which names the builtin.
    """
    name = words[0].literal if words else ""
    option = _find_evaluating_type(words)
    for at, word in enumerate(words[1:], first + 1):
        if option:
            yield at, f"by `{name} {option}`"
        elif name in _NAMING_BUILTINS and EXPANSION_MARK in word.literal.partition("=")[0]:
            yield at, f"by `{name}`"


def _find_evaluating_type(words: Sequence[ShellWord]) -> str:
    """Return the option with which ``declare`` or a similar builtin evaluates values; "": none."""
    if not words or words[0].literal not in _TYPING_BUILTINS:
        return ""
    options = (word.literal for word in words[1:])
    return next((option for option in options if _EVALUATING_TYPES.match(option)), "")


def find_evaluated_names(words: Sequence[ShellWord]) -> Iterator[tuple[str, str]]:
    """Yield the variables that a simple command names and whose values bash evaluates, and by what.

    These are names in arithmetic (``let y=x``, ``[[ x -eq 0 ]]``), and variables that are declared as
    integers, references or arrays (``declare -i y``), to which any value may be assigned.
    """
    command = words[find_command_word(words) :]
    name = command[0].literal if command else ""
    option = _find_evaluating_type(command)
    if option or name == "let" or (name == "[[" and any(each.literal in _COMPARISONS for each in words)):
        where = f"by `{name} {option}`" if option else f"by `{name}`"
        for word in command[1:]:
            if not word.literal.startswith(("-", "+")):
                yield from ((each, where) for each in _NAME.findall(word.literal))


def find_shell_texts(words: Sequence[ShellWord]) -> Iterator[int]:
    """Yield the indices of words that are the text of another shell (``sh -c TEXT NAME ARGUMENT...``)."""
    yield from (text for _, text, has_code in _find_shells(words) if has_code and text < len(words))


def _find_shells(words: Sequence[ShellWord]) -> Iterator[tuple[int, int, bool]]:
    """Yield the index of each name of a shell and of its first operand, and whether that is its text."""
    start = 0
    for at, word in enumerate(words):
        if at >= start and word.base_name in _SHELLS:
            count, has_code, _ = _read_shell_options(words[at + 1 :])
            text = at + count + 1
            # The word after the text is only a name.
            start = text + 2
            yield at, text, has_code


def find_code_settings(words: Sequence[ShellWord]) -> Iterator[str]:
    """Yield the variables that a simple command sets and that shells or other programs read as code."""
    command = find_command_word(words)
    declares = command < len(words) and words[command].literal in (*_DECLARATIONS, "declare", "typeset")
    for word in words if declares else words[:command]:
        name = word.literal.partition("=")[0].rstrip("+")
        if ASSIGNMENT.match(word.literal) and _COMMAND_VARIABLES.fullmatch(name):
            yield name


def find_exported_names(words: Sequence[ShellWord]) -> Iterator[str]:
    """Yield the variables that a simple command passes to programs in their environment."""
    command = find_command_word(words)
    exports = command < len(words) and words[command].literal in ("export", "declare", "typeset")
    for word in words[command + 1 :] if exports else words[:command] if command < len(words) else ():
        if (exports or ASSIGNMENT.match(word.literal)) and (name := _NAME.match(word.literal)):
            yield name[0]


def replaces_parameters(words: Sequence[ShellWord]) -> bool:
    """Return whether a simple command replaces the positional parameters."""
    words = _without_prefix(words)
    name = words[0].literal if words else ""
    return name == "shift" or (name == "set" and any(map(_is_operand, words[1:])))


def find_code_arguments(words: Sequence[ShellWord]) -> Iterator[_Refused]:
    """Yield the fields of a simple command that are read as code, or as names of programs or variables."""
    yield from find_started_programs(words)
    words = _without_prefix(words)
    if not words:
        return
    name, arguments = words[0].literal, words[1:]
    if name in _CODE_BUILTINS:
        advice = "write `value={name};` before the command and use $value in single quotes"
        yield _fields(arguments), f"as an argument of `{name}`, which is read as code", advice, Scope.ALL
    elif option := _find_evaluating_type(words):
        what = f"as an argument of `{name} {option}`, which evaluates it"
        yield _fields(arguments), what, "assign it to a variable without a type", Scope.ALL
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
    """Yield the fields of arguments after ``-v``, or after a field that may become ``-v``.

    Bash evaluates such arguments.
    """
    for before, word in pairwise(arguments[:2] if name == "printf" else arguments):
        if before.literal == "-v" or before.literal.startswith(FIELD_MARK):
            what = f"as an argument of `{name}` after an option that may evaluate it"
            yield word.fields, what, "write the option or the format as fixed text", Scope.ALL


def find_program_text(words: Sequence[ShellWord]) -> Iterator[_Refused]:
    """Yield the fields in program text that a command passes to a shell or an interpreter."""
    command = list(dropwhile(_is_wrapper_word, words))
    name = command[0].base_name if command else ""
    if name in _REMOTE_SHELLS:
        yield _fields(command[1:]), f"in text that `{name}` passes to a shell", STANDARD_INPUT, Scope.ALL
    start = 0
    for at, word in enumerate(words):
        name, arguments = word.base_name, words[at + 1 :]
        if at < start:
            continue
        if name in _SHELLS:
            count, has_code, ended = _read_shell_options(arguments)
            # The word after the text of ``sh -c TEXT NAME`` is only a name.
            start = at + count + 3
            yield from _find_shell_text(name, arguments[: count + 1], count, has_code=has_code, ended=ended)
        elif (program := _INTERPRETERS.get(_base_name(name))) is not None:
            # Elsewhere the name may be an argument of another program.
            is_command = at == len(words) - len(command)
            yield from _find_interpreted(name, program, arguments, is_command=is_command)


def _find_interpreted(
    name: str, program: _Interpreter, arguments: Sequence[ShellWord], *, is_command: bool
) -> Iterator[_Refused]:
    """Yield the fields in program text, and those that may become an option with program text."""
    found = _parse_arguments(program, arguments)
    for option, word, argument in found.options:
        if argument is not None and (program.reads_code(option.name) or program.makes_statement(option.name)):
            yield _in_program_text(name, argument)
        elif FIELD_MARK in option.name:
            what = f"in an option of `{name}`, which may contain program text"
            yield word.fields, what, "write the option as fixed text", Scope.DATA
    if not is_command or found.has_text or found.operand is None:
        return
    if program.files is not None:
        yield _in_program_text(name, found.operand)
    elif not found.has_ended and found.operand.literal.startswith(FIELD_MARK):
        what = f"as the first argument of `{name}`, which may be an option with program text"
        yield found.operand.fields, what, f"write `{name} -- {{name}}`", Scope.DATA


def find_input_reader(words: Sequence[ShellWord]) -> tuple[str, str, Scope] | None:
    """Return why a command reads its standard input as code, advice, and which fields are refused there.

    The first text is a clause such as ``a shell reads``. Return None if the input is not read as code.
    """
    if any(word.base_name in _SHELLS or word.base_name in _REMOTE_SHELLS for word in words):
        return "a shell reads", STANDARD_INPUT, Scope.ALL
    command = list(dropwhile(_is_wrapper_word, words))
    name = command[0].base_name if command else ""
    program = _INTERPRETERS.get(_base_name(name))
    if program is None or program.files is not None:
        return None
    found = _parse_arguments(program, command[1:])
    if found.has_text or (found.operand is not None and found.operand.literal not in _INPUT_NAMES):
        return None
    return f"`{name}` reads as program text", _DATA_ARGUMENT, Scope.DATA


class _Arguments(NamedTuple):
    """The arguments of an interpreter."""

    options: list[tuple[_Option, ShellWord, ShellWord | None]]
    """Each option, its word, and the word that contains its argument (None if it has no argument)."""
    operand: ShellWord | None
    """The first word that is not an option; None if there is none."""
    has_text: bool
    """Whether an option states the program text, its file or its module."""
    has_ended: bool
    """Whether ``--`` precedes the operand."""


def _parse_arguments(program: _Interpreter, arguments: Sequence[ShellWord]) -> _Arguments:
    options = list[tuple[_Option, ShellWord, ShellWord | None]]()
    has_text, has_ended = False, False
    words = iter(arguments)
    for word in words:
        if has_ended or not _is_option(word):
            return _Arguments(options, word, has_text, has_ended)
        if word.literal == "--":
            has_ended = True
            continue
        option = _parse_option(program, word.literal)
        argument = word if option.argument else next(words, None) if option.argument == "" else None
        options.append((option, word, argument))
        is_last = option.name[1:] in tuple(program.last)
        has_file = option.name in (program.files or ())
        has_text = has_text or is_last or has_file or program.reads_code(option.name)
        if is_last:
            break
    return _Arguments(options, None, has_text, has_ended)


class _Option(NamedTuple):
    """The option in a word; of combined short options, the first that takes an argument."""

    name: str
    argument: str | None
    """The argument in the same word; "" if the argument is the next word; None if no word is its argument."""


def _parse_option(program: _Interpreter, literal: str) -> _Option:
    head, equals, argument = literal.partition("=")
    for option in (*program.long_code, *program.long_values):
        # Programs of GNU accept the beginning of a long option.
        if head == option or (len(head) > 2 and option.startswith(head)):
            return _Option(option, argument if equals else "")
    if literal.startswith(("--", EXPANSION_MARK)):
        return _Option(head, None)
    for at, letter in enumerate(literal[1:], 1):
        if letter in program.code + program.statements + program.values:
            return _Option(f"-{letter}", literal[at + 1 :])
        if letter in program.attached:
            return _Option(f"-{letter}", None)
        if letter == FIELD_MARK:
            break
    return _Option(literal, None)


def _base_name(name: str) -> str:
    """Return the name of a program without its version: ``python`` for ``python3.11``."""
    return name.rstrip("0123456789.")


def _in_program_text(name: str, word: ShellWord) -> _Refused:
    advice = _DATA_ARGUMENT if _INTERPRETERS[_base_name(name)].files is None else _DATA_VARIABLE
    return word.fields, f"in the program text of `{name}`", advice, Scope.DATA


def _is_option(word: ShellWord) -> bool:
    """Return whether a word is an option, or an expansion without quotes, which may give several options."""
    if word.literal.startswith(EXPANSION_MARK):
        return word.is_plain
    return word.literal.startswith("-") and word.literal != "-"


def _read_shell_options(arguments: Sequence[ShellWord]) -> tuple[int, bool, bool]:
    """Return the number of words before the first operand of a shell, and whether ``-c`` and ``--`` occur."""
    at, has_code, has_ended = 0, False, False
    while at < len(arguments) and not has_ended:
        literal = arguments[at].literal
        if not _is_option(arguments[at]) and literal[:1] not in ("-", "+"):
            break
        at += 1
        if literal.startswith("--"):
            has_ended = literal == "--"
            has_code = has_code or literal.startswith("--command")
            at += literal in _SHELL_LONG_VALUES
        elif not literal.startswith(EXPANSION_MARK):
            has_ended = literal == "-"
            has_code = has_code or "c" in literal
            at += sum(literal.count(letter) for letter in _SHELL_VALUES)
    return at, has_code, has_ended


def _find_shell_text(
    name: str, arguments: Sequence[ShellWord], count: int, *, has_code: bool, ended: bool
) -> Iterator[_Refused]:
    """Yield the fields in the options of a shell (``count`` words), and in the word after them."""
    for word in arguments[:count]:
        if word.literal[:1] in ("-", "+") and word.fields:
            scope = Scope.ALL if has_code else Scope.DATA
            yield word.fields, f"in an option of `{name}`", "write the option as fixed text", scope
    for operand in arguments[count:]:
        if has_code:
            yield operand.fields, f"in text for another shell, `{name} -c`", _ARGUMENT, Scope.ALL
        elif operand.literal.startswith(FIELD_MARK) and not ended:
            what = f"as the first argument of `{name}`, which may be an option"
            yield operand.fields, what, f"write `{name} -- {{name}}`", Scope.DATA


def _is_open_expansion(word: ShellWord) -> bool:
    """Return whether a word begins with an expansion without quotes, which may give several words."""
    return word.is_plain and word.literal.startswith(EXPANSION_MARK)


def _has_command_line(word: ShellWord) -> bool:
    """Return whether the word after an option of ``flock`` or ``script`` is a command line for a shell."""
    return word.literal == "--command" or re.fullmatch(r"-[a-z]*c", word.literal) is not None


def _without_prefix(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """Return a simple command without leading assignments and runners such as ``exec`` or ``time -p``."""
    words = list(dropwhile(lambda word: ASSIGNMENT.match(word.literal), words))
    return list(dropwhile(lambda word: word.literal in (*_RUNNERS, "-p"), words))


def _is_operand(word: ShellWord) -> bool:
    return word.literal == "--" or word.literal[:1] not in ("-", "+")


def _is_wrapper_word(word: ShellWord) -> bool:
    """Return whether a word may precede the command in a wrapper such as ``timeout 5``."""
    return word.literal in _RUNNERS or word.literal[:1] in ("-", *"0123456789") or "=" in word.literal


def _fields(words: Sequence[ShellWord]) -> list[int]:
    return [index for word in words for index in word.fields]
