"""Machines as columns: what requirement and rank expressions are evaluated over, all machines at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.platform.machine import Machine

__all__ = ["columns"]


def columns(machines: Sequence[Machine]) -> dict[str, NDArray[Any]]:
    """Give one array per name that expressions may use, with one entry per machine.

    Counts are integers; other numbers are floats, nan where nothing is stated; text is an object array, None
    where nothing is stated. A machine's site is always known: without a stated one it is a site of its own.
    Attributes and resources come under their own names: as numbers or true/false if that is what every
    machine has, else as an object array. Names of machines' own keys win over them.
    """
    found: dict[str, NDArray[Any]] = {}
    for name in _free_names(machines):
        found[name] = _array([_free_value(machine, name) for machine in machines])
    return found | _own(machines)


def _own(machines: Sequence[Machine]) -> dict[str, NDArray[Any]]:
    return {
        "name": _objects([machine.name for machine in machines]),
        "nodes": _counts([machine.nodes for machine in machines]),
        "cores": _counts([machine.cores for machine in machines]),
        "memory": _numbers([machine.memory for machine in machines]),
        "disk": _numbers([machine.disk for machine in machines]),
        "gpus": _counts([machine.gpus for machine in machines]),
        "speed": _numbers([machine.speed for machine in machines]),
        "availability": _numbers([machine.availability for machine in machines]),
        "price_per_node_hour": _numbers([machine.price_per_node_hour for machine in machines]),
        "arch": _objects([machine.arch for machine in machines]),
        "os": _objects([machine.os for machine in machines]),
        "site": _objects([machine.site_name for machine in machines]),
        "queue": _objects([machine.queue for machine in machines]),
        "occupancy": _objects([machine.occupancy for machine in machines]),
        "host": _objects([machine.host_name for machine in machines]),
    }


def _free_names(machines: Sequence[Machine]) -> list[str]:
    """List attribute and resource names in the order of their first appearance."""
    names: dict[str, None] = {}
    for machine in machines:
        names.update(dict.fromkeys(machine.attributes))
        names.update(dict.fromkeys(machine.resources))
    return list(names)


def _free_value(machine: Machine, name: str) -> object:
    found = machine.attributes.get(name)
    return machine.resources.get(name) if found is None else found


def _array(values: Sequence[object]) -> NDArray[Any]:
    stated = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in stated):
        return np.array(values, dtype=bool) if len(stated) == len(values) else _objects(values)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in stated):
        return _numbers(values)
    return _objects(values)


def _counts(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _objects(values: Sequence[object]) -> NDArray[np.object_]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
