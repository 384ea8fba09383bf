"""The outlook of an instance: its tasks and modes in a form that is quick to read, machines in classes.

Machines are alike for an instance when they have the same seconds for all its tasks, as many nodes, the same
place in the network (where data move), and are believed to be equally fast. O(v + e + modes) once per
instance, O(machines) whenever something else is believed of one of them.
"""

from __future__ import annotations

from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np

from weft.instance.instance import Instance
from weft.predictors.seconds import Classes, Related

__all__ = ["Beliefs", "Choice", "Outlook", "outlook_of"]

Beliefs = tuple[float, ...]
"""Per machine: its believed speed factor; 0: it is down."""

Choice = tuple[int, float, int]
"""A class of machines, the seconds of the fastest count there, the nodes it takes."""

_known: WeakKeyDictionary[Instance, Outlook] = WeakKeyDictionary()


def outlook_of(instance: Instance, beliefs: Beliefs) -> Outlook:
    """Give the outlook of an instance under what is believed now; it is kept while the beliefs stay."""
    found = _known.get(instance)
    if found is None:
        found = _known[instance] = Outlook(instance)
    found.believe(beliefs)
    return found


class Outlook:
    """What a look ahead reads of an instance."""

    def __init__(self, instance: Instance) -> None:
        graph = instance.graph
        pointer, before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
        self.before = [before[start:end] for start, end in pairwise(pointer)]
        """Per task: its predecessors; their edges follow each other from ``first_edge`` on."""
        self.first_edge: list[int] = pointer
        self.kind: list[int] = graph.kind.tolist()
        self.variable: list[int] = graph.variable.tolist()
        members = np.bincount(graph.variable, minlength=len(graph.variables))
        self.shared: list[bool] = (members > 1).tolist()
        """Per binding variable: whether several tasks name it."""
        self.moves_data = bool((graph.edge_bytes + graph.edge_files + graph.edge_seconds).any())
        self.looks_back = self.moves_data or any(self.shared) or bool(instance.pinned)
        """Whether it matters where tasks were that have ended."""
        self.unlimited: list[bool] = instance.unlimited.tolist()
        self.capacity: list[int] = instance.capacity.tolist()
        self.plain = not (self.looks_back or any(self.unlimited)) and set(self.capacity) == {1}
        """Whether all that matters of a machine is its class and when it is free."""
        self.class_of: list[int] = []
        """Per machine; -1: it is down."""
        self.members: list[list[int]] = []
        """Per class: its machines, ascending."""
        self.remembered: dict[tuple[tuple[int, ...], float | None], float] = {}
        """Answers that hold as long as the beliefs do, by the first unfinished tasks and what is behind."""
        self._modes = {group: _rows(instance, group) for group in range(len(instance.groups))}
        self._group: list[int] = instance.group.tolist()
        self._seconds = instance.seconds
        self._stated = _stated_classes(instance, with_places=self.moves_data)
        self._beliefs: Beliefs | None = None
        self._firsts: dict[int, list[tuple[int, int, int, int]]] = {}
        """Per group: class, machine, count and nodes of the modes on the first machine of each class."""
        self._choices: dict[int, list[Choice]] = {}

    def believe(self, beliefs: Beliefs) -> None:
        """Sort the machines into classes, if anything is believed that was not before."""
        if beliefs is self._beliefs or beliefs == self._beliefs:
            return
        numbers: dict[tuple[int, float], int] = {}
        self.class_of, self.members = [], []
        for machine, (stated, factor) in enumerate(zip(self._stated, beliefs, strict=True)):
            number = numbers.setdefault((stated, factor), len(numbers)) if factor > 0.0 else -1
            self.class_of.append(number)
            if number == len(self.members):
                self.members.append([])
            if number >= 0:
                self.members[number].append(machine)
        self._beliefs = beliefs
        self._firsts.clear()
        self._choices.clear()
        self.remembered.clear()

    def choices(self, task: int) -> list[Choice]:
        """Give the fastest mode of a compute task on each class of machines that can run it."""
        found = self._choices.get(task)
        if found is None:
            assert self._beliefs is not None
            best: dict[int, Choice] = {}
            for number, machine, count, nodes in self._first_modes(self._group[task]):
                taken = self._seconds.at(task, machine, count) / self._beliefs[machine]
                if number not in best or taken < best[number][1]:
                    best[number] = (number, taken, nodes)
            found = self._choices[task] = list(best.values())
        return found

    def _first_modes(self, group: int) -> list[tuple[int, int, int, int]]:
        """List the modes of a group on the first machine of each class; O(modes) when beliefs are new."""
        found = self._firsts.get(group)
        if found is None:
            first: dict[int, int] = {}
            found = self._firsts[group] = [
                (number, machine, count, nodes)
                for machine, count, nodes in self._modes[group]
                if (number := self.class_of[machine]) >= 0 and first.setdefault(number, machine) == machine
            ]
        return found


def _stated_classes(instance: Instance, *, with_places: bool) -> list[int]:
    """Number the machines by what the platform says of them, as far as the tasks can tell."""
    network = instance.network
    alone = np.bincount(network.host)[network.host] == 1
    features: list[list[object]] = [
        [int(capacity), bool(unlimited)]
        for capacity, unlimited in zip(instance.capacity, instance.unlimited, strict=True)
    ]
    if with_places:
        # Between machines on one host nothing needs to move: such a host is a place of its own.
        places = np.where(alone, network.location.astype(np.int64), -1 - network.host.astype(np.int64))
        for feature, place in zip(features, places.tolist(), strict=True):
            feature.append(place)
    for number, group in enumerate(instance.groups):
        # In these layouts what is alike for one task of a group is so for all.
        like = isinstance(instance.seconds, Related | Classes)
        seconds = group.seconds_of(group.tasks[:1] if like else group.tasks)
        for column, machine in enumerate(group.machine.tolist()):
            features[machine].append((number, int(group.count[column]), seconds[:, column].tobytes()))
    numbers: dict[tuple[object, ...], int] = {}
    return [numbers.setdefault(tuple(feature), len(numbers)) for feature in features]


def _rows(instance: Instance, group: int) -> list[tuple[int, int, int]]:
    """List the modes of a group: machine, count, nodes."""
    modes = instance.groups[group]
    return list(zip(modes.machine.tolist(), modes.count.tolist(), modes.nodes.tolist(), strict=True))
