"""Python functions as tasks: the decorator, task calls, and their transfer to another process."""
