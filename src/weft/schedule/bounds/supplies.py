"""Supplies (weighted sums of the capacities of all machines), and the least share that each task takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.records import dataclass
from weft.schedule.bounds.modes import BoundModes
from weft.workflow.task_graph import Floats

_SETS = 8
"""Largest number of machine sets with weights of their own, those with the most work first."""
_ROUNDINGS = (1, 2, 3)
_TURNS = 100
"""Number of price adjustments; enough to come within a thousandth of the best prices."""
_SAMPLE = 500
"""Approximate number of rows sampled for the price adjustment; the bound itself counts every task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Supply:
    """A weighted sum of the nodes, or of one resource, of all machines, scaled to 1."""

    weight: Floats
    """Per machine: weight of one node, or of one unit of a resource."""
    capacity: Floats
    """Per machine: nodes, or the amount of the resource."""
    resource: int | None = None
    """Column of the resource; None for nodes."""
    rounding: int = 0

    def rate(self, found: BoundModes) -> Floats:
        """Return the share of the supply that each mode takes.

        For a resource whose amount does not depend on the mode, it is the share per unit of the amount.
        """
        weight = self.weight[found.machine]
        if self.resource is not None:
            return weight if found.demand is None else weight * self._counted(found.demand[:, self.resource])
        if not self.rounding:
            return np.asarray(weight * found.nodes, dtype=np.float64)
        capacity = self.capacity[found.machine]
        return np.asarray(weight * capacity * _round_shares(found.nodes / capacity, self.rounding))

    def scale(self, instance: Instance, modes: list[BoundModes]) -> Floats:
        """Return a factor for the rates of each task: its resource amount; 1 if ``rate`` includes it."""
        if self.resource is None:
            return np.ones(len(instance))
        scale = self._counted(instance.graph.demand[:, self.resource])
        for found in modes:
            if found.demand is not None:
                scale[found.tasks] = 1.0
        return scale

    def _counted(self, amount: Floats) -> Floats:
        """Return a copy of the amounts; if ``rounding`` is set, rounded as shares of the largest total."""
        each = float(self.capacity.max())
        return each * _round_shares(amount / each, self.rounding) if self.rounding else amount.copy()

    def reach(self) -> tuple[Floats, Floats] | None:
        """Return numbers of nodes, and the largest share of the supply that so many nodes can take at once.

        Return None if this limit is not used: for resources, for rounded supplies, and if all weights are
        equal, since few tasks cannot choose better nodes.
        """
        if self.resource is not None or self.rounding or np.ptp(self.weight) <= 1e-12 * self.weight.max():
            return None
        order = np.argsort(-self.weight, kind="stable")
        counts = np.cumsum(self.capacity[order])
        return counts, np.minimum(1.0, np.cumsum((self.weight * self.capacity)[order]))


def _round_shares(share: Floats, rounding: int) -> Floats:
    """Return rounded shares; shares that sum to at most 1 still do so after rounding."""
    parts = (rounding + 1) * share
    exact = np.abs(parts - np.rint(parts)) <= 1e-9 * np.maximum(1.0, parts)
    return np.where(exact, share, np.floor(parts) / rounding)


def list_supplies(instance: Instance, modes: list[BoundModes]) -> list[Supply]:
    """Return the distinct supplies for which area bounds are computed.

    For any weights y >= 0 of machines such that all nodes together weigh 1, a task takes at least ``min over
    its modes of y[machine] * nodes * seconds`` and all tasks together at most the makespan (the dual of
    fractional assignment). Every weighting gives a bound; several are tried:

    - equal weights, or weights by speed, which are exact if machines differ by speed only;
    - only the machines of one candidate set, for tasks that must run on these machines;
    - weights found by a few rounds of price adjustment, for unrelated machines: overloaded machines become
      expensive;
    - *rounded* nodes: of tasks with more than half of a machine only one runs at a time, so each counts as
      the whole machine (dual feasible functions: S. P. Fekete, J. Schepers, Mathematical Programming 91,
      2001);
    - countable resources, plain and rounded.

    Unlimited machines have weight 0.
    """
    if instance.unlimited.all() or not modes:
        return []
    known: dict[tuple[object, ...], Supply] = {}
    for supply in (*_node_supplies(instance, modes), *_resource_supplies(instance)):
        relative = np.rint(supply.weight / supply.weight.max() * 1e9)
        known.setdefault((relative.tobytes(), supply.resource, supply.rounding), supply)
    return list(known.values())


def _node_supplies(instance: Instance, modes: list[BoundModes]) -> Iterator[Supply]:
    nodes, limited = instance.capacity.astype(np.float64), (~instance.unlimited).astype(np.float64)
    rates = np.array([machine.rate(None) for machine in instance.machines])
    bases = [limited, limited * rates]
    for chosen in _confining_sets(modes, instance.unlimited):
        bases += [chosen, chosen * rates]
    weights = [base / (base * nodes).sum() for base in bases]
    if limited.sum() > 1 and sum(len(found.unit_s) for found in modes) > 1:
        weights.append(_adjust_prices(modes, nodes, weights))
    for weight in weights:
        yield Supply(weight=weight, capacity=nodes)
    largest = max(float((found.nodes / nodes[found.machine]).max()) for found in modes)
    for rounding in _ROUNDINGS:
        if (rounding + 1) * largest > 1 and nodes.max() > 1:
            yield Supply(weight=weights[0], capacity=nodes, rounding=rounding)


def _confining_sets(modes: list[BoundModes], unlimited: NDArray[np.bool_]) -> list[Floats]:
    """Return the sets of machines (as 0 and 1) to which some tasks are restricted, most loaded first."""
    loads: dict[bytes, float] = {}
    for found in modes:
        inside = np.zeros(len(unlimited))
        inside[found.machine] = 1.0
        if inside.all() or unlimited[found.machine].any():
            continue
        work = float((found.scale * (found.nodes * found.unit_s).min(axis=1)[found.row]).sum())
        loads[inside.tobytes()] = loads.get(inside.tobytes(), 0.0) + work
    best = sorted(loads, key=lambda inside: -loads[inside] / np.frombuffer(inside).sum())
    return [np.frombuffer(inside) for inside in best[:_SETS]]


def _adjust_prices(modes: list[BoundModes], nodes: Floats, starts: list[Floats]) -> Floats:
    """Return the weights that give the highest bound found by a price adjustment.

    The weight of a machine is the price of one node-second on it. The bound is the cost of all tasks in their
    cheapest modes, if all nodes together cost 1 per second. The adjustment begins with the best weights of
    ``starts``. Each round raises the prices of machines that these modes overload, and lowers the others.
    """
    rows = [_sample_requests(found) for found in modes]
    values = [_cheapest_requests(rows, start)[0] for start in starts]
    best_value = max(values)
    best = starts[values.index(best_value)]
    prices = np.maximum(best, 1e-6 * starts[0])
    for turn in range(_TURNS):
        prices = prices / (prices * nodes).sum()
        value, load = _cheapest_requests(rows, prices)
        if value > best_value:
            best_value, best = value, prices
        if value <= 0.0:
            break
        excess = np.minimum(load / (nodes * value), 3.0) - 1.0
        prices = prices * np.exp(excess * 2.0 / (1.0 + turn))
    return best


_Request = tuple[NDArray[np.intp], Floats, Floats]
"""A request: machine of each mode, node-seconds (rows x modes), and weight of each row."""


def _sample_requests(found: BoundModes) -> _Request:
    count: Floats = np.bincount(found.row, weights=found.scale, minlength=len(found.unit_s)).astype(float)
    stride = max(1, len(count) // _SAMPLE)
    return found.machine.astype(np.intp), found.unit_s[::stride] * found.nodes, count[::stride] * stride


def _cheapest_requests(rows: list[_Request], prices: Floats) -> tuple[float, Floats]:
    """Return the cost of all tasks in their cheapest modes, and the node-seconds per machine."""
    load, total = np.zeros(len(prices)), 0.0
    for machine, area, count in rows:
        cost = area * prices[machine]
        choice = cost.argmin(axis=1)
        line = np.arange(len(choice))
        total += float((cost[line, choice] * count).sum())
        load += np.bincount(machine[choice], area[line, choice] * count, len(load))
    return total, load


def _resource_supplies(instance: Instance) -> Iterator[Supply]:
    for column in range(instance.amounts.shape[1]):
        amounts = instance.amounts[:, column]
        amounts = np.where(np.isfinite(amounts) & ~instance.unlimited, amounts, 0.0)
        if not amounts.any():
            continue
        weight = (amounts > 0) / amounts.sum()
        yield Supply(weight=weight, capacity=amounts, resource=column)
        # Rounding applies to shares of a machine: these are common only to machines with equal amounts.
        if len(np.unique(amounts[amounts > 0])) == 1:
            for rounding in _ROUNDINGS:
                yield Supply(weight=weight, capacity=amounts, resource=column, rounding=rounding)


_MOST_STEPS = 48
_SORTED = 1_000_000
"""Tables with more entries than this are not sorted: their fronts have only one step."""
_TOGETHER = 500_000
"""Approximate number of table entries computed at a time."""

_Steps = tuple[Floats, Floats, Floats]
"""Seconds, rate and area, each rows x steps."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AreaFront:
    """The fronts of all tasks for one supply, as rows of steps with ascending seconds and descending rates.

    The rate of a mode is the share of the supply that it takes, its area seconds x rate. The *front* of a
    task gives its least area for a maximal duration: only modes that no other mode beats in both seconds and
    rate are kept. If there are too many modes, adjacent modes are merged into one step with the least
    seconds, rate and area of these modes, which keeps the bound valid.
    """

    row: NDArray[np.int64]
    scale_s: Floats
    scale_rate: Floats
    step_s: Floats
    """Rows x steps: seconds, ascending; the last step of a row is repeated."""
    step_rate: Floats
    cheapest: Floats
    """Rows x steps: the least area (seconds x rate) of the step and all steps before it."""
    area: Floats
    """Per task: its least area, in seconds of the whole supply."""
    shortest_s: Floats
    """Per task: seconds of its fastest mode."""
    least_rate: Floats
    """Per task: the smallest share of the supply it can take at once."""
    peak: Floats
    """Per task: the largest share of the supply it can take at once."""
    bends: bool
    """Whether a limit on durations can increase the least area of some task."""

    def area_within(self, limit_s: Floats, tasks: NDArray[np.intp] | None = None) -> Floats:
        """Return the least area of each task within its limit; infinity where no mode is short enough."""
        chosen = slice(None) if tasks is None else tasks
        row, scale_s = self.row[chosen], self.scale_s[chosen]
        fitting = (self.step_s[row] * scale_s[:, None] <= limit_s[:, None]).sum(axis=1)
        area = scale_s * self.scale_rate[chosen] * self.cheapest[row, np.maximum(fitting, 1) - 1]
        return np.where(fitting > 0, area, np.inf)

    def backwards(self) -> AreaFront:
        """Return the same fronts with the tasks in reverse order."""
        return replace(
            self,
            row=self.row[::-1],
            scale_s=self.scale_s[::-1],
            scale_rate=self.scale_rate[::-1],
            area=self.area[::-1],
            shortest_s=self.shortest_s[::-1],
            least_rate=self.least_rate[::-1],
            peak=self.peak[::-1],
        )


def build_front(instance: Instance, modes: list[BoundModes], supply: Supply) -> AreaFront:
    """Return the fronts of all tasks for one supply."""
    row, scale_s = np.zeros(len(instance), dtype=np.int64), np.zeros(len(instance))
    # Row 0 is for tasks without nodes.
    parts, filled = [(np.zeros((1, 1)),) * 3], 1
    for found in modes:
        row[found.tasks] = filled + found.row
        scale_s[found.tasks] = found.scale
        rate, small = supply.rate(found), found.unit_s.size <= _SORTED
        parts += [_steps(piece, rate) if small else _step(piece, rate) for piece in _pieces(found)]
        filled += len(found.unit_s)
    width = max(part[0].shape[1] for part in parts)
    step_s, step_rate, step_area = (
        np.concatenate([_pad(part[column], width) for part in parts]) for column in range(3)
    )
    cheapest, scale_rate = np.minimum.accumulate(step_area, axis=1), supply.scale(instance, modes)
    return AreaFront(
        row=row,
        scale_s=scale_s,
        scale_rate=scale_rate,
        step_s=step_s,
        step_rate=step_rate,
        cheapest=cheapest,
        area=scale_s * scale_rate * cheapest[row, -1],
        shortest_s=scale_s * step_s[row, 0],
        least_rate=scale_rate * step_rate.min(axis=1)[row],
        peak=scale_rate * step_rate.max(axis=1)[row],
        bends=bool((cheapest[:, 0] > cheapest[:, -1] * (1 + 1e-9)).any()),
    )


def _pieces(found: BoundModes) -> Iterator[Floats]:
    rows = max(1, _TOGETHER // len(found))
    for first in range(0, len(found.unit_s), rows):
        yield found.unit_s[first : first + rows]


def _pad(steps: Floats, width: int) -> Floats:
    return np.pad(steps, ((0, 0), (0, width - steps.shape[1])), mode="edge")


def _step(unit_s: Floats, rate: Floats) -> _Steps:
    """Return one step per row, with the least seconds, rate and area of all modes."""
    shortest = unit_s.min(axis=1, keepdims=True)
    return shortest, np.full_like(shortest, rate.min()), (unit_s * rate).min(axis=1, keepdims=True)


def _steps(unit_s: Floats, rate: Floats) -> _Steps:
    if (rate == rate[0]).all():
        return _step(unit_s, rate)
    order = np.lexsort((np.broadcast_to(rate, unit_s.shape), unit_s), axis=1)
    seconds, rates = np.take_along_axis(unit_s, order, axis=1), rate[order]
    kept = np.ones(unit_s.shape, dtype=bool)
    kept[:, 1:] = rates[:, 1:] < np.minimum.accumulate(rates, axis=1)[:, :-1]
    rows, columns = np.nonzero(kept)
    count = kept.sum(axis=1)[rows]
    place = np.cumsum(kept, axis=1)[rows, columns] - 1
    # Short fronts keep every step; in long fronts adjacent steps share a position.
    place = np.where(count > _MOST_STEPS, place * _MOST_STEPS // count, place)
    values = (seconds[rows, columns], rates[rows, columns])
    steps = []
    for column in (*values, values[0] * values[1]):
        step = np.full((len(unit_s), int(place.max()) + 1), np.inf)
        np.minimum.at(step, (rows, place), column)
        for right in range(1, step.shape[1]):
            missing = np.isinf(step[:, right])
            step[missing, right] = step[missing, right - 1]
        steps.append(step)
    return steps[0], steps[1], steps[2]
