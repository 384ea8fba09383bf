"""Rendering: from the description of a task and a Start to the program that is run (format: "Workflow").

A command text is a line for ``/bin/sh -eu`` in which every replacement is quoted; a list runs without a
shell; ``call`` runs a Python function in a process of its own. The environment says what was *allocated*
(design section 8). Nothing is written and no program is asked: the same Start gives the same job.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from weft.backends.inputs import outputs_of
from weft.backends.jobs.other_results import OtherResults
from weft.backends.jobs.problem import JobProblem
from weft.backends.jobs.recipe import Recipe, Written, as_line, as_words, recipe_of
from weft.backends.jobs.rendered_job import RenderedJob
from weft.backends.jobs.surroundings import Around, conda_prefix, surround
from weft.backends.jobs.values import ALLOCATED, Values, machine_values
from weft.backends.jobs.words import brought_along
from weft.backends.said import refuse_astray
from weft.backends.staging.problem import StagingProblem
from weft.engine.messages.commands import Start
from weft.engine.state.known import Known
from weft.errors import shorten
from weft.expressions import Value
from weft.platform.machine import Machine
from weft.workflow.records.recovery import NO_RECOVERY

__all__ = ["PROGRESS_FILE", "RESULT_FILE", "news_files", "render", "results_needed"]

PROGRESS_FILE = ".weft-progress"
"""Where a task reports its progress that names no file for it."""

RESULT_FILE = ".weft-result.json"
"""Where a task may leave its result."""

_MOST_IN_ARGUMENT = 100_000
"""Linux takes 128 KiB as one argument; what is longer is run from the script."""
_NO_RESULTS: Mapping[str, Mapping[str, Value]] = {}
_CALLING = "weft.backends.jobs.calling"
_TOLD = ("WEFT_TASK", "WEFT_ATTEMPT", "WEFT_NODES", "WEFT_CORES", "WEFT_MEM_MB", "WEFT_ITERATION",
         "WEFT_RESTART", "WEFT_CHECKPOINT_DIR", "WEFT_CHECKPOINT_FILES", "WEFT_PROGRESS_FILE",
         "WEFT_RESULT_FILE", "WEFT_TIME_LEFT_S", "WEFT_FOLDER")  # fmt: skip


def render(
    known: Known,
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
) -> RenderedJob:
    """Render the job of an attempt; raises a JobProblem that says what stands in the way.

    ``inputs``: the names under which its inputs lie in ``workdir``. ``results``: by the name of a
    description, ``{"exit_code": 0, "result": {...}}`` of those that ``results_needed`` names.
    ``attempt_number``: 1 is the task's first. ``restart``: whether restart files were put in place.
    """
    recipe = _kitchen(known).recipe(known, start.task)
    rendering = _Rendering(known, start, machine, recipe, folder, inputs, results)
    written = recipe.ready or rendering.written(workdir)
    outputs, work = rendering.outputs, workdir
    progress, restarts = news_files(known, start.task)
    env = rendering.environment(work, progress, restarts)
    env["WEFT_ATTEMPT"] = str(attempt_number)
    env["WEFT_RESTART"] = "1" if restart else "0"
    stdin, stdout, stderr = rendering.streams()
    own = tuple(name for name in (stdout, stderr) if name and not name.startswith("/"))
    words: tuple[str, ...] = ()
    if recipe.words and recipe.runs:
        declared = {*inputs, *outputs, *restarts, progress, *own}
        words = brought_along(rendering.words(), str(folder), declared)
    argv, body = written.argv, written.body
    needs_script = body is not None and len(body) > _MOST_IN_ARGUMENT // 4 and _is_long(body)
    return RenderedJob(
        task=known.names[start.task],
        argv=("/bin/sh", f"{records}/command.sh") if needs_script else argv,
        env=env,
        workdir=work,
        stdin=None if stdin is None else _within(work, stdin),
        stdout=f"{records}/out" if stdout is None else _within(work, stdout),
        stderr=f"{records}/err" if stderr is None else _within(work, stderr),
        streams=own,
        words=words,
        body=body,
        needs_script=needs_script,
        command=written.meaning,
        declared=recipe.env,
        environment=recipe.job.environment,
        outputs=tuple(outputs),
        version=recipe.job.version or "",
        identity=f"{_relative(folder, project)}:{known.names[start.task]}:{start.iteration}",
    )


def results_needed(known: Known, task: int) -> Mapping[str, int]:
    """Give the tasks whose results a task's command speaks of, by the name of their description."""
    kitchen = _kitchen(known)
    names = kitchen.recipe(known, task).names
    return kitchen.others.of(known, task, names) if any("." in name for name in names) else {}


def news_files(known: Known, task: int) -> tuple[str, tuple[str, ...]]:
    """Name the files in which a task reports its progress, and its restart files."""
    recovery = known.description(task).recovery
    if recovery is NO_RECOVERY:
        return PROGRESS_FILE, ()
    values = Values({**known.graph.context(task), "task": known.names[task]}, {}, _NO_RESULTS)
    files = recovery.checkpoint.files if recovery.checkpoint is not None else ()
    progress = PROGRESS_FILE if recovery.progress is None else values.text(recovery.progress)
    return progress, tuple(values.text(file) for file in files)


class _Kitchen:
    """What was worked out for one workflow; it does not hold it, lest it be kept for ever."""

    def __init__(self, known: Known) -> None:
        self.others = OtherResults(known)
        self._recipes: dict[int, Recipe] = {}

    def recipe(self, known: Known, task: int) -> Recipe:
        """Give what the attempts of a task have in common."""
        template = known.template(task)
        found = self._recipes.get(template)
        if found is None:
            found = self._recipes[template] = recipe_of(known.description(task))
        return found


_KITCHENS: WeakKeyDictionary[Known, _Kitchen] = WeakKeyDictionary()


def _kitchen(known: Known) -> _Kitchen:
    found = _KITCHENS.get(known)
    if found is None:
        found = _KITCHENS[known] = _Kitchen(known)
    return found


class _Rendering:
    """One attempt, and what its names stand for."""

    def __init__(
        self,
        known: Known,
        start: Start,
        machine: Machine,
        recipe: Recipe,
        folder: Path,
        inputs: Sequence[str],
        results: Mapping[str, Mapping[str, Value]],
    ) -> None:
        self.known = known
        self.start = start
        self.machine = machine
        self.recipe = recipe
        self.folder = folder
        self.inputs = inputs
        self.results = results
        self.outputs = outputs_of(known, start.task, start.iteration)
        memory = machine.memory if start.memory_bytes is None else start.memory_bytes
        self.memory_mb = None if memory is None else int(memory // 1_000_000)
        """What the task asked for; without a demand, what the machine has."""
        # Where a node is a core, several of them may make one of the user's nodes.
        self.cores = max(1, start.nodes // max(1, start.count)) if machine.node_is_core else machine.cores
        self._values: Values | None = None

    @property
    def values(self) -> Values:
        """Give what the names in braces stand for."""
        if self._values is None:
            self._values = self._make_values(by_name=False)
        return self._values

    def _make_values(self, *, by_name: bool) -> Values:
        asked = any(name.startswith("machine.") for name in self.recipe.names)
        machine = machine_values(self.machine) if asked else {}
        return Values(self._filled_in(), machine, self.results, by_name=by_name)

    def _filled_in(self) -> dict[str, Value]:
        start = self.start
        return {
            **self.known.graph.context(start.task),
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "nodes": start.count,
            "cores": self.cores,
            "memory_mb": self.memory_mb,
            "iteration": start.iteration,
            "task": self.known.names[start.task],
        }

    def words(self) -> Sequence[str]:
        """List the words of the job that may name files."""
        return self.recipe.words if self.recipe.fixed else [self.values.text(w) for w in self.recipe.words]

    def written(self, workdir: str) -> Written:
        """Write the command out."""
        plain = self._plain(self.values)
        named = self._plain(self._make_values(by_name=True)) if self.recipe.by_attempt else plain
        if not self.recipe.around:
            return Written(plain.argv, plain.body, named.meaning)
        job, values = self.recipe.job, self.values
        around = Around(
            environment=job.environment,
            prolog=values.line(job.prolog or ""),
            wrapper=values.line(job.wrapper or ""),
            epilog=values.line(job.epilog or ""),
            conda_prefix=conda_prefix(job.environment, self.folder, Path(workdir).parent.parent),
        )
        assert plain.argv is not None
        body = surround(shlex.join(plain.argv), around, [*self.recipe.env, *_TOLD])
        named_values = self._make_values(by_name=True)
        others = [named_values.line(text or "") for text in (job.prolog, job.wrapper, job.epilog)]
        return Written(("/bin/sh", "-c", body), body, "\n".join([named.meaning, *others]))

    def _plain(self, values: Values) -> Written:
        """Write the command without its surroundings."""
        job = self.recipe.job
        arguments = values.words(job.arguments)
        if self.recipe.calls:
            return self._call(arguments)
        if isinstance(job.command, str):
            return as_line(" ".join([values.line(job.command), *map(shlex.quote, arguments)]))
        return as_words([*values.words(job.command or ()), *arguments])

    def _call(self, arguments: Sequence[str]) -> Written:
        """Run a Python function: it is given the values that it has parameters for."""
        job, filled = self.recipe.job, self._filled_in()
        assert job.call is not None
        given = json.dumps(filled, default=str)
        if len(given) > _MOST_IN_ARGUMENT:
            what = f"the parameters of {job.call} take {len(given)} bytes"
            rule = f"at most {_MOST_IN_ARGUMENT} bytes are handed to a function"
            raise JobProblem(what, rule=rule, advice="put large ones into a file and declare it as an input")
        elsewhere = job.environment is not None and (job.environment.container or job.environment.conda)
        # -P: what lies in the task's directory must not stand in for modules of Python itself.
        python = ["python3"] if elsewhere else [sys.executable, "-P"]
        kept = {name: value for name, value in filled.items() if name not in ALLOCATED}
        meaning = shlex.join([job.call, json.dumps(kept, default=str, sort_keys=True), *arguments])
        return as_words([*python, "-m", _CALLING, job.call, given, *arguments], meaning)

    def streams(self) -> tuple[str | None, str | None, str | None]:
        """Name the files of the three streams; None: the usual one."""
        job = self.recipe.job
        if job.stdin is None and job.stdout is None and job.stderr is None:
            return None, None, None
        stdin, stdout, stderr = (
            text and (text if self.recipe.fixed else self.values.text(text))
            for text in (job.stdin, job.stdout, job.stderr)
        )
        for text in (job.stdin, job.stdout, job.stderr):
            if text:
                self._refuse_astray(text)
        for key, name in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            if name and (".." in name.split("/") or "\0" in name or name.endswith("/")):
                rule = "a stream is a file in the task's own directory, or has an absolute path"
                raise JobProblem(f"{key} is {shorten(repr(name))}", rule=rule)
            if name and key != "stdin" and name in self.inputs:
                raise JobProblem(
                    f"{key} is {shorten(repr(name))}, an input", rule="inputs are not written to"
                )
        return stdin or None, stdout or None, stderr or None

    def _refuse_astray(self, text: str) -> None:
        try:
            refuse_astray(self.known.description(self.start.task), text, self._said())
        except StagingProblem as problem:
            raise JobProblem(str(problem)) from None

    def _said(self) -> dict[str, Value]:
        """Give what names stand for that may be a task's word."""
        results = {
            f"{name}.result.{key}": value
            for name, told in self.results.items()
            for key, value in _mapping(told.get("result")).items()
        }
        return {**self._filled_in(), **results}

    def environment(self, work: str, progress: str, restarts: Sequence[str]) -> dict[str, str]:
        """Give the variables of design section 8."""
        start = self.start
        env = {
            **self.recipe.env,
            "WEFT_TASK": self.known.names[start.task],
            "WEFT_NODES": str(start.count),
            "WEFT_CORES": str(self.cores),
            "WEFT_ITERATION": str(start.iteration),
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
        if self.recipe.calls:
            env["WEFT_FOLDER"] = str(self.folder)
        return env


def _mapping(value: object) -> Mapping[str, Value]:
    return value if isinstance(value, Mapping) else {}


def _within(work: str, name: str) -> str:
    return name if name.startswith("/") else f"{work}/{name}"


def _is_long(text: str) -> bool:
    return len(text.encode()) > _MOST_IN_ARGUMENT


def _relative(folder: Path, project: Path) -> str:
    """Name a workflow's folder as seen from the project, which may be moved as a whole."""
    inside, outside = str(folder), str(project)
    return (
        inside[len(outside) + 1 :]
        if inside.startswith(outside + "/")
        else ""
        if inside == outside
        else inside
    )
