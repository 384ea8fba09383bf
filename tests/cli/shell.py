"""The command as run by a shell: output and exit code."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from architecture.package import environment
from patience import PATIENCE_S

__all__ = ["GRID", "HELLO", "Outcome", "refused", "start", "weft"]

HELLO = """\
weft: 1
name: hello
params: {seeds: 4}
tasks:
  prepare: {work: 20, outputs: {mesh: 40MB}}
  run: {sweep: {seed: 1..seeds}, inputs: [mesh], work: 120}
  collect: {after: run, work: 10}
"""
GRID = """\
weft: 1
machines:
  fast: {speed: 2, nodes: 2, price_per_node_hour: 3}
  slow: {speed: 1}
links: {default: {bandwidth: 100MB/s, latency: 1ms}}
"""
LONGEST_LINE = 400
"""Maximum length of a line of a message; large values must be shortened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str


def weft(*arguments: str, folder: Path, given: bytes = b"", **variables: str) -> Outcome:
    """Run ``weft`` in a folder, for at most a minute."""
    command = [sys.executable, "-m", "weft", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(**variables),
        input=given,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Outcome(code=done.returncode, out=text(done.stdout), err=text(done.stderr))


def start(*arguments: str, folder: Path, **streams: int) -> subprocess.Popen[bytes]:
    """Start ``weft`` without waiting for it."""
    return subprocess.Popen(
        [sys.executable, "-m", "weft", *arguments], cwd=folder, env=environment(), **streams
    )


def text(printed: bytes) -> str:
    return printed.decode("utf-8", errors="replace")


def refused(outcome: Outcome, code: int, *words: str) -> list[str]:
    """Assert an error with this exit code, all words in the message and no other output; return its lines."""
    assert outcome.code == code, outcome
    assert "Traceback" not in outcome.err
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    assert lines, "no message"
    assert max(len(line) for line in lines) <= LONGEST_LINE
    assert re.match(r"(error: |Usage: )", lines[0])
    for word in words:
        assert word in outcome.err, outcome.err
    return lines
