"""The machines: what is free is what nobody takes, and never less than nothing (I2)."""

from __future__ import annotations

import math

from weft.engine.indexes.promised import Promises
from weft.engine.indexes.totals import as_units
from weft.engine.invariants.broken import demand, story_of_attempt
from weft.engine.state.attempt import Stage
from weft.engine.state.machines import MachineState
from weft.engine.state.state import State
from weft.instance.instance import Instance
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["check_machines"]

_HOLDING = (Stage.ASSIGNED, Stage.SUBMITTED, Stage.RUNNING)
"""Who has ended has given its nodes back."""


def check_machines(state: State, instance: Instance) -> None:
    """Check what every machine gives and who waits there; O(machines + attempts)."""
    holders: dict[int, set[int]] = {machine.index: set() for machine in state.machines}
    queued: dict[int, list[tuple[float, int]]] = {machine.index: [] for machine in state.machines}
    for attempt in state.attempts.values():
        told = story_of_attempt(state, attempt)
        if attempt.holds:
            holders[attempt.machine].add(attempt.number)
            demand(attempt.stage in _HOLDING, "nodes are given back at the end", told)
        if attempt.queued:
            queued[attempt.machine].append(attempt.turn)
            demand(attempt.stage == Stage.ASSIGNED, "who has begun does not wait", told)
            demand(not attempt.holds, "who waits for nodes takes none", told)
        if attempt.stage in (Stage.SUBMITTED, Stage.RUNNING):
            demand(attempt.holds, "who runs takes nodes", told)
        if attempt.stage in _HOLDING:
            demand(attempt.holds or attempt.queued, "an attempt waits for nodes or takes them", told)
            demand(state.machines[attempt.machine].up, "nothing is on a machine that is down", told)
    free: set[int] = set()
    for machine in state.machines:
        _check_room(state, machine, instance)
        where = f"machine {machine.name!r} at {state.now} s"
        demand(
            set(machine.holders) == holders[machine.index],
            f"nodes are taken by {sorted(holders[machine.index])}, but {sorted(machine.holders)} are noted",
            where,
        )
        demand(
            machine.queue == sorted(queued[machine.index]),
            f"{sorted(queued[machine.index])} wait, but the queue is {machine.queue}",
            where,
        )
        units = sum(
            as_units(state.attempts[number].seconds * state.attempts[number].nodes)
            for _, number in machine.queue
        )
        demand(
            machine.waiting_units == units,
            f"{units} node-seconds wait, {machine.waiting_units} counted",
            where,
        )
        obstacle = state.obstacle(machine.index)
        demand(machine.usable == (not obstacle), f"whether it may be used ({obstacle or 'it may'})", where)
        demand(machine.left == machine.left_now(), f"{machine.left} is believed to be left", where)
        if machine.left is not None:
            free.add(machine.index)
    believed = tuple(machine.speed_factor if machine.up else 0.0 for machine in state.machines)
    demand(state.machines.beliefs == believed, f"{believed} is believed of the machines", f"at {state.now} s")
    demand(set(state.machines.free) == free, f"{sorted(free)} have free nodes", f"at {state.now} s")
    promised = _promised(state)
    found = {machine.index: machine.promised_units for machine in state.machines if machine.promised_units}
    demand(found == promised, f"{promised} is promised, {found} counted", f"at {state.now} s")


def _promised(state: State) -> dict[int, int]:
    """Give by machine the units of what is bound to it and was not sent yet."""
    found: dict[int, int] = {}

    def count(machine: int, units: int) -> None:
        found[machine] = found.get(machine, 0) + units

    for run in state.runs:
        if run.promises is not None:
            fresh = Promises(run.known, count)
            for task in range(len(run)):
                if run.known.kind[task] == COMPUTE:
                    fresh.give(task, run.promised_to(task))
    return {machine: units for machine, units in found.items() if units}


def _check_room(state: State, machine: MachineState, instance: Instance) -> None:
    where = f"machine {machine.name!r} at {state.now} s"
    taken = sum(holder.nodes for holder in machine.holders.values())
    demand(
        machine.free_nodes == machine.nodes - taken,
        f"{taken} of {machine.nodes} nodes are taken, but {machine.free_nodes} are free",
        where,
    )
    demand(machine.unlimited or machine.free_nodes >= 0, f"{machine.free_nodes} nodes are free", where)
    if machine.unlimited:
        return
    for name, total in instance.machines[machine.index].amounts.items():
        held = math.fsum(
            amount for holder in machine.holders.values() for of, amount in holder.demand if of == name
        )
        slack = 1e-6 * max(1.0, total)
        left = machine.amounts[name]
        demand(abs(total - held - left) <= slack, f"{left} of {total} {name} left beside {held}", where)
        demand(left >= -slack, f"{left} of {total} {name} left", where)
