"""A command unfolds and compiles its workflow once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import weft
from patience import PATIENCE_S
from weft.api.pareto import choose
from weft.api.request import Request, compile_request, load_request
from weft.errors import Infeasible, InvalidInput
from weft.workflow.settings import SettingsLayers

COUNTER = """
import json, sys, threading
from weft.cli.main import main
from weft.instance.compilation import compile_instance
from weft.workflow.unfold import try_unfold
names = {try_unfold.__wrapped__.__code__: "unfold", compile_instance.__wrapped__.__code__: "compile"}
def count(frame, event, argument):
    if event == "call" and frame.f_code in names:
        counts[names[frame.f_code]] += 1
for line in sys.argv[1:]:
    counts = dict.fromkeys(names.values(), 0)
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        main(line.split())
    except SystemExit as ended:
        code = ended.code
    sys.setprofile(None)
    print("\\nCOUNTS", json.dumps([code, counts]))
"""

ONCE = [0, {"unfold": 1, "compile": 1}]
HELLO = "weft: 1\nname: hello\ntasks:\n  a: {command: echo on, work: 1}\n  b: {command: echo on, after: a, work: 2}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hello.yaml").write_text(HELLO)
    (tmp_path / "arrivals.yaml").write_text(
        "weft: 1\narrivals: [{workflow: hello.yaml}, {workflow: hello.yaml, at: 1s}]\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "run hello.yaml",
        "run hello.yaml --dry-run",
        "plan hello.yaml --planner heft",
        "pareto hello.yaml --plan-steps 20",
        "plan hello.yaml --choose 1 --plan-steps 20",
        "compare hello.yaml --planner heft,cpop",
        "simulate hello.yaml --repeat 2",
        "simulate --scenario arrivals.yaml",
        "run --arrivals arrivals.yaml",
    ],
)
def test_a_command_unfolds_and_compiles_the_workflow_once(command: str, folder: Path) -> None:
    assert count_calls([command], folder) == [ONCE]


def count_calls(commands: list[str], folder: Path) -> list[Any]:
    """Run commands; return the exit code of each, and how often it unfolds and compiles a workflow."""
    words = [sys.executable, "-c", COUNTER, *commands]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("COUNTS")]
    assert len(lines) == len(commands), done.stderr
    return [json.loads(line.removeprefix("COUNTS")) for line in lines]


def test_commands_about_a_run_unfold_and_compile_the_workflow_once(folder: Path) -> None:
    commands = ["run hello.yaml", "run hello.yaml", "report", "status", "explain b", "logs b", "replay ."]
    commands += ["simulate hello.yaml --journal j.jsonl", "explain j.jsonl b", "replay j.jsonl"]
    commands += ["check hello.yaml --on local"]
    assert count_calls(commands, folder) == [ONCE] * len(commands)
    assert count_calls(["check hello.yaml"], folder) == [[0, {"unfold": 1, "compile": 0}]]


@pytest.mark.parametrize("command", ["resume", "run hello.yaml"])
def test_a_resumed_run_unfolds_and_compiles_the_workflow_once(command: str, folder: Path) -> None:
    words = [sys.executable, "-m", "weft", "run", "hello.yaml"]
    killed = subprocess.run(
        words, cwd=folder, capture_output=True, timeout=PATIENCE_S, check=False,
        env={**os.environ, "WEFT_FAILPOINT": "committed:2"},
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    assert count_calls([command], folder) == [ONCE]


def test_plan_and_front_use_the_same_compiled_instance_of_a_request(folder: Path) -> None:
    request = load_request(folder / "hello.yaml", on="identical:2")
    assert load_request(request, on="local") is request
    assert weft.plan(request, planner="heft").instance is request.instance
    assert choose(request, 1, folder=folder, plan_steps=20).instance is request.instance


def test_infeasible_error_names_the_workflow(folder: Path) -> None:
    flow = weft.load_workflow(folder / "hello.yaml")
    wide = weft.Builder("wide")
    wide.task("a", work=1, nodes=9)
    platform = weft.load_platform("identical:1")
    with pytest.raises(Infeasible, match=r"^wide: "):
        compile_request({"hello": flow, "wide": wide.build()}, platform)


def test_an_unknown_planner_is_rejected(folder: Path) -> None:
    request: Request = load_request(folder / "hello.yaml", on="identical:2")
    assert request.choose_planning(SettingsLayers()).planner == "auto"
    assert request.choose_planning(SettingsLayers(overrides={"planner": "heft"})).planner == "heft"
    with pytest.raises(InvalidInput, match="unknown planner"):
        request.choose_planning(SettingsLayers(overrides={"planner": "no-such-planner"}))


@pytest.mark.parametrize(("budget", "binds"), [(4, True), (12, False)])
def test_policies_without_a_plan_are_refused_if_they_could_exceed_a_budget(budget: int, binds: bool) -> None:
    flow = weft.Builder("thrifty", budgets={"credits": budget})
    flow.task("a", sweep={"k": "1..4"}, work=4, nodes=[1, 2], consumes={"credits": {1: 1, 2: 3}})
    request = compile_request({"thrifty": flow.build()}, weft.load_platform("cluster:8"))
    assert request.choose_planning(SettingsLayers()).policy == "plan"
    assert request.choose_planning(SettingsLayers(), runs=2).policy == ("shared-plans" if binds else "foft")
    fair = SettingsLayers(overrides={"policy": "foft"})
    if binds:
        with pytest.raises(
            InvalidInput, match="policy 'foft' does not support budgets: credits of 'thrifty'"
        ):
            request.choose_planning(fair)
    else:
        assert request.choose_planning(fair).policy == "foft"
