"""What kernels read and write: flat arrays in the compiled form, lists in the plain one.

Both are indexed and nothing else, so a kernel's signature says only what the elements are.

The planning problem as kernels read it: flat arrays in a few named tuples.

Planners fill them from the instance (``weft.planners.problem``). Tasks stand in topological order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "CLASSES",
    "COMPUTE",
    "OPEN",
    "RELATED",
    "SHARED",
    "SINGLE",
    "TABLE",
    "TRANSFER",
    "VIRTUAL",
    "Doubles",
    "Flags",
    "Indices",
    "Integers",
    "MachineArrays",
    "ModeArrays",
    "ProblemArrays",
    "TaskArrays",
]


Doubles = Any
"""float64 elements."""
Indices = Any
"""uint32 elements: positions in other arrays; a sentinel (the length) instead of -1.

Numba makes the sum of two of them unsigned, and a float of an unsigned and a signed number: a sum of indices
starts with ``0 +``, which makes it signed.
"""
Integers = Any
"""int64 elements: amounts that are added and subtracted."""
Flags = Any
"""uint8 elements."""


COMPUTE, TRANSFER, VIRTUAL = 0, 1, 2
"""Kinds of tasks."""
RELATED, CLASSES, TABLE = 0, 1, 2
"""Layouts of seconds."""
OPEN, SINGLE, SHARED = 0, 1, 2
"""Forms of machines: tasks do not disturb each other; one task at a time; nodes and amounts are counted."""


class TaskArrays(NamedTuple):
    """The graph."""

    number: int
    variables: int
    transfers: int
    """How many of the tasks are transfers."""
    kind: Flags
    variable: Indices
    """Per task: its binding variable; of a transfer: that of the destination."""
    source: Indices
    """Per task: of a transfer, the binding variable it starts from; else ``variables``."""
    pinned: Indices
    """Per variable: the machine it is bound to beforehand; else the number of machines."""
    anchors: Indices
    """Per variable: how many of its tasks are no transfers, and so will choose its machine."""
    candidate_pointer: Indices
    candidate: Indices
    """Per variable: the machines it may be bound to, ascending (CSR over ``candidate_set``)."""
    candidate_set: Indices
    earliest: Doubles
    moved: Doubles
    """Per task: bytes a transfer moves."""
    pointer: Indices
    before: Indices
    """Predecessors (CSR); edges are positions in it."""
    size: Doubles
    files: Doubles
    fixed: Doubles
    """Per edge: bytes, files that each pay the latency, fixed seconds between different hosts."""
    after_pointer: Indices
    after: Indices
    after_edge: Indices
    """Successors (CSR) and the edges that lead to them."""
    need: Indices
    """Per task: its first row of ``amount``."""
    amount: Doubles
    """Rows x resources: what a task takes while it runs."""


class ModeArrays(NamedTuple):
    """The ways to run compute tasks, once per group of tasks that have the same ones.

    Modes stand by machine, then count. The seconds of a mode j of task t are ``work[t] / rate[j] / gain[j]``
    (RELATED), ``rate[j]`` (CLASSES) or ``cell[row[t] + j - first[group[t]]]`` (TABLE).
    """

    layout: int
    groups: int
    group: Indices
    """Per task; ``groups`` for transfers and virtual tasks."""
    first: Indices
    """Per group and one more: its first mode."""
    machine: Indices
    count: Indices
    nodes: Integers
    rate: Doubles
    gain: Doubles
    sorted: Indices
    """The modes of each group by ascending seconds (RELATED and CLASSES; TABLE: as they stand)."""
    moldable: Flags
    """Per group: whether its modes differ in their counts."""
    scaled: Flags
    """Per group: whether some gain is not 1."""
    shift: Indices
    """Per mode: added to a task's ``need``, where amounts depend on the count."""
    work: Doubles
    row: Integers
    cell: Doubles


class MachineArrays(NamedTuple):
    """The machines and the network between them."""

    number: int
    hosts: int
    locations: int
    apart: int
    """Whether every location has one host, so that data arrive for all machines of a location alike."""
    resources: int
    form: Flags
    capacity: Integers
    price: Doubles
    """Per machine: per node and second."""
    amount: Doubles
    """Machines x resources: totals."""
    slack: Doubles
    """Machines x resources: by how much rounding may exceed the totals."""
    location: Indices
    host: Indices
    on_host_pointer: Indices
    on_host: Indices
    """Machines of each host (CSR)."""
    latency: Doubles
    inverse: Doubles
    """Locations x locations: seconds per file and per byte; only for different hosts."""


class ProblemArrays(NamedTuple):
    """Everything a list planner reads, and what is busy beforehand."""

    tasks: TaskArrays
    modes: ModeArrays
    machines: MachineArrays
    busy_machine: Indices
    busy_start: Doubles
    busy_seconds: Doubles
    busy_nodes: Integers
    busy_amount: Doubles
    """Per busy stretch; amounts: stretches x resources."""
