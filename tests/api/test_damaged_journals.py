"""Journals whose records were deleted, repeated or altered are refused with a message, or read."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pytest

import weft
from architecture.package import ROOT
from weft.api.journal import explain_task, replay_journal
from weft.errors import InvalidInput

WRONG = (None, True, -7, 10**6, 1.5, "x", [], {}, [1], {"a": 1})
DESCRIBED = ("platform", "workflows")
"""Keys of the header that are read as files are; other tests damage those."""

Keys = tuple[str | int, ...]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    file = tmp_path_factory.mktemp("journal") / "whole.jsonl"
    weft.simulate(ROOT / "examples" / "hello.yaml", on="identical:2", journal=file)
    return file.read_text().splitlines()


def problem_of(lines: list[str], folder: Path) -> str:
    """Replay and explain a journal; return the message if it is refused. Any other error fails the test."""
    file, found = folder / "damaged.jsonl", ""
    file.write_text("\n".join(lines) + "\n")
    for read in (lambda: replay_journal(file), lambda: explain_task(file, "prepare")):
        try:
            read()
        except InvalidInput as error:
            found = str(error)
    return found


def find_fields(value: Any, keys: Keys = ()) -> Iterator[Keys]:
    """Yield the keys of every value inside a record; of lists only the first items."""
    items = (
        value.items() if isinstance(value, dict) else enumerate(value[:4]) if isinstance(value, list) else ()
    )
    for key, item in items:
        yield (*keys, key)
        yield from find_fields(item, (*keys, key))


def altered(record: dict[str, Any], keys: Keys, *values: Any) -> str:
    """Return a record as a line, with another value at some keys; without a value, the key is removed."""
    changed = copy.deepcopy(record)
    inner: Any = changed
    for key in keys[:-1]:
        inner = inner[key]
    if values:
        inner[keys[-1]] = values[0]
    else:
        del inner[keys[-1]]
    return json.dumps(changed)


def test_journal_with_deleted_or_repeated_records_is_refused(lines: list[str], tmp_path: Path) -> None:
    assert problem_of(lines, tmp_path) == ""
    for index in range(1, len(lines) - 1):
        refused = problem_of([*lines[:index], *lines[index + 1 :]], tmp_path)
        assert "journal damaged at entry" in refused, lines[index]
        assert "restore the journal from a backup" in refused
        if '"n":' in lines[index][:6]:
            assert "journal damaged at entry" in problem_of([*lines[: index + 1], *lines[index:]], tmp_path)


def test_journal_with_reordered_records_is_refused(lines: list[str], tmp_path: Path) -> None:
    entries = [index for index, line in enumerate(lines) if '"n":' in line[:6]]
    for first, second in pairwise(entries):
        swapped = list(lines)
        swapped[first], swapped[second] = lines[second], lines[first]
        assert "journal damaged at entry" in problem_of(swapped, tmp_path)


def test_journal_with_altered_fields_is_read_or_refused_with_a_message(
    lines: list[str], tmp_path: Path
) -> None:
    values, refused = cycle(WRONG), 0
    for index, line in enumerate(lines):
        record = json.loads(line)
        for keys in find_fields({key: value for key, value in record.items() if key not in DESCRIBED}):
            for changed in (altered(record, keys), altered(record, keys, next(values))):
                refused += problem_of([*lines[:index], changed, *lines[index + 1 :]], tmp_path) != ""
    assert refused > 300


def test_error_about_a_wrong_type_names_entry_field_and_value(lines: list[str], tmp_path: Path) -> None:
    index = next(index for index, line in enumerate(lines) if '"event":["Ended"' in line)
    record = json.loads(lines[index])
    changed = altered(record, ("event", 1, "attempt"), "first")
    found = problem_of([*lines[:index], changed, *lines[index + 1 :]], tmp_path)
    assert (
        f"damaged.jsonl:{index + 1}: journal damaged: 'attempt' of Ended: 'first' is not a whole number"
        in found
    )
    assert "Error(" not in found
