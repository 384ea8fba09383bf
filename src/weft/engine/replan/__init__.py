"""Plans for the rest of a run: the acyclic window, the instance to plan, the estimated end and cost."""
