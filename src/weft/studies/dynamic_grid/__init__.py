"""The experiments of R. Prodan, T. Fahringer, SAC 2005 (S1)."""
