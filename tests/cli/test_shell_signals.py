"""Failures of programs that were ended by a signal below a shell."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cli.projects import Project, wait_for

_KILLED = """\
weft: 1
name: killed
tasks:
  below: {command: "sh -c 'kill -KILL $$'; exit $?"}
  itself: {command: "kill -KILL $$", retries: 0}
  plain: {command: "exit 3"}
"""


def test_failure_below_a_shell_names_the_signal(project: Project) -> None:
    project.write("killed.yaml", _KILLED)
    ran = project.json("run", "--keep-going", "killed.yaml")
    reasons = {each["task"]: each["reason"] for each in ran["failures"]}
    told = "exit code 137: its shell reports a program that was ended by signal 9 (SIGKILL)"
    assert reasons["below"].startswith(told)
    assert reasons["itself"].startswith("killed from outside (SIGKILL)")
    assert reasons["plain"].startswith("exit code 3;")


_GROUPS = Path("/sys/fs/cgroup")
_MEMORY_BYTES = 40_000_000


@contextmanager
def small_memory() -> Iterator[Path]:
    """Create a control group with little memory; skip if that is not permitted."""
    is_old = (_GROUPS / "memory").is_dir()
    group = (_GROUPS / "memory" if is_old else _GROUPS) / f"weft-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no control group can be created here")
    try:
        try:
            names = ("memory.limit_in_bytes",) if is_old else ("memory.max", "memory.swap.max")
            for name, value in zip(names, (_MEMORY_BYTES, 0), strict=False):
                (group / name).write_text(str(value))
        except OSError:
            pytest.skip("the memory of a control group cannot be limited here")
        yield group
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text())
        with suppress(OSError):
            group.rmdir()


def test_program_below_a_shell_that_the_kernel_killed_for_lack_of_memory_has_the_cause_oom(
    project: Project,
) -> None:
    with small_memory() as group:
        uses = f"{shlex.quote(sys.executable)} -c 'print(len(bytearray(400 << 20)))'"
        text = f"""\
weft: 1
name: large
tasks:
  large:
    retries: 0
    command: |
      echo $$ > {group}/cgroup.procs
      {uses}
      exit $?
"""
        project.write("large.yaml", text)
        (failure,) = project.json("run", "large.yaml")["failures"]
    assert failure["cause"] == "oom"
    said = "one of its processes was killed by the kernel, because memory ran out"
    assert failure["reason"].startswith(said)


def test_program_below_a_shell_that_exceeds_its_memory_limit_has_the_cause_oom(project: Project) -> None:
    uses = f"{shlex.quote(sys.executable)} -c 'import time; x = bytearray(400 << 20); time.sleep(60)'"
    project.write(
        "limited.yaml",
        f"weft: 1\nname: limited\ntasks:\n  large:\n    memory: 50MB\n    retries: 0\n    command: |\n      {uses}\n      exit $?\n",
    )
    (failure,) = project.json("run", "limited.yaml")["failures"]
    assert failure["cause"] == "oom"
    assert "its limit is 50.0 MB" in failure["reason"]
