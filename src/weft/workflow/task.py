"""Tasks: the vertices of a workflow, with data, dependencies, node counts, job and recovery.

docs/papers/unified.md, section 2, lists the facets of a task.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from weft.errors import Problem
from weft.expressions import Expression, Value
from weft.records import dataclass
from weft.units import parse_seconds
from weft.workflow.quantity import Amount, Quantity, Range, Sweep, constant_value, stated_quantities


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A file that a task reads; if another task writes a file of this name, that task is a dependency."""

    file: str
    """Name in the task's directory; may contain ``{names}`` of parameters and sweep variables."""
    source: str | None = None
    """Path or URL of the source; None: an output of another task, or a file of the project."""
    size: Quantity | None = None
    """Bytes, if the task that writes the file does not state a size."""
    shared: bool = False
    """Whether the file is cached on the machine for all jobs (docs/papers/adaptive-jobs.md, section 6)."""
    compressed: bool = False
    """Whether the file is decompressed on the machine (docs/papers/adaptive-jobs.md, section 6)."""
    max_bytes: float | None = None
    """Largest size after decompression; None: a default that depends on the compressed size."""
    entry: int | None = field(default=None, compare=False, repr=False)
    """Position of the input in ``inputs`` of the workflow file, for the locations of errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file that a task writes."""

    file: str
    """Name in the task's directory; may contain ``{names}`` and wildcards, or be a directory."""
    size: Quantity | None = None
    """Bytes; None: unknown."""
    seconds: Quantity | None = None
    """Fixed transfer time between different machines, independent of the network."""
    target: str | None = None
    """Path or URL to which the file is copied at the end of the run; None: not copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRange:
    """Values from low to high, inclusive: ``a[2*j-1..2*j]``. Values outside the sweep are omitted."""

    low: Expression
    high: Expression


ALL = "*"
"""The index for all values of a sweep variable: ``a[i, *]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """Edges from the subtasks of ``task`` to those of the task that has this dependency.

    Patterns (docs/papers/parameter-sweeps.md, section 7): without index all to all; ``a[k]`` one to one;
    ``a[(j-1)//2 + 1]`` fan-out; ``a[2*j-1..2*j]`` fan-in; ``a[k-1..k+1]`` neighbours within the sweep;
    ``pairs`` explicit.
    """

    task: str
    """The name of a task or loop; a dependency on a loop is satisfied after its last iteration."""
    index: tuple[Expression | IndexRange | str, ...] | None = None
    """One entry per sweep variable of ``task``: an expression, a range, or ALL."""
    pairs: tuple[tuple[Value, Value], ...] | None = None
    """Explicit (value of ``task``, value of this task) pairs; a list stands for several sweep variables."""
    condition: Expression | None = None
    """Condition over ``exit_code`` and ``result`` of ``task``; if false, the edges are not taken."""
    entry: int | None = field(default=None, compare=False, repr=False)
    """Position of the dependency in ``after`` of the workflow file, for the locations of errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The software environment of a task: container, conda environment and modules."""

    container: str | None = None
    conda: str | None = None
    modules: tuple[str, ...] = ()


ISOLATED_BY = ("bubblewrap", "unshare")
"""Programs that isolate a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """How the program of a task is separated from the files, processes and network of its host."""

    tool: str
    """``bubblewrap``, ``unshare``, or ``none``: not isolated, even if the run isolates all other tasks."""
    network: bool = False
    """Whether the program may use the network."""
    read: tuple[str, ...] = ()
    """Absolute paths of the host that the program may read, besides its own files and the system."""

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this record."""
        for path in self.read:
            if not path.startswith("/") or not path.strip("/") or "\0" in path or ".." in path.split("/"):
                rule = "must be an absolute path below /, without `..`"
                yield Problem(what=f"isolate: read {path!r}", rule=rule, path=("isolate", "read"))
        if self.tool == "none" and (self.network or self.read):
            what = "`network` or `read` of a task that is not isolated"
            advice = f"write `with: {ISOLATED_BY[0]}`, or remove them"
            yield Problem(what=what, advice=advice, path=("isolate",))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a task executes. A command that is a text runs in a shell; a tuple of words runs without one."""

    command: str | tuple[str, ...] | None = None
    arguments: tuple[str, ...] = ()
    call: str | None = None
    """A Python function, ``module:name``."""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] | None = None
    """Secrets of the workflow that the program receives; None: all."""
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    environment: Environment | None = None
    isolate: Isolation | None = None
    """Isolation of the program; None: as stated for the run, by default not isolated."""
    prolog: str | None = None
    """Command that prepares the machine, run as a separate program before the program of the task."""
    wrapper: str | None = None
    """Command that runs the program; its arguments are the program and the arguments of the program."""
    epilog: str | None = None
    """Command that cleans up, run as a separate program after the program of the task."""
    selector: str | None = None
    """Policy or program that selects the machine of this task."""
    evaluator: str | None = None
    """Contract of this task: a factor, seconds per iteration, ``none``, or a program that judges attempts."""
    version: str | None = None
    """Part of the fingerprint: change it when the program changed but its files did not."""

    @property
    def evaluator_program(self) -> str:
        """Return the command line of the program that judges the performance; "": there is none."""
        text = (self.evaluator or "").strip()
        return "" if text in ("", "none") or _is_decimal(text) or parse_seconds(text) is not None else text

    @property
    def selector_program(self) -> str:
        """Return the command line of the program that selects machines; "": a policy selects them."""
        text = (self.selector or "").strip()
        return text if "/" in text or len(text.split()) > 1 else ""


def _is_decimal(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


CAUSES = ("error", "oom", "timeout", "preempted", "lost", "staging", "contract", "cancelled", "prolog",
          "wrapper", "epilog")  # fmt: skip
"""Causes of failure; each may have its own number of retries."""

ON_FAILURE = ("hold", "reschedule", "stop", "continue")
"""Reactions when no retries are left."""

RESERVED_CODES = (85, 99)
"""Exit codes that request another run: from the checkpoint (85) or from the start (99).

They are never outcomes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Restart files written at intervals (docs/papers/adaptive-jobs.md, section 2)."""

    files: tuple[str, ...]
    every: Quantity | None = None
    """Seconds between two checkpoints."""
    url: str | None = None
    """Path or URL of the folder to which the files are copied; None: a folder below ``.weft``."""
    nodes: str = "same"
    """Node counts for which a checkpoint is valid: ``any``, or ``same``: the count that wrote it."""


DEFAULT_FACTOR = 0.5
"""Factor of the contract of a task that states ``contract``, if neither the task nor the run states one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTerms:
    """The performance that an attempt must deliver (docs/papers/dynamic-grid.md, section 9).

    The contract is violated if, after the grace period, the projected time exceeds ``(1 + factor)`` times the
    estimate.
    """

    factor: float | None = None
    """Allowed excess over the estimate, as a fraction of the estimate. Infinity: the time is not limited.
    None: the task does not state it; the settings of the run apply, and ``DEFAULT_FACTOR`` if they have none.
    """
    grace_s: float | None = None
    """Seconds before the first check; None: the task does not state it, and the settings of the run apply."""

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this record."""
        if self.factor is not None and not self.factor >= 0:
            what = f"contract factor {self.factor}"
            yield Problem(what=what, rule="must be at least 0", path=("contract",))
        if self.grace_s is not None and not self.grace_s >= 0:
            yield Problem(
                what=f"the grace period is {self.grace_s} s", rule="must be at least 0", path=("contract",)
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How a task is monitored and how its failures are handled."""

    checkpoint: Checkpoint | None = None
    progress: str | None = None
    """The file to which the task writes its progress."""
    contract: ContractTerms | None = None
    retries: int | None = None
    """Retries for the causes that have no number of their own; None: the default of the run."""
    retries_by_cause: Mapping[str, int] = field(default_factory=dict)
    on_failure: str | None = None
    time_limit: Quantity | None = None
    """Seconds after which an attempt is stopped."""

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this record."""
        if self.contract is not None:
            yield from self.contract.find_problems()
        if (limit := constant_value(self.time_limit)) is not None and not limit > 0:
            yield Problem(what=f"the time limit is {limit} s", rule="must be above 0", path=("time_limit",))
        every = constant_value(self.checkpoint.every) if self.checkpoint else None
        if every is not None and not every > 0:
            what = f"a checkpoint every {every} s"
            yield Problem(what=what, rule="must be above 0", path=("checkpoint", "every"))


NO_RECOVERY = Recovery()
"""The default of tasks without recovery settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amdahl:
    """A fixed fraction f of the work is serial: speed-up ``1 / (f + (1 - f)/R)`` on R nodes."""

    serial: float

    def speedup(self, nodes: int) -> float:
        """Return the speed-up over one node."""
        return 1.0 / (self.serial + (1.0 - self.serial) / nodes)

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this record."""
        if not 0 <= self.serial <= 1:
            yield Problem(what=f"serial share {self.serial}", rule="must lie between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Linear speed-up up to a limit, constant beyond it."""

    limit: int

    def speedup(self, nodes: int) -> float:
        """Return the speed-up over one node."""
        return float(min(nodes, self.limit))

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this record."""
        if self.limit < 1:
            yield Problem(what=f"roofline limit {self.limit}", rule="must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationOverhead:
    """Linear speed-up with an overhead that grows with the nodes.

    The time on R nodes is ``T1 * (1/R + c * (R - 1))``: each additional node costs a fraction c of the serial
    time.
    """

    overhead: float

    def speedup(self, nodes: int) -> float:
        """Return the speed-up over one node."""
        return 1.0 / (1.0 / nodes + self.overhead * (nodes - 1))

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this record."""
        if not (self.overhead >= 0 and math.isfinite(self.overhead)):
            yield Problem(what=f"communication overhead {self.overhead}", rule="must be at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSeconds:
    """Seconds measured on machines of speed 1, by node count (docs/papers/moldable.md, section 3).

    Between measured counts the time is interpolated log-log; outside the measured range it is unknown.
    """

    seconds: Mapping[int, float]

    def speedup(self, nodes: int) -> float:
        """Return the speed-up over the smallest measured node count; NaN outside the table."""
        counts = sorted(self.seconds)
        found = interpolate_log_log(counts, [self.seconds[count] for count in counts], nodes)
        return math.nan if found is None else self.seconds[counts[0]] / found

    @property
    def first_seconds(self) -> float:
        """Return the time on the smallest measured count, the default of ``work``."""
        return self.seconds[min(self.seconds)]

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this record."""
        if not self.seconds:
            yield Problem(
                what="the table of seconds is empty", advice="add at least one entry {nodes: seconds}"
            )
        for count, seconds in self.seconds.items():
            if count < 1:
                yield Problem(
                    what=f"a table of seconds has the node count {count}", rule="must be at least 1"
                )
            if not (seconds > 0 and math.isfinite(seconds)):
                yield Problem(
                    what=f"a table of seconds has {seconds} s for {count} nodes", rule="must be above 0"
                )


SpeedUp = Amdahl | Roofline | CommunicationOverhead | MeasuredSeconds


def interpolate_log_log(xs: Sequence[float], ys: Sequence[float], x: float) -> float | None:
    """Return y at ``x``, interpolated linearly in log-log space; None outside the range of ``xs``."""
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
    """The kind of a task."""

    COMPUTE = "compute"
    """Runs a program on nodes of a machine."""
    TRANSFER = "transfer"
    """Moves a file between two abstract machines; occupies no nodes."""
    VIRTUAL = "virtual"
    """Takes no time; connects dependencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """The file that a transfer task moves, and the abstract machines from and to which it is moved."""

    source: str
    target: str
    file: str
    size: Quantity | None = None


NodeCounts = tuple[Quantity | Range, ...]
"""Allowed node counts: single counts and ranges."""

_ONE: NodeCounts = (1,)
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as the user describes it; with a sweep it describes many subtasks."""

    name: str
    kind: TaskKind = TaskKind.COMPUTE
    sweep: Sweep | None = None
    after: tuple[Dependency, ...] = ()
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    work: Quantity | None = None
    """Seconds on a machine of speed 1."""
    seconds: Quantity | Mapping[str, Quantity] | None = None
    """Explicit times instead of work and speed: on all machines, or per machine."""
    nodes: NodeCounts = _ONE
    speedup: SpeedUp | None = None
    """The speed-up law; None: the time does not depend on the nodes."""
    machine: str | None = None
    """Abstract machine: tasks with the same name run on the same machine."""
    service: str | None = None
    """Restricts the task to machines that offer this service."""
    requirements: Expression | None = None
    """Restricts the task to machines for which the expression is true."""
    rank: Expression | None = None
    """Selects at dispatch among the free machines that meet the requirements: the highest value wins."""
    cores: Quantity | None = None
    """Cores needed on each node."""
    resources: Mapping[str, Amount] = field(default_factory=lambda: _NOTHING)
    """Amounts of resources that the task uses while it runs: memory (bytes), gpus or any other name."""
    consumes: Mapping[str, Amount] = field(default_factory=lambda: _NOTHING)
    """Amounts that the task consumes from the budgets of the workflow."""
    transfer: Transfer | None = None
    job: JobSpec | None = None
    recovery: Recovery = NO_RECOVERY
    settings: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """The settings that this task states, by attribute of ``RunSettings``."""
    outcomes: tuple[int, ...] = ()
    """Exit codes that are results, not failures."""
    attributes: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    """Data of other systems that weft keeps but does not interpret."""

    @property
    def program(self) -> str:
        """Return the program of the task if a trace states it, else the name of the task."""
        return str(self.attributes.get("program") or self.name)

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this record; ``checks`` finds those that involve other records."""
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
        if self.job is not None and self.job.isolate is not None:
            yield from self.job.isolate.find_problems()
        if self.speedup is not None:
            yield from self._speedup_faults(self.speedup)
        for code in self.outcomes:
            if code in RESERVED_CODES:
                rule = (
                    "85 (run again from the checkpoint) and 99 (run again from the start) are never outcomes"
                )
                yield Problem(what=f"exit code {code} is listed as an outcome", rule=rule, path=("outcomes",))

    def _kind_faults(self) -> Iterator[Problem]:
        if (self.kind is TaskKind.TRANSFER) != (self.transfer is not None):
            given = "with" if self.transfer else "without"
            what = f"task of kind {self.kind.value} {given} from/to/file"
            rule = "from, to and file are keys of transfer tasks"
            yield Problem(what=what, rule=rule, path=("kind",))
        if self.job is not None and (self.job.command or self.job.call):
            key = "command" if self.job.command else "call"
            advice = "run the program in a task of another kind"
            what = f"a {self.kind.value} task has a program"
            yield Problem(what=what, rule="the program would never run", advice=advice, path=(key,))
        if self.kind is TaskKind.TRANSFER and (self.inputs or self.outputs):
            key = "inputs" if self.inputs else "outputs"
            rule = "a transfer copies the file that `file` names, and no other"
            yield Problem(what=f"a transfer task has {key}", rule=rule, path=(key,))
        if self.kind is TaskKind.VIRTUAL and (self.work is not None or self.seconds is not None):
            yield Problem(what="a virtual task has work", rule="a virtual task takes no time", path=("kind",))

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
            rule = "only one of them may be given"
            what = "both work and seconds are given"
            yield Problem(what=what, rule=rule, advice="remove one of them", path=("seconds",))

    def _amount_faults(self) -> Iterator[Problem]:
        for name, path, amount in self.amounts():
            for keys, quantity in stated_quantities(amount):
                if not _is_valid(quantity):
                    on = f" on {keys[0]} nodes" if keys else ""
                    yield _number_problem(f"{name}{on}", quantity, (*path, *keys))
            if isinstance(amount, Mapping) and not (amount and min(amount) >= 1):
                what = f"{name} on {min(amount)} nodes" if amount else f"{name} for no node count"
                yield Problem(what=what, rule="node counts are whole numbers, at least 1", path=path)
        if self.consumes and self.kind is not TaskKind.COMPUTE:
            what = f"a {self.kind.value} task consumes {', '.join(self.consumes)}"
            yield Problem(what=what, rule="only compute tasks may consume budgets", path=("consumes",))

    def amounts(self) -> Iterator[tuple[str, tuple[str, ...], Amount]]:
        """Yield (name, path of its key in the file, amount) for each resource and budget of the task."""
        for name, amount in self.resources.items():
            yield (name, (name,) if name in ("memory", "gpus") else ("resources", name), amount)
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
                what="the task has a speed-up law, but no node counts",
                rule="a speed-up law is for tasks with several node counts",
                advice="add `nodes:` with the allowed counts, such as [1, 2, 4]",
                path=("speedup",),
            )


def _number_problem(name: str, quantity: Quantity | None, path: tuple[str, ...]) -> Problem:
    return Problem(what=f"{name} is {quantity}", rule="must be a number, at least 0", path=path)


def _is_valid(quantity: Quantity | None) -> bool:
    return quantity is None or isinstance(quantity, Expression) or 0 <= quantity < math.inf
