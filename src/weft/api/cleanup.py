"""Remove sandboxes, records and checkpoints of finished runs.

Cleanup holds the project lock, so no engine uses the files meanwhile, and never follows links. Files that a
later run reused are hard links of that run and stay.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.api.project import OpenProject
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.trees import remove_tree
from weft.backends.layout import ProjectLayout
from weft.errors import InvalidInput, Problem, WeftError
from weft.platform.platform import planned_machines
from weft.repository.journal import JournalHeader
from weft.repository.journal_store import JournalStore
from weft.repository.products import ProductTable
from weft.repository.runs import UNFINISHED, ExecutionRecord
from weft.runtime.lock import Lock

__all__ = ["CleanupResult", "clean"]


@dataclass(slots=True, kw_only=True)
class CleanupResult:
    """Files and folders that were removed, or would be removed by a dry run."""

    runs: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    """Numbers of unfinished runs, which are kept."""
    folders: list[str] = field(default_factory=list)
    files: int = 0
    freed_bytes: int = 0
    """Bytes of files without another hard link."""


def clean(
    place: OpenProject,
    runs: Sequence[int],
    *,
    keep_results: bool = False,
    everything: bool = False,
    dry_run: bool = False,
    command: Sequence[str] = (),
) -> CleanupResult:
    """Remove the files of finished executions: those of ``runs``, or all.

    ``keep_results`` keeps the directories that hold outputs, so that later runs can reuse them;
    ``everything`` also removes reports and input caches. Raises Locked if an engine is running.
    """
    with Lock(place.layout.lock, command):
        chosen, kept = _choose_executions(place, runs)
        found = CleanupResult(kept=kept)
        for execution in chosen:
            own = [run.number for run in place.runs.of(execution.number)]
            found.runs += own
            header = JournalStore(place.database).header(execution.number)
            spared = _folders_with_results(place, execution.number) if keep_results else set()
            for root, name in _folders(place.layout, execution.number, header, spared):
                _remove(root, name, found, dry_run=dry_run)
            for number in own if everything else ():
                _remove(place.layout.home, f"reports/{number}", found, dry_run=dry_run)
        if everything and not keep_results and not runs:
            for root in _sandboxes(place):
                _remove(root, "cache", found, dry_run=dry_run)
    return found


def _choose_executions(place: OpenProject, runs: Sequence[int]) -> tuple[list[ExecutionRecord], list[int]]:
    """Return the finished executions to clean and the numbers of unfinished runs."""
    executions = {each.number: each for each in place.runs.executions()}
    if not runs:
        over = [each for each in executions.values() if each.state not in UNFINISHED]
        rest = [run.number for run in place.runs.all() if executions[run.execution].state in UNFINISHED]
        return over, rest
    meant = {}
    for number in runs:
        run = place.runs.run(number)
        execution = executions[run.execution]
        if execution.state in UNFINISHED:
            what = f"run {number} is not finished: it can be resumed"
            raise InvalidInput(
                Problem(what=what, advice=f"`weft resume {number}`, or `weft cancel {number}` first")
            )
        meant[execution.number] = execution
    return list(meant.values()), []


def _folders(
    layout: ProjectLayout, execution: int, header: JournalHeader, spared: set[Path]
) -> Iterator[tuple[Path, str]]:
    """Yield (root, relative path) of the folders of an execution."""
    number = str(execution)
    for machine in planned_machines(header.platform):
        sandbox = layout.sandbox(machine)
        if not spared:
            yield sandbox, number
            continue
        for name in _names(sandbox / number):
            if sandbox / number / name not in spared:
                yield sandbox, f"{number}/{name}"
    for name in ("attempts", "runners", "checkpoints"):
        yield layout.home, f"{name}/{number}"


def _names(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())
    except OSError:
        return []


def _folders_with_results(place: OpenProject, execution: int) -> set[Path]:
    return {Path(directory) for directory in ProductTable(place.database).directories(execution)}


def _sandboxes(place: OpenProject) -> list[Path]:
    store = JournalStore(place.database)
    found: dict[Path, None] = {}
    for execution in place.runs.executions():
        for machine in planned_machines(store.header(execution.number).platform):
            found[place.layout.sandbox(machine)] = None
    return list(found)


def _remove(root: Path, name: str, found: CleanupResult, *, dry_run: bool) -> None:
    if not os.path.lexists(root / name):
        return
    files, freed = _disk_usage(root / name)
    found.files += files
    found.freed_bytes += freed
    found.folders.append(str(root / name))
    if dry_run:
        return
    try:
        remove_tree(root, name)
    except StagingProblem as problem:
        raise WeftError(f"{root}: {problem}; what was removed before stays removed") from None


def _disk_usage(folder: Path) -> tuple[int, int]:
    """Return the number of files and the bytes of those without another hard link; links are not followed."""
    files = freed = 0
    for parent, _, names in os.walk(folder, followlinks=False):
        for name in names:
            try:
                found = os.lstat(os.path.join(parent, name))  # noqa: PTH118 -- many of them
            except OSError:
                continue
            files += 1
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                freed += found.st_size
    return files, freed
