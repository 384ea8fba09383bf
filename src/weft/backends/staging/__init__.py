"""Staging: how files come to tasks and back, whatever names, links and files a task leaves behind."""
