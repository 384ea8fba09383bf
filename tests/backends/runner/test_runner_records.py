"""Records of a runner are accepted only with a valid seal and under their own name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.backends.runner.records import RecordLog, SealedRecords, encode_record


@pytest.fixture
def records(tmp_path: Path) -> Iterator[SealedRecords]:
    made = SealedRecords(str(tmp_path), "token")
    yield made
    made.close()


def test_runner_records_are_read_back(records: SealedRecords, tmp_path: Path) -> None:
    records.write("pid", {"pid": 1, "text": "ä\n\udcff"})
    records.write("pid", {"pid": 2})
    assert records.read("pid") == {"pid": 2}
    assert records.read("absent") is None
    assert [path.name for path in tmp_path.iterdir()] == ["pid"]
    assert (tmp_path / "pid").stat().st_mode & 0o777 == 0o600


def test_records_without_valid_seal_are_ignored(records: SealedRecords, tmp_path: Path) -> None:
    records.write("pid", {"pid": 1})
    genuine = (tmp_path / "pid").read_bytes()
    (tmp_path / "beat").write_bytes(genuine)
    assert records.read("beat") is None
    connection = SealedRecords(str(tmp_path), "another token")
    assert connection.read("pid") is None
    connection.write("pid", {"pid": 1})
    connection.close()
    assert records.read("pid") is None
    (tmp_path / "pid").write_bytes(genuine.replace(b'"pid":1', b'"pid":7'))
    assert records.read("pid") is None
    (tmp_path / "pid").write_bytes(genuine)
    assert records.read("pid") == {"pid": 1}


@given(data=st.binary(max_size=60))
def test_random_bytes_in_place_of_a_record_are_ignored(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("noise")
    (folder / "pid").write_bytes(data)
    (folder / "ends").write_bytes(data)
    noise = SealedRecords(str(folder), "token")
    assert noise.read("pid") is None
    assert RecordLog.read(noise, "ends") == {}
    noise.close()


def test_fifos_links_and_directories_are_ignored(records: SealedRecords, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    records.write("pid", {"pid": 1})
    (tmp_path / "link").symlink_to(tmp_path / "pid")
    assert [records.read(name) for name in ("pipe", "folder", "link")] == [None] * 3
    canary = tmp_path / "canary"
    canary.write_text("kept")
    (tmp_path / "new").symlink_to(canary)
    records.write("pid", {"pid": 2})
    assert records.read("pid") == {"pid": 2}
    os.mkfifo(tmp_path / "new")
    records.write("pid", {"pid": 3})
    assert records.read("pid") == {"pid": 3}
    (tmp_path / "starts").symlink_to(canary)
    with pytest.raises(OSError):
        RecordLog(records, "starts")
    assert canary.read_text() == "kept"


def test_log_returns_the_last_record_of_each_attempt(records: SealedRecords) -> None:
    ledger = RecordLog(records, "ends")
    for attempt, code in ((3, 0), (1, 1), (3, 2)):
        ledger.add(encode_record({"attempt": attempt, "code": code}))
    assert ledger.lines == 3
    assert RecordLog.read(records, "ends") == {3: {"attempt": 3, "code": 2}, 1: {"attempt": 1, "code": 1}}
    ledger.rewrite([encode_record({"attempt": 1, "code": 1})])
    ledger.add(encode_record({"attempt": 4, "code": 4}))
    assert list(RecordLog.read(records, "ends")) == [1, 4]
    assert RecordLog.read(records, "starts") == {}


def test_forged_log_lines_are_ignored(records: SealedRecords, tmp_path: Path) -> None:
    RecordLog(records, "ends").add(encode_record({"attempt": 1, "code": 1}))
    start = RecordLog(records, "starts")
    start.add(encode_record({"attempt": 2, "code": 0}))
    with (tmp_path / "ends").open("ab") as file:
        file.write(b"00000000000000000000000000000000 " + b'{"attempt":1,"code":0}\n')
        file.write((tmp_path / "starts").read_bytes())
        file.write(b'{"attempt":5,"code":0}\n')
    assert RecordLog.read(records, "ends") == {1: {"attempt": 1, "code": 1}}


@given(cut=st.integers(min_value=0, max_value=400))
def test_incomplete_log_line_does_not_affect_other_lines(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The writer was killed during a write: complete lines before and after are read."""
    folder = tmp_path_factory.mktemp("torn")
    torn = SealedRecords(str(folder), "token")
    ledger = RecordLog(torn, "ends")
    lengths = []
    for attempt in range(3):
        ledger.add(encode_record({"attempt": attempt, "text": "x" * 50}))
        lengths.append((folder / "ends").stat().st_size)
    (folder / "ends").write_bytes((folder / "ends").read_bytes()[:cut])
    RecordLog(torn, "ends").add(encode_record({"attempt": 9}))
    # A line is complete without its newline.
    whole = [attempt for attempt, length in enumerate(lengths) if length - 1 <= cut]
    assert list(RecordLog.read(torn, "ends")) == [*whole, 9]
    torn.close()


def test_heartbeat_is_overwritten_in_place(records: SealedRecords, tmp_path: Path) -> None:
    file = records.opened("beat")
    records.overwrite(file, "beat", {"at": 12.5})
    inode, size = (tmp_path / "beat").stat().st_ino, (tmp_path / "beat").stat().st_size
    records.overwrite(file, "beat", {"at": 123456789.123456, "running": 100_000})
    assert records.read_again("beat") == {"at": 123456789.123456, "running": 100_000}
    assert ((tmp_path / "beat").stat().st_ino, (tmp_path / "beat").stat().st_size) == (inode, size)
    os.close(file)
