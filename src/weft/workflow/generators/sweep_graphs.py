"""Graphs of parameter-sweep tasks: random layers and regular sample graphs.

T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
Tasks on Global Grids (docs/papers/parameter-sweeps.md). Random layers follow table I. Its factors are the
parameters here: #PST (``layers``), RSS (``length_ratio``), RRT (``throughput_ratio``), RSR
(``subtasks_per_machine``) and ADPS (``parents``). Sample graphs follow table II: pipelines (PTG), out-trees
and in-trees (OTG, ITG), dense trees in which neighbours share parents or children (DOTG, DITG), and a
combination (CTG).

Deviations: the number of subtasks of a tree and the parents at the borders of a dense out-tree are corrected.
Choices that the paper leaves open: layer sizes are drawn with weights between 0.5 and 1.5; lengths,
throughputs and parents are uniform; widths give about 512 subtasks (trees: 1,023 and 1,093). All sizes of the
sample graphs can be changed. Numbers have six digits, so that files stay short.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from weft.errors import InvalidInput, Problem
from weft.expressions import parse
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.generators.generator import (
    LARGEST,
    MOST_TASKS,
    GeneratedWorkflow,
    Rule,
    check_parameters,
    parameter,
)
from weft.workflow.quantity import Range, Sweep
from weft.workflow.task import Dependency, Task
from weft.workflow.workflow import Workflow

LENGTH, THROUGHPUT = 20.0, 10.0
"""Length of the shortest subtask and throughput of the slowest machine (base values of the paper)."""
_DIGITS = 6
_MOST_EDGES = 10_000_000
_SMALLEST = 1e-6
"""Minimum of lengths and throughputs."""

Parents = tuple[tuple[tuple[int, ...], ...], ...]
"""Per layer and subtask: the positions (from 0) of its parents in the previous layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLayers:
    """A graph of sweep tasks, in which subtasks depend only on subtasks of the previous layer."""

    lengths: tuple[tuple[float, ...], ...]
    """Per layer and subtask: seconds at throughput 1."""
    throughputs: tuple[tuple[float, ...], ...]
    """Per layer and machine: work per second."""
    parents: Parents

    def __post_init__(self) -> None:
        problems = [Problem(what=what, rule=rule) for what, rule in self._faults()]
        if problems:
            raise InvalidInput(problems)

    def _faults(self) -> Iterator[tuple[str, str]]:
        sizes = [len(layer) for layer in self.lengths]
        if [len(layer) for layer in self.parents] != sizes or len(self.throughputs) != len(sizes):
            yield (
                "lengths, throughputs and parents differ in the number or size of layers",
                "they must describe the same subtasks",
            )
            return
        for index, (size, throughputs) in enumerate(zip(sizes, self.throughputs, strict=True), start=1):
            if not size or not throughputs:
                yield f"layer {index} is empty", "must have subtasks and machines"
        for index, (before, layer) in enumerate(zip([0, *sizes], self.parents, strict=False), start=1):
            wrong = next((p for of in layer for p in of if not 0 <= p < before), None)
            if wrong is not None:
                yield f"layer {index} has a parent {wrong}", f"parents are numbered from 0 to {before - 1}"


def build_layered_sweeps(layers: SweepLayers, name: str) -> GeneratedWorkflow:
    """Return the workflow and the platform.

    Every layer has its own service, which only the machines of this layer provide.
    """
    tasks = tuple(_task(layers, index) for index in range(1, len(layers.lengths) + 1))
    lengths = {f"length{index}": list(of) for index, of in enumerate(layers.lengths, start=1)}
    machines = [
        Machine(name=f"r{index}-{number}", speed=throughput, services=(f"layer{index}",))
        for index, throughputs in enumerate(layers.throughputs, start=1)
        for number, throughput in enumerate(throughputs, start=1)
    ]
    return GeneratedWorkflow(
        workflow=Workflow(name=name, tasks=tasks, params=lengths),
        platform=Platform(name=name, machines=tuple(machines)),
    )


def _task(layers: SweepLayers, index: int) -> Task:
    """Return the task of a layer; layers and subtasks are numbered from 1."""
    parents = layers.parents[index - 1]
    pairs = tuple((parent + 1, child) for child, of in enumerate(parents, start=1) for parent in of)
    every = Range(low=parse("1"), high=parse(str(len(parents))))
    return Task(
        name=f"layer{index}",
        sweep=Sweep(variables=(("j", every),)),
        after=(Dependency(task=f"layer{index - 1}", pairs=pairs),) if pairs else (),
        work=parse(f"length{index}[j-1]"),
        service=f"layer{index}",
    )


def draw_layers(
    rng: np.random.Generator,
    parents: Parents,
    *,
    length_ratio: float,
    throughput_ratio: float,
    subtasks_per_machine: float,
    length: float = LENGTH,
    throughput: float = THROUGHPUT,
) -> SweepLayers:
    """Return layers with random subtask lengths and machine throughputs for given parents.

    ``length`` is the minimum of the lengths, ``throughput`` that of the throughputs. Both are drawn
    uniformly, up to the minimum times the ratio.
    """
    lengths, throughputs = [], []
    for layer in parents:
        lengths.append(_draw(rng, length, length_ratio, len(layer)))
        machines = max(1, round(len(layer) / subtasks_per_machine))
        throughputs.append(_draw(rng, throughput, throughput_ratio, machines))
    return SweepLayers(lengths=tuple(lengths), throughputs=tuple(throughputs), parents=parents)


def _draw(rng: np.random.Generator, base: float, ratio: float, count: int) -> tuple[float, ...]:
    drawn = base * rng.uniform(1.0, ratio, size=count)
    return tuple(float(f"{value:.{_DIGITS}g}") for value in drawn.tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSweeps:
    """Random layers; the defaults are the values around which the paper varies one factor at a time."""

    name: ClassVar[str] = "sweeps"
    title: ClassVar[str] = (
        "layers of parameter sweeps, each with its own machines (Ma and Buyya, random graphs)"
    )

    subtasks: int = parameter(512, "subtasks of all layers together")
    layers: int = parameter(5, "sweep tasks, one after the other (#PST)")
    length_ratio: float = parameter(5.0, "longest to shortest subtask of a layer (RSS)")
    throughput_ratio: float = parameter(5.0, "fastest to slowest machine of a layer (RRT)")
    subtasks_per_machine: float = parameter(5.0, "subtasks of a layer per machine (RSR)")
    parents: float = parameter(2.0, "mean number of parents of a subtask (ADPS)")
    length: float = parameter(LENGTH, "length of the shortest possible subtask", _SMALLEST, LARGEST)
    throughput: float = parameter(
        THROUGHPUT, "throughput of the slowest possible machine", _SMALLEST, LARGEST
    )

    def __post_init__(self) -> None:
        check_parameters(
            self,
            ("subtasks", 1 <= self.subtasks <= MOST_TASKS, f"from 1 to {MOST_TASKS:,}"),
            (
                "layers",
                1 <= self.layers <= max(1, self.subtasks),
                "at least 1, with at least one subtask each",
            ),
            ("length_ratio", 1 <= self.length_ratio < math.inf, "finite and at least 1"),
            ("throughput_ratio", 1 <= self.throughput_ratio < math.inf, "finite and at least 1"),
            ("subtasks_per_machine", 1 <= self.subtasks_per_machine < math.inf, "finite and at least 1"),
            (
                "parents",
                1 <= self.parents <= _MOST_EDGES / max(1, self.subtasks),
                f"at least 1, with at most {_MOST_EDGES:,} for all subtasks",
            ),
        )

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Return a random workflow and its platform."""
        return build_layered_sweeps(self.draw(rng), f"sweeps-{self.layers}x{self.subtasks}")

    def draw(self, rng: np.random.Generator) -> SweepLayers:
        """Return random layers; sizes and parents are drawn first, then lengths and throughputs."""
        return draw_layers(
            rng,
            self._structure(rng),
            length_ratio=self.length_ratio,
            throughput_ratio=self.throughput_ratio,
            subtasks_per_machine=self.subtasks_per_machine,
            length=self.length,
            throughput=self.throughput,
        )

    def _structure(self, rng: np.random.Generator) -> Parents:
        sizes = _sizes(rng, self.subtasks, self.layers)
        later = (
            _drawn_parents(rng, before, size, self.parents) for before, size in itertools.pairwise(sizes)
        )
        return (((),) * sizes[0], *later)


def _sizes(rng: np.random.Generator, subtasks: int, layers: int) -> list[int]:
    """Return random layer sizes with the given sum, at least 1 each, rounded by largest remainders."""
    weights = rng.uniform(0.5, 1.5, size=layers)
    shares = (subtasks - layers) * weights / weights.sum()
    sizes = 1 + np.floor(shares).astype(np.int64)
    missing = subtasks - int(sizes.sum())
    sizes[np.argsort(-(shares % 1), kind="stable")[:missing]] += 1
    found: list[int] = sizes.tolist()
    return found


def _drawn_parents(
    rng: np.random.Generator, before: int, size: int, mean: float
) -> tuple[tuple[int, ...], ...]:
    """Return random parents of each subtask: at least one each, ``mean`` on average."""
    number = min(round(mean * size), before * size)
    first = np.arange(size) * before + rng.integers(before, size=size)
    pairs: set[int] = set(first.tolist())
    if 2 * number > before * size:
        others = np.setdiff1d(np.arange(before * size), first)
        pairs.update(rng.choice(others, size=number - size, replace=False).tolist())
    while len(pairs) < number:
        pairs.update(rng.integers(before * size, size=number - len(pairs)).tolist())
    parents: list[list[int]] = [[] for _ in range(size)]
    for pair in sorted(pairs):
        parents[pair // before].append(pair % before)
    return tuple(map(tuple, parents))


_Layer = tuple[tuple[int, ...], ...]

SampleName = Literal["ptg", "otg-a", "otg-b", "itg-a", "itg-b", "dotg-a", "dotg-b", "ditg-a", "ditg-b", "ctg"]


def pipelines(layers: int, width: int) -> Parents:
    """Return the parents in parallel pipelines: each subtask has the parent with its own number."""
    return (_first(width), *(tuple((index,) for index in range(width)) for _ in range(layers - 1)))


def out_tree(layers: int, fan: int) -> Parents:
    """Return the parents in a tree from one root: every subtask has ``fan`` children."""
    return (_first(1), *(_fanned_out(fan**index, fan) for index in range(layers - 1)))


def in_tree(layers: int, fan: int) -> Parents:
    """Return the parents in a tree towards one root: every subtask has ``fan`` parents."""
    width = fan ** (layers - 1)
    return (_first(width), *(_fanned_in(width // fan**index, fan) for index in range(layers - 1)))


def dense_out_tree(layers: int, first: int, fan: int, step: int) -> Parents:
    """Return parents such that subtask x has the children ``step * x`` to ``step * x + fan - 1``.

    The children are in the next layer. ``first`` is the number of subtasks of the first layer.
    """
    found, width = [_first(first)], first
    for _ in range(layers - 1):
        children = step * (width - 1) + fan
        # Child j has the existing parents x with step * x <= j < step * x + fan.
        found.append(
            tuple(
                tuple(range(max(0, -((fan - 1 - child) // step)), min(width - 1, child // step) + 1))
                for child in range(children)
            )
        )
        width = children
    return tuple(found)


def dense_in_tree(layers: int, first: int, fan: int, step: int) -> Parents:
    """Return parents such that subtask x has the parents ``step * x`` to ``step * x + fan - 1``.

    The parents are in the previous layer. ``first`` is the number of subtasks of the first layer. Raises
    InvalidInput if the groups of ``fan`` parents do not cover a layer exactly.
    """
    found, width = [_first(first)], first
    for _ in range(layers - 1):
        steps, rest = divmod(width - fan, step)
        if steps < 0 or rest:
            rule = f"groups of {fan} subtasks with a shift of {step} must cover it exactly"
            raise InvalidInput(f"a layer has {width} subtasks", rule=rule)
        width = steps + 1
        found.append(tuple(tuple(range(step * child, step * child + fan)) for child in range(width)))
    return tuple(found)


def combined_trees(repetitions: int, copies: int, fan: int = 2, inner: int = 3) -> Parents:
    """Return the parents in parallel copies of a tree that fans out twice, fans in twice, and repeats."""
    steps = (
        _fanned_out(1, fan),
        _fanned_out(fan, inner),
        _fanned_in(fan * inner, inner),
        _fanned_in(fan, fan),
    )
    layers = (_first(1), *itertools.chain.from_iterable(itertools.repeat(steps, repetitions)))
    widths = (1, *(len(layer) for layer in layers))
    return tuple(
        tuple(tuple(parent + copy * before for parent in of) for copy in range(copies) for of in layer)
        for before, layer in zip(widths, layers, strict=False)
    )


def _first(width: int) -> _Layer:
    return ((),) * width


def _fanned_out(before: int, fan: int) -> _Layer:
    return tuple((child // fan,) for child in range(before * fan))


def _fanned_in(before: int, fan: int) -> _Layer:
    return tuple(tuple(range(fan * child, fan * (child + 1))) for child in range(before // fan))


class TreeSizes(NamedTuple):
    """The sizes of a sample graph (the parameters of ``SampleGraph``); a size that the graph lacks is 0."""

    layers: int
    width: int = 0
    fan: int = 0
    inner_fan: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleShape:
    """The structure of a sample graph, and the sizes that it has in the paper."""

    structure: Callable[[TreeSizes], Parents]
    count: Callable[[TreeSizes], int]
    """Returns the number of subtasks; of dense in-trees, an upper bound.

    If there are more than MOST_TASKS subtasks, the result may be any number above MOST_TASKS.
    """
    sizes: TreeSizes
    subtasks_per_machine: float = 10.0


def _tree_count(of: TreeSizes) -> int:
    # 64 layers exceed the allowed number for every fan above 1.
    return of.layers if of.fan == 1 else (of.fan ** min(of.layers, 64) - 1) // (of.fan - 1)


def _dense_count(of: TreeSizes) -> int:
    width, total = of.width, of.width
    for _ in range(of.layers - 1):
        width = of.step * (width - 1) + of.fan
        total += width
        if total > MOST_TASKS:
            break
    return total


def _combined_count(of: TreeSizes) -> int:
    return of.width * (1 + (of.layers - 1) // 4 * (of.fan + of.fan * of.inner_fan + of.fan + 1))


def _out_tree(*sizes: int) -> SampleShape:
    return SampleShape(
        structure=lambda of: out_tree(of.layers, of.fan), count=_tree_count, sizes=_tree_sizes(*sizes)
    )


def _in_tree(*sizes: int) -> SampleShape:
    return SampleShape(
        structure=lambda of: in_tree(of.layers, of.fan), count=_tree_count, sizes=_tree_sizes(*sizes)
    )


def _tree_sizes(layers: int, fan: int) -> TreeSizes:
    return TreeSizes(layers=layers, fan=fan)


def _dense_out_tree(layers: int, width: int, fan: int, step: int) -> SampleShape:
    return SampleShape(
        structure=lambda of: dense_out_tree(of.layers, of.width, of.fan, of.step),
        count=_dense_count,
        sizes=TreeSizes(layers=layers, width=width, fan=fan, step=step),
    )


def _dense_in_tree(layers: int, width: int, fan: int, step: int) -> SampleShape:
    return SampleShape(
        structure=lambda of: dense_in_tree(of.layers, of.width, of.fan, of.step),
        count=lambda of: of.layers * of.width,
        sizes=TreeSizes(layers=layers, width=width, fan=fan, step=step),
    )


_SHAPES: Mapping[SampleName, SampleShape] = {
    "ptg": SampleShape(
        structure=lambda of: pipelines(of.layers, of.width),
        count=lambda of: of.layers * of.width,
        sizes=TreeSizes(layers=12, width=43),
        subtasks_per_machine=6.0,
    ),
    "otg-a": _out_tree(10, 2),
    "otg-b": _out_tree(7, 3),
    "itg-a": _in_tree(10, 2),
    "itg-b": _in_tree(7, 3),
    "dotg-a": _dense_out_tree(5, 98, 3, 1),
    "dotg-b": _dense_out_tree(5, 15, 4, 2),
    "ditg-a": _dense_in_tree(5, 106, 3, 1),
    "ditg-b": _dense_in_tree(5, 270, 4, 2),
    "ctg": SampleShape(
        structure=lambda of: combined_trees((of.layers - 1) // 4, of.width, of.fan, of.inner_fan),
        count=_combined_count,
        sizes=TreeSizes(layers=13, width=15, fan=2, inner_fan=3),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleGraph:
    """A regular graph with random lengths and machines; a size of 0 stands for the size in the paper."""

    name: ClassVar[str] = "sample-sweeps"
    title: ClassVar[str] = "parameter sweeps in pipelines and trees (Ma and Buyya, sample graphs)"

    graph: SampleName = parameter("ptg", "which of the graphs; a and b differ in width and density")  # noqa: RUF009
    layers: int = parameter(0, "layers (K); of ctg one more than a multiple of 4; 0: as in the paper")
    width: int = parameter(
        0, "pipelines (N), first layer of dense trees (N1), copies of ctg; 0: as in the paper"
    )
    fan: int = parameter(0, "children or parents of a subtask in a tree (lambda); 0: as in the paper")
    inner_fan: int = parameter(0, "the same in the inner layers of ctg; 0: as in the paper")
    step: int = parameter(0, "distance of neighbours in dense trees (delta); 0: as in the paper")
    subtasks_per_machine: float = parameter(0.0, "subtasks of a layer per machine (RSR); 0: as in the paper")
    length_ratio: float = parameter(5.0, "longest to shortest subtask of a layer (RSS)")
    throughput_ratio: float = parameter(5.0, "fastest to slowest machine of a layer (RRT)")
    length: float = parameter(LENGTH, "length of the shortest possible subtask", _SMALLEST, LARGEST)
    throughput: float = parameter(
        THROUGHPUT, "throughput of the slowest possible machine", _SMALLEST, LARGEST
    )

    def __post_init__(self) -> None:
        known = get_args(SampleName)
        per_machine = self.subtasks_per_machine
        check_parameters(
            self,
            ("graph", self.graph in known, f"one of {', '.join(known)}"),
            ("length_ratio", 1 <= self.length_ratio < math.inf, "finite and at least 1"),
            ("throughput_ratio", 1 <= self.throughput_ratio < math.inf, "finite and at least 1"),
            (
                "subtasks_per_machine",
                per_machine == 0 or 1 <= per_machine < math.inf,
                "0, or finite and at least 1",
            ),
            *(self._size_rules() if self.graph in known else ()),
        )

    @property
    def sizes(self) -> TreeSizes:
        """Return the sizes of the graph: the given ones, or those of the paper."""
        known = _SHAPES[self.graph].sizes._asdict()
        return TreeSizes(**{name: getattr(self, name) or size for name, size in known.items()})

    def _size_rules(self) -> Iterator[Rule]:
        """Yield the rules of the sizes; a size that the graph lacks must be 0."""
        shape, sizes, valid = _SHAPES[self.graph], self.sizes, True
        for name, known in shape.sizes._asdict().items():
            given = getattr(self, name)
            holds = given >= 0 if known else given == 0
            valid = valid and holds
            yield name, holds, "at least 0" if known else f"0: {self.graph} has none"
        if not valid:
            return
        if sizes.step > sizes.fan:
            yield "step" if self.step else "fan", False, "such that the step does not exceed the fan"
        elif shape.count(sizes) > MOST_TASKS or shape.count(sizes) * max(1, sizes.fan) > _MOST_EDGES:
            largest = f"so small that there are at most {MOST_TASKS:,} subtasks and {_MOST_EDGES:,} edges"
            yield "width" if self.width else "fan" if self.fan else "layers", False, largest
        elif sizes.inner_fan:
            yield "layers", sizes.layers % 4 == 1 and sizes.layers > 1, "5, 9, 13 or another 4 k + 1"
        elif self.graph in ("ditg-a", "ditg-b"):
            fitting = _fitting_width(sizes)
            rule = f"such that groups of {sizes.fan}, each shifted by {sizes.step}, cover all layers exactly"
            yield "width", sizes.width == fitting, f"{rule}; {fitting} for example"

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Return a random workflow and its platform."""
        return build_layered_sweeps(self.draw(rng), self.graph)

    def draw(self, rng: np.random.Generator) -> SweepLayers:
        """Return the layers of the graph with random lengths and throughputs."""
        shape = _SHAPES[self.graph]
        return draw_layers(
            rng,
            shape.structure(self.sizes),
            length_ratio=self.length_ratio,
            throughput_ratio=self.throughput_ratio,
            subtasks_per_machine=self.subtasks_per_machine or shape.subtasks_per_machine,
            length=self.length,
            throughput=self.throughput,
        )


def _fitting_width(sizes: TreeSizes) -> int:
    """Return the smallest possible width of a dense in-tree that is at least ``sizes.width``.

    The groups of parents must cover each layer exactly.
    """
    width, last = 0, 0
    while width < sizes.width:
        last += 1
        width = last
        for _ in range(sizes.layers - 1):
            width = sizes.step * (width - 1) + sizes.fan
    return width
