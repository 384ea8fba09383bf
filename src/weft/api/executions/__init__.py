"""Executing workflows for real, and looking after what was executed."""
