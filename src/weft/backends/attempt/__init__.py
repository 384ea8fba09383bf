"""Code shared by all backends that run programs: command rendering, staging, records and the event loop."""
