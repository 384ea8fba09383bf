"""The interface of policies: the view they read and the decisions they return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from weft.instance.instance import Instance
from weft.records import dataclass, message
from weft.registry import make_by_name


class PlannedTaskView(Protocol):
    """The planned mode and times of a task."""

    @property
    def machine(self) -> int:
        """Return the machine."""

    @property
    def count(self) -> int:
        """Return the node count in the units of the task's description."""

    @property
    def start_s(self) -> float:
        """Return the planned start."""

    @property
    def finish_s(self) -> float:
        """Return the planned finish."""


class PlanView(Protocol):
    """The plan of a run."""

    @property
    def line(self) -> Mapping[int, PlannedTaskView]:
        """Return the planned tasks by index; tasks that are not planned are missing."""


class TaskCursor(Protocol):
    """A pass over the tasks of a run that can be sent; unplanned tasks come last unless the order is by rank.

    Tasks of one class have the same kind, planned machine and planned count. Tasks of one kind have the same
    modes.
    """

    alike: bool
    """Whether tasks of one class would also finish at the same time on any machine."""
    even: bool
    """Whether tasks of one kind take equal amounts; otherwise their amounts may differ."""

    @property
    def waiting(self) -> int:
        """Return the number of classes with a task that prefers to wait."""

    @property
    def hurried(self) -> bool:
        """Return whether tasks planned on busy machines are skipped."""

    def head(self) -> int | None:
        """Return the first task that was not passed, even if it was left out; None at the end."""

    def next(self) -> int | None:
        """Return the first task that was neither passed nor left out; None at the end."""

    def pass_by(self, task: int) -> None:
        """Advance past a task."""

    def let_wait(self, task: int) -> None:
        """Advance past a task that prefers to wait; leave out its class after several of them."""

    def leave_out(self, task: int) -> None:
        """Leave out all tasks of the class of a task that prefers to wait."""

    def leave_out_kind(self, task: int) -> None:
        """Leave out all tasks of the kind of a task that no machine can run."""

    def hurry(self, is_free: Callable[[int], bool]) -> None:
        """From now on skip tasks whose planned machine is usable but not free."""


@message
class Place:
    """Send a task to a machine."""

    run: int
    task: int
    machine: int
    count: int = 1
    """Node count, one of the allowed counts of the task."""
    queue: bool = False
    """Whether the task may wait there. Otherwise the machine must be free now; a busy machine is an error of
    the policy.
    """
    order: float | None = None
    """Sort key in the queue of the machine, lower first; None appends the task."""
    reason: str = ""


@message
class Migrate:
    """Move a running attempt to another machine, or to another node count."""

    attempt: int
    machine: int
    count: int = 1
    reason: str = ""


@message
class Hold:
    """Hold a ready task until it is released."""

    run: int
    task: int
    reason: str = ""


@message
class RequestPlan:
    """Request a new plan for the rest of a run."""

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
    """Estimated, at the estimated speed of the machine."""
    ready_s: float
    """When its data can have arrived."""
    finish_s: float
    """Estimated finish if the task is sent now."""


class RunOrder(Protocol):
    """The order of the ready tasks of one run."""

    def key(self, task: int) -> float:
        """Return the sort key of a task: lower first; ties are broken by index."""

    def completed(self, task: int) -> Iterable[int]:
        """Update the order after a task has completed; return the tasks whose keys changed."""

    def remembered(self) -> Sequence[float]:
        """Return its state for a snapshot."""

    def remember(self, values: Sequence[float]) -> None:
        """Restore its state from a snapshot."""


class TaskOrder(Protocol):
    """An order of ready tasks within workflows."""

    def of(self, instance: Instance) -> RunOrder:
        """Return the order of a new run."""


class ReadyQueue(Protocol):
    """The ready tasks of one run in heaps by kind; tasks of a kind have the same modes."""

    def __len__(self) -> int:
        """Return the number of ready tasks."""

    def heads(self, machines: Collection[int] | None = None) -> list[int]:
        """Return the first task of each kind, best first. If it cannot be placed, no task of its kind can.

        With ``machines``: without transfers, and of bound tasks only those bound to one of these machines.
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
    instance: Instance

    @property
    def ready(self) -> ReadyQueue:
        """Return the ready tasks."""

    @property
    def transfers(self) -> bool:
        """Return whether the run has transfer tasks."""

    @property
    def alone_s(self) -> float:
        """Return the estimated makespan of the run alone on the empty platform (HEFT at submission)."""

    @property
    def ranks(self) -> Sequence[float]:
        """Return the upward rank of every task over mean seconds and mean transfers."""

    @property
    def mean_seconds(self) -> Sequence[float]:
        """Return the mean seconds of every task over the machines that can run it."""

    @property
    def remaining_s(self) -> float:
        """Return the mean seconds of all unfinished tasks; running tasks count with their remaining time."""

    @property
    def plan(self) -> PlanView | None:
        """Return the plan; None if there is none."""

    def state(self, task: int) -> str:
        """Return the name of the state of a task."""

    @property
    def computing_s(self) -> float:
        """Return the mean seconds of all unfinished compute tasks; running tasks count in full."""

    def first_unfinished(self, most: int) -> Sequence[int]:
        """Return at most ``most`` unfinished tasks by upward rank, then index."""

    def turn(self, *, early: bool = False, by_rank: bool = False, strict: bool = False) -> TaskCursor | None:
        """Return a pass over the ready tasks by planned start; None if there is no plan or no such task.

        ``early``: over waiting tasks that can be sent ahead because data of a predecessor can already move.
        ``by_rank``: by upward rank, then planned start. ``strict``: without tasks whose planned machine
        cannot be used.
        """

    def bound(self, task: int) -> int | None:
        """Return the machine of the task's abstract machine; None if it is not bound."""

    def where(self, task: int) -> int | None:
        """Return the machine that has, or will have, the data of a completed or running task."""


class MachineView(Protocol):
    """A policy's view of a machine."""

    index: int

    @property
    def up(self) -> bool:
        """Return whether it is up."""

    @property
    def nodes(self) -> int:
        """Return its number of nodes."""

    @property
    def free_nodes(self) -> int:
        """Return the number of nodes that are neither occupied nor reserved."""

    @property
    def speed_factor(self) -> float:
        """Return its estimated speed relative to the description of the platform."""

    @property
    def believed_at_s(self) -> float:
        """Return when that was estimated."""

    @property
    def waiting(self) -> int:
        """Return the number of attempts in its queue."""

    @property
    def promised_s(self) -> float:
        """Return the seconds of tasks bound to it that were not sent yet, over its nodes."""

    def free_at_s(self, nodes: int) -> float:
        """Estimate when so many nodes are free after all queued attempts in order of arrival."""


class AttemptView(Protocol):
    """A policy's view of an attempt."""

    number: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    started_s: float | None
    """Start of its program; None before."""
    expected_end_s: float
    """Estimated."""
    work_done: float | None
    """Share of the task's work that is known to be done."""
    ratio: float | None
    """Delay relative to its contract (0: on time, 1: twice as long); None if not judged."""


class View(Protocol):
    """A policy's view of the engine; it is updated after each decision."""

    machines: Sequence[MachineView]

    @property
    def now(self) -> float:
        """Return the time."""

    @property
    def runs(self) -> Sequence[RunView]:
        """Return the active runs by arrival."""

    @property
    def speed_factors(self) -> tuple[float, ...]:
        """Return the speed factor of every machine, 0 if it is down; the same object while unchanged."""

    @property
    def free(self) -> Collection[int]:
        """Return the usable machines with a free node."""

    @property
    def any_free(self) -> bool:
        """Return whether some usable machine has a free node."""

    def run(self, index: int) -> RunView:
        """Return an active run by its number."""

    def attempts(self) -> Iterable[AttemptView]:
        """Return the live attempts by number."""

    def attempts_of(self, run: RunView, most: int) -> Sequence[AttemptView]:
        """Return at most ``most`` live attempts of a run, in the order in which its tasks got one."""

    def modes(self, run: RunView, task: int, *, free: bool = True) -> list[Mode]:
        """Return the modes of a task by machine, then count; with ``free`` only those that can start now.

        With ``free``, of machines that are equal for the task (times, rank, network location, no data of the
        task, free amounts) only the first is listed. Otherwise, of more than 64 machines that are equal
        except for their load, the 16 that are free first.
        """

    def mode(self, run: RunView, task: int, machine: int, count: int, *, free: bool = False) -> Mode | None:
        """Return one mode of a task; None if it is impossible, the machine is down, or with ``free`` busy."""

    def rank(self, run: RunView, task: int, machine: int) -> float | None:
        """Evaluate the task's rank expression for a machine (higher is better); None if it has none."""


class Policy(Protocol):
    """A policy.

    A policy decides during a run which ready task runs on which machine and on how many nodes. It reads
    nothing but the view: estimates instead of durations, and the time as a number. It keeps no state between
    calls, so that a journal replays to the same decisions.

    Policies combine four choices (docs/papers/unified.md, section 5): the order of workflows (inter), the
    order of ready tasks within a workflow (intra, ``order``), the number of nodes (sizing) and the machine
    (placement). Names may have options: ``fcfs``, ``foft:intra=priority``, ``plan:strict=true``.
    """

    name: str
    title: str
    """One line for lists, with the paper."""
    order: TaskOrder
    """Order within workflows; the engine keeps ready tasks in heaps by it."""
    needs_plan: bool
    """Whether the engine requests a plan at submission."""

    def decide(self, view: View) -> Iterable[Decision]:
        """Return the decisions for now; those of a generator take effect one by one."""


def make_policy(text: str) -> Policy:
    """Return the policy of a name with options."""
    from weft.policies import POLICIES

    policy: Policy = make_by_name(POLICIES, text)
    return policy
