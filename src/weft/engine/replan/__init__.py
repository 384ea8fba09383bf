"""Replan."""
