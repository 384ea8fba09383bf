"""Runs whose machines are lost or never meet a requirement, on the command line."""

from __future__ import annotations

from cli.projects import Project, wait_for
from patience import PATIENCE_S

ONE = """\
weft: 1
machines:
  only: {{nodes: 1, backend: {{kind: local, sandbox: {sandbox}}}}}
"""
LONG = """\
weft: 1
name: long
tasks:
  a: {command: "echo began; exec sleep 600", work: 8s}
  b: {command: "echo b", work: 1s, after: a}
"""


def test_a_run_fails_when_its_only_machine_stays_lost(project: Project):
    project.write("long.yaml", LONG)
    sandbox = project.folder / "disk"
    project.write("one.yaml", ONE.format(sandbox=sandbox))
    process = project.start("run", "long.yaml", "--on", "one.yaml", "--set", "timeouts.machines=4s")
    try:
        project.running(process, "began")
        sandbox.rename(project.folder / "gone")
        sandbox.touch()
        wait_for(lambda: "only" not in str(project.json("status")["running"]))
        assert "time left unknown (all machines are lost)" in project.weft("status").out
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        project.end(process)
    assert process.returncode == 1
    assert "the run cannot continue: run 1: a (ready) waits for a machine: only: is down" in err
    assert "outcome        failed" in out
    assert project.json("report")["outcome"] == "failed"
