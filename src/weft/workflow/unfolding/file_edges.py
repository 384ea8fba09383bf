"""Edges that files make: every reader of a file waits for its writers.

An explicit transfer of the file stands between them and takes its cost from the edge (unified section 7, C4):
nothing is counted twice.
"""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from functools import cached_property

from weft.errors import InvalidInput, Problem, shorten
from weft.expressions import Expression
from weft.workflow.records.data import Input, Output
from weft.workflow.records.quantity import Quantity, value_of
from weft.workflow.records.sweep import growth_file
from weft.workflow.unfolding.edges import Edges
from weft.workflow.unfolding.subtasks import Rows
from weft.workflow.wildcards import is_pattern, names_held

__all__ = ["FileEdges"]


class FileEdges:
    """Finds the writers of every file, then connects transfers and readers with them."""

    def __init__(self, rows: Rows, edges: Edges) -> None:
        self._rows = rows
        self._edges = edges
        self._row: list[int] = []
        self._output: list[Output] = []
        """Every output there is, and the row that writes it."""
        self._writer: dict[str, int] = {}
        """The first output of every name."""
        self._more: dict[str, list[int]] = {}
        """Further outputs of the same name."""
        self._patterns: list[tuple[str, int]] = []
        self._carried: dict[tuple[str, int], int] = {}
        """The transfer that brings a file to a binding variable."""
        self.source_variable: dict[int, int] = {}
        """Of transfers: the binding variable they start from."""
        self.transfer_bytes: dict[int, float] = {}
        """Of transfers: the bytes they move, where somebody says."""

    def connect(self) -> None:
        """Add all edges. What cannot be resolved is a problem in ``rows.problems``."""
        self._note_outputs()
        for row in self._rows.transfers:
            self._note_transfer(row)
        for row in self._rows.transfers:
            self._connect_transfer(row)
        self._connect_readers()
        self._connect_growth()

    def shared_names(self) -> list[tuple[str, list[int]]]:
        """List the files with several writers, with the rows that write them; not wildcards or folders."""
        return [
            (name, [self._row[number] for number in self._numbers(name)])
            for name in self._more
            if not is_pattern(name)
        ]

    def _note_outputs(self) -> None:
        rows, writer = self._rows, self._writer
        for row, template in enumerate(rows.template):
            for output in rows.tasks[template].outputs:
                name = output.file
                if "{" in name or "}" in name:
                    name = rows.filled(row, name)
                number = len(self._row)
                self._row.append(row)
                self._output.append(output)
                if writer.setdefault(name, number) != number:
                    self._more.setdefault(name, []).append(number)
                if is_pattern(name):
                    self._patterns.append((name + "*" if name.endswith("/") else name, number))

    def _numbers(self, name: str) -> list[int]:
        """List the outputs that are, or hold, the file of this name."""
        first = self._writer.get(name)
        if first is not None:
            return [first, *self._more.get(name, ())]
        return [number for pattern, number in self._patterns if fnmatch.fnmatchcase(name, pattern)]

    @cached_property
    def _names(self) -> list[str]:
        """Give the names of all outputs, in order."""
        return sorted(self._writer)

    def _note_transfer(self, row: int) -> None:
        transfer = self._rows.tasks[self._rows.template[row]].transfer
        assert transfer is not None
        name = self._rows.filled(row, transfer.file)
        self._carried[name, self._rows.variable[row]] = row

    def _connect_transfer(self, row: int) -> None:
        """Connect a transfer with what puts its file on the source machine."""
        rows, task = self._rows, self._rows.tasks[self._rows.template[row]]
        assert task.transfer is not None
        name, machine = rows.filled(row, task.transfer.file), rows.filled(row, task.transfer.source)
        source = rows.abstract.get(machine)
        if source is None:
            what = f"{rows.names[row]} moves {shorten(name)!r} from {shorten(machine)!r}, where no task runs"
            rule = "a transfer starts on the abstract machine of a task or of another transfer's end"
            advice = f"give the task that writes it `machine: {shorten(machine)}`"
            problem = Problem(what=what, rule=rule, advice=advice, path=("tasks", task.name, "from"))
            rows.problems.append(problem)
            return
        self.source_variable[row] = source
        numbers = self._numbers(name)
        self._note_bytes(row, task.transfer.size, numbers)
        brought = self._carried.get((name, source))
        here = [number for number in numbers if rows.variable[self._row[number]] == source]
        if here:
            for number in here:
                self._edges.add_data(self._row[number], row, 0.0, 0.0, 0.0)
        elif brought is not None and brought != row:
            self._edges.add_data(brought, row, 0.0, 0.0, 0.0)
        else:
            # Written elsewhere: before it can leave, the file comes to the source by itself.
            for number in numbers:
                self._connect_reader(number, row, None)

    def _note_bytes(self, row: int, size: Quantity | None, numbers: list[int]) -> None:
        """Note the bytes of a transfer: its own size, else that of the output it moves."""
        key = "size" if size is not None else "file"
        try:
            if size is not None:
                self.transfer_bytes[row] = _at_least_0(float(value_of(size, self._rows.context(row))))
                return
            sizes = [self._size(number)[0] for number in numbers]
        except InvalidInput as error:
            name = self._rows.tasks[self._rows.template[row]].name
            self._rows.complain(("tasks", name, key), error)
            return
        known = next((found for found in sizes if found is not None), None)
        if known is None:
            self._edges.unsized += 1
        else:
            self.transfer_bytes[row] = known

    def _connect_readers(self) -> None:
        rows, writer = self._rows, self._writer
        simple = not (self._more or self._patterns or self._carried)
        for row, template in enumerate(rows.template):
            for given in rows.tasks[template].inputs:
                name = given.file
                if "{" in name or "}" in name:
                    name = rows.filled(row, name)
                if not simple:
                    self._connect_file(row, name, given)
                elif (number := writer.get(name)) is not None:
                    self._connect_reader(number, row, given)
                elif is_pattern(given.file):
                    self._connect_file(row, name, given)

    def _connect_file(self, row: int, name: str, given: Input) -> None:
        numbers = self._numbers(name)
        if given.source is None and is_pattern(given.file):
            # Written so: what stands for a line that nobody knows yet is no wildcard.
            held = (number for made in names_held(self._names, name) for number in self._numbers(made))
            numbers = list(dict.fromkeys([*numbers, *held]))
        if numbers and self._is_brought(row, name, numbers):
            self._edges.add_data(self._carried[name, self._rows.variable[row]], row, 0.0, 0.0, 0.0)
            return
        for number in numbers:
            self._connect_reader(number, row, given)

    def _is_brought(self, row: int, name: str, numbers: list[int]) -> bool:
        """Say whether a transfer brings the file to the reader's machine, and no task there writes it."""
        variable = self._rows.variable[row]
        if (name, variable) not in self._carried:
            return False
        return all(self._rows.variable[self._row[number]] != variable for number in numbers)

    def _connect_reader(self, number: int, reader: int, given: Input | None) -> None:
        writer, output = self._row[number], self._output[number]
        if writer == reader:
            return
        size: Quantity | None = output.size
        seconds = output.seconds
        if size is None or seconds is not None or isinstance(size, Expression) or not size >= 0:
            try:
                size, fixed = self._size(number)
                if size is None and given is not None and given.size is not None:
                    size = _at_least_0(float(value_of(given.size, self._rows.context(reader))))
            except InvalidInput as error:
                self._complain(number, error)
                return
            if fixed is not None:
                self._edges.add_data(writer, reader, 0.0, 0.0, fixed)
                return
            self._edges.unsized += size is None
        self._edges.add_data(writer, reader, size or 0.0, 1.0, 0.0)

    def _size(self, number: int) -> tuple[float | None, float | None]:
        """Give bytes and fixed seconds of an output at its writer's point; None: not said."""
        output, context = self._output[number], self._rows.context(self._row[number])
        size, seconds = (
            None if given is None else _at_least_0(float(value_of(given, context)))
            for given in (output.size, output.seconds)
        )
        return size, seconds

    def _complain(self, number: int, error: InvalidInput) -> None:
        name = self._rows.tasks[self._rows.template[self._row[number]]].name
        path = ("tasks", name, "outputs", self._output[number].file)
        self._rows.problems += [replace(problem, path=path, place=None) for problem in error.problems]

    def _connect_growth(self) -> None:
        """Let a sweep over the lines of a file wait for the task that writes the file."""
        rows = self._rows
        swept = [(index, task.sweep) for index, task in enumerate(rows.tasks) if task.sweep is not None]
        files = [(index, growth_file(values)) for index, sweep in swept for _, values in sweep.variables]
        for index, file in files:
            if file is not None:
                writers = [self._row[number] for number in self._numbers(file)] or self._rows_named(file)
                for row in rows.rows_of(index):
                    self._edges.add_many([writer for writer in writers if writer != row], row)

    def _rows_named(self, file: str) -> list[int]:
        """Give the rows of the task ``split`` for ``split.parts``, where no file has that name."""
        task = file.partition(".")[0]
        found = [index for index, described in enumerate(self._rows.tasks) if described.name == task]
        return [row for index in found for row in self._rows.rows_of(index)]


def _at_least_0(number: float) -> float:
    if not number >= 0:
        raise InvalidInput(Problem(what=f"size {number:g}", rule="must be at least 0"))
    return number
