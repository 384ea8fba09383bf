"""Persistent state of a project: journals, runs, requests and products in one SQLite file."""
