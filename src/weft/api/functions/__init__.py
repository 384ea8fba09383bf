"""Python functions as tasks: a decorator, calls that are handles, and how both reach another process."""
