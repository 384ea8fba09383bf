"""Traces: what the program of an attempt tells through the files it leaves: progress, news, results."""
