"""What takes machines beside the tasks that are planned again: live attempts of all runs, as a busy profile.

An attempt holds its nodes until it is expected to end: what is left of its work by the last report, at the
speed its machine is believed to have. Attempts of others that wait in a machine's queue follow as soon as
nodes are free, in the queue's order; which resources they wait for is not looked at. Approximated: an attempt
that is overdue without a report counts as about to end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.engine.state.attempt import Attempt, Demand, Stage
from weft.engine.state.machines import MachineState
from weft.engine.state.state import State
from weft.instance.instance import Busy

__all__ = ["Occupation", "expected_end_s"]


class Occupation:
    """The stretches in which machines are taken, on a clock that begins now."""

    def __init__(self, state: State, planned_again: Collection[int], resources: Sequence[str]) -> None:
        """Look at all attempts but those that are planned again; amounts in the order of ``resources``."""
        self._state = state
        self._resources = resources
        self.busy: list[Busy] = []
        self.ends_s: dict[int, float] = {}
        """By attempt: when it is expected to end, on the engine's clock."""
        for machine in state.machines:
            if machine.holders or machine.queue:
                self._occupy(machine, planned_again)
        # What takes no nodes (transfers) or has given them back ends without them.
        for attempt in state.attempts.values():
            if attempt.number not in self.ends_s:
                self.ends_s[attempt.number] = expected_end_s(state, attempt)

    def _occupy(self, machine: MachineState, planned_again: Collection[int]) -> None:
        now = self._state.now
        ends: list[tuple[float, int]] = []
        for holder in machine.holders.values():
            if holder.number in planned_again:
                continue
            end = expected_end_s(self._state, holder)
            ends.append((end, holder.nodes))
            self._take(machine, holder, now, end, holder.demand)
        for _, number in machine.queue:
            waiting = self._state.attempts[number]
            if number in planned_again:
                continue
            start = now if machine.unlimited else _room_at(ends, machine.nodes, waiting.nodes, now)
            end = start + waiting.seconds / machine.speed_factor
            ends.append((end, waiting.nodes))
            self._take(machine, waiting, start, end, ())

    def _take(
        self, machine: MachineState, attempt: Attempt, start: float, end: float, demand: Demand
    ) -> None:
        now = self._state.now
        self.ends_s[attempt.number] = end
        if not machine.unlimited and end > start:
            held = dict(demand)
            self.busy.append(
                Busy(
                    machine=machine.index,
                    start_s=start - now,
                    finish_s=end - now,
                    nodes=attempt.nodes,
                    amounts=tuple(held.get(name, 0.0) for name in self._resources) if held else (),
                )
            )


def expected_end_s(state: State, attempt: Attempt) -> float:
    """Estimate when an attempt ends, not before now."""
    now = state.now
    if attempt.stage >= Stage.ENDED:
        return now
    speed = state.machines[attempt.machine].speed_factor
    if attempt.started_s is None:
        return max(attempt.expected_end_s, now + attempt.seconds / speed)
    whole = 1.0 - attempt.restart_from
    if attempt.work_done is None or attempt.reported_s is None or whole <= 0:
        return max(now, attempt.started_s + attempt.seconds / speed)
    left = max(0.0, 1.0 - attempt.work_done) / whole
    return max(now, attempt.reported_s + left * attempt.seconds / speed)


def _room_at(ends: list[tuple[float, int]], capacity: int, nodes: int, now: float) -> float:
    """Give the first time after which so many nodes stay free."""
    free = capacity - sum(taken for _, taken in ends)
    at = now
    for end, taken in sorted(ends):
        if free >= nodes:
            break
        free += taken
        at = end
    return at
