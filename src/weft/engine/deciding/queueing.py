"""A machine's queue: who of those that wait there may start now (S2 section 5).

``fifo`` never lets anybody overtake; ``first-fit`` lets the first go that fits; ``easy`` lets others overtake
the head if that does not delay it; ``conservative`` if it delays nobody before them. Estimates decide what
delays whom. Attempts whose data or predecessors are missing are not in the race, except under a plan, where
their turn is respected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from weft.engine.desk import Desk
from weft.engine.messages.commands import SetTimer
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.machines import MachineState
from weft.engine.state.run import Run
from weft.engine.state.states import FINAL, TaskState

__all__ = ["TURN", "next_to_start"]

TURN = "turn"
"""Prefix of the timers that let a machine's queue go on when a planned start has passed, one per machine."""

_ROUNDING = 1e-9
"""Times that differ by less than this share are the same: sums of the same numbers in another order."""


def next_to_start(desk: Desk, machine: MachineState, prepared: Callable[[Attempt], bool]) -> int | None:
    """Give the attempt of a machine's queue that may start now; None: nobody may."""
    attempts = desk.state.attempts
    if not machine.has_room(1):
        return None
    racing = (attempts[number] for _, number in machine.queue if prepared(attempts[number]))
    first = next(racing, None)
    if first is None:
        return None
    if machine.unlimited:
        return first.number
    rule = _by_plan if desk.state.planned else _RULES[machine.queue_rule]
    return rule(desk, machine, chain((first,), racing))


def _fits(desk: Desk, machine: MachineState, attempt: Attempt) -> bool:
    return desk.state.machines.fits(machine.index, attempt.nodes, attempt.demand)


def _fifo(desk: Desk, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    first = next(racing)
    return first.number if _fits(desk, machine, first) else None


def _first_fit(desk: Desk, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    return next((attempt.number for attempt in racing if _fits(desk, machine, attempt)), None)


def _backfill(desk: Desk, machine: MachineState, racing: Iterator[Attempt], *, everybody: bool) -> int | None:
    """Start the head, or whoever fits without delaying the head (or everybody before)."""
    now = desk.state.now
    profile = _Profile(machine, now)
    for position, attempt in enumerate(racing):
        seconds = attempt.seconds / machine.speed_factor
        start = profile.earliest(attempt.nodes, seconds)
        if start <= now and _fits(desk, machine, attempt):
            return attempt.number
        if position == 0 or everybody:
            profile.reserve(start, seconds, attempt.nodes)
    return None


def _easy(desk: Desk, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    return _backfill(desk, machine, racing, everybody=False)


def _conservative(desk: Desk, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    return _backfill(desk, machine, racing, everybody=True)


_RULES: dict[str, Callable[[Desk, MachineState, Iterator[Attempt]], int | None]] = {
    "fifo": _fifo,
    "first-fit": _first_fit,
    "easy": _easy,
    "conservative": _conservative,
}


class _Profile:
    """Nodes taken over time, as expected: steps at which the number of free nodes changes."""

    def __init__(self, machine: MachineState, now: float) -> None:
        self.now = now
        self.free = machine.free_nodes
        self.changes: list[tuple[float, int]] = sorted(
            (max(holder.expected_end_s, now), holder.nodes) for holder in machine.holders.values()
        )

    def earliest(self, nodes: int, seconds: float) -> float:
        """Give the first time from which so many nodes are free for so long."""
        starts = [self.now, *(at for at, _ in self.changes if at > self.now)]
        return next(start for start in starts if self._least(start, start + seconds) >= nodes)

    def _least(self, start: float, end: float) -> int:
        """Give the smallest number of free nodes between two times."""
        free = self.free + sum(change for at, change in self.changes if at <= start)
        least = free
        for at, change in self.changes:
            if start < at < end - _ROUNDING * abs(end):
                free += change
                least = min(least, free)
        return least

    def reserve(self, start: float, seconds: float, nodes: int) -> None:
        """Keep nodes for somebody."""
        steps = [*self.changes, (start, -nodes), (start + seconds, nodes)]
        # At one time who ends comes before who begins: in between nobody is short of nodes.
        self.changes = sorted(steps, key=lambda step: (step[0], -step[1]))


def _by_plan(desk: Desk, machine: MachineState, racing: Iterator[Attempt]) -> int | None:
    """Start in the order of the planned starts; before its turn only what holds nobody up.

    A task that is late does not keep the machine idle: while whose turn it is cannot start, the next may, if
    it is expected to end before the planned start of that task, or if that start has passed (never with
    ``strict_plan``). A timer sees to it that somebody looks again when it has.
    """
    strict = desk.settings.strict_plan
    for position, attempt in enumerate(racing):
        run = desk.state.runs[attempt.run]
        first = _turn(desk, run, machine.index)
        before = first is not None and first != attempt.task and not _ready_elsewhere(run, first, attempt)
        if before and first is not None and (strict or _holds_up(desk, run, machine, attempt, first)):
            continue
        if _fits(desk, machine, attempt):
            return attempt.number
        if strict or position == 0:
            return None
    return None


def _holds_up(desk: Desk, run: Run, machine: MachineState, attempt: Attempt, first: int) -> bool:
    """Say whether an attempt would start before its time and be in the way of whose turn it is."""
    assert run.plan is not None
    now, mine = desk.state.now, run.plan.line.get(attempt.task)
    due_s = _passed_s(run.plan.line[first].start_s)
    if now >= due_s or (mine is not None and mine.start_s <= _passed_s(now)):
        return False
    if now + attempt.seconds / machine.speed_factor <= due_s:
        return False
    timer = f"{TURN}:{machine.index}"
    if desk.state.timers.get(timer) != due_s:
        desk.emit(SetTimer(timer=timer, at_s=due_s))
    return True


def _passed_s(at_s: float) -> float:
    """Give when a planned time has passed: a little later, for what happens at that time comes one by one."""
    return at_s + _ROUNDING * max(1.0, at_s)


def _turn(desk: Desk, run: Run, machine: int) -> int | None:
    """Give the task of a run whose turn it is on a machine: the first planned there that has not started."""
    if run.plan is None:
        return None

    def ended(task: int) -> bool:
        return run.state[task] in FINAL

    def started(task: int) -> bool:
        if run.state[task] in (TaskState.RUNNING, TaskState.SUBMITTED, TaskState.EPILOG):
            return True
        number = run.attempt_of.get(task)
        # A task that went elsewhere has no turn here any more.
        attempt = desk.state.attempts.get(number) if number is not None else None
        return attempt is not None and (attempt.machine != machine or attempt.stage > Stage.ASSIGNED)

    return run.plan.first(machine, ended, started)


def _ready_elsewhere(run: Run, first: int, attempt: Attempt) -> bool:
    """Say whether the attempt was planned before the task whose turn it seems to be.

    One that the plan leaves out was sent here before it was made, and the plan counts on it going first.
    """
    assert run.plan is not None
    mine = run.plan.line.get(attempt.task)
    return mine is None or (mine.start_s, attempt.task) < (run.plan.line[first].start_s, first)
