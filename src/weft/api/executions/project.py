"""The project: the directory in which ``.weft/`` lies, and from which everything else is named."""

from __future__ import annotations

from pathlib import Path

from weft.backends.layout import Layout, refuse_links
from weft.errors import InvalidInput, Problem

__all__ = ["existing_project", "project_at"]


def project_at(stated: str | Path | None = None) -> Layout:
    """Give the project that is stated, else the nearest from here upwards that has one, else here."""
    layout = _found(stated)
    refuse_links(layout.project)
    return layout


def _found(stated: str | Path | None) -> Layout:
    if stated is not None:
        folder = Path(stated)
        if not folder.is_dir():
            raise InvalidInput(Problem(what=f"project {str(stated)!r}", rule="must be a directory"))
        return Layout(folder.resolve())
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / ".weft" / "weft.db").is_file():
            return Layout(folder)
    return Layout(here)


def existing_project(stated: str | Path | None = None) -> Layout:
    """Give a project in which something was run; refuse one in which nothing was."""
    layout = project_at(stated)
    if not layout.database.is_file():
        raise InvalidInput(
            Problem(
                what=f"nothing was run in {str(layout.project)!r}",
                advice="`weft run WORKFLOW` runs one; `--project DIR` names another directory",
            )
        )
    return layout
