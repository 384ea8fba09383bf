"""The import contracts of pyproject.toml hold, name every package, and fail for a violation of each."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from architecture.package import PACKAGE, ROOT, environment, files, imports, module_name
from patience import PATIENCE_S

CONFIGURATION = ROOT / "pyproject.toml"


def contracts() -> list[dict[str, object]]:
    return tomllib.loads(CONFIGURATION.read_text())["tool"]["importlinter"]["contracts"]


def layers() -> list[str]:
    listed = next(contract for contract in contracts() if contract["type"] == "layers")["layers"]
    return [name.strip() for line in listed for name in line.split("|")]


def lint(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    )
    command = [sys.executable, "-c", program, "--no-cache", "--config", str(CONFIGURATION), *arguments]
    variables = environment(PYTHONPATH=str(source), COLUMNS="300")
    return subprocess.run(
        command, cwd=source, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_every_import_contract_holds() -> None:
    done = lint(PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(contracts())} kept, 0 broken." in done.stdout


def test_layers_name_every_package() -> None:
    packages = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    built = {name for name in layers() if not name.startswith("(")}
    planned = {name.strip("()") for name in layers()} - built
    packages -= {"__init__", "__main__"}
    assert packages <= built | planned
    assert built <= packages, "a layer without parentheses must exist"


def test_the_layers_are_in_the_order_of_the_architecture() -> None:
    names = [name.strip("()") for name in layers()]
    order = [
        "cli",
        "service",
        "api",
        "reports",
        "papers",
        "runtime",
        "pools",
        "repository",
        "backends",
        "engine",
    ]
    order += ["policies", "planners", "search", "kernels", "formats", "schedule", "instance", "predictors"]
    order += ["platform", "expressions", "registry", "errors"]
    assert [name for name in names if name in order] == order


VIOLATIONS = {
    "Layers: a package imports only from the packages below it": ("workflow/bad_layer.py", "import weft.api"),
    "Code below the backends has no clock": (
        "planners/bad_clock.py",
        "def now():\n    import time\n    return time.time()",
    ),
    "Verification of schedules": ("schedule/verification.py", "import weft.instance"),
    "Search and kernels import nothing": ("search/bad_search.py", "import weft.workflow"),
    "The engine imports no concrete policy": ("engine/bad_engine.py", "import weft.policies.greedy"),
    "Click only in cli": ("api/bad_click.py", "from click.shell_completion import shell_complete"),
    "YAML and XML only": ("workflow/bad_yaml.py", "def read():\n    import yaml"),
    "Numba only in kernels": ("planners/bad_numba.py", "from numba import njit"),
    "SciPy only in search": ("schedule/bad_scipy.py", "from scipy.optimize import minimize"),
    "OR-Tools only": ("planners/bad_solver.py", "from ortools.sat.python import cp_model"),
    "Dask only": ("search/bad_dask.py", "from distributed import Client"),
    "asyncssh only": ("backends/bad_ssh.py", "import asyncssh"),
    "Databases only": ("runtime/bad_database.py", "import sqlalchemy"),
    "Web frameworks only": ("api/bad_web.py", "import starlette.applications"),
    "fsspec only": ("backends/bad_files.py", "import fsspec"),
}
ALLOWED = {
    "cli/good_click.py": "import click, time",
    "api/good_clock.py": "import time",
    "kernels/good_numba.py": "from numba import njit",
    "search/good_scipy.py": "from scipy.optimize import minimize",
    "planners/exact/solver.py": "import signal\nfrom ortools.sat.python import cp_model",
    "pools/good_dask.py": "from distributed import Client",
    "backends/dask/good_dask.py": "import dask, distributed, threading, subprocess",
    "backends/attempt/external_files.py": "import aiohttp, fsspec",
    "backends/ssh/good_ssh.py": "import asyncssh, asyncio",
    "repository/good_database.py": "import sqlalchemy, sqlite3",
    "service/good_web.py": "import starlette.applications, asyncio",
    "policies/policy.py": "",
    "policies/greedy.py": "import weft.policies.policy",
    "engine/good_engine.py": "import weft.policies.policy",
    "formats/yaml_document.py": "import yaml",
    "formats/xml_document.py": "import defusedxml.ElementTree",
    "planners/heft.py": "import numpy",
}


def build_package(root: Path, contents: dict[str, str]) -> None:
    """Write a small package with an empty package per layer, and these files."""
    package = root / "weft"
    layer_names = [name.strip("()") for name in layers()]
    wanted = {f"{name}/__init__.py": "" for name in layer_names} | {"schedule/verification.py": ""} | contents
    for name, text in wanted.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").touch()


def test_no_contract_forbids_an_allowed_import(tmp_path: Path) -> None:
    build_package(tmp_path, ALLOWED)
    done = lint(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_contract_detects_a_violation(tmp_path: Path) -> None:
    build_package(tmp_path, ALLOWED | dict(VIOLATIONS.values()))
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = re.findall(r"^(.*\S) BROKEN", done.stdout, re.MULTILINE)
    assert len(VIOLATIONS) == len(contracts()) == len(broken), done.stdout
    for start, (name, _) in VIOLATIONS.items():
        assert any(contract.startswith(start) for contract in broken), f"{name} was not caught\n{done.stdout}"


def test_package_missing_from_the_layers_is_detected(tmp_path: Path) -> None:
    build_package(tmp_path, ALLOWED | {"unlisted/module.py": ""})
    done = lint(tmp_path)
    assert done.returncode == 1
    assert "unlisted" in done.stdout


@pytest.mark.parametrize("library", ["ortools", "distributed"])
def test_a_heavy_library_is_imported_by_one_module_per_package(library: str) -> None:
    users = [
        module_name(path) for path in files() if any(name.split(".")[0] == library for name in imports(path))
    ]
    packages = [name.split(".")[1] for name in users]
    assert len(packages) == len(set(packages)), users


def test_only_registries_and_lazy_names_import_modules_by_name() -> None:
    allowed = {
        "weft",
        "weft.registry",
        "weft.cli.main",
        "weft.api",
        "weft.api.functions.child",
        "weft.backends.attempt.call",
    }  # the last two: users' modules
    users = {
        module_name(path) for path in files() if {"importlib", "importlib.import_module"} & imports(path)
    }
    assert users <= allowed
