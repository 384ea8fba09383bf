"""Execution of runs: the driver loop between engine and backend, the project's lock, and planning budgets."""
