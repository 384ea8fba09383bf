"""The contracts of pyproject.toml hold, name every room of the house, and can be broken."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from architecture.house import HOUSE, ROOT, environment, files, imports, module_name

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
        command, cwd=source, env=variables, capture_output=True, text=True, timeout=120, check=False
    )


def test_every_contract_holds() -> None:
    done = lint(HOUSE.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(contracts())} kept, 0 broken." in done.stdout


def test_the_layers_name_every_room() -> None:
    rooms = {path.stem for path in HOUSE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    built = {name for name in layers() if not name.startswith("(")}
    planned = {name.strip("()") for name in layers()} - built
    rooms -= {"__init__", "__main__"}
    assert rooms <= built | planned
    assert built <= rooms, "a layer without parentheses must exist"


def test_the_ground_floor_is_at_the_bottom() -> None:
    names = [name.strip("()") for name in layers()]
    order = [
        "cli",
        "service",
        "api",
        "reports",
        "studies",
        "runtime",
        "pools",
        "repository",
        "backends",
        "engine",
    ]
    order += ["policies", "planners", "search", "kernels", "formats", "schedule", "instance", "predictors"]
    order += ["platform", "expressions", "registry", "errors"]
    assert [name for name in names if name in order] == order


OFFENCES = {
    "The house: a folder imports only from those below it": ("workflow/bad_layer.py", "import weft.api"),
    "Deciding code has no clock": (
        "planners/bad_clock.py",
        "def now():\n    import time\n    return time.time()",
    ),
    "The verification of schedules": ("schedule/verification.py", "import weft.instance"),
    "Search and kernels know nothing": ("search/bad_search.py", "import weft.workflow"),
    "The engine knows no concrete policy": ("engine/bad_engine.py", "import weft.policies.greedy"),
    "Click only in cli": ("api/bad_click.py", "from click.shell_completion import shell_complete"),
    "YAML and XML only": ("workflow/bad_yaml.py", "def read():\n    import yaml"),
    "Numba only in kernels": ("planners/bad_numba.py", "from numba import njit"),
    "SciPy only in search": ("schedule/bad_scipy.py", "from scipy.optimize import minimize"),
    "OR-Tools only": ("planners/lists/bad_solver.py", "from ortools.sat.python import cp_model"),
    "Dask only": ("search/bad_dask.py", "from distributed import Client"),
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
    "backends/good_dask.py": "import dask, threading, subprocess",
    "backends/attempt/external_files.py": "import aiohttp, fsspec",
    "repository/good_database.py": "import sqlalchemy, sqlite3",
    "service/good_web.py": "import starlette.applications, asyncio",
    "policies/policy.py": "",
    "policies/greedy.py": "import weft.policies.policy",
    "engine/good_engine.py": "import weft.policies.policy",
    "formats/yaml_document.py": "import yaml",
    "formats/xml_document.py": "import defusedxml.ElementTree",
    "planners/heft.py": "import numpy",
}


def build_house(root: Path, contents: dict[str, str]) -> None:
    """Write a small package of the same rooms, every one of them built."""
    house = root / "weft"
    rooms = [name.strip("()") for name in layers()]
    wanted = {f"{room}/__init__.py": "" for room in rooms} | {"schedule/verification.py": ""} | contents
    for name, text in wanted.items():
        path = house / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in [house, *(path for path in house.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").touch()


def test_no_contract_forbids_what_is_allowed(tmp_path: Path) -> None:
    build_house(tmp_path, ALLOWED)
    done = lint(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_contract_catches_its_offence(tmp_path: Path) -> None:
    build_house(tmp_path, ALLOWED | dict(OFFENCES.values()))
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = re.findall(r"^(.*\S) BROKEN", done.stdout, re.MULTILINE)
    assert len(OFFENCES) == len(contracts()) == len(broken), done.stdout
    for start, (name, _) in OFFENCES.items():
        assert any(contract.startswith(start) for contract in broken), f"{name} was not caught\n{done.stdout}"


def test_a_forgotten_room_is_caught(tmp_path: Path) -> None:
    build_house(tmp_path, ALLOWED | {"attic/junk.py": ""})
    done = lint(tmp_path)
    assert done.returncode == 1
    assert "attic" in done.stdout


@pytest.mark.parametrize("library", ["ortools", "distributed"])
def test_a_heavy_library_has_at_most_one_file_per_room(library: str) -> None:
    users = [
        module_name(path) for path in files() if any(name.split(".")[0] == library for name in imports(path))
    ]
    rooms = [name.split(".")[1] for name in users]
    assert len(rooms) == len(set(rooms)), users


def test_modules_are_named_by_text_only_where_shelves_and_lazy_names_are_resolved() -> None:
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
