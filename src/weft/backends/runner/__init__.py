"""The runner: the process that is the parent of a machine's tasks, and the engine's end of it."""
