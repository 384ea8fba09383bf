"""Failures of programs that were ended by a signal below a shell."""

from __future__ import annotations

from cli.projects import Project

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
