"""A command unfolds and compiles its workflow once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.api.pareto import choose
from weft.api.request import Request, compile_request, load_request
from weft.errors import Infeasible, InvalidInput

COUNTER = """
import json, sys, threading
from weft.cli.main import main
from weft.instance.compilation import compile_instance
from weft.workflow.unfold import try_unfold
names = {try_unfold.__code__: "unfold", compile_instance.__wrapped__.__code__: "compile"}
counts = dict.fromkeys(names.values(), 0)
def count(frame, event, argument):
    if event == "call" and frame.f_code in names:
        counts[names[frame.f_code]] += 1
threading.setprofile(count)
sys.setprofile(count)
try:
    main(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
sys.setprofile(None)
print("COUNTS", json.dumps([code, counts]))
"""

HELLO = "weft: 1\nname: hello\ntasks:\n  a: {command: echo on, work: 1}\n  b: {command: echo on, after: a, work: 2}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hello.yaml").write_text(HELLO)
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
    ],
)
def test_a_command_unfolds_and_compiles_once(command: str, folder: Path) -> None:
    words = [sys.executable, "-c", COUNTER, *command.split()]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    line = done.stdout.splitlines()[-1]
    assert json.loads(line.removeprefix("COUNTS")) == [0, {"unfold": 1, "compile": 1}], done.stderr


def test_a_request_serves_plan_and_front(folder: Path) -> None:
    request = load_request(folder / "hello.yaml", on="identical:2")
    assert load_request(request, on="local") is request
    assert weft.plan(request, planner="heft").instance is request.instance
    assert choose(request, 1, folder=folder, plan_steps=20).instance is request.instance


def test_infeasible_names_the_workflow(folder: Path) -> None:
    flow = weft.load_workflow(folder / "hello.yaml")
    wide = weft.Builder("wide")
    wide.task("a", work=1, nodes=9)
    platform = weft.load_platform("identical:1")
    with pytest.raises(Infeasible, match=r"^wide: "):
        compile_request({"hello": flow, "wide": wide.build()}, platform)


def test_an_unknown_planner_is_rejected(folder: Path) -> None:
    request: Request = load_request(folder / "hello.yaml", on="identical:2")
    request.check_planner("heft")
    with pytest.raises(InvalidInput, match="unknown planner"):
        request.check_planner("no-such-planner")
