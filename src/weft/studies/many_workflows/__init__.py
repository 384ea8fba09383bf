"""The experiments of R. Bolze, F. Desprez, B. Isnard: many workflows that share one platform online (S5)."""
