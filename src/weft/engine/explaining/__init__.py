"""Why a task is where it is: conditions, estimates, the decision, and what it waits for."""
