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

from weft.backends.attempt.attempt import ActiveAttempt, ProgramReport
from weft.backends.attempt.backend import BackendPart, ProgramBackend
from weft.backends.backend import ProjectContext, find_unknown_keys
from weft.backends.slurm.commands import NodeGroup
from weft.backends.slurm.controller import SlurmController, SlurmRefused, SlurmUnreachable
from weft.backends.slurm.job_queue import JobQueue
from weft.backends.slurm.pilots import MODES
from weft.engine.state.compiled import CompiledWorkflow
from weft.errors import InvalidInput, Problem, nearest
from weft.instance.instance import mark_untimed_tasks
from weft.platform.machine import Machine
from weft.units import parse_bytes, parse_seconds

_TEXTS = ("partition", "account", "qos", "constraint", "gres", "sandbox")
_NUMBERS = ("time_margin", "commands_per_s", "poll_every")
_TIMES = ("pilot_below", "pilot_time", "pilot_idle")
_KEYS = ("kind", "unit", *_TEXTS, *_NUMBERS, "pilot", *_TIMES, "memory_per_node", "exclusive")
_UNITS = ("node", "core")
_COMMANDS = ("sbatch", "squeue", "scancel", "sinfo")
_TIMEOUT_S = 10.0


class SlurmBackend(ProgramBackend):
    """Runs programs as jobs of Slurm."""

    kind: ClassVar[str] = "slurm"

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
        """Return the transport to these machines, and what their jobs need."""
        needs = JobNeeds(context)
        return BackendPart(
            capabilities=cls.capabilities,
            connect=partial(JobQueue, context, machines=machines),
            describe_needs=needs.describe,
            note_end=needs.note_end,
        )


class JobNeeds:
    """What the jobs of attempts need from Slurm: nodes, and the run time to request."""

    def __init__(self, context: ProjectContext) -> None:
        self._context = context
        self._timeouts: dict[tuple[int, int], int] = {}
        """By run and task: how often its job reached a time limit."""
        self._untimed: dict[int, tuple[CompiledWorkflow, Sequence[bool]]] = {}

    def describe(self, attempt: ActiveAttempt) -> Mapping[str, Any]:
        """Return the fields of an order that describe the job of an attempt."""
        needs: dict[str, Any] = {"nodes": attempt.count}
        compiled = self._context.compiled_workflow(attempt.run)
        if not self._is_untimed(attempt.run, compiled)[attempt.task]:
            needs["expected_s"] = compiled.seconds(attempt.task, attempt.machine, attempt.count)
            needs["requested_s"] = self._find_requested_s(attempt, compiled, needs["expected_s"])
        return needs

    def note_end(self, attempt: ActiveAttempt, report: ProgramReport) -> None:
        """Count the time limits that the jobs of a task have reached; the next job requests more time."""
        if report.get("cause") == "timeout":
            key = attempt.run, attempt.task
            self._timeouts[key] = self._timeouts.get(key, 0) + 1

    def _find_requested_s(
        self, attempt: ActiveAttempt, compiled: CompiledWorkflow, expected_s: float
    ) -> float | None:
        """Return the run time to request from Slurm: P90 times the margin, doubled after each timeout.

        Without a P90 it is the estimate times the margin; None without a margin.
        """
        margin = self._context.machines[attempt.machine].backend.get("time_margin")
        if not isinstance(margin, int | float):
            return None
        spread = float(compiled.instance.seconds.spread[attempt.task])
        p90_s = expected_s if math.isnan(spread) else expected_s * max(1.0, spread)
        return p90_s * margin * 2.0 ** min(self._timeouts.get((attempt.run, attempt.task), 0), 20)

    def _is_untimed(self, run: int, compiled: CompiledWorkflow) -> Sequence[bool]:
        """Return for each task of a run whether its length is unknown."""
        if (found := self._untimed.get(run)) is None or found[0] is not compiled:
            found = self._untimed[run] = compiled, mark_untimed_tasks(compiled.instance).tolist()
        return found[1]


def _find_wrong_settings(machine: Machine) -> Iterator[Problem]:
    where, stated = f"machine {machine.name!r}: backend", machine.backend
    yield from find_unknown_keys(machine, (*_KEYS, "via"))
    if "via" in stated:
        yield Problem(
            what=f"{where}: via {stated['via']!r}",
            rule="a cluster cannot be reached through ssh yet: jobs and weft share the files of the project",
            advice="run weft on a login node of the cluster",
        )
    for key in _TEXTS:
        value = stated.get(key)
        if value is not None and not (isinstance(value, str) and value and value.isprintable()):
            yield Problem(what=f"{where}: {key} {value!r}", rule="must be a text")
    for key in _NUMBERS:
        value = stated.get(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 < float(str(value)) < math.inf):
            yield Problem(what=f"{where}: {key} {value!r}", rule="must be a number above 0")
    for key in _TIMES:
        value = stated.get(key)
        if value is not None and not parse_seconds(str(value)):
            yield Problem(what=f"{where}: {key} {value!r}", rule="must be a time above 0, such as 90 or 10m")
    for key, words in (("pilot", MODES), ("unit", _UNITS)):
        if (value := stated.get(key, words[0])) not in words:
            yield Problem(what=f"{where}: {key} {value!r}", rule=f"must be one of {', '.join(words)}")
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
        return
    per_node = [group.cores if machine.node_is_core else 1 for group in own]
    count = sum(group.count * size for group, size in zip(own, per_node, strict=True))
    word = "cores" if machine.node_is_core else "nodes"
    if own and machine.nodes > count:
        yield Problem(
            what=f"machine {machine.name!r}: {machine.nodes} {word}",
            rule=f"partition {own[0].partition!r} has {count} {word}",
            advice="correct `nodes` of the machine",
        )
