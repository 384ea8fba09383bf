"""The deciding core: events in, commands out; no clock, no input or output."""
