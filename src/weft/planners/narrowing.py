"""Narrowing: the problem of an instance in which tasks may take only some of their modes.

Tasks of one group that keep the same modes form a group of the new problem. So a planner restricts node
counts or machines beforehand, and placement stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.kernels.problem import TABLE, Modes, Problem
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["Part", "narrowed", "parts_of", "patterns", "with_candidates"]


class Part(NamedTuple):
    """Tasks of one group and the modes they keep."""

    group: int
    tasks: Indices
    modes: NDArray[np.int64]
    """Positions among the modes of the group, ascending; at least one."""


def patterns(flags: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Divide rows that are alike; give the rows of each kind, and the columns that are set in them."""
    if not len(flags):
        return []
    packed = np.ascontiguousarray(np.packbits(flags, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, example, number = np.unique(keys, return_index=True, return_inverse=True)
    rows = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    return [(own, np.flatnonzero(flags[row])) for row, own in zip(example.tolist(), rows, strict=True)]


def parts_of(group: int, tasks: Indices, kept: NDArray[np.bool_]) -> list[Part]:
    """Divide tasks of a group by the modes they keep (tasks x modes)."""
    return [Part(group=group, tasks=tasks[rows], modes=modes) for rows, modes in patterns(kept)]


def with_candidates(problem: Problem, sets: Sequence[tuple[Indices, NDArray[np.intp]]]) -> Problem:
    """Give the problem in which some variables may be bound only to some machines, given ascending.

    Where tasks lose all modes of a machine, nothing else may bind their variable to it.
    """
    tasks = problem.tasks
    of_variable = tasks.candidate_set.copy()
    known = len(tasks.candidate_pointer) - 1
    for number, (variables, _) in enumerate(sets, start=known):
        of_variable[variables] = number
    lengths = [len(machines) for _, machines in sets]
    pointer = np.concatenate([tasks.candidate_pointer, len(tasks.candidate) + np.cumsum(lengths)])
    found = np.concatenate([tasks.candidate, *(machines for _, machines in sets)])
    return problem._replace(
        tasks=tasks._replace(
            candidate_pointer=pointer.astype(np.uint32),
            candidate=found.astype(np.uint32),
            candidate_set=of_variable,
        )
    )


def narrowed(problem: Problem, parts: Sequence[Part]) -> Problem:
    """Give the problem of these parts, in which every compute task must stand once."""
    modes = problem.modes
    of_task = np.full(len(modes.group), len(parts), dtype=np.uint32)
    for number, part in enumerate(parts):
        of_task[part.tasks] = number
    chosen = [modes.first[part.group] + part.modes for part in parts]
    lengths = [len(own) for own in chosen]
    taken = np.concatenate([*chosen, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    row, cell = _cells(modes, parts) if modes.layout == TABLE else (modes.row, modes.cell)
    # Every field is named: one that is new must be thought of here.
    return problem._replace(
        modes=Modes(
            layout=modes.layout,
            groups=len(parts),
            group=of_task,
            first=np.cumsum([0, *lengths]).astype(np.uint32),
            machine=modes.machine[taken],
            count=modes.count[taken],
            nodes=modes.nodes[taken],
            rate=modes.rate[taken],
            gain=modes.gain[taken],
            sorted=_sorted(modes, taken, np.repeat(np.arange(len(parts)), lengths)),
            moldable=np.array([len(np.unique(modes.count[own])) > 1 for own in chosen], dtype=np.uint8),
            scaled=np.array([(modes.gain[own] != 1.0).any() for own in chosen], dtype=np.uint8),
            shift=modes.shift[taken],
            work=modes.work,
            row=row,
            cell=cell,
        )
    )


def _sorted(modes: Modes, taken: NDArray[np.int64], part: NDArray[np.int64]) -> Indices:
    """Keep the modes of every part in the order in which they were sorted."""
    place = np.empty(len(modes.sorted), dtype=np.int64)
    place[modes.sorted] = np.arange(len(modes.sorted))
    return np.lexsort((place[taken], part)).astype(np.uint32)


def _cells(modes: Modes, parts: Sequence[Part]) -> tuple[NDArray[np.int64], Floats]:
    """Write down the seconds of the modes that are kept."""
    row, cells, filled = modes.row.copy(), [np.zeros(0)], 0
    for part in parts:
        own = modes.cell[modes.row[part.tasks][:, None] + part.modes]
        row[part.tasks] = filled + np.arange(len(part.tasks)) * len(part.modes)
        cells.append(own.reshape(-1))
        filled += own.size
    return row, np.concatenate(cells)
