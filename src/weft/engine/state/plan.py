"""The plan of a run: a line per task, and the order of the tasks on each machine."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.stored_fields import decode_index, decode_number, decode_text
from weft.records import dataclass
from weft.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine:
    """Planned machine, node count and times of one task."""

    machine: int
    count: int
    start_s: float
    finish_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan as stored with the journal: one line per task, with times on the engine's clock."""

    planner: str
    lines: Mapping[str, PlanLine]
    """Plan lines by task name; the name of a task in a loop may include its iteration: ``lapw1[3]#2``."""
    steps: int = 0
    running_until_s: float = 0.0
    """Expected end of the tasks that were running when the plan was made and have no plan line."""
    moving: tuple[str, ...] = ()
    """Running tasks that violated their contracts and were planned again."""
    again: tuple[str, ...] = ()
    """Completed tasks that must run again because the tasks in ``moving`` leave their machines."""

    @property
    def finish_s(self) -> float:
        """Return the planned end of the run, on the engine's clock."""
        return max([self.running_until_s, *(line.finish_s for line in self.lines.values())])

    def as_record(self) -> dict[str, object]:
        """Return the plan as plain data."""
        rows = [
            [name, line.machine, line.count, line.start_s, line.finish_s] for name, line in self.lines.items()
        ]
        return {
            "planner": self.planner,
            "steps": self.steps,
            "lines": rows,
            "running_until_s": self.running_until_s,
            "moving": list(self.moving),
            "again": list(self.again),
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> StoredPlan:
        """Create a plan from the plain data that ``as_record`` returns."""
        lines = {
            decode_text(name): PlanLine(
                machine=decode_index(machine),
                count=decode_index(count),
                start_s=decode_number(start),
                finish_s=decode_number(finish),
            )
            for name, machine, count, start, finish in record["lines"]
        }
        return cls(
            planner=decode_text(record["planner"]),
            lines=lines,
            steps=decode_index(record["steps"]),
            running_until_s=float(decode_number(record.get("running_until_s", 0.0))),
            moving=tuple(map(decode_text, record.get("moving", ()))),
            again=tuple(map(decode_text, record.get("again", ()))),
        )

    @property
    def key(self) -> str:
        """Return the content hash of the plan."""
        text = json.dumps(self.as_record(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def store_schedule(
    schedule: Schedule,
    compiled: CompiledWorkflow,
    *,
    planner: str,
    steps: int,
    offset_s: float = 0.0,
    tasks: Mapping[str, int] | None = None,
    running_until_s: float = 0.0,
    moving: tuple[str, ...] = (),
    again: tuple[str, ...] = (),
) -> StoredPlan:
    """Convert a schedule to a stored plan; ``offset_s`` is the engine's time at time 0 of the schedule.

    ``tasks`` maps the name of each planned task in the schedule to its index; rows with other names are
    omitted. If it is None, the names are those of the workflow's tasks.
    """
    lines = {}
    columns = (
        schedule.machine.tolist(),
        schedule.nodes.tolist(),
        schedule.start_s.tolist(),
        schedule.finish_s.tolist(),
    )
    index = {name: task for task, name in enumerate(compiled.names)} if tasks is None else tasks
    for name, machine, nodes, start, finish in zip(schedule.tasks, *columns, strict=True):
        if name not in index:
            continue
        lines[name] = PlanLine(
            machine=machine,
            count=_find_count(compiled, index[name], machine, nodes),
            start_s=start + offset_s,
            finish_s=finish + offset_s,
        )
    return StoredPlan(
        planner=planner,
        lines=lines,
        steps=steps,
        running_until_s=running_until_s,
        moving=moving,
        again=again,
    )


def restore_schedule(stored: StoredPlan, compiled: CompiledWorkflow) -> Schedule:
    """Return the schedule of a stored plan that has a line for every task of a workflow."""
    lines = [stored.lines[name] for name in compiled.names]
    nodes = [
        compiled.options(task).nodes[line.machine, line.count] if compiled.group[task] >= 0 else 0
        for task, line in enumerate(lines)
    ]
    return Schedule(
        tasks=tuple(compiled.names),
        machines=tuple(machine.name for machine in compiled.instance.machines),
        machine=np.array([line.machine for line in lines], dtype=np.uint32),
        nodes=np.array(nodes, dtype=np.uint32),
        start_s=np.array([line.start_s for line in lines]),
        finish_s=np.array([line.finish_s for line in lines]),
    )


def _find_count(compiled: CompiledWorkflow, task: int, machine: int, nodes: int) -> int:
    """Return the node count of the mode that allocates ``nodes`` nodes; 0 for a task that uses no nodes."""
    if compiled.group[task] < 0:
        return 0
    options = compiled.options(task)
    allowed = options.counts.get(machine, [])
    return next((count for count in allowed if options.nodes[machine, count] == nodes), nodes)


def invert_order(ordered: list[int]) -> list[int]:
    """Return the position of every task in a permutation of all tasks."""
    places = [0] * len(ordered)
    for place, task in enumerate(ordered):
        places[task] = place
    return places


class RunPlan:
    """The plan that a run follows: a stored plan, indexed by task and by machine."""

    def __init__(
        self,
        stored: StoredPlan,
        compiled: CompiledWorkflow,
        key: str,
        iteration_of: Callable[[int], int] = lambda _: 1,
    ) -> None:
        """Index the stored plan with hash ``key``.

        ``iteration_of`` returns the current iteration of a task.
        """
        self.stored = stored
        self.key = key
        self._tasks = len(compiled)
        self.planned_tasks: dict[int, PlanLine] = {}
        """By task: the plan line for its current iteration.

        If the plan has no line for that iteration, the line of the last planned iteration before it is used.
        If there is none either, the line of the first planned iteration is used.
        """
        by_name: dict[str, list[tuple[int, PlanLine]]] = {}
        for label, line in stored.lines.items():
            name, _, number = label.rpartition("#")
            found = (name, int(number)) if name and number.isdigit() else (label, 0)
            by_name.setdefault(found[0], []).append((found[1], line))
        for task, name in enumerate(compiled.names):
            if lines := by_name.get(name, ()):
                now = iteration_of(task)
                past = [each for each in lines if each[0] <= now]
                # An inner loop that starts again follows the plan of its first planned iteration.
                chosen = max(past, key=itemgetter(0)) if past else min(lines, key=itemgetter(0))
                self.planned_tasks[task] = chosen[1]
        self._turn: dict[int, list[int]] = {}
        """By machine: the compute tasks planned on it, in the order of planned starts."""
        self._ended: dict[int, int] = {}
        """By machine: how many tasks at the beginning of its list in ``_turn`` have ended."""
        for task in sorted(self.planned_tasks, key=lambda task: (self.planned_tasks[task].start_s, task)):
            if compiled.group[task] >= 0:
                self._turn.setdefault(self.planned_tasks[task].machine, []).append(task)

    @cached_property
    def places(self) -> tuple[list[int], list[int]]:
        """Return all tasks by planned start, then index (unplanned tasks last), and each task's position."""
        line = self.planned_tasks
        ordered = sorted(
            range(self._tasks), key=lambda task: (line[task].start_s if task in line else math.inf, task)
        )
        return ordered, invert_order(ordered)

    def first(self, machine: int, ended: Callable[[int], bool], started: Callable[[int], bool]) -> int | None:
        """Return the first task planned on a machine that has neither started nor ended; None: no task.

        Ended tasks are skipped permanently; a started task may become ready again.
        """
        if (turn := self._turn.get(machine)) is None:
            return None
        position = self._ended.get(machine, 0)
        while position < len(turn) and ended(turn[position]):
            position += 1
        self._ended[machine] = position
        while position < len(turn) and (ended(turn[position]) or started(turn[position])):
            position += 1
        return turn[position] if position < len(turn) else None

    def rebuild(self) -> None:
        """Forget which tasks have ended, because an ended task runs again."""
        self._ended.clear()
