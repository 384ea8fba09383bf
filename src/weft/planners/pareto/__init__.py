"""Fronts: plans of which none is both faster and cheaper than another."""
