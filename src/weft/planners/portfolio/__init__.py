"""The default planner: a portfolio of the others."""
