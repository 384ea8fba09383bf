"""The bridge of the bundle: it connects an engine elsewhere with a runner that outlives the bridge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from backends.runner.runner_bench import is_running, wait_until
from patience import PATIENCE_S
from weft.backends.bundle import bundle_name, make_bundle

TOKEN, SCOPE = "a secret of the tests", "0123456789abcdef-1"
NONCE = "ab" * 16


class Bridge:
    """A bridge to the runner of a directory, without weft on its path."""

    def __init__(self, folder: Path, *, known: tuple[int, ...] = (), **settings: object) -> None:
        bundle = folder / bundle_name()
        bundle.write_bytes(make_bundle())
        command = [sys.executable, "-I", "-S", str(bundle), "bridge", str(folder / "runner")]
        self.folder = folder
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": os.defpath}, cwd="/"
        )
        pairs = [[attempt, NONCE] for attempt in known]
        self.send({"token": TOKEN, "scope": SCOPE, "cores": None, "known": pairs, **settings})

    def send(self, message: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self, what: str) -> dict:
        assert self.process.stdout
        while line := self.process.stdout.readline():
            if (found := json.loads(line))["is"] == what:
                return found
        raise AssertionError(f"the bridge ended before {what!r}")

    def start(self, attempt: int, command: str) -> None:
        order = {"do": "start", "attempt": attempt, "nonce": NONCE, "argv": ["/bin/sh", "-c", command]}
        self.send({**order, "cwd": str(self.folder), "reports_start": True})

    def wait(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self.process.communicate()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def close(self) -> None:
        self.send({"do": "end"})
        self.process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def runners() -> Generator[list[int]]:
    """Collect the numbers of runners; those that still run at the end are killed."""
    found: list[int] = []
    yield found
    for pid in found:
        if is_running(pid):
            os.kill(pid, signal.SIGTERM)


def test_program_outlives_the_bridge_and_its_end_is_reported_to_the_next(
    tmp_path: Path, runners: list[int]
) -> None:
    first = Bridge(tmp_path)
    here = first.receive("here")
    runners.append(here["pid"])
    assert here["boot"]
    first.start(1, "while ! [ -e go ]; do sleep 0.02; done; exit 3")
    first.receive("started")
    assert first.receive("beat")["age_s"] < PATIENCE_S
    first.kill()
    second = Bridge(tmp_path, known=(1,))
    here = second.receive("here")
    assert here["pid"] == runners[0]
    assert [each["attempt"] for each in here["running"]] == [1]
    second.kill()
    (tmp_path / "go").touch()
    third = Bridge(tmp_path, known=(1,))
    here = third.receive("here")
    end = here["ended"][0] if here["ended"] else third.receive("ended")
    assert (end["attempt"], end["code"]) == (1, 3)
    third.close()
    wait_until(lambda: not is_running(runners[0]), "the runner exits")


def test_orphans_of_a_killed_runner_are_ended_and_reported_as_lost(
    tmp_path: Path, runners: list[int]
) -> None:
    first = Bridge(tmp_path)
    runners.append(first.receive("here")["pid"])
    first.start(1, "sleep 1000")
    program = first.receive("started")["pid"]
    os.kill(runners[0], signal.SIGKILL)
    assert first.wait() == 5
    assert is_running(program)
    second = Bridge(tmp_path, known=(1,))
    here = second.receive("here")
    runners.append(here["pid"])
    assert not is_running(program)
    assert [(each["attempt"], each["cause"]) for each in here["ended"]] == [(1, "lost")]
    second.close()


def test_new_bridge_replaces_one_whose_engine_is_silent(tmp_path: Path, runners: list[int]) -> None:
    first = Bridge(tmp_path)
    runners.append(first.receive("here")["pid"])
    second = Bridge(tmp_path)
    assert second.receive("here")["pid"] == runners[0]
    assert first.wait() == 5
    second.close()


def test_programs_that_the_engine_does_not_know_are_killed(tmp_path: Path, runners: list[int]) -> None:
    first = Bridge(tmp_path)
    runners.append(first.receive("here")["pid"])
    for attempt in (1, 2):
        first.start(attempt, "sleep 1000")
    programs = {each["attempt"]: each["pid"] for each in (first.receive("started"), first.receive("started"))}
    first.kill()
    second = Bridge(tmp_path, known=(1,), clear=True)
    found = second.receive("programs")["found"]
    assert [1, 1, NONCE] in found
    assert [1, 2, NONCE] in found
    second.send({"known": [[1, 1, NONCE]]})
    assert [each["attempt"] for each in second.receive("here")["running"]] == [1]
    assert is_running(programs[1])
    assert not is_running(programs[2])
    second.send({"do": "cancel", "attempt": 1, "nonce": NONCE, "grace_s": 0})
    second.receive("ended")
    second.close()


def test_failure_to_start_a_runner_is_reported(tmp_path: Path) -> None:
    (tmp_path / "runner").write_text("a file")
    bridge = Bridge(tmp_path)
    assert "no runner can use" in bridge.receive("failed")["text"]
    assert bridge.wait() == 6
