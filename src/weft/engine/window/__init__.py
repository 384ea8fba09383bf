"""The acyclic window on a workflow with loops: what is left of this iteration, and the next one."""
