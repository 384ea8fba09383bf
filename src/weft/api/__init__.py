"""What the shell, the service and notebooks call."""
