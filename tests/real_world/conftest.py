"""A project in which real runs are started from the command line."""

from __future__ import annotations

from cli.conftest import project

__all__ = ["project"]
