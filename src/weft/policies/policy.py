"""What a policy may know of the plan a run follows, and how it goes through the tasks that may go.

The contract of the registry ``policies``: read it first.

A policy decides during a run: which ready task goes to which machine, on how many nodes. It sees the view and
nothing else: estimates, never durations; the time as a number, no clock. It keeps nothing between two calls
that the view does not show, so that a journal replays to the same decisions.

How policies combine (unified section 5): the order of the workflows (inter), the order of the ready tasks of
one workflow (intra, ``order``), how many nodes a task gets (sizing) and where it goes (placement).

Policies by name, with options: ``fcfs``, ``foft:intra=priority``, ``plan:strict=true``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from weft.instance.instance import Instance
from weft.message import message
from weft.registry import make_by_name

__all__ = [
    "AttemptView",
    "Decision",
    "Hold",
    "MachineView",
    "Migrate",
    "Mode",
    "Place",
    "PlanView",
    "PlannedTaskView",
    "Policy",
    "ReadyQueue",
    "RequestPlan",
    "RunOrder",
    "RunView",
    "TaskCursor",
    "TaskOrder",
    "View",
    "make_policy",
]


class PlannedTaskView(Protocol):
    """Where and when a task is planned."""

    @property
    def machine(self) -> int:
        """Give the machine."""
        ...

    @property
    def count(self) -> int:
        """Give the node count, as the user knows it."""
        ...

    @property
    def start_s(self) -> float:
        """Give the planned start."""
        ...

    @property
    def finish_s(self) -> float:
        """Give the planned end."""
        ...


class PlanView(Protocol):
    """The plan a run follows."""

    @property
    def line(self) -> Mapping[int, PlannedTaskView]:
        """Give the lines by task; a task that is not planned has none."""
        ...


class TaskCursor(Protocol):
    """Tasks of one run that may go, once each; those that are not planned come last, unless it is by rank.

    Tasks of one class have the same kind and are planned on the same machine with the same count; those of
    one kind can run in the same modes, wherever they are planned.
    """

    alike: bool
    """Whether tasks of one class would also end at the same time, wherever they were sent."""
    even: bool
    """Whether tasks of one kind need the same to be free; else they may differ in the amounts they take."""

    @property
    def waiting(self) -> int:
        """Count the classes of which some task rather waits."""
        ...

    @property
    def hurried(self) -> bool:
        """Say whether those that are planned on busy machines are not looked at."""
        ...

    def head(self) -> int | None:
        """Give the first task that was not passed, be it left out or not; None: there is none."""
        ...

    def next(self) -> int | None:
        """Give the first task that was neither passed nor left out; None: there is none."""
        ...

    def pass_by(self, task: int) -> None:
        """Go on behind a task."""
        ...

    def let_wait(self, task: int) -> None:
        """Go on behind a task that rather waits; when some of its class do, leave out the others."""
        ...

    def leave_out(self, task: int) -> None:
        """Go on behind a task that rather waits, as all others of its class do: leave them out."""
        ...

    def leave_out_kind(self, task: int) -> None:
        """Go on behind a task that nothing can take, and leave out all others of its kind."""
        ...

    def hurry(self, is_free: Callable[[int], bool]) -> None:
        """From now on look at a task that is planned on a machine only while that is free.

        Those that have no such machine, or cannot use it, are looked at as before.
        """
        ...


@message
class Place:
    """Send a task to a machine."""

    run: int
    task: int
    machine: int
    count: int = 1
    """Node count, one of the task's allowed ones."""
    queue: bool = False
    """Whether it may wait there. Without it the machine must be free right now: placing a task on a busy
    machine is a mistake of the policy."""
    order: float | None = None
    """Its place in the machine's queue, lower first; None: behind those who came before."""
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
    """Let a ready task wait until somebody releases it."""

    run: int
    task: int
    reason: str = ""


@message
class RequestPlan:
    """Ask for a new plan of what remains of a run."""

    run: int
    reason: str = ""


Decision = Place | Migrate | Hold | RequestPlan


@dataclass(slots=True)
class Mode:
    """One way to run a task now, as the view believes."""

    machine: int
    count: int
    nodes: int
    seconds: float
    """Estimated, at the machine's believed speed."""
    ready_s: float
    """When its data can be there."""
    finish_s: float
    """Estimated: when data, nodes and seconds allow, if it is sent there now."""


class RunOrder(Protocol):
    """The order of one run's ready tasks."""

    def key(self, task: int) -> float:
        """Give the place of a task: lower first; ties go by task index."""
        ...

    def completed(self, task: int) -> Iterable[int]:
        """Hear that a task has completed; give the tasks whose key has changed by it."""
        ...

    def remembered(self) -> Sequence[float]:
        """Give what it has made of the tasks it heard of, so that a snapshot can keep it."""
        ...

    def remember(self, values: Sequence[float]) -> None:
        """Go on from what was remembered."""
        ...


class TaskOrder(Protocol):
    """Orders the ready tasks inside a workflow."""

    def of(self, instance: Instance) -> RunOrder:
        """Begin with a new run."""
        ...


class ReadyQueue(Protocol):
    """The ready tasks of one run, in heaps by kind: tasks of a kind can run in the same modes."""

    def __len__(self) -> int:
        """Count the ready tasks."""
        ...

    def heads(self, machines: Collection[int] | None = None) -> list[int]:
        """Give the first task of each kind, best first. If it cannot be placed, nothing of its kind can.

        ``machines``: no transfers, and of tasks that are bound to a machine only those bound to one of these.
        """
        ...

    def transfers(self) -> list[int]:
        """Give the first transfer of each kind, best first."""
        ...

    def __iter__(self) -> Iterator[int]:
        """Give all ready tasks, best first; costs a sort."""
        ...


class RunView(Protocol):
    """What a policy may know of one active run."""

    index: int
    arrival_s: float
    owner: str
    instance: Instance

    @property
    def ready(self) -> ReadyQueue:
        """Give the ready tasks."""
        ...

    @property
    def transfers(self) -> bool:
        """Say whether some task of it moves a file."""
        ...

    @property
    def alone_s(self) -> float:
        """Give the estimated makespan alone on the empty platform (HEFT at submission)."""
        ...

    @property
    def ranks(self) -> Sequence[float]:
        """Give the upward rank of every task, over mean seconds and mean transfers."""
        ...

    @property
    def mean_seconds(self) -> Sequence[float]:
        """Give the mean seconds of every task over the machines that can run it."""
        ...

    @property
    def remaining_s(self) -> float:
        """Give the mean seconds of all unfinished tasks together; of running ones what is left."""
        ...

    @property
    def plan(self) -> PlanView | None:
        """Give the plan that is followed; None: there is none."""
        ...

    def state(self, task: int) -> str:
        """Name the state of a task (``engine.state.states``)."""
        ...

    @property
    def computing_s(self) -> float:
        """Give the mean seconds of all unfinished tasks that take nodes, of running ones the whole."""
        ...

    def first_unfinished(self, most: int) -> Sequence[int]:
        """List the first tasks that have not ended, at most so many, by upward rank, then index."""
        ...

    def turn(self, *, early: bool = False, by_rank: bool = False, strict: bool = False) -> TaskCursor | None:
        """Begin to go through the ready tasks by planned start; None: there is no plan, or no such task.

        ``early``: through the waiting ones that may be sent ahead, since data of some predecessor could
        already move. ``by_rank``: the ready ones by upward rank, of equal ones by planned start.
        ``strict``: without those whose planned machine cannot be used.
        """
        ...

    def bound(self, task: int) -> int | None:
        """Give the machine its abstract machine is bound to; None: it is free to choose."""
        ...

    def where(self, task: int) -> int | None:
        """Give the machine where a completed or running task's data are or will be."""
        ...


class MachineView(Protocol):
    """What a policy may know of one machine."""

    index: int

    @property
    def up(self) -> bool:
        """Say whether it works."""
        ...

    @property
    def nodes(self) -> int:
        """Count its nodes."""
        ...

    @property
    def free_nodes(self) -> int:
        """Count the nodes that are not taken and not kept for anybody."""
        ...

    @property
    def speed_factor(self) -> float:
        """Give its believed speed relative to the platform's description."""
        ...

    @property
    def believed_at_s(self) -> float:
        """Say when that was learned."""
        ...

    @property
    def waiting(self) -> int:
        """Count the attempts in its queue."""
        ...

    @property
    def promised_s(self) -> float:
        """Give the seconds of what is bound to it and was not sent yet, spread over its nodes."""
        ...

    def free_at_s(self, nodes: int) -> float:
        """Estimate when so many nodes will be free, counting what waits there first come first served."""
        ...


class AttemptView(Protocol):
    """What a policy may know of an attempt."""

    number: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    started_s: float | None
    """When its program began; None: not yet."""
    expected_end_s: float
    """Estimated."""
    work_done: float | None
    """The share of the task's work known to be done."""
    ratio: float | None
    """How far it is behind its contract (0: on time, 1: twice as long); None: not judged."""


class View(Protocol):
    """What a policy sees. It is live: after each decision it shows what is left."""

    machines: Sequence[MachineView]

    @property
    def now(self) -> float:
        """Give the time."""
        ...

    @property
    def runs(self) -> Sequence[RunView]:
        """List the active runs, by arrival."""
        ...

    @property
    def beliefs(self) -> tuple[float, ...]:
        """Give the believed speed factor of every machine, 0 if it is down; one object while it holds."""
        ...

    @property
    def free(self) -> Collection[int]:
        """Give the machines that may be used and have a free node."""
        ...

    @property
    def any_free(self) -> bool:
        """Say whether some machine that may be used has a free node."""
        ...

    def run(self, index: int) -> RunView:
        """Give an active run by its number."""
        ...

    def attempts(self) -> Iterable[AttemptView]:
        """List the live attempts, by number."""
        ...

    def attempts_of(self, run: RunView, most: int) -> Sequence[AttemptView]:
        """List the first live attempts of a run, at most so many, in the order in which tasks got one."""
        ...

    def modes(self, run: RunView, task: int, *, free: bool = True) -> list[Mode]:
        """List the ways to run a task, by machine, then count.

        ``free``: only where it could start right now. Of machines that are alike for the task (same times,
        same rank, same place in the network, none of its data, as much left) only the first free one is
        listed, and of more than 64 that are alike, but for what runs and waits there, the 16 that are free
        first.
        """
        ...

    def mode(self, run: RunView, task: int, machine: int, count: int, *, free: bool = False) -> Mode | None:
        """Give one way to run a task; None: impossible, the machine is down, or with ``free`` busy."""
        ...

    def rank(self, run: RunView, task: int, machine: int) -> float | None:
        """Evaluate the task's own ranking expression for a machine (higher is better); None: it has none."""
        ...


class Policy(Protocol):
    """Decides during a run."""

    name: str
    title: str
    """One line for lists, with the paper."""
    order: TaskOrder
    """Intra-workflow order; the engine keeps ready heaps by it."""
    needs_plan: bool
    """Whether the engine must ask for a plan at submission."""

    def decide(self, view: View) -> Iterable[Decision]:
        """Decide what to do now. Written as a generator, each decision takes effect before the next."""
        ...


def make_policy(text: str) -> Policy:
    """Make the policy that a name with options describes."""
    from weft.policies import POLICIES

    policy: Policy = make_by_name(POLICIES, text)
    return policy
