"""The engine: holds the state of all runs and turns events into commands. It reads no clock and no file."""
