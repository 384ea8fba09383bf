"""The lower bounds of an instance, computed once, however many ask: a portfolio and whoever called it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from weft.instance.instance import Instance
from weft.schedule.bounds import Bounds, lower_bounds

__all__ = ["bounds_of"]

_known: WeakKeyDictionary[Instance, Bounds] = WeakKeyDictionary()


def bounds_of(instance: Instance) -> Bounds:
    """Give the bounds of an instance."""
    if instance not in _known:
        _known[instance] = lower_bounds(instance)
    return _known[instance]
