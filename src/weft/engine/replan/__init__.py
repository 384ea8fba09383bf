"""Planning the rest of a run: the acyclic window, the instance to plan, and the promised end and cost."""
