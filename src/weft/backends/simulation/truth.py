"""True durations and ends of the tasks of a simulated run.

The true duration is the estimate times a bias times lognormal noise of mean 1 with the given standard
deviation: ``exp(s z - s^2/2)``, ``s^2 = ln(1 + noise^2)``, z standard normal. (The mean is preserved, not the
median.) The noise belongs to a task of one run and one iteration and is independent of machine and attempt,
so two policies with the same seed see the same durations. It is drawn in blocks of tasks, each from its own
generator, and therefore depends neither on the order of events nor on the number of tasks. The cost is about
a microsecond per task.

A scenario states how often a loop iterates, whereas a workflow states a condition on exit codes. From the
exit codes that the workflow mentions, two are chosen: one for which the condition holds in the last
iteration, and one for which it does not hold in the iterations before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log1p, sqrt
from typing import TypeVar

from weft.backends.simulation.scenario import Durations, Scenario, find_task_value
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.states import Cause
from weft.errors import InvalidInput
from weft.expressions import Value, evaluate_boolean
from weft.randomness import generator
from weft.workflow.quantity import grows
from weft.workflow.templates import match_names, split_template
from weft.workflow.workflow import Loop, Workflow, find_growth_files, find_named_writer, outcome_codes

_BLOCK = 1024
"""Number of tasks whose noise is drawn together; a block costs about 0.1 ms."""


class TrueDurations:
    """The true durations of the tasks of one run."""

    def __init__(self, durations: Durations, labels: Sequence[str], *, seed: int, run: int) -> None:
        """Create the durations of run number ``run``.

        ``labels`` are the names of all tasks (``lapw1[3]``); the sequence may grow.
        """
        self._durations = durations
        self._by_task = bool(durations.tasks)
        self._labels = labels
        self._seed, self._run = seed, str(run)
        self._blocks: dict[tuple[int, int], list[float]] = {}
        self._laws: dict[str, tuple[float, float]] = {}
        self._common = _lognormal_parameters(durations)
        self.exact = not durations.tasks and self._common == (1.0, 0.0)
        """Whether all durations equal their estimates."""

    def seconds(self, task: int, estimate_s: float, iteration: int = 0) -> float:
        """Return the true duration in seconds of a task with this estimate."""
        return estimate_s * self.factor(task, iteration)

    def factor(self, task: int, iteration: int = 0) -> float:
        """Return the true duration of a task as a multiple of its estimate."""
        bias, spread = self._law_of(task) if self._by_task else self._common
        if spread == 0.0:
            return bias
        number, position = divmod(task, _BLOCK)
        block = self._blocks.get((iteration, number)) or self._draw(iteration, number)
        return bias * exp(spread * (block[position] - 0.5 * spread))

    def _draw(self, iteration: int, number: int) -> list[float]:
        rng = generator(self._seed, "truth", self._run, str(iteration), str(number))
        block: list[float] = rng.standard_normal(_BLOCK).tolist()
        self._blocks[iteration, number] = block
        return block

    def _law_of(self, task: int) -> tuple[float, float]:
        """Return bias and spread of a task, for a scenario that states them by task.

        See ``_lognormal_parameters``.
        """
        label = self._labels[task]
        if (law := self._laws.get(label)) is None:
            law = self._laws[label] = _lognormal_parameters(
                find_task_value(self._durations.tasks, label) or self._durations
            )
        return law


def _lognormal_parameters(durations: Durations) -> tuple[float, float]:
    """Return the bias, and the standard deviation of the logarithm of the noise."""
    return durations.bias, sqrt(log1p(durations.noise**2))


_OTHER_CODES = (0, 1, 2)


def find_loop_exit_codes(
    workflow: Workflow, scenario: Scenario, params: Mapping[str, object]
) -> dict[str, tuple[Loop, int, int, int]]:
    """Return, by name of the last task of each loop: the loop, its iterations, and two exit codes.

    The iterations are the true number. The last task of the loop ends with the first exit code in all
    iterations but the last, and with the second exit code in the last iteration. A loop whose condition does
    not depend on the exit code of its last task is left out: the results in the scenario decide how often it
    iterates.
    """
    found = {}
    for loop in workflow.loops:
        if loop.until is None:
            continue
        codes = dict.fromkeys((*outcome_codes(workflow, loop.last), *_OTHER_CODES))
        holds = [code for code in codes if _condition_holds(loop, code, params)]
        fails = [code for code in codes if code not in holds]
        if holds and fails:
            found[loop.last] = (loop, scenario.iterations.get(loop.name, 1), fails[0], holds[0])
    return found


def _condition_holds(loop: Loop, code: int, params: Mapping[str, object]) -> bool:
    assert loop.until is not None
    names = {**params, "exit_code": code, f"{loop.last}.exit_code": code, "iteration": 1}
    try:
        return evaluate_boolean(loop.until, names)
    except InvalidInput:
        return False


_CAUSES = {
    "oom": Cause.OUT_OF_MEMORY,
    "preempted": Cause.PREEMPTED,
    "staging": Cause.STAGING,
    "no-exit-code": Cause.NONE,
}
"""By word that a scenario may state instead of an exit code: the cause that is reported."""

_Found = TypeVar("_Found")

_TaskEnd = tuple[int | None, Cause, Mapping[str, Value], Mapping[str, tuple[str, ...]]]


_SUCCESS: _TaskEnd = (0, Cause.NONE, {}, {})


class TaskEndings:
    """How the attempts of the tasks of one run truly end."""

    def __init__(self, compiled: CompiledWorkflow, scenario: Scenario) -> None:
        workflow = compiled.graph.workflow
        self._scenario = scenario
        self._loops = find_loop_exit_codes(workflow, scenario, compiled.graph.params)
        self._times: dict[int, int] = {}
        """By task: how many of its attempts have ended."""
        self._files: dict[str, list[str]] = {}
        for file in find_growth_files(workflow):
            if (
                writer := find_named_writer(workflow.tasks, file) or _find_writer(workflow, file)
            ) is not None:
                self._files.setdefault(writer, []).append(file)
        self._plain = not (self._loops or self._files or scenario.exit_codes or scenario.results)

    def of(self, compiled: CompiledWorkflow, task: int, iteration: int) -> _TaskEnd:
        """Return exit code, cause, result and lines of growing files for the next attempt of a task."""
        if self._plain:
            return _SUCCESS
        name = compiled.names[task]
        described = compiled.graph.description(task)
        description = described.name
        times = self._times.get(task, 0)
        self._times[task] = times + 1
        result = _nth(find_task_value(self._scenario.results, name), times) or {}
        lines = {file: self._lines(file) for file in self._files.get(description, ())}
        stated = _nth(find_task_value(self._scenario.exit_codes, name), times)
        if isinstance(stated, str):
            # As in a real run: it is the wrapper's failure if the task has its own.
            wrapped = stated == "no-exit-code" and bool(described.job and described.job.wrapper)
            return None, Cause.WRAPPER if wrapped else _CAUSES[stated], {}, {}
        if stated is not None:
            return stated, Cause.NONE, result, lines
        if (loop := self._loops.get(description)) is not None:
            _, iterations, going_on, converged = loop
            return (converged if iteration >= iterations else going_on), Cause.NONE, result, lines
        return 0, Cause.NONE, result, lines

    def _lines(self, file: str) -> tuple[str, ...]:
        return tuple(str(line) for line in range(1, self._scenario.lines.get(file, 1) + 1))


def _find_writer(workflow: Workflow, file: str) -> str | None:
    """Return the first task with an output of this name, else with one that wildcards and fields match."""
    possible = None
    for task in workflow.tasks:
        for output in task.outputs:
            if output.file == file:
                return task.name
            if possible is None and not grows(task.sweep):
                pattern = "".join(
                    piece if isinstance(piece, str) else "*" for piece in split_template(output.file)
                )
                possible = task.name if match_names([file], pattern) else None
    return possible


def _nth(values: Sequence[_Found] | None, times: int) -> _Found | None:
    """Return the value at index ``times``, or the last one if there are fewer; None: no values."""
    return None if not values else values[min(times, len(values) - 1)]
