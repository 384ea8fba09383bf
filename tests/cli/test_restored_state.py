"""A run continues in a restored copy of ``.weft``, although a runner still works in the folder that was moved away."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from cli.projects import Project, wait_for

_PROGRAM = """\
import fcntl, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
alone = open(folder / "alone", "w")
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    (folder / "twice").touch()
with open(folder / "begun", "a") as begun:
    begun.write("begun\\n")
while not (folder / "go").exists():
    time.sleep(0.02)
"""
_QUICK_S = 45.0
"""Less than the time after which an engine gives up waiting for a runner that does not answer."""


def test_runner_that_works_in_a_moved_folder_is_replaced(project: Project) -> None:
    program = project.write("program.py", _PROGRAM)
    project.write(
        "w.yaml",
        "weft: 1\nname: w\ntasks:\n"
        f"  z: {{command: ['{sys.executable}', '{program}', '{project.folder}']}}\n"
        "  a: {command: 'echo a', after: z}\n",
    )
    begun = project.folder / "begun"
    state, copy = project.folder / ".weft", project.folder / "copy"
    first = project.start("run", "w.yaml", "--quiet")
    second = None
    try:
        wait_for(begun.exists)
        wait_for(lambda: any(path.stat().st_size for path in state.glob("runners/*/*/starts")))
        subprocess.run(["cp", "-a", str(state), str(copy)], check=True)
        first.kill()
        first.wait()
        state.rename(project.folder / "moved")
        copy.rename(state)
        second = project.start("run", "w.yaml", "--quiet")
        wait_for(lambda: begun.read_text() == "begun\n" * 2, _QUICK_S)
        (project.folder / "go").touch()
        _, messages = second.communicate(timeout=_QUICK_S)
        assert second.returncode == 0, messages
        assert not (project.folder / "twice").exists()
        wait_for(lambda: not is_served(state))
    finally:
        (project.folder / "go").touch()
        for process in (first, second):
            if process is not None:
                project.end(process)


def is_served(state: Path) -> bool:
    """Return whether a runner that was started for a folder of this path is running."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            if b"runner.py" in words and bytes(state) in words:
                return True
    return False
