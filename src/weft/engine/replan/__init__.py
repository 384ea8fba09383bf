"""The rest of a run: the acyclic window of a workflow with loops, the instance to plan, and the promise."""
