"""The backend of the how-to page works: another backend is only a transport."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from architecture.documents import blocks
from architecture.package import ROOT

WORKFLOW = """weft: 1
name: flow
tasks:
  make: {command: "echo $WEFT_TASK > made", outputs: [made]}
  copy: {command: [cp, made, copied], inputs: [made], outputs: [copied]}
"""
STUCK = "weft: 1\nname: stuck\ntasks:\n  a: {command: sleep 1000}\n  b: {command: exit 3}\n"


def install_page(folder: Path) -> tuple[dict[str, str], Path]:
    """Install the backend of the page as a package; return the environment and the platform file."""
    page = (ROOT / "docs" / "how-to" / "backend.md").read_text(encoding="utf-8")
    code = {block.language: block.text for block in blocks(page)}
    (folder / "child_backend.py").write_text(code["python"])
    package = folder / "child_backend-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: child-backend\nVersion: 1.0\n")
    section = (
        code["toml"].replace('[project.entry-points."weft.backends"]', "[weft.backends]").replace('"', "")
    )
    (package / "entry_points.txt").write_text(section)
    platform = folder / "platform.yaml"
    platform.write_text(code["yaml"])
    return {**os.environ, "PYTHONPATH": str(folder)}, platform


def test_backend_of_the_how_to_page_runs_workflows(tmp_path: Path) -> None:
    environment, platform = install_page(tmp_path)
    project = tmp_path / "project"
    project.mkdir()

    def run(text: str) -> subprocess.CompletedProcess[str]:
        (project / "flow.yaml").write_text(text)
        words = [sys.executable, "-m", "weft", "run", "flow.yaml", "--on", str(platform)]
        return subprocess.run(
            words, cwd=project, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    done = run(WORKFLOW)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "copied").read_text() == "make\n"
    again = run(WORKFLOW)
    assert (again.returncode, "reused" in again.stdout + again.stderr) == (0, True)
    failed = run(STUCK)  # the failure of one task cancels the other
    assert failed.returncode == 1
    assert "exit code 3" in failed.stdout + failed.stderr
