"""Commands with entry points of other packages."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_programs_of_the_example_backend_end_when_their_engine_is_killed(project: Project) -> None:
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


BROKEN = {
    "nowhere:Thing": "cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
    "other:NUMBER": "cannot be used: other:NUMBER is no class",
    "other:Empty": "cannot be used: other:Empty is without ",
}
"""Targets of entry points that are no implementations, with the reason that is reported."""
OTHER = "NUMBER = 3\nclass Empty: pass\n"
FAILING = """\
import numpy as np
from dataclasses import dataclass, replace
from typing import ClassVar
from weft.planners.heft import Heft
from weft.policies.policy import make_policy

@dataclass(frozen=True, slots=True, kw_only=True)
class Raising(Heft):
    name: ClassVar[str] = "raising"
    title: ClassVar[str] = "raises"

    def plan(self, request):
        raise ValueError("no luck")

@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible(Heft):
    name: ClassVar[str] = "impossible"
    title: ClassVar[str] = "starts everything at once"

    def plan(self, request):
        made = super(Impossible, self).plan(request)
        lengths = made.schedule.finish_s - made.schedule.start_s
        return replace(made, schedule=replace(made.schedule, start_s=0.0 * lengths, finish_s=lengths))

class RaisingPolicy:
    name, title, needs_plan = "raising-policy", "raises", False

    def __init__(self):
        self.order = make_policy("fcfs").order

    def decide(self, view):
        raise ValueError("no luck")
"""


def install_failing(project: Project) -> None:
    packages = project.folder / "packages"
    install(packages, "weft.planners", "raising", "failing:Raising", FAILING)
    install(packages, "weft.planners", "impossible", "failing:Impossible")
    install(packages, "weft.policies", "raising-policy", "failing:RaisingPolicy")


def test_message_at_the_second_interrupt_says_that_resume_starts_ended_programs_again(
    project: Project,
) -> None:
    packages: Path = project.folder / "packages"
    install(packages, "weft.backends", "child", "child_backend:ChildBackend", backend_example())
    trap = 'trap "" TERM; echo on; while true; do sleep 0.05; done'
    project.write("w.yaml", f"weft: 1\ntasks:\n  a: {{command: '{trap}'}}\n")
    project.write("child.yaml", PLATFORM)
    engine = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "w.yaml", "--on", "child.yaml"],
        cwd=project.folder, env=environment_with(packages), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        project.running(engine, "on")
        engine.send_signal(signal.SIGINT)
        wait_for(lambda: "interrupted" in engine.stderr.readline())
        engine.send_signal(signal.SIGINT)
        assert "`weft resume` starts unfinished tasks again" in engine.communicate(timeout=PATIENCE_S)[1]
    finally:
        project.end(engine)


@pytest.mark.parametrize("target", list(BROKEN))
def test_unavailable_entry_points_do_not_break_other_commands(project: Project, target: str) -> None:
    for group in ("planners", "policies", "formats", "generators", "backends"):
        install(project.folder / "packages", f"weft.{group}", f"broken-{group}", target)
    (project.folder / "packages" / "other.py").write_text(OTHER)
    project.write("w.yaml", "weft: 1\ntasks:\n  a: {work: 1}\n")
    listed = weft(project, "planners")
    assert listed.returncode == 0, listed.stderr
    reason = f"planner 'broken-planners' of package plugin-broken-planners {BROKEN[target]}"
    assert f"broken-planners   unavailable: {reason}" in listed.stdout
    listed = weft(project, "formats").stdout
    assert f"format 'broken-formats' of package plugin-broken-formats {BROKEN[target]}" in listed
    for command in (
        ("convert", "w.yaml", "w.json"), ("check", "w.yaml"), ("policies",), ("generate", "--list"),
        ("compare", "w.yaml", "--on", "identical:2"), ("plan", "w.yaml", "--on", "identical:2"),
    ):  # fmt: skip
        outcome = weft(project, *command)
        assert outcome.returncode == 0, (command, outcome.stderr)
    project.write("broken.yaml", "weft: 1\nmachines:\n  m: {backend: {kind: broken-backends}}\n")
    for command in (
        ("plan", "w.yaml", "--planner", "broken-planners"), ("planners", "broken-planners"),
        ("simulate", "w.yaml", "--policy", "broken-policies"), ("generate", "broken-generators"),
        ("check", "broken.yaml"),
    ):  # fmt: skip
        requested = weft(project, *command)
        assert requested.returncode == 2, requested.stderr
        assert f" {BROKEN[target]}" in requested.stderr
        assert "; repair or uninstall package plugin-broken-" in requested.stderr
    project.write("unknown.txt", "neither of them")
    skipped = weft(project, "check", "unknown.txt")
    assert "warning: format 'broken-formats' of package" in skipped.stderr
    assert "Traceback" not in skipped.stderr


def test_exception_of_a_foreign_planner_or_policy_names_its_package(project: Project) -> None:
    install_failing(project)
    expected = "raising' of package plugin-raising failed: ValueError: no luck"
    for command in ("plan", "compare", "run"):
        on = "machines.yaml" if command == "run" else "identical:2"
        policy = ["--policy", "plan"] if command == "run" else []
        outcome = weft(project, command, "tiny.yaml", "--on", on, "--planner", "raising", *policy)
        assert (outcome.returncode, "Traceback" in outcome.stderr) == (1, False), outcome.stderr
        assert f"error: planner '{expected}" in outcome.stderr
    simulated = weft(project, "simulate", "tiny.yaml", "--on", "identical:2", "--policy", "raising-policy")
    assert "error: policy 'raising-policy' of package plugin-raising-policy failed" in simulated.stderr
    verbose = weft(
        project, "--log-level", "debug", "plan", "tiny.yaml", "--on", "identical:2", "--planner", "raising"
    )
    assert "Traceback" in verbose.stderr


def test_impossible_schedule_of_a_foreign_planner_is_refused(project: Project) -> None:
    install_failing(project)
    for command in (["plan", "--on", "identical:2"], ["run", "--policy", "plan", "--on", "machines.yaml"]):
        outcome = weft(project, *command, "tiny.yaml", "--planner", "impossible")
        assert outcome.returncode == 1
        assert (
            "planner 'impossible' of package plugin-impossible gives an invalid schedule, which is a bug"
            in outcome.stderr
        )
    assert not (project.folder / "z").exists()
