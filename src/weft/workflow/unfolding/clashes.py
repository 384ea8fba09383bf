"""Clashes that only the unfolded names show: two subtasks of one name, two writers of one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from weft.errors import Problem, shorten
from weft.workflow.unfolding.subtasks import Rows

__all__ = ["name_problems", "writer_problems"]


def name_problems(rows: Rows) -> Iterator[Problem]:
    """List the sweeps in which a point occurs twice."""
    if len(set(rows.names)) == len(rows.names):
        return
    for index, task in enumerate(rows.tasks):
        counted = Counter(rows.names[row] for row in rows.rows_of(index))
        twice = next((name for name, count in counted.items() if count > 1), None)
        if twice is not None:
            what = f"two subtasks {shorten(twice)}"
            rule = "a sweep has each point once"
            yield Problem(what=what, rule=rule, path=("tasks", task.name, "sweep"))


def writer_problems(
    rows: Rows, shared: Iterable[tuple[str, list[int]]], *, branches: bool
) -> Iterator[Problem]:
    """List the files with several writers, given their rows.

    With loops or branches a run may see only one of the writers, unless they are subtasks of one sweep.
    """
    reported: set[tuple[int, int]] = set()
    for file, writers in shared:
        first, *others = (rows.template[row] for row in writers)
        other = next((task for task in others if task == first or not branches), None)
        if other is None or (first, other) in reported:
            continue
        reported.add((first, other))
        yield _writer_problem(rows, shorten(file), first, other)


def _writer_problem(rows: Rows, file: str, first: int, other: int) -> Problem:
    one, two = rows.tasks[first], rows.tasks[other]
    if first == other and one.sweep is not None:
        what = f"several subtasks of {one.name} write {file!r}"
        advice = f"put its sweep variables into the name, such as {{{one.sweep.names[0]}}}"
    elif first == other:
        what, advice = f"{one.name} writes {file!r} twice", "name it once"
    else:
        what, advice = (
            f"{file!r} is written by {one.name} and by {two.name}",
            "give the files different names",
        )
    return Problem(
        what=what, rule="a file has one writer", advice=advice, path=("tasks", two.name, "outputs", file)
    )
