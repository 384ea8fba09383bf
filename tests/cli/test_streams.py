"""Terminals, pipes and signals: colour, encodings, closed pipes, Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.package import environment
from cli.shell import refused, start, weft
from cli.warm_process import weft as warm_weft
from patience import PATIENCE_S

ESCAPE = "\x1b["
PLAN = ("plan", "hello.yaml", "--on", "grid.yaml", "--plan-steps", "50")


def on_a_terminal(*arguments: str, folder: Path, **variables: str) -> str:
    """Run ``weft`` on a pseudo-terminal and return its output."""
    own, its = pty.openpty()
    command = [sys.executable, "-m", "weft", *arguments]
    kept = {key: value for key, value in environment().items() if key not in ("NO_COLOR", "COLUMNS")}
    child = subprocess.Popen(
        command, cwd=folder, env=kept | {"TERM": "xterm"} | variables, stdout=its, stderr=its
    )
    os.close(its)
    shown = b""
    while True:
        try:
            part = os.read(own, 65536)
        except OSError:  # Linux reports the closed terminal like this
            break
        if not part:
            break
        shown += part
    os.close(own)
    assert child.wait(timeout=PATIENCE_S) == 0
    return shown.decode()


def test_colour_is_used_only_on_a_terminal_and_only_if_no_color_is_not_set(folder: Path) -> None:
    assert ESCAPE not in warm_weft(*PLAN, folder=folder, NO_COLOR="").out
    assert f"{ESCAPE}3" in on_a_terminal(*PLAN, folder=folder)
    quiet = on_a_terminal(*PLAN, folder=folder, NO_COLOR="1")
    # The progress line erases itself (2K); colour sequences would end in m.
    assert not [part for part in quiet.split(ESCAPE)[1:] if part.lstrip("0123456789;").startswith("m")]


def test_progress_is_shown_on_a_terminal_only(folder: Path) -> None:
    assert "reading hello.yaml" in on_a_terminal(*PLAN, folder=folder)
    assert warm_weft(*PLAN, folder=folder).err == ""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_is_printable_in_every_encoding(encoding: str, folder: Path) -> None:
    variables = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for command in (
        PLAN,
        ("show", "hello.yaml"),
        ("formats",),
        ("convert", "hello.yaml", "-", "--to", "mermaid"),
    ):
        shown = weft(*command, folder=folder, **variables)
        assert (shown.code, shown.err) == (0, "")
    refused(weft("check", "ä.yaml", folder=folder, **variables), 2, "no file")


@pytest.mark.parametrize("columns", ["1", "79", "99999999", "-5", "x", "²"])
def test_output_adapts_to_every_terminal_width(columns: str, folder: Path) -> None:
    shown = warm_weft(*PLAN, folder=folder, COLUMNS=columns)
    assert shown.code == 0
    assert max(len(line) for line in shown.out.splitlines()) <= 140


def test_a_reader_that_closes_the_pipe_early_causes_no_error(folder: Path) -> None:
    tasks = "".join(f"  t{index}: {{work: 1}}\n" for index in range(3000))
    (folder / "many.yaml").write_text(f"weft: 1\ntasks:\n{tasks}")
    child = start(
        "convert",
        "many.yaml",
        "-",
        "--to",
        "dot",
        folder=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    assert child.stdout.readline().startswith(b"digraph")
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(timeout=PATIENCE_S) == 0


@pytest.mark.parametrize("arguments", [("--help",), ("formats",), PLAN])
def test_a_pipe_without_reader_causes_no_error(arguments: tuple[str, ...], folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    child = start(*arguments, folder=folder, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, err) == (0, b"")


def test_a_closed_standard_error_does_not_change_the_exit_code(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    child = start("check", "nothing.yaml", folder=folder, stdout=subprocess.DEVNULL, stderr=writing)
    os.close(writing)
    assert child.wait(timeout=PATIENCE_S) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("formats",), (*PLAN, "--json"), ("convert", "hello.yaml", "-", "--to", "dot-picture")],
)
def test_writing_to_a_full_disk_is_reported(arguments: tuple[str, ...], folder: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        child = start(*arguments, folder=folder, stdout=full.fileno(), stderr=subprocess.PIPE)
        _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 2
    assert err.decode() == "error: the output: No space left on device\n"


def test_limit_of_open_files_is_reported_with_advice(folder: Path) -> None:
    (folder / "tiny.yaml").write_text("weft: 1\nname: tiny\ntasks:\n  a: {command: 'true'}\n")
    program = f"ulimit -n 8; exec {shlex.quote(sys.executable)} -m weft run tiny.yaml"
    done = subprocess.run(
        ["/bin/sh", "-c", program], cwd=folder, env=environment(), capture_output=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr.decode()) == (2, "error: too many open files; raise `ulimit -n`\n")


@pytest.mark.parametrize("closed", ["0", "1", "2"])
def test_commands_work_with_closed_standard_streams(closed: str, folder: Path) -> None:
    program = f"exec {shlex.quote(sys.executable)} -m weft formats {closed}>&-"
    done = subprocess.run(
        ["/bin/sh", "-c", program], cwd=folder, env=environment(), capture_output=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_commands_work_with_closed_standard_input(folder: Path) -> None:
    program = f"exec {shlex.quote(sys.executable)} -m weft plan - <&-"
    done = subprocess.run(
        ["/bin/sh", "-c", program], cwd=folder, env=environment(), capture_output=True, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert b"empty" in done.stderr


def test_ctrl_c_exits_with_130(folder: Path) -> None:
    (folder / "pipe.yaml").unlink(missing_ok=True)
    os.mkfifo(folder / "pipe.yaml")
    child = start("plan", "pipe.yaml", folder=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # Opening blocks until the command has opened the pipe; then the command waits for input.
    writing = os.open(folder / "pipe.yaml", os.O_WRONLY)
    try:
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE_S)
    finally:
        os.close(writing)
    assert child.returncode == 130
    assert (out, err) == (b"", b"interrupted\n")


def test_sigterm_exits_with_143(folder: Path) -> None:
    os.mkfifo(folder / "pipe.yaml")
    child = start("plan", "pipe.yaml", folder=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    writing = os.open(folder / "pipe.yaml", os.O_WRONLY)
    child.terminate()
    _, err = child.communicate(timeout=PATIENCE_S)
    os.close(writing)
    assert child.returncode == -signal.SIGTERM, "143 in a shell"
    assert err == b""


def test_errors_are_printed_as_json_with_the_json_option(folder: Path) -> None:
    (folder / "bad.yaml").write_text("weft: 1\ntasks: {a: {wrok: 1}}\n")
    shown = warm_weft("plan", "bad.yaml", "--json", folder=folder)
    assert shown.code == 2
    (problem,) = json.loads(shown.out)["problems"]
    assert (problem["file"], problem["line"], problem["column"], problem["path"]) == (
        "bad.yaml",
        2,
        13,
        "tasks.a",
    )
    assert problem["advice"] == "did you mean 'work'?"
    assert shown.err == "error: bad.yaml:2:13: tasks.a: unknown key 'wrok'; did you mean 'work'?\n"


def test_file_names_that_are_not_valid_text_are_accepted(folder: Path) -> None:
    name = os.fsdecode(b"b\xff.yaml")
    (folder / name).write_text((folder / "hello.yaml").read_text())
    shown = weft("plan", name, "--on", "identical:2", "--out", os.fsdecode(b"o\xff.json"), folder=folder)
    assert shown.code == 0
    assert (folder / os.fsdecode(b"o\xff.json")).exists()
    refused(weft("plan", os.fsdecode(b"c\xff.yaml"), folder=folder), 2, "no file")
