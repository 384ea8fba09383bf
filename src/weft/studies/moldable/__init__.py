"""The experiments of M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Workflows (S2)."""
