"""Record files and working directories of attempts, whether or not an entry exists already."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.backends.attempt.attempt import AttemptRecords
from weft.backends.attempt.safe_paths import StagingProblem


@pytest.fixture
def made() -> Iterator[AttemptRecords]:
    records = AttemptRecords()
    yield records
    records.close()


def _records(tmp_path: Path, attempt: int) -> Path:
    return tmp_path / "attempts" / "1" / str(attempt)


def _workdir(tmp_path: Path, attempt: int) -> Path:
    return tmp_path / "sandbox" / "project" / "1" / str(attempt)


def test_each_attempt_has_its_own_records(made: AttemptRecords, tmp_path: Path) -> None:
    for attempt in range(1, 4):
        made.make_workdir(str(_workdir(tmp_path, attempt)))
        made.create(str(_records(tmp_path, attempt)))
        script = (b"script %d" % attempt).strip
        made.write_later(str(_records(tmp_path, attempt)), "command.sh", script, pytest.fail)
        made.write(str(_records(tmp_path, attempt)), "exitcode", b"%d\n" % attempt)
    assert not (_records(tmp_path, 3) / "command.sh").exists(), "it has time"
    made.write_pending()
    for attempt in range(1, 4):
        found = {path.name: path.read_text() for path in _records(tmp_path, attempt).iterdir()}
        assert found == {"command.sh": f"script {attempt}", "exitcode": f"{attempt}\n"}
        assert list(_workdir(tmp_path, attempt).iterdir()) == []


def test_repeated_attempt_replaces_its_records(made: AttemptRecords, tmp_path: Path) -> None:
    for attempt in (1, 2):
        made.create(str(_records(tmp_path, attempt)))
        made.write(str(_records(tmp_path, attempt)), "command.sh", b"before")
        (_records(tmp_path, attempt) / "out").write_text("old")
        made.create(str(_records(tmp_path, attempt)))
        assert list(_records(tmp_path, attempt).iterdir()) == []
        made.write(str(_records(tmp_path, attempt)), "command.sh", b"again")
        assert [path.name for path in _records(tmp_path, attempt).iterdir()] == ["command.sh"]
        assert (_records(tmp_path, attempt) / "command.sh").read_bytes() == b"again"


def test_directories_that_a_program_has_made_become_private(made: AttemptRecords, tmp_path: Path) -> None:
    parents = _records(tmp_path, 1).parent, _workdir(tmp_path, 1).parent
    for parent in parents:
        parent.mkdir(parents=True)
        parent.chmod(0o777)
    made.make_workdir(str(_workdir(tmp_path, 1)))
    made.create(str(_records(tmp_path, 1)))
    assert [stat.S_IMODE(parent.stat().st_mode) for parent in parents] == [0o700, 0o700]


def test_record_is_not_written_through_a_link(made: AttemptRecords, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("sings")
    for attempt in (1, 2):  # the first takes the slow path, the second the fast one
        records = _records(tmp_path, attempt)
        made.create(str(records))
        (records / "exitcode").symlink_to(canary)
        made.write(str(records), "exitcode", b"0\n")
        assert not (records / "exitcode").is_symlink()
        assert (records / "exitcode").read_text() == "0\n"
    assert canary.read_text() == "sings"


def test_record_directory_replaced_by_a_link_is_refused(made: AttemptRecords, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for attempt in (1, 2):
        records = _records(tmp_path, attempt)
        made.create(str(records))
        records.rename(tmp_path / f"moved {attempt}")
        records.symlink_to(outside)
        with pytest.raises(StagingProblem):
            made.write(str(records), "exitcode", b"0\n")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("what", ["workdir", "records"])
def test_parent_directory_replaced_by_a_link_is_refused(
    made: AttemptRecords, tmp_path: Path, what: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place = _workdir if what == "workdir" else _records

    def make(attempt: int) -> None:
        if what == "workdir":
            made.make_workdir(str(place(tmp_path, attempt)))
        else:
            made.create(str(place(tmp_path, attempt)))

    make(1)
    above = place(tmp_path, 1).parent
    above.rename(tmp_path / "moved")
    above.symlink_to(outside)
    with pytest.raises(StagingProblem, match="a file or a link, not a directory"):
        make(2)
    assert list(outside.iterdir()) == []
    assert [path.name for path in (tmp_path / "moved").iterdir()] == ["1"]


def test_removed_directories_are_created_again(made: AttemptRecords, tmp_path: Path) -> None:
    made.make_workdir(str(_workdir(tmp_path, 1)))
    _workdir(tmp_path, 1).rmdir()
    _workdir(tmp_path, 1).parent.rmdir()
    made.make_workdir(str(_workdir(tmp_path, 2)))
    made.make_workdir(str(_workdir(tmp_path, 3)))
    assert _workdir(tmp_path, 2).is_dir()
    assert _workdir(tmp_path, 3).is_dir()


def test_has_no_result_is_true_only_after_the_directory_was_checked(
    made: AttemptRecords, tmp_path: Path
) -> None:
    workdir, linked = _workdir(tmp_path, 1), _workdir(tmp_path, 2)
    assert not made.has_no_result(str(workdir)), "nothing is known of a directory that was not written here"
    made.make_workdir(str(workdir))
    assert made.has_no_result(str(workdir))
    (workdir / ".weft-result.json").write_text("{}")
    assert not made.has_no_result(str(workdir))
    (tmp_path / "elsewhere").mkdir()
    linked.symlink_to(tmp_path / "elsewhere")
    assert not made.has_no_result(str(linked)), "a link needs a full check"


def test_failure_of_a_deferred_record_calls_its_callback(made: AttemptRecords, tmp_path: Path) -> None:
    reported: list[str] = []
    made.create(str(_records(tmp_path, 1)))
    _records(tmp_path, 1).rmdir()
    _records(tmp_path, 1).write_text("in its place")
    made.write_later(str(_records(tmp_path, 1)), "command.sh", b"script".strip, reported.append)
    assert reported == []
    made.write_pending()
    assert len(reported) == 1
    assert str(_records(tmp_path, 1)) in reported[0]


def test_directory_that_exists_is_not_used_as_a_working_directory(
    made: AttemptRecords, tmp_path: Path
) -> None:
    for attempt in (1, 2):  # the first takes the slow path, the second the fast one
        workdir = _workdir(tmp_path, attempt)
        workdir.mkdir(parents=True)
        (workdir / "planted").write_text("by somebody else")
        with pytest.raises(StagingProblem, match="cannot be created: File exists"):
            made.make_workdir(str(workdir))
        assert (workdir / "planted").exists()
        made.make_workdir(str(_workdir(tmp_path, 9 + attempt)))


def test_directory_that_an_earlier_engine_has_prepared_is_emptied(
    made: AttemptRecords, tmp_path: Path
) -> None:
    for attempt in (1, 2):
        workdir = _workdir(tmp_path, attempt)
        (workdir / "folder").mkdir(parents=True)
        (workdir / "folder" / "input").write_text("staged in part")
        made.make_workdir(str(workdir), recovered=True)
        assert list(workdir.iterdir()) == []


def test_other_users_cannot_enter_the_directory_of_the_project(made: AttemptRecords, tmp_path: Path) -> None:
    made.make_workdir(str(_workdir(tmp_path, 1)))
    assert (tmp_path / "sandbox" / "project").stat().st_mode & 0o777 == 0o700
