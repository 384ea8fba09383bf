"""Tasks, machines and seconds compiled into arrays: what planners read."""

from __future__ import annotations

from weft.instance.compilation import compile_instance
from weft.instance.instance import Busy, Instance
from weft.instance.modes import ModeGroup, Modes

__all__ = ["Busy", "Instance", "ModeGroup", "Modes", "compile_instance"]
