"""The runners of an execution: one per machine, started when the machine is first used."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from typing import Any

from weft.backends.backend import Circumstances
from weft.backends.runner.link import RunnerFailed, RunnerGone, RunnerHangs, RunnerLink
from weft.backends.staging.problem import StagingProblem
from weft.backends.staging.safe_paths import directory_at
from weft.platform.machine import Machine

__all__ = ["Record", "Runners"]

_MOST_OVER = 100
"""So many ends are told to be forgotten at once: until then the runner keeps them in memory."""

Record = Mapping[str, Any]
"""What a runner says: of a program's end, of all that it has."""


class Runners:
    """Connections to runners, by machine."""

    def __init__(self, circumstances: Circumstances, poller: select.poll) -> None:
        self._circumstances = circumstances
        self._poller = poller
        self._links: dict[int, RunnerLink] = {}
        self._machine_of: dict[int, int] = {}
        """By file descriptor."""
        self._unsent: set[int] = set()
        """Machines for whose runner messages have gathered."""
        self._over: dict[int, list[int]] = {}
        """By machine: attempts whose end is in the journal, which the runner has not been told."""
        self._environment = dict(os.environ)

    def connect(self, machine: int) -> Record:
        """Reach a machine's runner, or start one; give its greeting: what runs, and ends not yet forgotten.

        What a dead runner left is ended first, and told as lost; one that hangs is killed. Raises
        RunnerFailed.
        """
        link = self._link(machine)
        self._unregister(machine)
        try:
            here = link.connect()
        except RunnerHangs:
            link.kill()
            here = link.connect()
        self._machine_of[link.fileno()] = machine
        self._poller.register(link.fileno(), select.POLLIN)
        return here

    def start(self, machine: int, message: Record) -> str:
        """Give a program to the machine's runner; say why that was not possible, or ""."""
        link = self._links.get(machine)
        if link is None or not link.connected:
            try:
                self.connect(machine)
            except (RunnerFailed, RunnerHangs) as error:
                return str(error)
        self._send(machine, message)
        return ""

    def cancel(self, machine: int, attempt: int, grace_s: float) -> None:
        """Tell a program to end."""
        self._send(machine, {"do": "cancel", "attempt": attempt, "grace_s": grace_s})

    def signal(self, machine: int, attempt: int, name: str) -> None:
        """Send a signal to a program."""
        self._send(machine, {"do": "signal", "attempt": attempt, "signal": name})

    def forget(self, machine: int, attempt: int) -> None:
        """Say that the end of a program is in the journal: that has time, and is said of many at once."""
        over = self._over.setdefault(machine, [])
        over.append(attempt)
        if len(over) >= _MOST_OVER:
            self._send_over(machine)

    def _send_over(self, machine: int) -> None:
        over = self._over.get(machine)
        if over:
            self._send(machine, {"do": "forget", "attempts": over.copy()})
            over.clear()

    def flush(self) -> None:
        """Send what has gathered."""
        for machine in list(self._unsent):
            link = self._links[machine]
            link.flush()
            if not link.has_unsent:
                self._unsent.discard(machine)

    def receive(self, descriptor: int) -> tuple[int, list[dict[str, Any]], bool]:
        """Take what a runner says: the machine, the messages, and whether the runner is gone."""
        machine = self._machine_of[descriptor]
        try:
            return machine, list(self._links[machine].receive()), False
        except RunnerGone:
            self._unregister(machine)
            return machine, [], True

    def silent(self) -> list[int]:
        """List the machines whose runner lives and shows no sign of it."""
        return [machine for machine, link in self._links.items() if link.connected and link.hangs]

    def close(self, *, stop: bool) -> None:
        """Let go of all; ``stop``: they end as soon as nothing runs, those of an engine that died too."""
        if stop:
            self._reach_others()
        for machine, link in self._links.items():
            self._unregister(machine)
            if link.connected and stop:
                self._send_over(machine)
                link.end()
            link.flush()
            link.close()

    def _reach_others(self) -> None:
        """Connect to the living runners that were not needed any more since an engine died."""
        circumstances = self._circumstances
        for machine, described in enumerate(circumstances.machines):
            place = circumstances.layout.runner(circumstances.execution, described)
            if machine not in self._links and place.is_dir():
                self._link(machine).reach()

    def _send(self, machine: int, message: Record) -> None:
        link = self._links.get(machine)
        if link is not None and link.connected:
            link.send(message)
            self._unsent.add(machine)

    def _unregister(self, machine: int) -> None:
        for descriptor in [each for each, of in self._machine_of.items() if of == machine]:
            self._poller.unregister(descriptor)
            del self._machine_of[descriptor]

    def _make_room(self) -> None:
        """Make the directory of all runners, entered without following links that a task has put there."""
        above = "runners", str(self._circumstances.execution)
        try:
            with directory_at(self._circumstances.layout.home, above, make=True):
                return
        except StagingProblem as problem:
            raise RunnerFailed(f"no runner can be started: {problem}") from problem

    def _link(self, machine: int) -> RunnerLink:
        link = self._links.get(machine)
        if link is None:
            circumstances = self._circumstances
            described = circumstances.machines[machine]
            self._make_room()
            link = self._links[machine] = RunnerLink(
                circumstances.layout.runner(circumstances.execution, described),
                circumstances.token,
                cores=_cores(described),
                environment=self._environment,
            )
        return link


def _cores(machine: Machine) -> list[int] | None:
    """Give the cores a machine asks for as its own; None: any."""
    stated = machine.backend.get("cores")
    return [int(core) for core in stated] if isinstance(stated, list | tuple) else None
