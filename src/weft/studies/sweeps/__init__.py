"""The experiments of T. Ma, R. Buyya: workflows of parameter-sweep tasks (S4)."""
