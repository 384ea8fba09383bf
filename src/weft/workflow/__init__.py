"""What is to be run: the records of a workflow, their checks, and the unfolding into a task graph."""
