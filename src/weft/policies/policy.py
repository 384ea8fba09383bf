"""The interface of policies: the view they read and the decisions they return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from weft.instance.instance import Instance
from weft.records import dataclass, message
from weft.registry import make_by_name


class PlannedTaskView(Protocol):
    """The planned machine, node count and times of a task."""

    @property
    def machine(self) -> int:
        """Return the index of the planned machine."""

    @property
    def count(self) -> int:
        """Return the node count in the units of the task's description."""

    @property
    def start_s(self) -> float:
        """Return the planned start, in seconds of the engine's clock."""

    @property
    def finish_s(self) -> float:
        """Return the planned finish, in seconds of the engine's clock."""


class PlanView(Protocol):
    """The plan of a run."""

    @property
    def planned_tasks(self) -> Mapping[int, PlannedTaskView]:
        """Return machine, node count and times that are planned for each task, by index of the task.

        Tasks that the plan does not contain are not included.
        """


class TaskCursor(Protocol):
    """A cursor over the tasks of a run that can be sent, in the order of ``RunView.turn``.

    Unplanned tasks come last unless the order is by rank. Tasks of one class have the same kind, planned
    machine and planned count. Tasks of one kind have the same modes.
    """

    alike: bool
    """Whether tasks of one class also finish at the same time on the same machine."""
    even: bool
    """Whether all tasks of one kind need equal resource amounts."""

    @property
    def waiting(self) -> int:
        """Return the number of classes with a task that waits for its planned machine."""

    @property
    def hurried(self) -> bool:
        """Return whether tasks planned on busy machines are skipped."""

    def head(self) -> int | None:
        """Return the first task that the cursor has not passed, even if it was left out; None: no task."""

    def next(self) -> int | None:
        """Return the first task that the cursor has not passed and that was not left out; None: no task."""

    def pass_by(self, task: int) -> None:
        """Advance past a task."""

    def let_wait(self, task: int) -> None:
        """Advance past a task that waits for its planned machine; after several, leave out their class."""

    def leave_out(self, task: int) -> None:
        """Leave out all tasks of the class of a task that waits for its planned machine."""

    def leave_out_kind(self, task: int) -> None:
        """Leave out all tasks of the kind of a task that no machine can run."""

    def hurry(self, is_free: Callable[[int], bool]) -> None:
        """From now on, skip tasks whose planned machine is usable but not free according to ``is_free``."""


@message
class Place:
    """Decision to send a task to a machine."""

    run: int
    task: int
    machine: int
    count: int = 1
    """The node count, which must be one of the allowed counts of the task."""
    queue: bool = False
    """Whether the task may wait in the machine's queue; otherwise the machine must be free now."""
    order: float | None = None
    """Sort key in the queue of the machine, lower first; None: the task is added at the end."""
    reason: str = ""


@message
class Migrate:
    """Decision to move a running attempt to another machine or node count."""

    attempt: int
    machine: int
    count: int = 1
    reason: str = ""


@message
class Hold:
    """Decision to hold a ready task until it is released."""

    run: int
    task: int
    reason: str = ""


@message
class RequestPlan:
    """Decision to request a new plan for the rest of a run."""

    run: int
    reason: str = ""


Decision = Place | Migrate | Hold | RequestPlan


@dataclass(slots=True)
class Mode:
    """One way to run a task now, as estimated by the view."""

    machine: int
    count: int
    nodes: int
    seconds: float
    """Estimated run time at the estimated speed of the machine."""
    ready_s: float
    """Estimated time when all data of the task are on the machine."""
    finish_s: float
    """Estimated finish if the task is sent now."""


class RunOrder(Protocol):
    """The order of the ready tasks of one run, defined by a sort key."""

    def key(self, task: int) -> float:
        """Return the sort key of a task: lower first; ties are broken by index."""

    def completed(self, task: int) -> Iterable[int]:
        """Update the order after a task has completed; return the tasks whose keys changed."""

    def remembered(self) -> Sequence[float]:
        """Return the state of the order as numbers, for a snapshot."""

    def remember(self, values: Sequence[float]) -> None:
        """Restore the state of the order from the numbers of a snapshot."""


class TaskOrder(Protocol):
    """A rule that orders the ready tasks within a workflow."""

    def of(self, instance: Instance) -> RunOrder:
        """Return the order for a new run of an instance."""


class ReadyQueue(Protocol):
    """The ready tasks of one run in heaps by kind; tasks of a kind have the same modes."""

    def __len__(self) -> int:
        """Return the number of ready tasks."""

    def heads(self, machines: Collection[int] | None = None) -> list[int]:
        """Return the first task of each kind, best first; if it cannot be placed, no task of its kind can.

        If ``machines`` is given, transfers are omitted, and so are tasks bound to a machine that is not among
        them.
        """

    def transfers(self) -> list[int]:
        """Return the first transfer of each kind, best first."""

    def __iter__(self) -> Iterator[int]:
        """Iterate over all ready tasks, best first; this sorts them."""


class RunView(Protocol):
    """A policy's view of an active run."""

    index: int
    arrival_s: float
    owner: str
    priority: float
    """Weight of the run relative to other runs; 1 by default."""
    instance: Instance

    @property
    def ready(self) -> ReadyQueue:
        """Return the ready tasks."""

    @property
    def transfers(self) -> bool:
        """Return whether the run has transfer tasks."""

    @property
    def alone_s(self) -> float:
        """Return the makespan of the run alone on the empty platform, as HEFT estimates it at submission."""

    @property
    def ranks(self) -> Sequence[float]:
        """Return the upward rank of every task, computed from mean seconds and mean transfer times."""

    @property
    def mean_seconds(self) -> Sequence[float]:
        """Return the mean seconds of every task over the machines that can run it."""

    @property
    def remaining_s(self) -> float:
        """Return the mean seconds of all unfinished tasks; running tasks count with their remaining time."""

    @property
    def plan(self) -> PlanView | None:
        """Return the plan of the run; None: it has no plan."""

    def state(self, task: int) -> str:
        """Return the name of the ``TaskState`` of a task."""

    @property
    def computing_s(self) -> float:
        """Return the mean seconds of all unfinished compute tasks; running tasks count in full."""

    def first_unfinished(self, most: int) -> Sequence[int]:
        """Return at most ``most`` unfinished tasks by upward rank, then index."""

    def turn(self, *, early: bool = False, by_rank: bool = False, strict: bool = False) -> TaskCursor | None:
        """Return a cursor over the ready tasks by planned start; None: there is no plan or no such task.

        ``early``: traverse the waiting tasks that can be sent because data of a predecessor can already move,
        not the ready tasks. ``by_rank``: sort by upward rank, then planned start. ``strict``: skip tasks
        whose planned machine cannot be used.
        """

    def bound(self, task: int) -> int | None:
        """Return the machine to which the task's abstract machine is bound; None if it is not bound."""

    def where(self, task: int) -> int | None:
        """Return the machine that has the data of a completed task or will have those of a running task.

        None: no machine yet.
        """


class MachineView(Protocol):
    """A policy's view of a machine."""

    index: int

    @property
    def up(self) -> bool:
        """Return whether the machine is up."""

    @property
    def nodes(self) -> int:
        """Return the number of nodes of the machine."""

    @property
    def free_nodes(self) -> int:
        """Return the number of nodes that are neither occupied nor reserved."""

    @property
    def speed_factor(self) -> float:
        """Return the estimated speed relative to the speed in the platform file."""

    @property
    def believed_at_s(self) -> float:
        """Return the time at which ``speed_factor`` was estimated."""

    @property
    def waiting(self) -> int:
        """Return the number of attempts in the queue of the machine."""

    @property
    def promised_s(self) -> float:
        """Return the estimated seconds of the tasks that are bound to the machine but not sent yet.

        These are their node-seconds divided by the number of nodes.
        """

    def unclaimed_nodes(self, before: float | None = None) -> int:
        """Return the number of free nodes minus the nodes that queued attempts need.

        ``before``: only queued attempts with a lower sort key are considered.
        """

    def free_at_s(self, nodes: int) -> float:
        """Return the estimated time at which ``nodes`` nodes are free after all queued attempts started."""


class AttemptView(Protocol):
    """A policy's view of an attempt."""

    number: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    started_s: float | None
    """Time at which the program of the attempt started; None: not started."""
    ended_s: float | None
    """Time at which the program of the attempt ended; None: not ended."""
    expected_end_s: float
    """Estimated end of the attempt."""
    work_done: float | None
    """Share of the task's work that is known to be done, from 0 to 1; None if unknown."""
    ratio: float | None
    """Projected time / predicted time - 1 of the attempt; None: not measured.

    0: on time; 1: the attempt takes twice the predicted time.
    """


class RankingView(Protocol):
    """The rank expression that a task or its running application states."""

    waits: bool
    """Whether busy machines are compared too, because the rank depends on the wait (``queue_s``)."""

    def values(self, modes: Sequence[Mode], *, free: Collection[int] = ()) -> Sequence[float | None]:
        """Return the rank of each mode, higher is better; None where the value is not a number.

        ``free``: machines on which the task can start now, so that their wait is 0.
        """


class View(Protocol):
    """A policy's view of the engine; it is updated after each decision."""

    @property
    def machines(self) -> Sequence[MachineView]:
        """Return the machines by index."""

    @property
    def now(self) -> float:
        """Return the current time, in seconds of the engine's clock."""

    @property
    def runs(self) -> Sequence[RunView]:
        """Return the active runs in the order of their arrival."""

    @property
    def speed_factors(self) -> tuple[float, ...]:
        """Return the speed factor of every machine; 0: down. The object stays the same until a change."""

    @property
    def free(self) -> Collection[int]:
        """Return the usable machines with a free node."""

    @property
    def any_free(self) -> bool:
        """Return whether some usable machine has a free node."""

    def run(self, index: int) -> RunView:
        """Return an active run by its index."""

    def attempts(self) -> Iterable[AttemptView]:
        """Return the attempts that have not ended, in the order of their numbers."""

    def attempts_of(self, run: RunView, most: int) -> Sequence[AttemptView]:
        """Return the first ``most`` current attempts of unfinished tasks of a run, in the order of creation.

        The program of an attempt may have ended (``ended_s``) while its outputs are still being copied.
        """

    def modes(self, run: RunView, task: int, *, free: bool = True) -> list[Mode]:
        """Return the modes of a task, sorted by machine, then count.

        If ``free`` is true, only modes that can start now are returned. Of machines that are equal for the
        task (times, rank, network location, no data of the task, free amounts) only the first is considered.
        If ``free`` is false, busy machines are included. Of more than 64 machines that are equal except for
        their load, only the 16 that are free first are considered.
        """

    def mode(
        self, run: RunView, task: int, machine: int, count: int, *, free: bool = False, again: bool = True
    ) -> Mode | None:
        """Return a mode of a task; None: the mode is impossible or the machine is not usable.

        If ``free`` is true, return None also if the machine is busy. If ``again`` is false, return None also
        if the task failed on the machine and another machine can run it.
        """

    def ranking(self, run: RunView, task: int) -> RankingView | None:
        """Return the rank expression of a task, which decides between free machines; None: it has none."""

    def rank(self, run: RunView, task: int, machine: int) -> float | None:
        """Return the value of the task's rank expression for a machine; None: no expression or no number."""


class Policy(Protocol):
    """Decides during a run which ready task starts on which machine and on how many nodes.

    A policy reads only the view. The view gives it the current time and estimates of durations, never real
    durations. A policy keeps no state between calls, so that a replay of a journal makes the same decisions.

    Policies combine four choices (docs/papers/unified.md, section 5): the order of workflows (inter), the
    order of ready tasks within a workflow (intra, ``order``), the number of nodes (sizing) and the machine
    (placement). Names may have options: ``fcfs``, ``foft:intra=priority``, ``plan:strict=true``.
    """

    name: str
    title: str
    """One line for lists of policies, which describes the policy and names the paper."""
    order: TaskOrder
    """Order of the ready tasks within a workflow; the engine keeps them in heaps with these sort keys."""
    needs_plan: bool
    """Whether the engine requests a plan at submission."""

    def decide(self, view: View) -> Iterable[Decision]:
        """Return the decisions for the current state of the view.

        If they come from a generator, each decision takes effect before the next one is computed.
        """


def make_policy(text: str) -> Policy:
    """Return the policy for a name with options, such as ``foft:intra=priority``."""
    from weft.policies import POLICIES

    policy: Policy = make_by_name(POLICIES, text)
    return policy
