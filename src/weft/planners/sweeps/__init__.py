"""Planners for layers of parameter-sweep tasks: every machine a queue, every subtask a place in one."""
