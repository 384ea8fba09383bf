"""Command rendering: from the description of a task and a Start command to the program that is executed.

A command written as a text is a line for ``/bin/sh -eu`` that refers to values in variables and positional
parameters. A command written as a list runs without a shell. ``call`` runs a Python function in a process of
its own. Environment variables state the *allocated* amounts (docs/reference/programs.md). Rendering writes no
files and starts no program: the same Start gives the same job.

Files in the workflow's folder that a command names (``./lapw0``, ``python train.py``) are staged under the
same name and are part of the fingerprint. Modules, containers, conda environments and the wrapper become
lines of the script around the command. Prolog, epilog and evaluator are programs of their own, which get the
same environment variables (docs/papers/adaptive-jobs.md, section 3).
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import json
import os
import posixpath
import re
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from weft.backends.attempt.external_files import check_links
from weft.backends.attempt.inputs import output_names, refuse_redirection, stated_folder
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.substitution import (
    ALLOCATED,
    FilledShell,
    JobProblem,
    ShellTemplate,
    TemplateValues,
    compile_shell,
    machine_values,
    template_names,
)
from weft.backends.runner.processes import MARK, WRAPPED
from weft.engine.messages import Start
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.states import format_counters
from weft.errors import shorten
from weft.expressions import Value
from weft.platform.machine import Machine
from weft.records import dataclass, message
from weft.urls import is_url
from weft.workflow.command_checks import command_problems, line_problems, shell_line
from weft.workflow.shell_text import ShellPieces, format_pieces
from weft.workflow.task import ISOLATED_BY, NO_RECOVERY, Environment, Isolation, JobSpec, Task, TaskKind
from weft.workflow.templates import TemplateField, split_template

_is_plain = re.compile(r"[A-Za-z0-9_@%+=:,./-]+").fullmatch


@message
class RenderedJob:
    """Everything needed to run the program of one attempt, with all fields substituted."""

    task: str
    """Name of the task."""
    argv: tuple[str, ...] | None
    """Arguments of the program, executed in ``workdir``; None: there is no program."""
    env: Mapping[str, str]
    """Variables added to the environment."""
    workdir: str
    stdin: str | None
    stdout: str
    stderr: str
    streams: tuple[str, ...] = ()
    """Stream files inside the task's directory; their parent directories are created before the start."""
    words: Mapping[str, str | None]
    """Files of the workflow's folder that the command names; they are staged under the same names. The value
    is the folder that the user states for the file (see ``stated_folder``), or None if the user states the
    whole name.
    """
    body: str | None = None
    """Shell script of the command; None: the command runs without a shell."""
    variables: Mapping[str, str]
    """Shell variables whose values are too long for the environment; ``command.sh`` sets them."""
    parameters: tuple[str, ...] = ()
    """Positional parameters of the shell script."""
    needs_script: bool = False
    """Whether ``argv`` runs the file ``script_name``, because the shell line is too long for an argument.

    The values of its fields count as part of the line.
    """
    script_name: str = "command.sh"
    """Name of the file that contains the text of ``script``."""
    command: str = ""
    """The command as shown to users; values that differ between attempts of one task are left out."""
    values: str = ""
    """Shell texts and the values of their fields, for the fingerprint."""
    declared: Mapping[str, str]
    """Environment variables declared by the task."""
    secrets: tuple[str, ...] = ()
    """Names of environment variables that hold secrets; only the start order contains their values."""
    environment: Environment | None = None
    isolation: Isolation | None = None
    """How the program is isolated; None: it is not isolated."""
    outputs: tuple[str, ...] = ()
    version: str = ""
    identity: str = ""
    """``folder:task:iteration``, the identity of the task within the project."""

    @property
    def script(self) -> str:
        """Return the text of the script file. A user can run this file to start the same program by hand."""
        name = self.task if self.task.isprintable() else repr(self.task)
        what = (
            "task" if self.script_name == "command.sh" else self.script_name.removesuffix(".sh") + " of task"
        )
        lines = ["#!/bin/sh", f"# {what} {name}"]
        if self.argv is None:
            return "\n".join([*lines, "# nothing to execute", ""])
        lines.append(f"cd {shlex.quote(self.workdir)}")
        lines += [f"export {name}={_quote(value)}" for name, value in self.env.items()]
        lines += [f': "${{{name}:?set this secret first}}"' for name in self.secrets]
        lines += [f"{name}={_quote(value)}" for name, value in self.variables.items()]
        if self.parameters:
            lines.append(f"set -- {' '.join(map(_quote, self.parameters))}")
        lines.append(f"exec {shlex.join(self.argv)}" if self.body is None else self.body)
        return "\n".join([*lines, ""])


def _quote(value: str) -> str:
    # Most values need no quoting, and this check is faster than ``shlex.quote``.
    return value if _is_plain(value) else shlex.quote(value)


_MAX_WORD_CHARACTERS = 1000
_OWN = ".weft"
_MANY = ("inputs", "outputs")


@functools.lru_cache(maxsize=1024)
def split_words(line: str) -> tuple[str, ...]:
    """Return the distinct words of a shell line that may name input files; fields in braces are kept.

    Options, absolute paths and targets of output redirections are left out.
    """
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        tokens = list(reader)
    except ValueError:  # Quotes in a here-document may be unbalanced.
        tokens = line.split()
    found: dict[str, None] = {}
    redirected = False
    for token in tokens:
        if not redirected:
            found[token] = None
        redirected = token.startswith(">") or token.endswith(">")
    return tuple(word for word in found if _may_name_file(word))


def _may_name_file(word: str) -> bool:
    return (
        word[:1] not in ("", *"-/~();<>|&")
        and len(word) <= _MAX_WORD_CHARACTERS
        and not any(f"{{{name}}}" in word for name in _MANY)
    )


def find_command_files(
    words: Mapping[str, str | None], folder: str, declared: Collection[str]
) -> dict[str, str | None]:
    """Return the words that name files of the workflow's folder, except files that the task declares.

    The values of ``words`` and of the result are the folders that the user states for the words (see
    ``stated_folder``). A value is None if the user states the whole name.
    """
    found: dict[str, str | None] = {}
    for word, below in words.items():
        if "\0" in word or not os.path.isfile(f"{folder}/{word}"):  # noqa: PTH113 -- a Path costs more than the check
            continue
        name = posixpath.normpath(word)
        parts = name.split("/")
        if name.startswith("/") or parts[0] in ("..", _OWN) or _is_declared(name, declared):
            continue
        found[name] = None if below is None else found.get(name, below)
    return found


def _is_declared(name: str, declared: Collection[str]) -> bool:
    if name in declared or f"{name}/" in declared:
        return True
    patterns = [given for given in declared if given.endswith("/") or "*" in given or "?" in given]
    return any(fnmatch.fnmatchcase(name, p + "*" if p.endswith("/") else p) for p in patterns)


_EMPTY_JOB = JobSpec()
_SHELL = ("/bin/sh", "-eu", "-c")


class RenderedCommand(NamedTuple):
    """A command with its fields substituted."""

    argv: tuple[str, ...] | None
    body: str | None
    """The command as a shell script; None: the command runs without a shell."""
    meaning: str
    """The command as shown to users; values that differ between attempts of one task are left out."""
    values: str = ""
    """A text from the shell texts and values; it differs if any of them differs."""
    variables: Mapping[str, str] = MappingProxyType({})
    """By name of a shell variable: the value to which the shell script refers."""
    parameters: tuple[str, ...] = ()
    """Positional parameters of the shell script."""


def shell_command(line: str, parameters: Sequence[str] = ()) -> RenderedCommand:
    """Return a command that runs a shell line with positional parameters."""
    argv = (*_SHELL, line, *_name_and(parameters))
    return RenderedCommand(argv, f"set -eu\n{line}", line, parameters=tuple(parameters))


def _name_and(parameters: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of ``sh -c`` after the script: ``$0`` and the positional parameters.

    The result is empty if there are no parameters.
    """
    return (_SHELL[0], *parameters) if parameters else ()


def program_command(words: Sequence[str], meaning: str | None = None) -> RenderedCommand:
    """Return a command that runs a program without a shell.

    ``words`` are the program and its arguments. ``meaning`` is the command as shown to users; if it is None,
    the quoted words are shown.
    """
    return RenderedCommand(tuple(words), None, shlex.join(words) if meaning is None else meaning)


NO_COMMAND = RenderedCommand(None, None, "")
"""The command of a task without a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTemplate:
    """The part of a command that is the same for all attempts; compiled once per task description."""

    job: JobSpec
    runs: bool
    """Whether the task has a program to execute."""
    names: tuple[str, ...]
    """Names of all template fields (``{name}``) of the command and its environment variables."""
    by_attempt: bool
    """Whether the value of some field differs between attempts of one task."""
    fixed: bool
    """Whether the command has no field to substitute."""
    surroundings: bool
    """Whether the command runs inside an environment or a wrapper."""
    modules: bool
    """Whether the task has a prolog or an epilog."""
    calls: bool
    """Whether the command calls a Python function."""
    texts: tuple[ShellPieces, ...]
    """Shell texts of the command line (empty if there is none), the prolog, the wrapper and the epilog."""
    evaluator: ShellPieces
    """Shell text of the evaluator program; empty: there is none. Outputs do not depend on this text."""
    shell: ShellTemplate | None
    """The compiled shell texts. None: the texts have raw fields, whose values become shell text, so the texts
    must be compiled for each attempt.
    """
    source: tuple[str, ...]
    """Shell texts as the user wrote them."""
    kept: tuple[str, ...]
    """Names of the fields in shell texts whose values are the same for all attempts of one task."""
    words: tuple[str, ...]
    """Words that may name files in the workflow's folder, before substitution of their fields."""
    isolation: Isolation | None
    ready: RenderedCommand | None
    """The rendered command if it has no field to substitute; otherwise None."""
    env: dict[str, str]
    """Environment variables as the user wrote them."""
    env_varies: bool
    """Whether the value of some environment variable contains a field or a brace."""


def compile_template(task: Task) -> CommandTemplate:
    """Compile the command template of a task description; raise JobProblem if a field is refused."""
    job = task.job or _EMPTY_JOB
    for problem in command_problems(task):
        raise JobProblem(f"{task.name}: {problem.what}", rule=problem.rule, advice=problem.advice)
    texts = _template_texts(job)
    names = template_names([*texts, *job.env.values()])
    calls = job.call is not None and job.command is None
    surroundings, modules = any((job.environment, job.wrapper)), any((job.prolog, job.epilog))
    runs = task.kind is TaskKind.COMPUTE and (calls or bool(job.command))
    shell = _shell_texts(job)
    has_raw = any(isinstance(piece, TemplateField) and piece.raw for text in shell for piece in text)
    plain = not (calls or surroundings or modules)
    fixed = plain and not any("{" in text or "}" in text for text in texts)
    return CommandTemplate(
        job=job,
        runs=runs,
        names=names,
        by_attempt=any(name in ALLOCATED or name.startswith("machine.") for name in template_names(texts)),
        fixed=fixed or not runs,
        surroundings=surroundings,
        modules=modules,
        calls=calls,
        texts=shell,
        evaluator=split_template(job.evaluator_program),
        shell=None if has_raw else compile_shell(shell),
        source=tuple(map(format_pieces, shell)),
        kept=_kept_names(shell),
        words=_file_words(job),
        isolation=job.isolate if job.isolate is not None and job.isolate.tool in ISOLATED_BY else None,
        ready=_render_fixed(job) if fixed and runs else None if runs else NO_COMMAND,
        env=dict(job.env),
        env_varies=any("{" in value or "}" in value for value in job.env.values()),
    )


def _shell_texts(job: JobSpec) -> tuple[ShellPieces, ...]:
    line = shell_line(job) if isinstance(job.command, str) else ()
    return (line, *(split_template(text or "") for text in (job.prolog, job.wrapper, job.epilog)))


_CPU_EVALUATOR = "weft.backends.attempt.cpu_evaluator"
_CPU_SHARE = re.compile(r"cpu:([0-9]+(?:\.[0-9]+)?)%")
RUN_MODULE = (sys.executable, "-P", "-m")
"""Command that runs a module of weft on this host.

-P: modules in the task's directory must not shadow those of Python itself."""


def _kept_names(texts: Sequence[ShellPieces]) -> tuple[str, ...]:
    names = {piece.name for text in texts for piece in text if isinstance(piece, TemplateField)}
    return tuple(sorted(name for name in names if name not in ALLOCATED and not name.startswith("machine.")))


def _render_fixed(job: JobSpec) -> RenderedCommand:
    if isinstance(job.command, str):
        return shell_command(format_pieces(shell_line(job)))
    return program_command([*(job.command or ()), *job.arguments])


def _template_texts(job: JobSpec) -> list[str]:
    """Return all texts of a job in which fields are substituted."""
    command = (job.command,) if isinstance(job.command, str) else job.command or ()
    references = (
        job.stdin,
        job.stdout,
        job.stderr,
        job.prolog,
        job.wrapper,
        job.epilog,
        job.evaluator_program,
    )
    return [*command, *job.arguments, *(text for text in references if text)]


def _file_words(job: JobSpec) -> tuple[str, ...]:
    lines = [text for text in (job.prolog, job.wrapper, job.epilog, job.evaluator_program) if text]
    if isinstance(job.command, str):
        lines.append(job.command)
    found = [word for line in lines for word in split_words(line)]
    listed = [*(job.command if isinstance(job.command, tuple) else ()), *job.arguments]
    found += [word for word in listed if word and not word.startswith(("-", "/"))]
    found += [job.stdin] if job.stdin else []
    if job.environment is not None and job.environment.conda is not None:
        found.append(job.environment.conda)
    if job.call is not None:
        found += _module_files(job.call)
    return tuple(dict.fromkeys(found))


def _module_files(call: str) -> list[str]:
    """Return the names of the files that may contain the module of a function written as ``module:name``."""
    parts = call.partition(":")[0].split(".")
    packages = ["/".join([*parts[:depth], "__init__.py"]) for depth in range(1, len(parts) + 1)]
    return [*packages, "/".join(parts) + ".py"]


_Point = tuple[Value, ...]


class ResultReferences:
    """Resolves the references of one workflow's tasks to results of other tasks (``{conv.result.delta}``)."""

    def __init__(self, compiled: CompiledWorkflow) -> None:
        self._places = {task.name: place for place, task in enumerate(compiled.graph.workflow.tasks)}
        self._rows: dict[str, list[int]] = {}
        self._by_point: dict[tuple[str, tuple[str, ...]], dict[_Point, list[int]]] = {}

    def of(self, compiled: CompiledWorkflow, task: int, names: tuple[str, ...]) -> dict[str, int]:
        """Return the tasks to whose results a task refers, by name of their descriptions.

        ``names`` are the fields of ``task``; a field without a dot refers to no result.
        """
        found: dict[str, int] = {}
        for name in names:
            head, dot, _ = name.partition(".")
            if dot and head in self._places and head not in found:
                found[head] = self._resolve(compiled, head, task)
        return found

    def _resolve(self, compiled: CompiledWorkflow, name: str, task: int) -> int:
        if (rows := self._rows.get(name)) is None:
            rows = self._rows[name] = np.flatnonzero(compiled.graph.template == self._places[name]).tolist()
        if len(rows) != 1:
            rows = self._find_same_point(compiled, name, task)
        if len(rows) != 1:
            raise JobProblem(
                f"{compiled.names[task]} refers to the result of {name}, but {len(rows)} subtasks match",
                rule="the common sweep variables must identify one subtask",
                advice=f"give the task the sweep variables of {name}",
            )
        return rows[0]

    def _find_same_point(self, compiled: CompiledWorkflow, name: str, task: int) -> list[int]:
        """Return the subtasks of the description ``name`` that match ``task``.

        A subtask matches if all sweep variables that it shares with ``task`` have the same values.
        """
        there = compiled.graph.workflow.tasks[self._places[name]].sweep
        here = compiled.description(task).sweep
        if there is None or here is None:
            return self._rows[name]
        shared = tuple(variable for variable in there.names if variable in here.names)
        if (table := self._by_point.get((name, shared))) is None:
            places = [there.names.index(variable) for variable in shared]
            table = {}
            for row in self._rows[name]:
                point = compiled.graph.points[row]
                table.setdefault(tuple(point[place] for place in places), []).append(row)
            self._by_point[name, shared] = table
        own = compiled.graph.points[task]
        return table.get(tuple(own[here.names.index(variable)] for variable in shared), [])


_FIND_MODULES = """\
if ! command -v module >/dev/null 2>&1; then
  weft_home="${MODULESHOME:-/usr/share/modules}"
  for weft_file in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh "$weft_home/init/sh"; do
    if [ -r "$weft_file" ]; then . "$weft_file"; break; fi
  done
fi"""

_FIND_CONTAINERS = """\
for weft_runtime in apptainer singularity podman docker none; do
  if command -v "$weft_runtime" >/dev/null 2>&1; then break; fi
done
if [ "$weft_runtime" = none ]; then
  echo "weft: the task needs a container, but none of apptainer, singularity, podman, docker is installed" >&2
  exit 127
fi"""

_CREATE_CONDA = """\
weft_conda={prefix}
if [ ! -d "$weft_conda/conda-meta" ]; then
  mkdir -p "${{weft_conda%/*}}"
  (flock 9; [ -d "$weft_conda/conda-meta" ] ||
    conda env create --quiet --prefix "$weft_conda" --file {file} >&2) 9>"$weft_conda.lock"
fi"""

_SPEC_FILE = re.compile(r".*\.ya?ml", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnvironment:
    """The software environment and the wrapper of one command, after substitution of fields."""

    environment: Environment | None = None
    wrapper: str = ""
    conda_prefix: str = ""
    """Directory of the conda environment that is created from a file; "": no environment is created."""


def conda_prefix(environment: Environment | None, folder: Path, sandbox: Path) -> str:
    """Return the directory of the conda environment that is created from a file; "" if there is no file.

    The name of the directory is a hash of the file's content.
    """
    if environment is None or environment.conda is None or not _SPEC_FILE.fullmatch(environment.conda):
        return ""
    try:
        content = (folder / environment.conda).read_bytes()
    except OSError as error:
        what = f"the conda file {environment.conda} cannot be read: {error.strerror}"
        raise JobProblem(what, rule="it must be in the workflow's folder") from None
    return str(sandbox / "conda" / hashlib.blake2b(content, digest_size=10).hexdigest())


EXIT_FILE = ".weft-exit"
"""Name of the file that records the exit code of a command that runs under a wrapper."""

# A shell that records the exit code of its arguments. It must survive SIGTERM to do so. It marks the command,
# so that evaluators get the process number of the command and not that of the wrapper.
_RECORD_EXIT = (
    f'trap : TERM; weft_code=0; {WRAPPED}="${{{MARK}:-}}" "$@" || weft_code=$?; '
    f'echo "$weft_code" > "${{WEFT_CHECKPOINT_DIR:-.}}/{EXIT_FILE}"; exit "$weft_code"'
)


def _prepare_shell(environment: Environment | None) -> list[str]:
    """Return the first lines of every script of a job.

    They load the modules, and they make an error end the script.
    """
    if environment is None or not environment.modules:
        return ["set -eu"]
    # Initialisation files of module systems fail under `set -u`.
    load = "module load " + " ".join(map(shlex.quote, environment.modules))
    return [_FIND_MODULES, f"{load} || exit", "set -eu"]


def wrap_command(command: str, surroundings: CommandEnvironment, variables: Iterable[str]) -> str:
    """Return the script lines that run a simple shell command inside its environment.

    ``variables`` are the names of the variables that are passed into a container. Modules are loaded first;
    then the wrapper runs the container or conda environment, and this runs the command. Under a wrapper the
    exit code of the command is recorded, so that a failure of the wrapper can be distinguished from a failure
    of the command. The script uses the first container program that it finds on the machine.
    """
    environment = surroundings.environment or Environment()
    lines = _prepare_shell(environment)
    if environment.conda is not None:
        which = f"--name {shlex.quote(environment.conda)}"
        if surroundings.conda_prefix:
            prefix, file = shlex.quote(surroundings.conda_prefix), shlex.quote(environment.conda)
            lines.append(_CREATE_CONDA.format(prefix=prefix, file=file))
            which = '--prefix "$weft_conda"'
        command = f"conda run --no-capture-output {which} {command}"
    before = "exec "
    if surroundings.wrapper:
        before += f"{surroundings.wrapper} /bin/sh -c {shlex.quote(_RECORD_EXIT)} weft "
    if environment.container is None:
        lines.append(f"{before}{command}")
    else:
        lines += [_FIND_CONTAINERS, 'case "$weft_runtime" in']
        for pattern, started in _container_commands(environment.container, variables):
            lines.append(f'{pattern}) {before}"$weft_runtime" {started} {command} ;;')
        lines.append("esac")
    return "\n".join(lines)


def _container_commands(image: str, variables: Iterable[str]) -> list[tuple[str, str]]:
    """Return the ways to run a container image: pairs of a shell pattern and arguments.

    The pattern matches the names of container programs; the arguments start the image with such a program.
    """
    is_stored = is_url(image) or image.endswith((".sif", ".img")) or image[:1] in "./"
    stored = image if is_stored else f"docker://{image}"
    passed = " ".join(f"--env {name}" for name in variables)
    here = '--volume "$PWD:$PWD" --workdir "$PWD" --user "$(id -u):$(id -g)"'
    return [
        ("apptainer | singularity", f'exec --bind "$PWD" --pwd "$PWD" {shlex.quote(stored)}'),
        ("*", f"run --rm --init --interactive {here} {passed} {shlex.quote(image)}"),
    ]


PROGRESS_FILE = ".weft-progress"
"""Default name of the file to which a task writes its progress."""

RESULT_FILE = ".weft-result.json"
"""Name of the file to which a task writes its result."""

PROLOG, EPILOG, EVALUATOR = "prolog", "epilog", "evaluator"
"""Names of the modules of a job that run as programs of their own."""

_TEXT_OF = {PROLOG: 1, EPILOG: 3}
"""By module: the index of its text in ``CommandTemplate.texts``."""

_MAX_ARGUMENT_BYTES = 100_000
"""Limit above which a shell line is run from ``command.sh``; Linux limits one argument to 128 KiB."""
_GRIDWAY_ATTRIBUTES = ("OS_VERSION", "CPU_MODEL", "CPU_MHZ")
"""Attributes of machines that GridWay passes to programs, if the platform states them."""
_NO_RESULTS: Mapping[str, Mapping[str, Value]] = {}
_CALL_MODULE = "weft.backends.attempt.call"
_WEFT_VARIABLES = ("WEFT_TASK", "WEFT_ATTEMPT", "WEFT_NODES", "WEFT_CORES", "WEFT_MEM_MB", "WEFT_ITERATION",
         "WEFT_RESTART", "WEFT_CHECKPOINT_DIR", "WEFT_CHECKPOINT_FILES", "WEFT_PROGRESS_FILE",
         "WEFT_RESULT_FILE", "WEFT_TIME_LEFT_S", "WEFT_FOLDER", "GW_JOB_ID", "GW_ARRAY_ID", "GW_TASK_ID",
         "GW_TOTAL_TASKS", "GW_PARAM", "GW_MAX_PARAM", "GW_HOSTNAME", "GW_ARCH", "GW_OS_NAME", "GW_MEM_MB",
         "GW_RESTARTED", "GW_RESTART_FILES", "GW_CPULOAD_THRESHOLD", "GW_OS_VERSION", "GW_CPU_MODEL",
         "GW_CPU_MHZ")  # fmt: skip


def render_job(
    compiled: CompiledWorkflow,
    start: Start,
    machine: Machine,
    *,
    workdir: str,
    records: str,
    project: Path,
    folder: Path,
    inputs: Sequence[str] = (),
    results: Mapping[str, Mapping[str, Value]] = _NO_RESULTS,
    attempt_number: int = 1,
    restart: bool = False,
    secrets: tuple[str, ...] = (),
    module: str = "",
    run_module: Sequence[str] = RUN_MODULE,
) -> RenderedJob:
    """Render the job of an attempt; raise JobProblem if that is impossible.

    If ``module`` is ``prolog``, ``epilog`` or ``evaluator``, the program of that module is rendered instead.

    ``inputs`` are the names of the staged inputs in ``workdir``. ``results`` gives, by name of the
    description, ``{"exit_code": 0, "result": {...}}`` for each task that ``find_result_tasks`` returns.
    ``attempt_number`` counts from 1. ``restart`` says whether restart files were staged. ``secrets`` are the
    names of variables whose values are added to the environment later. ``run_module`` is the command that
    runs a module of weft on the machine; it differs on a machine with a disk of its own, which has no other
    files of this host either.
    """
    template = _template_cache(compiled).template(compiled, start.task)
    renderer = _CommandRenderer(
        compiled, start, machine, template, folder, inputs, results, secrets, run_module
    )
    rendered = renderer.module(module) if module else template.ready or renderer.rendered(workdir)
    progress, restarts = monitored_files(compiled, start.task)
    env = renderer.environment(workdir, progress, restarts)
    env["WEFT_ATTEMPT"] = str(attempt_number)
    env["WEFT_RESTART"] = "1" if restart else "0"
    env.setdefault("GW_RESTARTED", str(attempt_number - 1))
    stdin, stdout, stderr = (None, None, None) if module else renderer.streams()
    own = tuple(name for name in (stdout, stderr) if name and not name.startswith("/"))
    words: Mapping[str, str | None] = {}
    if template.words and template.runs:
        declared = {*inputs, *renderer.outputs, *restarts, progress, *own}
        words = find_command_files(renderer.words(), str(folder), declared)
    needs_script = rendered.body is not None and _is_long(rendered)
    # Values of a script without surroundings need not be in the environment, whose size is limited.
    in_script = needs_script and (bool(module) or not template.surroundings)
    prefix, script = (f"{module}.", f"{module}.sh") if module else ("", "command.sh")
    if not in_script:
        env.update(rendered.variables)
    return RenderedJob(
        task=compiled.names[start.task],
        argv=("/bin/sh", f"{records}/{script}") if needs_script else rendered.argv,
        env=env,
        workdir=workdir,
        stdin=None if stdin is None else _absolute_path(workdir, stdin),
        stdout=f"{records}/{prefix}out" if stdout is None else _absolute_path(workdir, stdout),
        stderr=f"{records}/{prefix}err" if stderr is None else _absolute_path(workdir, stderr),
        streams=own,
        words=words,
        body=rendered.body,
        variables=rendered.variables if in_script else {},
        parameters=rendered.parameters,
        needs_script=needs_script,
        script_name=script,
        command=rendered.meaning,
        values=rendered.values,
        declared=renderer.declared(by_name=True),
        secrets=secrets,
        environment=template.job.environment,
        isolation=template.isolation,
        outputs=tuple(renderer.outputs),
        version=template.job.version or "",
        identity=task_identity(compiled, start.task, start.counters or (start.iteration,), folder, project),
    )


def task_identity(
    compiled: CompiledWorkflow, task: int, counters: tuple[int, ...], folder: Path, project: Path
) -> str:
    """Return ``folder:task:iteration``, which identifies a task within the project.

    The iteration consists of the counters of all loops around the task, outermost first, such as ``2.1``. The
    folder is relative to the project, because the project may be moved as a whole.
    """
    relative = f"{folder}/".removeprefix(f"{project}/").removesuffix("/")
    return f"{relative}:{compiled.names[task]}:{format_counters(counters)}"


def _is_long(rendered: RenderedCommand) -> bool:
    """Return whether a shell script and its values may exceed the kernel's limit for arguments."""
    texts = (rendered.body or "", *rendered.variables.values(), *rendered.parameters)
    # No character takes more than four bytes.
    if sum(map(len, texts)) <= _MAX_ARGUMENT_BYTES // 4:
        return False
    return sum(len(text.encode()) for text in texts) > _MAX_ARGUMENT_BYTES


def find_result_tasks(compiled: CompiledWorkflow, task: int) -> Mapping[str, int]:
    """Return the tasks to whose results the command of a task refers, by name of their descriptions."""
    cache = _template_cache(compiled)
    names = cache.template(compiled, task).names
    return cache.references.of(compiled, task, names) if any("." in name for name in names) else {}


def monitored_files(compiled: CompiledWorkflow, task: int) -> tuple[str, tuple[str, ...]]:
    """Return the name of the progress file of a task, and the names of its restart files."""
    recovery = compiled.description(task).recovery
    if recovery is NO_RECOVERY:
        return PROGRESS_FILE, ()
    values = TemplateValues({**compiled.graph.context(task), "task": compiled.names[task]}, {}, _NO_RESULTS)
    files = recovery.checkpoint.files if recovery.checkpoint is not None else ()
    progress = PROGRESS_FILE if recovery.progress is None else values.text(recovery.progress)
    return progress, tuple(values.text(file) for file in files)


class _TemplateCache:
    """Cache of the compiled templates of one workflow.

    The cache is the value of a weak dictionary whose key is the workflow, so it holds no reference to the
    workflow.
    """

    def __init__(self, compiled: CompiledWorkflow) -> None:
        self.references = ResultReferences(compiled)
        self._templates: dict[int, CommandTemplate] = {}
        self._rows: dict[int, np.ndarray] = {}

    def template(self, compiled: CompiledWorkflow, task: int) -> CommandTemplate:
        """Return the compiled template of a task."""
        template = compiled.template(task)
        if (found := self._templates.get(template)) is None:
            found = self._templates[template] = compile_template(compiled.description(task))
        return found

    def place(self, compiled: CompiledWorkflow, task: int) -> tuple[int, int]:
        """Return the index of a task among the subtasks of its description, and the number of subtasks."""
        if compiled.description(task).sweep is None:
            return 0, 1
        template = compiled.template(task)
        if (rows := self._rows.get(template)) is None:
            rows = self._rows[template] = np.flatnonzero(compiled.graph.template == template)
        return int(np.searchsorted(rows, task)), len(rows)


_TEMPLATE_CACHES: WeakKeyDictionary[CompiledWorkflow, _TemplateCache] = WeakKeyDictionary()


def _template_cache(compiled: CompiledWorkflow) -> _TemplateCache:
    if (found := _TEMPLATE_CACHES.get(compiled)) is None:
        found = _TEMPLATE_CACHES[compiled] = _TemplateCache(compiled)
    return found


@dataclass(frozen=True, eq=False)
class _CommandRenderer:
    compiled: CompiledWorkflow
    start: Start
    machine: Machine
    template: CommandTemplate
    folder: Path
    inputs: Sequence[str]
    results: Mapping[str, Mapping[str, Value]]
    secrets: tuple[str, ...]
    run_module: Sequence[str]

    @functools.cached_property
    def outputs(self) -> list[str]:
        return output_names(self.compiled, self.start.task, self.machine, self.start.iteration)

    @functools.cached_property
    def memory_mb(self) -> int | None:
        """Return the allocated memory in MB, else the memory of the machine; None if neither is stated."""
        memory = self.start.memory_bytes
        if memory is None:
            memory = self.machine.memory_for(self.start.nodes)
        return None if memory is None else int(memory // 1_000_000)

    @functools.cached_property
    def cores(self) -> int:
        # On machines whose nodes are cores, several of them form one node in the sense of the task.
        per_node = max(1, self.start.nodes // max(1, self.start.count))
        return per_node if self.machine.node_is_core else self.machine.cores

    @functools.cached_property
    def values(self) -> TemplateValues:
        """Return the values of the fields in the command."""
        return self._make_values(by_name=False)

    def _make_values(self, *, by_name: bool) -> TemplateValues:
        uses_machine = any(name.startswith("machine.") for name in self.template.names)
        machine = machine_values(self.machine) if uses_machine else {}
        return TemplateValues(self._filled_in(), machine, self.results, by_name=by_name)

    def _filled_in(self) -> dict[str, Value]:
        start = self.start
        return {
            **self.compiled.graph.context(start.task),
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "nodes": start.count,
            "cores": self.cores,
            "memory_mb": self.memory_mb,
            "iteration": start.iteration,
            "task": self.compiled.names[start.task],
        }

    def words(self) -> dict[str, str | None]:
        """Return the words that may name files, after substitution, and the folder stated for each.

        The value is the folder that the user states for the word (see ``stated_folder``), or None if the user
        states the whole name.
        """
        if self.template.fixed:
            return dict.fromkeys(self.template.words)
        found: dict[str, str | None] = {}
        for word in self.template.words:
            text, below = self.values.text(word), self._stated_folder(word)
            # If the user also writes the same word literally, no folder is stated.
            found[text] = None if below is None else found.get(text, below)
        return found

    def _stated_folder(self, text: str) -> str | None:
        if "{" not in text:
            return None
        return stated_folder(self.compiled.description(self.start.task), text, self._external_values())

    def rendered(self, workdir: str) -> RenderedCommand:
        """Render the command of the attempt, inside its environment and wrapper if it has any."""
        if self.template.surroundings:
            return self._surrounded(workdir)
        if isinstance(self.template.job.command, str):
            filled = self._fill()
            command = shell_command(filled.texts[0], filled.parameters)
            return self._with_meaning(command._replace(variables=filled.variables))
        program = self._program()
        return self._with_meaning(program) if self.template.modules else program

    def _with_meaning(self, command: RenderedCommand) -> RenderedCommand:
        """Return a command with ``meaning`` (texts for users) and ``values`` (JSON for the fingerprint)."""
        (described, *others), values = self._meaning()
        described = described or command.meaning
        whole = self.template.surroundings or self.template.modules
        return command._replace(
            meaning="\n".join([described, *others]) if whole else described, values=values
        )

    def module(self, module: str) -> RenderedCommand:
        """Render the program of a module."""
        environment = self.template.job.environment
        if module == EVALUATOR and (stated := _CPU_SHARE.fullmatch(self.template.job.evaluator_program)):
            line = f'{shlex.join(self.run_module)} {_CPU_EVALUATOR} "$WEFT_PID" {stated[1]}'
            return RenderedCommand(("/bin/sh", "-c", line), line, line)
        if module == EVALUATOR:
            filled = compile_shell((self.values.fill_raw(self.template.evaluator),)).fill(self.values)
            text = filled.texts[0]
        else:
            filled = self._fill()
            text = filled.texts[_TEXT_OF[module]]
        body = "\n".join([*_prepare_shell(environment), text])
        argv = ("/bin/sh", "-c", body, *_name_and(filled.parameters))
        return RenderedCommand(argv, body, text, "", filled.variables, filled.parameters)

    def _surrounded(self, workdir: str) -> RenderedCommand:
        """Render the command inside its environment and wrapper."""
        job = self.template.job
        is_line = isinstance(job.command, str)
        program = NO_COMMAND if is_line else self._program()
        filled = self._fill(program.argv or ())
        line, _, wrapper, _ = filled.texts
        surroundings = CommandEnvironment(
            environment=job.environment,
            wrapper=wrapper,
            conda_prefix=conda_prefix(job.environment, self.folder, Path(workdir).parent.parent),
        )
        has_parameters = bool(filled.parameters)
        if is_line:
            command = shlex.join((*_SHELL, line)) + (f' {_SHELL[0]} "$@"' if has_parameters else "")
        else:
            command = _word_references(len(program.argv or ()), len(filled.parameters))
        variables = [*self.template.env, *self.secrets, *_WEFT_VARIABLES, *filled.variables]
        body = wrap_command(command, surroundings, variables)
        argv = ("/bin/sh", "-c", body, *_name_and(filled.parameters))
        made = RenderedCommand(argv, body, program.meaning, "", filled.variables, filled.parameters)
        return self._with_meaning(made)

    def _fill(self, before: Sequence[str] = ()) -> FilledShell:
        """Substitute the fields of the shell texts; return the texts and the values to which they refer.

        ``before`` are the program and the arguments of a command that is written as a list. They become the
        first positional parameters.
        """
        return self._shell(self.values).fill(self.values, before)

    def _shell(self, values: TemplateValues) -> ShellTemplate:
        """Return the compiled shell texts, in which raw fields are replaced by their values."""
        if self.template.shell is not None:
            return self.template.shell
        texts = tuple(values.fill_raw(text) for text in self.template.texts)
        description = self.compiled.description(self.start.task)
        for problem in (each for text in texts for each in line_problems(description, text)):
            raise JobProblem(problem.what, rule=problem.rule, advice=problem.advice)
        return compile_shell(texts)

    def _meaning(self) -> tuple[list[str], str]:
        """Return the shell texts as shown to users, and the same texts with their values as JSON.

        The JSON text is for the fingerprint. Values that differ between attempts of one task are left out.
        """
        named = replace(self.values, by_name=True) if self.template.by_attempt else self.values
        values = {name: self.values.shell_value(name) for name in self.template.kept}
        return self._shell(named).describe(named), json.dumps([*self.template.source, values])

    def _program(self) -> RenderedCommand:
        """Render a command that runs without a shell."""
        plain = self._words_of(self.values)
        named = self._words_of(self._make_values(by_name=True)) if self.template.by_attempt else plain
        return RenderedCommand(plain.argv, None, named.meaning)

    def _words_of(self, values: TemplateValues) -> RenderedCommand:
        job = self.template.job
        arguments = values.words(job.arguments)
        if self.template.calls:
            return self._call(arguments)
        assert not isinstance(job.command, str)
        return program_command([*values.words(job.command or ()), *arguments])

    def _call(self, arguments: Sequence[str]) -> RenderedCommand:
        """Render the call of a Python function; the values of all fields are passed as a JSON argument."""
        job, filled = self.template.job, self._filled_in()
        assert job.call is not None
        given = json.dumps(filled, default=str)
        if len(given) > _MAX_ARGUMENT_BYTES:
            what = f"the parameters of {job.call} take {len(given)} bytes"
            rule = f"at most {_MAX_ARGUMENT_BYTES} bytes are passed to a function"
            raise JobProblem(
                what, rule=rule, advice="put large parameters into a file and declare it as an input"
            )
        elsewhere = job.environment is not None and (job.environment.container or job.environment.conda)
        python = ["python3", "-m"] if elsewhere else self.run_module
        kept = {name: value for name, value in filled.items() if name not in ALLOCATED}
        meaning = shlex.join([job.call, json.dumps(kept, default=str, sort_keys=True), *arguments])
        return program_command([*python, _CALL_MODULE, job.call, given, *arguments], meaning)

    def streams(self) -> tuple[str | None, str | None, str | None]:
        """Return the files of stdin, stdout and stderr; None stands for the default file of a stream."""
        job = self.template.job
        if job.stdin is None and job.stdout is None and job.stderr is None:
            return None, None, None
        found: dict[str, str | None] = {}
        for key, text in (("stdin", job.stdin), ("stdout", job.stdout), ("stderr", job.stderr)):
            name = text and (text if self.template.fixed else self.values.text(text))
            found[key] = name or None
            if text:
                self._check_stream_path(text, name or "")
            if name and (".." in name.split("/") or "\0" in name or name.endswith("/")):
                rule = "a stream is a file in the task's own directory, or has an absolute path"
                raise JobProblem(f"{key} is {shorten(repr(name))}", rule=rule)
            if name and key != "stdin" and name in self.inputs:
                rule = "an input must not be overwritten"
                raise JobProblem(f"{key} is {shorten(repr(name))}, which is an input of the task", rule=rule)
        return found["stdin"], found["stdout"], found["stderr"]

    def _check_stream_path(self, text: str, name: str) -> None:
        try:
            refuse_redirection(self.compiled.description(self.start.task), text, self._external_values())
            below = self._stated_folder(text)
            if below is not None and name.startswith("/"):
                check_links(name, Path(os.path.realpath(name)), self.folder, below)
        except StagingProblem as problem:
            raise JobProblem(str(problem)) from None

    def _external_values(self) -> dict[str, Value]:
        """Return all values that may have been written by tasks, for the check of file names."""
        results = {
            f"{name}.result.{key}": value
            for name, outcome in self.results.items()
            for key, value in _mapping(outcome.get("result")).items()
        }
        return {**self._filled_in(), **results}

    def declared(self, *, by_name: bool) -> dict[str, str]:
        """Return the environment variables that the task declares, with substituted fields.

        If ``by_name`` is True, fields whose values differ between attempts are replaced by their names, as in
        the fingerprint.
        """
        if not self.template.env_varies:
            return self.template.env
        values = replace(self.values, by_name=by_name)
        return {name: values.text(value) for name, value in self.template.env.items()}

    def environment(self, work: str, progress: str, restarts: Sequence[str]) -> dict[str, str]:
        """Return the environment variables of the attempt (docs/reference/programs.md)."""
        start = self.start
        env = {
            **self.declared(by_name=False),
            "WEFT_TASK": self.compiled.names[start.task],
            "WEFT_NODES": str(start.count),
            "WEFT_CORES": str(self.cores),
            "WEFT_ITERATION": str(start.iteration),
            "WEFT_ITERATIONS": format_counters(start.counters or (start.iteration,)),
            "WEFT_CHECKPOINT_DIR": work,
            "WEFT_PROGRESS_FILE": f"{work}/{progress}",
            "WEFT_RESULT_FILE": f"{work}/{RESULT_FILE}",
        }
        if self.memory_mb is not None:
            env["WEFT_MEM_MB"] = str(self.memory_mb)
        if start.time_limit_s is not None:
            env["WEFT_TIME_LEFT_S"] = f"{start.time_limit_s:g}"
        if restarts:
            env["WEFT_CHECKPOINT_FILES"] = "\n".join(restarts)
        if self.template.calls and self.run_module is RUN_MODULE:
            env["WEFT_FOLDER"] = str(self.folder)
        return {**self._gridway_variables(restarts), **env}

    def _gridway_variables(self, restarts: Sequence[str]) -> dict[str, str]:
        """Return the variables for programs that were written for GridWay.

        Variables that the task declares take precedence over them.
        """
        compiled, task, machine = self.compiled, self.start.task, self.machine
        place, count = _template_cache(compiled).place(compiled, task)
        name = compiled.description(task).name
        found: dict[str, Value] = {
            "GW_JOB_ID": name if compiled.description(task).sweep is None else f"{name}.{place}",
            "GW_ARRAY_ID": name,
            "GW_TASK_ID": place,
            "GW_TOTAL_TASKS": count,
            "GW_PARAM": place,
            "GW_MAX_PARAM": count - 1,
            "GW_HOSTNAME": machine.name,
            "GW_ARCH": machine.arch,
            "GW_OS_NAME": machine.os,
            "GW_MEM_MB": self.memory_mb,
            "GW_RESTART_FILES": ",".join(restarts) or None,
            "GW_CPULOAD_THRESHOLD": compiled.description(task).attributes.get("CPULOAD_THRESHOLD"),  # type: ignore[dict-item]
        }
        found |= {f"GW_{key}": machine.attributes.get(key) for key in _GRIDWAY_ATTRIBUTES}
        return {key: str(value) for key, value in found.items() if value is not None}


def _word_references(count: int, total: int) -> str:
    """Return the shell words that refer to the first ``count`` of ``total`` positional parameters."""
    return '"$@"' if count == total else " ".join(f'"${{{number}}}"' for number in range(1, count + 1))


def _mapping(value: object) -> Mapping[str, Value]:
    return value if isinstance(value, Mapping) else {}


def _absolute_path(work: str, name: str) -> str:
    return name if name.startswith("/") else f"{work}/{name}"
