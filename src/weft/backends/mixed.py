"""Backend for a platform with machines of several kinds; each request goes to the transport of its machine.

One ``ProgramBackend`` serves all machines, so that staging, products and restart files are the same for all
of them. Every kind contributes a ``BackendPart`` for its own machines; Slurm contributes two if some clusters
are reached through login nodes. All parts use the machine numbers of
the whole platform.
"""

from __future__ import annotations

import math
import select
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar, Protocol, cast

from weft.backends import BACKENDS
from weft.backends.attempt.attempt import ProgramReport
from weft.backends.attempt.backend import BackendPart, ProgramBackend, SurvivingPrograms
from weft.backends.backend import Backend, Capabilities, ProjectContext, RecoveredAttempt
from weft.errors import InvalidInput, Problem
from weft.platform.machine import Machine


class MixableBackend(Backend, Protocol):
    """A backend whose machines can be used together with machines of other kinds."""

    @classmethod
    def part(cls, context: ProjectContext, machines: Sequence[int]) -> BackendPart:
        """Return what the backend contributes for these machines of the platform."""


class MixedBackend(ProgramBackend):
    """Runs programs on machines of several kinds."""

    kind: ClassVar[str] = "mixed"

    def __init__(self, context: ProjectContext, *, grace_s: float = math.inf) -> None:
        kinds = [BACKENDS.load(str(machine.backend["kind"])) for machine in context.machines]
        self._capabilities: list[Capabilities] = [kind.capabilities for kind in kinds]
        """By machine: the features of its kind."""
        self.capabilities = _find_common(self._capabilities)  # type: ignore[misc]
        super().__init__(context, grace_s=grace_s)

    @classmethod
    def part(cls, context: ProjectContext, machines: Sequence[int]) -> BackendPart:
        """Return the parts of all kinds of machines as one part."""
        part_of: dict[int, int] = {}
        parts: list[BackendPart] = []
        for (kind, _), own in _group_machines(context.machines, machines).items():
            backend: type[MixableBackend] = BACKENDS.load(kind)
            part_of |= dict.fromkeys(own, len(parts))
            parts.append(backend.part(context, own))

        def give_up() -> None:
            for part in parts:
                part.give_up()

        def release() -> None:
            for part in parts:
                part.release()

        return BackendPart(
            capabilities=_find_common([part.capabilities for part in parts]),
            connect=partial(TransportRouter, parts, part_of),
            disks={machine: disk for part in parts for machine, disk in part.disks.items()},
            describe_needs=lambda attempt: parts[part_of[attempt.machine]].describe_needs(attempt),
            give_up=give_up,
            release=release,
            find_silence=lambda machine: parts[part_of[machine]].find_silence(machine),
        )

    @staticmethod
    def check_machines(machines: Iterable[Machine]) -> None:
        """Raise InvalidInput with the problems that the backends of all kinds find in their machines."""
        problems: list[Problem] = []
        described = tuple(machines)
        for (kind, _), indices in _group_machines(described, range(len(described))).items():
            backend: type[MixableBackend] = BACKENDS.load(kind)
            try:
                backend.check_machines([described[index] for index in indices])
            except InvalidInput as error:
                problems += error.problems
        if problems:
            raise InvalidInput(problems)

    def _capabilities_of(self, machine: int) -> Capabilities:
        return self._capabilities[machine]


def _group_machines(machines: Sequence[Machine], indices: Iterable[int]) -> dict[tuple[str, bool], list[int]]:
    """Return those of ``indices`` whose machines one part can serve (see ``Machine.backend_group``)."""
    found: dict[tuple[str, bool], list[int]] = {}
    for index in indices:
        found.setdefault(machines[index].backend_group, []).append(index)
    return found


def _find_common(found: Sequence[Capabilities]) -> Capabilities:
    """Return the features that all kinds support."""
    names = [each.name for each in fields(Capabilities)]
    return Capabilities(**{name: all(getattr(each, name) for each in found) for name in names})


class _PollerView:
    """The poller as one transport sees it: it records the descriptors that the transport registers."""

    def __init__(self, poller: select.poll, part_of: dict[int, int], number: int) -> None:
        self._poller = poller
        self._part_of_descriptor = part_of
        self._number = number

    def register(self, descriptor: int, events: int) -> None:
        self._part_of_descriptor[descriptor] = self._number
        self._poller.register(descriptor, events)

    def modify(self, descriptor: int, events: int) -> None:
        self._poller.modify(descriptor, events)

    def unregister(self, descriptor: int) -> None:
        self._part_of_descriptor.pop(descriptor, None)
        self._poller.unregister(descriptor)


class TransportRouter:
    """Transport that passes every request to the transport of its machine."""

    def __init__(self, parts: Sequence[BackendPart], part_of: Mapping[int, int], poller: select.poll) -> None:
        """Create the transports of all parts; ``part_of`` maps a machine to the index of its part."""
        self._parts = parts
        self._by_descriptor: dict[int, int] = {}
        """By descriptor: the index of the part whose transport registered it."""
        views = [_PollerView(poller, self._by_descriptor, number) for number in range(len(parts))]
        self._transports = [
            part.connect(cast("select.poll", view)) for part, view in zip(parts, views, strict=True)
        ]
        self._of_machine = {machine: self._transports[number] for machine, number in part_of.items()}

    def start(self, machine: int, order: Mapping[str, Any]) -> str:
        """Start the program that ``order`` describes; return why the start failed, or ""."""
        return self._of_machine[machine].start(machine, order)

    def cancel(self, machine: int, attempt: int, grace_s: float) -> None:
        """Terminate a program; if it still runs after ``grace_s`` seconds, kill it."""
        self._of_machine[machine].cancel(machine, attempt, grace_s)

    def signal(self, machine: int, attempt: int, name: str) -> None:
        """Send the signal ``name`` to a program."""
        self._of_machine[machine].signal(machine, attempt, name)

    def forget(self, machine: int, attempt: int) -> None:
        """Drop the stored end of an attempt's program."""
        self._of_machine[machine].forget(machine, attempt)

    def measure(self, machine: int, every_s: float) -> None:
        """Measure the state of a machine every ``every_s`` seconds."""
        self._of_machine[machine].measure(machine, every_s)

    def inspect(self, machine: int) -> str:
        """Return why a machine cannot run programs now; "": it can."""
        return self._of_machine[machine].inspect(machine)

    def responds(self, machine: int) -> bool:
        """Return whether the process that watches the programs on a machine has responded recently."""
        return self._of_machine[machine].responds(machine)

    def reattach(self, machine: int) -> None:
        """Connect again to the process that watches the programs on a machine."""
        self._of_machine[machine].reattach(machine)

    def flush(self) -> None:
        """Send all buffered requests."""
        for transport in self._transports:
            transport.flush()

    def receive(self, descriptor: int) -> Sequence[ProgramReport]:
        """Return the reports available on a descriptor; a descriptor that was closed meanwhile has none."""
        number = self._by_descriptor.get(descriptor)
        return () if number is None else self._transports[number].receive(descriptor)

    def check(self) -> Sequence[ProgramReport]:
        """Return the reports found by the periodic checks of all transports."""
        return [report for transport in self._transports for report in transport.check()]

    def recover(self, attempts: Sequence[RecoveredAttempt]) -> SurvivingPrograms:
        """Return the programs of these attempts that the transports of their machines find."""
        found = SurvivingPrograms()
        for part, transport in zip(self._parts, self._transports, strict=True):
            if part.capabilities.reattaches:
                own = [each for each in attempts if self._of_machine[each.machine] is transport]
                found.update(transport.recover(own))
        return found

    def close(self, *, stop: bool) -> None:
        """Disconnect from all machines."""
        for transport in self._transports:
            transport.close(stop=stop)
