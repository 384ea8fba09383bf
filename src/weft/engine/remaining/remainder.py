"""The remainder of a run as an instance: S1's static graph, with what runs and where data lie around it.

R. Prodan, T. Fahringer, SAC 2005 (spec s1 sections 8 and 10). Tasks that ended or run properly are left out.
Where a task of the window needs their data, a row without work stands for them: pinned to the machine where
the data lie, not before the end that is expected of a running one. So data that are already somewhere cost
what moving them costs. Restart files stand there in the same way.

Deviations. Of the tasks that S1 runs again, those that are not tied to a machine that is bound anew are left
out, because their outputs exist; with ``bound_ancestors: lost`` also those that are (see
``deciding.laddering``). Speeds are believed, as of the last news. Approximated: data that are under way or
lie at several places count as lying where they were made; what one iteration hands to the next is not
counted; restart files that fit one node count only spare nothing where a task may choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.engine.remaining.occupation import Occupation
from weft.engine.remaining.standings import situation_of
from weft.engine.restarts import spared, spared_if_ended
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import TaskState
from weft.engine.window.bindings import Variable
from weft.engine.window.situation import Situation, Standing
from weft.engine.window.static_dag import Window, static_dag
from weft.instance.instance import Instance
from weft.instance.part import part_of
from weft.workflow.unfolding.subgraph import Link, Row, subgraph
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER

__all__ = ["Remainder", "remainder_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Remainder:
    """What is planned again."""

    instance: Instance
    tasks: Mapping[str, int]
    """The tasks that are planned, by the name they have in the instance; a loop's with their iteration."""
    moving: tuple[str, ...]
    """Of these, the running ones that leave their machines."""
    again: tuple[str, ...]
    """Of these, completed ones that run again."""
    running_until_s: float
    """When the last of the tasks that are left out because they run ends, on the engine's clock."""


def remainder_of(state: State, run: Run) -> Remainder:
    """Make the remainder of a run."""
    situation = situation_of(state, run, migrating=state.settings.migrate != "never")
    return _Making(state, run, situation, static_dag(situation)).remainder()


class _Making:
    """A remainder in the making."""

    def __init__(self, state: State, run: Run, situation: Situation, window: Window) -> None:
        self.state, self.run = state, run
        self.situation, self.window = situation, window
        self.fresh = frozenset(window.fresh)
        self.kept = tuple(task for task in window.tasks if not self._done_with(task))
        self.rows: list[Row] = []
        self.links: list[Link] = []
        self.variables: list[str] = []
        self.pinned: dict[int, int] = {}
        self.number: dict[Variable, int] = {}
        self.row_of: dict[int, int] = {}
        self.standing_row: dict[int, int] = {}
        """By task: the row that stands for its outputs."""
        self.before: dict[int, list[int]] = {}
        """By task: what comes before it inside the window."""
        for tail, head in window.edges:
            self.before.setdefault(head, []).append(tail)
        self.earliest: list[float] = []
        self.left: list[float] = []
        replanned = {run.attempt_of[task] for task in self.kept if task in run.attempt_of}
        self.occupation = Occupation(state, replanned, run.known.graph.resource_names)

    def _done_with(self, task: int) -> bool:
        """Say whether a task of the window need not run: it has completed, and its outputs are kept."""
        if task in self.fresh or self.situation.standing[task] is not Standing.COMPLETED:
            return False
        if self.run.state[task] != TaskState.COMPLETED:
            return True
        return not (task in self.window.moving and self.state.settings.bound_ancestors == "always")

    def remainder(self) -> Remainder:
        """Put it together."""
        run, state = self.run, self.state
        for task in self.kept:
            self._add(task)
        for task in self.kept:
            self._connect(task)
        graph, order = subgraph(run.known.graph, self.rows, self.links, self.variables)
        machines = state.machines
        instance = part_of(
            run.instance,
            graph,
            np.array([self.rows[position].task for position in order], dtype=np.uint32),
            left=np.array([self.left[position] for position in order], dtype=np.float64),
            speed=np.array([machine.speed_factor for machine in machines], dtype=np.float64),
            usable=np.array(
                [not state.inquiries.is_ruled_out(machine.index) for machine in machines], dtype=np.bool_
            ),
            pinned=self.pinned,
            earliest_start_s=np.array([self.earliest[position] for position in order], dtype=np.float64),
            busy=tuple(self.occupation.busy),
        )
        named = {self.rows[row].name: task for task, row in self.row_of.items()}
        standing = self.situation.standing
        return Remainder(
            instance=instance,
            tasks=named,
            moving=tuple(name for name, task in named.items() if standing[task] is Standing.RUNNING),
            again=tuple(
                name
                for name, task in named.items()
                if standing[task] is Standing.COMPLETED and task not in self.fresh
            ),
            running_until_s=max(
                (
                    self.occupation.ends_s[number]
                    for task, number in run.attempt_of.items()
                    if task not in self.row_of
                ),
                default=0.0,
            ),
        )

    def _add(self, task: int) -> None:
        """Add the row of a task that is planned."""
        known, bindings = self.run.known, self.window.bindings
        iteration = self.situation.iteration[task] + (task in self.fresh)
        name = known.names[task]
        label = f"{name}#{iteration}" if task in self.run.loops.around else name
        source = None
        if known.kind[task] == TRANSFER:
            source = self._variable(bindings.source[task])
        self.row_of[task] = self._row(
            Row(
                task=task,
                name=label,
                variable=self._variable(bindings.machine[task]),
                source_variable=source,
            ),
            left=1.0 - self._spared(task),
        )

    def _row(self, row: Row, *, left: float = 0.0, earliest_s: float = 0.0) -> int:
        self.rows.append(row)
        self.left.append(left)
        self.earliest.append(max(0.0, earliest_s))
        return len(self.rows) - 1

    def _spared(self, task: int) -> float:
        """Give the share of the work that restart files spare a task, whatever node count it will have."""
        state, run = self.state, self.run
        if task in self.fresh or run.known.kind[task] != COMPUTE:
            return 0.0
        number = run.attempt_of.get(task)
        attempt = state.attempts[number] if number is not None else None
        if attempt is not None and attempt.started_s is not None:
            return min(spared_if_ended(state, run, attempt, count) for count in self._counts(task))
        if task not in run.checkpoint:
            return 0.0
        return min(spared(state, run, task, count) for count in self._counts(task))

    def _counts(self, task: int) -> set[int]:
        """Give the node counts a task may have somewhere."""
        return {count for counts in self.run.known.options(task).counts.values() for count in counts}

    def _variable(self, variable: Variable) -> int:
        """Give the number of a variable; one that keeps its machine is pinned."""
        number = self.number.get(variable)
        if number is None:
            number = self.number[variable] = len(self.variables)
            self.variables.append(f"{self.run.known.graph.variables[variable.machine]}#{variable.iteration}")
            if variable in self.window.bindings.pinned:
                machine = self._machine_of(variable.machine)
                if machine is not None and self.state.machines[machine].up:
                    self.pinned[number] = machine
        return number

    def _machine_of(self, variable: int) -> int | None:
        """Give the machine an abstract machine is bound to now; None: none."""
        bound = self.run.binding.get(variable)
        if bound is not None:
            return bound
        for task in np.flatnonzero(self.run.known.graph.variable == variable).tolist():
            place = self._place(task)
            if place is not None:
                return place
        return None

    def _place(self, task: int) -> int | None:
        """Give the machine where a task runs or ran last."""
        number = self.run.attempt_of.get(task)
        if number is not None:
            return self.state.attempts[number].machine
        return self.run.where[task] if self.run.where[task] >= 0 else None

    def _connect(self, task: int) -> None:
        """Add the edges that lead to a task: from other rows, from what runs, from where data lie."""
        known, graph = self.run.known, self.run.known.graph
        head = self.row_of[task]
        inner = set(self.before.get(task, ()))
        for tail, edge in zip(known.before(task), known.edges_before(task), strict=True):
            data = (
                float(graph.edge_bytes[edge]),
                float(graph.edge_files[edge]),
                float(graph.edge_seconds[edge]),
            )
            if tail in inner and tail in self.row_of:
                inner.discard(tail)
                start: int | None = self.row_of[tail]
            else:
                start = self._stand(tail, task, moves=any(data))
            if start is not None:
                self.links.append(
                    Link(tail=start, head=head, size_bytes=data[0], files=data[1], seconds=data[2])
                )
        # What is left closes a loop: the next iteration waits for this one.
        for tail in sorted(inner):
            if tail in self.row_of:
                self.links.append(Link(tail=self.row_of[tail], head=head))
        self._bring_restart_files(task, head)

    def _stand(self, tail: int, head: int, *, moves: bool) -> int | None:
        """Give the row that stands for a task that is not planned; None: nothing of it is waited for."""
        running = self.situation.standing[tail] is Standing.RUNNING
        if running and head in self.fresh:
            return None
        place = self._place(tail)
        if place is None or not (running or (moves and self.run.state[tail] == TaskState.COMPLETED)):
            return None
        row = self.standing_row.get(tail)
        if row is None:
            end_s = self.state.now
            number = self.run.attempt_of.get(tail)
            if number is not None:
                end_s = self.occupation.ends_s[number]
            row = self._standing(tail, f"data of {self.run.known.names[tail]}", place, end_s - self.state.now)
            self.standing_row[tail] = row
        return row

    def _standing(self, task: int, name: str, machine: int, earliest_s: float = 0.0) -> int:
        self.pinned[len(self.variables)] = machine
        self.variables.append(name)
        row = Row(task=task, name=name, variable=len(self.variables) - 1, stands=True)
        return self._row(row, earliest_s=earliest_s)

    def _bring_restart_files(self, task: int, head: int) -> None:
        size = self.run.known.restart_bytes(task) if self.left[head] < 1.0 else 0.0
        if size:
            machine = self._place_of_restart_files(task)
            name = f"restart files of {self.run.known.names[task]}"
            row = self._standing(task, name, machine)
            self.links.append(Link(tail=row, head=head, size_bytes=size, files=1.0))

    def _place_of_restart_files(self, task: int) -> int:
        """Give where they lie, or will when the running attempt is told to end."""
        kept = self.run.checkpoint.get(task)
        if kept is not None:
            return kept[1]
        return self.state.attempts[self.run.attempt_of[task]].machine
