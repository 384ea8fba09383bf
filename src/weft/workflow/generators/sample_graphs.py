"""Regular graphs of parameter-sweep tasks: the sample graphs of S4.

T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
Tasks on Global Grids, table II: pipelines (PTG), out-trees and in-trees (OTG, ITG), dense ones in which
neighbours share parents or children (DOTG, DITG), and a combination (CTG).

Deviations: the number of subtasks of a tree and the parents at the rims of a dense out-tree are corrected.
Widths, which the paper does not tell, are chosen so that about 512 subtasks (trees: 1,023 and 1,093) result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from weft.errors import InvalidInput, Problem
from weft.workflow.generators.generator import Generated, parameter, require
from weft.workflow.generators.sweep_layers import Parents, SweepLayers, draw_layers, layered_sweeps

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "SampleGraph",
    "SampleName",
    "combined",
    "dense_in_tree",
    "dense_out_tree",
    "in_tree",
    "out_tree",
    "pipelines",
]

_Layer = tuple[tuple[int, ...], ...]

SampleName = Literal["ptg", "otg-a", "otg-b", "itg-a", "itg-b", "dotg-a", "dotg-b", "ditg-a", "ditg-b", "ctg"]


def pipelines(layers: int, width: int) -> Parents:
    """Give pipelines side by side: a subtask waits for the one of the same number."""
    return (_first(width), *(_alike(width) for _ in range(layers - 1)))


def out_tree(layers: int, fan: int) -> Parents:
    """Give a tree from its root: every subtask has ``fan`` children."""
    return (_first(1), *(_fanned_out(fan**index, fan) for index in range(layers - 1)))


def in_tree(layers: int, fan: int) -> Parents:
    """Give a tree towards its root: every subtask waits for ``fan`` others."""
    width = fan ** (layers - 1)
    return (_first(width), *(_fanned_in(width // fan**index, fan) for index in range(layers - 1)))


def dense_out_tree(layers: int, first: int, fan: int, step: int) -> Parents:
    """Give layers in which every subtask has ``fan`` children, those of neighbours shifted by ``step``."""
    found, width = [_first(first)], first
    for _ in range(layers - 1):
        children = step * (width - 1) + fan
        # Child j has the parents x with step * x <= j < step * x + fan, as far as there are such.
        found.append(
            tuple(
                tuple(range(max(0, -((fan - 1 - child) // step)), min(width - 1, child // step) + 1))
                for child in range(children)
            )
        )
        width = children
    return tuple(found)


def dense_in_tree(layers: int, first: int, fan: int, step: int) -> Parents:
    """Give layers in which every subtask waits for ``fan`` others, its neighbour for ``step`` further on."""
    found, width = [_first(first)], first
    for _ in range(layers - 1):
        steps, rest = divmod(width - fan, step)
        if steps < 0 or rest:
            rule = f"{fan} at a time, {step} further each, must cover it exactly"
            raise InvalidInput(Problem(what=f"a layer of {width}", rule=rule))
        width = steps + 1
        found.append(tuple(tuple(range(step * child, step * child + fan)) for child in range(width)))
    return tuple(found)


def combined(repetitions: int, copies: int) -> Parents:
    """Give trees that open twofold, then threefold, close likewise and open again, in copies side by side."""
    steps = (_fanned_out(1, 2), _fanned_out(2, 3), _fanned_in(6, 3), _fanned_in(2, 2))
    layers = (_first(1), *itertools.chain.from_iterable(itertools.repeat(steps, repetitions)))
    widths = (1, *(len(layer) for layer in layers))
    return tuple(
        tuple(tuple(parent + copy * before for parent in of) for copy in range(copies) for of in layer)
        for before, layer in zip(widths, layers, strict=False)
    )


def _first(width: int) -> _Layer:
    return ((),) * width


def _alike(width: int) -> _Layer:
    return tuple((index,) for index in range(width))


def _fanned_out(before: int, fan: int) -> _Layer:
    return tuple((child // fan,) for child in range(before * fan))


def _fanned_in(before: int, fan: int) -> _Layer:
    return tuple(tuple(range(fan * child, fan * (child + 1))) for child in range(before // fan))


_STRUCTURES: Mapping[SampleName, tuple[float, Callable[[], Parents]]] = {
    "ptg": (6.0, lambda: pipelines(12, 43)),
    "otg-a": (10.0, lambda: out_tree(10, 2)),
    "otg-b": (10.0, lambda: out_tree(7, 3)),
    "itg-a": (10.0, lambda: in_tree(10, 2)),
    "itg-b": (10.0, lambda: in_tree(7, 3)),
    "dotg-a": (10.0, lambda: dense_out_tree(5, 98, 3, 1)),
    "dotg-b": (10.0, lambda: dense_out_tree(5, 15, 4, 2)),
    "ditg-a": (10.0, lambda: dense_in_tree(5, 106, 3, 1)),
    "ditg-b": (10.0, lambda: dense_in_tree(5, 270, 4, 2)),
    "ctg": (10.0, lambda: combined(3, 15)),
}
"""Per name: subtasks per machine (RSR) and structure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleGraph:
    """One of the regular graphs, with random lengths and machines."""

    name: ClassVar[str] = "sample-sweeps"
    title: ClassVar[str] = "parameter sweeps in pipelines and trees (Ma and Buyya, sample graphs)"

    graph: SampleName = parameter("ptg", "which of the graphs; a and b differ in width and density")  # noqa: RUF009
    length_ratio: float = parameter(5.0, "longest to shortest subtask of a layer (RSS)")
    throughput_ratio: float = parameter(5.0, "fastest to slowest machine of a layer (RRT)")

    def __post_init__(self) -> None:
        known = get_args(SampleName)
        require(
            self,
            ("graph", self.graph in known, f"one of {', '.join(known)}"),
            ("length_ratio", 1 <= self.length_ratio < math.inf, "finite and at least 1"),
            ("throughput_ratio", 1 <= self.throughput_ratio < math.inf, "finite and at least 1"),
        )

    def generate(self, rng: np.random.Generator) -> Generated:
        """Make a workflow and a platform of what is drawn."""
        return layered_sweeps(self.draw(rng), self.graph)

    def draw(self, rng: np.random.Generator) -> SweepLayers:
        """Draw lengths and machines for the structure of the graph."""
        per_machine, structure = _STRUCTURES[self.graph]
        return draw_layers(
            rng,
            structure(),
            length_ratio=self.length_ratio,
            throughput_ratio=self.throughput_ratio,
            subtasks_per_machine=per_machine,
        )
