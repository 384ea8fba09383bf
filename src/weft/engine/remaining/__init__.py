"""What remains of a run: as an instance for any planner, and the plan that comes back. Begin with ``planning``."""
