"""Cleanup of projects: remove the files of finished runs, and directories that unfinished runs do not need.

Cleanup holds the project lock, so that no engine uses the files, and never follows symbolic links. It only
reads the database, so it needs no space. In a sandbox that several projects may share, it removes only the
directory of this project. Files that a later run reused stay.

An attempt that has filled the disk may keep its run from being recorded as ended. Therefore the working
directories of attempts that have failed are removed from unfinished runs, too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cache
from pathlib import Path

from weft.api.project import OpenProject
from weft.backends import BACKENDS
from weft.backends.attempt.backend import SurvivingPrograms
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.temporary_files import remove_stale_below
from weft.backends.attempt.trees import remove_tree
from weft.backends.local.link import find_programs
from weft.engine.messages import Assign
from weft.engine.state.state import EngineState
from weft.engine.states import Stage
from weft.errors import InvalidInput, WeftError
from weft.platform.machine import Machine
from weft.platform.platform import planned_machines
from weft.records import dataclass
from weft.repository.journal import JournalHeader
from weft.repository.journal_store import JournalStore, read_nonces
from weft.repository.products import ProductTable
from weft.repository.runs import UNFINISHED, ExecutionRecord
from weft.runtime.execution import find_shared_sandbox, read_token
from weft.runtime.lock import Lock


@dataclass(slots=True, kw_only=True)
class CleanupResult:
    """Runs, folders and files that were removed or, in a dry run, would be removed."""

    runs: list[int] = field(default_factory=list)
    attempts: int = 0
    """Number of ended attempts of unfinished runs whose working directories were removed."""
    kept: list[int] = field(default_factory=list)
    """Numbers of unfinished runs, which are kept."""
    originals: dict[int, str] = field(default_factory=dict)
    """In a copied project, by number of an unfinished run: the folder of the original project.

    Only the original project can resume or cancel the run.
    """
    folders: list[str] = field(default_factory=list)
    files: int = 0
    freed_bytes: int = 0
    """Bytes of the removed files that have no other hard link."""
    shared: dict[str, str] = field(default_factory=dict)
    """In a copied project, by path of a kept sandbox: the folder of the original project.

    The sandbox is kept because the original project may use it.
    """
    unreachable: dict[str, str] = field(default_factory=dict)
    """By name of a machine whose directories are kept because its host cannot be reached: the reason."""


def clean(
    opened: OpenProject,
    runs: Sequence[int],
    *,
    keep_results: bool = False,
    everything: bool = False,
    dry_run: bool = False,
    force: bool = False,
    command: Sequence[str] = (),
) -> CleanupResult:
    """Remove the files of the executions that contain ``runs``; without ``runs``, of all finished executions.

    Without ``runs``, directories that unfinished executions do not need are removed too (``free_space``).
    ``keep_results`` keeps the directories that hold outputs, so that later runs can reuse them;
    ``everything`` also removes reports and input caches. Outputs that a kept run reuses are kept. In a copy
    of a project, sandboxes of the original project that are outside of the copy are kept unless ``force``.
    Raises Locked if an engine is running.
    """
    with Lock(opened.layout.lock, command):
        chosen, kept = _choose_executions(opened, runs)
        found, products = CleanupResult(kept=kept), ProductTable(opened.database)
        found.originals = _list_originals(opened, kept)
        shared = {} if force else _list_shared(opened)
        if not runs:
            _remove_ended(opened, found, shared, dry_run=dry_run)
        reused = _list_directories(
            products, {each.number for each in opened.runs.executions()} - {each.number for each in chosen}
        )
        kept_products = (
            _list_directories(products, {each.number for each in chosen}) if keep_results else set()
        )
        distant = _clean_hosts(opened, chosen, reused | kept_products, found, force=force, dry_run=dry_run)
        for execution in chosen:
            own = [run.number for run in opened.runs.of(execution.number)]
            found.runs += own
            header = JournalStore(opened.database).header(execution.number)
            spared = reused | (_list_directories(products, {execution.number}) if keep_results else set())
            for root, name in _folders(opened, execution.number, header, spared):
                if root not in distant:
                    _remove(root, name, found, shared, dry_run=dry_run)
            for number in own if everything else ():
                _remove(opened.layout.home, f"reports/{number}", found, {}, dry_run=dry_run)
        if everything and not keep_results and not runs:
            for root in _sandboxes(opened):
                _remove(root, "cache", found, shared, dry_run=dry_run)
        own_sandboxes = [root for root in _sandboxes(opened) if str(root) not in shared]
        for root in () if dry_run else (opened.layout.project, *own_sandboxes):
            remove_stale_below(root)
        for root in () if dry_run else own_sandboxes:
            with suppress(OSError):  # the directory is not empty, or does not exist
                root.rmdir()
    return found


def _clean_hosts(
    opened: OpenProject,
    chosen: Sequence[ExecutionRecord],
    spared: set[str],
    found: CleanupResult,
    *,
    force: bool,
    dry_run: bool,
) -> set[Path]:
    """Remove the directories of executions on machines with disks of their own.

    Return the mirrors (see ``ProjectLayout.sandbox``) that must stay, because results on the host are kept,
    because it cannot be reached, or because the original of this copied project may use the directories.
    """
    store, layout = JournalStore(opened.database), opened.layout
    originals = {} if force else opened.database.list_originals()
    machines: dict[Path, tuple[Machine, dict[int, str]]] = {}
    for execution in chosen:
        identity = opened.database.identity_of(execution.number)
        for machine in planned_machines(store.header(execution.number).platform):
            mirror = layout.own_sandbox(machine, identity)
            # An execution without a mirror has never used the machine.
            if machine.has_own_disk and identity and (mirror / str(execution.number)).is_dir():
                machines.setdefault(mirror, (machine, {}))[1][execution.number] = identity
    kept: set[Path] = set()
    for mirror, (machine, executions) in machines.items():
        original = next((originals[each] for each in executions.values() if each in originals), None)
        if original is not None:
            found.shared[f"{machine.host_name}: {mirror.name}"] = original
            kept.add(mirror)
            continue
        try:
            backend = BACKENDS.load(str(machine.backend["kind"]))
            removed = backend.clean_machine(layout, machine, executions, spared, dry_run=dry_run)
        except WeftError as error:
            found.unreachable[machine.host_name] = str(error)
            kept.add(mirror)
            continue
        kept |= {mirror} if removed["spared"] else set()  # a mark for the next cleanup
        found.files += removed["files"]
        found.freed_bytes += removed["freed_bytes"]
        found.folders += removed["folders"]
    return kept


def free_space(opened: OpenProject, command: Sequence[str] = ()) -> CleanupResult:
    """Remove the working directories of ended attempts that unfinished executions do not need.

    Nothing is written to the database, so this works on a full disk. Raises Locked if an engine is running.
    """
    with Lock(opened.layout.lock, command):
        found = CleanupResult()
        _remove_ended(opened, found, _list_shared(opened), dry_run=False)
    return found


def _remove_ended(
    opened: OpenProject, found: CleanupResult, shared: Mapping[str, str], *, dry_run: bool
) -> None:
    for execution in opened.runs.executions():
        if execution.state not in UNFINISHED:
            continue
        try:
            folders = list(_find_unneeded(opened, execution.number))
        except InvalidInput:
            continue  # its journal is damaged, so all its files are kept
        for folder in folders:
            files = found.files
            root, name = folder.parents[1], f"{execution.number}/{folder.name}"
            if str(root) in shared:
                continue  # the original project may use it; the run is reported as kept
            _remove(root, name, found, shared, dry_run=dry_run)
            found.attempts += found.files > files


def _find_unneeded(opened: OpenProject, execution: int) -> Iterator[Path]:
    """Yield the working directories of ended attempts that an unfinished execution does not need.

    A directory is needed by a program that may be running, as a product, for restart files, and if the next
    engine evaluates the end of the program: then only a failure without modules needs no files.
    """
    layout, store = opened.layout, JournalStore(opened.database)
    rebuilt = store.rebuilt(execution)
    state, token = rebuilt.engine.state, read_token(opened.runs, execution)
    machines, nonces = rebuilt.engine.instance.machines, read_nonces(opened.database, execution)
    identity = opened.database.identity_of(execution)
    numbers = {each.number for each in opened.runs.executions()}
    products = _list_directories(ProductTable(opened.database), numbers)
    programs = cache(lambda machine: find_programs(layout, execution, machines, machine, token))
    for assigned in _list_assigned(store, execution):
        number, machine = assigned.attempt, machines[assigned.machine]
        nonce = nonces.get(number, "")
        folder = layout.workdir(machine, identity, execution, number, nonce)
        if not identity or not nonce or str(folder) in products or not folder.is_dir():
            continue
        if machine.backend.get("kind") != "local":
            found = None if number in state.attempts else SurvivingPrograms()  # it may run elsewhere
        else:
            found = programs(assigned.machine)
        if found is None or number in found.running:
            continue
        if not _is_needed(state, assigned, found.ends.get(number)):
            yield folder


def _list_assigned(store: JournalStore, execution: int) -> list[Assign]:
    """Return the commands that assigned the attempts of an execution."""
    return [
        command
        for entry in store.all_after(execution)
        for command in entry.commands
        if isinstance(command, Assign)
    ]


def _is_needed(state: EngineState, assigned: Assign, end: Mapping[str, object] | None) -> bool:
    """Return whether the directory of an attempt that has no program and no product may be needed.

    ``end`` is the runner's record of the program's end; None: there is none.
    """
    compiled, task = state.runs[assigned.run].compiled, assigned.task
    description = compiled.description(task)
    if description.recovery.checkpoint is not None:
        return True
    if (live := state.attempts.get(assigned.attempt)) is None:
        return False
    job = description.job
    if live.stage not in (Stage.SUBMITTED, Stage.RUNNING) or job is None:
        return True
    if job.prolog or job.wrapper or job.epilog:
        return True
    if end is None or end.get("cause") or end.get("code") is None:
        return False  # the next engine starts the program again in a new directory, or records the failure
    return end["code"] == 0 or end["code"] in compiled.outcomes(task)


def _list_originals(opened: OpenProject, runs: Sequence[int]) -> dict[int, str]:
    """Return, by run number, the folder of the original project, for runs that only the original can resume.

    In a copied project, some of ``runs`` can be resumed or cancelled by the original project but not by the
    copy; only these are returned.
    """
    found: dict[int, str] = {}
    for number in runs:
        execution = opened.runs.run(number).execution
        platform = JournalStore(opened.database).header(execution).platform
        shared = find_shared_sandbox(opened.layout, opened.database, execution, platform)
        found |= {number: shared[0]} if shared is not None else {}
    return found


def _list_shared(opened: OpenProject) -> dict[str, str]:
    """Return, by path of a sandbox, the folder of the original project that may use this sandbox.

    Sandboxes inside of this copied project are left out, because the original does not use them.
    """
    originals, layout = opened.database.list_originals(), opened.layout
    store, found = JournalStore(opened.database), dict[str, str]()
    for execution in opened.runs.executions() if originals else ():
        identity = opened.database.identity_of(execution.number)
        for machine in planned_machines(store.header(execution.number).platform):
            root = layout.own_sandbox(machine, identity)
            if identity in originals and not root.is_relative_to(layout.project) and root.exists():
                found[str(root)] = originals[identity]
    return found


def _list_directories(products: ProductTable, executions: set[int]) -> set[str]:
    """Return the directories that hold the stored outputs of these executions."""
    return {directory for number in executions for directory in products.directories(number)}


def _choose_executions(opened: OpenProject, runs: Sequence[int]) -> tuple[list[ExecutionRecord], list[int]]:
    """Return the executions to clean and the numbers of the unfinished runs, which are kept.

    Raises InvalidInput if one of ``runs`` belongs to an unfinished execution.
    """
    if not runs:
        over = [each for each in opened.runs.executions() if each.state not in UNFINISHED]
        rest = [
            run.number
            for run in opened.runs.all()
            if opened.runs.execution(run.execution).state in UNFINISHED
        ]
        return over, rest
    meant = {}
    for number in runs:
        run = opened.runs.run(number)
        execution = opened.runs.execution(run.execution)
        if execution.state in UNFINISHED:
            what = f"run {number} is not finished: it can be resumed"
            raise InvalidInput(what, advice=f"`weft resume {number}`, or `weft cancel {number}` first")
        meant[execution.number] = execution
    return list(meant.values()), []


def _folders(
    opened: OpenProject, execution: int, header: JournalHeader, spared: set[str]
) -> Iterator[tuple[Path, str]]:
    """Yield (root, path relative to root) of each folder of an execution, without those in ``spared``."""
    number = str(execution)
    for machine in planned_machines(header.platform):
        for sandbox in _own_sandboxes(opened, execution, machine):
            if not any(directory.startswith(f"{sandbox / number}/") for directory in spared):
                yield sandbox, number
                continue
            for name in _names(sandbox / number):
                if str(sandbox / number / name) not in spared:
                    yield sandbox, f"{number}/{name}"
    for name in ("attempts", "runners", "checkpoints"):
        yield opened.layout.home, f"{name}/{number}"


def _own_sandboxes(opened: OpenProject, execution: int, machine: Machine) -> list[Path]:
    """Return the directories for attempts of an execution on a machine.

    The first is the subdirectory of the sandbox that belongs to this project or, for a copied execution, to
    the original project. Older versions of weft used the sandbox itself; it is included only if it is inside
    ``.weft``, where no other project uses it.
    """
    layout, identity = opened.layout, opened.database.identity_of(execution)
    sandbox = layout.sandbox(machine)
    own = [layout.own_sandbox(machine, identity)] if identity else []
    return [*own, sandbox] if sandbox.is_relative_to(layout.home) else own


def _names(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())
    except OSError:
        return []


def _sandboxes(opened: OpenProject) -> list[Path]:
    """Return the directories of this project in the sandboxes of all executions."""
    store = JournalStore(opened.database)
    found: dict[Path, None] = {}
    for execution in opened.runs.executions():
        for machine in planned_machines(store.header(execution.number).platform):
            found |= dict.fromkeys(_own_sandboxes(opened, execution.number, machine))
    return list(found)


def _remove(root: Path, name: str, found: CleanupResult, shared: Mapping[str, str], *, dry_run: bool) -> None:
    """Remove the folder ``name`` below a root and count its files in ``found``.

    If the root is in ``shared`` (see ``_list_shared``), only add the root to ``found.shared``.
    """
    if not os.path.lexists(root / name):
        return
    if str(root) in shared:
        found.shared[str(root)] = shared[str(root)]
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
        raise WeftError(f"{root}: {problem}; files removed before this error are not restored") from None


def _disk_usage(folder: Path) -> tuple[int, int]:
    """Return the number of files in a folder, and the total size of those that have no other hard link."""
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
