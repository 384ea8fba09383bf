"""Declared inputs of tasks, the tasks that produce them, and the products of a run.

The producers of a file are determined before the run. If several iterations of a loop produce a file, the
last product is used. Before the first product exists, the user's own file is used (the initial guess of a
calculation).

A path named by the user may lead anywhere. A value written by a task (a sweep line or a result) that is
substituted into such a path must not redirect it to another folder, neither by itself nor by a link.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.staging import measure_file
from weft.backends.backend import Product, ProductStore
from weft.backends.file_record import FileRecord
from weft.engine.state.compiled import CompiledWorkflow
from weft.expressions import Value
from weft.platform.machine import Machine
from weft.records import dataclass
from weft.urls import find_base, is_below, is_url, names_state, redirects
from weft.workflow.task import Task
from weft.workflow.task_graph import TaskGraph
from weft.workflow.templates import fill_template, format_value, is_pattern, list_fields, split_template

_PLAIN_WORD = "x"
_NAME_FIELD = "task"
"""Name of the template field for a task's name, which contains the values of its sweep variables."""


def refuse_redirection(task: Task, text: str, values: Mapping[str, Value]) -> None:
    """Raise StagingProblem if a value written by a task redirects a file name to another folder.

    The file name is compared with a second one, in which a plain word replaces each value written by a task.
    Both names must have the same base (see ``find_base``), and the file name must lead below the folder that
    the user states. It is not sufficient to check each value alone, because several harmless values can
    together form a URL, an absolute path or ``..``.
    """
    if not (fields := _fields_from_tasks(task, text)):
        return
    words = {name: format_value(values[name]) for name in fields if name in values}
    # The name of a subtask has a fixed beginning, so a URL in it is harmless.
    away = next((name for name, word in words.items() if name != _NAME_FIELD and redirects(word)), None)
    filled = fill_template(text, {**values, **words})
    if away is not None:
        raise _redirection(words[away], f"{{{away}}}")
    if names_state(filled):
        raise _redirection(filled, " and ".join(f"{{{name}}}" for name in fields))
    plain = _fill_plainly(text, values, fields)
    if find_base(filled) != find_base(plain) or not is_below(_stated_folder(text, values, fields), filled):
        raise _redirection(filled, " and ".join(f"{{{name}}}" for name in fields))


def stated_folder(task: Task, text: str, values: Mapping[str, Value]) -> str | None:
    """Return the folder that the user states for a file whose name contains values written by tasks.

    The result is "" for the workflow's folder, and None if the user states the whole name.
    """
    fields = _fields_from_tasks(task, text)
    return _stated_folder(text, values, fields) if fields else None


def _stated_folder(text: str, values: Mapping[str, Value], fields: Collection[str]) -> str:
    """Return the folder that a template names before the first value written by a task.

    The result is "" if the template names no folder there.
    """
    before = takewhile(lambda piece: isinstance(piece, str) or piece.name not in fields, split_template(text))
    template = "".join(piece if isinstance(piece, str) else f"{{{piece.name}}}" for piece in before)
    folder, slash, _ = fill_template(template, values).rpartition("/")
    return folder or slash


def _redirection(text: str, fields: str) -> StagingProblem:
    why = f"{fields} was written by a task, and such a value must not lead to another folder"
    return StagingProblem(
        "is refused", text, why, advice="let the program open the file itself", lasting=True
    )


def is_url_of_user(task: Task, text: str, values: Mapping[str, Value]) -> bool:
    """Return whether a file name is a URL even without the values that tasks wrote."""
    return is_url(_fill_plainly(text, values, _fields_from_tasks(task, text)))


def _fields_from_tasks(task: Task, text: str) -> list[str]:
    """Return the fields of a template whose values were written by tasks: results and lines of files."""
    from_file = task.sweep.from_file if task.sweep is not None else ()
    written = (*from_file, _NAME_FIELD) if from_file else ()
    names = [field.name for field in list_fields(text)]
    return [name for name in names if name in written or ("." in name and not name.startswith("machine."))]


def _fill_plainly(text: str, values: Mapping[str, Value], fields: Iterable[str]) -> str:
    return fill_template(text, {**values, **dict.fromkeys(fields, _PLAIN_WORD)})


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """A declared input of a task."""

    name: str
    """Name in the task's directory; may be a wildcard or a directory."""
    producers: tuple[int, ...] = ()
    """Tasks that produce the input."""
    source: str = ""
    """Location stated by the user; "": a file of the same name in the workflow's folder."""
    shared: bool = False
    compressed: bool = False
    max_bytes: float | None = None
    """Largest allowed size after decompression; None: the default limit."""
    is_url: bool = False
    """Whether the user has written a URL as the source, or as the name if there is no ``source``."""
    location: str = ""
    """The source with its secrets filled in; it is opened and never shown. "": the source has no secrets."""
    below: str | None = None
    """Folder that the user states for a name with values of tasks; None: no such values (see
    ``stated_folder``).
    """


def fill_secrets(text: str, values: Mapping[str, Value], secrets: Mapping[str, str]) -> str:
    """Return a template in which values and secrets are substituted; "" if it has no secrets.

    Values and secrets are substituted in one pass, so a value that itself contains a field ``{secret}`` does
    not reveal the secret.
    """
    if not any(field.name in secrets for field in list_fields(text)):
        return ""
    return fill_template(text, {**values, **secrets})


def placed_values(
    compiled: CompiledWorkflow, task: int, machine: Machine, iteration: int = 1
) -> dict[str, Value]:
    """Return the values of all fields that may occur in file names of a task on a machine."""
    return {
        **compiled.graph.context(task),
        "iteration": iteration,
        "task": compiled.names[task],
        "machine.name": machine.name,
        "machine.arch": machine.arch or "",
        "machine.os": machine.os or "",
    }


def output_names(compiled: CompiledWorkflow, task: int, machine: Machine, iteration: int = 1) -> list[str]:
    """Return the output names of a task on a machine; wildcards and directories stay as declared."""
    outputs = compiled.description(task).outputs
    if not outputs:
        return []
    names = placed_values(compiled, task, machine, iteration)
    return [fill_template(output.file, names) for output in outputs]


def has_outputs(product: Product, names: Sequence[str]) -> bool:
    """Return whether a product has every declared output; with an exit code above 0 some may be missing."""
    if product.exit_code:
        return True
    made = [file.name.rstrip("/") for file in product.files]
    # ``*`` of fnmatch also matches slashes; "**/" becomes "*", so that it matches no directory too.
    patterns = [name.rstrip("/").replace("**/", "*") for name in names]
    return all(
        pattern in made or any(fnmatch.fnmatchcase(each, pattern) for each in made) for pattern in patterns
    )


class ProducerIndex:
    """Index of the tasks that produce each file of a workflow, and of the transfers that copy the files.

    The rules are those of unfolding (``workflow.edges.FileDependencies``): a reader uses the copy that a
    transfer made for its abstract machine, unless a task of that machine writes the file.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self._producers: dict[str, list[int]] = {}
        self._patterns: list[tuple[str, int]] = []
        self._matches: dict[str, list[int]] = {}
        self._transfers: dict[tuple[str, int], int] = {}
        """By file and binding variable: the transfer that copies the file to the machine of that variable."""
        tasks = graph.workflow.tasks
        for task, template in enumerate(graph.template.tolist()):
            outputs, transfer = tasks[template].outputs, tasks[template].transfer
            context = graph.context(task) if outputs or transfer else {}
            for output in outputs:
                name = fill_template(output.file, context, last=False)
                self._producers.setdefault(name, []).append(task)
                if is_pattern(name):
                    self._patterns.append((name + "*" if name.endswith("/") else name, task))
            if transfer is not None:
                name = fill_template(transfer.file, context, last=False)
                self._transfers[name, int(graph.variable[task])] = task

    def of_reader(self, name: str, task: int, *, matching: bool = False) -> list[int]:
        """Return the tasks from whose products a task reads a file: the file's writers, or a transfer.

        If ``matching`` is True, the name is a wildcard or a directory, to which several tasks may write.
        """
        writers = self._writers(name)
        if matching:
            writers = list(dict.fromkeys([*writers, *self._matching(name)]))
        here = int(self._graph.variable[task])
        transfer = self._transfers.get((name, here))
        if transfer is None or any(int(self._graph.variable[each]) == here for each in writers):
            return writers
        return [transfer]

    def of_transfer(self, name: str, task: int) -> list[int]:
        """Return the tasks from whose products a transfer copies its file; empty: no task writes it."""
        writers, source = self._writers(name), int(self._graph.source_variable[task])
        here = [each for each in writers if int(self._graph.variable[each]) == source]
        earlier = self._transfers.get((name, source))
        if not here and earlier is not None and earlier != task:
            return [earlier]
        return here or writers

    def _writers(self, name: str) -> list[int]:
        """Return the tasks that produce a file, or files that match a wildcard or are inside a directory."""
        if (found := self._producers.get(name)) is not None:
            return found
        if is_pattern(name):
            return self._matching(name)
        return [task for pattern, task in self._patterns if fnmatch.fnmatchcase(name, pattern)]

    def _matching(self, pattern: str) -> list[int]:
        """Return the tasks with an output that a wildcard or a directory matches."""
        if (found := self._matches.get(pattern)) is None:
            whole = pattern + "*" if pattern.endswith("/") else pattern
            found = self._matches[pattern] = [
                task
                for made, tasks in self._producers.items()
                if fnmatch.fnmatchcase(made, whole)
                for task in tasks
            ]
        return found


class TaskInputs:
    """The declared inputs of a workflow's tasks, and the tasks that produce them."""

    def __init__(self, compiled: CompiledWorkflow, secrets: Mapping[str, str]) -> None:
        self._compiled = compiled
        self._secrets = secrets
        self._producers = ProducerIndex(compiled.graph)

    def of_transfer(self, task: int, iteration: int = 1) -> DeclaredInput:
        """Return the file that a transfer copies, as an input of the transfer."""
        transfer = self._compiled.description(task).transfer
        assert transfer is not None
        values = self._compiled.graph.context(task)
        key = fill_template(transfer.file, values, last=False)
        name = fill_template(transfer.file, {**values, "iteration": iteration})
        return DeclaredInput(name, tuple(self._producers.of_transfer(key, task)))

    def of(self, task: int, machine: Machine, iteration: int = 1) -> Iterator[DeclaredInput]:
        """Iterate over the inputs of a task in declared order; may raise StagingProblem."""
        described = self._compiled.description(task)
        inputs = described.inputs
        if not inputs:
            return
        names = placed_values(self._compiled, task, machine, iteration)
        context = self._compiled.graph.context(task)
        for item in inputs:
            name, source, producers = fill_template(item.file, names), "", tuple[int, ...]()
            text = item.source or item.file
            location = ""
            if item.source:
                refuse_redirection(described, item.source, names)
                source = fill_template(item.source, names)
                location = fill_secrets(item.source, names, self._secrets)
            if not source:
                made = fill_template(item.file, context, last=False)
                producers = tuple(self._producers.of_reader(made, task, matching=is_pattern(item.file)))
            stated = is_url_of_user(described, text, {**names, **self._secrets})
            below = stated_folder(described, text, {**names, **self._secrets})
            yield DeclaredInput(
                name, producers, source, item.shared, item.compressed, item.max_bytes, stated, location, below
            )


def find_carriers(compiled: CompiledWorkflow) -> frozenset[int]:
    """Return the tasks with outputs that a later iteration of a loop reads.

    Such outputs cannot be made again by running the predecessors of their readers.
    """
    index, found = ProducerIndex(compiled.graph), set[int]()
    for body in compiled.graph.loops:
        members = set(body.tasks.tolist())
        for reader in members:
            described, context = compiled.description(reader), compiled.graph.context(reader)
            writers = set[int]()
            if described.transfer is not None:
                key = fill_template(described.transfer.file, context, last=False)
                writers.update(index.of_transfer(key, reader))
            for item in described.inputs:
                if not item.source:
                    key = fill_template(item.file, context, last=False)
                    writers.update(index.of_reader(key, reader, matching=is_pattern(item.file)))
            found |= (writers & members).difference(compiled.before(reader))
    return frozenset(found)


class RunProducts:
    """The last two products of every task; a loop may read the product of the previous iteration."""

    def __init__(self, products: ProductStore, execution: int) -> None:
        self._products = products
        self._execution = execution
        self._last: dict[tuple[int, int], Product] = {}
        self._before: dict[tuple[int, int], Product] = {}

    def add(self, product: Product) -> None:
        """Add a product; one without files, result and exit code is ignored, because no task reads it."""
        if not product.files and not product.result and not product.exit_code:
            return
        key = product.run, product.task
        if (old := self._last.get(key)) is not None and loop_counters(old) < loop_counters(product):
            self._before[key] = old
        self._last[key] = product

    def of(self, run: int, task: int) -> Product | None:
        """Return the last product of a task, which an earlier process may have added; None: there is none."""
        if (found := self._last.get((run, task))) is None:
            found = self._products.of(self._execution, run, task)
        return found

    def for_input(
        self, compiled: CompiledWorkflow, run: int, task: int, counters: tuple[int, ...], item: DeclaredInput
    ) -> list[Product]:
        """Return the products from which an input is staged; [] if none exists yet.

        ``counters`` are the iterations of the loops around the task, outermost first. If the producer
        precedes the task in the loop body, its last product is used. If the producer comes later in the body,
        its product of the previous iteration of the loops around both tasks is used. If several tasks write
        the file, tasks that were skipped in this iteration provide their last products only if no other task
        provides one.
        """
        found, stale = list[Product](), list[Product]()
        before = compiled.before(task) if item.producers else ()
        for producer in item.producers:
            product = self.of(run, producer)
            if product is not None and producer not in before:
                common = max(1, _count_common_loops(compiled, producer, task))
                if loop_counters(product)[:common] >= counters[:common]:
                    product = self._before.get((run, producer)) or self._products.previous(product)
            elif product is not None and len(item.producers) > 1:
                common = _count_common_loops(compiled, producer, task)
                if loop_counters(product)[:common] < counters[:common]:
                    stale.append(product)
                    continue
            if product is not None:
                found.append(product)
        return found or stale


def loop_counters(product: Product) -> tuple[int, ...]:
    """Return the iterations of the loops around a product's task, outermost first.

    They increase during a run.
    """
    return product.counters or (product.iteration,)


def _count_common_loops(compiled: CompiledWorkflow, one: int, other: int) -> int:
    """Return the number of loops around both of two tasks."""
    return sum(1 for body in compiled.graph.loops if one in body.tasks and other in body.tasks)


def select_files(product: Product, name: str) -> list[FileRecord]:
    """Return the files of a product that match an input name, or the file inside a produced directory."""
    if name.endswith("/"):
        folder = name.rstrip("/")
        return [
            file for file in product.files if file.name.rstrip("/") == folder or file.name.startswith(name)
        ]
    # A file may have the name of the pattern that it matches; ``[1]`` as a pattern does not match itself.
    found = [file for file in product.files if file.name == name or fnmatch.fnmatchcase(file.name, name)]
    if found or not any(name.startswith(f"{file.name.rstrip('/')}/") for file in product.files):
        return found
    return [measure_file(Path(product.directory), name)]
