"""Reactions: one module per concern; each reads the state and emits commands."""
