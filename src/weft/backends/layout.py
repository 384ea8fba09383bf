"""The layout: where weft keeps what on disk. Everything lies in ``.weft/`` of the project, or in a sandbox.

What weft itself believes (records, runners, checkpoints) lies apart from the directories in which tasks work,
so that a task that writes what it likes there cannot be taken for weft. A link in the place of one of these
directories would have weft write elsewhere, so it is refused whenever a project is opened.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from weft.errors import InvalidInput, Problem
from weft.platform.machine import Machine

__all__ = ["ProjectLayout", "path_component", "refuse_links"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 80
_ENTERED_WITH_CARE = ("attempts", "checkpoints")
"""Directories below which links are found, and not followed, when they are met."""


@dataclass(frozen=True, slots=True)
class ProjectLayout:
    """The places of one project."""

    project: Path
    """Absolute, without links."""

    @property
    def home(self) -> Path:
        """Give the directory of weft's own state."""
        return self.project / ".weft"

    @property
    def database(self) -> Path:
        """Give the file of the journal and everything that is remembered."""
        return self.home / "weft.db"

    @property
    def lock(self) -> Path:
        """Give the file that the one engine of the project holds."""
        return self.home / "lock"

    def records(self, execution: int, attempt: int) -> Path:
        """Give the directory of an attempt's ``command.sh``, ``out``, ``err`` and ``exitcode``."""
        return self.home / "attempts" / str(execution) / str(attempt)

    def runner(self, execution: int, machine: Machine) -> Path:
        """Give the directory in which a machine's runner keeps its socket, beat and exit files."""
        return self.home / "runners" / str(execution) / path_component(machine.name)

    def checkpoints(self, execution: int, run: int, task: int) -> Path:
        """Give the directory in which a task's last restart files are kept on our side."""
        return self.home / "checkpoints" / str(execution) / f"{run}-{task}"

    def sandbox(self, machine: Machine) -> Path:
        """Give a machine's own directory: the one its ``backend`` names, or one in the project."""
        stated = machine.backend.get("sandbox")
        if isinstance(stated, str) and stated:
            return _resolve_sandbox(self.project / stated)
        return self.home / "sandbox" / path_component(machine.name)

    def workdir(self, execution: int, machine: Machine, attempt: int) -> Path:
        """Give the directory in which an attempt works, and where its outputs stay."""
        return self.sandbox(machine) / str(execution) / str(attempt)

    def cache(self, machine: Machine) -> Path:
        """Give the directory of a machine's shared inputs, by content."""
        return self.sandbox(machine) / "cache"


@cache
def _resolve_sandbox(sandbox: Path) -> Path:
    """Follow the user's links to a sandbox, once: those that a task puts there later are not followed."""
    return sandbox.resolve()


def refuse_links(project: Path) -> None:
    """Refuse a project whose ``.weft``, or a file or directory of it, is a link; or is no directory."""
    home = ProjectLayout(project).home
    if home.is_symlink():
        raise _link_problem(home, "`--project DIR` names another directory to keep it in")
    if home.exists() and not home.is_dir():
        rule = "it must be a directory: weft keeps its own state there"
        advice = "rename or remove it, or name another directory by `--project DIR`"
        raise InvalidInput(Problem(what=f"'{home}' is no directory", rule=rule, advice=advice))
    for part in _list_entries(str(home)):
        deep = part.is_dir(follow_symlinks=False) and part.name not in _ENTERED_WITH_CARE
        for each in (part, *(_list_entries(part.path) if deep else ())):
            if each.is_symlink():
                sandbox = "`sandbox: DIR` of a machine names another directory for its tasks"
                raise _link_problem(Path(each.path), sandbox if part.name == "sandbox" else "")


def _list_entries(directory: str) -> list[os.DirEntry[str]]:
    with suppress(FileNotFoundError), os.scandir(directory) as found:
        return sorted(found, key=lambda part: part.name)
    return []  # nothing was run here yet, or somebody cleans up


def _link_problem(link: Path, elsewhere: str) -> InvalidInput:
    rule = "weft keeps its own state there and follows no link to it"
    advice = "; ".join(("remove the link", *([elsewhere] if elsewhere else [])))
    return InvalidInput(
        Problem(what=f"'{link}' is a symbolic link to '{link.readlink()}'", rule=rule, advice=advice)
    )


def path_component(name: str) -> str:
    """Give a name that is one safe part of a path, and another for every other name."""
    plain = _UNSAFE.sub("_", name)
    if plain == name and len(name) <= _LONGEST and name.strip("."):
        return name
    return f"{plain[:_LONGEST].strip('.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
