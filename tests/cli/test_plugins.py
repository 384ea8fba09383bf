"""Commands with entry points of other packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cli.projects import Project, wait_for
from patience import PATIENCE_S
from plugins import backend_example, environment_with, install

WORKFLOW = """\
weft: 1
name: once
tasks:
  a: {{command: "echo on; echo on >> {folder}/starts; test $(wc -l < {folder}/starts) -gt 1 || sleep 600"}}
"""
PLATFORM = "weft: 1\nmachines:\n  m: {nodes: 2, backend: {kind: child}}\n"


def weft(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the packages in the folder ``packages``."""
    return subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        cwd=project.folder, env=environment_with(project.folder / "packages"),
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def test_programs_of_the_example_backend_end_with_a_killed_engine(project: Project) -> None:
    packages: Path = project.folder / "packages"
    install(packages, "weft.backends", "child", "child_backend:ChildBackend", backend_example())
    project.write("once.yaml", WORKFLOW.format(folder=project.folder))
    project.write("child.yaml", PLATFORM)
    engine = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "once.yaml", "--on", "child.yaml"],
        cwd=project.folder, env=environment_with(packages), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        project.running(engine, "on")
        engine.kill()
        engine.wait()
        wait_for(lambda: not project.programs(), within_s=20.0)
        resumed = weft(project, "resume")
        assert resumed.returncode == 0, resumed.stderr
        assert (project.folder / "starts").read_text() == "on\non\n"
        assert "ended with the engine" in weft(project, "explain", "a").stdout
    finally:
        project.end(engine)
