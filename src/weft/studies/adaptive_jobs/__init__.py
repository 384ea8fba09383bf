"""Adaptive execution of jobs on a grid: the experiments of S3 (E. Huedo, R. Montero, I. Llorente)."""
