"""Parts of every backend that runs programs: command rendering, staging, records, and one event loop."""
