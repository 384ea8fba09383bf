"""Planners for moldable tasks: they choose how many nodes a task takes, and when that pays."""
