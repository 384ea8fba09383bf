"""The view of the state that policies use (the interface is ``policies.policy.View``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice

from weft.engine.messages import SelectionCandidate
from weft.engine.ranking import TaskRanking, accepts_machine, find_ranking
from weft.engine.selection import (
    avoids_machine,
    external_staging_s,
    list_candidate_machines,
    may_use,
    spared_share,
    suits_task,
)
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.state.machines import MachineState
from weft.engine.state.plan import RunPlan
from weft.engine.state.ready import PlanCursor, ReadyTasks, SelectedTasks
from weft.engine.state.run import RunState
from weft.engine.state.state import EngineState
from weft.engine.states import Attempt, Stage, TaskState
from weft.instance.instance import Instance
from weft.policies.policy import MachineView, Mode, RunView
from weft.workflow.task_graph import COMPUTE, TRANSFER


class EngineMachineView:
    """A policy's view of one machine."""

    __slots__ = ("_machine", "_state", "index")

    def __init__(self, machine: MachineState, state: EngineState) -> None:
        self.index = machine.index
        self._machine = machine
        self._state = state

    @property
    def up(self) -> bool:
        """Return whether the machine is up."""
        return self._machine.up

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return self._machine.nodes

    @property
    def free_nodes(self) -> int:
        """Return the number of free nodes; all nodes if tasks may share nodes."""
        return self._machine.free_nodes if self._machine.counts_nodes else self._machine.nodes

    @property
    def speed_factor(self) -> float:
        """Return the estimated speed relative to the platform's description."""
        return self._machine.speed_factor

    @property
    def believed_at_s(self) -> float:
        """Return the time of the last speed estimate."""
        return self._machine.believed_at_s

    @property
    def waiting(self) -> int:
        """Return the number of attempts in the queue."""
        return len(self._machine.queue)

    @property
    def promised_s(self) -> float:
        """Return the estimated seconds of the tasks that are bound to this machine but not assigned yet.

        These are their node-seconds divided by the number of nodes.
        """
        return self._machine.promised_s

    def unclaimed_nodes(self, before: float | None = None) -> int:
        """Return the number of free nodes minus the nodes that queued attempts need; it may be negative.

        ``before``: only queued attempts with a lower sort key are considered.
        """
        attempts, queue = self._state.attempts, self._machine.queue
        if self._machine.unlimited or not queue:
            return self.free_nodes
        claims = (attempts[number].nodes for order, number in queue if before is None or order < before)
        return self.free_nodes - sum(claims)

    def free_at_s(self, nodes: int) -> float:
        """Return the estimated time at which this many nodes will be free."""
        return self._machine.free_at_s(nodes, self._state.attempts, self._state.now)


class _QueuedMode(Mode):
    """A mode with a possible wait in the queue; ``finish_s`` is computed on first access."""

    __slots__ = ("_machine", "_state")

    def __init__(
        self,
        state: EngineState,
        machine: MachineState,
        count: int,
        nodes: int,
        seconds: float,
        ready_s: float,
    ) -> None:
        self.machine, self.count, self.nodes = machine.index, count, nodes
        self.seconds, self.ready_s = seconds, ready_s
        self._machine, self._state = machine, state

    def __getattr__(self, name: str) -> float:
        """Compute ``finish_s`` on first access, while its slot is still empty."""
        if name != "finish_s":
            raise AttributeError(name)
        free_s = self._machine.free_at_s(self.nodes, self._state.attempts, self._state.now)
        self.finish_s = max(self.ready_s, free_s) + self.seconds
        return self.finish_s


class EngineRunView:
    """A policy's view of one run."""

    __slots__ = ("_run", "_selector", "_state", "arrival_s", "index", "instance", "owner", "priority")

    def __init__(self, run: RunState, state: EngineState, selector: str = "") -> None:
        self._run = run
        self._selector = selector
        self._state = state
        self.index = run.index
        self.arrival_s = run.arrival_s
        self.owner = run.terms.owner
        self.priority = run.terms.priority
        self.instance: Instance = run.instance

    def shows(self, run: RunState) -> bool:
        """Return whether this view shows the given run object; when a run grows, it becomes a new object."""
        return self._run is run

    @property
    def ready(self) -> ReadyTasks | SelectedTasks:
        """Return the ready tasks that have this view's selector."""
        run = self._run
        return (
            SelectedTasks(run.ready, self._belongs) if run.compiled.selectors or self._selector else run.ready
        )

    def _belongs(self, task: int) -> bool:
        return self._run.compiled.selector(task) == self._selector

    @property
    def transfers(self) -> bool:
        """Return whether the workflow has transfer tasks."""
        return self._run.compiled.transfers

    @property
    def alone_s(self) -> float:
        """Return the estimated makespan of the run alone on the empty platform."""
        return self._run.compiled.alone_s

    @property
    def ranks(self) -> Sequence[float]:
        """Return the upward rank of every task."""
        return self._run.compiled.ranks

    @property
    def mean_seconds(self) -> Sequence[float]:
        """Return the mean seconds of every task over its candidate machines."""
        return self._run.compiled.mean_seconds

    @property
    def remaining_s(self) -> float:
        """Return the mean seconds of all unfinished tasks, minus the estimated part that is already done."""
        state = self._state
        return max(0.0, self._run.left.seconds - self._run.progress(state.attempts).done_s(state.now))

    @property
    def computing_s(self) -> float:
        """Return the mean seconds of all unfinished compute tasks; running tasks count in full."""
        return self._run.left.computing_s

    @property
    def plan(self) -> RunPlan | None:
        """Return the plan that the run follows; None: it has no plan."""
        return self._run.plan

    def state(self, task: int) -> str:
        """Return the name of a task's state, such as ``READY``."""
        return TaskState(self._run.state[task]).name

    def first_unfinished(self, most: int) -> Sequence[int]:
        """Return at most ``most`` unfinished tasks, by descending upward rank."""
        return self._run.left.first(most)

    def turn(self, *, early: bool = False, by_rank: bool = False, strict: bool = False) -> PlanCursor | None:
        """Return a cursor over the ready tasks by planned start; None: the run has no plan or no such task.

        ``early``: instead of ready tasks, waiting tasks that may be assigned early. ``by_rank``: ready tasks
        by upward rank. ``strict``: skip tasks whose planned machine is not usable.
        """
        run, plan, state = self._run, self._run.plan, self._state
        if plan is None or not (run.early if early else run.ready):
            return None
        by_plan = run.early.by_plan if early else partial(run.ready.by_plan, by_rank=by_rank)
        tasks = by_plan(plan, run.compiled, partial(suits_task, state, run), selector=self._selector)
        tasks.refresh(state.changes, state.machines.is_usable)
        return PlanCursor(tasks, strict=strict)

    def counts(self, task: int, machine: int) -> Sequence[int]:
        """Return the node counts with which a task may run on a machine."""
        return self._run.compiled.options(task).counts.get(machine, ())

    def bound(self, task: int) -> int | None:
        """Return the machine to which a task's abstract machine is bound; None: not bound."""
        return self._run.binding.get(self._run.compiled.variable[task])

    def where(self, task: int) -> int | None:
        """Return the machine that has or will have a task's outputs; None: no machine yet."""
        number = self._run.attempt_of.get(task)
        if number is not None and number in self._state.attempts:
            return self._state.attempts[number].machine
        place = self._run.where[task]
        return place if place >= 0 else None


class EngineView:
    """A policy's view of the state."""

    def __init__(self, state: EngineState, selector: str = "") -> None:
        """Create a view that shows only the ready tasks that have this selector ("": no selector)."""
        self._state = state
        self._selector = selector
        self._machines: list[MachineView] = []
        self._seen: dict[int, EngineRunView] = {}
        self._runs: list[RunView] = []
        self._roster = -1

    @property
    def machines(self) -> Sequence[MachineView]:
        """Return the machines by index."""
        state = self._state
        if len(self._machines) < len(state.machines):  # at first, and after a machine joined
            self._machines = [EngineMachineView(machine, state) for machine in state.machines]
        return self._machines

    @property
    def now(self) -> float:
        """Return the current time of the engine in seconds."""
        return self._state.now

    @property
    def runs(self) -> Sequence[RunView]:
        """Return the active runs in order of arrival."""
        if self._roster != self._state.roster:
            self._roster = self._state.roster
            self._runs = [self.run(index) for index in self._state.active]
        return self._runs

    @property
    def speed_factors(self) -> tuple[float, ...]:
        """Return the estimated speed factor of every machine; 0: down."""
        return self._state.machines.speed_factors

    @property
    def free(self) -> Collection[int]:
        """Return the usable machines with a free node."""
        return self._state.machines.free.keys()

    @property
    def any_free(self) -> bool:
        """Return whether some usable machine has a free node."""
        return bool(self._state.machines.free)

    def run(self, index: int) -> EngineRunView:
        """Return the view of the run with this number."""
        seen = self._seen.get(index)
        run = self._state.runs[index]
        if seen is None or not seen.shows(run):
            seen = self._seen[index] = EngineRunView(run, self._state, self._selector)
        return seen

    def attempts(self) -> Iterator[Attempt]:
        """Yield the attempts whose programs have not ended, in order of creation."""
        return (attempt for attempt in list(self._state.attempts.values()) if attempt.stage <= Stage.RUNNING)

    def attempts_of(self, run: RunView, most: int) -> list[Attempt]:
        """Return at most ``most`` current attempts of the unfinished tasks of a run."""
        numbers = self._state.runs[run.index].attempt_of.values()
        return [self._state.attempts[number] for number in islice(numbers, most)]

    def modes(
        self,
        run: RunView,
        task: int,
        *,
        free: bool = True,
        but: int | None = None,
        rebind: bool = False,
        among: Collection[int] | None = None,
    ) -> list[Mode]:
        """Return the modes of a task on the machines to compare, by machine, then node count.

        ``free``: return only modes in which the task can start now. ``but``: a machine to omit if ``free`` is
        true. ``rebind``: ignore the binding of the task's abstract machine. ``among``: compare all of these
        machines and no others; None: one of several equal machines is enough.

        A machine on which the task failed is returned only if no other machine is usable. A machine that lost
        or preempted the task is returned only if the task can start on no other machine now.
        """
        inner = self._state.runs[run.index]
        compiled = inner.compiled
        found: list[Mode] = []
        if free and among is None and compiled.plain and not inner.is_special(task, rebind=rebind):
            self._add_plain_modes(found, compiled, task)
            return found
        if free and not self._state.machines.free and compiled.kind[task] == COMPUTE:
            return found
        listed = partial(list_candidate_machines, self._state, inner, task, rebind=rebind, among=among)
        facts, lost = inner.facts_of(task), True
        if len(facts.avoid) > len(facts.failed_on):
            for machine in listed(free=True, but=but, lost=False):
                self._add_modes(found, inner, task, machine, True)
            if found and free:
                return found
            lost = not found
            found = []
        for machine in listed(free=free, but=but, lost=lost):
            self._add_modes(found, inner, task, machine, free)
        return found

    def _add_plain_modes(self, found: list[Mode], compiled: CompiledWorkflow, task: int) -> None:
        """Append the modes of a task to ``found``, on one machine per class and amount of free capacity.

        The workflow must be plain (``CompiledWorkflow.plain``).
        """
        machines, now = self._state.machines, self._state.now
        options = compiled.options(task)
        first = [index for each in machines.classes(options) for index in each.by_capacity.firsts()]
        for index in sorted(first) if len(first) > 1 else first:
            state = machines.all[index]
            for count in options.counts[index]:
                nodes = options.nodes[index, count]
                if nodes <= state.free_nodes or not state.counts_nodes:
                    seconds = compiled.seconds(task, index, count) / state.speed_factor
                    seconds *= state.crowding(nodes)
                    found.append(Mode(index, count, nodes, seconds, now, now + seconds))

    def mode(
        self, run: RunView, task: int, machine: int, count: int, *, free: bool = False, again: bool = True
    ) -> Mode | None:
        """Return a mode of a task; None: the task cannot run in this mode.

        If ``free`` is true, return None also if the task cannot start in this mode now. If ``again`` is
        false, return None also if the task failed on the machine and another machine can run it.
        """
        found: list[Mode] = []
        inner, state = self._state.runs[run.index], self._state
        possible = may_use(inner, task, machine) and state.machines.is_usable(machine)
        if not again and inner.facts and avoids_machine(state, inner, task, machine):
            return None
        if possible and accepts_machine(state, inner, task, machine):
            self._add_modes(found, inner, task, machine, free)
        return next((mode for mode in found if mode.count == count), None)

    def ranking(self, run: RunView, task: int) -> TaskRanking | None:
        """Return the ranking expression of a task, which orders machines; None: it has no expression."""
        return find_ranking(self._state, self._state.runs[run.index], task)

    def candidates(self, run: RunView, task: int) -> tuple[SelectionCandidate, ...]:
        """Return the machines that a task may use, highest rank first, then by estimated end.

        Machines without a rank come last.
        """
        best: dict[int, Mode] = {}
        for mode in self.modes(run, task, free=False):
            if mode.machine not in best or mode.finish_s < best[mode.machine].finish_s:
                best[mode.machine] = mode
        ranks = {machine: self.rank(run, task, machine) for machine in best}

        def order_key(mode: Mode) -> tuple[bool, float, float, int]:
            rank = ranks[mode.machine]
            return rank is None, -(rank or 0.0), mode.finish_s, mode.machine

        return tuple(
            SelectionCandidate(
                machine=mode.machine,
                count=mode.count,
                seconds=mode.seconds,
                ready_s=mode.ready_s - self.now,
                wait_s=max(0.0, self.machines[mode.machine].free_at_s(mode.nodes) - self.now),
                free_nodes=self.machines[mode.machine].free_nodes,
                speed_factor=self.machines[mode.machine].speed_factor,
                rank=ranks[mode.machine],
            )
            for mode in sorted(best.values(), key=order_key)
        )

    def rank(self, run: RunView, task: int, machine: int) -> float | None:
        """Return the value of the task's ranking expression for a machine and the fastest mode on it.

        None: the task has no such expression, or the value is not a number.
        """
        if (ranking := self.ranking(run, task)) is None:
            return None
        found: list[Mode] = []
        inner = self._state.runs[run.index]
        if may_use(inner, task, machine):
            self._add_modes(found, inner, task, machine, False)
        if not found:
            return ranking.value_on(machine)
        return ranking.values([min(found, key=lambda mode: mode.seconds)])[0]

    def _add_modes(self, found: list[Mode], run: RunState, task: int, index: int, free: bool) -> None:
        state, compiled = self._state, run.compiled
        machine, ready_s = state.machines[index], None
        if compiled.kind[task] != COMPUTE:
            ready_s = state.now + self.staging_s(run, task, index)
            found.append(Mode(index, 0, 0, 0.0, ready_s, ready_s))
            return
        options = compiled.options(task)
        for count in options.counts[index]:
            nodes = options.nodes[index, count]
            demand = run.demand(task, index, count) if compiled.demands else ()
            if not (state.machines.fits(index, nodes, demand) if free else run.is_mode(task, index, count)):
                continue
            if ready_s is None:
                ready_s = state.now + self.staging_s(run, task, index)
            left = 1.0 - spared_share(run, task, count) if run.facts else 1.0
            seconds = compiled.seconds(task, index, count) * left / machine.speed_factor
            seconds *= machine.crowding(nodes)
            if free:
                found.append(Mode(index, count, nodes, seconds, ready_s, ready_s + seconds))
            else:
                found.append(_QueuedMode(state, machine, count, nodes, seconds, ready_s))

    def staging_s(self, run: RunState, task: int, machine: int) -> float:
        """Return the estimated seconds until a task's data are on a machine if they are requested now."""
        compiled = run.compiled
        if compiled.kind[task] == TRANSFER:
            source = run.source_of(task)
            return 0.0 if source is None else run.instance.transfer_s(task, source, machine)
        longest = external_staging_s(self._state, run, task, machine) if compiled.stages else 0.0
        if not compiled.moves_data:
            return longest
        for predecessor, edge in zip(compiled.before(task), compiled.edges_before(task), strict=True):
            place = run.where[predecessor]
            if place >= 0 and place != machine:
                longest = max(longest, run.instance.edge_s(edge, place, machine))
        return longest
