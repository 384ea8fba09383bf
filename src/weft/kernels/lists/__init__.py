"""Kernels of list planners: who is next, and what follows."""
