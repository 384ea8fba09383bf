"""This computer: named machines with sandboxes, and a runner for each."""
