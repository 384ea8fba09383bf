"""The state of the engine: runs, tasks, attempts and machines."""
