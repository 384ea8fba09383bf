"""Estimates of some tasks at what machines are believed to be worth now: the layout stays what it is.

A task of which a share of the work is left takes that share of its seconds; a machine at half its speed takes
twice as long.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.predictors.seconds import Classes, Related, Seconds, Table
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["rescaled"]


def rescaled(seconds: Seconds, tasks: Indices, left: Floats, speed: Floats) -> Seconds:
    """Give the estimates of some tasks, with the share of their work that is left.

    ``speed``: per machine, relative to what the estimates assume; above 0.
    """
    if isinstance(seconds, Related):
        return replace(
            seconds,
            source=seconds.source[tasks],
            spread=seconds.spread[tasks],
            work=seconds.work[tasks] * left,
            service=seconds.service[tasks],
            rate=seconds.rate * speed,
            law=seconds.law[tasks],
            counts=seconds.counts[tasks],
        )
    if isinstance(seconds, Classes):
        return _classes(seconds, tasks, left, speed)
    if isinstance(seconds, Table):
        return _table(seconds, tasks, left, speed)
    raise TypeError(f"estimates in an unknown layout: {seconds.layout}")


def _classes(seconds: Classes, tasks: Indices, left: Floats, speed: Floats) -> Classes:
    """Split the classes by what is left of tasks, and by the speed of machines."""
    of_task, task_class = _split(seconds.task_class[tasks], left)
    of_machine, machine_class = _split(seconds.machine_class, speed)
    cells = seconds.seconds[of_task[0].astype(np.int64)][:, of_machine[0].astype(np.int64)]
    return replace(
        seconds,
        source=seconds.source[tasks],
        spread=seconds.spread[tasks],
        task_class=task_class,
        machine_class=machine_class,
        seconds=cells * of_task[1][:, None, None] / of_machine[1][None, :, None],
    )


def _split(classes: Indices, factor: Floats) -> tuple[Floats, Indices]:
    """Number the pairs of class and factor; give both of each number (2 x numbers), and the numbers."""
    pairs = np.stack([classes.astype(np.float64), factor])
    found, number = np.unique(pairs, axis=1, return_inverse=True)
    return found, number.reshape(-1).astype(np.uint32)


def _table(seconds: Table, tasks: Indices, left: Floats, speed: Floats) -> Table:
    length = np.diff(seconds.pointer)[tasks]
    pointer = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    first = np.repeat(seconds.pointer[:-1][tasks] - pointer[:-1], length)
    cell = first + np.arange(pointer[-1])
    machine = seconds.machine[cell]
    return replace(
        seconds,
        source=seconds.source[tasks],
        spread=seconds.spread[tasks],
        pointer=pointer,
        machine=machine,
        count=seconds.count[cell],
        seconds=seconds.seconds[cell] * np.repeat(left, length) / speed[machine],
    )
