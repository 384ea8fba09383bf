"""Programs on hosts: they begin, write restart files, change their minds, end, and are ended."""

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
from weft.workflow.quantity import evaluate_quantity
from weft.workflow.task import Task

__all__ = ["ProgramSimulator"]


_ROUNDING = 1e-9


class ProgramSimulator:
    """All programs that run."""

    def __init__(
        self,
        agenda: EventQueue,
        scenario: Scenario,
        hosts: list[Host],
        known_of: Callable[[int], CompiledWorkflow],
        seed: int,
        *,
        told: bool = True,
    ) -> None:
        """Begin. ``told``: ends are told even by hosts that do not answer when they are asked."""
        self._agenda = agenda
        self._scenario = scenario
        self._hosts = hosts
        self._known_of = known_of
        self._seed = seed
        self._told = told
        self._latency_s = scenario.stage_latency_s
        self._truths: dict[int, TrueDurations] = {}
        self._endings: dict[int, TaskEndings] = {}
        self._unheard: dict[int, tuple[int, list[ev.Event]]] = {}
        """By attempt: its host, and the news of its end that nobody has heard."""
        self._reattached: set[int] = set()
        """Attempts that have a job manager of their own after the first one fell silent."""
        self.programs: dict[int, Program] = {}
        """By attempt: programs that were told to start and have not ended."""
        for suspension in scenario.suspensions:
            agenda.put(suspension.at_s, partial(self._suspend, suspension.task, suspension.lasting_s))
        for cancellation in scenario.cancellations:
            agenda.put(cancellation.at_s, partial(self._preempt, cancellation.task))

    @property
    def at_work(self) -> bool:
        """Say whether some program makes headway, or will begin to."""
        for program in self.programs.values():
            if program.suspended_s is None and self._hosts[program.host].up:
                return True
        return False

    def _description(self, program: Program) -> Task:
        return self._known_of(program.run).description(program.task)

    def start(self, command: cm.Start, host: Host) -> None:
        """Begin a program, after the latency of the stage."""
        if command.attempt in self.programs:
            return
        if not host.up:
            self._agenda.report(ev.Ended(attempt=command.attempt, exit_code=None, cause="lost"))
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
            self._agenda.now,
            0.0,
            checkpoint=command.restart_from,
        )
        program.limit_s = command.time_limit_s
        self.programs[command.attempt] = program
        if self._latency_s:
            self._agenda.put(self._agenda.now + self._latency_s, partial(self._begin, program))
        else:
            self._begin(program)  # what begins at once is not reported

    def _work_s(self, command: cm.Start) -> float:
        """Give the seconds a program takes undisturbed, from where it restarts."""
        known = self._known_of(command.run)
        truth = self._truths.get(command.run)
        if truth is None:
            durations = self._scenario.durations
            truth = TrueDurations(durations, known.names, seed=self._seed, run=command.run)
            self._truths[command.run] = truth
        whole_s = known.seconds(command.task, command.machine, command.count)
        if not truth.exact:
            whole_s = truth.seconds(command.task, whole_s, command.iteration)
        return whole_s * (1.0 - command.restart_from) + self._scenario.overhead_per_task_s

    def _runs(self, program: Program) -> bool:
        return self.programs.get(program.attempt) is program

    def _begin(self, program: Program) -> ev.Event | None:
        host = self._hosts[program.host]
        if not self._runs(program) or not host.up:
            return None
        now = self._agenda.now
        program.began_s = now
        program.clock_s = host.speed.clock_s(now)
        host.programs[program.attempt] = program
        self.expect_end(host, program)
        if program.limit_s is not None:
            self._agenda.put(now + program.limit_s, partial(self._cut, program, "timeout"))
        if self._scenario.requirements or self._known_of(program.run).checkpoints:
            self._expect_news(host, program)
        return ev.Started(attempt=program.attempt)

    def expect_end(self, host: Host, program: Program) -> None:
        """Put the end of a program where the host's present speed leads it."""
        program.version += 1
        end_s = max(self._agenda.now, host.speed.time_of(program.end_clock_s))
        self._agenda.put(end_s, partial(self._end, program, program.version))

    def _expect_news(self, host: Host, program: Program) -> None:
        """Put what a program will do before its end: restart files, changed requirements."""
        known = self._known_of(program.run)
        checkpoint = known.description(program.task).recovery.checkpoint
        if checkpoint is not None and checkpoint.every is not None:
            context = self._known_of(program.run).graph.context(program.task)
            every_s = float(evaluate_quantity(checkpoint.every, context))
            self._agenda.put(self._agenda.now + every_s, partial(self._checkpoint, program, every_s))
        for change in self._scenario.requirements:
            name = self._known_of(program.run).names[program.task]
            ahead = change.after > program.restart_from or not program.restart_from
            if ahead and matches_task(change.task, name):
                self._agenda.put(
                    self._time_of_share(host, program, change.after), partial(self._change, program, change)
                )

    def _time_of_share(self, host: Host, program: Program, share: float) -> float:
        """Give the time at which a share of the whole task's work will be done."""
        left = 1.0 - program.restart_from
        part = (share - program.restart_from) / left if left > 0 else 0.0
        return max(self._agenda.now, host.speed.time_of(program.clock_s + part * program.work_s))

    def _change(self, program: Program, change: RequirementChange) -> ev.Event | None:
        if not self._runs(program):
            return None
        host = self._hosts[program.host]
        if self.done(program) + _ROUNDING < change.after:
            if program.suspended_s is None:
                # The host became slower on the way: look again when it should have got there.
                self._agenda.put(
                    self._time_of_share(host, program, change.after), partial(self._change, program, change)
                )
            else:
                program.put_off.append(change)
            return None
        changed = ev.RequirementsChanged(
            attempt=program.attempt,
            requirements=None if change.requirements is None else str(change.requirements),
            rank=None if change.rank is None else str(change.rank),
        )
        if self._description(program).recovery.checkpoint is None:
            return changed
        # A program that may have to leave writes its restart files first.
        program.checkpoint = max(program.checkpoint, change.after)
        self._agenda.report(changed)
        return ev.Checkpointed(attempt=program.attempt, work_done=program.checkpoint)

    def _checkpoint(self, program: Program, every_s: float) -> ev.Event | None:
        if not self._runs(program):
            return None
        self._agenda.put(self._agenda.now + every_s, partial(self._checkpoint, program, every_s))
        if program.suspended_s is not None:
            return None
        program.checkpoint = self.done(program)
        if not self._is_heard(program):
            return None
        return ev.Checkpointed(attempt=program.attempt, work_done=program.checkpoint)

    def done(self, program: Program) -> float:
        """Give the share of the whole task's work that is done."""
        host = self._hosts[program.host]
        if program.attempt not in host.programs:
            return program.restart_from
        return program.done(host.speed.clock_s(self._agenda.now))

    def _end(self, program: Program, version: int) -> ev.Event | None:
        if program.version != version or not self._runs(program):
            return None
        self._forget(program)
        known = self._known_of(program.run)
        endings = self._endings.get(program.run)
        if endings is None:
            endings = self._endings[program.run] = TaskEndings(known, self._scenario)
        exit_code, cause, result, lines = endings.of(known, program.task, program.iteration)
        ended = ev.Ended(
            attempt=program.attempt, exit_code=exit_code, cause=cause, result=result, work_done=1.0
        )
        news: list[ev.Event] = [ended]
        if lines:
            news.insert(0, ev.TasksAdded(run=program.run, lines=lines))
        if not self._is_heard(program):
            self._unheard[program.attempt] = (program.host, news)
            return None
        for event in news[1:]:
            self._agenda.report(event)
        return news[0]

    def _is_heard(self, program: Program) -> bool:
        """Say whether what a program tells arrives."""
        host = self._hosts[program.host]
        return self._told or self.answers(program.attempt, host)

    def answers(self, attempt: int, host: Host) -> bool:
        """Say whether a job manager watches an attempt and answers."""
        return host.answers("job-manager") or (attempt in self._reattached and host.answers("gatekeeper"))

    def knows(self, attempt: int) -> bool:
        """Say whether the job of an attempt is there, or has left news."""
        return attempt in self.programs or attempt in self._unheard

    def reattach(self, attempt: int) -> None:
        """Let a new job manager watch an attempt: it tells what nobody has heard, or that the job is gone."""
        if attempt in self._unheard:
            self._tell(attempt)
        elif attempt in self.programs:
            self._reattached.add(attempt)
        else:
            self._agenda.report(ev.Ended(attempt=attempt, exit_code=None, cause="lost"))

    def heard_again(self, host: Host) -> None:
        """Let a host that answers again tell what nobody has heard."""
        for attempt in [attempt for attempt, (at, _) in self._unheard.items() if at == host.index]:
            self._tell(attempt)

    def _tell(self, attempt: int) -> None:
        for event in self._unheard.pop(attempt)[1]:
            self._agenda.report(event)

    def _forget(self, program: Program) -> None:
        self.programs.pop(program.attempt, None)
        self._hosts[program.host].programs.pop(program.attempt, None)

    def _cut(self, program: Program, cause: str) -> ev.Event | None:
        return self._stop(program, cause) if self._runs(program) else None

    def _stop(self, program: Program, cause: str) -> ev.Event:
        done = self.done(program)
        self._forget(program)
        return ev.Ended(attempt=program.attempt, exit_code=None, cause=cause, work_done=done)

    def cancel(self, attempt: int) -> None:
        """End an attempt because the engine says so; it takes half the latency of a stage."""
        self._agenda.put(self._agenda.now + self._latency_s / 2.0, partial(self._cancelled, attempt))

    def _cancelled(self, attempt: int) -> ev.Event | None:
        self._unheard.pop(attempt, None)
        program = self.programs.get(attempt)
        if program is None:
            return ev.Ended(attempt=attempt, exit_code=None, cause="cancelled")
        checkpoint = self._description(program).recovery.checkpoint
        if checkpoint is None or checkpoint.every is not None:
            return self._stop(program, "cancelled")
        # Restart files without an interval are written when the program is told to end; an application with
        # iterations keeps whole ones.
        done = self.done(program)
        iterations = self._iterations(program)
        if iterations:
            done = max(program.checkpoint, math.floor(done * iterations + _ROUNDING) / iterations)
        self._agenda.report(self._stop(program, "cancelled"))
        return ev.Checkpointed(attempt=attempt, work_done=done)

    def lose(self, host: Host) -> None:
        """Let everything on a host be gone, without a word."""
        for program in [program for program in self.programs.values() if program.host == host.index]:
            self._forget(program)
        for attempt in [attempt for attempt, (at, _) in self._unheard.items() if at == host.index]:
            del self._unheard[attempt]

    def speed_changed(self, host: Host) -> None:
        """Move the ends of a host's programs."""
        host.changed(self._agenda.now)
        for program in host.programs.values():
            if program.suspended_s is None:
                self.expect_end(host, program)

    def _of_task(self, name: str) -> list[Program]:
        return [
            program
            for program in self.programs.values()
            if program.attempt in self._hosts[program.host].programs
            and matches_task(name, self._known_of(program.run).names[program.task])
        ]

    def _suspend(self, name: str, lasting_s: float) -> None:
        for program in self._of_task(name):
            if program.suspended_s is not None:
                continue
            clock_s = self._hosts[program.host].speed.clock_s(self._agenda.now)
            program.suspended_s = program.end_clock_s - clock_s
            program.version += 1
            self._agenda.report(ev.Suspended(attempt=program.attempt))
            if math.isfinite(lasting_s):
                self._agenda.put(self._agenda.now + lasting_s, partial(self._resume, program))

    def _resume(self, program: Program) -> ev.Event | None:
        if not self._runs(program) or program.suspended_s is None:
            return None
        host = self._hosts[program.host]
        program.clock_s = host.speed.clock_s(self._agenda.now) + program.suspended_s - program.work_s
        program.suspended_s = None
        self.expect_end(host, program)
        for change in program.put_off:
            self._agenda.put(
                self._time_of_share(host, program, change.after), partial(self._change, program, change)
            )
        program.put_off.clear()
        return ev.Resumed(attempt=program.attempt)

    def _preempt(self, name: str) -> None:
        for program in self._of_task(name):
            self._agenda.report(self._stop(program, "preempted"))

    def report_progress(self, attempt: int) -> None:
        """Answer a question about a program: how far it is, and what its last iteration took."""
        program = self.programs.get(attempt)
        if program is None or not self.answers(attempt, self._hosts[program.host]):
            return
        description = self._description(program)
        done = self.done(program)
        tells = description.recovery.progress is not None or description.recovery.checkpoint is not None
        iterations = self._iterations(program)
        number = math.floor(done * iterations + _ROUNDING) if iterations else None
        last_s = (
            self._last_iteration_s(program, number, iterations) if iterations and number is not None else None
        )
        self._agenda.report(
            ev.Progressed(
                attempt=attempt,
                work_done=done if tells else None,
                last_iteration_s=last_s,
                iterations=number,
                all_iterations=iterations,
            )
        )

    def _iterations(self, program: Program) -> int | None:
        """Give how many iterations the application of a program has; None: it has no profile."""
        return find_task_value(self._scenario.profiles, self._known_of(program.run).names[program.task])

    def _last_iteration_s(self, program: Program, number: int, iterations: int) -> float | None:
        """Give what the last whole iteration of a program took; None: there was none since it began."""
        host = self._hosts[program.host]
        left, first = 1.0 - program.restart_from, program.restart_from * iterations
        if number - 1 < first - _ROUNDING or left <= 0:
            return None
        each_s = program.work_s / (left * iterations)
        end_clock_s = program.clock_s + (number - first) * each_s
        return host.time_at(end_clock_s) - host.time_at(end_clock_s - each_s)
