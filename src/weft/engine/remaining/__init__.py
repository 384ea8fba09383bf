"""What remains of a run: an instance for any planner, and the plan that comes back. See ``planning``."""
