"""Values that no file, terminal or clock can represent, in results, records and databases."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.package import environment
from cli.warm_process import weft
from weft.api.pareto import front_path, load_front
from weft.backends.attempt.checkpoints import list_checkpoint
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.runner.records import RecordLog, SealedRecords
from weft.backends.runner.runner_link import read_message
from weft.engine.stored_fields import decode_number
from weft.formats.files import load_platform, load_workflow
from weft.runtime.lock import LockOwner

READING = (("ls",), ("status",), ("report",), ("explain", "a"), ("logs", "a"), ("clean", "--dry-run"))


def test_lone_surrogate_in_a_result_fails_the_task_with_a_reason(tmp_path: Path) -> None:
    script = r"""import os; open(os.environ["WEFT_RESULT_FILE"], "w").write('{"r": "\\ud800"}')"""
    command = json.dumps([sys.executable, "-c", script.replace("{", "{{").replace("}", "}}")])
    (tmp_path / "w.yaml").write_text(f"weft: 1\nname: w\ntasks: {{a: {{command: {command}}}}}\n")
    outcome = weft("run", "w.yaml", folder=tmp_path)
    assert (outcome.code, "Traceback" in outcome.err) == (1, False), outcome
    assert "half of a surrogate pair" in outcome.out
    for words in (*READING, ("report", "--json"), ("status", "--json")):
        done = weft(*words, folder=tmp_path)
        assert (done.code, done.err.count("Traceback")) == (0, 0), (words, done)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "w.yaml").write_text("weft: 1\nname: w\ntasks: {a: {command: 'true'}}\n")
    assert weft("run", "w.yaml", folder=folder).code == 0
    shutil.copytree(folder / ".weft", folder / "whole")
    return folder


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("UPDATE run SET started_at_s = 1e300", "not a time in seconds since 1970"),
        ("UPDATE run SET started_at_s = 9e999", "not a time in seconds since 1970"),
        ("UPDATE run SET execution = 77", "no execution 77"),
        ("UPDATE execution SET number = 78", "no execution 1"),
    ],
)
def test_impossible_values_in_the_database_are_refused(project: Path, statement: str, word: str) -> None:
    shutil.rmtree(project / ".weft")
    shutil.copytree(project / "whole", project / ".weft")
    with sqlite3.connect(project / ".weft/weft.db") as database:
        database.execute(statement)
    messages = ""
    for words in READING:
        done = weft(*words, folder=project)
        assert (done.code in (0, 2), done.err.count("Traceback")) == (True, 0), (words, done)
        messages += done.err
    assert word in messages


def test_whole_numbers_that_no_float_can_hold_are_refused() -> None:
    assert decode_number(10**20) == 1e20
    with pytest.raises(TypeError, match="a whole number of 13288 bits is not a number"):
        decode_number(10**4000)
    with pytest.raises(TypeError, match="is not a number"):
        decode_number(10**301)


def test_owner_of_a_lock_is_described_although_the_lock_states_an_impossible_time() -> None:
    owner = LockOwner.this_process(("weft", "run"))
    for since in ("1e20", "-1e300", "Infinity", "NaN"):
        text = json.dumps(json.loads(owner.as_text()) | {"since_s": "@"}).replace('"@"', since)
        found = LockOwner.of_text(text)
        assert found is not None
        assert "since second" in str(found)


def test_sealed_lines_that_are_not_json_are_skipped(tmp_path: Path) -> None:
    records = SealedRecords(str(tmp_path), "token")
    lines = ("", "{", "[" * 100_000, '{"attempt": 7}')
    (tmp_path / "starts").write_bytes(b"".join(records.sealed("starts", line) for line in lines))
    assert RecordLog.read(records, "starts") == {7: {"attempt": 7}}
    records.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user without a name")
def test_user_without_a_name_is_shown_by_the_user_id() -> None:
    script = "import os; from weft.runtime.lock import user_name; os.setuid(64321); print(user_name())"
    named = ("USER", "LOGNAME", "LNAME", "USERNAME")
    variables = {key: value for key, value in environment().items() if key not in named}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, check=True)
    assert done.stdout == b"64321\n"


_LARGE_LOG = """
import os
from weft.api import task

@task(retries=0)
def noisy():
    os.ftruncate(2, 400_000_000)
    os.lseek(2, 0, os.SEEK_END)
    os.write(2, b"\\n")
    raise KeyError("kept")

if __name__ == "__main__":
    try:
        noisy().result()
    except KeyError as error:
        # Not ``ru_maxrss``: it also counts the process that started this one.
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(error, int(peak.split()[1]) // 1000)
"""


def test_a_large_standard_error_is_not_read_into_memory(tmp_path: Path) -> None:
    """400 MB of output of a function that fails took 815 MB in the process of its caller."""
    (tmp_path / "noisy_main.py").write_text(_LARGE_LOG)
    done = subprocess.run(
        [sys.executable, "noisy_main.py"], cwd=tmp_path, env=environment(), capture_output=True, check=False
    )
    word, _, most_mb = done.stdout.decode().partition(" ")
    assert word == "'kept'", done.stderr.decode()[-2000:]
    assert int(most_mb) < 350


def test_every_command_that_shows_a_log_reads_only_its_end(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "weft: 1\nname: w\ntasks: {a: {command: 'truncate -s 2G /dev/fd/2; echo last >&2; exit 3'}}\n"
    )
    limit = 1_500_000_000

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    for words in (("run", "w.yaml"), ("report",), ("explain", "a"), ("logs", "a", "--json"), ("status",)):
        done = subprocess.run(
            [sys.executable, "-m", "weft", *words], cwd=tmp_path, env=environment(), capture_output=True,
            preexec_fn=restrict, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1), (words, done.stderr[-500:])
        assert b"MemoryError" not in done.stderr


@pytest.mark.parametrize(
    "line",
    [b"x", b"[]", b"{}", b"[" * 100_000, b'{"is": 3}', b'{"is": "ended"}', b'{"is": "ended", "attempt": "1"}',
     b'{"is": "here", "pid": null}', b'{"is": "here", "pid": 1, "running": {}}', b'{"is": "here", "pid": 1, "ended": [1]}',
     b'{"is": "ended", "attempt": 1, "nonce": 5}', b"\xff"],
)  # fmt: skip
def test_malformed_lines_in_place_of_runner_messages_are_refused(line: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        read_message(line)


def test_messages_of_a_runner_are_read() -> None:
    assert read_message(b'{"is": "ended", "attempt": 1, "nonce": "a"}')["attempt"] == 1
    assert read_message(b'{"is": "problem", "attempt": null, "text": "x"}')["text"] == "x"


@pytest.mark.parametrize(
    "content", [b"[]", b"[" * 100_000, b'{"directory": "1", "files": [{"name": 3}]}', b'{"attempt": 1e999}']
)
def test_checkpoint_pointer_that_weft_did_not_write_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "current").write_bytes(content)
    with pytest.raises(StagingProblem, match="not written by weft"):
        list_checkpoint(tmp_path)


def test_a_stored_front_that_is_damaged_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("weft: 1\nname: w\ntasks: {a: {work: 3}}\n")
    workflow = load_workflow(tmp_path / "w.yaml")
    platform = load_platform("identical:2")
    for content in (b"[" * 100_000, b'{"weft-front": 1, "deadline_s": 1e999}', b"3"):
        front_path(workflow, platform, tmp_path).write_bytes(content)
        assert load_front(workflow, on=platform, folder=tmp_path) is None
