"""Simulation of the programs of attempts: start, checkpoints, new requirements, suspension, end."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from weft.backends.simulation.scenario import RequirementChange, Scenario, find_task_value, matches_task
from weft.backends.simulation.state import EventQueue, Host, Program
from weft.backends.simulation.truth import TaskEndings, TrueDurations
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.states import Cause
from weft.workflow.quantity import evaluate_quantity
from weft.workflow.task import Task

_ROUNDING = 1e-9


class ProgramSimulator:
    """Simulates the programs of all running attempts."""

    def __init__(
        self,
        queue: EventQueue,
        scenario: Scenario,
        hosts: list[Host],
        workflow_of: Callable[[int], CompiledWorkflow],
        seed: int,
        *,
        always_reports: bool = True,
    ) -> None:
        """Create the simulator, and schedule the suspensions and cancellations of the scenario.

        ``always_reports`` says whether the end of a program is reported even if its host does not answer.
        """
        self._queue = queue
        self._scenario = scenario
        self._hosts = hosts
        self._workflow_of = workflow_of
        self._seed = seed
        self._always_reports = always_reports
        self._latency_s = scenario.stage_latency_s
        self._truths: dict[int, TrueDurations] = {}
        self._endings: dict[int, TaskEndings] = {}
        self._undelivered: dict[int, tuple[int, list[ev.Event]]] = {}
        """By attempt: its host and the events of its end that could not be delivered yet."""
        self._reattached: set[int] = set()
        """Attempts that got a second job manager because the first one did not answer."""
        self.programs: dict[int, Program] = {}
        """By attempt: programs that were started and have not ended."""
        for suspension in scenario.suspensions:
            queue.put(suspension.at_s, partial(self._suspend, suspension.task, suspension.lasting_s))
        for cancellation in scenario.cancellations:
            queue.put(cancellation.at_s, partial(self._preempt, cancellation.task))

    @property
    def busy(self) -> bool:
        """Return whether any program is computing or about to start."""
        for program in self.programs.values():
            if program.suspended_s is None and self._hosts[program.host].up:
                return True
        return False

    def _description(self, program: Program) -> Task:
        return self._workflow_of(program.run).description(program.task)

    def start(self, command: cm.Start, host: Host) -> None:
        """Start a program after the stage latency; a command that is repeated has no effect."""
        if command.attempt in self.programs:
            return
        if not host.up:
            self._queue.schedule(ev.Ended(attempt=command.attempt, exit_code=None, cause=Cause.LOST))
            return
        work_s = self._work_s(command)
        program = Program(
            command.attempt,
            command.run,
            command.task,
            host.index,
            command.iteration,
            work_s,
            command.restart_from,
            self._queue.now_s,
            0.0,
            command.time_limit_s,
            command.nodes,
            checkpoint=command.restart_from,
        )
        self.programs[command.attempt] = program
        if self._latency_s:
            self._queue.put(self._queue.now_s + self._latency_s, partial(self._begin, program))
        else:
            self._begin(program)  # without latency the start is not reported as an event

    def _work_s(self, command: cm.Start) -> float:
        """Return the seconds that a program takes on an undisturbed host, from its restart point on."""
        compiled = self._workflow_of(command.run)
        if (truth := self._truths.get(command.run)) is None:
            durations = self._scenario.durations
            truth = TrueDurations(durations, compiled.names, seed=self._seed, run=command.run)
            self._truths[command.run] = truth
        whole_s = compiled.seconds(command.task, command.machine, command.count)
        if not truth.exact:
            whole_s = truth.seconds(command.task, whole_s, command.iteration)
        return whole_s * (1.0 - command.restart_from) + self._scenario.overhead_per_task_s

    def _runs(self, program: Program) -> bool:
        return self.programs.get(program.attempt) is program

    def _begin(self, program: Program) -> ev.Event | None:
        host = self._hosts[program.host]
        if host.failures or self.programs.get(program.attempt) is not program:
            return None
        now = self._queue.now_s
        program.began_s = now
        program.clock_s = host.speed.clock_s(now)
        host.programs[program.attempt] = program
        if host.shared_nodes:
            self._count_programs(host)
        self.schedule_end(host, program)
        if program.limit_s is not None:
            self._queue.put(now + program.limit_s, partial(self._exceed_limit, program))
        if self._scenario.requirements or self._workflow_of(program.run).checkpoints:
            self._schedule_changes(host, program)
        return ev.Started(attempt=program.attempt)

    def schedule_end(self, host: Host, program: Program) -> None:
        """Schedule the end of a program, computed from the current speed of its host."""
        program.version += 1
        end_s = host.speed.time_of(program.clock_s + program.work_s)
        if end_s < self._queue.now_s:
            end_s = self._queue.now_s
        self._queue.put(end_s, partial(self._end, program, program.version))

    def _schedule_changes(self, host: Host, program: Program) -> None:
        """Schedule the checkpoints and requirement changes of a program."""
        compiled = self._workflow_of(program.run)
        checkpoint = compiled.description(program.task).recovery.checkpoint
        if checkpoint is not None and checkpoint.every is not None:
            context = compiled.graph.context(program.task)
            every_s = float(evaluate_quantity(checkpoint.every, context))
            self._queue.put(self._queue.now_s + every_s, partial(self._checkpoint, program, every_s))
        for change in self._scenario.requirements:
            ahead = change.after > program.restart_from or not program.restart_from
            if ahead and matches_task(change.task, compiled.names[program.task]):
                self._schedule_change(host, program, change)

    def _schedule_change(self, host: Host, program: Program, change: RequirementChange) -> None:
        """Schedule a change for the time at which the share ``change.after`` of the work is done."""
        left = 1.0 - program.restart_from
        part = (change.after - program.restart_from) / left if left > 0 else 0.0
        at_s = max(self._queue.now_s, host.speed.time_of(program.clock_s + part * program.work_s))
        self._queue.put(at_s, partial(self._change, program, change))

    def _change(self, program: Program, change: RequirementChange) -> ev.Event | None:
        if not self._runs(program):
            return None
        host = self._hosts[program.host]
        if self.done(program) + _ROUNDING < change.after:
            if program.suspended_s is None:
                # The host became slower meanwhile: schedule the change again from the current speed.
                self._schedule_change(host, program, change)
            else:
                program.deferred_changes += (change,)
            return None
        changed = ev.RequirementsChanged(
            attempt=program.attempt,
            requirements=None if change.requirements is None else str(change.requirements),
            rank=None if change.rank is None else str(change.rank),
        )
        if self._description(program).recovery.checkpoint is None:
            return changed
        # The program may be migrated now, so it writes a checkpoint first.
        program.checkpoint = max(program.checkpoint, change.after)
        self._queue.schedule(changed)
        return ev.Checkpointed(attempt=program.attempt, work_done=program.checkpoint)

    def _checkpoint(self, program: Program, every_s: float) -> ev.Event | None:
        if not self._runs(program):
            return None
        self._queue.put(self._queue.now_s + every_s, partial(self._checkpoint, program, every_s))
        if program.suspended_s is not None:
            return None
        program.checkpoint = self.done(program)
        if not self._is_delivered(program):
            return None
        return ev.Checkpointed(attempt=program.attempt, work_done=program.checkpoint)

    def done(self, program: Program) -> float:
        """Return the completed share of the task's work, including the work of earlier attempts."""
        host = self._hosts[program.host]
        if program.attempt not in host.programs:
            return program.restart_from
        return program.done(host.speed.clock_s(self._queue.now_s))

    def _end(self, program: Program, version: int) -> ev.Event | None:
        if program.version != version or self.programs.get(program.attempt) is not program:
            return None
        self._forget(program)
        compiled = self._workflow_of(program.run)
        if (endings := self._endings.get(program.run)) is None:
            endings = self._endings[program.run] = TaskEndings(compiled, self._scenario)
        exit_code, cause, result, lines = endings.of(compiled, program.task, program.iteration)
        ended = ev.Ended(
            attempt=program.attempt, exit_code=exit_code, cause=cause, result=result, work_done=1.0
        )
        grown = [ev.TasksAdded(run=program.run, lines=lines)] if lines else []
        if not self._is_delivered(program):
            self._undelivered[program.attempt] = (program.host, [*grown, ended])
            return None
        if not grown:
            return ended
        self._queue.schedule(ended)
        return grown[0]

    def _is_delivered(self, program: Program) -> bool:
        return self._always_reports or self.answers(program.attempt, self._hosts[program.host])

    def answers(self, attempt: int, host: Host) -> bool:
        """Return whether a job manager monitors this attempt and answers requests."""
        return host.answers("job-manager") or (attempt in self._reattached and host.answers("gatekeeper"))

    def has_job(self, attempt: int) -> bool:
        """Return whether the attempt has a running program or undelivered events."""
        return attempt in self.programs or attempt in self._undelivered

    def reattach(self, attempt: int) -> None:
        """Start a new job manager for an attempt.

        It delivers the pending events of the attempt; if the attempt has no program, it reports the job as
        lost.
        """
        if attempt in self._undelivered:
            self._deliver(attempt)
        elif attempt in self.programs:
            self._reattached.add(attempt)
        else:
            self._queue.schedule(ev.Ended(attempt=attempt, exit_code=None, cause=Cause.LOST))

    def deliver_pending(self, host: Host) -> None:
        """Deliver all pending events of a host that answers again."""
        for attempt in [attempt for attempt, (at, _) in self._undelivered.items() if at == host.index]:
            self._deliver(attempt)

    def _deliver(self, attempt: int) -> None:
        for event in self._undelivered.pop(attempt)[1]:
            self._queue.schedule(event)

    def _forget(self, program: Program) -> None:
        host = self._hosts[program.host]
        self.programs.pop(program.attempt, None)
        host.programs.pop(program.attempt, None)
        if host.shared_nodes:
            self._count_programs(host)

    def _count_programs(self, host: Host) -> None:
        """Recompute the speed of a time-shared host; if it changes, reschedule its programs' ends."""
        if host.count_programs(self._queue.now_s):
            self.speed_changed(host)

    def _exceed_limit(self, program: Program) -> ev.Event | None:
        """End a program at its time limit, before which it writes its restart files on request."""
        if not self._runs(program):
            return None
        if self._description(program).recovery.checkpoint is None:
            return self._stop(program, Cause.TIMEOUT)
        return self._stop_saved(program, Cause.TIMEOUT)

    def _stop_saved(self, program: Program, cause: Cause) -> ev.Event:
        """Schedule the end of a program; return the event about its last restart files."""
        saved = self._saved_share(program)
        self._queue.schedule(self._stop(program, cause))
        return ev.Checkpointed(attempt=program.attempt, work_done=saved)

    def _saved_share(self, program: Program) -> float:
        """Return the share of the work that restart files written now contain.

        Applications with iterations save whole iterations.
        """
        done = self.done(program)
        if iterations := self._iterations(program):
            done = max(program.checkpoint, math.floor(done * iterations + _ROUNDING) / iterations)
        return done

    def _saves_at_any_time(self, program: Program) -> bool:
        """Return whether the restart files of a program are copied whenever they change."""
        checkpoint = self._description(program).recovery.checkpoint
        return checkpoint is not None and checkpoint.every is None

    def _stop(self, program: Program, cause: Cause) -> ev.Event:
        done = self.done(program)
        self._forget(program)
        return ev.Ended(attempt=program.attempt, exit_code=None, cause=cause, work_done=done)

    def cancel(self, attempt: int) -> None:
        """Cancel an attempt; this takes half the stage latency."""
        self._queue.put(self._queue.now_s + self._latency_s / 2.0, partial(self._cancelled, attempt))

    def _cancelled(self, attempt: int) -> ev.Event | None:
        self._undelivered.pop(attempt, None)
        if (program := self.programs.get(attempt)) is None:
            return ev.Ended(attempt=attempt, exit_code=None, cause=Cause.CANCELLED)
        if not self._saves_at_any_time(program):
            return self._stop(program, Cause.CANCELLED)
        return self._stop_saved(program, Cause.CANCELLED)

    def lose(self, host: Host) -> None:
        """Remove all programs and pending events of a failed host.

        Only the copies of restart files are reported that were made before, as soon as the files changed.
        """
        for program in [program for program in self.programs.values() if program.host == host.index]:
            if program.attempt in host.programs and self._saves_at_any_time(program):
                saved = ev.Checkpointed(attempt=program.attempt, work_done=self._saved_share(program))
                self._queue.schedule(saved)
            self._forget(program)
        for attempt in [attempt for attempt, (at, _) in self._undelivered.items() if at == host.index]:
            del self._undelivered[attempt]

    def speed_changed(self, host: Host) -> None:
        """Reschedule the ends of all programs of a host after a change of its speed."""
        host.changed(self._queue.now_s)
        for program in host.programs.values():
            if program.suspended_s is None:
                self.schedule_end(host, program)

    def _of_task(self, name: str) -> list[Program]:
        return [
            program
            for program in self.programs.values()
            if program.attempt in self._hosts[program.host].programs
            and matches_task(name, self._workflow_of(program.run).names[program.task])
        ]

    def _suspend(self, name: str, lasting_s: float) -> None:
        for program in self._of_task(name):
            if program.suspended_s is not None:
                continue
            clock_s = self._hosts[program.host].speed.clock_s(self._queue.now_s)
            program.suspended_s = program.end_clock_s - clock_s
            program.version += 1
            self._count_programs(self._hosts[program.host])
            self._queue.schedule(ev.Suspended(attempt=program.attempt))
            if math.isfinite(lasting_s):
                self._queue.put(self._queue.now_s + lasting_s, partial(self._resume, program))

    def _resume(self, program: Program) -> ev.Event | None:
        if not self._runs(program) or program.suspended_s is None:
            return None
        host = self._hosts[program.host]
        program.clock_s = host.speed.clock_s(self._queue.now_s) + program.suspended_s - program.work_s
        program.suspended_s = None
        self._count_programs(host)
        self.schedule_end(host, program)
        for change in program.deferred_changes:
            self._schedule_change(host, program, change)
        program.deferred_changes = ()
        return ev.Resumed(attempt=program.attempt)

    def _preempt(self, name: str) -> None:
        for program in self._of_task(name):
            self._queue.schedule(self._stop(program, Cause.PREEMPTED))

    def report_progress(self, attempt: int) -> None:
        """Report the progress of a program and the seconds of its last iteration.

        Nothing is reported if its job manager does not answer.
        """
        program = self.programs.get(attempt)
        if program is None or not self.answers(attempt, self._hosts[program.host]):
            return
        description = self._description(program)
        done = self.done(program)
        reports = description.recovery.progress is not None or description.recovery.checkpoint is not None
        iterations = self._iterations(program)
        number = math.floor(done * iterations + _ROUNDING) if iterations else None
        last_s = (
            self._last_iteration_s(program, number, iterations) if iterations and number is not None else None
        )
        self._queue.schedule(
            ev.Progressed(
                attempt=attempt,
                work_done=done if reports else None,
                last_iteration_s=last_s,
                iterations=number,
                all_iterations=iterations,
            )
        )

    def _iterations(self, program: Program) -> int | None:
        """Return the number of iterations of a program; None: the scenario states no profile for the task."""
        return find_task_value(self._scenario.profiles, self._workflow_of(program.run).names[program.task])

    def _last_iteration_s(self, program: Program, number: int, iterations: int) -> float | None:
        """Return the seconds of the last whole iteration; None: none was completed since the start."""
        host = self._hosts[program.host]
        left, first = 1.0 - program.restart_from, program.restart_from * iterations
        if number - 1 < first - _ROUNDING or left <= 0:
            return None
        each_s = program.work_s / (left * iterations)
        end_clock_s = program.clock_s + (number - first) * each_s
        return host.time_at(end_clock_s) - host.time_at(end_clock_s - each_s)
