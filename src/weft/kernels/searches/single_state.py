"""What the search on machines of one task at a time reads, and where it stands.

Every machine is a line of tasks, each tied to the one before it. With the graph's own edges that gives for
each task the longest path that leads to it and the longest one behind it, and so the longest path *through*
it, which is what a move is judged by.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.types import Doubles, Flags, Indices

__all__ = ["Field", "State", "Terms"]


class Field(NamedTuple):
    """The instance. Tasks stand in topological order."""

    tasks: int
    machines: int
    hosts: int
    variable: Indices
    choice: Indices
    """Per variable: its row of ``option``."""
    option_pointer: Indices
    option: Indices
    """The machines of a row (CSR), ascending."""
    member_pointer: Indices
    member: Indices
    """The tasks of a variable (CSR), ascending."""
    earliest: Doubles
    seconds: Doubles
    """Tasks x machines; 0: it occupies nothing."""
    lined: Flags
    """Per machine: whether it serves one task at a time; else any number."""
    host: Indices
    """Per machine."""
    pointer: Indices
    before: Indices
    size: Doubles
    files: Doubles | None
    fixed: Doubles | None
    """Per edge; None where data pay for their size alone: another form of the kernel."""
    after_pointer: Indices
    after: Indices
    after_edge: Indices
    """The graph as in ``weft.kernels.problem``."""
    inverse: Doubles
    latency: Doubles | None
    apart: Doubles | None
    """Hosts x hosts: seconds per byte and per file, and 1; all 0 on one host. None as above."""
    sinks: int
    sink: Indices
    """Tasks without successors: one of them ends last."""


class Terms(NamedTuple):
    """The aim: makespan, what else is paid, and limits whose excess is paid dearly."""

    per_second: float
    deadline: float
    per_late_second: float
    weighed: int
    """Whether ``weight`` is there: else only the makespan counts."""
    weight: Doubles
    """Tasks x machines: what a task adds to the energy there."""
    price: Doubles
    """Tasks x machines: what it costs there."""
    most: float
    """Infinite: no limit of the cost."""
    per_excess: float


class State(NamedTuple):
    """Where the search stands."""

    order: Indices
    position: Indices
    """An order in which every task comes behind its predecessors and behind the one before it on its line."""
    machine: Indices
    home: Indices
    """Per task: its machine, and the host of it."""
    line: Indices
    """Per task: its machine if it occupies it, else the number of machines."""
    previous: Indices
    following: Indices
    """Per task: its neighbours on the line; the number of tasks: none."""
    first: Indices
    last: Indices
    """Per machine: the ends of its line; the number of tasks: nobody is on it."""
    spent: Doubles
    finish: Doubles
    tail: Doubles
    """Per task: its seconds, the longest path to its end, and the longest from its start."""
    stale: Flags
    """Per task: whether its path must be looked at again; 0 between moves."""
    total: Doubles
    """Makespan, sum of weights, sum of prices, and the least energy so far."""
    best_order: Indices
    best_machine: Indices
