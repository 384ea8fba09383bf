"""Base class of all backends that run programs: it executes attempts from assignment to clean-up.

One thread waits for reports of the transport, for results of the staging threads and for the next observation
of running programs. Slow work (staging, hashing, removing files) is done in the staging threads; an attempt
without files does not need them. A subclass supplies a ``Transport``, which starts programs on machines and
reports their ends.
"""

from __future__ import annotations

import json
import math
import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from weft.backends.attempt.attempt import ActiveAttempt, AttemptRecords, ProgramReport
from weft.backends.attempt.command import EPILOG, EVALUATOR, PROLOG
from weft.backends.attempt.completion import (
    AttemptFinisher,
    FinishedAttempt,
    TaskMonitor,
    add_measured_times,
    describe_full_disk,
    halted_event,
    take_saved,
)
from weft.backends.attempt.digests import boot_id
from weft.backends.attempt.inputs import RunProducts
from weft.backends.attempt.modules import SelectorPrograms, describe_failure, module_number, read_last_line
from weft.backends.attempt.preparation import AttemptPreparer, PreparedAttempt, PreparedModule
from weft.backends.attempt.remote_disk import RemoteDisk
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.backend import Capabilities, Product, ProjectContext, RecoveredAttempt
from weft.backends.layout import attempt_folder
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.states import Cause
from weft.records import dataclass
from weft.workflow.task_graph import TRANSFER

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


_THREADS = 4
_TOO_SLOW = 1
"""Exit code by which an evaluator program reports that its task is too slow."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
"""First and longest pause before a failed epilog runs again; the pause doubles with each failure."""
_MEASURE_EVERY_S = 10.0
_IDLE_SPEED = 0.9
"""If a task would get at least this share of a core, it counts as having the whole core."""
_SIGNALS = {"checkpoint": "USR1", "suspend": "STOP", "resume": "CONT"}


@dataclass(slots=True)
class SurvivingPrograms:
    """Programs that an earlier engine started and that ``Transport.recover`` found."""

    running: set[int] = field(default_factory=set)
    """Attempts whose programs still run."""
    ends: dict[int, ProgramReport] = field(default_factory=dict)
    """By attempt: the report on a program that has ended meanwhile. ``boot`` in a report identifies the boot
    of the host during which the program ran.
    """
    starts: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """By attempt: ``at`` (wall-clock time of the start), ``reminder`` (text from ``ActiveAttempt.save``)."""

    def update(self, other: SurvivingPrograms) -> None:
        """Add the programs that were found on another machine."""
        self.running |= other.running
        self.ends |= other.ends
        self.starts |= other.starts

    def restore(self, attempt: ActiveAttempt) -> None:
        """Restore the data of an attempt that were stored when its program started.

        The data are not computed again, because the inputs may have changed since the start.
        """
        number = attempt.number
        start = self.starts.pop(number, None)
        if start is None or not (number in self.running or number in self.ends):
            return
        attempt.restore(str(start.get("reminder") or ""))
        # The end of a lost program was not observed, so its run time is unknown.
        if number in self.running or self.ends[number].get("cause") != "lost":
            attempt.began_at = float(start["at"])


class Transport(Protocol):
    """Starts programs on machines and reports their ends and the states of machines; used by one thread.

    The transport is created with a poller and registers descriptors with it. Reports arrive through these
    descriptors, or as results of the periodic ``check``.
    """

    def start(self, machine: int, order: Mapping[str, Any]) -> str:
        """Start the program that ``order`` describes; return why the start failed, or "".

        ``AttemptPreparer`` creates the order. Every report on the program must have the ``nonce`` of the
        order; reports with another nonce are ignored.
        """

    def cancel(self, machine: int, attempt: int, grace_s: float) -> None:
        """Terminate a program; if it still runs after ``grace_s`` seconds, kill it."""

    def signal(self, machine: int, attempt: int, name: str) -> None:
        """Send the signal ``name`` to a program."""

    def forget(self, machine: int, attempt: int) -> None:
        """Drop the stored end of an attempt's program, because the journal on disk now contains this end."""

    def measure(self, machine: int, every_s: float) -> None:
        """Measure the state of a machine every ``every_s`` seconds.

        The first measurement and every noticeable change are reported as ``measured``, with the values
        ``load``, ``memory_bytes`` and ``disk_bytes``. A value is None if it is unknown.
        """

    def inspect(self, machine: int) -> str:
        """Return why a machine cannot run programs now; "": it can.

        A machine that cannot run programs is reported as ``lost`` (with ``full`` if its disk is full). When
        it can run programs again, it is reported as ``back``. Before it is lost, a machine whose host does
        not answer may be reported as ``silent`` (with ``silent_s``, the seconds since its last sign of life,
        ``lost_in_s``, the seconds until it is lost or None, and the reason as ``text``), then as ``answers``.
        """

    def responds(self, machine: int) -> bool:
        """Return whether the process that watches the programs on a machine has responded recently."""

    def reattach(self, machine: int) -> None:
        """Connect again to the process that watches the programs on a machine, or replace this process.

        If the process answers, its programs continue. Programs that have ended meanwhile are reported as
        ended, and so are programs that were lost because the process was replaced.
        """

    def flush(self) -> None:
        """Send all buffered requests."""

    def receive(self, descriptor: int) -> Sequence[ProgramReport]:
        """Return the reports available on a descriptor."""

    def check(self) -> Sequence[ProgramReport]:
        """Return the reports found by a periodic check of the machines; called once a second."""

    def recover(self, attempts: Sequence[RecoveredAttempt]) -> SurvivingPrograms:
        """Return the programs of these attempts that still run, or whose start or end is recorded.

        An earlier engine started these attempts. The transport must end the programs of all other attempts
        and remove their records before it starts any program. An attempt with the same number but another
        nonce counts as another attempt. Called only if the backend re-attaches (``Capabilities.reattaches``).
        """

    def close(self, *, stop: bool) -> None:
        """Disconnect from the machines.

        If ``stop`` is True, no more work follows; otherwise programs continue to run.
        """


def _need_nothing(_: ActiveAttempt) -> Mapping[str, Any]:
    return {}


def _do_nothing() -> None:
    pass


def _answers_always(_: int) -> float:
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPart:
    """What differs between kinds of machines: the transport, the disks, and what goes with them.

    A platform with machines of several kinds combines the parts of these kinds (``backends/mixed.py``).
    """

    capabilities: Capabilities
    connect: Callable[[select.poll], Transport]
    """Returns the transport to the machines of the part."""
    disks: Mapping[int, RemoteDisk] = field(default_factory=dict)
    """By machine: the disk of a machine with a file system of its own."""
    describe_needs: Callable[[ActiveAttempt], Mapping[str, Any]] = _need_nothing
    """Returns the fields that the transport needs in an order, besides those of every order."""
    give_up: Callable[[], None] = _do_nothing
    """Lets waiting file operations fail; called before the transport is closed."""
    release: Callable[[], None] = _do_nothing
    """Closes what the part shares between transport and disks; called after the transport was closed."""
    find_silence: Callable[[int], float] = _answers_always
    """Returns the seconds since the last sign of life of a machine's host."""


class _RunningModule(NamedTuple):
    """A running program of a task's own module (prolog, epilog or evaluator)."""

    attempt: ActiveAttempt
    nonce: str
    then: Callable[[ProgramReport], None]
    """Callback that receives the report on the end of the module's program."""


class ProgramBackend:
    """Executes attempts as programs through a transport. Implements ``Backend`` except ``kind``.

    A subclass defines ``part``, which supplies the transport.
    """

    kind: ClassVar[str]
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
        """Create the backend and its transport; a program is killed ``grace_s`` after SIGTERM or earlier."""
        self._part = self.part(context, range(len(context.machines)))
        self._disks = self._part.disks
        self._context = context
        self._grace_s = grace_s
        self._attempts: dict[int, ActiveAttempt] = {}
        self._last_attempt: dict[tuple[int, int], int] = {}
        """By run and task: the number of the last attempt."""
        self._events: deque[ev.Event] = deque()
        self._recovered: dict[int, RecoveredAttempt] = {}
        """By number: the attempts that an earlier engine had assigned."""
        self._inherited: set[int] = set()
        """Attempts that an earlier engine had decided to start."""
        self._survivors = SurvivingPrograms()
        self._finishing: set[int] = set()
        """Attempts whose outputs are being collected in a thread."""
        self._paused: dict[int, tuple[float, FinishedAttempt]] = {}
        """By attempt whose end is reported after a pause: the monotonic time of the report, and the end."""
        self._unconfirmed: dict[int, int] = {}
        """By attempt whose end is not confirmed yet: its machine. The transport keeps the end until then."""
        self._modules: dict[int, _RunningModule] = {}
        """By number (see ``module_number``): the modules that run."""
        self._owed_epilogs = 0
        """Number of deferred epilogs that run."""
        self._later: list[tuple[float, Callable[[], None]]] = []
        """Callbacks, each with the monotonic time at which it is due."""
        # A host that does not answer keeps threads waiting; the other hosts need theirs.
        self._threads = _StagingThreads(_THREADS + 2 * len(self._disks))
        self._poller = select.poll()
        self._poller.register(self._threads.descriptor, select.POLLIN)
        self._transport = self._part.connect(self._poller)
        self._products = RunProducts(context.products, context.execution)
        layout, execution = context.layout, context.execution
        # Strings, because joining paths would take longer than the rest of an assignment.
        self._workdirs = [
            str(layout.workdir(each, context.project, execution, 0, "").parent) for each in context.machines
        ]
        self._record_folder = str(layout.records(execution, 0, "").parent)
        self._records = AttemptRecords()
        self._preparer = AttemptPreparer(
            context, self._records, self._products, self._on_record_problem, self._disk_of
        )
        self._finisher = AttemptFinisher(context, self._records, self._disk_of)
        self._monitor = TaskMonitor(context, self._request_restart_files, self._copy_restart_files)
        self._selector = SelectorPrograms(context)
        self._actions: dict[type, Callable[[Any], None]] = {
            cm.Assign: self._assign,
            cm.Settle: self._settle,
            cm.StageIn: self._stage_in,
            cm.Start: self._start,
            cm.Signal: self._signal,
            cm.Cancel: self._cancel,
            cm.StageOut: self._stage_out,
            cm.CleanUp: self._clean_up,
            cm.CloseAttempt: self._drop,
            cm.Probe: self._probe,
            cm.Discover: self._discover,
            cm.Fetch: self._fetch,
            cm.SelectMachines: self._select,
        }

    @classmethod
    def part(cls, context: ProjectContext, machines: Sequence[int]) -> BackendPart:
        """Return the transport to these machines of the platform, and what goes with it."""
        raise NotImplementedError

    def _disk_of(self, product: Product) -> RemoteDisk | None:
        """Return the disk that holds a product; None: a disk of this host, or of no machine."""
        machines = self._context.machines
        for index, disk in self._disks.items():
            if machines[index].name == product.machine and disk.may_hold(product):
                return disk
        found = [disk for disk in self._disks.values() if disk.holds(product)]
        if len(found) > 1:  # machines on one host may have sandboxes of their own
            order = {False: 0, None: 1, True: 2}
            found.sort(key=lambda disk: order[disk.lacks(product)])
        return found[0] if found else None

    # Commands of the engine.

    def execute(self, commands: Sequence[cm.Command]) -> None:
        """Start executing commands."""
        for command in commands:
            if (action := self._actions.get(type(command))) is not None:
                action(command)
        self._transport.flush()

    def _assign(self, command: cm.Assign) -> None:
        number = command.attempt
        if number in self._attempts:
            return
        self._last_attempt[command.run, command.task] = number
        nonce = self._context.attempt_nonce(number)
        name = attempt_folder(number, nonce)
        workdir, records = f"{self._workdirs[command.machine]}/{name}", f"{self._record_folder}/{name}"
        attempt = self._attempts[number] = ActiveAttempt.of(
            command, nonce, workdir, records, self._disks.get(command.machine)
        )
        if (earlier := self._recovered.get(number)) is not None:
            attempt.recovered = True
            attempt.iteration, attempt.tries = earlier.iteration, earlier.tries
            attempt.owes_epilog = earlier.stage == "ended" and self._has_module(attempt, EPILOG)
            attempt.delay = "" if earlier.is_delayed else None

    def _settle(self, command: cm.Settle) -> None:
        """Drop the ended attempt of a task, unless its directory is kept for the task's next attempt.

        An attempt whose machine was lost while its Start command was on the way is ended first.
        """
        number = self._last_attempt.get((command.run, command.task))
        attempt = None if number is None else self._attempts.get(number)
        if attempt is not None and attempt.start is not None and not attempt.over:
            self._end_program(attempt)
        if attempt is not None and attempt.over and not command.keep:
            if attempt.owes_epilog:
                self._run_owed_epilog(attempt, lambda problem: None)  # noqa: ARG005 -- its task has ended
            del self._attempts[attempt.number]
            del self._last_attempt[command.run, command.task]

    def _stage_in(self, command: cm.StageIn) -> None:
        attempt = self._attempts[command.attempt]
        if command.part in attempt.staged_parts:
            return
        attempt.staged_parts.add(command.part)
        attempt.iteration, attempt.counters = command.iteration, command.counters
        if command.prolog:
            attempt.tries, attempt.restart_from = command.prolog, command.restart_from
        if self._context.compiled_workflow(attempt.run).kind[attempt.task] == TRANSFER:
            self._threads.run(lambda: self._transfer(attempt, command), self._transferred)
        else:
            then = partial(self._stage_prolog, attempt) if command.prolog else self._report_staged
            self._threads.run(lambda: self._preparer.stage_in(attempt, command), then)

    def _transfer(self, attempt: ActiveAttempt, command: cm.StageIn) -> tuple[ev.StagedIn, Product | None]:
        """Copy the file of a transfer; return the event that reports the copy, and the product.

        The product is None if the copy failed. This method is called in a thread.
        """
        staged = partial(ev.StagedIn, attempt=attempt.number, part=command.part)
        prepared = self._preparer.transfer(attempt, command)
        if prepared.problem:
            return staged(problem=prepared.problem, lasting=prepared.lasting, lost=prepared.holders), None
        if prepared.reused is not None:
            return staged(moved_bytes=0.0, taken_over=prepared.reused_from or None), prepared.reused
        try:
            product = self._finisher.finish_transfer(attempt)
        except StagingProblem as problem:
            return staged(problem=str(problem), lasting=problem.lasting), None
        return staged(moved_bytes=float(sum(file.size_bytes for file in product.files))), product

    def _transferred(self, found: tuple[ev.StagedIn, Product | None]) -> None:
        event, product = found
        attempt = self._attempts.get(event.attempt)
        if attempt is None or attempt.abandoned:
            return  # cancelled, or the engine stops: the next one copies the file again
        if product is not None:
            self._products.add(product)
            self._context.products.add(product)
        self._report_staged(event)

    def _report_staged(self, event: ev.StagedIn | None) -> None:
        """Report that staging has ended.

        ``event`` is None if the attempt was abandoned; then nothing is reported. If the destination is lost,
        only the loss is reported, and the engine places the task again.
        """
        if event is None:
            return
        attempt = self._attempts.get(event.attempt)
        # A disk that the copied file may have filled is the reason of this failure alone.
        if attempt is not None and event.problem and not describe_full_disk(None, event.problem, ""):
            is_lost = self._transport.inspect(attempt.machine)
            self._process(self._transport.check())
            if is_lost:
                return
        lost, text = self._find_lost(event.lost)
        self._events.append(replace(event, problem=event.problem + text, lost=lost))

    def _find_lost(self, holders: Sequence[int]) -> tuple[tuple[int, ...], str]:
        """Return which of the machines that hold an unreadable input are lost, and a text about them.

        The text is "" if no machine is lost. A lost machine is reported before this method returns.
        """
        lost = tuple(machine for machine in holders if self._transport.inspect(machine))
        if not lost:
            return (), ""
        self._process(self._transport.check())
        names = ", ".join(self._context.machines[machine].name for machine in lost)
        return lost, f"; it is on {names}, which is lost"

    def _stage_prolog(self, attempt: ActiveAttempt, staged: ev.StagedIn | None) -> None:
        """Run the prolog of a task after its data were staged to the machine that the task moves to.

        The end of the staging is reported after the prolog has ended.
        """
        if staged is None or staged.problem or attempt.cancelled or attempt.over:
            self._report_staged(staged)
            return
        then = partial(self._launch_prolog, attempt, staged)
        self._threads.run(lambda: self._preparer.prepare(attempt), then)

    def _launch_prolog(self, attempt: ActiveAttempt, staged: ev.StagedIn, prepared: PreparedAttempt) -> None:
        if attempt.cancelled or attempt.over or attempt.halted:
            return
        if prepared.problem:
            failed = replace(staged, problem=prepared.problem, lasting=prepared.lasting)
            self._report_staged(replace(failed, lost=prepared.holders))
        elif prepared.prolog is None:  # a result of an earlier run is reused
            self._report(staged)
        else:
            self._run_module(attempt, prepared.prolog, partial(self._end_prolog, attempt, staged))

    def _end_prolog(self, attempt: ActiveAttempt, staged: ev.StagedIn, report: ProgramReport) -> None:
        problem = describe_failure(PROLOG, report, attempt.records_path)
        attempt.has_prolog = not problem
        if not attempt.over:
            self._report_staged(replace(staged, problem=problem, module=PROLOG) if problem else staged)

    def _start(self, command: cm.Start) -> None:
        attempt = self._attempts[command.attempt]
        if attempt.start is not None:
            return
        number, survivors = attempt.number, self._survivors
        attempt.start = command
        attempt.iteration, attempt.counters = command.iteration, command.counters
        attempt.tries = command.tries
        attempt.began_at = time.time()
        attempt.inherited = number in self._inherited
        survivors.restore(attempt)
        if number in survivors.running:
            attempt.launched = True
            self._monitor.add(attempt)
        elif number in survivors.ends:
            attempt.launched = True
            report = survivors.ends.pop(number)
            attempt.rebooted = attempt.disk is None and report.get("boot") != boot_id()
            self._program_ended(attempt, report)
        elif self._preparer.needs_no_files(attempt):
            self._launch(attempt, self._preparer.prepare(attempt))
        else:
            self._threads.run(lambda: self._preparer.prepare(attempt), partial(self._launch, attempt))

    def _launch(self, attempt: ActiveAttempt, prepared: PreparedAttempt) -> None:
        """Pass a prepared program to the transport; if the attempt runs no program, report its end."""
        if attempt.over:
            return
        if attempt.cancelled or attempt.halted:
            self._report_not_started(attempt)
        elif prepared.problem:
            lost, text = self._find_lost(prepared.holders)
            failure = prepared.failure(attempt)
            self._report_end(attempt, replace(failure, story=failure.story + text, lost=lost))
        elif prepared.reused is not None:
            self._report_reuse(attempt, prepared, prepared.reused)
        elif prepared.order is None:
            nothing = ev.Ended(
                attempt=attempt.number,
                exit_code=None,
                cause=Cause.ERROR,
                story="there is no program to run: the task has neither `command` nor `call`",
                lasting=True,
            )
            self._report_end(attempt, nothing)
        elif prepared.prolog is not None:
            self._run_module(attempt, prepared.prolog, partial(self._after_prolog, attempt, prepared.order))
        else:
            self._launch_program(attempt, prepared.order)

    def _after_prolog(self, attempt: ActiveAttempt, order: Mapping[str, Any], report: ProgramReport) -> None:
        """Start the program of an attempt after the task's own prolog, or report that the prolog failed."""
        if attempt.over:
            return
        problem = describe_failure(PROLOG, report, attempt.records_path)
        if attempt.cancelled or attempt.halted:
            self._report_not_started(attempt)
        elif problem:
            cause = Cause.LOST if report.get("cause") == Cause.LOST else Cause.PROLOG
            ended = ev.Ended(attempt=attempt.number, exit_code=None, cause=cause, story=problem)
            self._report_end(attempt, ended)
        else:
            attempt.has_prolog = True
            self._launch_program(attempt, order)

    def _launch_program(self, attempt: ActiveAttempt, order: Mapping[str, Any]) -> None:
        if needs := self._part.describe_needs(attempt):
            order = {**order, **needs}
        if problem := self._transport.start(attempt.machine, order):
            self._process(self._transport.check())  # a lost machine is reported before the attempt
            lost = ev.Ended(attempt=attempt.number, exit_code=None, cause=Cause.LOST, story=problem)
            self._report_end(attempt, lost)
            return
        attempt.launched = True
        self._monitor.add(attempt)

    def _capabilities_of(self, machine: int) -> Capabilities:  # noqa: ARG002
        """Return the features that are supported on a machine."""
        return self.capabilities

    # Modules of tasks: prolog, epilog and evaluator.

    def _has_module(self, attempt: ActiveAttempt, module: str) -> bool:
        job = self._context.compiled_workflow(attempt.run).description(attempt.task).job
        if job is None:
            return False
        return bool(job.evaluator_program if module == EVALUATOR else getattr(job, module))

    def _run_module(
        self, attempt: ActiveAttempt, order: Mapping[str, Any], then: Callable[[ProgramReport], None]
    ) -> None:
        """Start the program of a module; ``then`` is called with the report on the end of the program."""
        number = int(order["attempt"])
        self._modules[number] = _RunningModule(attempt, str(order["nonce"]), then)
        if problem := self._transport.start(attempt.machine, order):
            del self._modules[number]
            then({"is": "ended", "cause": "lost", "text": problem})
        self._transport.flush()

    def _prepare_and_run(
        self, attempt: ActiveAttempt, module: str, then: Callable[[ProgramReport], None], given: bytes = b""
    ) -> None:
        """Render the program of a module in a thread, then start it; ``given`` is its standard input.

        ``then`` is called with the report on the end of the program.
        """

        def launch(prepared: PreparedModule) -> None:
            if prepared.order is None:
                then({"is": "ended", "cause": "error", "text": prepared.problem})
            else:
                self._run_module(attempt, prepared.order, then)

        self._threads.run(lambda: self._preparer.prepare_module(attempt, module, given), launch)

    def _end_module(self, attempt: ActiveAttempt, module: str, grace_s: float) -> bool:
        """Terminate a running module of an attempt; return whether the module was running."""
        if (number := module_number(attempt.number, module)) not in self._modules:
            return False
        self._transport.cancel(attempt.machine, number, grace_s)
        return True

    def _run_epilog(self, attempt: ActiveAttempt, report: ProgramReport, failures: int = 0) -> None:
        """Run the task's own epilog after its program has ended, then collect the outputs.

        A failed epilog is repeated after a pause, as often as the task's setting ``retries`` allows, if the
        program succeeded: its exit code is 0 or an outcome. ``failures`` is the number of failures so far.
        """
        outcomes = self._context.compiled_workflow(attempt.run).outcomes(attempt.task)
        succeeded = not report.get("cause") and report.get("code") in outcomes

        def end(done: ProgramReport) -> None:
            problem = describe_failure(EPILOG, done, attempt.records_path)
            settings = self._context.task_settings(attempt.run, attempt.task)
            final = attempt.halted or attempt.cancelled or not succeeded
            if problem and not final and failures < settings.retries.get(EPILOG, 0):
                pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0**failures)
                again = partial(self._run_epilog, attempt, report, failures + 1)
                self._later.append((time.monotonic() + pause_s, again))
                return
            tried = f" ({failures + 1} times)" if failures else ""
            self._collect_outputs(attempt, report, f"{problem}{tried}" if problem else "")

        self._prepare_and_run(attempt, EPILOG, end)

    def _evaluate(self, attempt: ActiveAttempt) -> None:
        """Run the evaluator program of an attempt, unless an earlier run of it has not ended yet."""
        number = module_number(attempt.number, EVALUATOR)
        if number in self._modules or not self._has_module(attempt, EVALUATOR):
            return
        given = json.dumps(self._monitor.describe(attempt)).encode()
        self._prepare_and_run(attempt, EVALUATOR, partial(self._end_evaluation, attempt), given)

    def _end_evaluation(self, attempt: ActiveAttempt, report: ProgramReport) -> None:
        """Report the verdict of an evaluator.

        Exit code 0 means that the speed is sufficient, 1 that the task is too slow; any other code is a
        failure of the evaluator.
        """
        if attempt.over or attempt.cancelled:
            return
        degraded, problem = "", ""
        if report.get("code") == _TOO_SLOW and not report.get("cause"):
            said = read_last_line(attempt.records_path, f"{EVALUATOR}.out")
            degraded = f"the evaluator: {said or 'too slow'}"
        else:
            problem = describe_failure(EVALUATOR, report, attempt.records_path)
        if degraded or problem not in ("", attempt.module_problem):
            self._events.append(
                ev.Progressed(
                    attempt=attempt.number, work_done=attempt.done, degraded=degraded, problem=problem
                )
            )
        attempt.module_problem = problem

    def _run_owed_epilog(self, attempt: ActiveAttempt, then: Callable[[str], None]) -> None:
        """Run the deferred epilog of an attempt.

        ``then`` is called with the reason of a failure, or with "" on success.
        """
        attempt.owes_epilog = False
        self._owed_epilogs += 1

        def end(report: ProgramReport) -> None:
            self._owed_epilogs -= 1
            then(describe_failure(EPILOG, report, attempt.records_path))

        self._prepare_and_run(attempt, EPILOG, end)

    def _report_reuse(self, attempt: ActiveAttempt, prepared: PreparedAttempt, product: Product) -> None:
        self._products.add(product)
        # Stored for this execution too, so that it can be resumed after the producing one is cleaned up.
        self._context.products.add(product)
        ended = ev.Ended(
            attempt=attempt.number,
            exit_code=product.exit_code,
            result=product.result,
            work_done=1.0,
            story=f"reused from execution {prepared.reused_from}",
            taken_over=prepared.reused_from,
        )
        self._report_end(attempt, ended, prepared.lines)

    def _on_record_problem(self, attempt: ActiveAttempt, problem: str) -> None:
        """Terminate a program whose record files cannot be written."""
        attempt.record_problem = problem
        self._transport.cancel(attempt.machine, attempt.number, 0.0)

    def _signal(self, command: cm.Signal) -> None:
        attempt = self._attempts.get(command.attempt)
        if attempt is not None and attempt.launched and self._capabilities_of(attempt.machine).signals:
            self._transport.signal(attempt.machine, attempt.number, _SIGNALS[command.what])

    def _request_restart_files(self, attempt: ActiveAttempt) -> None:
        if self._capabilities_of(attempt.machine).signals:
            self._transport.signal(attempt.machine, attempt.number, _SIGNALS["checkpoint"])

    def _copy_restart_files(self, attempt: ActiveAttempt) -> None:
        """Copy the restart files of a running program in a thread, then report the copy."""

        def report(_: None) -> None:
            attempt.copying = False
            # The end of the program reports its last files.
            if not attempt.over and (saved := take_saved(attempt)) is not None:
                self._events.append(saved)

        self._threads.run(lambda: self._finisher.save_restart_files(attempt), report)

    def _cancel(self, command: cm.Cancel) -> None:
        if (attempt := self._attempts.get(command.attempt)) is None:
            return  # it was given up with its machine, which is back now
        # Outputs of a program that has ended are still needed, unless the run was stopped.
        started = attempt.launched or attempt.over
        if stopped := command.reason == cm.STOPPED or not started:
            attempt.abandon(self._ending_s(attempt) if started else 0.0)
        if attempt.cancelled:
            return
        attempt.cancelled = stopped or not attempt.over
        self._end_pause(attempt.number)
        attempt.moves = command.reason != cm.STOPPED
        if attempt.over:
            return
        if attempt.launched:
            self._transport.cancel(attempt.machine, attempt.number, self._ending_s(attempt))
        elif self._end_module(attempt, PROLOG, 0.0) and attempt.start is not None:
            return  # reported after its end
        elif attempt.start is None:
            self._report_not_started(attempt)

    def _ending_s(self, attempt: ActiveAttempt) -> float:
        """Return the seconds that a program has between SIGTERM and SIGKILL."""
        stated_s = self._context.task_settings(attempt.run, attempt.task).ending_timeout_s
        return min(stated_s, self._grace_s)

    def _report_not_started(self, attempt: ActiveAttempt) -> None:
        """Report the end of an attempt that was cancelled or halted before its program started."""
        if attempt.halted and not attempt.cancelled:
            self._report_end(attempt, halted_event(attempt))
        else:
            self._report_end(attempt, ev.Ended(attempt=attempt.number, exit_code=None, cause=Cause.CANCELLED))

    def _stage_out(self, command: cm.StageOut) -> None:
        attempt = self._attempts[command.attempt]
        self._threads.run(
            lambda: self._finisher.stage_out(attempt, self._products.of(attempt.run, attempt.task)),
            self._report,
        )

    def _report(self, event: ev.Event | None) -> None:
        if event is not None:
            self._events.append(event)

    def _clean_up(self, command: cm.CleanUp) -> None:
        attempt = self._attempts.get(command.attempt)
        if attempt is not None and attempt.owes_epilog:
            self._run_owed_epilog(attempt, partial(self._remove_files, command, attempt))
        else:
            self._remove_files(command, attempt, "")

    def _remove_files(self, command: cm.CleanUp, attempt: ActiveAttempt | None, epilog_problem: str) -> None:
        """Remove the files of an attempt after the task's own epilog.

        ``epilog_problem`` says why the epilog failed; it is "" on success.
        """

        def report(problem: str) -> None:
            event = ev.CleanedUp(attempt=command.attempt, problem=epilog_problem or problem)
            if epilog_problem and attempt is not None:
                event = replace(event, module=EPILOG, run=attempt.run, task=attempt.task)
            self._events.append(event)

        self._threads.run(lambda: "" if attempt is None else self._finisher.clean_up(attempt), report)

    def _drop(self, command: cm.CloseAttempt) -> None:
        self._attempts.pop(command.attempt, None)

    def _probe(self, command: cm.Probe) -> None:
        if command.of == "progress" and command.attempt is not None:
            attempt = self._attempts.get(command.attempt)
            if attempt is not None and attempt.launched and not attempt.over:
                silent_s = self._part.find_silence(attempt.machine)
                self._events.extend(self._monitor.report_progress(attempt, silent_s))
                self._evaluate(attempt)
        elif command.of == "reattach" and command.machine is not None:
            self._transport.reattach(command.machine)
        elif command.machine is not None:
            if not (alive := not self._transport.inspect(command.machine)):
                self._process(self._transport.check())  # a lost machine is reported before the answer
            if command.of == "job":
                watched = self._transport.responds(command.machine)
                alive = alive and watched and command.attempt in self._attempts
            self._events.append(
                ev.ProbeAnswered(of=command.of, alive=alive, attempt=command.attempt, machine=command.machine)
            )

    def _discover(self, _: cm.Discover) -> None:
        machines = range(len(self._context.machines))
        usable = tuple(machine for machine in machines if not self._transport.inspect(machine))
        self._events.append(ev.Discovered(machines=usable))

    def _fetch(self, command: cm.Fetch) -> None:
        self._transport.measure(command.machine, command.every_s or _MEASURE_EVERY_S)

    def _select(self, command: cm.SelectMachines) -> None:
        self._threads.run(lambda: self._selector.choose(command), self._report)

    # Events.

    def poll(self, timeout_s: float) -> list[ev.Event]:
        """Return new events; if there are none, wait for an event, for at most ``timeout_s`` seconds."""
        self._records.write_pending()
        self._transport.flush()
        if self._events or self._threads.has_results:
            timeout_s = 0.0
        wait_s = min(timeout_s, self._monitor.remaining_s(), self._run_due())
        for descriptor, _ in self._poller.poll(max(0.0, wait_s) * 1000.0):
            if descriptor == self._threads.descriptor:
                self._threads.drain()
            else:
                self._process(self._transport.receive(descriptor))
        self._threads.deliver()
        self._report_paused(time.monotonic())
        if self._monitor.remaining_s() <= 0.0:
            self._events.extend(self._monitor.check())
            self._process(self._transport.check())
        self._transport.flush()
        found = list(self._events)
        self._events.clear()
        return found

    def _run_due(self) -> float:
        """Call all callbacks whose time has come; return the seconds until the next one is due."""
        now_s = time.monotonic()
        due = [then for due_s, then in self._later if due_s <= now_s]
        self._later = [each for each in self._later if each[0] > now_s]
        for then in due:
            then()
        return min((due_s for due_s, _ in self._later), default=math.inf) - now_s

    def inspect(self, machine: int) -> str:
        """Return why a machine cannot run programs now, or "".

        A machine that cannot run programs is reported as lost.
        """
        return self._transport.inspect(machine)

    def confirm_ends(self, attempts: Sequence[int]) -> None:
        """Let the transport drop the ends of these attempts; the journal on disk now contains them."""
        for number in attempts:
            if (machine := self._unconfirmed.pop(number, None)) is not None:
                self._transport.forget(machine, number)

    def _process(self, reports: Iterable[ProgramReport]) -> None:
        for report in reports:
            if "machine" in report:
                self._events.append(self._describe_machine(report))
                continue
            if (number := report.get("attempt", -1)) in self._modules:
                self._process_module(number, report)
                continue
            attempt = self._attempts.get(number)
            if attempt is None or report.get("nonce", "") != attempt.nonce:
                continue
            if report["is"] == "ended":
                self._program_ended(attempt, report)
            elif report["is"] == "queued" and not attempt.over:
                if not report.get("again") or attempt.delay is not None:
                    self._events.append(ev.JobQueued(attempt=attempt.number, job=str(report["job"])))
                attempt.delay = None
            elif report["is"] == "delayed" and not attempt.over:
                if attempt.delay != (reason := str(report["text"])):
                    self._events.append(ev.StartDelayed(attempt=attempt.number, reason=reason))
                attempt.delay = reason
            elif report["is"] == "started" and not attempt.over:
                if attempt.delay is not None:
                    self._events.append(ev.Started(attempt=attempt.number))
                attempt.delay = None
            elif report["is"] == "stopped" and not attempt.over:
                self._events.append(ev.Suspended(attempt=attempt.number))
            elif report["is"] == "continued" and not attempt.over:
                self._events.append(ev.Resumed(attempt=attempt.number))

    def _process_module(self, number: int, report: ProgramReport) -> None:
        module = self._modules[number]
        if report["is"] == "ended" and report.get("nonce", "") == module.nonce:
            del self._modules[number]
            self._transport.forget(module.attempt.machine, number)
            attempt, disk = module.attempt, module.attempt.disk
            if disk is None:
                module.then(report)
            else:  # its output explains a failure, or is the verdict of an evaluator
                modules = (PROLOG, EPILOG, EVALUATOR)
                name = next(each for each in modules if module_number(attempt.number, each) == number)

                def pull() -> None:
                    with suppress(StagingProblem):  # the loss of the machine is reported by itself
                        disk.pull_module(attempt, name)

                self._threads.run(pull, lambda _: module.then(report))

    def _describe_machine(self, report: ProgramReport) -> ev.Event:
        """Return the event that corresponds to a report about a machine."""
        machine = int(report["machine"])
        if report["is"] in ("silent", "answers"):
            return ev.ContactChanged(
                machine=machine,
                answers=report["is"] == "answers",
                silent_s=report["silent_s"],
                lost_in_s=report.get("lost_in_s"),
                reason=report.get("text", ""),
            )
        if report["is"] != "measured":
            if up := report["is"] == "back":
                return ev.MachineChanged(machine=machine, up=up)
            self._end_lost_programs(machine)
            lasting, started = bool(report.get("lasting")), None
            if not report.get("full"):  # the inputs of an attempt may have filled the disk: it uses a retry
                started = self._list_started(machine)
            return ev.MachineChanged(
                machine=machine, up=up, reason=report["text"], lasting=lasting, started=started
            )
        load, cores = report.get("load"), self._context.machines[machine].core_count
        return ev.Fetched(
            machine=machine,
            speed_factor=None if load is None else _speed_beside(load, cores),
            load=load,
            free_memory_bytes=report.get("memory_bytes"),
            free_disk_bytes=report.get("disk_bytes"),
        )

    def _list_started(self, machine: int) -> tuple[int, ...]:
        """Return the attempts on a machine whose programs have started, as far as is known."""
        here = (attempt for attempt in self._attempts.values() if attempt.machine == machine)
        return tuple(attempt.number for attempt in here if attempt.launched or attempt.inherited)

    def _end_lost_programs(self, machine: int) -> None:
        """Terminate the programs of a lost machine if they can be reached; their ends are not awaited.

        No more files are copied to the machine.
        """
        for attempt in self._attempts.values():
            if attempt.machine != machine or attempt.over:
                continue
            if attempt.start is None:
                attempt.abandon()
            else:
                self._end_program(attempt)
        for number, module in self._modules.items():
            if module.attempt.machine == machine:
                self._transport.cancel(machine, number, 0.0)

    def _end_program(self, attempt: ActiveAttempt) -> None:
        """Terminate the program of an attempt whose machine is lost, or do not start it."""
        attempt.over = True
        self._monitor.remove(attempt)
        if attempt.launched:
            self._transport.cancel(attempt.machine, attempt.number, 0.0)

    def _program_ended(self, attempt: ActiveAttempt, report: ProgramReport) -> None:
        """Run the task's own epilog, collect the outputs of the ended program, then report the end.

        If the task moves to another machine, or if the runner is lost, the epilog is deferred: it runs when
        the files are removed from this machine.
        """
        if attempt.over:
            return
        attempt.over = True
        attempt.end = report
        self._monitor.remove(attempt)
        self._end_module(attempt, EVALUATOR, 0.0)
        if not (attempt.launched and self._has_module(attempt, EPILOG)):
            self._collect_outputs(attempt, report)
        elif (attempt.cancelled and attempt.moves) or report.get("cause") == Cause.LOST:
            attempt.owes_epilog = True
            self._collect_outputs(attempt, report)
        else:
            self._finishing.add(attempt.number)
            self._run_epilog(attempt, report)

    def _collect_outputs(
        self, attempt: ActiveAttempt, report: ProgramReport, epilog_problem: str = ""
    ) -> None:
        """Collect the outputs of an ended program, then report its end."""
        if not epilog_problem and self._finisher.needs_no_files(attempt):
            self._finished(attempt, self._finisher.finish(attempt, report))
        else:
            self._finishing.add(attempt.number)
            self._threads.run(
                lambda: self._finisher.finish(attempt, report, epilog_problem),
                partial(self._finished, attempt),
            )

    def _report_paused(self, now_s: float) -> None:
        """Report the ends of attempts whose pause is over."""
        for number in [number for number, (due_s, _) in self._paused.items() if due_s <= now_s]:
            _, finished = self._paused.pop(number)
            finished.pause_s = 0.0
            self._finished(self._attempts[number], finished)

    def _end_pause(self, number: int) -> None:
        """If the report of an attempt's end is delayed, send it at the next poll."""
        if (paused := self._paused.get(number)) is not None:
            self._paused[number] = 0.0, paused[1]

    def _finished(self, attempt: ActiveAttempt, finished: FinishedAttempt) -> None:
        if finished.pause_s > 0.0 and not attempt.cancelled:
            self._finishing.add(attempt.number)
            self._paused[attempt.number] = time.monotonic() + finished.pause_s, finished
            return
        self._finishing.discard(attempt.number)
        if finished.interrupted and not attempt.cancelled:
            return  # The engine stops; the next one finds the end of the program and its outputs.
        if finished.product is not None:
            self._products.add(finished.product)
            self._context.products.add(finished.product)
        if finished.checkpoint is not None:
            self._events.append(finished.checkpoint)
        attempt.over = False
        self._report_end(attempt, finished.ended, finished.lines)

    def _report_end(
        self, attempt: ActiveAttempt, ended: ev.Ended, lines: dict[str, tuple[str, ...]] | None = None
    ) -> None:
        if not attempt.over and (ended.cause or ended.exit_code) and ended.cause != Cause.CANCELLED:
            # A lost machine may be the reason: it is reported first, which also ends the attempt. A disk that
            # the program may have filled itself is the reason of this failure alone.
            disk = attempt.end.get("disk") if attempt.end is not None else None
            if not describe_full_disk(disk, "", attempt.workdir_path):
                self._transport.inspect(attempt.machine)
            self._process(self._transport.check())
        if attempt.over:
            return
        attempt.over = True
        if lines:
            self._events.append(ev.TasksAdded(run=attempt.run, lines=lines))
        is_delayed = attempt.inherited or (attempt.end is not None and attempt.end.get("delayed", False))
        self._events.append(add_measured_times(attempt, ended) if is_delayed else ended)
        if attempt.launched:
            self._unconfirmed[attempt.number] = attempt.machine

    # Start and end of the engine.

    def find(self, attempts: Sequence[RecoveredAttempt]) -> None:
        """Re-attach to programs that an earlier engine started, or collect their ends.

        If the programs of a machine do not survive the engine, each started attempt there is reported as lost
        when its ``Start`` command is repeated.
        """
        started = [attempt for attempt in attempts if attempt.stage == "started"]
        self._recovered |= {attempt.attempt: attempt for attempt in attempts}
        self._inherited |= {attempt.attempt for attempt in started}
        kept = {each.attempt for each in attempts if self._capabilities_of(each.machine).reattaches}
        lost = {"is": "ended", "cause": Cause.LOST, "text": "its program ended with the engine"}
        self._survivors.ends |= {each.attempt: lost for each in started if each.attempt not in kept}
        machines = range(len(self._context.machines))
        if not any(self._capabilities_of(machine).reattaches for machine in machines):
            return
        # A prolog of an earlier engine would write into the directory that is prepared again.
        modules = [each for each in attempts if each.stage != "started" and self._may_have_modules(each)]
        sought = [each for each in (*started, *modules) if each.attempt in kept]
        self._survivors.update(self._transport.recover(sought))

    def _may_have_modules(self, attempt: RecoveredAttempt) -> bool:
        job = self._context.compiled_workflow(attempt.run).description(attempt.task).job
        return job is not None and any((job.prolog, job.epilog))

    def halt(self, most_s: float = math.inf) -> float:
        """Terminate all programs; they are reported with the exit code that requests another run.

        Return the seconds until the last program must have ended. Each program gets its grace period, but at
        most ``most_s`` seconds, twice: first to write restart files, then to end.
        """
        longest_s = 0.0
        for number in list(self._paused):
            self._end_pause(number)
        for attempt in list(self._attempts.values()):
            # A program that still runs may write restart files, which are kept.
            if attempt.over or not attempt.launched:
                attempt.abandon()
            if attempt.over or attempt.halted:
                continue
            attempt.halted = True
            if attempt.launched:
                ending_s = min(most_s, self._ending_s(attempt))
                # Restart files are requested first, for at most the same time.
                longest_s = max(longest_s, 2.0 * ending_s)
                self._transport.cancel(attempt.machine, attempt.number, ending_s)
            else:
                self._end_module(attempt, PROLOG, 0.0)
        self._transport.flush()
        return longest_s

    @property
    def busy(self) -> bool:
        """Return whether a program or an epilog runs, or the end of a program has not been reported."""
        return bool(self._finishing or self._owed_epilogs) or self.has_programs

    @property
    def has_programs(self) -> bool:
        """Return whether a program runs or may run."""
        return any(attempt.start is not None and not attempt.over for attempt in self._attempts.values())

    def wake(self) -> None:
        """Make ``poll`` return."""
        self._threads.wake()

    def close(self, *, stop: bool) -> None:
        """Disconnect from the machines.

        If ``stop`` is True, no more work follows; otherwise programs continue to run.
        """
        self._part.give_up()
        for attempt in self._attempts.values():
            attempt.abandon()
        for disk in self._disks.values():
            disk.close()
        self._threads.close()
        self._records.write_pending()
        self._transport.close(stop=stop)
        self._records.close()
        self._part.release()


def _speed_beside(load: float, cores: int) -> float:
    """Return the share of a core that a task gets on a machine with ``cores`` and a measured load."""
    share = cores / (load + 1.0)
    return 1.0 if share >= _IDLE_SPEED else share


class _StagingThreads:
    """Thread pool whose results are passed to callbacks in the thread that polls ``descriptor``."""

    def __init__(self, count: int = _THREADS) -> None:
        self._count = count
        self._pool: ThreadPoolExecutor | None = None
        self._results: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.descriptor, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Call ``work`` in a thread; the next ``deliver`` passes its result to ``then``."""
        if self._pool is None:
            # Imported on first use: attempts without files need no threads.
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(max_workers=self._count, thread_name_prefix="staging")
        self._pool.submit(self._run, work, then)

    def _run(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        try:
            self._results.put(partial(then, work()))
        except BaseException as error:  # raised again by ``deliver``
            self._results.put(partial(_reraise, error))
        self.wake()

    @property
    def has_results(self) -> bool:
        """Return whether finished work waits for ``deliver``."""
        return not self._results.empty()

    def deliver(self) -> None:
        """Call the callbacks of finished work with their results."""
        while not self._results.empty():
            self._results.get()()

    def wake(self) -> None:
        """Make the descriptor readable."""
        with suppress(BlockingIOError):  # the pipe is full, so it is readable
            os.write(self._waker, b"x")

    def drain(self) -> None:
        """Empty the pipe behind the descriptor."""
        with suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def close(self) -> None:
        """Wait for the threads and close the descriptors."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        os.close(self.descriptor)
        os.close(self._waker)


def _reraise(error: BaseException) -> None:
    raise error
