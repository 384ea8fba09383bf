"""From a workflow with loops and sweeps to the acyclic, indexed task graph."""
