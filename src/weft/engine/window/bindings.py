"""Which machine variables the tasks of the window carry, and which of them keep their machine.

S1 (Prodan and Fahringer 2005), spec s1 section 10: a variable is an abstract machine in one iteration; a task
that re-enters for the next iteration carries that of the next. Pinned are the variables of properly running
tasks and the sources of transfers that run again while their producer does not.

Deviations: also pinned is what a completed task shares with a task of the window in the same iteration,
unless it is bound anew for a task that moves (spec s1 section 2: one name, one machine). A transfer reads in
the iteration of the task that wrote, which a loop's border may put before its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from weft.engine.window.graph import Edge
from weft.engine.window.members import Members
from weft.engine.window.reexecution import rebound_variable
from weft.engine.window.situation import Situation, Standing

__all__ = ["Bindings", "Variable", "bind"]


class Variable(NamedTuple):
    """An abstract machine in one iteration."""

    machine: int
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """The variables of the tasks of a window."""

    machine: Mapping[int, Variable]
    """Per task: where it runs; of a transfer, where it writes."""
    source: Mapping[int, Variable]
    """Per transfer: where it reads."""
    pinned: tuple[Variable, ...]
    """Variables that keep the machine they have, ascending."""


def bind(situation: Situation, members: Members, edges: Collection[Edge]) -> Bindings:
    """Give the variables of a window whose edges are known."""
    graph = situation.graph
    tasks = sorted(members.moving | members.queued)
    machine = {task: Variable(graph.machine[task], _iteration(situation, members, task)) for task in tasks}
    read = _sources(situation, members, edges)
    source = {task: read[task] for task in tasks if task in read}

    pinned = _shared_with_completed(situation, members, {*machine.values(), *source.values()})
    again = {machine[task] for task in members.moving}
    pinned |= {read[task] for task in members.moving if task in read} - again
    pinned |= {Variable(graph.machine[task], situation.iteration[task]) for task in members.running}
    pinned |= {read[task] for task in members.running if task in read}
    return Bindings(machine=machine, source=source, pinned=tuple(sorted(pinned)))


def _iteration(situation: Situation, members: Members, task: int) -> int:
    """Give the iteration in which a task runs next."""
    return situation.iteration[task] + (task in members.fresh)


def _sources(situation: Situation, members: Members, edges: Collection[Edge]) -> dict[int, Variable]:
    """Give where every transfer reads: in the iteration of the run that wrote, to come or past."""
    source: dict[int, Variable] = {}
    producers = _producers(situation, members)
    for task, machine in enumerate(situation.graph.source):
        if machine is None:
            continue
        iteration = _iteration(situation, members, task)
        coming = [tail for tail in producers[task] if (tail, task) in edges]
        past = [tail for tail in producers[task] if situation.standing[tail] is not Standing.QUEUED]
        if coming:
            iteration = _iteration(situation, members, coming[0])
        elif past:
            iteration = situation.iteration[past[0]]
        source[task] = Variable(machine, iteration)
    return source


def _producers(situation: Situation, members: Members) -> dict[int, list[int]]:
    """Give per transfer the tasks before it that write where it reads, in program order."""
    graph = situation.graph
    producers: dict[int, list[int]] = {
        task: [] for task, machine in enumerate(graph.source) if machine is not None
    }
    for tail, heads in enumerate(members.present):
        for head in heads:
            if head in producers and graph.machine[tail] == graph.source[head]:
                producers[head].append(tail)
    return producers


def _shared_with_completed(situation: Situation, members: Members, used: set[Variable]) -> set[Variable]:
    """Give the variables in use that completed tasks have bound for good: they neither move nor run again."""
    written = {
        Variable(situation.graph.machine[task], situation.iteration[task])
        for task, standing in enumerate(situation.standing)
        if standing is Standing.COMPLETED and task not in members.moving
    }
    return (written & used) - {Variable(*rebound_variable(situation, task)) for task in members.moved}
