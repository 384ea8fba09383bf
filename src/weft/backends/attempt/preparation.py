"""Preparing an attempt: its files come to its directory, and its program is written down.

Every declared input is brought, whoever makes it; then everything the program is made from is known, and with
it whether an earlier execution has done the same (design section 7).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from weft.backends.attempt.attempt import ActiveAttempt, AttemptRecords
from weft.backends.attempt.checkpoints import restore_checkpoint
from weft.backends.attempt.command import RenderedJob, find_result_tasks, monitored_files, render_job
from weft.backends.attempt.external_files import InputCache, InputSource, fetch, is_url
from weft.backends.attempt.fingerprint import compute_fingerprint, explain_staleness
from weft.backends.attempt.inputs import DeclaredInput, RunProducts, TaskInputs, output_names, select_files
from weft.backends.attempt.safe_paths import StagingProblem, make_parents
from weft.backends.attempt.staging import is_intact, link_or_copy
from weft.backends.attempt.substitution import JobProblem
from weft.backends.attempt.task_files import read_sweep_lines
from weft.backends.backend import BackendContext, FileRecord, Product
from weft.engine.messages import Ended, StagedIn, StageIn
from weft.engine.state.compiled import CompiledWorkflow
from weft.expressions import Value

__all__ = ["AttemptPreparer", "PreparedAttempt"]


@dataclass(slots=True)
class PreparedAttempt:
    """What is ready to be run; or why it is not, or need not be."""

    message: dict[str, Any] | None = None
    """What the runner is told; None: there is no program."""
    problem: str = ""
    cause: str = "staging"
    lasting: bool = False
    """Whether the problem would be the same another time."""
    taken: Product | None = None
    """What an earlier execution has made from the same, now in this attempt's directory."""
    taken_from: int = 0
    lines: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def failed(self, live: ActiveAttempt) -> Ended:
        """Give what is to be told of an attempt that cannot be run."""
        return Ended(
            attempt=live.number,
            exit_code=None,
            cause=self.cause,
            story=self.problem,
            lasting=self.lasting,
        )


class AttemptPreparer:
    """Brings files and renders programs; staging threads call it."""

    def __init__(
        self,
        circumstances: BackendContext,
        records: AttemptRecords,
        made: RunProducts,
        unrecorded: Callable[[ActiveAttempt, str], None],
    ) -> None:
        self._circumstances = circumstances
        self._records = records
        self._made = made
        self._inputs: dict[int, tuple[CompiledWorkflow, TaskInputs]] = {}
        self._unrecorded = unrecorded
        self._caches: dict[int, InputCache] = {}
        self._folders: dict[int, Path] = {}

    def is_plain(self, live: ActiveAttempt) -> bool:
        """Say whether an attempt needs no file, so that it can be prepared in no time."""
        known = self._circumstances.known_of(live.run)
        return not known.description(live.task).inputs and not (live.start and live.start.restart_from)

    def stage_in(self, live: ActiveAttempt, command: StageIn) -> StagedIn:
        """Bring parcels to an attempt's directory, and give what is to be told of it."""
        makers = {parcel.task for parcel in command.parcels if parcel.task >= 0}
        named = {parcel.name for parcel in command.parcels if parcel.source < 0}
        machine = self._circumstances.machines[live.machine]
        moved, why, lasting = 0.0, "", False
        try:
            self._records.make_workdir(live.workdir_path)
            for wanted in self._inputs_of(live.run).of(live.task, machine, live.iteration):
                if makers.intersection(wanted.makers) or (wanted.source and wanted.source in named):
                    moved += self._bring(live, wanted)[1]
        except StagingProblem as problem:
            why, lasting = str(problem), problem.lasting
        return StagedIn(
            attempt=live.number, part=command.part, problem=why, moved_bytes=moved, lasting=lasting
        )

    def prepare(self, live: ActiveAttempt) -> PreparedAttempt:
        """Bring what is still missing, and write the program down."""
        try:
            return self._prepared(live)
        except StagingProblem as problem:
            return PreparedAttempt(problem=str(problem), lasting=problem.lasting)
        except JobProblem as problem:
            return PreparedAttempt(problem=str(problem), cause="error")

    def _prepared(self, live: ActiveAttempt) -> PreparedAttempt:
        circumstances, start = self._circumstances, live.start
        assert start is not None
        known = circumstances.known_of(live.run)
        machine = circumstances.machines[live.machine]
        described = known.description(live.task)
        # A task without a program, of which there may be very many, needs none.
        if described.job or described.inputs or described.outputs:
            self._records.make_workdir(live.workdir_path)
        names: list[str] = []
        if described.inputs:
            for wanted in self._inputs_of(live.run).of(live.task, machine, live.iteration):
                names += self._bring(live, wanted)[0]
        restarts = self._restored(live)
        job = render_job(
            known,
            start,
            machine,
            workdir=live.workdir_path,
            records=live.records_path,
            project=circumstances.layout.project,
            folder=self._folder(live.run),
            inputs=names,
            results=self._results(live, find_result_tasks(known, live.task)),
            attempt_number=start.tries,
            restart=restarts,
        )
        scripts = self._bring_words(live, job)
        found = compute_fingerprint(job, live.inputs, scripts)
        live.fingerprint, live.fingerprint_parts = found.key, dict(found.parts)
        taken = None if restarts else self._taken_over(live, found.key)
        if taken is not None:
            return taken
        live.stale = self._why_stale(live, known)
        return PreparedAttempt(message=self._written(live, job))

    def _restored(self, live: ActiveAttempt) -> bool:
        """Put the last restart files in place, if the attempt goes on from them."""
        circumstances, start = self._circumstances, live.start
        assert start is not None
        if not start.restart_from:
            return False
        kept = circumstances.layout.checkpoints(circumstances.execution, live.run, live.task)
        return restore_checkpoint(kept, live.workdir)

    def _bring(self, live: ActiveAttempt, wanted: DeclaredInput) -> tuple[list[str], float]:
        """Bring one declared input; give the names under which it lies there, and the bytes moved."""
        known = self._circumstances.known_of(live.run)
        products = self._made.for_input(known, live.run, live.task, live.iteration, wanted)
        if products:
            return self._bring_made(live, wanted, products)
        folder = self._folder(live.run)
        source = wanted.source or wanted.name
        # Through the cache, so that no task ever holds a link to the user's own file.
        shared = wanted.shared or not is_url(source)
        brought = self._cache(live.machine).bring(
            InputSource(source, folder),
            live.workdir,
            wanted.name,
            shared=shared,
            compressed=wanted.compressed,
        )
        if self._is_rewritten(live, brought.file.name):
            link_or_copy(
                live.workdir, brought.file.name, live.workdir, brought.file.name, how="copy", modes="own"
            )
        live.inputs[brought.file.name] = brought.file.digest
        return [brought.file.name], brought.copied_bytes

    def _bring_made(
        self, live: ActiveAttempt, wanted: DeclaredInput, products: list[Product]
    ) -> tuple[list[str], float]:
        moved, names = 0.0, []
        for product in products:
            for file in select_files(product, wanted.name):
                moved += self._bring_file(live, product, file)
                names.append(file.name)
        if not names:
            why = "the tasks that make it have made no such file"
            raise StagingProblem("cannot be brought", wanted.name, why, lasting=True)
        return names, moved

    def _bring_file(self, live: ActiveAttempt, product: Product, file: FileRecord) -> float:
        if live.inputs.get(file.name) == file.digest:
            return 0.0
        directory = Path(product.directory)
        if not is_intact(directory, file):
            why = f"what {product.name} has made was changed or removed since"
            raise StagingProblem("cannot be brought", file.name, why)
        own = self._is_rewritten(live, file.name)
        moved = link_or_copy(
            directory,
            file.name,
            live.workdir,
            file.name,
            how="copy" if own else "link",
            modes="own" if own else "kept",
            digest=file.digest,
        )
        live.inputs[file.name] = file.digest
        return moved

    def _is_rewritten(self, live: ActiveAttempt, name: str) -> bool:
        """Say whether a task writes a file it reads: then it must have one of its own, not a link."""
        return any(fnmatch.fnmatchcase(name, each) for each in self._written_names(live))

    def _written_names(self, live: ActiveAttempt) -> list[str]:
        known = self._circumstances.known_of(live.run)
        names = [*output_names(known, live.task, live.iteration), *monitored_files(known, live.task)[1]]
        return [f"{name}*" if name.endswith("/") else name for name in names]

    def _bring_words(self, live: ActiveAttempt, job: RenderedJob) -> dict[str, str]:
        """Bring the files of the workflow's folder that the command names: they are copies, not links."""
        folder = self._folder(live.run)
        found = {}
        for word in job.words:
            found[word] = fetch(InputSource(word, folder), live.workdir, word, how="copy").file.digest
        return found

    def _results(self, live: ActiveAttempt, needed: Mapping[str, int]) -> dict[str, dict[str, Value]]:
        found: dict[str, dict[str, Value]] = {}
        for name, task in needed.items():
            product = self._made.of(live.run, task)
            if product is not None:
                found[name] = {"exit_code": product.exit_code, "result": dict(product.result)}
        return found

    def _taken_over(self, live: ActiveAttempt, key: str) -> PreparedAttempt | None:
        """Make use of what an earlier execution has made from the same, if it is still there."""
        circumstances = self._circumstances
        product = circumstances.products.find_by_fingerprint(key, besides=circumstances.execution)
        if product is None:
            return None
        directory = Path(product.directory)
        if not all(is_intact(directory, file) for file in product.files):
            return None
        for file in product.files:
            link_or_copy(directory, file.name, live.workdir, file.name, digest=file.digest)
        known = circumstances.known_of(live.run)
        machine = circumstances.machines[live.machine].name
        taken = replace(
            product,
            execution=circumstances.execution,
            run=live.run,
            task=live.task,
            name=known.names[live.task],
            kind=known.description(live.task).name,
            workflow=known.key,
            attempt=live.number,
            iteration=live.start.iteration if live.start is not None else 1,
            machine=machine,
            directory=live.workdir_path,
        )
        lines = dict(read_sweep_lines(known, live.task, live.workdir_path, live.iteration))
        return PreparedAttempt(taken=taken, taken_from=product.execution, lines=lines)

    def _why_stale(self, live: ActiveAttempt, known: CompiledWorkflow) -> str:
        old = self._circumstances.products.find_by_name(known.key, known.names[live.task])
        if old is None or old.execution == self._circumstances.execution:
            return ""
        return explain_staleness(live.fingerprint_parts, old) or "what it made was changed or removed"

    def _written(self, live: ActiveAttempt, job: RenderedJob) -> dict[str, Any] | None:
        """Write the program down where users look for it, and give what the runner is told."""
        start = live.start
        assert start is not None
        if job.argv is None:
            return None
        records = live.records_path
        self._records.begin(records)
        if job.needs_script:
            self._records.add(records, "command.sh", _encode_script(job))
        else:
            self._records.add_later(
                records, "command.sh", partial(_encode_script, job), partial(self._unrecorded, live)
            )
        for stream in job.streams:
            make_parents(live.workdir, stream)
        return {
            "do": "start",
            "attempt": live.number,
            "argv": list(job.argv),
            "env": dict(job.env),
            "cwd": job.workdir,
            "stdin": job.stdin,
            "stdout": job.stdout,
            "stderr": job.stderr,
            "time_s": start.time_limit_s,
            "memory_bytes": start.memory_bytes,
            "reminder": live.reminder(),
        }

    def _inputs_of(self, run: int) -> TaskInputs:
        """Give who makes which file of a run; a graph that has grown has more makers."""
        known = self._circumstances.known_of(run)
        found = self._inputs.get(run)
        if found is None or found[0] is not known:
            found = self._inputs[run] = known, TaskInputs(known)
        return found[1]

    def _folder(self, run: int) -> Path:
        found = self._folders.get(run)
        if found is None:
            found = self._folders[run] = Path(self._circumstances.folder_of(run))
        return found

    def _cache(self, machine: int) -> InputCache:
        found = self._caches.get(machine)
        if found is None:
            described = self._circumstances.machines[machine]
            found = self._caches[machine] = InputCache(self._circumstances.layout.cache(described))
        return found


def _encode_script(job: RenderedJob) -> bytes:
    return job.script.encode(errors="surrogateescape")
