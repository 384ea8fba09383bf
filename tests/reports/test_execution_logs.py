"""Last lines of logs are read from regular files of the attempt only."""

from __future__ import annotations

import os

import pytest

from weft.backends.layout import ProjectLayout
from weft.reports.execution_records import AttemptLogs


@pytest.fixture
def records(tmp_path):
    project = tmp_path / "project"
    folder = ProjectLayout(project).records(1, 7, "ab12")
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def logs(records):
    return AttemptLogs(layout=ProjectLayout(records.parents[3]), execution=1, nonce=lambda _: "ab12")


def test_standard_error_is_shown_before_standard_output(logs, records):
    (records / "out").write_text("fine\n")
    assert logs.last(7).lines == ("fine",)
    (records / "err").write_text("\n\n")
    assert logs.last(7).path.endswith("/7-ab12/out"), "blank lines say nothing"
    (records / "err").write_text("not fine\n")
    assert (logs.last(7).path, logs.last(7).lines) == (".weft/attempts/1/7-ab12/err", ("not fine",))


def test_missing_log_is_not_an_error(logs):
    assert logs.last(7) is None
    assert logs.last(8) is None


def test_only_the_end_of_a_large_log_is_read(logs, records):
    with (records / "err").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"x" * 5_000 + b"\nthe end\n")
    last = logs.last(7)
    assert last.lines[-1] == "the end"
    assert len(last.lines) <= 10
    assert max(map(len, last.lines)) <= 500


def test_control_characters_are_removed(logs, records):
    (records / "err").write_bytes(b"\x1b]0;title\x07\x1b[2Jred\tblue\xff\r10%\r20%\n")
    assert logs.last(7).lines == ("?]0;title??[2Jred   blue\ufffd", "10%", "20%")


def test_links_in_place_of_logs_are_not_followed(logs, records, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    (records / "err").symlink_to(secret)
    assert logs.last(7) is None
    other = tmp_path / "8"
    other.mkdir()
    (other / "err").write_text("secret\n")
    (records.parent / "8").symlink_to(other)
    assert logs.last(8) is None, "nor one on the way"


def test_pipe_or_directory_in_place_of_a_log_is_not_read(logs, records):
    os.mkfifo(records / "err")
    (records / "out").mkdir()
    assert logs.last(7) is None
