"""The Slurm backend: each machine is a partition of one cluster, and each program is a job.

weft runs on a login node. The project and the sandboxes are on a file system that the compute nodes share. A
job gets as many nodes as the plan says; its program runs once, on the first of them, with the variables of
Slurm, so that it can start the others with ``srun`` or ``mpirun``.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from weft.backends.attempt.attempt import ActiveAttempt
from weft.backends.attempt.backend import BackendPart, ProgramBackend
from weft.backends.backend import Capabilities, ProjectContext, find_unknown_keys
from weft.backends.slurm.commands import NodeGroup
from weft.backends.slurm.controller import SlurmController, SlurmRefused, SlurmUnreachable
from weft.backends.slurm.job_queue import JobQueue
from weft.errors import InvalidInput, Problem, nearest
from weft.instance.instance import mark_untimed_tasks
from weft.platform.machine import Machine
from weft.units import parse_bytes

_TEXTS = ("partition", "account", "qos", "constraint", "gres", "sandbox")
_NUMBERS = ("time_margin", "commands_per_s", "poll_every")
_KEYS = ("kind", *_TEXTS, *_NUMBERS, "memory_per_node", "exclusive")
_COMMANDS = ("sbatch", "squeue", "scancel", "sinfo")
_TIMEOUT_S = 10.0


class SlurmBackend(ProgramBackend):
    """Runs programs as jobs of Slurm."""

    kind: ClassVar[str] = "slurm"
    capabilities: ClassVar[Capabilities] = Capabilities(
        runs_programs=True,
        virtual_time=False,
        reattaches=True,
        limits_time=True,
        limits_memory=True,
        signals=True,
        own_disk=False,
    )

    def __init__(self, context: ProjectContext, *, grace_s: float = math.inf) -> None:
        super().__init__(context, partial(JobQueue, context), grace_s=grace_s)

    @staticmethod
    def check_machines(machines: Iterable[Machine]) -> None:
        """Raise InvalidInput for wrong settings, a missing Slurm, and partitions that do not exist.

        A Slurm that does not answer is no problem: it may answer later.
        """
        machines = list(machines)
        problems = [problem for machine in machines for problem in _find_wrong_settings(machine)]
        missing = [name for name in _COMMANDS if shutil.which(name) is None]
        if missing and not problems:
            problems.append(
                Problem(
                    what=f"machine {machines[0].name!r}: Slurm is not installed here (no {missing[0]})",
                    rule="sbatch, squeue, scancel and sinfo must be on the PATH",
                    advice="run weft on a login node of the cluster",
                )
            )
        if not problems:
            groups = _list_partitions()
            problems = [each for machine in machines for each in _find_wrong_partition(machine, groups)]
        if problems:
            raise InvalidInput(problems)

    @classmethod
    def part(cls, context: ProjectContext, machines: Sequence[int]) -> BackendPart:
        """Return what the backend contributes for these machines of a platform with several kinds."""
        connect = partial(JobQueue, context, machines=machines)
        needs = partial(describe_needs, context)
        return BackendPart(capabilities=cls.capabilities, connect=connect, describe_needs=needs)

    def _describe_needs(self, attempt: ActiveAttempt) -> Mapping[str, Any]:
        return describe_needs(self._context, attempt)


def describe_needs(context: ProjectContext, attempt: ActiveAttempt) -> Mapping[str, Any]:
    """Return what the job of an attempt needs: its nodes and, if its machine has a margin, its seconds."""
    needs: dict[str, Any] = {"nodes": attempt.count}
    if context.machines[attempt.machine].backend.get("time_margin") is not None:
        compiled = context.compiled_workflow(attempt.run)
        if not mark_untimed_tasks(compiled.instance)[attempt.task]:
            needs["expected_s"] = compiled.seconds(attempt.task, attempt.machine, attempt.count)
    return needs


def _find_wrong_settings(machine: Machine) -> Iterator[Problem]:
    where, stated = f"machine {machine.name!r}: backend", machine.backend
    yield from find_unknown_keys(machine, _KEYS)
    for key in _TEXTS:
        value = stated.get(key)
        if value is not None and not (isinstance(value, str) and value and value.isprintable()):
            yield Problem(what=f"{where}: {key} {value!r}", rule="must be a text")
    for key in _NUMBERS:
        value = stated.get(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 < float(str(value)) < math.inf):
            yield Problem(what=f"{where}: {key} {value!r}", rule="must be a number above 0")
    if not isinstance(exclusive := stated.get("exclusive", False), bool):
        yield Problem(what=f"{where}: exclusive {exclusive!r}", rule="must be true or false")
    if (memory := stated.get("memory_per_node")) is not None:
        try:
            if not parse_bytes(str(memory)):
                raise ValueError
        except ValueError:
            yield Problem(what=f"{where}: memory_per_node {memory!r}", rule="must be a size such as 4GB")


def _list_partitions() -> Sequence[NodeGroup]:
    try:
        return SlurmController(timeout_s=_TIMEOUT_S).list_partitions()
    except (SlurmRefused, SlurmUnreachable):
        return ()


def _find_wrong_partition(machine: Machine, groups: Sequence[NodeGroup]) -> Iterator[Problem]:
    if not groups:
        return
    where = f"machine {machine.name!r}: backend"
    wanted = machine.backend.get("partition")
    names = sorted({group.partition for group in groups})
    own = [group for group in groups if group.partition == wanted or (wanted is None and group.default)]
    if not own and wanted is None:
        yield Problem(
            what=f"{where}: no partition, and this Slurm has no default",
            advice=f"set `partition`: {', '.join(names)}",
        )
    elif not own:
        near = nearest(str(wanted), names)
        advice = f"did you mean {near!r}?" if near else f"partitions here: {', '.join(names)}"
        yield Problem(what=f"{where}: there is no partition {wanted!r}", advice=advice)
    elif machine.nodes > (count := sum(group.count for group in own)):
        yield Problem(
            what=f"machine {machine.name!r}: {machine.nodes} nodes",
            rule=f"partition {own[0].partition!r} has {count} nodes",
            advice="correct `nodes` of the machine",
        )
