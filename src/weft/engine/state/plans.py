"""The plan a run follows: lines by task, the order of tasks on each machine, and that of the ready ones."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from weft.engine.state.known import Known
from weft.schedule.schedule import Schedule

__all__ = ["Line", "PlannedTasks", "PlannedTurn", "RunPlan", "StoredPlan", "stored_plan"]

_WORD = 1024
"""Places that are kept together in one number."""

_MOST_KINDS = 64
"""Kinds of tasks by their seconds that are told apart; where there are more, every task is its own."""

_Kind = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Where and when one task is planned."""

    machine: int
    count: int
    start_s: float
    finish_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan as it is kept beside a journal: lines by task name, times on the engine's clock."""

    planner: str
    lines: Mapping[str, Line]
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
            name: Line(machine=machine, count=count, start_s=start, finish_s=finish)
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


def stored_plan(
    schedule: Schedule,
    known: Known,
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
        lines[name] = Line(
            machine=machine,
            count=_count(known, index[name], machine, nodes),
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


def _count(known: Known, task: int, machine: int, nodes: int) -> int:
    """Give the node count, as the user knows it, that takes so many nodes; 0 for what takes none."""
    if known.group[task] < 0:
        return 0
    options = known.options(task)
    allowed = options.counts.get(machine, [])
    return next((count for count in allowed if options.nodes[machine, count] == nodes), nodes)


class RunPlan:
    """A plan that is being followed."""

    def __init__(
        self, stored: StoredPlan, known: Known, key: str, iteration_of: Callable[[int], int] = lambda _: 1
    ) -> None:
        """Follow it from now on; ``iteration_of`` gives the iteration a task of a loop is in."""
        self.stored = stored
        self.key = key
        self.line: dict[int, Line] = {}
        """By task: the line of its iteration, else the last one before it."""
        by_name: dict[str, list[tuple[int, Line]]] = {}
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


class _Marks:
    """A set of places, in which the next one is found in O(places / 2**20)."""

    __slots__ = ("_used", "_words")

    def __init__(self) -> None:
        self._words: dict[int, int] = {}
        self._used = 0
        """A bit for every word that is not empty."""

    def __bool__(self) -> bool:
        return self._used != 0

    def add(self, place: int) -> None:
        word, bit = divmod(place, _WORD)
        self._words[word] = self._words.get(word, 0) | 1 << bit
        self._used |= 1 << word

    def remove(self, place: int) -> None:
        word, bit = divmod(place, _WORD)
        left = self._words[word] = self._words[word] & ~(1 << bit)
        if not left:
            del self._words[word]
            self._used &= ~(1 << word)

    def next(self, place: int) -> int | None:
        """Give the first place that is not before this one."""
        word, bit = divmod(place, _WORD)
        here = self._words.get(word, 0) >> bit
        if here:
            return place + _lowest(here)
        later = self._used >> word + 1
        if not later:
            return None
        word += 1 + _lowest(later)
        return word * _WORD + _lowest(self._words[word])


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


class PlannedTasks:
    """The ready tasks of a run by planned start, then index; those that are not planned come last.

    They are kept apart by what they share: their kind (``ReadyTasks``), their seconds, and the machine and
    count that are planned for them. Adding and removing cost O(1), finding the next O(such classes).
    """

    def __init__(self, plan: RunPlan, known: Known) -> None:
        line = plan.line
        self.plan = plan
        self.ordered = sorted(
            range(len(known)), key=lambda task: (line[task].start_s if task in line else math.inf, task)
        )
        self.place = [0] * len(known)
        for place, task in enumerate(self.ordered):
            self.place[task] = place
        self._seconds_kind = known.seconds_kinds(_MOST_KINDS)
        self.alike = self._seconds_kind is not None and known.simple
        """Whether tasks of one class would end at the same time wherever they were sent."""
        self.marks: dict[_Kind, _Marks] = {}
        self.kind: dict[int, _Kind] = {}
        """Per ready task: its class."""
        self.since: dict[int, int] = {}
        """Per ready task: how many had come before it."""
        self.came = 0

    def add(self, task: int, kind: tuple[int, ...]) -> None:
        """Take in a task that has become ready, or whose kind has changed."""
        line, seconds = self.plan.line.get(task), self._seconds_kind
        planned = (-1, -1) if line is None else (line.machine, line.count)
        whole: _Kind = (-1 if seconds is None else seconds[task], *planned, *kind)
        before = self.kind.get(task)
        if before is None:
            self.since[task] = self.came
            self.came += 1
        elif before != whole:
            self._take_out(task, before)
        self.kind[task] = whole
        marks = self.marks.get(whole)
        if marks is None:
            marks = self.marks[whole] = _Marks()
        marks.add(self.place[task])

    def remove(self, task: int) -> None:
        """Forget a task."""
        kind = self.kind.pop(task, None)
        if kind is not None:
            del self.since[task]
            self._take_out(task, kind)

    def _take_out(self, task: int, kind: _Kind) -> None:
        marks = self.marks[kind]
        marks.remove(self.place[task])
        if not marks:
            del self.marks[kind]


class PlannedTurn:
    """Goes once through the tasks that are ready now, by planned start."""

    def __init__(self, tasks: PlannedTasks, belongs: Callable[[int], bool] | None = None) -> None:
        """Begin with the first; ``belongs`` says of a class by any of its tasks whether it counts."""
        self._tasks = tasks
        self._belongs = belongs
        self._came = tasks.came
        self._place = 0
        self._left_out: set[_Kind] = set()
        self.alike = tasks.alike

    def head(self) -> int | None:
        """Give the first task that was not passed, be it left out or not; None: there is none."""
        return self._first(())

    def next(self) -> int | None:
        """Give the first task that was neither passed nor left out; None: there is none."""
        return self._first(self._left_out)

    def pass_by(self, task: int) -> None:
        """Go on behind a task."""
        self._place = self._tasks.place[task] + 1

    def leave_out(self, task: int) -> None:
        """Go on behind a task that was not placed, and leave out all others of its class."""
        self.pass_by(task)
        self._left_out.add(self._tasks.kind[task])

    def _first(self, left_out: Collection[_Kind]) -> int | None:
        tasks = self._tasks
        first = len(tasks.ordered)
        for kind, marks in tasks.marks.items():
            if kind in left_out:
                continue
            place = marks.next(self._place)
            while place is not None and place < first:
                task = tasks.ordered[place]
                if self._belongs is not None and not self._belongs(task):
                    break
                if tasks.since[task] < self._came:
                    first = place
                    break
                place = marks.next(place + 1)  # it came when this turn had begun
        return tasks.ordered[first] if first < len(tasks.ordered) else None
