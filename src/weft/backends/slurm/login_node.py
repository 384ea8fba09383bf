"""Clusters that are reached through ssh on a login node.

To the engine such a machine is an ssh host with a disk of its own, the file system of the cluster, on which
a process on the login node (``login_server.py``) takes the place of the runner. Connections, file transfers
and what happens when a connection is lost are those of the ssh backend.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from weft.backends.attempt.backend import BackendPart
from weft.backends.backend import ProjectContext
from weft.backends.layout import ProjectLayout
from weft.backends.slurm.commands import NodeGroup
from weft.backends.slurm.controller import SlurmController, SlurmRefused, SlurmUnreachable
from weft.backends.slurm.job_queue import find_wrong_partition
from weft.backends.slurm.pilots import Partition
from weft.backends.ssh.backend import SshBackend, SshMachine, SshRunners, clean_host
from weft.backends.ssh.connection import HostConnections
from weft.backends.ssh.host import (
    DEFAULT_SILENCE_S,
    HostError,
    HostFailure,
    HostSettings,
    read_login_settings,
)
from weft.errors import InvalidInput, Problem
from weft.platform.machine import Machine

_DEFAULT_COMMANDS_PER_S = 4.0
_CHECK_S = 10.0
"""Seconds for which a check before the run waits for a login node, and for its Slurm."""
_BUNDLE_FOLDER = "weft-programs"
"""Folder of the bundle in the sandbox, because the home folder need not be visible on compute nodes."""


class LoginNode(SshMachine):
    """One machine of a cluster behind a login node, with a process of its own there."""

    has_bundle_in_sandbox = True

    def __init__(self, *context: Any, partition: Partition) -> None:
        """Create the machine; ``context`` is that of ``SshMachine``, ``partition`` is sent to the process."""
        self._partition = partition
        super().__init__(*context)

    def _read_settings(self, machine: Machine) -> HostSettings:
        return read_login_settings(machine.backend, machine.name)

    def _bundle_folder(self, home: str) -> str:
        sandbox = self.sandbox.removeprefix("~/")
        return f"{sandbox if sandbox.startswith('/') else f'{home}/{sandbox}'}/{_BUNDLE_FOLDER}"

    def _describe_bridge(self) -> tuple[str, Mapping[str, Any]]:
        return "slurm", {"machine": asdict(self._partition)}

    @property
    def silence_s(self) -> float:
        """Return the seconds without an answer after which the cluster is lost.

        Jobs run on while the login node does not answer, so only a login node that never answered is lost
        unless the user states a limit.
        """
        if self.was_reached or math.isfinite(self.settings.silence_s):
            return self.settings.silence_s
        return DEFAULT_SILENCE_S


def make_part(
    context: ProjectContext, machines: Sequence[int], described: Sequence[Partition]
) -> BackendPart:
    """Return the transport to machines behind login nodes, their disks, and the connections for both."""
    connections = HostConnections()
    nodes = {
        index: LoginNode(
            context.layout, context.machines[index], connections, context.is_known, context.project,
            partition=_share_rate(partition, described),
        )
        for index, partition in zip(machines, described, strict=True)
    }  # fmt: skip

    def give_up() -> None:
        for node in nodes.values():
            node.give_up()

    return BackendPart(
        capabilities=SshBackend.capabilities,
        connect=partial(SshRunners, context, nodes),
        disks={index: node.disk for index, node in nodes.items()},
        give_up=give_up,
        release=connections.close,
        find_silence=lambda machine: nodes[machine].unheard_s,
    )


def _share_rate(partition: Partition, all_partitions: Sequence[Partition]) -> Partition:
    """Return a partition with its share of the commands of Slurm that may start in a second.

    Each machine has a process of its own on the login node.
    """
    site = partition.backend["via"], partition.backend.get("config")
    others = [each for each in all_partitions if (each.backend["via"], each.backend.get("config")) == site]
    stated = min(float(each.backend.get("commands_per_s", _DEFAULT_COMMANDS_PER_S)) for each in others)
    backend = {**partition.backend, "commands_per_s": stated / len(others)}
    return Partition(**{**asdict(partition), "backend": backend})


def clean_machine(
    layout: ProjectLayout,
    machine: Machine,
    executions: Mapping[int, str],
    spared: Iterable[str],
    described: Partition,
    *,
    dry_run: bool,
) -> Mapping[str, Any]:
    """Remove the directories of finished executions; see ``SshBackend.clean_machine``."""
    connections = HostConnections()
    node = LoginNode(layout, machine, connections, lambda *_: False, partition=described)
    try:
        return clean_host(node, layout, machine, executions, spared, dry_run=dry_run)
    finally:
        node.close(wait_s=0.0)
        connections.close()


def list_partitions(
    connections: HostConnections, settings: HostSettings, timeout_s: float
) -> Sequence[NodeGroup]:
    """Return the partitions of the cluster of a login node.

    Raises HostError if the login node cannot be reached, InvalidInput if Slurm is not installed there, and
    SlurmRefused or SlurmUnreachable if it does not answer.
    """
    connection = connections.host(settings)

    def run_there(arguments: Sequence[str], text: str, timeout_s: float) -> tuple[int, str, str]:
        done = connection.run(arguments, text.encode(), timeout_s)
        return done.code, done.out.decode(errors="replace"), done.err.decode(errors="replace")

    try:
        connection.connect(timeout_s)
        return SlurmController(run_there, timeout_s=timeout_s).list_partitions()
    except HostError as error:
        if error.cause is not HostFailure.NO_COMMAND:
            raise
        raise InvalidInput(
            f"Slurm is not installed on {settings.host} (no sinfo)",
            rule="sbatch, squeue, scancel and sinfo must be on the PATH of commands that ssh runs there",
            advice=f"`ssh {settings.host} which sinfo` must print its path",
        ) from None


def find_wrong_sites(machines: Sequence[Machine], described: Sequence[Partition]) -> list[Problem]:
    """Connect to the login nodes of machines; return why jobs can never run there.

    A login node or a Slurm that does not answer is no problem: it may answer later.
    """
    problems: list[Problem] = []
    sites: dict[HostSettings, list[tuple[Machine, Partition]]] = {}
    for machine, partition in zip(machines, described, strict=True):
        sites.setdefault(read_login_settings(machine.backend, machine.name), []).append((machine, partition))
    connections = HostConnections()
    try:
        for settings, here in sites.items():
            try:
                groups = list_partitions(connections, settings, _CHECK_S)
            except InvalidInput as error:
                name = here[0][0].name
                problems += (replace(each, what=f"machine {name!r}: {each.what}") for each in error.problems)
            except (HostError, SlurmRefused, SlurmUnreachable):
                continue
            else:
                problems += (each for _, part in here for each in find_wrong_partition(part, groups))
    finally:
        connections.close()
    return problems
