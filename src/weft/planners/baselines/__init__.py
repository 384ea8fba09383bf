"""Baselines: plans made without much thought, which every planner should beat."""
