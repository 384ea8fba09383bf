"""The exact planner: a model of all plans, solved until a plan is proven optimal or the budget is spent."""
