"""A recipe: what all subtasks of one description have in common when they are started.

Most tasks say nothing that differs from attempt to attempt: then everything is worked out once.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.backends.jobs.problem import JobProblem
from weft.backends.jobs.values import ALLOCATED, names_in
from weft.backends.jobs.words import words_of
from weft.errors import shorten
from weft.workflow.records.job import Job
from weft.workflow.records.task import Kind, Task

__all__ = ["NOTHING", "Recipe", "Written", "as_line", "as_words", "recipe_of"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


_NOTHING = Job()
_SHELL = ("/bin/sh", "-eu", "-c")


class Written(NamedTuple):
    """A command, written out."""

    argv: tuple[str, ...] | None
    body: str | None
    """The same for a script of the shell; None: it runs without one."""
    meaning: str
    """The same without what differs between attempts of one task."""


def as_line(line: str, meaning: str | None = None) -> Written:
    """Let the shell run a line."""
    return Written((*_SHELL, line), f"set -eu\n{line}", line if meaning is None else meaning)


def as_words(words: Sequence[str], meaning: str | None = None) -> Written:
    """Run a program without a shell."""
    return Written(tuple(words), None, shlex.join(words) if meaning is None else meaning)


NOTHING = Written(None, None, "")
"""What a task without a program executes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is known of a description's job before a machine is chosen."""

    job: Job
    runs: bool
    """Whether there is anything to execute."""
    names: tuple[str, ...]
    """The names in braces that the job uses."""
    by_attempt: bool
    """Whether some of them differ between attempts of one task."""
    fixed: bool
    """Whether nothing has to be filled in."""
    around: bool
    """Whether something stands around the command."""
    calls: bool
    """Whether it is a Python function."""
    words: tuple[str, ...]
    """Words, as written, that may name files beside the workflow."""
    ready: Written | None
    """What is executed, where nothing has to be filled in."""
    env: dict[str, str]


def recipe_of(task: Task) -> Recipe:
    """Work out what the attempts of a task have in common."""
    job = task.job or _NOTHING
    texts = _texts(job)
    names = names_in(texts)
    calls = job.call is not None and job.command is None
    around = any((job.environment, job.prolog, job.wrapper, job.epilog))
    runs = task.kind is Kind.COMPUTE and (calls or bool(job.command))
    fixed = not calls and not around and not any("{" in text or "}" in text for text in texts)
    return Recipe(
        job=job,
        runs=runs,
        names=names,
        by_attempt=any(name in ALLOCATED or name.startswith("machine.") for name in names),
        fixed=fixed or not runs,
        around=around,
        calls=calls,
        words=_words(job),
        ready=_ready(job) if fixed and runs else None if runs else NOTHING,
        env=_checked_env(job, task.name),
    )


def _ready(job: Job) -> Written:
    if isinstance(job.command, str):
        return as_line(" ".join([job.command, *map(shlex.quote, job.arguments)]))
    return as_words([*(job.command or ()), *job.arguments])


def _texts(job: Job) -> list[str]:
    """List everything in which names are filled in."""
    command = (job.command,) if isinstance(job.command, str) else job.command or ()
    others = (job.stdin, job.stdout, job.stderr, job.prolog, job.wrapper, job.epilog)
    return [*command, *job.arguments, *(text for text in others if text)]


def _words(job: Job) -> tuple[str, ...]:
    lines = [text for text in (job.prolog, job.wrapper, job.epilog) if text]
    if isinstance(job.command, str):
        lines.append(job.command)
    found = [word for line in lines for word in words_of(line)]
    listed = [*(job.command if isinstance(job.command, tuple) else ()), *job.arguments]
    found += [word for word in listed if word and not word.startswith(("-", "/"))]
    found += [job.stdin] if job.stdin else []
    if job.environment is not None and job.environment.conda is not None:
        found.append(job.environment.conda)
    if job.call is not None:
        found += _modules(job.call)
    return tuple(dict.fromkeys(found))


def _modules(call: str) -> list[str]:
    """List the files in which a Python function may be found."""
    parts = call.partition(":")[0].split(".")
    packages = ["/".join([*parts[:depth], "__init__.py"]) for depth in range(1, len(parts) + 1)]
    return [*packages, "/".join(parts) + ".py"]


def _checked_env(job: Job, task: str) -> dict[str, str]:
    for name, value in job.env.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            what = f"{task} sets the variable {shorten(repr(name))} to {shorten(repr(value))}"
            raise JobProblem(what, rule="a variable has a plain name and a value without NUL")
    return dict(job.env)
