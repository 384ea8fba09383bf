"""Checks of the commands of a task: fields that stand where a shell would not expand them safely.

``{name:raw}`` inserts a value into the command without quotes. This is refused for data, that is, for values
that a program wrote: results, lines of files, and names of files that a pattern selects. In program text for
interpreters other than shells, data is refused too, and parameters are permitted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Iterator

from weft.errors import DocumentPath, Problem, shorten
from weft.workflow.code_arguments import Scope, is_code_variable
from weft.workflow.quantity import is_growing
from weft.workflow.shell_text import (
    ShellLiteral,
    ShellPieces,
    ShellRefusal,
    check_program_words,
    format_pieces,
    split_shell_pieces,
    split_shell_text,
)
from weft.workflow.task import JobSpec, Task
from weft.workflow.templates import TemplateField, is_pattern, list_fields, split_template

_LISTS = ("inputs", "outputs")
_SURROUNDINGS = ("prolog", "wrapper", "epilog")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def shell_line(job: JobSpec) -> ShellPieces:
    """Return the shell command of a job, followed by its arguments as quoted words.

    An argument that is a single field is not quoted, because a list becomes several words.
    """
    assert isinstance(job.command, str)
    found: list[str | TemplateField | ShellLiteral] = [*split_template(job.command)]
    for argument in job.arguments:
        pieces = split_template(argument)
        found.append(ShellLiteral(" "))
        if len(pieces) == 1 and isinstance(pieces[0], TemplateField):
            found.append(pieces[0])  # A list becomes several words.
        else:
            found += [part for piece in pieces or ("",) for part in _quote_piece(piece)]
    return tuple(found)


def _quote_piece(piece: str | TemplateField) -> list[TemplateField | ShellLiteral]:
    if isinstance(piece, TemplateField):
        return [ShellLiteral('"'), piece, ShellLiteral('"')]
    return [ShellLiteral(shlex.quote({"{{": "{", "}}": "}"}.get(piece, piece)))]


class DataFields(Container[str]):
    """The names of the fields of a task whose values were written by a program, such as results of tasks."""

    def __init__(self, task: Task) -> None:
        self._task = task
        sweep = task.sweep
        self._lines = {name for name, values in sweep.variables if is_growing(values)} if sweep else set()
        self._lines.update(sweep.from_file if sweep else ())

    def __contains__(self, name: object) -> bool:
        assert isinstance(name, str)
        if name == "task":
            return bool(self._lines)
        if name in _LISTS:
            files = self._task.inputs if name == "inputs" else self._task.outputs
            return any(is_pattern(file.file) or self._has_data(file.file) for file in files)
        return name in self._lines or ".result." in name

    def _has_data(self, text: str) -> bool:
        return any(field.name in self for field in list_fields(text))


def command_problems(task: Task, lists: Container[str] = _LISTS) -> Iterator[Problem]:
    """Yield the problems of a task's commands and environment variables, with paths relative to the task.

    ``lists`` contains the names of the fields whose value is a list.
    """
    job = task.job
    if job is None:
        return
    if isinstance(job.command, str):
        yield from line_problems(task, shell_line(job), ("command",), lists)
    elif job.command is not None:
        words = (*job.command, *job.arguments)
        if any("{" in word for word in words):
            yield from _refused(check_program_words(words), ("command",), DataFields(task), lists)
    texts = [(key, getattr(job, key)) for key in _SURROUNDINGS]
    for key, text in (*texts, ("evaluator", job.evaluator_program)):
        if text:
            yield from line_problems(task, split_template(text), (key,), lists)
    yield from _wrapper_problems(job)
    yield from _variable_problems(task, job)


def _variable_problems(task: Task, job: JobSpec) -> Iterator[Problem]:
    """Yield the problems of the names and values of environment variables."""
    data = DataFields(task)
    for name, value in job.env.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            yield Problem(
                what=f"environment variable {shorten(repr(name))} has the value {shorten(repr(value))}",
                rule="the name must consist of letters, digits and _, and the value must not contain NUL",
                path=("env", name),
            )
        for field in list_fields(value) if is_code_variable(name) else ():
            if field.name in data:
                yield Problem(
                    what=f"{name} has the value {shorten(value)!r} with the field {{{field.name}}}",
                    rule="programs may read it as code, so it must not contain a value that a program wrote",
                    advice="pass the value in another variable",
                    path=("env", name),
                )
        if _VARIABLE.fullmatch(name) and not is_code_variable(name):
            yield from _evaluated_problems(job, name, value, data)


def _evaluated_problems(job: JobSpec, name: str, value: str, data: DataFields) -> Iterator[Problem]:
    """Yield a problem if a command reads an environment variable with data as code (``eval "$x"``).

    The commands are scanned as if each began with an `export` of the variable.
    """
    if not any(field.name in data for field in list_fields(value)):
        return
    texts = [split_template(text) for key in _SURROUNDINGS if (text := getattr(job, key))]
    lines = [shell_line(job)] if isinstance(job.command, str) else []
    quoted = [part for piece in split_template(value) for part in _quote_piece(piece)]
    for pieces in (*lines, *texts):
        combined = (ShellLiteral(f"export {name}="), *quoted, ShellLiteral("\n"), *pieces)
        for refusal in split_shell_pieces(combined).refusals:
            if refusal.line == 1 and refusal.name in data:
                yield Problem(
                    what=f"{{{refusal.name}}} stands {refusal.what}",
                    rule="a value that a program wrote must not be read as code",
                    advice=refusal.advice,
                    path=("env", name),
                )


def _wrapper_problems(job: JobSpec) -> Iterator[Problem]:
    """Yield a problem for each field of the command that the wrapper (``ssh HOST``) passes to a shell."""
    line = shell_line(job) if isinstance(job.command, str) else ()
    words = () if isinstance(job.command, str) else (*(job.command or ()), *job.arguments)
    pieces = (*line, *(piece for word in words for piece in split_template(word)))
    fields = [piece for piece in pieces if isinstance(piece, TemplateField) and not piece.raw]
    if job.wrapper and fields:
        arguments = [part for field in fields for part in (ShellLiteral(" "), field)]
        combined = (*split_template(job.wrapper), *arguments)
        known = split_shell_text(job.wrapper).refusals
        for refusal in split_shell_pieces(combined).refusals:
            if refusal.scope is Scope.ALL and refusal not in known:
                what = f"{{{refusal.name}}} of the command stands {refusal.what}"
                what = what if refusal.name else describe_refusal(refusal)
                yield Problem(
                    what=what,
                    rule="the wrapper passes the command to a shell, which may read the value as code",
                    path=("wrapper",),
                )


def line_problems(
    task: Task, pieces: ShellPieces, path: DocumentPath = (), lists: Container[str] = _LISTS
) -> Iterator[Problem]:
    """Yield the problems of one shell text of a task."""
    data = DataFields(task)
    for field in pieces:
        if isinstance(field, TemplateField) and field.raw and field.name in data:
            yield Problem(
                what=f"{{{field.name}:raw}} in {shorten(format_pieces(pieces))!r}",
                rule="a value that a program wrote must not become a part of a shell command",
                advice=f"write {{{field.name}}}",
                path=path,
            )
    yield from _refused(split_shell_pieces(pieces).refusals, path, data, lists)


def _refused(
    refusals: tuple[ShellRefusal, ...], path: DocumentPath, data: DataFields, lists: Container[str]
) -> Iterator[Problem]:
    for refusal in refusals:
        if (refusal.scope is Scope.DATA and refusal.name not in data) or (
            refusal.scope is Scope.LISTS and refusal.name not in lists
        ):
            continue
        rule = "a shell would not expand it there, or would read its value as code" if refusal.name else ""
        if refusal.scope is Scope.DATA:
            rule = "a value that a program wrote must not be read as code"
        yield Problem(what=describe_refusal(refusal), rule=rule, advice=refusal.advice, path=path)


def describe_refusal(refusal: ShellRefusal) -> str:
    """Return the text of a refusal with its position in the command."""
    where = f" (line {refusal.line}, column {refusal.column} of the text)" if refusal.line else ""
    if not refusal.name:
        return f"{refusal.what}{where}, so its fields cannot be replaced"
    return f"{{{refusal.name}}} stands {refusal.what}{where}"
