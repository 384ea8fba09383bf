"""Supplies: what the tasks of a workflow share, weighed so that all machines together give 1 per second.

With any weights y >= 0 of machines such that all nodes together weigh 1, a task occupies at least
``min over its ways of y[machine] * nodes * seconds``, and all tasks together no more than the makespan: the
dual of fractional assignment. So every weighting gives a bound; which are good depends on the platform:

- all nodes alike, or by speed, which is exact for machines that differ only by speed;
- only the machines of one candidate set: what must run there needs its area there;
- the weights that a few rounds of price adjustment find for unrelated machines: busy ones become dear;
- *rounded* nodes: of tasks that take more than half a machine only one runs at a time, so each counts as the
  whole machine (dual feasible functions: S. P. Fekete, J. Schepers, Mathematical Programming 91, 2001);
- countable resources, plain and rounded.

Machines where tasks do not disturb each other weigh nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.schedule.bounds.ways import Ways
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Supply", "supplies_of"]

_SETS = 8
"""How many candidate sets get weights of their own, those with the most work first."""
_ROUNDINGS = (1, 2, 3)
_TURNS = 100
"""Price adjustments: so many reach the best prices to a thousandth."""
_SAMPLE = 500
"""Rows the price adjustment looks at; the bound itself always counts every task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Supply:
    """One weighting."""

    weight: Floats
    """Per machine: of one node, or of one unit of a resource."""
    capacity: Floats
    """Per machine: nodes, or the amount of the resource."""
    resource: int | None = None
    """Column of the resource; None: the supply is nodes."""
    rounding: int = 0

    def rate(self, found: Ways) -> Floats:
        """Give what each way takes of the supply per second: where its amount varies or is nodes, in all."""
        weight = self.weight[found.machine]
        if self.resource is not None:
            return weight if found.demand is None else weight * self._counted(found.demand[:, self.resource])
        if not self.rounding:
            return np.asarray(weight * found.nodes, dtype=np.float64)
        capacity = self.capacity[found.machine]
        return np.asarray(weight * capacity * _rounded(found.nodes / capacity, self.rounding))

    def scale(self, instance: Instance, ways: list[Ways]) -> Floats:
        """Give per task the factor of its ways' rates: its amount, or 1 where the ways know it."""
        if self.resource is None:
            return np.ones(len(instance))
        scale = self._counted(instance.graph.demand[:, self.resource])
        for found in ways:
            if found.demand is not None:
                scale[found.tasks] = 1.0
        return scale

    def _counted(self, amount: Floats) -> Floats:
        """Give the amounts, rounded if they are to be; then all machines that count have the same total."""
        each = float(self.capacity.max())
        return each * _rounded(amount / each, self.rounding) if self.rounding else amount.copy()

    def reach(self) -> tuple[Floats, Floats] | None:
        """Give how much of the supply some nodes can take at once: counts, and the most they weigh.

        None: all that counts weighs the same, so that a few tasks have no best nodes to choose.
        """
        if self.resource is not None or self.rounding or np.ptp(self.weight) <= 1e-12 * self.weight.max():
            return None
        order = np.argsort(-self.weight, kind="stable")
        counts = np.cumsum(self.capacity[order])
        return counts, np.minimum(1.0, np.cumsum((self.weight * self.capacity)[order]))


def _rounded(share: Floats, rounding: int) -> Floats:
    """Round shares of a whole so that those which fit together still sum to at most 1."""
    parts = (rounding + 1) * share
    exact = np.abs(parts - np.rint(parts)) <= 1e-9 * np.maximum(1.0, parts)
    return np.where(exact, share, np.floor(parts) / rounding)


def supplies_of(instance: Instance, ways: list[Ways]) -> list[Supply]:
    """Give the supplies worth trying, no two alike."""
    if instance.unlimited.all() or not ways:
        return []
    known: dict[tuple[object, ...], Supply] = {}
    for supply in (*_of_nodes(instance, ways), *_of_resources(instance)):
        relative = np.rint(supply.weight / supply.weight.max() * 1e9)
        known.setdefault((relative.tobytes(), supply.resource, supply.rounding), supply)
    return list(known.values())


def _of_nodes(instance: Instance, ways: list[Ways]) -> Iterator[Supply]:
    nodes, limited = instance.capacity.astype(np.float64), (~instance.unlimited).astype(np.float64)
    rates = np.array([machine.rate(None) for machine in instance.machines])
    bases = [limited, limited * rates]
    for chosen in _confining(ways, instance.unlimited):
        bases += [chosen, chosen * rates]
    weights = [base / (base * nodes).sum() for base in bases]
    if limited.sum() > 1 and sum(len(found.unit_s) for found in ways) > 1:
        weights.append(_priced(ways, nodes, weights))
    for weight in weights:
        yield Supply(weight=weight, capacity=nodes)
    largest = max(float((found.nodes / nodes[found.machine]).max()) for found in ways)
    for rounding in _ROUNDINGS:
        if (rounding + 1) * largest > 1 and nodes.max() > 1:
            yield Supply(weight=weights[0], capacity=nodes, rounding=rounding)


def _confining(ways: list[Ways], unlimited: NDArray[np.bool_]) -> list[Floats]:
    """Give the sets of machines (as 0 and 1) outside which some tasks cannot run, largest load first."""
    loads: dict[bytes, float] = {}
    for found in ways:
        inside = np.zeros(len(unlimited))
        inside[found.machine] = 1.0
        if inside.all() or unlimited[found.machine].any():
            continue
        work = float((found.scale * (found.nodes * found.unit_s).min(axis=1)[found.row]).sum())
        loads[inside.tobytes()] = loads.get(inside.tobytes(), 0.0) + work
    best = sorted(loads, key=lambda inside: -loads[inside] / np.frombuffer(inside).sum())
    return [np.frombuffer(inside) for inside in best[:_SETS]]


def _priced(ways: list[Ways], nodes: Floats, starts: list[Floats]) -> Floats:
    """Adjust prices: what is asked for more than its share becomes dearer. Keep the best prices seen."""
    rows = [_sampled(found) for found in ways]
    values = [_asked(rows, start)[0] for start in starts]
    best_value = max(values)
    best = starts[values.index(best_value)]
    prices = np.maximum(best, 1e-6 * starts[0])
    for turn in range(_TURNS):
        prices = prices / (prices * nodes).sum()
        value, load = _asked(rows, prices)
        if value > best_value:
            best_value, best = value, prices
        if value <= 0.0:
            break
        excess = np.minimum(load / (nodes * value), 3.0) - 1.0
        prices = prices * np.exp(excess * 2.0 / (1.0 + turn))
    return best


_Asking = tuple[NDArray[np.intp], Floats, Floats]
"""Machine per way; node-seconds by row and way; how much each row counts."""


def _sampled(found: Ways) -> _Asking:
    count: Floats = np.bincount(found.row, weights=found.scale, minlength=len(found.unit_s)).astype(float)
    stride = max(1, len(count) // _SAMPLE)
    return found.machine.astype(np.intp), found.unit_s[::stride] * found.nodes, count[::stride] * stride


def _asked(rows: list[_Asking], prices: Floats) -> tuple[float, Floats]:
    """Give the cost of all tasks at their cheapest, and the node-seconds each machine is asked for."""
    load, total = np.zeros(len(prices)), 0.0
    for machine, area, count in rows:
        cost = area * prices[machine]
        choice = cost.argmin(axis=1)
        line = np.arange(len(choice))
        total += float((cost[line, choice] * count).sum())
        load += np.bincount(machine[choice], area[line, choice] * count, len(load))
    return total, load


def _of_resources(instance: Instance) -> Iterator[Supply]:
    for column in range(instance.amounts.shape[1]):
        amounts = instance.amounts[:, column]
        amounts = np.where(np.isfinite(amounts) & ~instance.unlimited, amounts, 0.0)
        if not amounts.any():
            continue
        weight = (amounts > 0) / amounts.sum()
        yield Supply(weight=weight, capacity=amounts, resource=column)
        if len(np.unique(amounts[amounts > 0])) == 1:  # else an amount is another share of each machine
            for rounding in _ROUNDINGS:
                yield Supply(weight=weight, capacity=amounts, resource=column, rounding=rounding)
