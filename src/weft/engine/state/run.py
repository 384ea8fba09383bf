"""The state of one run, task by task.

Every task has one byte for its state and one number of missing predecessors. All else is stored only for
tasks that need it, so a million waiting tasks cost little. Sums over tasks (``RunProgress``,
``PromisedWork``, ``UnfinishedTasks``) use integer units, which do not depend on the order of changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import field
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from weft.engine.state.compiled import CompiledWorkflow, Loops, bind_expression, build_loops
from weft.engine.state.indexes import IndexSet, to_seconds, to_units
from weft.engine.state.plan import RunPlan
from weft.engine.state.ready import EarlyTasks, ReadyTasks
from weft.engine.states import (
    FINAL,
    TRANSITIONS,
    Attempt,
    Cause,
    Demand,
    RunOutcome,
    TaskState,
    format_counters,
)
from weft.errors import WeftError
from weft.expressions import Value
from weft.policies.policy import TaskOrder
from weft.records import dataclass
from weft.workflow.settings import RunSettings, WorkflowSettings
from weft.workflow.task_graph import COMPUTE, TRANSFER, VIRTUAL

_Share = tuple[int, int, int]
"""(mean seconds done per second, start, mean seconds) of a running task, all in units of ``to_units``."""


class RunProgress:
    """The work that the running tasks have done if each runs as estimated; O(log n) per change.

    The work is measured in mean seconds: the estimated seconds of a task, averaged over its candidate
    machines. A task contributes at a constant rate until its estimated end or the end of its program and
    counts as done afterwards, so the sum is linear between events.
    """

    __slots__ = ("_done", "_ends", "_full", "_growth", "_origin", "_shares")

    def __init__(self) -> None:
        self._shares: dict[int, _Share] = {}
        self._done: set[int] = set()
        """Tasks that count in full: past their estimated end, or with a program that has ended."""
        self._ends: list[tuple[float, int, _Share]] = []
        """Heap of (estimated end, task, share) of tasks that do not count in full; some entries are stale."""
        self._growth = self._origin = self._full = 0

    def begin(self, task: int, mean_s: float, started_s: float, seconds: float) -> None:
        """Add a started task.

        ``seconds`` is the estimate for its machine, ``mean_s`` the mean over its candidate machines.
        """
        self.stop(task)
        share = (to_units(mean_s / seconds), to_units(started_s), to_units(mean_s))
        self._shares[task] = share
        self._count(share, 1)
        heappush(self._ends, (started_s + seconds, task, share))

    def stop(self, task: int) -> None:
        """Remove a task from the running tasks; do nothing if it is not one of them."""
        if (share := self._shares.pop(task, None)) is None:
            return
        if task in self._done:
            self._done.remove(task)
            self._full -= share[2]
        else:
            self._count(share, -1)

    def finish(self, task: int) -> None:
        """Count all work of a started task as done; do nothing if the task is not one of them."""
        if (share := self._shares.get(task)) is not None and task not in self._done:
            self._done.add(task)
            self._count(share, -1)
            self._full += share[2]

    def done_s(self, now: float) -> float:
        """Return the mean seconds that the running tasks have done by now."""
        while self._ends and self._ends[0][0] <= now:
            _, task, share = heappop(self._ends)
            if self._shares.get(task) is share:
                self.finish(task)
        # Rate times time is in squared units.
        return to_seconds(self._full) + to_seconds(to_seconds(self._growth * to_units(now) - self._origin))

    def _count(self, share: _Share, change: int) -> None:
        growth, since, _ = share
        self._growth += change * growth
        self._origin += change * growth * since


class PromisedWork:
    """The work of tasks that are bound to a machine but not assigned yet; O(1) per change.

    Each task counts with the node-seconds of its fastest mode on that machine.
    """

    __slots__ = ("_compiled", "_of_task", "_on_change")

    def __init__(self, compiled: CompiledWorkflow, on_change: Callable[[int, int], None]) -> None:
        """Create an empty sum; ``on_change`` is called with a machine and the change of its work in units."""
        self._compiled = compiled
        self._on_change = on_change
        self._of_task: dict[int, tuple[int, int]] = {}
        """By task: its machine and its node-seconds in units."""

    def give(self, task: int, machine: int | None) -> None:
        """Count the work of a compute task for this machine only; if ``machine`` is None, for no machine."""
        found = self._of_task.get(task)
        if (None if found is None else found[0]) == machine:
            return
        if found is not None:
            del self._of_task[task]
            self._on_change(found[0], -found[1])
        if machine is not None:
            units = self._units(task, machine)
            self._of_task[task] = (machine, units)
            self._on_change(machine, units)

    def withdraw(self) -> None:
        """Remove all tasks, so that no machine has promised work of this run."""
        for task in list(self._of_task):
            self.give(task, None)

    def _units(self, task: int, machine: int) -> int:
        compiled, options = self._compiled, self._compiled.options(task)
        ways = (
            (compiled.seconds(task, machine, count), options.nodes[machine, count])
            for count in options.counts.get(machine, ())
        )
        seconds, nodes = min(ways, default=(0.0, 0))
        return to_units(seconds * nodes)


class UnfinishedTasks:
    """The unfinished tasks by upward rank, and the sum of their mean seconds; O(1) per change."""

    __slots__ = ("_compiled", "_computing", "_first", "_moving", "_places")

    def __init__(self, compiled: CompiledWorkflow, tasks: Iterable[int]) -> None:
        self._compiled = compiled
        self._computing = self._moving = 0
        """Sum of the mean seconds, in units, of the compute tasks and of the other tasks."""
        self._places = IndexSet()
        """Positions of the tasks in ``CompiledWorkflow.rank_order``."""
        self._first: tuple[int, tuple[int, ...]] = (0, ())
        """Argument and result of the last call of ``first``."""
        for task in tasks:
            self.count(task, 1)

    def count(self, task: int, change: int) -> None:
        """Add a task (1) or remove it (-1)."""
        compiled = self._compiled
        units = change * to_units(compiled.mean_seconds[task])
        if compiled.kind[task] == COMPUTE:
            self._computing += units
        else:
            self._moving += units
        place = compiled.rank_place[task]
        if change > 0:
            self._places.add(place)
        else:
            self._places.remove(place)
        self._first = (0, ())

    @property
    def seconds(self) -> float:
        """Return the sum of the mean seconds of all unfinished tasks."""
        return to_seconds(self._computing + self._moving)

    @property
    def computing_s(self) -> float:
        """Return the sum of the mean seconds of the unfinished compute tasks."""
        return to_seconds(self._computing)

    def first(self, most: int) -> tuple[int, ...]:
        """Return at most ``most`` tasks, by descending upward rank, then index; O(most)."""
        if self._first[0] != most:
            found: list[int] = []
            place = self._places.next(0)
            while place is not None and len(found) < most:
                found.append(self._compiled.rank_order[place])
                place = self._places.next(place + 1)
            self._first = (most, tuple(found))
        return self._first[1]


_READY, _WAITING = TaskState.READY, TaskState.WAITING


class IllegalTransition(WeftError):
    """A change of a task's state that ``TRANSITIONS`` does not allow: a bug of weft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """Exit code and result of a task's last attempt, which conditions of branches and loops may use."""

    exit_code: int | None
    result: Mapping[str, Value] = field(default_factory=dict)


class RestartFiles(NamedTuple):
    """The last restart files of a task."""

    share: float
    """Share of the task's work that the files hold."""
    machine: int
    node_count: int
    """Node count of the attempt that wrote the files."""


@dataclass(slots=True)
class TaskFacts:
    """Facts about a task that only few tasks have: failures, migrations, restart files, and so on."""

    tries: int = 0
    """Number of starts in this iteration by attempts that are closed; 0 after the task completed."""
    failures: dict[Cause, int] = field(default_factory=dict)
    """Number of failures by cause."""
    migrations: int = 0
    node_count: int = 0
    """Node count of the last attempt; it is stored only if the workflow has budgets."""
    restart_files: RestartFiles | None = None
    outcome: TaskOutcome | None = None
    """The outcome of the last attempt; it is stored only if a condition may refer to the task."""
    growth: dict[Cause, float] = field(default_factory=dict)
    """Factors for the memory limit (OUT_OF_MEMORY) and the time limit (TIMEOUT)."""
    requeues: int = 0
    """How often in a row the task requested to be run again without making progress."""
    requirements: tuple[str | None, str | None] | None = None
    """(requirement, rank) set by the application; a value that is None was not changed."""
    failed_on: set[int] = field(default_factory=set)
    """The machines in ``avoid``, except those on which the task was only lost or preempted.

    If the task left a slow machine and could not start on the next one, the slow machine is one of them.

    The task uses them only if no other machine is usable, even if the plan puts it there.
    """
    avoid: set[int] = field(default_factory=set)
    """Machines on which the task failed, and those that lost or preempted it since they came up.

    The task uses a machine that lost or preempted it only if it can start on no other machine now. When such
    a machine is back after it was down, it is removed.
    """
    reopened: bool = False
    """Whether the task runs again after it completed; started successors keep its earlier outputs."""
    order: tuple[int, ...] | None = None
    """Machines that the selector program of the task accepts, best first; (): it accepts no machine.

    None: there is no valid answer. An answer is dropped when the program is asked again, but an empty answer
    stays until the program answers again.
    """
    order_wanted: bool = False
    """Whether the selector program was asked and has not answered."""
    order_usual: bool = False
    """Whether ``order`` is the engine's own order, because the selector program failed."""

    @property
    def is_special(self) -> bool:
        """Return whether the task may use other machines than the tasks of its mode group."""
        return bool(self.avoid or self.growth) or self.requirements is not None

    def complete(self) -> None:
        """Remove the facts that are needed only until the task completes."""
        self.tries = self.requeues = 0
        self.restart_files = self.requirements = None
        self.growth, self.avoid, self.failed_on = {}, set(), set()
        self.reopened = self.order_wanted = self.order_usual = False
        self.order = None


_NO_FACTS = TaskFacts()
"""Returned for tasks without facts; never modified."""


class RunTerms(NamedTuple):
    """The values that were stated when a run was submitted."""

    owner: str = ""
    priority: float = 1.0
    """Weight of the run relative to other runs, for policies that order workflows."""
    results: str = ""
    """Folder of the project that gets the outputs; "": the folder of the workflow."""


class RunState:
    """The state of one run."""

    def __init__(
        self,
        index: int,
        compiled: CompiledWorkflow,
        order: TaskOrder,
        *,
        terms: RunTerms,
        now: float,
        planned: bool,
        settings: WorkflowSettings,
        promise: Callable[[int, int], None] | None = None,
    ) -> None:
        """Create a run; ``promise`` is called with a machine and the change of its bound work in units."""
        self.index = index
        self.compiled = compiled
        self._settings = settings
        self.instance = compiled.instance
        self.terms = terms
        self.lines: dict[str, tuple[str, ...]] = {}
        """By file name: the lines of each file over which a sweep was unfolded during the run."""
        self.arrival_s = now
        self.ended_s: float | None = None
        self.ending: RunOutcome | None = None
        """How the run ended; None: not ended."""
        self.planned = planned
        """Whether the run follows a plan."""
        self.version = 0
        """Incremented with every change of the remaining work; a plan states the version it is based on."""
        self.order = order.of(compiled.instance)
        self.ready = ReadyTasks(self.order.key, self.kind_of)
        self.loops: Loops = build_loops(compiled)
        self.state = bytearray(len(compiled))
        self.missing = array("l", bytes(array("l").itemsize * len(compiled)))
        """By task: the number of predecessors that it still waits for."""
        self.where = array("l", [-1]) * len(compiled)
        """By task: the machine on which it completed, which has its outputs; -1: not completed yet."""
        self.attempt_of: dict[int, int] = {}
        """By task: the number of its current attempt."""
        self.left_behind: dict[int, int] = {}
        """By task without a current attempt: the earlier attempt whose files the next attempt uses."""
        self.facts: dict[int, TaskFacts] = {}
        """By task that has facts: its facts. Use ``facts_of`` to read them."""
        self.binding: dict[int, int] = {}
        """By binding variable that several tasks use: the machine to which the variable is bound."""
        self._wanted: dict[Hashable, int] = {}
        """By requirement that is checked at run time: its number, in the order of the first occurrences.

        These are requirements that an application changed or that use values that change during a run.
        """
        self.virtual: dict[int, None] = {}
        """Ready virtual tasks; they complete without an attempt."""
        self.early = EarlyTasks(self.kind_of)
        self.plan: RunPlan | None = None
        self.plan_wanted = False
        """Whether a plan was requested and has not arrived."""
        self.plan_asked_s = 0.0
        """Time of the last plan request."""
        self.next_plan = ""
        """Why another plan is requested after the one that is being made; "": no other plan is needed."""
        self.referenced = _find_referenced_tasks(compiled)
        self.unfinished = len(compiled)
        self.spent = 0.0
        """Price of the node-seconds that the ended attempts of the run have used."""
        self.failed = 0
        self.stopping = ""
        """Why no further attempts of the run are started; "": the run is not stopping."""
        self._left: UnfinishedTasks | None = None
        self._progress: RunProgress | None = None
        self.promises = None if promise is None or not compiled.transfers else PromisedWork(compiled, promise)
        """Work that is bound to machines but not assigned; None: not counted (workflow without transfers)."""
        self._count_missing()

    def __len__(self) -> int:
        return len(self.state)

    @property
    def settings(self) -> RunSettings:
        """Return the settings of the run that are not specific to a task."""
        return self._settings.common

    def settings_of(self, task: int) -> RunSettings:
        """Return the settings of a task."""
        return self._settings.of(self.compiled.description(task))

    @property
    def search_interval_s(self) -> float | None:
        """Return the shortest interval of searches for a better machine; None: no task has an interval."""
        return self._settings.search_interval_s

    def facts_of(self, task: int) -> TaskFacts:
        """Return the facts of a task; the caller must not change them."""
        return self.facts.get(task, _NO_FACTS) if self.facts else _NO_FACTS

    def change_facts(self, task: int) -> TaskFacts:
        """Return the facts of a task, which a transition may change; they are created if necessary."""
        if (facts := self.facts.get(task)) is None:
            facts = self.facts[task] = TaskFacts()
        return facts

    def readmit_machine(self, machine: int) -> None:
        """Let tasks use a machine again that lost or preempted them and is back; O(tasks with facts)."""
        for task, facts in list(self.facts.items()):
            if machine in facts.avoid and machine not in facts.failed_on:
                facts.avoid.remove(machine)
                self.drop_facts(task)
                self.ready.changed(task)
                self.early.changed(task)

    def remember_tries(self, attempt: Attempt) -> None:
        """Store in a task's facts how often the task has started, because its attempt is closed."""
        self.change_facts(attempt.task).tries = attempt.tries
        attempt.tries = 0

    def drop_facts(self, task: int) -> None:
        """Remove the entry of a task from ``facts`` if all its values are defaults."""
        if self.facts.get(task) == _NO_FACTS:
            del self.facts[task]

    def _count_missing(self) -> None:
        graph = self.compiled.graph
        counts = graph.predecessor_pointer[1:] - graph.predecessor_pointer[:-1]
        self.missing = array("l", counts.tolist())
        ready = [task for task, count in enumerate(self.missing) if count == 0]
        for task in ready:
            self.state[task] = _READY
        self.list_ready(ready)

    def list_ready(self, tasks: list[int]) -> None:
        """Replace the ready tasks by ``tasks``: O(n)."""
        self.ready = ReadyTasks(self.order.key, self.kind_of)
        self.virtual = {task: None for task in tasks if self.compiled.kind[task] == VIRTUAL}
        self.ready.add_all([task for task in tasks if task not in self.virtual] if self.virtual else tasks)

    def name(self, task: int) -> str:
        """Return the name of a task; in loops with all iterations, outermost first: ``solve#2.1``."""
        name = self.compiled.names[task]
        return f"{name}#{format_counters(self.loops.counters(task))}" if task in self.loops.around else name

    def kind_of(self, task: int) -> tuple[int, ...]:
        """Return the key shared by tasks that can be placed on the same machines.

        It consists of the mode group or candidate set, the bound machine, the resource amounts, the rank, the
        requirement that is checked at run time, and the machines to avoid. A task whose requirements have
        changed has a mode group below -1.
        """
        compiled = self.compiled
        machine = self.binding.get(compiled.variable[task], -1) if self.binding else -1
        group = compiled.group[task]
        kind: tuple[int, ...] = (
            (group, machine) if group >= 0 else (group, machine, compiled.candidate_set(task))
        )
        if compiled.selectors:
            kind += (compiled.template(task),)
        if compiled.demand_kinds is not None:
            kind += (compiled.demand_kinds[task],)
        if compiled.preference_kinds is not None:
            kind += self._preference_kind(task, compiled.template(task), compiled.preference_kinds)
        facts = self.facts.get(task) if self.facts else None
        if facts is not None:
            kind += (*sorted(facts.avoid - facts.failed_on), *(~each for each in sorted(facts.failed_on)))
            if facts.growth or facts.requirements is not None:
                kind = (-3 - group, machine, self._number_requirements(task, facts), *kind[2:])
        return kind

    def _preference_kind(self, task: int, template: int, kinds: tuple[int, ...]) -> tuple[int, ...]:
        """Return the part of ``kind_of`` for the rank and the requirement that is checked at run time.

        Values of sweep variables in the requirement are taken into account.
        """
        if (text := self.compiled.live_requirements.get(template)) is None:
            return (kinds[template],)
        bound = bind_expression(self.compiled, task, text)
        return kinds[template], self._wanted.setdefault(bound, len(self._wanted))

    def _number_requirements(self, task: int, facts: TaskFacts) -> int:
        """Return a number for a task's changed requirements; equal requirements have equal numbers."""
        wanted = (
            tuple(text and bind_expression(self.compiled, task, text) for text in facts.requirements or ()),
            tuple(sorted(facts.growth.items())),
        )
        return self._wanted.setdefault(wanted, len(self._wanted))

    def demand(self, task: int, machine: int, count: int) -> Demand:
        """Return the resource amounts of a mode; memory is larger after the task ran out of memory."""
        compiled = self.compiled
        if not compiled.demands:
            return ()
        stated = compiled.demand(task, machine, count)
        if (factor := self.facts_of(task).growth.get(Cause.OUT_OF_MEMORY, 1.0)) == 1.0:
            return stated
        return tuple((name, amount * factor if name == "memory" else amount) for name, amount in stated)

    @property
    def is_selecting(self) -> bool:
        """Return whether the answer of a selector program is outstanding.

        A program that accepted no machine and is asked again does not count.
        """
        return bool(self.compiled.selectors) and any(
            facts.order_wanted and facts.order is None for facts in self.facts.values()
        )

    def next_try(self, task: int) -> int:
        """Return the number of the task's next start in this iteration, from 1."""
        return self.facts_of(task).tries + 1

    def is_mode(self, task: int, machine: int, count: int) -> bool:
        """Return whether a task has a mode and the machine has the amounts that the task needs now.

        Amounts that other tasks hold are not subtracted.
        """
        if (nodes := self.compiled.options(task).nodes.get((machine, count))) is None:
            return False
        host = self.instance.machines[machine]
        if not self.facts_of(task).growth or host.occupancy == "unlimited":
            return True
        demand = self.demand(task, machine, count)
        limits = host.amounts
        if (memory := host.memory_for(nodes)) is not None:
            limits["memory"] = memory
        return all(amount <= limits.get(name, inf) for name, amount in demand)

    def move(self, task: int, state: TaskState) -> None:
        """Change the state of a task and update all indexes."""
        before = self.state[task]
        if before == state:
            return
        if state not in TRANSITIONS[before]:
            raise IllegalTransition(
                f"task {self.name(task)} of run {self.index} cannot go from {TaskState(before).name} "
                f"to {state.name}"
            )
        if before == _READY:
            self.ready.remove(task)
            self.virtual.pop(task, None)
        self.state[task] = state
        is_final = state in FINAL
        if is_final != (before in FINAL):
            self._count(task, -1 if is_final else 1)
        if state == _READY:
            if self.compiled.kind[task] == VIRTUAL:
                self.virtual[task] = None
            else:
                self.ready.add(task)
        if self.promises is not None:
            self.promise(task)

    def promise(self, task: int) -> None:
        """Update to which machine's bound but unassigned work a compute task belongs.

        For a transfer, do this for its successors on the same abstract machine.
        """
        if self.promises is None:
            return
        compiled, variable = self.compiled, self.compiled.variable[task]
        if compiled.kind[task] == TRANSFER:
            for other in compiled.after(task):
                if compiled.variable[other] == variable:
                    self.promise(other)
        elif compiled.kind[task] == COMPUTE:
            self.promises.give(task, self.promised_to(task))

    def promise_all(self) -> None:
        """Update the bound but unassigned work for all tasks, after a state was restored: O(n)."""
        for task in range(len(self)) if self.promises is not None else ():
            self.promise(task)

    def promised_to(self, task: int) -> int | None:
        """Return the machine to whose bound but unassigned work a task belongs; None: no machine.

        The task must be bound. It must be ready, or wait for a transfer that has started.
        """
        compiled, state = self.compiled, self.state
        variable = compiled.variable[task]
        if (machine := self.binding.get(variable)) is None or state[task] == _READY:
            return machine
        is_ahead = state[task] == _WAITING and any(
            compiled.kind[other] == TRANSFER
            and compiled.variable[other] == variable
            and state[other] not in (_WAITING, _READY)
            for other in compiled.before(task)
        )
        return machine if is_ahead else None

    def _count(self, task: int, change: int) -> None:
        self.unfinished += change
        if change > 0 and self.plan is not None:
            self.plan.rebuild()
        if self._left is not None:
            self._left.count(task, change)
        if self._progress is not None:
            self._progress.stop(task)

    @property
    def left(self) -> UnfinishedTasks:
        """Return the unfinished tasks; O(n) on the first call."""
        if self._left is None:
            tasks = (task for task, state in enumerate(self.state) if state not in FINAL)
            self._left = UnfinishedTasks(self.compiled, tasks)
        return self._left

    def progress(self, attempts: Mapping[int, Attempt]) -> RunProgress:
        """Return the estimated progress of the running tasks; O(attempts) on the first call."""
        if self._progress is None:
            self._progress = RunProgress()
            for number in self.attempt_of.values():
                self.began(attempts[number])
        return self._progress

    def began(self, attempt: Attempt) -> None:
        """Record that the program of an attempt has started."""
        if self._progress is None:
            return
        task, since = attempt.task, attempt.started_s
        leads = self.attempt_of.get(task) == attempt.number and self.state[task] not in FINAL
        if leads and since is not None:
            self._progress.begin(task, self.compiled.mean_seconds[task], since, attempt.seconds or 1.0)
            self.ended(attempt)

    def delayed(self, attempt: Attempt) -> None:
        """Record that the program of an attempt has not started after all."""
        if self._progress is not None and self.attempt_of.get(attempt.task) == attempt.number:
            self._progress.stop(attempt.task)

    def ended(self, attempt: Attempt) -> None:
        """If the program of an attempt has ended, record that no work of its task is left."""
        leads = self.attempt_of.get(attempt.task) == attempt.number
        if self._progress is not None and leads and attempt.ended_s is not None:
            self._progress.finish(attempt.task)

    def set_current(self, attempt: Attempt) -> None:
        """Make an attempt the current one of its task."""
        self.attempt_of[attempt.task] = attempt.number
        if self._progress is not None:
            self._progress.stop(attempt.task)
            self.began(attempt)

    def drop_current(self, task: int) -> None:
        """Remove the current attempt of a task, if any."""
        self.attempt_of.pop(task, None)
        if self._progress is not None:
            self._progress.stop(task)

    def is_special(self, task: int, *, rebind: bool = False) -> bool:
        """Return whether a task may use other machines than the tasks of its mode group.

        ``rebind``: ignore the binding of its abstract machine.
        """
        if not (self.binding or self.facts):
            return False
        return self.facts_of(task).is_special or self.bound_machine(task, rebind=rebind) is not None

    def bound_machine(self, task: int, *, rebind: bool = False) -> int | None:
        """Return the machine to which a task's abstract machine is bound; None: not bound, or ``rebind``."""
        if rebind or not self.binding:
            return None
        return self.binding.get(self.compiled.variable[task])

    def source_of(self, task: int) -> int | None:
        """Return the source machine of a transfer task; None: not bound yet."""
        return self.binding.get(int(self.compiled.graph.source_variable[task]))

    def open_state(self, task: int) -> TaskState:
        """Return WAITING if a task waits for predecessors, else READY."""
        return _WAITING if self.missing[task] else _READY

    def make_ready_or_waiting(self, task: int) -> None:
        """Set the state of a task to WAITING if it waits for predecessors, else to READY."""
        self.move(task, self.open_state(task))

    def release(self, successor: int) -> bool:
        """Count one predecessor of a task as done; return whether the task was in another state than WAITING.

        A waiting task without missing predecessors becomes ready.
        """
        left = self.missing[successor] = self.missing[successor] - 1
        if self.state[successor] != _WAITING:
            return True
        if left == 0:
            if self.planned:
                self.early.discard(successor)
            self.move(successor, _READY)
        elif self.planned:
            self.offer_early(successor)
        return False

    def offer_early(self, task: int) -> None:
        """Let a policy assign a waiting task early, unless it may be skipped, or subtasks may replace it."""
        if task not in self.compiled.conditional and task not in self.compiled.growing:
            self.early.add(task)

    def bind(self, task: int, machine: int) -> None:
        """Bind the abstract machine of a task to a machine, if several tasks use it."""
        variable = self.compiled.variable[task]
        if self.compiled.shared[variable] and self.binding.get(variable) != machine:
            self.binding[variable] = machine
            self._rebound(variable)

    def unbind(self, variable: int) -> None:
        """Remove the binding of an abstract machine."""
        if self.binding.pop(variable, None) is not None:
            self._rebound(variable)

    def _rebound(self, variable: int) -> None:
        for task in self.members(variable):
            self.ready.changed(task)
            self.early.changed(task)
            self.promise(task)

    def members(self, variable: int) -> list[int]:
        """Return the tasks of a binding variable; empty if only one task uses it."""
        return self.compiled.members_of(variable)


def _find_referenced_tasks(compiled: CompiledWorkflow) -> frozenset[str]:
    """Return the names of the tasks whose outcome a condition may use."""
    workflow = compiled.graph.workflow
    names = {loop.last for loop in workflow.loops}
    if workflow.loops:
        # `until` may refer to any task of the body.
        names.update(
            compiled.graph.description(int(task)).name for body in compiled.graph.loops for task in body.tasks
        )
    ended_by = {loop.name: loop.last for loop in workflow.loops}
    for task in workflow.tasks:
        for dependency in task.after:
            if dependency.condition is not None:
                names.add(ended_by.get(dependency.task, dependency.task))
    return frozenset(names)
