"""Machines that weft reaches by ssh."""
