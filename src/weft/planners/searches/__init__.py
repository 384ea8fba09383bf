"""Planners that search within a budget."""
