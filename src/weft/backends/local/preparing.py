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

from weft.backends.backend import Circumstances
from weft.backends.inputs import Inputs, Wanted, outputs_of
from weft.backends.jobs.fingerprints import fingerprint, why_stale
from weft.backends.jobs.problem import JobProblem
from weft.backends.jobs.rendered_job import RenderedJob
from weft.backends.jobs.rendering import news_files, render, results_needed
from weft.backends.local.attempt_records import AttemptRecords
from weft.backends.local.live import Live
from weft.backends.made import MadeSoFar, files_for
from weft.backends.products import MadeFile, Product
from weft.backends.sources.cache import Cache
from weft.backends.sources.fetching import Source, fetch
from weft.backends.sources.remote_files import is_url
from weft.backends.staging.keeping import restore
from weft.backends.staging.made import intact
from weft.backends.staging.placing import place
from weft.backends.staging.problem import StagingProblem
from weft.backends.staging.safe_paths import make_parents
from weft.backends.traces.results import growth_lines
from weft.engine.messages.commands import StageIn
from weft.engine.messages.events import Ended, StagedIn
from weft.engine.state.known import Known
from weft.expressions import Value

__all__ = ["Prepared", "Preparing"]


@dataclass(slots=True)
class Prepared:
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

    def failed(self, live: Live) -> Ended:
        """Give what is to be told of an attempt that cannot be run."""
        return Ended(
            attempt=live.number,
            exit_code=None,
            cause=self.cause,
            story=self.problem,
            lasting=self.lasting,
        )


class Preparing:
    """Brings files and renders programs; staging threads call it."""

    def __init__(
        self,
        circumstances: Circumstances,
        records: AttemptRecords,
        made: MadeSoFar,
        unrecorded: Callable[[Live, str], None],
    ) -> None:
        self._circumstances = circumstances
        self._records = records
        self._made = made
        self._inputs: dict[int, tuple[Known, Inputs]] = {}
        self._unrecorded = unrecorded
        self._caches: dict[int, Cache] = {}
        self._folders: dict[int, Path] = {}

    def is_plain(self, live: Live) -> bool:
        """Say whether an attempt needs no file, so that it can be prepared in no time."""
        known = self._circumstances.known_of(live.run)
        return not known.description(live.task).inputs and not (live.start and live.start.restart_from)

    def stage_in(self, live: Live, command: StageIn) -> StagedIn:
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

    def prepare(self, live: Live) -> Prepared:
        """Bring what is still missing, and write the program down."""
        try:
            return self._prepared(live)
        except StagingProblem as problem:
            return Prepared(problem=str(problem), lasting=problem.lasting)
        except JobProblem as problem:
            return Prepared(problem=str(problem), cause="error")

    def _prepared(self, live: Live) -> Prepared:
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
        job = render(
            known,
            start,
            machine,
            workdir=live.workdir_path,
            records=live.records_path,
            project=circumstances.layout.project,
            folder=self._folder(live.run),
            inputs=names,
            results=self._results(live, results_needed(known, live.task)),
            attempt_number=start.tries,
            restart=restarts,
        )
        scripts = self._bring_words(live, job)
        found = fingerprint(job, live.inputs, scripts)
        live.fingerprint, live.fingerprint_parts = found.key, dict(found.parts)
        taken = None if restarts else self._taken_over(live, found.key)
        if taken is not None:
            return taken
        live.stale = self._why_stale(live, known)
        return Prepared(message=self._written(live, job))

    def _restored(self, live: Live) -> bool:
        """Put the last restart files in place, if the attempt goes on from them."""
        circumstances, start = self._circumstances, live.start
        assert start is not None
        if not start.restart_from:
            return False
        kept = circumstances.layout.checkpoints(circumstances.execution, live.run, live.task)
        return restore(kept, live.workdir)

    def _bring(self, live: Live, wanted: Wanted) -> tuple[list[str], float]:
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
            Source(source, folder), live.workdir, wanted.name, shared=shared, compressed=wanted.compressed
        )
        if self._is_rewritten(live, brought.file.name):
            place(live.workdir, brought.file.name, live.workdir, brought.file.name, how="copy", modes="own")
        live.inputs[brought.file.name] = brought.file.digest
        return [brought.file.name], brought.copied_bytes

    def _bring_made(self, live: Live, wanted: Wanted, products: list[Product]) -> tuple[list[str], float]:
        moved, names = 0.0, []
        for product in products:
            for file in files_for(product, wanted.name):
                moved += self._bring_file(live, product, file)
                names.append(file.name)
        if not names:
            why = "the tasks that make it have made no such file"
            raise StagingProblem("cannot be brought", wanted.name, why, lasting=True)
        return names, moved

    def _bring_file(self, live: Live, product: Product, file: MadeFile) -> float:
        if live.inputs.get(file.name) == file.digest:
            return 0.0
        directory = Path(product.directory)
        if not intact(directory, file):
            why = f"what {product.name} has made was changed or removed since"
            raise StagingProblem("cannot be brought", file.name, why)
        own = self._is_rewritten(live, file.name)
        moved = place(
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

    def _is_rewritten(self, live: Live, name: str) -> bool:
        """Say whether a task writes a file it reads: then it must have one of its own, not a link."""
        return any(fnmatch.fnmatchcase(name, each) for each in self._written_names(live))

    def _written_names(self, live: Live) -> list[str]:
        known = self._circumstances.known_of(live.run)
        names = [*outputs_of(known, live.task, live.iteration), *news_files(known, live.task)[1]]
        return [f"{name}*" if name.endswith("/") else name for name in names]

    def _bring_words(self, live: Live, job: RenderedJob) -> dict[str, str]:
        """Bring the files of the workflow's folder that the command names: they are copies, not links."""
        folder = self._folder(live.run)
        found = {}
        for word in job.words:
            found[word] = fetch(Source(word, folder), live.workdir, word, how="copy").file.digest
        return found

    def _results(self, live: Live, needed: Mapping[str, int]) -> dict[str, dict[str, Value]]:
        found: dict[str, dict[str, Value]] = {}
        for name, task in needed.items():
            product = self._made.of(live.run, task)
            if product is not None:
                found[name] = {"exit_code": product.exit_code, "result": dict(product.result)}
        return found

    def _taken_over(self, live: Live, key: str) -> Prepared | None:
        """Make use of what an earlier execution has made from the same, if it is still there."""
        circumstances = self._circumstances
        product = circumstances.products.made_from(key, besides=circumstances.execution)
        if product is None:
            return None
        directory = Path(product.directory)
        if not all(intact(directory, file) for file in product.files):
            return None
        for file in product.files:
            place(directory, file.name, live.workdir, file.name, digest=file.digest)
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
        lines = dict(growth_lines(known, live.task, live.workdir_path, live.iteration))
        return Prepared(taken=taken, taken_from=product.execution, lines=lines)

    def _why_stale(self, live: Live, known: Known) -> str:
        old = self._circumstances.products.last_of(known.key, known.names[live.task])
        if old is None or old.execution == self._circumstances.execution:
            return ""
        return why_stale(live.fingerprint_parts, old) or "what it made was changed or removed"

    def _written(self, live: Live, job: RenderedJob) -> dict[str, Any] | None:
        """Write the program down where users look for it, and give what the runner is told."""
        start = live.start
        assert start is not None
        if job.argv is None:
            return None
        records = live.records_path
        self._records.begin(records)
        if job.needs_script:
            self._records.add(records, "command.sh", _script_of(job))
        else:
            self._records.add_later(
                records, "command.sh", partial(_script_of, job), partial(self._unrecorded, live)
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

    def _inputs_of(self, run: int) -> Inputs:
        """Give who makes which file of a run; a graph that has grown has more makers."""
        known = self._circumstances.known_of(run)
        found = self._inputs.get(run)
        if found is None or found[0] is not known:
            found = self._inputs[run] = known, Inputs(known)
        return found[1]

    def _folder(self, run: int) -> Path:
        found = self._folders.get(run)
        if found is None:
            found = self._folders[run] = Path(self._circumstances.folder_of(run))
        return found

    def _cache(self, machine: int) -> Cache:
        found = self._caches.get(machine)
        if found is None:
            described = self._circumstances.machines[machine]
            found = self._caches[machine] = Cache(self._circumstances.layout.cache(described))
        return found


def _script_of(job: RenderedJob) -> bytes:
    return job.script.encode(errors="surrogateescape")
