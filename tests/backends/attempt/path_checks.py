"""Checks of names and trees that several staging tests share."""

from __future__ import annotations

from pathlib import Path

from weft.backends.attempt.safe_paths import StagingProblem, open_entry, split_name
from weft.backends.attempt.trees import DirectoryEntry, walk_directories

__all__ = ["is_inside", "list_entries"]


def is_inside(root: Path, name: str) -> bool:
    """Return whether a name is valid and refers, with links followed, to an entry below the root."""
    try:
        with open_entry(root, split_name(name)):
            return True
    except StagingProblem:
        return False


def list_entries(root: Path) -> list[DirectoryEntry]:
    """Return all entries below a root."""
    return [entry for _, entries in walk_directories(root) for entry in entries]
