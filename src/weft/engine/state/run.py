"""What the running tasks of a run have done of their mean seconds by now, if each goes on as expected.

Each does its share per second until it should have ended; from then on it counts as done, though it still
runs. So the sum grows evenly between two events: kept are its growth and its beginning, in whole units
(``totals``), which do not depend on the order in which tasks began and ended.

What is promised to machines: tasks that are bound to one and were not sent there yet.

A task that becomes ready, or goes, costs O(1).

The unfinished tasks of a run: their mean seconds together, and the first of them by upward rank.

Made at the first question, in O(n), and kept from then on: an end, or a task that runs again, costs O(1).

A run: one execution of one workflow, task by task.

Per task there is a byte for its state and a number of missing predecessors; everything else is kept only for
tasks that need it (live attempts, failures, conditions), so that a million waiting tasks cost little.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from weft.engine.state.compiled import CompiledWorkflow, Loops, bind_expression, build_loops
from weft.engine.state.indexes import IndexSet, to_seconds, to_units
from weft.engine.state.plan import RunPlan
from weft.engine.state.ready import EarlyTasks, ReadyTasks
from weft.engine.states import FINAL, TRANSITIONS, Attempt, Demand, TaskState
from weft.errors import WeftError
from weft.expressions import Value
from weft.policies.policy import TaskOrder
from weft.workflow.task_graph import COMPUTE, TRANSFER, VIRTUAL

__all__ = ["IllegalTransition", "PromisedWork", "RunProgress", "RunState", "TaskOutcome", "UnfinishedTasks"]


_Share = tuple[int, int, int]
"""Units of mean seconds per second, the unit of time since when, all its units."""


class RunProgress:
    """A task that begins or ends costs O(log n)."""

    __slots__ = ("_ends", "_full", "_growth", "_origin", "_overdue", "_shares")

    def __init__(self) -> None:
        self._shares: dict[int, _Share] = {}
        self._overdue: set[int] = set()
        """Those that should have ended."""
        self._ends: list[tuple[float, int, _Share]] = []
        """A heap of the others (end, task, share); who has ended before goes when it comes to the top."""
        self._growth = self._origin = self._full = 0

    def begin(self, task: int, mean_s: float, started_s: float, seconds: float) -> None:
        """Hear that a task runs since then and is expected to take so long."""
        self.stop(task)
        share = (to_units(mean_s / seconds), to_units(started_s), to_units(mean_s))
        self._shares[task] = share
        self._count(share, 1)
        heappush(self._ends, (started_s + seconds, task, share))

    def stop(self, task: int) -> None:
        """Forget a task, if it runs."""
        share = self._shares.pop(task, None)
        if share is None:
            return
        if task in self._overdue:
            self._overdue.remove(task)
            self._full -= share[2]
        else:
            self._count(share, -1)

    def done_s(self, now: float) -> float:
        """Give the mean seconds that are done."""
        while self._ends and self._ends[0][0] <= now:
            _, task, share = heappop(self._ends)
            if self._shares.get(task) is share:
                self._overdue.add(task)
                self._count(share, -1)
                self._full += share[2]
        # Growth times time is in units of units.
        return to_seconds(self._full) + to_seconds(to_seconds(self._growth * to_units(now) - self._origin))

    def _count(self, share: _Share, change: int) -> None:
        growth, since, _ = share
        self._growth += change * growth
        self._origin += change * growth * since


class PromisedWork:
    """Node-seconds of each task with its fastest count, at the speed the platform states."""

    __slots__ = ("_compiled", "_of_task", "_tell")

    def __init__(self, known: CompiledWorkflow, tell: Callable[[int, int], None]) -> None:
        """Begin without promises; ``tell`` hears of a machine how many units more it is promised."""
        self._compiled = known
        self._tell = tell
        self._of_task: dict[int, tuple[int, int]] = {}
        """Per task: the machine it is promised to, and its units."""

    def give(self, task: int, machine: int | None) -> None:
        """Promise a compute task to a machine and to no other; None: to none."""
        found = self._of_task.get(task)
        if (None if found is None else found[0]) == machine:
            return
        if found is not None:
            del self._of_task[task]
            self._tell(found[0], -found[1])
        if machine is not None:
            units = self._units(task, machine)
            self._of_task[task] = (machine, units)
            self._tell(machine, units)

    def withdraw(self) -> None:
        """Take back all promises."""
        for task in list(self._of_task):
            self.give(task, None)

    def _units(self, task: int, machine: int) -> int:
        known, options = self._compiled, self._compiled.options(task)
        ways = (
            (known.seconds(task, machine, count), options.nodes[machine, count])
            for count in options.counts.get(machine, ())
        )
        seconds, nodes = min(ways, default=(0.0, 0))
        return to_units(seconds * nodes)


class UnfinishedTasks:
    """Counts tasks in and out."""

    __slots__ = ("_compiled", "_computing", "_first", "_moving", "_places")

    def __init__(self, known: CompiledWorkflow, tasks: Iterable[int]) -> None:
        self._compiled = known
        self._computing = self._moving = 0
        """The mean seconds, in units, of the tasks that take nodes and of the others."""
        self._places = IndexSet()
        """The places of the tasks in the order of the ranks."""
        self._first: tuple[int, tuple[int, ...]] = (0, ())
        """The answer that was given last, and how many were asked for."""
        for task in tasks:
            self.count(task, 1)

    def count(self, task: int, change: int) -> None:
        """Take in a task (1), or take it out (-1)."""
        known = self._compiled
        units = change * to_units(known.mean_seconds[task])
        if known.kind[task] == COMPUTE:
            self._computing += units
        else:
            self._moving += units
        place = known.rank_place[task]
        if change > 0:
            self._places.add(place)
        else:
            self._places.remove(place)
        self._first = (0, ())

    @property
    def seconds(self) -> float:
        """Give the mean seconds of all of them together."""
        return to_seconds(self._computing + self._moving)

    @property
    def computing_s(self) -> float:
        """Give the mean seconds of those that take nodes."""
        return to_seconds(self._computing)

    def first(self, most: int) -> tuple[int, ...]:
        """Give the first so many by descending upward rank, then index: O(most)."""
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
    """A task was led from one state to another that the table of states does not allow: a bug of weft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """How a task ended last: what conditions are judged by."""

    exit_code: int | None
    result: Mapping[str, Value] = field(default_factory=dict)


class RunState:
    """The state of one run."""

    def __init__(
        self,
        index: int,
        known: CompiledWorkflow,
        order: TaskOrder,
        *,
        owner: str,
        now: float,
        planned: bool,
        promise: Callable[[int, int], None] | None = None,
    ) -> None:
        """Begin; ``promise`` hears what is promised to machines (``indexes.promised``)."""
        self.index = index
        self.compiled = known
        self.instance = known.instance
        self.owner = owner
        self.lines: dict[str, tuple[str, ...]] = {}
        """The lines of files its graph has grown by."""
        self.arrival_s = now
        self.ended_s: float | None = None
        self.ending = ""
        """How it ended; "": it has not."""
        self.planned = planned
        """Whether a plan is followed."""
        self.version = 0
        """Grows with everything that changes what remains to be done."""
        self.order = order.of(known.instance)
        self.ready = ReadyTasks(self.order.key, self.kind_of)
        self.loops: Loops = build_loops(known)
        self.state = bytearray(len(known))
        self.missing = array("l", bytes(array("l").itemsize * len(known)))
        """Per task: predecessors (edges) that were not released yet."""
        self.where = array("l", [-1]) * len(known)
        """Per task: the machine where it ran last; -1: nowhere yet."""
        self.attempt_of: dict[int, int] = {}
        """The live attempt of a task."""
        self.tries: dict[int, int] = {}
        """How often a task was told to start in this iteration, until it has completed."""
        self.failures: dict[int, dict[str, int]] = {}
        """Failures by task and cause."""
        self.migrations: dict[int, int] = {}
        """How often a task was migrated."""
        self.checkpoint: dict[int, tuple[float, int, int]] = {}
        """Restart files of tasks: share of the work, machine where they lie, node count they were written
        with."""
        self.outcome: dict[int, TaskOutcome] = {}
        """Outcomes of the tasks that conditions speak of."""
        self.binding: dict[int, int] = {}
        """Machines of the binding variables that several tasks name."""
        self.reopened: set[int] = set()
        """Tasks that had completed and run again: what has begun after them had their data the first time."""
        self.left_behind: dict[int, int] = {}
        """Tasks that had to leave and wait for a machine: the attempt whose files the next one takes over."""
        self.grown: dict[int, dict[str, float]] = {}
        """By task and cause: what its memory (oom) or time limit (timeout) is multiplied with."""
        self.requeued: dict[int, int] = {}
        """How often a task has asked to be run again without having got any further."""
        self.requirements: dict[int, tuple[str | None, str | None]] = {}
        """Requirement and rank that applications changed at run time."""
        self._wanted: dict[Hashable, int] = {}
        """What tasks want other than at first, numbered as it comes."""
        self.virtual: dict[int, None] = {}
        """Virtual tasks that are ready: they complete at once."""
        self.early = EarlyTasks(self.kind_of)
        self.plan: RunPlan | None = None
        self.plan_wanted = False
        """Whether a plan was asked for and has not come yet."""
        self.plan_asked_s = 0.0
        """When the last plan was asked for."""
        self.spoken_of = _find_referenced_tasks(known)
        self.unfinished = len(known)
        self.failed = 0
        self.stopping = ""
        """Why nothing new is started; "": it is."""
        self.avoid: dict[int, set[int]] = {}
        """Machines on which a task has failed."""
        self._left: UnfinishedTasks | None = None
        self._progress: RunProgress | None = None
        self.promises = None if promise is None or not known.transfers else PromisedWork(known, promise)
        """What it has promised to machines, where files are sent ahead."""
        self._count_missing()

    def __len__(self) -> int:
        return len(self.state)

    @property
    def over(self) -> bool:
        """Say whether nothing more will happen."""
        return self.unfinished == 0 and not self.attempt_of

    def _count_missing(self) -> None:
        graph = self.compiled.graph
        counts = graph.predecessor_pointer[1:] - graph.predecessor_pointer[:-1]
        self.missing = array("l", counts.tolist())
        ready = [task for task, count in enumerate(self.missing) if count == 0]
        for task in ready:
            self.state[task] = _READY
        self.list_ready(ready)

    def list_ready(self, tasks: list[int]) -> None:
        """List these tasks, and no others, as ready: O(n)."""
        self.ready = ReadyTasks(self.order.key, self.kind_of)
        self.virtual = {task: None for task in tasks if self.compiled.kind[task] == VIRTUAL}
        self.ready.add_all([task for task in tasks if task not in self.virtual] if self.virtual else tasks)

    def name(self, task: int) -> str:
        """Name a task, with its iteration if it is in a loop."""
        name = self.compiled.names[task]
        return f"{name}#{self.loops.iteration(task)}" if task in self.loops.around else name

    def kind_of(self, task: int) -> tuple[int, ...]:
        """Give what tasks that can be placed alike share.

        This is the mode group, or where a transfer may go; the machine if bound; the amounts they take; the
        machines to avoid. Of those that want something else than at first the group is less than -1.
        """
        known = self.compiled
        machine = self.binding.get(known.variable[task], -1) if self.binding else -1
        group = known.group[task]
        kind: tuple[int, ...] = (group, machine) if group >= 0 else (group, machine, known.goal(task))
        if known.selectors:
            kind += (known.template(task),)
        if known.demand_kinds is not None:
            kind += (known.demand_kinds[task],)
        if task in self.avoid:
            kind += tuple(sorted(self.avoid[task]))
        if task in self.requirements or task in self.grown:
            kind = (-3 - group, machine, self._wants_by_now(task), *kind[2:])
        return kind

    def _wants_by_now(self, task: int) -> int:
        """Number what a task wants other than at first; the same for tasks that want the same."""
        texts = self.requirements.get(task, ())
        wanted = (
            tuple(text and bind_expression(self.compiled, task, text) for text in texts),
            tuple(sorted(self.grown.get(task, {}).items())),
        )
        return self._wanted.setdefault(wanted, len(self._wanted))

    def demand(self, task: int, machine: int, count: int) -> Demand:
        """Give the amounts a mode takes; more memory than stated after the task has run out of it."""
        known = self.compiled
        if not known.demands:
            return ()
        stated = known.demand(task, machine, count)
        factor = self.grown[task].get("oom", 1.0) if task in self.grown else 1.0
        if factor == 1.0:
            return stated
        return tuple((name, amount * factor if name == "memory" else amount) for name, amount in stated)

    def tried(self, task: int) -> int:
        """Count the tries of a task, the one that begins now among them."""
        return self.tries.get(task, 0) + 1

    def is_mode(self, task: int, machine: int, count: int) -> bool:
        """Say whether a task may run so by its description, and by the memory it needs by now."""
        if (machine, count) not in self.compiled.options(task).nodes:
            return False
        host = self.instance.machines[machine]
        if task not in self.grown or host.occupancy == "unlimited":
            return True
        demand = self.demand(task, machine, count)
        return all(amount <= host.amounts.get(name, inf) for name, amount in demand)

    def move(self, task: int, state: TaskState) -> None:
        """Lead a task to another state."""
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
        if (state in FINAL) != (before in FINAL):
            self._count(task, -1 if state in FINAL else 1)
        if state == _READY:
            if self.compiled.kind[task] == VIRTUAL:
                self.virtual[task] = None
            else:
                self.ready.add(task)
        if self.promises is not None:
            self.promise(task)

    def promise(self, task: int) -> None:
        """Promise a task to the machine it is bound to, or no longer, after something has happened to it.

        This is one that is ready, or for which a file was sent ahead; or that may become it by its transfer.
        """
        if self.promises is None:
            return
        known, variable = self.compiled, self.compiled.variable[task]
        if known.kind[task] == TRANSFER:
            for other in known.after(task):
                if known.variable[other] == variable:
                    self.promise(other)
        elif known.kind[task] == COMPUTE:
            self.promises.give(task, self.promised_to(task))

    def promise_all(self) -> None:
        """Promise what is to be promised in a state that was put together: O(n)."""
        for task in range(len(self)) if self.promises is not None else ():
            self.promise(task)

    def promised_to(self, task: int) -> int | None:
        """Give the machine to which a compute task will soon go: it is ready, or a file is ahead."""
        known, state = self.compiled, self.state
        variable = known.variable[task]
        machine = self.binding.get(variable)
        if machine is None or state[task] == _READY:
            return machine
        is_ahead = state[task] == _WAITING and any(
            known.kind[other] == TRANSFER
            and known.variable[other] == variable
            and state[other] not in (_WAITING, _READY)
            for other in known.before(task)
        )
        return machine if is_ahead else None

    def _count(self, task: int, change: int) -> None:
        self.unfinished += change
        if change > 0 and self.plan is not None:
            self.plan.look_again()
        if self._left is not None:
            self._left.count(task, change)
        if self._progress is not None:
            self._progress.stop(task)

    @property
    def left(self) -> UnfinishedTasks:
        """Give what is known of the tasks that have not ended; O(n) at the first question."""
        if self._left is None:
            tasks = (task for task, state in enumerate(self.state) if state not in FINAL)
            self._left = UnfinishedTasks(self.compiled, tasks)
        return self._left

    def progress(self, attempts: Mapping[int, Attempt]) -> RunProgress:
        """Give what its running tasks have done; O(attempts) at the first question."""
        if self._progress is None:
            self._progress = RunProgress()
            for number in self.attempt_of.values():
                self.began(attempts[number])
        return self._progress

    def began(self, attempt: Attempt) -> None:
        """Hear that the program of an attempt has begun."""
        task, since = attempt.task, attempt.started_s
        leads = self.attempt_of.get(task) == attempt.number and self.state[task] not in FINAL
        if self._progress is not None and leads and since is not None:
            self._progress.begin(task, self.compiled.mean_seconds[task], since, attempt.seconds or 1.0)

    def lead(self, attempt: Attempt) -> None:
        """Let an attempt be the one its task's state speaks of."""
        self.attempt_of[attempt.task] = attempt.number
        if self._progress is not None:
            self._progress.stop(attempt.task)
            self.began(attempt)

    def let_go(self, task: int) -> None:
        """Forget the attempt of a task, if it has one."""
        self.attempt_of.pop(task, None)
        if self._progress is not None:
            self._progress.stop(task)

    def is_special(self, task: int) -> bool:
        """Say whether a task may not go wherever those of its group may."""
        if not (self.binding or self.requirements or self.avoid or self.grown):
            return False
        special = task in self.requirements or task in self.avoid or task in self.grown
        return special or self.compiled.variable[task] in self.binding

    def source_of(self, task: int) -> int | None:
        """Give the machine a transfer takes its file from; None: not bound yet."""
        return self.binding.get(int(self.compiled.graph.source_variable[task]))

    def make_ready_or_waiting(self, task: int) -> None:
        """Put a task back where it belongs without an attempt."""
        self.move(task, _WAITING if self.missing[task] else _READY)

    def release(self, successor: int) -> bool:
        """Count one predecessor of a task as done; say whether the task was already sent to a machine."""
        left = self.missing[successor] = self.missing[successor] - 1
        if self.state[successor] != _WAITING:
            return True
        if left == 0:
            if self.planned:
                self.early.discard(successor)
            self.move(successor, _READY)
        elif self.planned:
            self.early.add(successor)
        return False

    def tasks_in(self, *states: TaskState) -> Iterator[int]:
        """List the tasks in some states; O(tasks)."""
        wanted = frozenset(states)
        return (task for task, state in enumerate(self.state) if state in wanted)

    def bind(self, task: int, machine: int) -> None:
        """Note that a task goes to a machine: what shares its abstract machine goes there too."""
        variable = self.compiled.variable[task]
        if self.compiled.shared[variable] and self.binding.get(variable) != machine:
            self.binding[variable] = machine
            self._rebound(variable)

    def unbind(self, variable: int) -> None:
        """Let an abstract machine choose anew."""
        if self.binding.pop(variable, None) is not None:
            self._rebound(variable)

    def _rebound(self, variable: int) -> None:
        for task in self.members(variable):
            self.ready.changed(task)
            self.early.changed(task)
            self.promise(task)

    def members(self, variable: int) -> list[int]:
        """List the tasks that name a shared abstract machine."""
        return self.compiled.members_of(variable)


def _find_referenced_tasks(known: CompiledWorkflow) -> frozenset[str]:
    """Name the tasks whose outcome some condition may ask for."""
    workflow = known.graph.workflow
    names = {loop.last for loop in workflow.loops}
    if workflow.loops:
        # `until` may speak of any task of the body.
        names.update(
            known.graph.description(int(task)).name for body in known.graph.loops for task in body.tasks
        )
    ended_by = {loop.name: loop.last for loop in workflow.loops}
    for task in workflow.tasks:
        for dependency in task.after:
            if dependency.condition is not None:
                names.add(ended_by.get(dependency.task, dependency.task))
    return frozenset(names)
