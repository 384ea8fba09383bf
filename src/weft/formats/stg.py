"""STG, the files of the Standard Task Graph Set (Kasahara laboratory, Waseda University), read only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from weft.documents import Document
from weft.errors import shorten
from weft.formats.format import ProblemCollector, ReadOnlyFormat, SourceFile, file_error
from weft.formats.graph import check_acyclic
from weft.workflow.task import Dependency, Task, TaskKind
from weft.workflow.workflow import Workflow

_WHOLE = re.compile(r"[0-9]{1,9}")
_TIME = re.compile(r"[0-9]{1,18}(?:\.[0-9]{0,18})?")
_REMARKS = r"(?:[ \t\r]*(?:#[^\n]*)?\n)*"
_HEAD = re.compile(
    _REMARKS + r"[ \t]*[0-9]{1,9}[ \t\r]*\n" + _REMARKS + r"[ \t]*[0-9]+[ \t]+[0-9.]+[ \t]+[0-9]+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StgRow:
    """One line that describes a task; the ids of predecessors are checked after all lines are read."""

    line: int
    ident: int
    seconds: float
    predecessors: tuple[int, ...]


class Stg(ReadOnlyFormat):
    """Task graphs of the Standard Task Graph Set.

    The first line is the number of tasks n; then follow n + 2 lines ``id time predecessors pred...``, of
    which the first and the last are dummies of time 0. Some files (``robot``, ``fpppp``) count the dummies in
    n and have n lines. Text after ``#`` is a comment. Dummies become virtual tasks; edges carry no data.
    """

    name = "stg"
    title = "Standard Task Graph Set (STG)"
    extensions: tuple[str, ...] = (".stg",)

    def recognises(self, source: SourceFile) -> bool:
        """Return whether the first line is one whole number and the next begins with three numbers."""
        return _HEAD.match(source.head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return the workflow of a task graph. Raises InvalidInput."""
        problems = ProblemCollector(source)
        lines = _lines(source.text())
        count = _read_count(source, next(lines, None))
        rows = [row for number, words in lines if (row := _read_row(number, words, problems)) is not None]
        problems.finish()
        if len(rows) not in (count, count + 2):
            what = f"{len(rows)} task lines, but the first line states {count} tasks"
            rule = f"must be {count + 2} lines, or {count} if the two dummies are counted"
            raise file_error(source, what, rule=rule, advice="the file may be cut off")
        if not rows:
            raise file_error(source, "the file has no tasks", rule="a task graph must have at least one task")
        return _workflow(source, rows, problems)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, words) for each line that is not empty; text after ``#`` is removed."""
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.partition("#")[0].split()
        if words:
            yield number, words


def _read_count(source: SourceFile, first: tuple[int, list[str]] | None) -> int:
    if first is None:
        raise file_error(source, "the file has no lines", rule="the first line must be the number of tasks")
    number, words = first
    if len(words) != 1 or not _WHOLE.fullmatch(words[0]):
        what = shorten(" ".join(words))
        raise file_error(source, f"{what!r}", line=number, rule="the first line must be the number of tasks")
    return int(words[0])


def _read_row(number: int, words: list[str], problems: ProblemCollector) -> _StgRow | None:
    for position, word in enumerate(words):
        if not (_TIME if position == 1 else _WHOLE).fullmatch(word):
            problems.add(f"{shorten(word)!r}", rule="must be a whole number, at least 0", line=number)
            return None
    if len(words) < 3:
        rule = "a line is: id, time, number of predecessors, predecessors"
        problems.add(f"a line with only {len(words)} numbers", rule=rule, line=number)
        return None
    ident, stated, predecessors = int(words[0]), int(words[2]), tuple([int(word) for word in words[3:]])
    if stated != len(predecessors):
        what = f"task {ident} has {len(predecessors)} predecessors, but the line states {stated}"
        problems.add(what, rule="the third number counts the predecessors", line=number)
        return None
    return _StgRow(line=number, ident=ident, seconds=float(words[1]), predecessors=predecessors)


def _workflow(source: SourceFile, rows: list[_StgRow], problems: ProblemCollector) -> Workflow:
    index_of: dict[int, int] = {}
    for index, row in enumerate(rows):
        if index_of.setdefault(row.ident, index) != index:
            first = rows[index_of[row.ident]].line
            what = f"a second task {row.ident}, the first is in line {first}"
            problems.add(what, rule="ids must be unique", line=row.line)
    parents: list[list[int]] = []
    for row in rows:
        for ident in row.predecessors:
            if ident not in index_of:
                problems.add(f"task {row.ident} waits for {ident}", rule="no task has this id", line=row.line)
        parents.append([index_of[ident] for ident in dict.fromkeys(row.predecessors) if ident in index_of])
    problems.finish()
    names = [str(row.ident) for row in rows]
    check_acyclic(source, names, parents)
    dummies = _find_dummies(rows, parents)
    edges = [Dependency(task=name) for name in names]
    tasks = tuple(
        Task(
            name=names[index],
            kind=TaskKind.VIRTUAL if index in dummies else TaskKind.COMPUTE,
            after=tuple([edges[parent] for parent in parents[index]]),
            work=None if index in dummies else row.seconds,
        )
        for index, row in enumerate(rows)
    )
    return Workflow(name=source.stem, tasks=tasks, document=Document(file=source.name))


def _find_dummies(rows: list[_StgRow], parents: list[list[int]]) -> set[int]:
    """Return the indices of the dummy tasks.

    The first task is a dummy if its time is 0 and it has no predecessors, the last task if its time is 0 and
    it has no successors.
    """
    last = len(rows) - 1
    found = set()
    if rows[0].seconds == 0 and not parents[0]:
        found.add(0)
    if rows[last].seconds == 0 and not any(last in above for above in parents):
        found.add(last)
    return found
