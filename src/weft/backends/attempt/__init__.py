"""What every backend that runs programs needs: command rendering, staging, records, and one event loop."""
