"""The Slurm backend: each machine is a partition of a cluster, and each program is a job.

weft runs on a login node, where the project and the sandboxes are on a file system that the compute nodes
share; or it runs elsewhere and reaches a login node through ssh (``via``): then a process there runs the jobs
(``login.py``), and files are sent to it as to an ssh host. A job gets as many nodes as the plan says; its
program runs once, on the first of them, with the variables of Slurm, so that it can start the others with
``srun`` or ``mpirun``.
"""

from __future__ import annotations

import math
import select
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from weft.backends.attempt.attempt import ActiveAttempt, ProgramReport
from weft.backends.attempt.backend import BackendPart, ProgramBackend, SurvivingPrograms
from weft.backends.attempt.machine_health import MachineHealth
from weft.backends.backend import ProjectContext, RecoveredAttempt, find_unknown_keys
from weft.backends.bundle import make_bundle
from weft.backends.layout import ProjectLayout
from weft.backends.runner.runner_link import RunnerScope
from weft.backends.slurm.commands import NodeGroup
from weft.backends.slurm.controller import SlurmController, SlurmRefused, SlurmUnreachable
from weft.backends.slurm.job_queue import JobQueue, QueueContext, find_wrong_partition
from weft.backends.slurm.login_server import COMMANDS
from weft.backends.slurm.pilots import MODES, Partition
from weft.backends.ssh.host import LOGIN_KEYS, read_login_settings
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.states import Cause
from weft.errors import InvalidInput, Problem
from weft.instance.instance import mark_untimed_tasks
from weft.platform.machine import Machine
from weft.units import parse_bytes, parse_seconds

_TEXTS = ("partition", "account", "qos", "constraint", "gres", "sandbox", "python")
_NUMBERS = ("time_margin", "commands_per_s", "poll_every")
_TIMES = ("pilot_below", "pilot_time", "pilot_idle", "heartbeat")
_KEYS = (
    "kind",
    "unit",
    *_TEXTS,
    *_NUMBERS,
    "mode",
    *_TIMES,
    "memory_per_node",
    "exclusive",
    "array_size",
    "via",
)
_UNITS = ("node", "core")
_TIMEOUT_S = 10.0


class SlurmBackend(ProgramBackend):
    """Runs programs as jobs of Slurm."""

    kind: ClassVar[str] = "slurm"

    @staticmethod
    def check_machines(machines: Iterable[Machine]) -> None:
        """Raise InvalidInput for wrong settings, a missing Slurm, and partitions that do not exist.

        A Slurm that does not answer is no problem: it may answer later. Clusters behind login nodes are
        checked by ``check_sites``.
        """
        found = [(machine, list(_find_wrong_settings(machine))) for machine in machines]
        problems = [problem for _, each in found for problem in each]
        here = [machine for machine, wrong in found if "via" not in machine.backend and not wrong]
        if here and (missing := [name for name in COMMANDS if shutil.which(name) is None]):
            problems.append(
                Problem(
                    what=f"machine {here[0].name!r}: Slurm is not installed here (no {missing[0]})",
                    rule="sbatch, squeue, scancel and sinfo must be on the PATH",
                    advice="run weft on a login node of the cluster, or name one with `via`",
                )
            )
        elif here:
            groups = _list_partitions()
            for machine in here:
                problems += find_wrong_partition(_partition(machine), groups)
        if problems:
            raise InvalidInput(problems)

    @staticmethod
    def check_sites(machines: Iterable[Machine]) -> None:
        """Connect to login nodes; raise InvalidInput for a missing Slurm and unknown partitions there."""
        behind = [machine for machine in machines if "via" in machine.backend]
        if not behind:
            return
        from weft.backends.slurm.login_node import find_wrong_sites  # loads the library of ssh connections

        if problems := find_wrong_sites(behind, [_partition(machine) for machine in behind]):
            raise InvalidInput(problems)

    @classmethod
    def part(cls, context: ProjectContext, machines: Sequence[int]) -> BackendPart:
        """Return the transport to these machines, and what their jobs need.

        Either all of the machines are reached through a login node, or none is.
        """
        needs = JobNeeds(context)
        if any("via" in context.machines[machine].backend for machine in machines):
            from weft.backends.slurm.login_node import make_part  # loads the library of ssh connections

            described = [_partition(context.machines[machine]) for machine in machines]
            found = make_part(context, machines, described)
            return replace(found, describe_needs=needs.describe)
        return BackendPart(
            capabilities=cls.capabilities,
            connect=partial(ClusterQueue, context, machines),
            describe_needs=needs.describe,
        )

    @staticmethod
    def clean_machine(
        layout: ProjectLayout,
        machine: Machine,
        executions: Mapping[int, str],
        spared: Iterable[str],
        *,
        dry_run: bool,
    ) -> Mapping[str, Any]:
        """Remove the directories of finished executions on a cluster behind a login node.

        See ``SshBackend.clean_machine``.
        """
        from weft.backends.slurm.login_node import clean_machine

        return clean_machine(layout, machine, executions, spared, _partition(machine), dry_run=dry_run)


def _partition(machine: Machine) -> Partition:
    """Return what jobs need to know about a machine."""
    return Partition(
        name=machine.name,
        nodes=machine.nodes,
        cores=machine.cores,
        node_is_core=machine.node_is_core,
        backend=machine.backend,
    )


class ClusterQueue(JobQueue):
    """Transport to the jobs of machines whose file system this host shares."""

    def __init__(self, context: ProjectContext, machines: Sequence[int], poller: select.poll) -> None:
        """Create the transport to ``machines`` of the platform."""
        self._health = MachineHealth(context)
        layout, execution = context.layout, context.execution
        described = {machine: context.machines[machine] for machine in machines}
        super().__init__(
            QueueContext(
                machines={machine: _partition(each) for machine, each in described.items()},
                folders={machine: layout.runner(execution, each) for machine, each in described.items()},
                scope=RunnerScope.of(layout.home, execution),
                token=context.token,
                is_known=context.is_known,
                bundle=make_bundle,
            ),
            poller,
        )

    def start(self, machine: int, order: Mapping[str, Any]) -> str:
        """Write the order of a job and queue its submission; return why this failed, or ""."""
        if machine in self._health.lost:
            return self._health.lost[machine].problem
        if not (problem := super().start(machine, order)):
            self._health.remember(machine)
        return problem

    def inspect(self, machine: int) -> str:
        """Return why the sandbox of a machine cannot be used now, or ""; such a machine is lost."""
        if machine in self._health.lost:
            return self._health.lost[machine].problem
        problem = self._health.find_problem(machine)
        if self._health.is_full(machine) and self.has_jobs(machine):
            return ""
        if problem and self._health.lose(machine, problem):
            facts = {"lasting": self._health.is_lasting(machine), "full": self._health.is_full(machine)}
            self.report_first({"is": "lost", "machine": machine, "text": problem, **facts})
        return problem

    def responds(self, machine: int) -> bool:  # noqa: ARG002
        """Return True: a Slurm that does not answer says nothing about its jobs."""
        return True

    def reattach(self, machine: int) -> None:
        """Do nothing: there is no connection to a job."""

    def check(self) -> list[ProgramReport]:
        """Read the records of jobs; return reports on programs and machines."""
        return [*self._find_returned(), *super().check()]

    def _find_returned(self) -> list[ProgramReport]:
        found: list[ProgramReport] = []
        for machine in self._health.due():
            if problem := self._health.restore(machine):
                self._health.postpone(machine, problem)
            else:
                self._health.lost.pop(machine)
                found.append({"is": "back", "machine": machine})
        return found

    def recover(self, attempts: Sequence[RecoveredAttempt]) -> SurvivingPrograms:
        """Find the jobs of an earlier engine by their files; jobs of other attempts are ended."""
        found = self.find_jobs({each.attempt: each.nonce for each in attempts})
        return SurvivingPrograms(running=found.running, ends=found.ends, starts=found.starts)


class JobNeeds:
    """What the jobs of attempts need from Slurm: nodes, and the run time to request."""

    def __init__(self, context: ProjectContext) -> None:
        self._context = context
        self._untimed: dict[int, tuple[CompiledWorkflow, Sequence[bool]]] = {}

    def describe(self, attempt: ActiveAttempt) -> Mapping[str, Any]:
        """Return the fields of an order that describe the job of an attempt."""
        needs: dict[str, Any] = {"nodes": attempt.count}
        compiled = self._context.compiled_workflow(attempt.run)
        if not self._is_untimed(attempt.run, compiled)[attempt.task]:
            needs["expected_s"] = compiled.seconds(attempt.task, attempt.machine, attempt.count)
            needs["requested_s"] = self._find_requested_s(attempt, compiled, needs["expected_s"])
        for key, cause in (("timeouts", Cause.TIMEOUT), ("ooms", Cause.OUT_OF_MEMORY)):
            if failures := self._context.count_failures(attempt.run, attempt.task, cause):
                needs[key] = failures
        return needs

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
        timeouts = self._context.count_failures(attempt.run, attempt.task, Cause.TIMEOUT)
        return p90_s * margin * 2.0 ** min(timeouts, 20)

    def _is_untimed(self, run: int, compiled: CompiledWorkflow) -> Sequence[bool]:
        """Return for each task of a run whether its length is unknown."""
        if (found := self._untimed.get(run)) is None or found[0] is not compiled:
            found = self._untimed[run] = compiled, mark_untimed_tasks(compiled.instance).tolist()
        return found[1]


def _find_wrong_settings(machine: Machine) -> Iterator[Problem]:
    where, stated = f"machine {machine.name!r}: backend", machine.backend
    yield from find_unknown_keys(machine, (*_KEYS, *LOGIN_KEYS) if "via" in stated else _KEYS)
    if "via" in stated:
        try:
            read_login_settings(stated, machine.name)
        except InvalidInput as error:
            yield from error.problems
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
    for key, words in (("mode", MODES), ("unit", _UNITS)):
        if (value := stated.get(key, words[0])) not in words:
            yield Problem(what=f"{where}: {key} {value!r}", rule=f"must be one of {', '.join(words)}")
    size = stated.get("array_size")
    if size is not None and not (type(size) is int and size > 0):
        yield Problem(what=f"{where}: array_size {size!r}", rule="must be a whole number above 0")
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
