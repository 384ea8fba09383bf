"""The engine: holds the state of all runs and turns events into commands; no clock, no input or output."""
