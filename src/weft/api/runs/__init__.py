"""Runs and their journals: written and read, replayed, explained, shown."""
