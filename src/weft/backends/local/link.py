"""Transport to the runners of this host: one runner per machine, and the health of the machines."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.backends.attempt.attempt import ProgramReport
from weft.backends.attempt.backend import SurvivingPrograms
from weft.backends.attempt.machine_health import MachineHealth
from weft.backends.attempt.safe_paths import StagingProblem, open_directory
from weft.backends.backend import ProjectContext, RecoveredAttempt
from weft.backends.layout import ProjectLayout
from weft.backends.runner.processes import boot_id
from weft.backends.runner.runner_link import (
    RunnerFailed,
    RunnerGone,
    RunnerLink,
    RunnerScope,
    RunnerUnresponsive,
    kill_unknown,
)
from weft.platform.machine import Machine
from weft.private_files import FOLDER_MODE

_DOUBTFUL_S = 3.0
"""Seconds since the last heartbeat after which a probe of a program counts as unanswered."""


def _check_boot(end: ProgramReport, boot: str) -> ProgramReport:
    """Return the record of an end; the cause becomes ``lost`` if the host may have been rebooted after it.

    The engine syncs the outputs of a program to the disk before it records the end. If only the runner has
    recorded an end, the outputs may not have survived a reboot. Records of older versions of weft do not
    state the boot.
    """
    recorded = end.get("boot")
    if recorded == boot or (not recorded and end.get("cause") == "lost"):
        return end
    if recorded:
        text = "the computer was restarted before its end was recorded in the journal"
    else:
        text = (
            "its end was recorded by an older version of weft, without the boot of the computer: "
            "its outputs may have been lost in a restart"
        )
    return {**end, "code": None, "signal": None, "cause": "lost", "text": text}


def _list_programs(here: ProgramReport) -> SurvivingPrograms:
    """Return the programs in the ``here`` message of a runner."""
    boot = boot_id()
    return SurvivingPrograms(
        running={int(each["attempt"]) for each in here["running"]},
        ends={int(each["attempt"]): _check_boot(each, boot) for each in here["ended"]},
        starts={int(each["attempt"]): each for each in here["starts"]},
    )


def find_programs(
    layout: ProjectLayout, execution: int, machines: Sequence[Machine], machine: int, token: str
) -> SurvivingPrograms | None:
    """Return the programs of a machine in an execution that no engine drives; None: they are not known.

    No process is started or ended. Ends that the runner could not write to a full disk are included.
    """
    described = machines[machine]
    directory = layout.runner(execution, described)
    if not directory.is_dir():
        return SurvivingPrograms()
    try:
        link = RunnerLink(
            directory,
            token,
            cores=find_cores(machines, described),
            environment=os.environ,
            scope=str(RunnerScope.of(layout.home, execution)),
        )
    except RunnerFailed:
        return None
    try:
        if (here := link.find_programs()) is None or here["pid"] is not None:
            return None if here is None else _list_programs(here)
        return SurvivingPrograms(ends={int(each["attempt"]): each for each in here["ended"]})
    finally:
        link.close()


def find_cores(machines: Sequence[Machine], machine: Machine) -> list[int] | None:
    """Return the cores on which the programs of a machine run; None: all cores.

    If a physical machine states at least one core per node, its cores are divided among its shares and its
    remaining nodes, in the order of the platform. If it states fewer cores, every share uses all of them.
    """
    stated = machine.backend.get("cores")
    if not isinstance(stated, list | tuple):
        return None
    parts = [each for each in machines if each.host_name == machine.host_name]
    nodes = sum(each.nodes for each in parts)
    if len(parts) == 1 or len(stated) < nodes:
        return list(stated)
    before = sum(each.nodes for each in parts[: parts.index(machine)])
    first, end = (count * len(stated) // nodes for count in (before, before + machine.nodes))
    return list(stated[first:end])


def _cannot_measure(report: ProgramReport) -> bool:
    """Return whether a report is the answer of an older runner that cannot measure the machine."""
    return report["is"] == "problem" and str(report.get("text", "")).startswith("unknown message: 'measure'")


_FORGET_BATCH = 100
"""Number of confirmed ends per ``forget`` message; the runner keeps the ends until it gets the message."""


class RunnerPool:
    """Transport to the runners of an execution; there is one runner per machine, started on first use."""

    def __init__(self, context: ProjectContext, poller: select.poll, machines: Sequence[int]) -> None:
        """Create the transport to ``machines`` of the platform."""
        self._context = context
        self._machines = machines
        self._scope = RunnerScope.of(context.layout.home, context.execution)
        self._poller = poller
        self._links: dict[int, RunnerLink] = {}
        self._machine_of: dict[int, int] = {}
        """By file descriptor: the machine whose runner is connected."""
        self._programs: dict[int, set[int]] = {}
        """By machine: attempts whose programs run."""
        self._known: dict[int, str] = {}
        """By attempt that was started and whose end is not in the journal yet: its nonce."""
        self._is_clear = False
        """Whether the programs that are not in the journal were ended."""
        self._cancelled: dict[int, float] = {}
        """By cancelled attempt: its grace period. After a lost connection, the cancellation is sent again."""
        self._backlog: list[ProgramReport] = []
        """Reports for the next ``check``, such as ends found while another program was started."""
        self._confirmed: dict[int, list[int]] = {}
        """By machine: attempts whose ends are in the journal, and which its next ``forget`` message names."""
        self._environment = dict(os.environ)
        self._measured: dict[int, float] = {}
        """By machine whose state is measured: the seconds between measurements."""
        self._health = MachineHealth(context)

    def start(self, machine: int, order: Mapping[str, Any]) -> str:
        """Start a program through the machine's runner; return why this failed, or "".

        No program is started on a lost machine.
        """
        if machine in self._health.lost:
            return self._health.lost[machine].problem
        if not self._is_connected(machine):
            found = self._replace_runner(machine)
            self._backlog += found
        if not self._is_connected(machine):
            try:
                self._connect(machine)
            except (RunnerFailed, RunnerUnresponsive) as error:
                self._lose_runner(machine, str(error))
                return str(error)
        if not self._health.has_worked(machine):  # a measured machine was connected without a sandbox
            self._health.remember(machine)
        # Added after the connection: older records of this attempt are from a start that the journal lost.
        self._known[order["attempt"]] = order["nonce"]
        self._send(machine, order)
        self._programs.setdefault(machine, set()).add(order["attempt"])
        return ""

    def cancel(self, machine: int, attempt: int, grace_s: float) -> None:
        """Terminate a program; if it still runs after ``grace_s`` seconds, kill it."""
        self._cancelled[attempt] = grace_s
        self._send(machine, {"do": "cancel", **self._name(attempt), "grace_s": grace_s})

    def signal(self, machine: int, attempt: int, name: str) -> None:
        """Send the signal ``name`` to a program."""
        self._send(machine, {"do": "signal", **self._name(attempt), "signal": name})

    def _name(self, attempt: int) -> dict[str, Any]:
        return {"attempt": attempt, "nonce": self._known.get(attempt, "")}

    def measure(self, machine: int, every_s: float) -> None:
        """Measure the state of a machine every ``every_s`` seconds; it is reported as ``measured``."""
        self._measured[machine] = every_s
        try:
            if not self._is_connected(machine):
                self._connect(machine)
        except (RunnerFailed, RunnerUnresponsive) as error:
            self._lose_runner(machine, str(error))
            self._backlog.append({"is": "measured", "machine": machine})
        else:
            self._request_measurements([machine])

    def _request_measurements(self, machines: Iterable[int]) -> None:
        """Request measurements from the runners of machines; each request lists weft's own processes."""
        runners = sorted(link.pid for link in self._links.values() if link.connected and link.pid is not None)
        for machine in machines:
            described = self._context.machines[machine]
            order = {
                "do": "measure", "every_s": self._measured[machine], "nodes": described.nodes,
                "sandbox": str(self._context.layout.sandbox(described)), "runners": runners,
                "engine": os.getpid(),
            }  # fmt: skip
            self._send(machine, order)

    def inspect(self, machine: int) -> str:
        """Return why a machine cannot run programs now, or "".

        A machine that cannot run programs is reported as lost. While programs run on a machine, a full disk
        is no reason: a lost machine's programs would be ended, although their ends may free space.
        """
        if machine in self._health.lost:
            return self._health.lost[machine].problem
        problem = self._health.find_problem(machine)
        if self._health.is_full(machine) and self._programs.get(machine):
            return ""
        if problem:
            self._lose(machine, problem)
        return problem

    def responds(self, machine: int) -> bool:
        """Return whether a machine's runner has sent a heartbeat recently; True if no runner is connected."""
        return not (self._is_connected(machine) and self._links[machine].is_silent(_DOUBTFUL_S))

    def reattach(self, machine: int) -> None:
        """Connect again to a runner without a recent heartbeat; replace it if it still does not answer.

        A stopped runner is continued.
        """
        if not self.responds(machine):
            ends = self._replace_runner(machine)
            self._backlog += ends

    def _lose(self, machine: int, problem: str) -> None:
        """Report a machine as lost, once and before all other reports; the backend then ends its programs."""
        if self._health.lose(machine, problem):
            facts = {"lasting": self._health.is_lasting(machine), "full": self._health.is_full(machine)}
            self._backlog.insert(0, {"is": "lost", "machine": machine, "text": problem, **facts})

    def _lose_runner(self, machine: int, problem: str) -> None:
        """Report a machine as lost because its runner is missing.

        A machine that has never worked is reported only if its sandbox is unusable.
        """
        if not self._health.has_worked(machine):
            self.inspect(machine)
        else:
            self._lose(machine, problem)

    def _find_returned(self) -> list[ProgramReport]:
        """Return a report for each lost machine that can run programs again."""
        found: list[ProgramReport] = []
        for machine in self._health.due():
            problem = self._health.restore(machine)
            try:
                if not problem and not self._is_connected(machine):
                    self._connect(machine)
            except (RunnerFailed, RunnerUnresponsive) as error:
                problem = str(error)
            if problem:
                self._health.postpone(machine, problem)
            else:
                self._health.lost.pop(machine)
                found.append({"is": "back", "machine": machine})
        return found

    def forget(self, machine: int, attempt: int) -> None:
        """Drop the stored end of an attempt's program, because the journal on disk now contains this end."""
        self._cancelled.pop(attempt, None)
        self._known.pop(attempt, None)
        confirmed = self._confirmed.setdefault(machine, [])
        confirmed.append(attempt)
        if len(confirmed) >= _FORGET_BATCH:
            self._send_confirmed(machine)

    def _send_confirmed(self, machine: int) -> None:
        if confirmed := self._confirmed.get(machine):
            self._send(machine, {"do": "forget", "attempts": confirmed.copy()})
            confirmed.clear()

    def flush(self) -> None:
        """Send buffered messages."""
        for link in self._links.values():
            link.flush()

    def receive(self, descriptor: int) -> list[ProgramReport]:
        """Return the reports of a runner.

        If the connection is lost, the runner is replaced if it had programs, and the ends of the programs
        that were lost with it are returned.
        """
        machine = self._machine_of[descriptor]
        try:
            reports: list[ProgramReport] = list(self._links[machine].receive())
        except RunnerGone:
            self._unregister(machine)
            return self._replace_runner(machine)
        running = self._programs.setdefault(machine, set())
        running.difference_update(each["attempt"] for each in reports if each["is"] == "ended")
        return [
            {**report, "is": "measured", "machine": machine}
            if report["is"] == "measured" or _cannot_measure(report)
            else report
            for report in reports
        ]

    def check(self) -> list[ProgramReport]:
        """Replace unresponsive runners; return reports on programs that were lost, and on machines.

        A machine is reported as lost if its sandbox has disappeared, and as back when it can be used again.
        """
        returned = self._find_returned()
        for machine, link in self._links.items():
            if link.connected and link.is_unresponsive:
                ends = self._replace_runner(machine)
                self._backlog += ends
            if link.connected and (problem := self._health.find_missing(machine)):
                self._lose(machine, problem)
        found, self._backlog = self._backlog, []
        return [*returned, *found]

    def recover(self, attempts: Sequence[RecoveredAttempt]) -> SurvivingPrograms:
        """Connect to the runners of an earlier engine; return the programs of these attempts.

        The runners discard all other programs and records. Raises RunnerFailed.
        """
        found = SurvivingPrograms()
        self._known.update((each.attempt, each.nonce) for each in attempts)
        for machine in sorted({each.machine for each in attempts}):
            survivors = self._connect(machine)
            self._programs.setdefault(machine, set()).update(survivors.running)
            found.update(survivors)
        return found

    def close(self, *, stop: bool) -> None:
        """Disconnect from all runners.

        With ``stop``, the runners exit when no program runs, also those that only an earlier engine used.
        """
        if stop:
            self._reach_unused()
        for machine, link in self._links.items():
            self._unregister(machine)
            if link.connected and stop:
                self._send_confirmed(machine)
                link.end()
            link.flush()
            link.close()

    def _connect(self, machine: int) -> SurvivingPrograms:
        """Connect to a machine's runner, or start one; return its programs.

        Orphans of a dead runner are killed and reported as lost. An unresponsive runner is killed and
        replaced. Raises RunnerFailed.
        """
        # The runner may serve the engine that has taken over; its programs would be discarded as unknown.
        self._context.check_claim()
        self._end_unknown()
        link = self._link(machine)
        self._unregister(machine)
        try:
            here = link.connect(known=self._known)
        except RunnerUnresponsive:
            link.kill()
            here = link.connect(known=self._known)
        self._machine_of[link.fileno()] = machine
        self._poller.register(link.fileno(), select.POLLIN)
        self._health.remember(machine)
        # All runners must count a new runner among weft's own processes.
        self._request_measurements([each for each in self._measured if self._is_connected(each)])
        return _list_programs(here)

    def _end_unknown(self) -> None:
        """End the programs that are not in the journal, before the first program is started."""
        if not self._is_clear:
            kill_unknown(self._scope, self._context.token, self._context.is_known)
            self._is_clear = True

    def _replace_runner(self, machine: int) -> list[ProgramReport]:
        """Connect to a machine's runner again, or start another; return the ends of programs that have ended.

        Reports about lost machines come before the ends. Nothing is done if no program runs on the machine.
        """
        if not (waiting := sorted(self._programs.get(machine, ()))):
            return []
        text, left = "its runner died", SurvivingPrograms()
        try:
            left = self._connect(machine)
        except (RunnerFailed, RunnerUnresponsive) as error:
            text = str(error)
            self._lose_runner(machine, text)
        ended = [attempt for attempt in waiting if attempt not in left.running]
        self._programs[machine].difference_update(ended)
        for attempt in left.running & self._cancelled.keys():
            self.cancel(machine, attempt, self._cancelled[attempt])
        lost = {"is": "ended", "cause": "lost", "text": text}
        ends = [left.ends.get(attempt, {**lost, **self._name(attempt)}) for attempt in ended]
        # A lost machine is reported before its programs, which are then not tried there again.
        machines, self._backlog = self._backlog, []
        return [*machines, *ends]

    def _reach_unused(self) -> None:
        """Connect to the runners that an earlier engine started and that this engine has not used."""
        context = self._context
        for machine in self._machines:
            place = context.layout.runner(context.execution, context.machines[machine])
            if machine not in self._links and place.is_dir():
                self._link(machine).reach()

    def _is_connected(self, machine: int) -> bool:
        link = self._links.get(machine)
        return link is not None and link.connected

    def _send(self, machine: int, message: Mapping[str, Any]) -> None:
        if self._is_connected(machine):
            self._links[machine].send(message)

    def _unregister(self, machine: int) -> None:
        for descriptor in [each for each, of in self._machine_of.items() if of == machine]:
            self._poller.unregister(descriptor)
            del self._machine_of[descriptor]

    def _link(self, machine: int) -> RunnerLink:
        if (link := self._links.get(machine)) is None:
            context = self._context
            described = context.machines[machine]
            self._make_folder()
            link = self._links[machine] = RunnerLink(
                context.layout.runner(context.execution, described),
                context.token,
                cores=find_cores(context.machines, described),
                environment=self._environment,
                scope=str(self._scope),
            )
        return link

    def _make_folder(self) -> None:
        """Create the folder of all runners, without following links created by tasks."""
        above = "runners", str(self._context.execution)
        try:
            with open_directory(self._context.layout.home, above, make=True, mode=FOLDER_MODE):
                return
        except StagingProblem as problem:
            raise RunnerFailed(f"no runner can be started: {problem}") from problem
