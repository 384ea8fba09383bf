"""Kernels of planners that choose node counts."""
