"""Modules of a task (prolog, epilog, evaluator, selector): how they run, and what their ends mean.

The transport starts prolog, epilog and evaluator like the program of the attempt, in the same directory and
with the same variables. Each module has a number of its own. Each run of a module has a nonce of its own,
which is in no journal; therefore the next engine ends modules that an engine left running. The message about
a failed module contains its name and the last line of its standard error. The selector runs on the engine's
computer, because no machine is chosen yet.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.backends.attempt.attempt import ProgramReport
from weft.backends.attempt.command import EPILOG, EVALUATOR, PROLOG
from weft.backends.attempt.external_files import find_kind_problem, find_url_problem
from weft.backends.attempt.substitution import JobProblem, machine_values
from weft.backends.attempt.task_files import read_task_file
from weft.backends.backend import ProjectContext
from weft.documents import locate_problems
from weft.engine.messages import MachinesSelected, SelectionCandidate, SelectMachines
from weft.errors import InvalidInput, Problem, nearest, shorten
from weft.expressions import Expression
from weft.redaction import redact
from weft.urls import is_url
from weft.workflow.task import JobSpec, Task
from weft.workflow.templates import fill_template, list_fields
from weft.workflow.workflow import Workflow

_NUMBER_BITS = 30
_SLOTS = {PROLOG: 1, EPILOG: 2, EVALUATOR: 3}
_LONGEST_LINE = 200
_TAIL_BYTES = 4096


def module_number(attempt: int, module: str) -> int:
    """Return the number under which the transport runs a module of an attempt.

    >>> module_number(7, "prolog") == 7 + 2**30
    True
    """
    return attempt + (_SLOTS[module] << _NUMBER_BITS)


def is_module_number(number: int) -> bool:
    """Return whether a number is that of a module, not of an attempt."""
    return number >> _NUMBER_BITS > 0


def describe_failure(module: str, report: ProgramReport, records: str) -> str:
    """Return why a module failed, with the last line of its standard error; "" after exit code 0."""
    code, by, cause = report.get("code"), report.get("signal"), report.get("cause") or ""
    if code == 0 and not cause:
        return ""
    if cause == "timeout":
        how = f"{report.get('text') or 'it took too long'}; its limit is `timeouts.{module}`"
    elif cause:
        how = str(report.get("text") or cause)
    elif code is not None:
        how = f"exit code {code}"
    else:
        how = signal.Signals(by).name if by in signal.valid_signals() else f"signal {by}"
    said = read_last_line(records, f"{module}.err")
    return f"the {module} failed: {how}" + (f": {said}" if said else "")


def read_last_line(records: str, name: str) -> str:
    """Return the last line of a record file that is not blank, shortened; "" if there is no such line."""
    try:
        text = read_task_file(Path(records), name, tail=True, max_bytes=_TAIL_BYTES) or ""
    except JobProblem:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return shorten(redact(lines[-1]), _LONGEST_LINE) if lines else ""


_DIE_WITH_PARENT = (
    "import ctypes, os, signal, sys\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)\n"
    "os.getppid() == int(sys.argv[1]) or os._exit(1)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)
"""Python program that executes another program; the kernel kills that program when the engine ends."""
_MOST_OUTPUT_BYTES = 1 << 20


class SelectorPrograms:
    """Runs the selector programs of tasks on the engine's computer; called by staging threads."""

    def __init__(self, context: ProjectContext) -> None:
        self._context = context

    def choose(self, command: SelectMachines) -> MachinesSelected:
        """Return the machines in the order that the selector program prints.

        If the program fails, the machines are in the order of the candidates, and ``problem`` of the event
        says why.
        """
        try:
            order = self._read(self._run(command), command.candidates)
        except JobProblem as problem:
            usual = tuple(each.machine for each in command.candidates)
            reason = f"{problem}; machines are taken by rank and estimated end"
            return MachinesSelected(run=command.run, task=command.task, machines=usual, problem=reason)
        return MachinesSelected(run=command.run, task=command.task, machines=order)

    def _run(self, command: SelectMachines) -> str:
        context = self._context
        compiled = context.compiled_workflow(command.run)
        job = compiled.description(command.task).job
        assert job is not None
        argv = shlex.split(job.selector_program)
        limit_s = context.task_settings(command.run, command.task).selector_timeout_s
        given = json.dumps(
            {
                "task": compiled.names[command.task],
                "workflow": compiled.graph.workflow.name,
                "candidates": [self._describe(each) for each in command.candidates],
            }
        )
        secrets = context.secrets_of(command.run).environment(job)
        own = {**job.env, "WEFT_TASK": compiled.names[command.task]}
        given_all = {**os.environ, **own, **secrets}
        env = {name: value for name, value in given_all.items() if value is not None}
        started = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *argv]
        with subprocess.Popen(  # noqa: S603 -- a program that the workflow names
            started, cwd=context.workflow_folder(command.run), env=env, start_new_session=True, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace",
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(given, limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                what = f"the selector failed: it was still running after {limit_s:g} s"
                raise JobProblem(f"{what}; its limit is `timeouts.selector`") from None
        if process.returncode != 0:
            said = [line.strip() for line in err.splitlines() if line.strip()]
            text = f": {shorten(redact(said[-1]), _LONGEST_LINE)}" if said else ""
            raise JobProblem(f"the selector failed: exit code {process.returncode}{text}")
        return out[:_MOST_OUTPUT_BYTES]

    def _describe(self, candidate: SelectionCandidate) -> dict[str, Any]:
        machine = machine_values(self._context.machines[candidate.machine])
        return {
            **{key: value for key, value in machine.items() if value is not None},
            "machine": self._context.machines[candidate.machine].name,
            "count": candidate.count,
            "seconds": candidate.seconds,
            "ready_s": candidate.ready_s,
            "wait_s": candidate.wait_s,
            "free_nodes": candidate.free_nodes,
            "speed_factor": candidate.speed_factor,
            "rank": candidate.rank,
        }

    def _read(self, text: str, candidates: Sequence[SelectionCandidate]) -> tuple[int, ...]:
        """Return the machines whose names a selector printed, one per line."""
        known = {self._context.machines[each.machine].name: each.machine for each in candidates}
        names = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
        for name in names:
            if name not in known:
                close = nearest(name, known)
                advice = f"did it mean {close!r}?" if close else "it must print names of candidates"
                raise JobProblem(
                    f"the selector printed {shorten(repr(name), 60)}, which is no candidate", advice=advice
                )
        return tuple(known[name] for name in names)


_INTERPRETERS = (
    "sh",
    "bash",
    "dash",
    "ksh",
    "zsh",
    "python",
    "python3",
    "perl",
    "ruby",
    "Rscript",
    "node",
    "lua",
)


def check_programs(workflows: Mapping[str, Workflow], folders: Mapping[str, str | Path]) -> None:
    """Raise InvalidInput if an evaluator or selector program does not exist or is not executable here.

    The same error is raised for an input, an output or a store of restart files whose URL cannot be used.
    ``folders`` gives the folder of each workflow's file.
    """
    problems: list[Problem] = []
    for key, workflow in workflows.items():
        found = [each for task in workflow.tasks for each in _program_problems(task, Path(folders[key]))]
        found += [each for task in workflow.tasks for each in _url_problems(task, workflow)]
        problems += locate_problems(found, workflow.document)
    if problems:
        raise InvalidInput(problems)


def _program_problems(task: Task, folder: Path) -> Iterator[Problem]:
    checkpoint = task.recovery.checkpoint
    url = "" if checkpoint is None or checkpoint.url is None else checkpoint.url
    if is_url(url) and (why := find_url_problem(url)):
        what = f"checkpoint.url {shorten(url, 60)!r} of task {task.name!r}: {why}"
        rule = "it must be a path or a URL that can be written from here"
        yield Problem(what=what, rule=rule, path=("tasks", task.name, "checkpoint", "url"))
    job = task.job or JobSpec()
    declared = {item.file for item in task.inputs}
    for key, line in (("evaluator", job.evaluator_program), ("selector", job.selector_program)):
        if not line or (key == "evaluator" and line.startswith("cpu:")):
            continue
        what = f"{key} {shorten(line, 60)!r} of task {task.name!r}"
        path = ("tasks", task.name, key)
        if key == "selector" and list_fields(line):
            rule = "it must have no fields; it gets the candidates on its standard input"
            yield Problem(what=what, rule=rule, path=path)
        elif why := _find_program_problem(line, folder, declared if key == "evaluator" else ()):
            yield Problem(what=f"{what}: {why}", rule="it must name a program that exists here", path=path)


def _url_problems(task: Task, workflow: Workflow) -> Iterator[Problem]:
    """Yield a problem for each input or output of a task whose URL has a scheme that cannot be used here.

    Tasks without a program are not checked.
    """
    if task.job is None:
        return
    values = {name: value for name, value in workflow.params.items() if not isinstance(value, Expression)}
    fetched = (("inputs", given.source or given.file) for given in task.inputs)
    published = (("outputs", output.target or "") for output in task.outputs)
    for key, text in (*fetched, *published):
        url = fill_template(text, values, last=False) if "{" in text else text
        if is_url(url) and (why := find_kind_problem(url)):
            what = f"{shorten(redact(url), 60)!r} in {key} of task {task.name!r}: {why}"
            rule = "it must be a path, or a URL of a kind that can be used from here"
            advice = "use file:, http:, https:, or another kind that fsspec supports"
            yield Problem(what=what, rule=rule, advice=advice, path=("tasks", task.name, key))


def _find_program_problem(line: str, folder: Path, declared: Iterable[str]) -> str:
    """Return why the program of a command line cannot be executed.

    The result is "" if it can be executed, or if its name contains template fields.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        return str(error)
    if not words or list_fields(words[0]):
        return ""
    program, present = words[0], {os.path.normpath(name) for name in declared}
    if "/" not in program:
        return _find_missing_word(program, words[1:], folder, present)
    if os.path.normpath(program) in present:
        return ""
    if not (folder / program).is_file():
        return f"{program} does not exist"
    return "" if os.access(folder / program, os.X_OK) else f"{program} is not executable; run chmod +x"


def _find_missing_word(program: str, words: Sequence[str], folder: Path, present: Container[str]) -> str:
    """Return a text if a program is not on the path or an interpreter's script is missing; else "".

    ``words`` are the arguments of the program; ``present`` are the files that the task declares as inputs.
    """
    if shutil.which(program) is None:
        is_here = (folder / program).is_file()
        beside = f"; write ./{program} for the file beside the workflow" if is_here else ""
        return f"{program} is not on the path{beside}"
    script = next((word for word in words if not word.startswith("-")), "")
    if program not in _INTERPRETERS or {"-c", "-m"}.intersection(words) or not script or list_fields(script):
        return ""
    exists = os.path.normpath(script) in present or (folder / script).is_file()
    return "" if exists else f"{script} does not exist"
