"""``s4-tables`` and ``s4-samples``: xDCP, M-S and pM-S compared with shuffle on workflows of parameter
sweeps.

T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
Tasks on Global Grids (docs/papers/parameter-sweeps.md, sections 2 to 7 and 9; A4.4 to A4.8). Shuffle and xDCP
plan; M-S and pM-S decide in a simulated run without disturbances. Results are makespans in percent of
shuffle's: ASE is their mean, BDT the number of graphs on which an algorithm is the best. Table I: random
graphs of 512 subtasks, 30 at each point of five factors. Table II: pipelines, out-trees, in-trees, dense
trees and a combination, 30 draws of lengths and throughputs each.

The paper's claims about the start of xDCP and its passes (section 3) are measured at the defaults.

Deviations: graphs of Table II have the widths of docs/papers, since the paper states none. Without ``full``
only the two lowest and the two highest points of each factor are run, with fewer graphs; a figure that is
outside its tolerance by less than two standard errors is then not judged. Two claims are not reproduced
(docs/papers, corrections), and their rows are shown without a judgement: that xDCP gets worse with more
layers, and that more dependencies worsen xDCP more than the other algorithms. The claim that xDCP falls
behind pM-S as layers are added is judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.papers.reproduction import (
    NO_FIGURE,
    NOT_REPRODUCED,
    ExperimentCell,
    Figure,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    give_reasons,
    mean_row,
)
from weft.papers.statistics import summarise
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.randomness import generator
from weft.runtime.simulation import simulate_policy
from weft.schedule.objective import make_objective
from weft.workflow.generators.sweep_graphs import (
    RandomSweeps,
    SampleGraph,
    SampleName,
    SweepLayers,
    build_layered_sweeps,
)
from weft.workflow.unfold import unfold

ALGORITHMS = ("xDCP", "M-S", "pM-S")
_POLICIES = {"M-S": "manager-worker", "pM-S": "priority-manager-worker"}
_EQUAL = 1e-9
"""Relative difference below which makespans count as equal: the order of a sum changes its rounding error."""


def compile_layers(layers: SweepLayers) -> Instance:
    """Return the instance of layers of sweeps on their own machines."""
    made = build_layered_sweeps(layers, "sweeps")
    assert made.platform is not None
    return compile_instance(unfold(made.workflow), made.platform)


def planned_s(planner: str, instance: Instance, steps: int | None = None) -> float:
    """Return the makespan of a planner's schedule in seconds.

    ``steps`` is the planner's budget: xDCP counts its start and every pass as one step each.
    """
    request = PlanRequest(
        instance=instance,
        objective=make_objective("makespan"),
        budget=Budget(steps=steps),
        rng=generator(0, "unused"),
    )
    return make_planner(planner).plan(request).schedule.makespan_s


def measure_passes(layers: SweepLayers) -> dict[str, float]:
    """Return the makespans of xDCP after one pass and after all passes, in percent of shuffle's makespan.

    Both are measured with the start ``shuffle`` and with the start ``sequential``. The result also says, in
    percent, by how much the sequential start is worse after one pass, and how much the further passes gain.
    """
    instance = compile_layers(layers)
    percent_s = planned_s("shuffle", instance) / 100.0
    found = {
        "one_pass": planned_s("xdcp", instance, steps=2),
        "one_pass_sequential": planned_s("xdcp:start=sequential", instance, steps=2),
        "all_passes": planned_s("xdcp", instance),
        "all_passes_sequential": planned_s("xdcp:start=sequential", instance),
    }
    percents = {name: taken_s / percent_s for name, taken_s in found.items()}
    worse = percents["one_pass_sequential"] / percents["one_pass"] - 1.0
    gained = 1.0 - percents["all_passes"] / percents["one_pass"]
    return percents | {"sequential_worse": 100.0 * worse, "passes_gain": 100.0 * gained}


def measure_percents(layers: SweepLayers) -> dict[str, float]:
    """Return the makespans of all algorithms on one graph in percent of shuffle's."""
    instance = compile_layers(layers)
    found = {"xDCP": planned_s("xdcp", instance)}
    found.update({name: simulate_policy(instance, policy).makespan_s for name, policy in _POLICIES.items()})
    percent_s = planned_s("shuffle", instance) / 100.0
    return {name: taken_s / percent_s for name, taken_s in found.items()}


def find_best(found: Mapping[str, float]) -> list[str]:
    """Return the algorithms whose percentage on a graph is the lowest; several if they are equal."""
    limit = min(found[name] for name in ALGORITHMS) * (1.0 + _EQUAL)
    return [name for name in ALGORITHMS if found[name] <= limit]


Claim = Literal["rises", "falls", "stays"]
"""How the percentage of shuffle's makespan (lower is better) changes as a factor grows."""
DEFAULTS = "defaults"
"""Name of the point at which all factors have their defaults."""
_ONE_TO_TEN = tuple(float(point) for point in range(1, 11))


@dataclass(frozen=True, slots=True)
class SweepFactor:
    """One factor of Table I."""

    name: str
    """The paper's name of the factor."""
    parameter: str
    points: Sequence[float]
    xdcp: Claim
    masters: Claim
    """The paper's claim about M-S and pM-S; ``xdcp`` is its claim about xDCP."""
    lowest: tuple[float, float, float]
    highest: tuple[float, float, float]
    """Percentages of xDCP, M-S and pM-S in the prototype at the last point; ``lowest``: at the first."""

    @property
    def ends(self) -> tuple[float, ...]:
        """Return the two lowest and the two highest points of the factor."""
        return (*self.points[:2], *self.points[-2:])

    def claim(self, algorithm: str) -> Claim:
        """Return the paper's claim about an algorithm."""
        return self.xdcp if algorithm == "xDCP" else self.masters

    def prototype(self, point: float) -> Mapping[str, float]:
        """Return the prototype's percentages at the first or last point; an empty mapping at other points."""
        ends = {self.points[0]: self.lowest, self.points[-1]: self.highest}
        return dict(zip(ALGORITHMS, ends[point], strict=True)) if point in ends else {}


FACTORS = (
    SweepFactor(
        "#PST",
        "layers",
        tuple(float(point) for point in range(3, 13)),
        "rises",
        "falls",
        (31.6, 36.9, 34.4),
        (33.0, 36.3, 33.4),
    ),
    SweepFactor("RSS", "length_ratio", _ONE_TO_TEN, "falls", "stays", (34.1, 35.3, 32.3), (30.4, 35.3, 32.9)),
    SweepFactor(
        "RRT", "throughput_ratio", _ONE_TO_TEN, "falls", "falls", (47.8, 52.5, 47.4), (20.1, 26.5, 26.2)
    ),
    SweepFactor(
        "RSR", "subtasks_per_machine", _ONE_TO_TEN, "falls", "falls", (56.5, 91.4, 90.9), (27.6, 29.5, 25.4)
    ),
    SweepFactor(
        "ADPS",
        "parents",
        tuple(0.5 * point for point in range(2, 12)),
        "rises",
        "rises",
        (28.0, 32.4, 32.4),
        (37.3, 40.4, 37.3),
    ),
)


def point_name(factor: SweepFactor, point: float) -> str:
    """Return the name of the cell at a point of a factor."""
    return f"{factor.name} {point:g}"


def random_sweeps(parameter: str, value: float) -> RandomSweeps:
    """Return the generator of random graphs with one parameter set to ``value``.

    An empty ``parameter`` keeps the defaults.
    """
    if not parameter:
        return RandomSweeps()
    given = int(value) if parameter == "layers" else value
    return RandomSweeps(**{parameter: given})  # type: ignore[arg-type]


_ASE = "length against shuffle (ASE), and on how many graphs the best (BDT)"
_AT_DEFAULTS = {
    "xDCP": ("30.3 %", ToleranceBand(least=28.0, most=35.0)),
    "M-S": ("", ToleranceBand(least=32.0, most=38.0)),
    "pM-S": ("33.1 %", ToleranceBand(least=30.0, most=36.0)),
}
_SAID = {"rises": "worse", "falls": "better", "stays": "no effect"}
_CHANCE = 2.0
"""Number of standard errors that count as no effect; the paper states no limit."""
_NO_EFFECT_PERCENT = 2.0
"""Difference that counts as no effect even if the standard error is small."""
_WORSE, _GAIN = ToleranceBand(least=0.0), ToleranceBand(least=10.0)
"""In percent: accepted loss by a start on one machine instead of shuffle, and gain by more passes."""
_ENDS = "the two highest points less the two lowest"
_NOT_REPRODUCED = {("#PST", "xDCP")}
"""Claims that graphs of another seed, or more graphs, do not confirm (docs/papers, corrections)."""
_MOST_ALONE = ToleranceBand(most=15.0 - 1e-9)
_BEST = (
    ("xDCP", "RSR", 0, ToleranceBand(least=80.0 + 1e-9)),
    ("xDCP", "RRT", -1, ToleranceBand(least=80.0 + 1e-9)),
    ("pM-S", "RSR", -1, ToleranceBand(least=70.0 + 1e-9)),
)
"""(algorithm, factor, index of the point, percentage of graphs on which the algorithm must be the best)."""


def count_best(results: Results, case: str) -> tuple[dict[str, int], int]:
    """Return the number of graphs on which each algorithm is the best, and on which M-S is the only best."""
    columns = {name: results.of(case, name) for name in ALGORITHMS}
    graphs = [dict(zip(columns, found, strict=True)) for found in zip(*columns.values(), strict=True)]
    bests = [find_best(graph) for graph in graphs]
    counts = {name: sum(name in best for best in bests) for name in ALGORITHMS}
    return counts, sum(best == ["M-S"] for best in bests)


def _default_rows(results: Results) -> Iterator[ResultRow]:
    means = {name: results.summary(DEFAULTS, name) for name in ALGORITHMS}
    table = "all factors at their defaults: length against shuffle (ASE)"
    for name, (prototype, band) in _AT_DEFAULTS.items():
        figure = Figure(name, name, "%", "", prototype, band, "A4.6")
        yield mean_row(means[name], table=table, **figure.fields())
    figure = Figure("", "pM-S less M-S", "%", "pM-S better", "", ToleranceBand(most=0.0), "A4.6")
    less = means["pM-S"].mean - means["M-S"].mean
    yield ResultRow(table=table, ours=less, runs=means["M-S"].number, **figure.fields())


def _point_rows(results: Results, factor: SweepFactor, points: Sequence[float]) -> Iterator[ResultRow]:
    for point in points:
        case = point_name(factor, point)
        known = factor.prototype(point)
        counts, _ = count_best(results, case)
        for name in ALGORITHMS:
            prototype = f"{known[name]:g} %" if name in known else ""
            title = f"{point:g}: {name}, best on {counts[name]}"
            figure = Figure(name, title, "%", "", prototype, ToleranceBand(most=100.0 - 1e-9), "A4.5")
            yield mean_row(results.summary(case, name), table=f"{factor.name}: {_ASE}", **figure.fields())


def _direction_rows(results: Results, factor: SweepFactor) -> Iterator[ResultRow]:
    for name in ALGORITHMS:
        ends = [results.summary(point_name(factor, point), name) for point in factor.ends]
        low, second, third, high = (found.mean for found in ends)
        change = (third + high - low - second) / 2.0
        error = math.sqrt(sum(found.standard_error**2 for found in ends)) / 2.0
        claim = factor.claim(name)
        band, prototype = _claimed_band(claim, error), _difference(factor, name)
        figure = Figure(name, name, "%", _SAID[claim], prototype, band, "A4.5", digits=2)
        if (factor.name, name) in _NOT_REPRODUCED:
            figure = replace(figure, band=None, accepts="", why=NOT_REPRODUCED)
        table = f"{factor.name}: {_ENDS}"
        runs = sum(found.number for found in ends)
        yield ResultRow(table=table, ours=change, error=error, runs=runs, **figure.fields())


def _layer_rows(results: Results) -> Iterator[ResultRow]:
    """Yield the rows of the paper's Figure 9: xDCP against pM-S as layers are added (#PST)."""
    (factor,) = (each for each in FACTORS if each.parameter == "layers")
    cases = [point_name(factor, point) for point in factor.ends]
    behind = [
        summarise([a - b for a, b in zip(results.of(case, "xDCP"), results.of(case, "pM-S"), strict=True)])
        for case in cases
    ]
    low, second, third, high = behind
    change = (third.mean + high.mean - low.mean - second.mean) / 2.0
    error = math.sqrt(sum(found.standard_error**2 for found in behind)) / 2.0
    runs = sum(found.number for found in behind)
    table = f"{factor.name}: {_ENDS}"
    grows = ToleranceBand(least=0.0)
    figure = Figure("", "xDCP less pM-S", "%", "grows", "-1.8 to -0.2 %", grows, "A4.5", digits=2)
    yield ResultRow(table=table, ours=change, error=error, runs=runs, **figure.fields())
    shares = [100.0 * count_best(results, case)[0]["xDCP"] / len(results.of(case, "xDCP")) for case in cases]
    fewer = (shares[2] + shares[3] - shares[0] - shares[1]) / 2.0
    error = math.sqrt(sum(_share_error(share, len(results.of(case, "xDCP"))) ** 2
                          for share, case in zip(shares, cases, strict=True))) / 2.0  # fmt: skip
    falls = ToleranceBand(most=0.0)
    figure = Figure("", "graphs on which xDCP is best", "%", "fewer", "", falls, "A4.5", digits=1)
    yield ResultRow(table=table, ours=fewer, error=error, runs=runs, **figure.fields())


def _most_rows(results: Results) -> Iterator[ResultRow]:
    """Yield a row that compares how much more dependencies (ADPS) change xDCP and the other algorithms.

    The figure is the change of xDCP minus the larger of the changes of M-S and pM-S.
    """
    (factor,) = (each for each in FACTORS if each.parameter == "parents")
    changes = {}
    for name in ALGORITHMS:
        low, second, third, high = (
            results.summary(point_name(factor, point), name).mean for point in factor.ends
        )
        changes[name] = (third + high - low - second) / 2.0
    most = changes["xDCP"] - max(changes["M-S"], changes["pM-S"])
    figure = Figure("", "change of xDCP less that of the others", "%", "xDCP most", "", digits=2)
    number = sum(len(results.of(point_name(factor, point), "xDCP")) for point in factor.ends)
    row = ResultRow(table=f"{factor.name}: {_ENDS}", ours=most, runs=number, **figure.fields())
    yield replace(row, why=NOT_REPRODUCED)


def _share_error(percent: float, number: int) -> float:
    """Return the standard error of a percentage of few graphs; it is positive even for 0 % and 100 %."""
    share = (percent / 100.0 * number + 1.0) / (number + 2.0)
    return 100.0 * math.sqrt(share * (1.0 - share) / number)


def _pass_rows(results: Results) -> Iterator[ResultRow]:
    table = "xDCP at the defaults: start and passes"
    for figure in (
        Figure("one_pass", "one pass from shuffle, of shuffle", "%", "", "55.6 %"),
        Figure("one_pass_sequential", "one pass from one machine, of shuffle", "%"),
        Figure("sequential_worse", "the latter above the former", "%", "about 30 %", "", _WORSE, "S4.13"),
        Figure("all_passes", "all passes from shuffle, of shuffle", "%", "", "30.3 %"),
        Figure("all_passes_sequential", "all passes from one machine, of shuffle", "%", "", "30.1 %"),
        Figure("passes_gain", "gain by further passes", "%", "10 to 20 %", "45.5 %", _GAIN, "S4.13"),
    ):
        yield mean_row(results.summary(DEFAULTS, figure.measure), table=table, **figure.fields())


def _difference(factor: SweepFactor, name: str) -> str:
    place = ALGORITHMS.index(name)
    return f"{factor.highest[place] - factor.lowest[place]:+.1f} %"


def _claimed_band(claim: Claim, error: float) -> ToleranceBand:
    """Return the interval of differences that agree with a claim, given their standard error."""
    if claim == "stays":
        # A single graph has no standard error.
        chance = 0.0 if math.isnan(error) else round(_CHANCE * error, 2)
        most = max(_NO_EFFECT_PERCENT, chance)
        return ToleranceBand(least=-most, most=most)
    return ToleranceBand(least=0.0) if claim == "rises" else ToleranceBand(most=0.0)


def _best_rows(results: Results, *, full: bool) -> Iterator[ResultRow]:
    cases = [
        point_name(factor, point) for factor in FACTORS for point in (factor.points if full else factor.ends)
    ]
    graphs = sum(len(results.of(case, "M-S")) for case in cases)
    alone = sum(count_best(results, case)[1] for case in cases)
    table = "share of the graphs on which an algorithm is the best (BDT; ties count for all)"
    figure = Figure("", "M-S alone, all sweeps", "%", "practically never", "", _MOST_ALONE, "A4.7")
    yield ResultRow(table=table, ours=100.0 * alone / graphs, runs=graphs, **figure.fields())
    by_name = {factor.name: factor for factor in FACTORS}
    for name, of, place, band in _BEST:
        case = point_name(by_name[of], by_name[of].points[place])
        number = len(results.of(case, name))
        ours = 100.0 * count_best(results, case)[0][name] / number
        prototype = "90 %" if name == "pM-S" else ""
        figure = Figure(name, f"{name}, {case}", "%", "", prototype, band, "A4.7")
        error = _share_error(ours, number)
        yield ResultRow(table=table, ours=ours, error=error, runs=number, **figure.fields())


_TABLE_GRAPHS, _QUICK_GRAPHS, _QUICK_DEFAULTS = 30, 8, 16


class TablesStudy:
    """The experiment with the five factors of Table I."""

    name: ClassVar[str] = "s4-tables"
    title: ClassVar[str] = (
        "sweep workflows against shuffle as factors vary (Ma, Buyya; parameter-sweeps, Table I)"
    )

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:
        """Return a cell for the defaults and one for each point of each factor.

        If ``full`` is false, only the two lowest and the two highest points of each factor are used.
        """
        runs = _TABLE_GRAPHS if full else _QUICK_DEFAULTS
        cells = [ExperimentCell(name=DEFAULTS, settings={"parameter": "", "value": 0.0}, runs=runs)]
        for factor in FACTORS:
            cells += [
                ExperimentCell(
                    name=point_name(factor, point),
                    settings={"parameter": factor.parameter, "value": point},
                    runs=_TABLE_GRAPHS if full else _QUICK_GRAPHS,
                )
                for point in (factor.points if full else factor.ends)
            ]
        return cells

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:
        """Draw one graph and return the percentages of all algorithms on it."""
        layers = random_sweeps(str(cell.settings["parameter"]), float(cell.settings["value"])).draw(rng)
        found = measure_percents(layers)
        return found | measure_passes(layers) if cell.name == DEFAULTS else found

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:
        """Return the rows of ASE and BDT, and rows that compare changes of ASE with the paper's claims."""
        rows = list(_default_rows(results))
        for factor in FACTORS:
            points = factor.points if full else factor.ends
            rows += [*_point_rows(results, factor, points), *_direction_rows(results, factor)]
            rows += _layer_rows(results) if factor.parameter == "layers" else ()
            rows += _most_rows(results) if factor.parameter == "parents" else ()
        rows = [*rows, *_pass_rows(results), *_best_rows(results, full=full)]
        return give_reasons(rows, NO_FIGURE)


_DRAWS, _QUICK_DRAWS = 30, 10
_SAMPLE_GRAPHS: tuple[SampleName, ...] = get_args(SampleName)
SAMPLES_PROTOTYPE: dict[SampleName, tuple[float, float, float]] = {
    "ptg": (61.6, 65.0, 65.0),
    "otg-a": (64.2, 61.3, 61.3),
    "itg-a": (69.8, 60.3, 60.2),
    "otg-b": (65.9, 60.2, 60.2),
    "itg-b": (70.0, 59.1, 58.9),
    "dotg-a": (57.9, 53.5, 53.9),
    "ditg-a": (58.0, 52.8, 53.0),
    "dotg-b": (58.9, 59.6, 59.8),
    "ditg-b": (65.8, 56.6, 57.0),
    "ctg": (69.4, 66.9, 66.7),
}
_NO_DIFFERENCE = "equal"
_JUDGED_FOR_XDCP = "the paper claims it most for xDCP, which is judged"
_COMPARED: tuple[tuple[SampleName, SampleName, str, ToleranceBand], ...] = (
    ("itg-a", "otg-a", "in-tree worse", ToleranceBand(least=0.0)),
    ("itg-b", "otg-b", "in-tree worse", ToleranceBand(least=0.0)),
    ("ditg-b", "dotg-b", "in-tree worse", ToleranceBand(least=0.0)),
    ("ditg-a", "dotg-a", _NO_DIFFERENCE, ToleranceBand(least=-3.0, most=3.0)),
)
"""Two graphs, the paper's claim, and the accepted difference of xDCP's percentages (first minus second)."""
_ONE_PARENT: tuple[SampleName, ...] = ("ptg", "otg-a", "otg-b")
"""Graphs in which every subtask has one parent, so that priorities have no effect."""


class SamplesStudy:
    """The experiment with the regular graphs of Table II."""

    name: ClassVar[str] = "s4-samples"
    title: ClassVar[str] = (
        "sweep workflows against shuffle on regular graphs (Ma, Buyya; parameter-sweeps, Table II)"
    )

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:
        """Return one cell per graph."""
        runs = _DRAWS if full else _QUICK_DRAWS
        return [ExperimentCell(name=graph, settings={"graph": graph}, runs=runs) for graph in _SAMPLE_GRAPHS]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:
        """Draw lengths and throughputs; return the percentages of all algorithms on the graph."""
        found = measure_percents(SampleGraph(graph=cell.settings["graph"]).draw(rng))  # type: ignore[arg-type]
        return found | {"apart": abs(found["pM-S"] - found["M-S"])}

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:  # noqa: ARG002
        """Return the rows of ASE and BDT, of the comparisons in the paper, and of M-S against pM-S."""
        rows = [*_sample_rows(results), *_comparison_rows(results), *_equality_rows(results)]
        return give_reasons(rows, NO_FIGURE)


def _sample_rows(results: Results) -> Iterator[ResultRow]:
    for graph in _SAMPLE_GRAPHS:
        counts, _ = count_best(results, graph)
        for name, known in zip(ALGORITHMS, SAMPLES_PROTOTYPE[graph], strict=True):
            figure = Figure(name, f"{graph}: {name}, best on {counts[name]}", "%", "", f"{known:g} %")
            yield mean_row(results.summary(graph, name), table=_ASE, **figure.fields())


def _comparison_rows(results: Results) -> Iterator[ResultRow]:
    for first, second, published, band in _COMPARED:
        for place, name in enumerate(ALGORITHMS):
            found, other = results.summary(first, name), results.summary(second, name)
            error = float(np.hypot(found.standard_error, other.standard_error))
            known = SAMPLES_PROTOTYPE[first][place] - SAMPLES_PROTOTYPE[second][place]
            figure = Figure(name, f"{first} less {second}: {name}", "%", published, f"{known:+.1f} %")
            if name == "xDCP":
                figure = replace(figure, band=band, accepts="A4.8")
            else:
                figure = replace(
                    figure, why=_JUDGED_FOR_XDCP if published == _NO_DIFFERENCE else NOT_REPRODUCED
                )
            ours, table = found.mean - other.mean, "differences between graphs"
            yield ResultRow(table=table, ours=ours, error=error, runs=found.number, **figure.fields())


def _equality_rows(results: Results) -> Iterator[ResultRow]:
    for graph in _ONE_PARENT:
        found = results.summary(graph, "apart")
        none = ToleranceBand.exactly(0.0)
        figure = Figure("apart", f"{graph}: largest difference", "%", "none", "none", none, "A4.4", digits=0)
        table = "M-S and pM-S where every subtask has one parent"
        yield ResultRow(table=table, ours=found.most, runs=found.number, **figure.fields())
