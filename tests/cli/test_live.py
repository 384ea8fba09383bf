"""The live display never wraps lines, uses colour only when allowed, and prints plain lines without a
terminal.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from architecture.package import environment
from cli.projects import Project, plain
from patience import PATIENCE_S
from weft.cli import terminal as module
from weft.cli.terminal import LiveDisplay

FLOW = """\
weft: 1
name: shown
tasks:
  a_kind_with_a_rather_long_name: {command: "sleep 0.7", work: 0.5}
  bad: {command: "echo why it failed >&2; exit 3", retries: 1}
  later: {command: "sleep 0.1", after: a_kind_with_a_rather_long_name}
"""


def on_terminal(project: Project, columns: int, rows: int, **variables: str) -> tuple[int, str]:
    """Run the workflow on a terminal of this size; return the exit code and the output."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = environment(**variables)
    env.pop("COLUMNS")
    if "NO_COLOR" not in variables:
        env.pop("NO_COLOR")
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "shown.yaml", "-k"],
        cwd=project.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    found = b""
    try:
        while data := os.read(leader, 65536):
            found += data
    except OSError:
        pass  # Linux reports the closed terminal like this
    finally:
        os.close(leader)
        process.wait(timeout=PATIENCE_S)
    return process.returncode, found.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("columns", "rows", "variables"), [(30, 10, {"NO_COLOR": "1"}), (120, 40, {})])
def test_live_block_fits_the_terminal_size(
    project: Project, columns: int, rows: int, variables: dict[str, str]
) -> None:
    project.write("shown.yaml", FLOW)
    code, shown = on_terminal(project, columns, rows, **variables)
    assert code == 1
    blocks = [plain(block) for block in re.split(r"\x1b\[\d+A\x1b\[J|\r\x1b\[2K", shown)]
    blocks = [block for block in blocks if "kind" in block]
    assert len(blocks) >= 2
    for block in blocks:
        lines = block.rstrip("\n").split("\n")
        assert len(lines) < rows
        assert max(map(len, lines)) < columns
    # The block is erased up to its first line.
    heights = [block.count("\n") for block in blocks]
    taken_back = [int(number) for number in re.findall(r"\x1b\[(\d+)A\x1b\[J", shown)]
    assert taken_back[: len(heights)] == heights
    assert ("\x1b[1m" in shown) == (not variables)
    failure = "why it failed" if columns > 60 else "bad failed"
    assert failure in blocks[-1]


def test_without_a_terminal_failures_are_printed_as_separate_lines(project: Project) -> None:
    project.write("shown.yaml", FLOW)
    done = project.weft("run", "shown.yaml", "-k")
    assert done.code == 1
    lines = done.err.splitlines()
    (log,) = project.folder.glob(".weft/attempts/1/1-*/err")
    assert lines[:3] == [
        "bad failed, will be retried (error)",
        "  | why it failed",
        f"  log: {log.relative_to(project.folder)}",
    ]
    assert "bad failed permanently (error)" in lines
    assert "\x1b" not in done.out + done.err


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now_s)


def test_status_lines_are_printed_at_intervals_and_only_after_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, stream, done = Clock(monkeypatch), io.StringIO(), 0
    live = LiveDisplay(lambda _columns, _rows: [], lambda: f"{done} done", stream=stream)
    for second in range(100):
        clock.now_s = 1000.0 + second
        done = 1 if second > 35 else 0
        live.tick()
    assert stream.getvalue() == "0 done\n1 done\n"


def test_a_closed_terminal_does_not_stop_the_run() -> None:
    class Gone(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    live = LiveDisplay(lambda _columns, _rows: ["line"], lambda: "line", stream=Gone())
    live.tick()
    live.say("more")
    live.clear()
    assert not live.drawn


def test_a_signal_during_a_write_does_not_lose_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")

    class Writing(io.StringIO):
        def __init__(self, file: int) -> None:
            super().__init__()
            self._file = file

        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            return self._file

    with (tmp_path / "terminal").open("w+b") as terminal:
        stream = Writing(terminal.fileno())
        live = LiveDisplay(lambda _columns, _rows: ["line"], lambda: "line", stream=stream)
        live.tick()
        assert stream.getvalue() == "line\n"

        def busy(_: str) -> int:
            raise RuntimeError("reentrant call inside a writer")

        stream.write = busy  # type: ignore[method-assign]
        live.say_at_once("the end")
        terminal.seek(0)
        assert terminal.read() == b"the end\n"
