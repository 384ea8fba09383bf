"""Workflows: their records, validation, and the unfolding into a task graph."""
