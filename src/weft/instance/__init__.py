"""Tasks, machines and estimated seconds compiled into arrays, the input of planners."""

from __future__ import annotations

from weft.instance.compilation import compile_instance
from weft.instance.instance import BusyInterval, Instance, ModeGroup, TaskModes

__all__ = ["BusyInterval", "Instance", "ModeGroup", "TaskModes", "compile_instance"]
