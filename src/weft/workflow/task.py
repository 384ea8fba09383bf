"""Data items: the files (or values) tasks read and write, with the sizes planners need.

What a task waits for: all subtasks of another task, some of them by index, and under which condition.

The job facet of a task (S3 section 6): what is executed and in which surroundings.

What keeps a task's promise: checkpoints, progress, the performance contract, retries.

Moldable tasks: which node counts are allowed and how time falls with them.

A task: one node of the workflow, with the facets it needs (unified section 2).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.errors import Problem
from weft.expressions import Expression, Value
from weft.workflow.quantity import Amount, Quantity, Range, Sweep, constant_value, stated_quantities

__all__ = [
    "ALL",
    "CAUSES",
    "NO_RECOVERY",
    "ON_FAILURE",
    "RESERVED_CODES",
    "Amdahl",
    "Checkpoint",
    "CommunicationOverhead",
    "ContractTerms",
    "Dependency",
    "Environment",
    "IndexRange",
    "Input",
    "JobSpec",
    "MeasuredSeconds",
    "NodeCounts",
    "Output",
    "Recovery",
    "Roofline",
    "SpeedUp",
    "Task",
    "TaskKind",
    "Transfer",
    "interpolate_log_log",
    "resource_path",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A file a task reads. If another task writes a file of this name, that makes a dependency."""

    file: str
    """Name in the task's directory; may hold ``{names}`` of parameters and sweep variables."""
    source: str | None = None
    """Path or URL it is staged from; None: another task's output or the project directory."""
    size: Quantity | None = None
    """Bytes, where no task that writes the file says so."""
    shared: bool = False
    """Kept in the machine's cache and used by all jobs sent there (S3 section 6)."""
    compressed: bool = False
    """Decompressed on the chosen machine (S3 section 6)."""
    entry: int | None = field(default=None, compare=False, repr=False)
    """Which entry of ``inputs`` in the file it comes from (one entry may stand for many files)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file a task writes."""

    file: str
    """Name in the task's directory; may hold ``{names}``; wildcards and directories are allowed."""
    size: Quantity | None = None
    """Bytes; None: unknown."""
    seconds: Quantity | None = None
    """The transfer takes this long between any two different machines, whatever the network."""
    target: str | None = None
    """Path or URL it is staged to when the run ends; None: it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRange:
    """Values from low to high, both included: ``a[2*j-1..2*j]``. Values outside the sweep are left out."""

    low: Expression
    high: Expression


ALL = "*"
"""An index that stands for every value of its sweep variable: ``a[i, *]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """An edge, or a family of edges, from ``task`` to the task that holds this record.

    Patterns (S4 section 7, unified section 2): no index = all to all; ``a[k]`` one to one;
    ``a[(j-1)//2 + 1]`` fan-out; ``a[2*j-1..2*j]`` fan-in; ``a[k-1..k+1]`` window, clipped; ``pairs``
    explicit.
    """

    task: str
    """Name of a task, or of a loop: then the edge starts when the loop is left."""
    index: tuple[Expression | IndexRange | str, ...] | None = None
    """One entry per sweep variable of ``task``: an expression, a range, or ALL."""
    pairs: tuple[tuple[Value, Value], ...] | None = None
    """Explicit (value of task, value of this task) pairs; each task has one sweep variable."""
    condition: Expression | None = None
    """Over ``exit_code`` and ``result`` of ``task``; false: this branch is not taken."""
    entry: int | None = field(default=None, compare=False, repr=False)
    """Which entry of ``after`` in the file it comes from, so that errors can point there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The software surroundings, rendered into the command."""

    container: str | None = None
    conda: str | None = None
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a task executes. A command text is a line for the shell; a tuple runs without one."""

    command: str | tuple[str, ...] | None = None
    arguments: tuple[str, ...] = ()
    call: str | None = None
    """A Python function, ``module:name``."""
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    environment: Environment | None = None
    prolog: str | None = None
    """Own command that prepares the machine before the task."""
    wrapper: str | None = None
    """Own command that runs the task."""
    epilog: str | None = None
    """Own command that cleans up after it."""
    selector: str | None = None
    """Own policy that chooses the machine."""
    evaluator: str | None = None
    """Own contract that judges the progress."""
    version: str | None = None
    """Part of the fingerprint: raise it when the program changed in a way files don't show."""


CAUSES = ("error", "oom", "timeout", "preempted", "lost", "staging", "contract", "cancelled")
"""Causes of failure that may have retries of their own (design section 6)."""

ON_FAILURE = ("hold", "reschedule", "stop", "continue")
"""What happens when the retries are used up."""

RESERVED_CODES = (85, 99)
"""Exit codes with a meaning of their own (checkpointed, run me again; requeue): never an outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Restart files written at intervals (S3 section 2)."""

    files: tuple[str, ...]
    every: Quantity | None = None
    """Seconds between two checkpoints."""
    nodes: str = "same"
    """``any``: valid for any node count; ``same``: only for the count it was written with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTerms:
    """The performance a running attempt owes (S1 section 9): violated when the projected time exceeds
    ``(1 + factor)`` times the estimate, after a grace period.
    """

    factor: float | None = 0.5
    """None: never violated by time."""
    grace_s: float | None = None
    """Seconds before it is first judged; None: a tenth of the estimate."""

    def find_problems(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if self.factor is not None and not (self.factor >= 0 and math.isfinite(self.factor)):
            what = f"contract factor {self.factor}"
            yield Problem(what=what, rule="must be at least 0", path=("contract",))
        if self.grace_s is not None and not self.grace_s >= 0:
            yield Problem(what=f"grace of {self.grace_s} s", rule="must be at least 0", path=("contract",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How a task is watched and what happens when it fails."""

    checkpoint: Checkpoint | None = None
    progress: str | None = None
    """Name of the file in which the task reports its progress."""
    contract: ContractTerms | None = None
    retries: int | None = None
    """For every cause without its own number; None: the default of the run."""
    retries_by_cause: Mapping[str, int] = field(default_factory=dict)
    on_failure: str | None = None
    time_limit: Quantity | None = None
    """Seconds after which an attempt is ended."""

    def find_problems(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if self.contract is not None:
            yield from self.contract.find_problems()
        limit = constant_value(self.time_limit)
        if limit is not None and not limit > 0:
            yield Problem(what=f"time limit of {limit} s", rule="must be above 0", path=("time_limit",))
        every = constant_value(self.checkpoint.every) if self.checkpoint else None
        if every is not None and not every > 0:
            what = f"a checkpoint every {every} s"
            yield Problem(what=what, rule="must be above 0", path=("checkpoint", "every"))


NO_RECOVERY = Recovery()
"""What most tasks say: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amdahl:
    """A fixed share of the work is serial: speed-up ``1 / (f + (1 - f)/R)`` on R nodes."""

    serial: float

    def speedup(self, nodes: int) -> float:
        """Give how many times faster than on one node."""
        return 1.0 / (self.serial + (1.0 - self.serial) / nodes)

    def find_problems(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if not 0 <= self.serial <= 1:
            yield Problem(what=f"serial share {self.serial}", rule="must lie between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Perfect speed-up up to a limit, none beyond it."""

    limit: int

    def speedup(self, nodes: int) -> float:
        """Give how many times faster than on one node."""
        return float(min(nodes, self.limit))

    def find_problems(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if self.limit < 1:
            yield Problem(what=f"roofline limit {self.limit}", rule="must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationOverhead:
    """Perfect division of the work plus an overhead that grows with the nodes.

    Time on R nodes = ``T1 * (1/R + c * (R - 1))``: every added node costs a share c of the serial time.
    """

    overhead: float

    def speedup(self, nodes: int) -> float:
        """Give how many times faster than on one node."""
        return 1.0 / (1.0 / nodes + self.overhead * (nodes - 1))

    def find_problems(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if not (self.overhead >= 0 and math.isfinite(self.overhead)):
            yield Problem(what=f"communication overhead {self.overhead}", rule="must be at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSeconds:
    """Seconds measured on machines of speed 1, by node count (S2 section 3).

    Between measured counts the time is interpolated log-log; beyond the largest it is unknown.
    """

    seconds: Mapping[int, float]

    def speedup(self, nodes: int) -> float:
        """Give how many times faster than on the smallest measured count; nan where nothing is known."""
        counts = sorted(self.seconds)
        found = interpolate_log_log(counts, [self.seconds[count] for count in counts], nodes)
        return math.nan if found is None else self.seconds[counts[0]] / found

    @property
    def first_seconds(self) -> float:
        """Give the time on the smallest measured count: the default for ``work``."""
        return self.seconds[min(self.seconds)]

    def find_problems(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if not self.seconds:
            yield Problem(what="an empty table of seconds", advice="give at least one {nodes: seconds} entry")
        for count, seconds in self.seconds.items():
            if count < 1:
                yield Problem(what=f"node count {count} in a table of seconds", rule="must be at least 1")
            if not (seconds > 0 and math.isfinite(seconds)):
                yield Problem(what=f"{seconds} seconds on {count} nodes", rule="must be above 0")


SpeedUp = Amdahl | Roofline | CommunicationOverhead | MeasuredSeconds


def interpolate_log_log(xs: Sequence[float], ys: Sequence[float], x: float) -> float | None:
    """Interpolate a positive table piecewise linearly in log-log space; None outside it (S2.10)."""
    if not xs or x < xs[0] or x > xs[-1]:
        return None
    for index, known in enumerate(xs):
        if x == known:
            return ys[index]
        if x < known:
            x0, y0, x1, y1 = xs[index - 1], ys[index - 1], known, ys[index]
            share = math.log(x / x0) / math.log(x1 / x0)
            return math.exp(math.log(y0) + share * math.log(y1 / y0))
    return None


class TaskKind(enum.Enum):
    """What a task is."""

    COMPUTE = "compute"
    """Runs a program on nodes of a machine."""
    TRANSFER = "transfer"
    """Moves a file between two abstract machines; occupies no nodes."""
    VIRTUAL = "virtual"
    """Does nothing and takes no time; ties dependencies together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What a transfer task moves, and between which abstract machines."""

    source: str
    target: str
    file: str
    size: Quantity | None = None


NodeCounts = tuple[Quantity | Range, ...]
"""Allowed node counts: single counts and ranges of them."""

_ONE: NodeCounts = (1,)
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task as the user describes it; with a sweep it stands for many subtasks."""

    name: str
    kind: TaskKind = TaskKind.COMPUTE
    sweep: Sweep | None = None
    after: tuple[Dependency, ...] = ()
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    work: Quantity | None = None
    """What a machine of speed 1 does in that many seconds."""
    seconds: Quantity | Mapping[str, Quantity] | None = None
    """Explicit times instead of work/speed: everywhere, or per machine."""
    nodes: NodeCounts = _ONE
    speedup: SpeedUp | None = None
    """How time falls with the nodes; None: not at all."""
    machine: str | None = None
    """Abstract machine: tasks that name the same one land on the same machine."""
    service: str | None = None
    """Only machines that offer it."""
    requirements: Expression | None = None
    """Only machines for which it holds."""
    rank: Expression | None = None
    """Machines with a higher value are preferred by policies that ask."""
    cores: Quantity | None = None
    """Cores needed on each node."""
    resources: Mapping[str, Amount] = field(default_factory=lambda: _NOTHING)
    """Countable amounts of the machine taken while running: memory (bytes), gpus, any name."""
    consumes: Mapping[str, Amount] = field(default_factory=lambda: _NOTHING)
    """What is used up of the workflow's budgets, for good."""
    transfer: Transfer | None = None
    job: JobSpec | None = None
    recovery: Recovery = NO_RECOVERY
    outcomes: tuple[int, ...] = ()
    """Exit codes that are results, not failures."""
    attributes: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    """What a file of another system said about the task and weft keeps without reading."""

    @property
    def program(self) -> str:
        """Name what tasks have in common: the program where a trace tells it, else this description."""
        return str(self.attributes.get("program") or self.name)

    def find_problems(self) -> Iterator[Problem]:
        """Find what breaks this record's rules on its own; what needs the other records is in ``checks``."""
        if self.kind is not TaskKind.COMPUTE or self.transfer is not None:
            yield from self._kind_faults()
        if not (_is_valid(self.work) and _is_valid(self.cores)) or self.seconds is not None:
            yield from self._number_faults()
        if self.resources or self.consumes:
            yield from self._amount_faults()
        if self.nodes != _ONE:
            yield from self._count_faults()
        if self.recovery is not NO_RECOVERY:
            yield from self.recovery.find_problems()
        if self.speedup is not None:
            yield from self._speedup_faults(self.speedup)
        for code in self.outcomes:
            if code in RESERVED_CODES:
                rule = "85 (checkpointed, run me again) and 99 (requeue) are never outcomes"
                yield Problem(what=f"exit code {code} as an outcome", rule=rule, path=("outcomes",))

    def _kind_faults(self) -> Iterator[Problem]:
        if (self.kind is TaskKind.TRANSFER) != (self.transfer is not None):
            given = "with" if self.transfer else "without"
            what = f"task of kind {self.kind.value} {given} from/to/file"
            rule = "a transfer task has from, to and file, other tasks have not"
            yield Problem(what=what, rule=rule, path=("kind",))
        if self.kind is TaskKind.VIRTUAL and (self.work is not None or self.seconds is not None):
            yield Problem(what="a virtual task with work", rule="kind: virtual means no work", path=("kind",))

    def _number_faults(self) -> Iterator[Problem]:
        numbers: list[tuple[tuple[str, ...], Quantity | None]] = [
            (("work",), self.work),
            (("cores",), self.cores),
        ]
        if isinstance(self.seconds, Mapping):
            numbers += [(("seconds", machine), value) for machine, value in self.seconds.items()]
        else:
            numbers.append((("seconds",), self.seconds))
        for path, quantity in numbers:
            if not _is_valid(quantity):
                yield _number_problem(path[-1], quantity, path)
        if self.work is not None and self.seconds is not None:
            rule = "only one of them says how long it takes"
            what = "both work and seconds are given"
            yield Problem(what=what, rule=rule, advice="remove one of them", path=("seconds",))

    def _amount_faults(self) -> Iterator[Problem]:
        for name, path, amount in self.amounts():
            for keys, quantity in stated_quantities(amount):
                if not _is_valid(quantity):
                    on = f" on {keys[0]} nodes" if keys else ""
                    yield _number_problem(f"{name}{on}", quantity, (*path, *keys))
            if isinstance(amount, Mapping) and not (amount and min(amount) >= 1):
                what = f"{name} on {min(amount)} nodes" if amount else f"{name} by node count, but for none"
                yield Problem(what=what, rule="node counts are whole numbers, at least 1", path=path)
        if self.consumes and self.kind is not TaskKind.COMPUTE:
            what = f"a {self.kind.value} task that consumes {', '.join(self.consumes)}"
            yield Problem(what=what, rule="only compute tasks consume budgets", path=("consumes",))

    def amounts(self) -> Iterator[tuple[str, tuple[str, ...], Amount]]:
        """List what the task takes of resources and budgets: the name, its key in the file, the amount."""
        for name, amount in self.resources.items():
            yield name, resource_path(name), amount
        for name, amount in self.consumes.items():
            yield name, ("consumes", name), amount

    def _count_faults(self) -> Iterator[Problem]:
        for count in self.nodes:
            if isinstance(count, int | float) and not (count >= 1 and count % 1 == 0):
                rule = "must be a whole number, at least 1"
                yield Problem(what=f"node count {count}", rule=rule, path=("nodes",))

    def _speedup_faults(self, law: SpeedUp) -> Iterator[Problem]:
        yield from (replace(problem, path=("speedup", *problem.path)) for problem in law.find_problems())
        if self.nodes == _ONE and not isinstance(law, MeasuredSeconds):
            yield Problem(
                what="a speed-up law without node counts",
                rule="speedup describes a moldable task",
                advice="add `nodes:` with the allowed counts, such as [1, 2, 4]",
                path=("speedup",),
            )


def resource_path(name: str) -> tuple[str, ...]:
    """Give the key of the file format under which a resource is asked for."""
    return (name,) if name in ("memory", "gpus") else ("resources", name)


def _number_problem(name: str, quantity: Quantity | None, path: tuple[str, ...]) -> Problem:
    return Problem(what=f"{name} is {quantity}", rule="must be a number, at least 0", path=path)


def _is_valid(quantity: Quantity | None) -> bool:
    return quantity is None or isinstance(quantity, Expression) or 0 <= quantity < math.inf
