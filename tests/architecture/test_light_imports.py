"""`import weft` and `weft --help` load few modules; a command loads only what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.package import PACKAGE, environment
from patience import PATIENCE_S
from weft.cli.main import SHARED_MODULES

HEAVY = ("numpy", "yaml", "defusedxml", "xml.etree.ElementTree", "sqlite3", "asyncio", "http", "email")
PACKAGES = sorted(
    f"weft.{path.name}"
    for path in PACKAGE.iterdir()
    if (path / "__init__.py").exists() and path.name != "cli"
)
MOST_MODULES_FOR_IMPORT = 20
"""Maximum number of modules beyond those of a bare Python; twelve when this was written."""
MOST_MODULES_FOR_HELP = 20
"""Maximum number of modules beyond those of a bare Python and click; nine when this was written."""


MOST_MODULES_FOR_RUN = 260
"""Maximum number of weft's modules in a run of one task with reports; about 200 when written."""


def loaded(program: str) -> set[str]:
    """Run a program and return the names of all modules that were loaded when it ended."""
    tail = "\nimport json, sys\nsys.stderr.write(chr(10) + json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", "import json\n" + program + tail]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def weft(*arguments: str) -> str:
    return (
        f"from weft.cli.main import main\ntry:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass"
    )


def test_import_weft_loads_few_modules() -> None:
    modules = loaded("import weft")
    assert not modules & {*HEAVY, *PACKAGES, "click", "dataclasses", "weft.errors"}
    assert len(modules - loaded("")) <= MOST_MODULES_FOR_IMPORT


def test_help_loads_few_modules() -> None:
    click = (
        "import click, click.shell_completion\nclick.Group('weft').main(['--help'], standalone_mode=False)"
    )
    modules = loaded(weft("--help"))
    assert not modules & {*HEAVY, *PACKAGES}
    assert len(modules - loaded(click)) <= MOST_MODULES_FOR_HELP


@pytest.mark.parametrize(
    "command",
    [
        "cancel", "check", "clean", "compare", "completion", "convert", "formats", "generate", "hold", "logs", "ls",
        "migrate", "pareto", "plan", "planners", "release", "report", "reproduce", "resume", "run", "schema", "show",
        "status", "stop", "watch",
    ],
)  # fmt: skip
def test_help_of_a_command_loads_few_modules(command: str) -> None:
    modules = loaded(weft(command, "--help"))
    assert not modules & {*HEAVY, *PACKAGES}
    assert f"weft.cli.{SHARED_MODULES.get(command, command)}" in modules


def test_planning_a_hundred_tasks_loads_neither_compiler_nor_solver(tmp_path: Path) -> None:
    flow = tmp_path / "hundred.yaml"
    flow.write_text(
        "weft: 1\ntasks:\n  a: {work: 1}\n  b: {sweep: {k: 1..98}, work: k, after: a}\n  c: {work: 1, after: b}\n"
    )
    arguments = [
        "plan",
        str(flow),
        "--on",
        "random:8",
        "--planner",
        "heft",
        "--out",
        str(tmp_path / "plan.csv"),
    ]
    modules = loaded(weft(*arguments))
    assert len((tmp_path / "plan.csv").read_text().splitlines()) == 101
    assert "weft.planners.heft" in modules
    assert not {name.split(".")[0] for name in modules} & {"numba", "llvmlite", "ortools"}


def test_the_default_planner_loads_no_heavy_library_if_the_first_plan_is_optimal(tmp_path: Path) -> None:
    (tmp_path / "levels.yaml").write_text(
        "weft: 1\ntasks: {a: {sweep: {k: 1..4}, work: 5}, b: {sweep: {k: 1..4}, work: 5, after: a}}\n"
    )
    arguments = ["plan", str(tmp_path / "levels.yaml"), "--on", "identical:4", "--no-chart"]
    modules = loaded(weft(*arguments))
    assert "weft.planners.auto" in modules
    heavy = {"numba", "llvmlite", "ortools", "scipy", "distributed", "multiprocessing", "concurrent"}
    assert not {name.split(".")[0] for name in modules} & heavy
    assert not {"weft.pools", "weft.planners.weave", "weft.planners.exact.cp_sat"} & modules


@pytest.mark.parametrize("arguments", [["--version"], ["plan"], ["paln"], ["completion", "bash"]])
def test_small_commands_and_usage_errors_load_few_modules(arguments: list[str]) -> None:
    assert not loaded(weft(*arguments)) & {*HEAVY[:2], *PACKAGES}


def test_a_run_of_one_task_loads_few_modules(tmp_path: Path) -> None:
    flow = tmp_path / "one.yaml"
    flow.write_text("weft: 1\ntasks:\n  a: {command: 'true'}\n")
    modules = loaded(weft("run", str(flow), "--project", str(tmp_path), "-q"))
    own = {name for name in modules if name.split(".")[0] == "weft"}
    assert "weft.reports.page" in own
    assert len(own) <= MOST_MODULES_FOR_RUN
    assert not own & {"weft.api.plan", "weft.api.simulation", "weft.backends.simulation"}
    # No search follows the first plan, and no entry points are read for names that weft itself has.
    assert not own & {"weft.planners.plan_search", "weft.planners.exact", "weft.search.optimiser"}
    assert "importlib.metadata" not in modules


def test_a_run_loads_numpy_without_threads_and_leaves_the_environment_unchanged() -> None:
    program = """
import os, sys
from weft.cli.options import load_numpy
os.environ.pop("OPENBLAS_NUM_THREADS", None)
before = dict(os.environ)
load_numpy()
assert "numpy" in sys.modules
assert os.environ == before
assert len(os.listdir("/proc/self/task")) == 1
"""
    assert "numpy" in loaded(program)


def test_the_runner_loads_neither_openssl_nor_modules_that_few_tasks_need() -> None:
    folder = PACKAGE / "backends" / "runner"
    program = f"""
import sys
sys.path.insert(0, {str(folder)!r})
import runner
runner._install_package_stubs()
import weft.backends.runner.runner_loop
print(*sys.modules)
"""
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    modules = set(done.stdout.split())
    assert "weft.backends.runner.runner_loop" in modules
    assert not modules & {"_hashlib", "hashlib", "hmac", "glob", "typing", "ctypes"}
