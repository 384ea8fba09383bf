"""A run continues in a restored copy of ``.weft``, although a runner still works in the folder that was moved away."""

from __future__ import annotations

import shutil
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


CHAIN = """\
weft: 1
name: chain
tasks:
  a: {command: "touch FOLDER/a-began; until test -e FOLDER/go-a; do sleep 0.05; done; echo a > a.txt", outputs: [a.txt]}
  b: {command: "touch FOLDER/b-began; until test -e FOLDER/go-b; do sleep 0.05; done; cat a.txt > b.txt", inputs: [a.txt], outputs: [b.txt]}
"""
SANDBOX = "weft: 1\nmachines:\n  first: {backend: {kind: local, sandbox: FOLDER/box}}\n"


def test_run_in_copies_restored_out_of_order_fails_with_advice_that_leads_to_a_completed_run(
    project: Project,
) -> None:
    """The older copy is run and cleaned, which removes the output that the newer copy has recorded."""
    folder, state = project.folder, project.folder / ".weft"
    for name, text in (("chain.yaml", CHAIN), ("machines.yaml", SANDBOX)):
        project.write(name, text.replace("FOLDER", str(folder)))
    run = ("run", "chain.yaml", "--on", "machines.yaml")
    for command, began, copy in ((run, "a-began", "old"), (("resume",), "b-began", "new")):
        engine = project.start(*command, "--quiet")
        try:
            wait_for((folder / began).exists)
        finally:
            engine.kill()
            engine.communicate()
        subprocess.run(["cp", "-a", str(state), str(folder / copy)], check=True)
        (folder / "go-a").touch()
    (folder / "go-b").touch()

    def restore(copy: str) -> None:
        shutil.rmtree(state)
        subprocess.run(["cp", "-a", str(folder / copy), str(state)], check=True)

    restore("old")
    assert project.weft("resume", "--quiet").code == 0
    assert project.weft("clean").code == 0
    restore("new")
    resumed = project.weft("resume", "--quiet")
    assert resumed.code == 1
    assert "the output of a was modified or removed; a new `weft run` runs a again" in resumed.err
    assert project.weft(*run, "--quiet").code == 0
    assert (folder / "b.txt").read_text() == "a\n"


def is_served(state: Path) -> bool:
    """Return whether a runner that was started for a folder of this path is running."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            if b"runner.py" in words and bytes(state) in words:
                return True
    return False
