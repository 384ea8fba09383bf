"""Kernels that search: whole annealing runs over orders, machines and modes."""
