"""What the engine knows: runs, tasks, attempts and machines."""
