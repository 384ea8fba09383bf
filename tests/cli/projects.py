"""A project in which tests run commands, in this process or in a new process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from architecture.package import environment
from cli.shell import Outcome
from patience import PATIENCE_S
from weft.cli.main import main

__all__ = ["MACHINES", "TINY", "Project", "plain", "wait_for"]

TINY = """\
weft: 1
name: tiny
tasks:
  a: {command: "echo made a; echo hello > x", outputs: [x]}
  b: {sweep: {k: 1..3}, command: "cat {inputs} > y.{k}; echo {k} >> y.{k}", inputs: [x], outputs: ["y.{k}"]}
  c: {command: "cat {inputs} > z", inputs: ["y.{1..3}"], outputs: [z]}
"""
MACHINES = """\
weft: 1
machines:
  left: {backend: {kind: local}}
  right: {backend: {kind: local}}
"""


def wait_for(condition: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    """Wait until a condition is true and return its value."""
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


class Project:
    """A folder with a method that runs commands in it."""

    def __init__(self, folder: Path, capture: Any) -> None:
        self.folder = folder
        self._capture = capture

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def weft(self, *arguments: str) -> Outcome:
        """Run a command in this process, in the project's directory."""
        self._capture.readouterr()
        try:
            main(arguments)
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        found = self._capture.readouterr()
        assert "Traceback" not in found.err
        return Outcome(code=code, out=found.out, err=found.err)

    def json(self, *arguments: str) -> Any:
        """Run a command with ``--json`` and parse its output."""
        return json.loads(self.weft(*arguments, "--json").out)

    def start(self, *arguments: str, **how: Any) -> subprocess.Popen[str]:
        """Start a command in a process of its own."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | how
        return subprocess.Popen(
            [sys.executable, "-m", "weft", *arguments], cwd=self.folder, env=environment(), **streams
        )

    def running(self, process: subprocess.Popen[str], word: str, task: str = "a") -> None:
        """Wait until the program of a task has written a word."""

        def found() -> bool:
            assert process.poll() is None, process.communicate()
            logs = (self.folder / ".weft" / "attempts").glob("*/*/out")
            return any(word in path.read_text() for path in logs)

        wait_for(found)

    def programs(self) -> list[int]:
        """Return the processes in folders of the project: in its sandboxes, wherever a test puts them."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    where = (entry / "cwd").readlink()
                except OSError:
                    continue
                if where != self.folder and where.is_relative_to(self.folder):
                    found.append(int(entry.name))
        return found

    def end(self, process: subprocess.Popen[str]) -> None:
        """Stop a command and the programs that a failed test may have left."""
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        for pid in self.programs():
            with suppress(ProcessLookupError):  # a short program ends by itself
                os.kill(pid, signal.SIGKILL)


def plain(text: str) -> str:
    """Remove terminal escape sequences from a text."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
