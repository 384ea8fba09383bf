"""Preparation of attempts: stage the inputs, render the command, and reuse equal products of earlier runs.

After all declared inputs are staged, everything that the outputs depend on is known. If an earlier execution
has a product with the same fingerprint, the files of that product are used and the program does not run.
"""

from __future__ import annotations

import errno
import fnmatch
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

from weft.backends.attempt.attempt import ActiveAttempt, AttemptRecords
from weft.backends.attempt.checkpoints import CheckpointKeeper
from weft.backends.attempt.command import (
    EPILOG,
    EVALUATOR,
    PROLOG,
    RUN_MODULE,
    RenderedJob,
    find_result_tasks,
    monitored_files,
    render_job,
    task_identity,
)
from weft.backends.attempt.content import Interrupted, interruptible
from weft.backends.attempt.digests import boot_id
from weft.backends.attempt.external_files import InputCache, InputSource, fetch
from weft.backends.attempt.fingerprint import (
    compute_fingerprint,
    compute_transfer_fingerprint,
    explain_staleness,
)
from weft.backends.attempt.inputs import (
    DeclaredInput,
    RunProducts,
    TaskInputs,
    has_outputs,
    loop_counters,
    output_names,
    select_files,
)
from weft.backends.attempt.isolation import isolate_program
from weft.backends.attempt.modules import module_number
from weft.backends.attempt.remote_disk import TOO_SMALL, RemoteDisk
from weft.backends.attempt.safe_paths import StagingProblem, make_parents, split_name
from weft.backends.attempt.staging import CopyPermissions, clone_or_copy, is_intact, looks_intact
from weft.backends.attempt.substitution import JobProblem
from weft.backends.attempt.task_files import has_sweep_files, read_sweep_lines
from weft.backends.attempt.trees import is_wildcard
from weft.backends.backend import Product, ProjectContext
from weft.backends.file_record import FileRecord
from weft.engine.messages import Ended, StagedIn, StageIn, Start
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.states import Cause
from weft.expressions import Value
from weft.records import dataclass
from weft.urls import is_url


@dataclass(slots=True)
class PreparedAttempt:
    """Result of preparing an attempt: a program to start, a reused product, or a problem."""

    order: dict[str, Any] | None = None
    """Order for the transport that starts the program; None: there is no program."""
    prolog: dict[str, Any] | None = None
    """Order that starts the task's own prolog before the program; None: there is no prolog, or it has run."""
    problem: str = ""
    cause: Cause = Cause.STAGING
    lasting: bool = False
    """Whether a retry would fail with the same problem."""
    holders: tuple[int, ...] = ()
    """The machine that holds the input which could not be staged; (): no machine holds it."""
    reused: Product | None = None
    """Product that replaces a run of the program, or a copy by a transfer. It is from an earlier execution.
    If source and destination of a transfer are parts of one machine, it is the product of the file's
    producer. Its files stay where they are.
    """
    reused_from: int = 0
    """Number of the earlier execution that made the reused product; 0: this execution made it."""
    lines: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By file name: the lines of a reused file that defines a sweep."""

    def failure(self, attempt: ActiveAttempt) -> Ended:
        """Return the event for an attempt that cannot be started."""
        return Ended(
            attempt=attempt.number,
            exit_code=None,
            cause=self.cause,
            story=self.problem,
            lasting=self.lasting,
            lost=self.holders,
        )


@dataclass(slots=True)
class PreparedModule:
    """Result of preparing a module: a program to start, or the problem that prevents the start."""

    order: dict[str, Any] | None = None
    """Order for the transport that starts the program; None: there is a problem."""
    problem: str = ""


class AttemptPreparer:
    """Stages files and renders commands; called by staging threads."""

    def __init__(
        self,
        context: ProjectContext,
        records: AttemptRecords,
        products: RunProducts,
        on_record_problem: Callable[[ActiveAttempt, str], None],
        disk_of: Callable[[Product], RemoteDisk | None] = lambda _: None,
    ) -> None:
        """Create the preparer; ``disk_of`` returns the disk of a product, None: a disk of this host."""
        self._disk_of = disk_of
        self._context = context
        self._records = records
        self._products = products
        self._on_record_problem = on_record_problem
        self._inputs: dict[int, tuple[CompiledWorkflow, TaskInputs]] = {}
        self._caches: dict[Path, InputCache] = {}
        self._folders: dict[int, Path] = {}
        self._boot = boot_id()

    def needs_no_files(self, attempt: ActiveAttempt) -> bool:
        """Return whether an attempt has neither inputs nor restart files, so that preparation is fast."""
        description = self._context.compiled_workflow(attempt.run).description(attempt.task)
        has_inputs = description.inputs or (attempt.start and attempt.start.restart_from)
        return attempt.disk is None and not has_inputs

    def stage_in(self, attempt: ActiveAttempt, command: StageIn) -> StagedIn | None:
        """Stage the inputs named by a command; return the event, or None if the attempt was abandoned.

        If an input could not be staged, ``lost`` of the event is the machine that holds the input. Whether
        that machine is really lost is not known here.
        """
        producers = {parcel.task for parcel in command.parcels if parcel.task >= 0}
        named = {parcel.name for parcel in command.parcels if parcel.source < 0}
        machine = self._context.machines[attempt.machine]
        moved, problem, lasting = 0.0, "", False
        holders: tuple[int, ...] = ()
        try:
            self._make_workdir(attempt)
            with interruptible(lambda: attempt.abandoned), _hold_mirror(attempt):
                for item in self._task_inputs(attempt.run).of(attempt.task, machine, attempt.iteration):
                    if producers.intersection(item.producers) or (item.source and item.source in named):
                        moved += self._stage(attempt, item)[1]
                if attempt.disk is not None:
                    attempt.disk.push(attempt)
        except Interrupted:
            return None
        except StagingProblem as error:
            problem, lasting, holders = str(error), error.lasting, self._holders(error)
        return StagedIn(
            attempt=attempt.number,
            part=command.part,
            problem=problem,
            moved_bytes=moved,
            lost=holders,
            lasting=lasting,
            route="; ".join(attempt.routes),
        )

    def transfer(self, attempt: ActiveAttempt, command: StageIn) -> PreparedAttempt:
        """Copy the file of a transfer to its destination; return a product if there is nothing to copy.

        There is nothing to copy if an earlier execution has made the same copy. There is also nothing to copy
        if the file has one producer, and source and destination are parts of one machine.
        """
        machines = self._context.machines
        here, there = machines[attempt.machine].host_name, machines[command.parcels[0].source].host_name
        try:
            with interruptible(lambda: attempt.abandoned):
                return self._transfer(attempt, here, moves=here != there)
        except StagingProblem as problem:
            return self._failed(problem)

    def _transfer(self, attempt: ActiveAttempt, host: str, *, moves: bool) -> PreparedAttempt:
        compiled = self._context.compiled_workflow(attempt.run)
        item = self._task_inputs(attempt.run).of_transfer(attempt.task, attempt.iteration)
        counters = attempt.counters or (attempt.iteration,)
        products = self._products.for_input(compiled, attempt.run, attempt.task, counters, item)
        files = [file for product in products for file in self._select(product, item.name)]
        if not files:
            why = "the tasks that produce it have written no such file"
            raise StagingProblem("cannot be copied", item.name, why, lasting=True)
        identity = task_identity(
            compiled, attempt.task, counters, self._folder(attempt.run), self._context.layout.project
        )
        digests = {file.name: file.digest for file in files}
        found = compute_transfer_fingerprint(identity, host, digests)
        attempt.fingerprint, attempt.fingerprint_parts = found.key, dict(found.parts)
        if (reused := self._reuse(attempt, found.key)) is not None:
            return reused
        if not moves and len(products) == 1:
            # The readers use the file where it is; its content is verified when they copy it.
            own = replace(products[0], fingerprint=found.key, parts=found.parts, files=tuple(files))
            return PreparedAttempt(reused=self._adopt(attempt, own))
        self._make_workdir(attempt)
        self._stage_products(attempt, item, products)
        if attempt.disk is not None:
            attempt.disk.push(attempt)
        return PreparedAttempt()

    def prepare(self, attempt: ActiveAttempt) -> PreparedAttempt:
        """Stage the remaining files and render the command; return the program, or why it cannot start.

        If the task moves to another machine and has a prolog, this method is called twice: before the prolog,
        and again for the engine's Start command.
        """
        try:
            with interruptible(lambda: attempt.abandoned):
                return self._prepare(attempt)
        except StagingProblem as problem:
            return self._failed(problem)
        except JobProblem as problem:
            return PreparedAttempt(problem=str(problem), cause=Cause.ERROR)

    def _failed(self, problem: StagingProblem) -> PreparedAttempt:
        return PreparedAttempt(problem=str(problem), lasting=problem.lasting, holders=self._holders(problem))

    def _holders(self, problem: StagingProblem) -> tuple[int, ...]:
        """Return the machine that holds the file of a staging problem; () if no machine holds it."""
        names = [machine.name for machine in self._context.machines]
        return (names.index(problem.holder),) if problem.holder in names else ()

    def _prepare(self, attempt: ActiveAttempt) -> PreparedAttempt:
        compiled = self._context.compiled_workflow(attempt.run)
        machine = self._context.machines[attempt.machine]
        description = compiled.description(attempt.task)
        # A task without a program needs no directory; there may be very many of them.
        if description.job or description.inputs or description.outputs:
            self._make_workdir(attempt)
        names: list[str] = []
        if description.inputs:
            for item in self._task_inputs(attempt.run).of(attempt.task, machine, attempt.iteration):
                names += self._stage(attempt, item)[0]
        if not attempt.has_prolog:
            attempt.restarted = self._restore_checkpoint(attempt)
        job = self._render(attempt, names)
        if attempt.scripts is None:
            attempt.scripts = self._stage_scripts(attempt, job)
        secrets = self._context.secrets_of(attempt.run)
        marks = secrets.fingerprint(description.job)
        found = compute_fingerprint(job, attempt.input_digests, attempt.scripts, marks)
        attempt.fingerprint, attempt.fingerprint_parts = found.key, dict(found.parts)
        reused = None if attempt.restarted else self._reuse(attempt, found.key)
        if reused is not None:
            return reused
        attempt.staleness = self._staleness(attempt, compiled)
        variables = secrets.environment(description.job)
        if attempt.disk is not None and description.job and description.job.prolog:
            attempt.disk.ensure_workdir(attempt)  # the start of the program would empty the directory
        prepared = PreparedAttempt(order=self._write_order(attempt, job, variables))
        if (
            prepared.order is not None
            and description.job
            and description.job.prolog
            and not attempt.has_prolog
        ):
            prepared.prolog = self._module_order(attempt, PROLOG, names)
        return prepared

    def _render(self, attempt: ActiveAttempt, inputs: Sequence[str], module: str = "") -> RenderedJob:
        """Render the program of an attempt; if ``module`` is not "", render the program of that module."""
        context, start = self._context, attempt.start or _expected_start(attempt)
        compiled = context.compiled_workflow(attempt.run)
        return render_job(
            compiled,
            start,
            context.machines[attempt.machine],
            workdir=attempt.workdir_path if attempt.disk is None else attempt.disk.workdir(attempt),
            records=attempt.records_path if attempt.disk is None else attempt.disk.records(attempt),
            project=context.layout.project,
            folder=self._folder(attempt.run),
            inputs=inputs,
            results=self._results(attempt, find_result_tasks(compiled, attempt.task)),
            attempt_number=start.tries,
            restart=attempt.restarted,
            secrets=context.secrets_of(attempt.run).names(compiled.description(attempt.task).job),
            module=module,
            run_module=RUN_MODULE if attempt.disk is None else attempt.disk.run_module,
        )

    def prepare_module(self, attempt: ActiveAttempt, module: str, given: bytes = b"") -> PreparedModule:
        """Render the program of a module of an attempt; ``given`` is its standard input.

        The files of the attempt are not changed, because its program may be running, or may have ended under
        an earlier engine.
        """
        try:
            order = self._module_order(attempt, module, self._input_names(attempt))
            if given:
                self._records.write(attempt.records_path, f"{module}.in", given)
                order["stdin"] = f"{attempt.records_path}/{module}.in"
                if attempt.disk is not None:
                    attempt.disk.prepare_records(attempt, {f"{module}.in": given})
                    order["stdin"] = f"{attempt.disk.records(attempt)}/{module}.in"
        except (StagingProblem, JobProblem) as problem:
            return PreparedModule(problem=str(problem))
        return PreparedModule(order=order)

    def _module_order(self, attempt: ActiveAttempt, module: str, inputs: Sequence[str]) -> dict[str, Any]:
        job = self._render(attempt, inputs, module)
        description = self._context.compiled_workflow(attempt.run).description(attempt.task).job
        order = self._order(attempt, job, self._context.secrets_of(attempt.run).environment(description))
        self._records.ensure(attempt.records_path)
        self._records.write(attempt.records_path, job.script_name, _encode_script(job))
        if attempt.disk is not None:
            attempt.disk.prepare_records(attempt, {job.script_name: _encode_script(job)})
        settings = self._context.task_settings(attempt.run, attempt.task)
        limits = {
            PROLOG: settings.prolog_timeout_s,
            EPILOG: settings.epilog_timeout_s,
            EVALUATOR: settings.evaluator_timeout_s,
        }
        beside = {"beside": attempt.number} if module == EVALUATOR else {}
        return {
            **order,
            **beside,
            "attempt": module_number(attempt.number, module),
            "nonce": os.urandom(16).hex(),
            "time_s": limits[module],
            "memory_bytes": None,
            "reminder": "",
        }

    def _input_names(self, attempt: ActiveAttempt) -> list[str]:
        """Return the names of the staged inputs of an attempt, without staging them."""
        compiled = self._context.compiled_workflow(attempt.run)
        if not compiled.description(attempt.task).inputs:
            return []
        names: list[str] = []
        machine = self._context.machines[attempt.machine]
        for item in self._task_inputs(attempt.run).of(attempt.task, machine, attempt.iteration):
            products = self._products.for_input(
                compiled, attempt.run, attempt.task, attempt.counters or (attempt.iteration,), item
            )
            if products:
                names += [file.name for each in products for file in self._select(each, item.name)]
            else:
                names += [_staged_name(source, name) for source, name in self._sources(attempt, item)]
        return names

    def _sources(self, attempt: ActiveAttempt, item: DeclaredInput) -> list[tuple[InputSource, str]]:
        """Return the sources of an input that is outside the sandboxes, each with its name after staging.

        A wildcard may match several files.
        """
        if item.source or item.is_url or not is_wildcard(item.name):
            return [(self._source(attempt, item, item.source or item.name), item.name)]
        # A literal name may be a link of the user, so what a wildcard matches may be one too.
        pattern = "/".join(split_name(item.name))
        found = sorted(glob(pattern, root_dir=self._folder(attempt.run), recursive=True))  # noqa: PTH207
        if not found:
            why = f"no file in '{self._folder(attempt.run)}' matches it"
            raise StagingProblem("cannot be fetched", item.name, why, number=errno.ENOENT, lasting=True)
        return [(self._source(attempt, item, name), name) for name in found]

    def _source(self, attempt: ActiveAttempt, item: DeclaredInput, text: str) -> InputSource:
        return InputSource(
            text,
            self._folder(attempt.run),
            compressed=item.compressed,
            max_bytes=item.max_bytes,
            is_name=not item.source and not item.is_url,
            location=item.location,
            below=item.below,
        )

    def _make_workdir(self, attempt: ActiveAttempt) -> None:
        with attempt.workdir_lock:
            if not attempt.has_workdir:
                self._records.make_workdir(attempt.workdir_path, recovered=attempt.recovered)
                attempt.has_workdir = True

    def _restore_checkpoint(self, attempt: ActiveAttempt) -> bool:
        """Stage the kept restart files if the attempt restarts from them; return whether any were staged."""
        if not (attempt.restart_from if attempt.start is None else attempt.start.restart_from):
            return False
        return CheckpointKeeper(self._context).restore(attempt)

    def _stage(self, attempt: ActiveAttempt, item: DeclaredInput) -> tuple[list[str], float]:
        """Stage one declared input; return the names of its files and the number of bytes copied."""
        compiled = self._context.compiled_workflow(attempt.run)
        counters = attempt.counters or (attempt.iteration,)
        products = self._products.for_input(compiled, attempt.run, attempt.task, counters, item)
        if products:
            return self._stage_products(attempt, item, products)
        names, moved = [], 0.0
        for source, declared in self._sources(attempt, item):
            names.append(name := _staged_name(source, declared))
            if name not in attempt.input_digests:
                moved += self._fetch(attempt, item, source, declared, name)
        return names, moved

    def _fetch(
        self, attempt: ActiveAttempt, item: DeclaredInput, source: InputSource, declared: str, name: str
    ) -> float:
        """Stage a file from outside the sandboxes; return the bytes copied."""
        fetched = self._cache(attempt.machine).stage(
            source,
            attempt.workdir,
            declared,
            # Decompressing takes longer than a copy, so a local file is decompressed only once.
            shared=item.shared or (item.compressed and not item.is_url),
            modes="own" if self._is_rewritten(attempt, name) else "read-only",
        )
        attempt.input_digests[name] = fetched.file.digest
        return fetched.copied_bytes

    def _stage_products(
        self, attempt: ActiveAttempt, item: DeclaredInput, products: list[Product]
    ) -> tuple[list[str], float]:
        moved, names = 0.0, []
        for product in products:
            for file in self._select(product, item.name):
                moved += self._stage_file(attempt, product, file)
                names.append(file.name)
        if not names:
            why = "the tasks that produce it have written no such file"
            raise StagingProblem("cannot be staged", item.name, why, lasting=True)
        return names, moved

    def _select(self, product: Product, name: str) -> list[FileRecord]:
        """Return the files of a product that match an input name (see ``select_files``)."""
        disk = self._disk_of(product)
        inside = [file for file in product.files if name.startswith(f"{file.name.rstrip('/')}/")]
        if disk is not None and inside and not name.endswith("/"):
            directory = disk.pull(product, inside[0])
            return select_files(replace(product, directory=str(directory)), name)
        return select_files(product, name)

    def _stage_file(self, attempt: ActiveAttempt, product: Product, file: FileRecord) -> float:
        if attempt.input_digests.get(file.name) == file.digest:
            return 0.0
        try:
            moved = self._copy_output(attempt, product, file)
        except StagingProblem as problem:
            problem.holder = product.machine
            raise
        attempt.input_digests[file.name] = file.digest
        return moved

    def _copy_output(self, attempt: ActiveAttempt, product: Product, file: FileRecord) -> float:
        """Copy an output of a task to the working directory of another; return the bytes copied."""
        modes: CopyPermissions = "own" if self._is_rewritten(attempt, file.name) else "read-only"
        disk = self._disk_of(product)
        if disk is not None and attempt.disk is not None and disk.name == attempt.disk.name:
            attempt.disk.copy(product, file, attempt, modes)
            return 0.0
        if disk is not None and attempt.disk is not None:
            problem = attempt.disk.copy_directly(disk, product, file, attempt, is_own=modes == "own")
            if not problem:
                attempt.routes[f"directly from {product.machine}"] = None
                return file.size_bytes
            if problem != TOO_SMALL:
                attempt.routes[f"from {product.machine} through this computer: {problem}"] = None
        directory = Path(product.directory) if disk is None else disk.pull(product, file)
        # The content is verified by the digest of the copy.
        if disk is None and not looks_intact(directory, file):
            why = f"the output of {product.name} was modified or removed"
            advice = f"a new `weft run` runs {product.name} again"
            raise StagingProblem("cannot be staged", file.name, why, advice=advice)
        copied_bytes = clone_or_copy(
            directory, file.name, attempt.workdir, file.name, modes=modes, digest=file.digest
        )
        return copied_bytes if attempt.disk is None else file.size_bytes

    def _is_rewritten(self, attempt: ActiveAttempt, name: str) -> bool:
        """Return whether the task overwrites an input; then the staged input must be writable."""
        compiled = self._context.compiled_workflow(attempt.run)
        machine = self._context.machines[attempt.machine]
        outputs = output_names(compiled, attempt.task, machine, attempt.iteration)
        written = [*outputs, *monitored_files(compiled, attempt.task)[1]]
        return any(fnmatch.fnmatchcase(name, f"{each}*" if each.endswith("/") else each) for each in written)

    def _stage_scripts(self, attempt: ActiveAttempt, job: RenderedJob) -> dict[str, str]:
        """Copy the files of the workflow's folder that the command names; return their digests."""
        folder = self._folder(attempt.run)
        return {
            word: fetch(
                InputSource(word, folder, is_name=True, below=below), attempt.workdir, word
            ).file.digest
            for word, below in job.words.items()
        }

    def _results(self, attempt: ActiveAttempt, needed: Mapping[str, int]) -> dict[str, dict[str, Value]]:
        found: dict[str, dict[str, Value]] = {}
        for name, task in needed.items():
            if (product := self._products.of(attempt.run, task)) is not None:
                found[name] = {"exit_code": product.exit_code, "result": dict(product.result)}
        return found

    def _reuse(self, attempt: ActiveAttempt, fingerprint: str) -> PreparedAttempt | None:
        """Return an intact product of an earlier execution with this fingerprint; None if there is none.

        The files of the product stay where they are: tasks that read them get copies, and ``weft clean``
        keeps files to which a product refers.
        """
        context = self._context
        product = context.products.find_by_fingerprint(fingerprint, besides=context.execution)
        if product is None:
            return None
        compiled = context.compiled_workflow(attempt.run)
        machine = context.machines[attempt.machine]
        names = output_names(compiled, attempt.task, machine, attempt.iteration)
        disk = self._disk_of(product)
        if disk is not None or is_url(product.directory):
            return self._reuse_remote(attempt, product, disk, names)
        directory = Path(product.directory)
        # Size, times and inode do not prove the content of a file that was measured before the last boot: a
        # power failure may have lost it.
        if not has_outputs(product, names) or not all(
            is_intact(directory, file, boot=product.boot) for file in product.files
        ):
            return None
        lines = dict(read_sweep_lines(compiled, attempt.task, product.directory, names))
        reused = self._adopt(attempt, product)
        return PreparedAttempt(reused=reused, reused_from=product.execution, lines=lines)

    def _reuse_remote(
        self, attempt: ActiveAttempt, product: Product, disk: RemoteDisk | None, names: list[str]
    ) -> PreparedAttempt | None:
        """Return a product on the disk of another host if it is intact; None: it cannot be used."""
        if disk is None or not has_outputs(product, names) or not disk.is_intact(product):
            return None
        compiled, lines = self._context.compiled_workflow(attempt.run), dict[str, tuple[str, ...]]()
        if has_sweep_files(compiled):
            places = [disk.pull(product, file) for file in product.files]
            workdir = str(places[0]) if places else attempt.workdir_path
            lines = dict(read_sweep_lines(compiled, attempt.task, workdir, names))
        reused = replace(self._adopt(attempt, product), boot=product.boot)
        return PreparedAttempt(reused=reused, reused_from=product.execution, lines=lines)

    def _adopt(self, attempt: ActiveAttempt, product: Product) -> Product:
        """Return a copy of a product's record for another attempt; the files of the product are not moved."""
        context = self._context
        compiled = context.compiled_workflow(attempt.run)
        return replace(
            product,
            execution=context.execution,
            run=attempt.run,
            task=attempt.task,
            name=compiled.names[attempt.task],
            kind=compiled.description(attempt.task).name,
            workflow=compiled.key,
            attempt=attempt.number,
            iteration=attempt.iteration,
            counters=attempt.counters,
            machine=context.machines[attempt.machine].name,
            boot=self._boot,
        )

    def _staleness(self, attempt: ActiveAttempt, compiled: CompiledWorkflow) -> str:
        """Explain why the product of the same iteration in an earlier execution is not reused.

        The explanation is "" if there is none, or if this run has already produced the outputs.
        """
        context, counters = self._context, attempt.counters or (attempt.iteration,)
        own = self._products.of(attempt.run, attempt.task)
        if own is not None and loop_counters(own) >= counters:
            return ""
        name = compiled.names[attempt.task]
        old = context.products.find_by_iteration(compiled.key, name, counters, besides=context.execution)
        if old is None:
            return ""
        if why := explain_staleness(attempt.fingerprint_parts, old):
            return why
        if old.fingerprint == attempt.fingerprint:
            return "its outputs were modified or removed"
        # The parts show every change within one version of weft.
        return "it was recorded by another version of weft"

    def _write_order(
        self, attempt: ActiveAttempt, job: RenderedJob, secrets: Mapping[str, str | None]
    ) -> dict[str, Any] | None:
        """Write ``command.sh`` for users, and return the order for the transport that starts the program.

        Only the order contains the values of secrets; it is never written to a file.
        """
        if job.argv is None:
            return None
        records = attempt.records_path
        self._records.create(records)
        if job.needs_script:
            self._records.write(records, "command.sh", _encode_script(job))
        else:
            self._records.write_later(
                records, "command.sh", partial(_encode_script, job), partial(self._on_record_problem, attempt)
            )
        for stream in job.streams:
            make_parents(attempt.workdir, stream)
        if attempt.disk is not None:
            attempt.disk.push(attempt)
            scripts = {"command.sh": _encode_script(job)} if job.needs_script else {}
            attempt.disk.prepare_records(attempt, scripts)
        compiled = self._context.compiled_workflow(attempt.run)
        order = self._order(attempt, job, secrets)
        if attempt.disk is not None:
            order |= attempt.disk.describe_start(attempt)
        return {**order, "restart": list(monitored_files(compiled, attempt.task)[1])}

    def _order(
        self, attempt: ActiveAttempt, job: RenderedJob, secrets: Mapping[str, str | None]
    ) -> dict[str, Any]:
        """Return the order for the transport that starts the program of ``job``."""
        start, records = attempt.start, attempt.records_path
        if attempt.disk is not None:
            self._refuse_local_programs(attempt, job)
            records = attempt.disk.records(attempt)
        argv, env = list(job.argv or ()), dict[str, str | None](job.env)
        if job.isolation is not None:
            argv, env = isolate_program(job, records)
        settings = self._context.task_settings(attempt.run, attempt.task)
        return {
            "do": "start",
            "attempt": attempt.number,
            "nonce": attempt.nonce,
            "argv": argv,
            "env": {**env, **secrets},
            "isolated": job.isolation is not None,
            "cwd": job.workdir,
            "stdin": job.stdin,
            "stdout": job.stdout,
            "stderr": job.stderr,
            "private": [each for each in (job.stdout, job.stderr) if each.startswith(f"{records}/")],
            "time_s": None if start is None else start.time_limit_s,
            "memory_bytes": None if start is None else start.memory_bytes,
            "grace_s": settings.ending_timeout_s,
            "reminder": attempt.save(),
        }

    def _refuse_local_programs(self, attempt: ActiveAttempt, job: RenderedJob) -> None:
        """Raise JobProblem for what needs weft on the machine itself."""
        machine = self._context.machines[attempt.machine].name
        if job.isolation is not None:
            what = f"the task cannot be isolated on {machine}"
            raise JobProblem(what, advice="run it without `isolation`, or on a local machine")

    def _task_inputs(self, run: int) -> TaskInputs:
        """Return the inputs of a run's tasks; they are computed again when the workflow has grown."""
        compiled = self._context.compiled_workflow(run)
        if (found := self._inputs.get(run)) is None or found[0] is not compiled:
            secrets = self._context.secrets_of(run).values
            found = self._inputs[run] = compiled, TaskInputs(compiled, secrets)
        return found[1]

    def _folder(self, run: int) -> Path:
        if (found := self._folders.get(run)) is None:
            found = self._folders[run] = Path(self._context.workflow_folder(run))
        return found

    def _cache(self, machine: int) -> InputCache:
        described = self._context.machines[machine]
        place = self._context.layout.cache(described, self._context.project)
        if (found := self._caches.get(place)) is None:
            found = self._caches[place] = InputCache(place, fresh=self._context.fresh)
        return found


def _hold_mirror(attempt: ActiveAttempt) -> AbstractContextManager[None]:
    """Return a context in which no other thread stages inputs of an attempt on a disk of its own.

    What is in the mirror is sent as a whole, so it must not contain files that are being written.
    """
    return nullcontext() if attempt.disk is None else attempt.disk.hold_mirror(attempt)


def _staged_name(source: InputSource, declared: str) -> str:
    return "/".join(split_name(source.staged_name(declared)))


def _expected_start(attempt: ActiveAttempt) -> Start:
    """Return the Start command that is expected for an attempt whose Start command is not known.

    The engine sends this command later, or an earlier engine has already sent it.
    """
    return Start(
        attempt=attempt.number,
        run=attempt.run,
        task=attempt.task,
        machine=attempt.machine,
        nodes=attempt.nodes,
        count=attempt.count,
        iteration=attempt.iteration,
        counters=attempt.counters,
        tries=attempt.tries,
        restart_from=attempt.restart_from,
    )


def _encode_script(job: RenderedJob) -> bytes:
    return job.script.encode(errors="surrogateescape")
