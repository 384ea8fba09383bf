"""The exact planner: a model of all plans that is solved to proven optimality, or to a bound."""
