"""The plan a run follows: lines by task, and the order of tasks on each machine."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from weft.engine.state.compiled import CompiledWorkflow
from weft.schedule.schedule import Schedule

__all__ = ["PlanLine", "RunPlan", "StoredPlan", "invert_order", "store_schedule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine:
    """Where and when one task is planned."""

    machine: int
    count: int
    start_s: float
    finish_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan as it is kept beside a journal: lines by task name, times on the engine's clock."""

    planner: str
    lines: Mapping[str, PlanLine]
    """A task of a loop may stand here with its iteration: ``lapw1[3]#2``."""
    steps: int = 0
    running_until_s: float = 0.0
    """When the last of the tasks that ran when it was planned, and are not in it, was expected to end."""
    moving: tuple[str, ...] = ()
    """Tasks that ran too slowly when it was planned, and are planned anew."""
    again: tuple[str, ...] = ()
    """Tasks that had completed when it was planned, and have to run again for those that move."""

    @property
    def finish_s(self) -> float:
        """Give the promised end."""
        return max([self.running_until_s, *(line.finish_s for line in self.lines.values())])

    def as_record(self) -> dict[str, object]:
        """Give it as plain data."""
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
    def of_record(cls, record: Mapping[str, object]) -> StoredPlan:
        """Read what ``as_record`` gives."""
        rows, moving, again = record["lines"], record.get("moving", []), record.get("again", [])
        assert isinstance(rows, list)
        assert isinstance(moving, list)
        assert isinstance(again, list)
        lines = {
            name: PlanLine(machine=machine, count=count, start_s=start, finish_s=finish)
            for name, machine, count, start, finish in rows
        }
        return cls(
            planner=str(record["planner"]),
            lines=lines,
            steps=int(str(record["steps"])),
            running_until_s=float(str(record.get("running_until_s", 0.0))),
            moving=tuple(moving),
            again=tuple(again),
        )

    @property
    def key(self) -> str:
        """Give the content hash it is found by."""
        text = json.dumps(self.as_record(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def store_schedule(
    schedule: Schedule,
    known: CompiledWorkflow,
    *,
    planner: str,
    steps: int,
    offset_s: float = 0.0,
    tasks: Mapping[str, int] | None = None,
    running_until_s: float = 0.0,
    moving: tuple[str, ...] = (),
    again: tuple[str, ...] = (),
) -> StoredPlan:
    """Keep a schedule; ``offset_s`` is the engine's time at the schedule's zero.

    ``tasks``: the tasks that are planned, by their names in the schedule; the others stand for what runs.
    """
    lines = {}
    columns = (
        schedule.machine.tolist(),
        schedule.nodes.tolist(),
        schedule.start_s.tolist(),
        schedule.finish_s.tolist(),
    )
    index = {name: task for task, name in enumerate(known.names)} if tasks is None else tasks
    for name, machine, nodes, start, finish in zip(schedule.tasks, *columns, strict=True):
        if name not in index:
            continue
        lines[name] = PlanLine(
            machine=machine,
            count=_find_count(known, index[name], machine, nodes),
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


def _find_count(known: CompiledWorkflow, task: int, machine: int, nodes: int) -> int:
    """Give the node count, as the user knows it, that takes so many nodes; 0 for what takes none."""
    if known.group[task] < 0:
        return 0
    options = known.options(task)
    allowed = options.counts.get(machine, [])
    return next((count for count in allowed if options.nodes[machine, count] == nodes), nodes)


def invert_order(ordered: list[int]) -> list[int]:
    """Give the place of every task in an order of all of them."""
    places = [0] * len(ordered)
    for place, task in enumerate(ordered):
        places[task] = place
    return places


class RunPlan:
    """A plan that is being followed."""

    def __init__(
        self,
        stored: StoredPlan,
        known: CompiledWorkflow,
        key: str,
        iteration_of: Callable[[int], int] = lambda _: 1,
    ) -> None:
        """Follow it from now on; ``iteration_of`` gives the iteration a task of a loop is in."""
        self.stored = stored
        self.key = key
        self._tasks = len(known)
        self.line: dict[int, PlanLine] = {}
        """By task: the line of its iteration, else the last one before it."""
        by_name: dict[str, list[tuple[int, PlanLine]]] = {}
        for label, line in stored.lines.items():
            name, _, number = label.rpartition("#")
            found = (name, int(number)) if name and number.isdigit() else (label, 0)
            by_name.setdefault(found[0], []).append((found[1], line))
        for task, name in enumerate(known.names):
            lines = by_name.get(name, ())
            if lines:
                now = iteration_of(task)
                past = [each for each in lines if each[0] <= now]
                if past:
                    self.line[task] = max(past, key=lambda each: each[0])[1]
        self._turn: dict[int, list[int]] = {}
        """Per machine: its tasks by planned start."""
        self._ended: dict[int, int] = {}
        """Per machine: how many of them, from the first on, are known to have ended."""
        for task in sorted(self.line, key=lambda task: (self.line[task].start_s, task)):
            if known.group[task] >= 0:
                self._turn.setdefault(self.line[task].machine, []).append(task)

    @cached_property
    def places(self) -> tuple[list[int], list[int]]:
        """Give all tasks by planned start, then index, those not planned last; and the place of each."""
        line = self.line
        ordered = sorted(
            range(self._tasks), key=lambda task: (line[task].start_s if task in line else math.inf, task)
        )
        return ordered, invert_order(ordered)

    def first(self, machine: int, ended: Callable[[int], bool], started: Callable[[int], bool]) -> int | None:
        """Give the first task planned on a machine that has neither ended nor started.

        Only those that have ended are passed for good: what has started may come back.
        """
        turn = self._turn.get(machine)
        if turn is None:
            return None
        position = self._ended.get(machine, 0)
        while position < len(turn) and ended(turn[position]):
            position += 1
        self._ended[machine] = position
        while position < len(turn) and (ended(turn[position]) or started(turn[position])):
            position += 1
        return turn[position] if position < len(turn) else None

    def look_again(self) -> None:
        """Forget what has ended: a task that had ended runs again."""
        self._ended.clear()
