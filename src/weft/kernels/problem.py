"""The planning problem as flat arrays in named tuples, and the types of array elements.

Kernels read arrays in the compiled form and lists in the plain form. Both are only indexed, so signatures
state the type of the elements. ``weft.planners.problem`` fills the arrays from the instance. Tasks are in
topological order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

Doubles = Any
"""An array or list of float64 elements."""
Indices = Any
"""An array or list of uint32 elements: positions in another array, whose length means "none".

In numba the sum of two uint32 is unsigned, and the sum of an unsigned and a signed integer is a float. A sum
of indices therefore starts with ``0 +``, which makes it signed.
"""
Integers = Any
"""An array or list of int64 elements: quantities that are added and subtracted."""
Flags = Any
"""An array or list of uint8 elements, usually 0 or 1."""


INFINITY = float("inf")
COMPUTE, TRANSFER, VIRTUAL = 0, 1, 2
"""Values of ``TaskArrays.kind``."""
RELATED, CLASSES, TABLE = 0, 1, 2
"""Layouts of seconds; see ``ModeArrays``."""
OPEN, SINGLE, SHARED = 0, 1, 2
"""Values of ``MachineArrays.form``: unlimited; one task at a time; nodes and amounts are counted."""


class TaskArrays(NamedTuple):
    """The task graph, its binding variables, and the data and resource amounts of the tasks."""

    number: int
    variables: int
    transfers: int
    """Number of transfer tasks."""
    kind: Flags
    variable: Indices
    """Per task: its binding variable; for a transfer, the variable of the destination."""
    source: Indices
    """Per task: for a transfer, the binding variable of the source; otherwise ``variables``."""
    pinned: Indices
    """Per variable: the machine it is pinned to; otherwise the number of machines."""
    anchors: Indices
    """Per variable: number of its tasks that are not transfers; one of them chooses the machine."""
    candidate_pointer: Indices
    candidate: Indices
    """``candidate`` holds the machines of each candidate set, ascending (CSR with ``candidate_pointer``)."""
    candidate_set: Indices
    earliest: Doubles
    moved: Doubles
    """Per task: the bytes that it moves if it is a transfer."""
    pointer: Indices
    before: Indices
    """``before`` holds the predecessors of each task (CSR with ``pointer``); an edge is a position in
    ``before``.
    """
    size: Doubles
    files: Doubles
    fixed: Doubles
    """Per edge: ``size`` in bytes, number of ``files`` (each adds the latency) and ``fixed`` seconds. They
    apply only between different hosts.
    """
    after_pointer: Indices
    after: Indices
    after_edge: Indices
    """Per task (CSR with ``after_pointer``): ``after`` holds its successors, ``after_edge`` the edges to
    them.
    """
    need: Indices
    """Per task: its first row of ``amount``."""
    amount: Doubles
    """Rows x resources: amounts that a task occupies while it runs."""


class ModeArrays(NamedTuple):
    """The modes of compute tasks, stored once per group of tasks with equal modes.

    Modes are sorted by machine, then count. The seconds of mode j of task t are ``work[t] / rate[j] /
    gain[j]`` (RELATED), ``rate[j]`` (CLASSES) or ``cell[row[t] + j - first[group[t]]]`` (TABLE).
    """

    layout: int
    groups: int
    group: Indices
    """Per task: its group; ``groups`` for transfers and virtual tasks."""
    first: Indices
    """Per group: the position of its first mode; one more entry holds the number of all modes."""
    machine: Indices
    count: Indices
    nodes: Integers
    rate: Doubles
    gain: Doubles
    sorted: Indices
    """The modes of each group, sorted by ascending seconds (RELATED and CLASSES); not sorted for TABLE."""
    moldable: Flags
    """Per group: whether its modes have different counts."""
    scaled: Flags
    """Per group: whether some gain differs from 1."""
    shift: Indices
    """Per mode: the number to add to ``need`` of the task to get its row of ``amount``, if amounts vary by
    count.
    """
    work: Doubles
    row: Integers
    cell: Doubles


class MachineArrays(NamedTuple):
    """The machines and the network between them."""

    number: int
    hosts: int
    locations: int
    apart: int
    """Whether each location has one host; then data arrive on all machines of a location at the same time."""
    resources: int
    form: Flags
    capacity: Integers
    price: Doubles
    """Per machine: price of one node for one second."""
    amount: Doubles
    """Machines x resources: total amount of the resource."""
    slack: Doubles
    """Machines x resources: amount by which sums may exceed the total because of rounding errors."""
    location: Indices
    host: Indices
    on_host_pointer: Indices
    on_host: Indices
    """``on_host`` holds the machines of each host (CSR with ``on_host_pointer``)."""
    latency: Doubles
    inverse: Doubles
    """Locations x locations: seconds per file (``latency``) and per byte (``inverse``) between hosts."""


class ProblemArrays(NamedTuple):
    """The input of a list planner: tasks, modes, machines and intervals that are busy from the beginning."""

    tasks: TaskArrays
    modes: ModeArrays
    machines: MachineArrays
    busy_machine: Indices
    busy_start: Doubles
    busy_seconds: Doubles
    busy_nodes: Integers
    busy_amount: Doubles
    """The arrays ``busy_...`` have one entry per busy interval; ``busy_amount`` is intervals x resources."""


_Tuple = TypeVar("_Tuple", bound=tuple[Any, ...])
_DTYPES = {"Doubles": np.float64, "Indices": np.uint32, "Integers": np.int64, "Flags": np.uint8}


def make_arrays(kind: Callable[..., _Tuple], size: int, **given: Any) -> _Tuple:
    """Return a named tuple of zeroed arrays of ``size`` elements; annotations determine the element types.

    ``given`` overrides fields: a number is the length of an array; any other value becomes the field itself.
    """
    fields = {
        name: np.zeros(value, dtype=dtype) if dtype and isinstance(value, int) else value
        for name, dtype in _field_dtypes(kind)
        for value in [given.get(name, size)]
    }
    return kind(**fields)


def select_fields(kind: Callable[..., _Tuple], *sources: Any, **given: Any) -> _Tuple:
    """Return a named tuple; a field that is not given is copied from the first source that has it."""
    for name, _ in _field_dtypes(kind):
        if name not in given:
            given[name] = next(getattr(source, name) for source in sources if name in source._fields)
    return kind(**given)


@cache
def _field_dtypes(kind: Any) -> list[tuple[str, Any]]:
    """Return each field of a named tuple with the type of its elements, or None if it is no array."""
    annotations = kind.__annotations__.items()
    return [(name, _DTYPES.get(getattr(given, "__forward_arg__", ""))) for name, given in annotations]
