"""Slow reference implementation of the xDCP kernel with lists and dictionaries.

It follows docs/papers/parameter-sweeps.md, section 3. Times are recursive definitions. A subtask that is in no
queue counts with its shortest time. Cycles are detected by the set of all reachable subtasks.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from weft.kernels.problem import CLASSES, RELATED, TABLE, ModeArrays
from weft.kernels.xdcp import SubtaskGraph

sys.setrecursionlimit(10_000)

ROUNDING = 1e-12


@dataclass
class Case:
    """A random problem: dependencies, seconds per subtask and machine, and initial queues."""

    parents: list[list[int]]
    layer: list[int]
    seconds: list[dict[int, float]]
    machines: int
    earliest: list[float]
    bound: dict[int, int]
    queues: list[list[int]]
    virtual: dict[int, int] = field(default_factory=dict)
    """The machine of each subtask that is in no queue."""
    host: list[int] = field(default_factory=list)
    seconds_of_edge: dict[tuple[int, int], float] = field(default_factory=dict)
    """By (parent, child): seconds that their data take between different hosts; empty: no data."""

    def travel(self, parent, child, source, target):
        """Return the seconds between two machines; None is the machine of a subtask in no queue."""
        if not self.seconds_of_edge or None in (source, target) or self.host[source] == self.host[target]:
            return 0.0
        return self.seconds_of_edge[parent, child]

    @property
    def number(self):
        return len(self.parents)

    def children(self, task):
        return [other for other in range(self.number) if task in self.parents[other]]


def random_case(rng, *, shared, ties, data=False):
    """Draw a case; ``ties``: small whole seconds, many zeros; ``shared``: all layers in one pool.

    ``data``: data move between hosts, each of which has one or two machines.
    """
    depth, machines = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    layer = rng.integers(depth, size=int(rng.integers(1, 25))).tolist()
    parents = []
    for task, level in enumerate(layer):
        before = [other for other in range(task) if layer[other] < level]
        chosen = rng.permutation(len(before))[: int(rng.integers(0, 3))]
        parents.append(sorted(before[index] for index in chosen.tolist()))
    seconds = []
    for level in layer:
        pool = range(machines) if shared else range(level * machines, (level + 1) * machines)
        drawn = rng.choice([0, 0, 1, 2], size=machines) if ties else rng.uniform(0.1, 9.0, size=machines)
        seconds.append({machine: float(value) for machine, value in zip(pool, drawn, strict=True)})
    number = machines if shared else depth * machines
    earliest = [float(rng.integers(0, 5)) if rng.random() < 0.2 else 0.0 for _ in layer]
    bound = {task: int(rng.choice(list(seconds[task]))) for task in range(len(layer)) if rng.random() < 0.1}
    virtual = {
        task: int(rng.integers(number))
        for task in range(len(layer))
        if rng.random() < 0.1 and task not in bound
    }
    host = np.sort(rng.integers(number, size=number)).tolist()
    drawn = (
        rng.integers(0, 4, size=(len(layer), len(layer))) if ties else rng.uniform(0, 5, (len(layer),) * 2)
    )
    edges = {(a, b): float(drawn[a, b]) for b, row in enumerate(parents) for a in row} if data else {}
    queues: list[list[int]] = [[] for _ in range(number)]
    for task in sorted(range(len(layer)), key=layer.__getitem__):
        if task not in virtual:
            queues[bound.get(task, int(rng.choice(list(seconds[task]))))].append(task)
    return Case(
        parents=parents, layer=layer, seconds=seconds, machines=number, earliest=earliest, bound=bound,
        queues=queues, virtual=virtual, host=host, seconds_of_edge=edges,
    )  # fmt: skip


class Times:
    """AEFT and ALFT of given queues; the subtask ``out`` is in no queue and has its shortest time."""

    def __init__(self, case, queues, *, out=None, deadline=None):
        where = {task: machine for machine, queue in enumerate(queues) for task in queue} | case.virtual
        earlier = {b: a for queue in queues for a, b in itertools.pairwise(queue)}
        later = {a: b for b, a in earlier.items()}
        children = [case.children(task) for task in range(case.number)]

        def spent(task):
            if task in case.virtual:
                return 0.0
            return min(case.seconds[task].values()) if task == out else case.seconds[task][where[task]]

        @cache
        def start(task):
            ends = [
                aeft(parent) + case.travel(parent, task, where.get(parent), where.get(task))
                for parent in case.parents[task]
            ]
            if task in earlier:
                ends.append(aeft(earlier[task]))
            return max([case.earliest[task], *ends])

        @cache
        def aeft(task):
            return start(task) + spent(task)

        @cache
        def alft(task):
            begins = [
                alft(child) - spent(child) - case.travel(task, child, where.get(task), where.get(child))
                for child in children[task]
            ]
            if task in later:
                begins.append(alft(later[task]) - spent(later[task]))
            return min([self.length, *begins])

        everyone = range(case.number)
        self.length = max(map(aeft, everyone), default=0.0) if deadline is None else deadline
        self.start, self.aeft, self.alft = ([f(task) for task in everyone] for f in (start, aeft, alft))
        self.spent = list(map(spent, everyone))
        self.where = where


def reachable(case, queues, start, *, backwards):
    """Return all descendants of a subtask, or all ancestors."""
    steps: dict[int, set[int]] = {task: set() for task in range(case.number)}
    edges = [(parent, task) for task in range(case.number) for parent in case.parents[task]]
    edges += [(a, b) for queue in queues for a, b in itertools.pairwise(queue)]
    for a, b in edges:
        steps[b if backwards else a].add(a if backwards else b)
    found, front = set(), {start}
    while front:
        front = set().union(*(steps[task] for task in front)) - found
        found |= front
    return found


def xdcp_pass(case, queues, limit):
    """Move up to ``limit`` subtasks; return the queues and the length before each step and at the end."""
    queues = [list(queue) for queue in queues]
    left = set(range(case.number)) - set(case.virtual)
    lengths = []
    for _ in range(min(limit, len(left))):
        times = Times(case, queues)
        lengths.append(times.length)
        rounding = ROUNDING * times.length

        def urgency(task, times=times, rounding=rounding):
            slack = times.alft[task] - times.aeft[task]
            return (0.0 if slack < rounding else slack, case.layer[task], times.aeft[task], task)

        task = min(left, key=urgency)
        left.remove(task)
        old = next((m, queue.index(task)) for m, queue in enumerate(queues) if task in queue)
        queues[old[0]].remove(task)
        slots = allowed_slots(case, queues, task, times.length)
        _, machine, place = min(slots, default=(0.0, *old))
        queues[machine].insert(place, task)
    lengths.append(Times(case, queues).length)
    return queues, lengths


def allowed_slots(case, queues, task, length):
    """Return (finish, machine, position) of every feasible slot of a subtask."""
    times = Times(case, queues, out=task, deadline=length)
    before, after = (reachable(case, queues, task, backwards=way) for way in (True, False))
    slots = []
    for machine, spent in case.seconds[task].items():
        if case.bound.get(task, machine) != machine:
            continue
        ends = [
            times.aeft[parent] + case.travel(parent, task, times.where[parent], machine)
            for parent in case.parents[task]
        ]
        begins = [
            times.alft[child] - times.spent[child] - case.travel(task, child, machine, times.where[child])
            for child in case.children(task)
        ]
        ready, due = max([case.earliest[task], *ends]), min([length, *begins])
        queue = queues[machine]
        for place in range(len(queue) + 1):
            if set(queue[:place]) & after or set(queue[place:]) & before:
                continue
            eft = max([ready, *(times.aeft[other] for other in queue[:place][-1:])]) + spent
            lft = min([due, *(times.alft[other] - times.spent[other] for other in queue[place:][:1])])
            if eft <= lft + ROUNDING * length:
                slots.append((eft, machine, place))
    return slots


def arrays(case, layout):
    """Return a case as the kernel reads it; layouts other than a table need seconds that fit them."""
    number = case.number
    pointer, before = _csr(case.parents)
    after_pointer, after = _csr([case.children(task) for task in range(number)])
    edges = [(parent, task) for task in range(number) for parent in case.parents[task]]
    outgoing = [edges.index((task, child)) for task in range(number) for child in case.children(task)]
    # The seconds of an edge are one part each of fixed seconds, latency of its files and bytes over bandwidth.
    each = np.array([case.seconds_of_edge.get(edge, 0.0) for edge in edges])
    sweep = SubtaskGraph(
        number=number,
        pointer=pointer,
        before=before,
        after_pointer=after_pointer,
        after=after,
        after_edge=np.array(outgoing, dtype=np.uint32),
        earliest=np.array(case.earliest),
        layer=np.array(case.layer, dtype=np.uint32),
        moving=int(bool(case.seconds_of_edge)),
        size=each * 4.0,
        files=each / 2.0,
        fixed=each / 4.0,
        locations=1,
        location=np.zeros(case.machines, dtype=np.uint32),
        host=np.array(case.host, dtype=np.uint32),
        latency=np.array([1.0]),
        inverse=np.array([1.0 / 16.0]),
    )
    return sweep, _modes(case, layout)


def _csr(rows):
    pointer = np.cumsum([0, *map(len, rows)]).astype(np.uint32)
    return pointer, np.array([item for row in rows for item in row], dtype=np.uint32)


def _modes(case, layout):
    """Return modes in which every subtask is a group of its own, with the machines it may use."""
    number = case.number
    rows = [
        {machine: value for machine, value in row.items() if case.bound.get(task, machine) == machine}
        for task, row in enumerate(case.seconds)
    ]
    first = np.cumsum([0, *map(len, rows)])
    machine = np.array([machine for row in rows for machine in row], dtype=np.uint32)
    cell = np.array([value for row in rows for value in row.values()])
    modes = len(machine)
    group = [number if task in case.virtual else task for task in range(number)]
    work = np.full(number, 6.0)
    rate = {
        RELATED: np.divide(6.0, cell, where=cell > 0, out=np.full(modes, np.inf)),
        CLASSES: cell,
        TABLE: np.ones(modes),
    }
    return ModeArrays(
        layout=layout,
        groups=number,
        group=np.array(group, dtype=np.uint32),
        first=first.astype(np.uint32),
        machine=machine,
        count=np.ones(modes, dtype=np.uint32),
        nodes=np.ones(modes, dtype=np.int64),
        rate=rate[layout],
        gain=np.ones(modes),
        sorted=np.arange(modes, dtype=np.uint32),
        scaled=np.zeros(0, dtype=np.uint8),
        moldable=np.zeros(number, dtype=np.uint8),
        shift=np.zeros(modes, dtype=np.uint32),
        work=work,
        row=first[:-1].astype(np.int64),
        cell=cell,
    )
