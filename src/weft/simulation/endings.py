"""How the tasks of a run really end: exit codes, results, and the lines of the files they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from weft.engine.state.known import Known
from weft.expressions import Value
from weft.simulation.loop_truth import exit_codes_of_loops
from weft.simulation.scenario import Scenario, of_task
from weft.workflow.growth import growing_files

__all__ = ["Endings"]

_CAUSES = {"oom": "oom", "preempted": "preempted", "staging": "staging", "no-exit-code": ""}
"""The words a scenario may use instead of an exit code, with the cause that is reported."""

_Found = TypeVar("_Found")

_Ending = tuple[int | None, str, Mapping[str, Value], Mapping[str, tuple[str, ...]]]


class Endings:
    """The true ends of one run's tasks."""

    def __init__(self, known: Known, scenario: Scenario) -> None:
        workflow = known.graph.workflow
        self._scenario = scenario
        self._loops = exit_codes_of_loops(workflow, scenario, known.graph.params)
        self._times: dict[int, int] = {}
        """How often each task that the scenario speaks of has ended by itself."""
        self._files: dict[str, list[str]] = {}
        for file in growing_files(workflow):
            writer = next(
                (task.name for task in workflow.tasks if any(out.file == file for out in task.outputs)), None
            )
            if writer is not None:
                self._files.setdefault(writer, []).append(file)
        self._plain = not (self._loops or self._files or scenario.exit_codes or scenario.results)

    def of(self, known: Known, task: int, iteration: int) -> _Ending:
        """Give exit code, cause, result and the lines of growing files of a task that ends now."""
        if self._plain:
            return 0, "", {}, {}
        name = known.names[task]
        description = known.graph.description(task).name
        times = self._times.get(task, 0)
        self._times[task] = times + 1
        result = _nth(of_task(self._scenario.results, name), times) or {}
        lines = {file: self._lines(file) for file in self._files.get(description, ())}
        stated = _nth(of_task(self._scenario.exit_codes, name), times)
        if isinstance(stated, str):
            return None, _CAUSES[stated], {}, {}
        if stated is not None:
            return stated, "", result, lines
        loop = self._loops.get(description)
        if loop is not None:
            _, iterations, going_on, converged = loop
            return (converged if iteration >= iterations else going_on), "", result, lines
        return 0, "", result, lines

    def _lines(self, file: str) -> tuple[str, ...]:
        number = self._scenario.lines.get(file, 1)
        return tuple(str(line) for line in range(1, number + 1))


def _nth(values: Sequence[_Found] | None, times: int) -> _Found | None:
    """Give the value of the n-th end; the last one holds from then on; None: nothing is stated."""
    return None if not values else values[min(times, len(values) - 1)]
