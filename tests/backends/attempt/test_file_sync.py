"""Outputs are on disk before the end of their task is reported."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from architecture.package import environment
from patience import PATIENCE_S
from sync_shim import shim_environment
from weft.backends.attempt.file_sync import sync_files
from weft.backends.attempt.safe_paths import StagingProblem

SYNC = """if True:
    import sys
    from pathlib import Path
    from weft.backends.attempt.file_sync import sync_files
    sync_files(Path(sys.argv[1]), sys.argv[2:], above=[Path(sys.argv[1]).parent])
"""


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "above" / "root"
    (made / "sub" / "deep").mkdir(parents=True)
    (made / "empty").mkdir()
    for name in ("plain", "sub/one", "sub/deep/two", "other"):
        (made / name).write_text(name)
    (made / "sub" / "link").symlink_to("one")
    return made


def synced(root, *names, **settings):
    """Return what is synced for these names, relative to the root."""
    log = root.parents[1] / "log"
    subprocess.run(
        [sys.executable, "-c", SYNC, str(root), *names],
        env=shim_environment(SYNC_LOG=log, **settings), check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    if not log.exists():
        return None
    lines = log.read_text().splitlines()
    assert len(lines) == len(set(lines)), "nothing is synced twice"
    return {line.removeprefix(f"{root.parent}/") for line in lines} - {str(root.parent)}


def test_sync_of_a_file_includes_its_parent_directories_up_to_the_root(root):
    assert synced(root, "sub/deep/two") == {"root", "root/sub", "root/sub/deep", "root/sub/deep/two"}


def test_sync_of_a_directory_includes_all_files_in_it(root):
    found = synced(root, "sub", "plain", "empty")
    assert found == {
        "root", "root/sub", "root/sub/one", "root/sub/deep", "root/sub/deep/two", "root/plain", "root/empty",
    }  # fmt: skip


def test_nothing_is_synced_if_syncs_are_off(root):
    assert synced(root, "sub", WEFT_SYNC="off") is None


def test_missing_file_is_an_error(root):
    with pytest.raises(StagingProblem, match="missing"):
        sync_files(root, ["missing"])


def test_parent_directory_that_does_not_exist_is_not_synced(root):
    before = (root / "plain").read_bytes()
    sync_files(root, ["plain"], above=[root / "no such directory"])
    assert (root / "plain").read_bytes() == before


WORKFLOW = """weft: 1
name: one
tasks:
  a: {command: "mkdir d; echo 1 > d/x; echo 2 > y", outputs: [d/, y]}
"""


def run(folder, **settings):
    (folder / "one.yaml").write_text(WORKFLOW)
    return subprocess.run(
        [sys.executable, "-m", "weft", "run", "one.yaml"],
        cwd=folder, env=shim_environment(**settings), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def test_outputs_are_synced_before_the_end_is_in_the_journal(tmp_path):
    log = tmp_path / "log"
    assert run(tmp_path, SYNC_LOG=log).returncode == 0
    lines = log.read_text().splitlines()
    outputs = [
        number
        for number, line in enumerate(lines)
        if "/sandbox/" in line and line.endswith(("/d", "/d/x", "/y"))
    ]
    assert len(outputs) == 3
    assert any(line.endswith("-wal") for line in lines[max(outputs) :]), "the end is synced after them"


def test_attempt_fails_if_the_sync_of_an_output_fails(tmp_path):
    """The sync fails once; the second attempt of the task succeeds."""
    done = run(tmp_path, SYNC_FAILS="/d/x:1")
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        [sys.executable, "-m", "weft", "explain", "a"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    assert "cannot be synced to the disk: Input/output error" in shown.stdout


PUBLISH = """if True:
    import sys
    from pathlib import Path
    from weft.backends.attempt.external_files import publish
    from weft.backends.attempt.staging import measure_file
    made, folder = Path(sys.argv[1]), Path(sys.argv[2])
    for name in ("plain", "sub"):
        publish(made, measure_file(made, name), f"new/folder/{name}", folder=folder)
"""
KEEP = """if True:
    import sys
    from pathlib import Path
    from weft.backends.attempt.checkpoints import keep_checkpoint
    assert keep_checkpoint(Path(sys.argv[1]), ["plain", "sub"], Path(sys.argv[2]))
"""


def syncs(root, script, target):
    """Return the syncs of a script in their order, relative to its target; new files are named NEW."""
    log = root.parents[1] / "log"
    subprocess.run(
        [sys.executable, "-c", script, str(root), str(target)],
        env=shim_environment(SYNC_LOG=log), check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    lines = [line.replace(str(target), ".") for line in log.read_text().splitlines()]
    return [re.sub(r"\.weft-new-[^/]*", "NEW", line) for line in lines]


def test_published_file_is_synced_before_it_gets_its_name(root, tmp_path):
    (tmp_path / "target").mkdir()
    lines = syncs(root, PUBLISH, tmp_path / "target")
    assert lines[0] == "./new/folder/NEW"
    assert {".", "./new", "./new/folder", "./new/folder/plain"} <= set(lines[1:6])


def test_published_directory_is_synced_before_it_gets_its_name(root, tmp_path):
    (tmp_path / "target").mkdir()
    lines = syncs(root, PUBLISH, tmp_path / "target")
    first = lines.index("./new/folder/sub")
    for name in ("one", "deep/two", "deep"):
        assert f"./new/folder/NEW/{name}" in lines[:first]
    assert "./new/folder" in lines[first - 5 :]


def test_checkpoint_is_synced_before_it_replaces_the_last_one(root, tmp_path):
    lines = syncs(root, KEEP, tmp_path / "kept")
    pointer = lines.index("./NEW")
    assert {"./1/plain", "./1/sub/one", "./1/sub/deep/two", "./1", "."} <= set(lines[:pointer])
    assert "." in lines[pointer:]
