"""Stages of moldable tasks: simulations and the processing of their files, with times by node count.

M. Jaros, J. Jaros, Performance-cost optimization of moldable scientific workflows: simulations take 1 to 36
nodes and are fastest on 35; processing takes 1 or 2 nodes and a time linear in the number of files. The
paper's measured times are in a figure that is not at hand: these follow what it says of scaling, idle nodes
and cost (S2 section 7). Perturbation is that of S2 section 6: time steps vary, so that a simulation takes
up to a quarter longer, and the nodes fluctuate, so that every task takes up to a twentieth more or less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.platform.short_forms import short_form
from weft.workflow.builder import Builder
from weft.workflow.generators.draws import shortened
from weft.workflow.generators.generator import Generated

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "MOST_NODES",
    "MoldableStage",
    "joined",
    "processing",
    "processing_seconds",
    "simulation_seconds",
    "simulations",
]

MOST_NODES = 1_000_000
"""Of the cluster; a simulation takes 36 at most."""

_SERIAL_S, _SERIAL_SHARE, _MOST_PER_SIMULATION = 2100.0, 1 / 45, 36
_DECOMPOSITION = {16: 0.94, 32: 0.97, 36: 1.03}
"""Node counts by which the domain divides better or worse than by others."""
_PER_TASK_S, _PER_FILE_S, _ON_TWO_NODES = 60.0, 8.0, 0.6
_LONGER, _FLUCTUATION = 0.25, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class MoldableStage:
    """Tasks of one type that wait for the same kind of things."""

    count: int
    seconds: Mapping[int, float]
    """By node count, without perturbation."""
    after: str | None = None
    """What each waits for; ``k`` is its own number, from 1."""
    factors: tuple[float, ...] = ()
    """By which the times of each task are longer; none: they are not perturbed."""


def simulation_seconds() -> dict[int, float]:
    """Give the time of a simulation by node count."""
    return {
        nodes: _SERIAL_S * (_SERIAL_SHARE + (1 - _SERIAL_SHARE) / nodes) * _DECOMPOSITION.get(nodes, 1.0)
        for nodes in range(1, _MOST_PER_SIMULATION + 1)
    }


def processing_seconds(files: int) -> dict[int, float]:
    """Give the time to process so many files by node count."""
    alone_s = _PER_TASK_S + _PER_FILE_S * files
    return {1: alone_s, 2: _ON_TWO_NODES * alone_s}


def simulations(rng: np.random.Generator | None, count: int, after: str | None = None) -> MoldableStage:
    """Make a stage of simulations; without a generator their times are not perturbed."""
    drawn: tuple[float, ...] = ()
    if rng is not None:
        longer = 1.0 + rng.uniform(0.0, _LONGER, size=count)
        drawn = tuple((longer * _fluctuation(rng, count)).tolist())
    return MoldableStage(count=count, seconds=simulation_seconds(), after=after, factors=drawn)


def processing(rng: np.random.Generator | None, count: int, after: str, *, files: int) -> MoldableStage:
    """Make a stage of processing tasks, each of so many files."""
    drawn = () if rng is None else tuple(_fluctuation(rng, count).tolist())
    return MoldableStage(count=count, seconds=processing_seconds(files), after=after, factors=drawn)


def _fluctuation(rng: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return 1.0 + rng.uniform(-_FLUCTUATION, _FLUCTUATION, size=count)


def joined(name: str, stages: Mapping[str, MoldableStage], nodes: int) -> Generated:
    """Make the workflow of named stages, and the cluster it runs on."""
    work = {
        stage_name: [shortened(stage.seconds[1] * factor) for factor in stage.factors]
        for stage_name, stage in stages.items()
    }
    flow = Builder(name, params={f"{key}_s": found for key, found in work.items() if len(found) > 1})
    for stage_name, stage in stages.items():
        keys: dict[str, Any] = {"speedup": {"seconds": dict(stage.seconds)}}
        if stage.count > 1:
            keys["sweep"] = {"k": f"1..{stage.count}"}
        if stage.after is not None:
            keys["after"] = stage.after
        if stage.factors:
            # Another work than that of the table stretches all of the table's times.
            keys["work"] = f"{stage_name}_s[k - 1]" if stage.count > 1 else work[stage_name][0]
        flow.task(stage_name, **keys)
    return Generated(workflow=replace(flow.build(), document=None), platform=short_form(f"cluster:{nodes}"))
