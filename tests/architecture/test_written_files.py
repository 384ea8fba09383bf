"""Files are created by ``weft.private_files``; every other place that creates one is listed with a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture.package import PACKAGE, files

_WRITERS = ("write_text", "write_bytes", "mkdir", "makedirs", "TemporaryFile", "mkdtemp", "mkstemp")

_STAGING = "files of tasks: entered by descriptor, without links; see tests/backends/attempt"
_RECORDS = "records of attempts: entered by descriptor, always new files of mode 0600"
_RUNNER = "loaded by the runner, which imports nothing else of weft; opened by descriptor, no link followed"
_TASK = "runs in the program of a task, in its own directory"
_EXPERIMENT = "writes a temporary project of an experiment"
ALLOWED = {
    "private_files.py": "the module itself",
    "task.py": _TASK,
    "api/functions/child.py": _TASK,
    "papers/unified_program.py": _TASK,
    "papers/unified_migration.py": _EXPERIMENT,
    "kernels/compilation.py": "folder for machine code in the user's cache directory",
    "reports/page.py": "compiled templates beside their sources, as Python stores compiled modules",
    "backends/attempt/attempt.py": _RECORDS,
    "backends/attempt/external_files.py": _STAGING,
    "backends/attempt/host_files.py": _STAGING,
    "backends/attempt/safe_paths.py": _STAGING,
    "backends/attempt/staging.py": _STAGING,
    "backends/dask/station.py": "runs on a Dask worker without weft; writes the bundle and arriving files there",
    "backends/layout.py": "empty private folder that shows whether a sandbox can be created; removed at once",
    "backends/attempt/machine_health.py": "test file that shows whether a sandbox can be written; removed at once",
    "backends/runner/processes.py": _RUNNER,
    "backends/runner/records.py": _RUNNER,
    "backends/runner/runner.py": _RUNNER,
    "backends/runner/runner_link.py": _RUNNER,
    "backends/slurm/login_server.py": "runs on a login node without weft; locks the folder that it serves",
    "backends/slurm/message_log.py": _RUNNER,
    "backends/ssh/connection.py": "folders on an ssh host; files received under names that staging chooses",
}


def find_writers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything in a module that creates a file or a folder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "O_CREAT":
            yield node.lineno, "O_CREAT"
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _WRITERS:
            yield node.lineno, name
        if name == "open" and _is_writing(_mode(node)):
            yield node.lineno, "open"


def _mode(call: ast.Call) -> str:
    """Return the mode in a call of ``open(name, mode)`` or ``path.open(mode)``; "" if there is none."""
    stated = [each.value for each in call.keywords if each.arg == "mode"]
    stated += call.args[0 if isinstance(call.func, ast.Attribute) else 1 :][:1]
    return str(stated[0].value) if stated and isinstance(stated[0], ast.Constant) else ""


def _is_writing(mode: str) -> bool:
    return set(mode) <= set("rwaxbt+") and bool(set(mode) & set("wax+"))


def writers(path: Path) -> list[tuple[int, str]]:
    return list(find_writers(ast.parse(path.read_text(encoding="utf-8"))))


def test_files_are_created_in_one_module() -> None:
    found = {str(path.relative_to(PACKAGE)): each for path in files() if (each := writers(path))}
    offenders = {name: each for name, each in found.items() if name not in ALLOWED}
    assert not offenders, "use weft.private_files, or state a reason here"
    assert set(ALLOWED) <= set(found), "an entry without such a place"
    assert all(ALLOWED.values())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Path('x').write_text('')", "write_text"),
        ("path.write_bytes(b'')", "write_bytes"),
        ("open(name, 'w')", "open"),
        ("path.open(mode='ab')", "open"),
        ("open(name, 'x', encoding='utf-8')", "open"),
        ("path.open('r+')", "open"),
        ("folder.mkdir()", "mkdir"),
        ("os.open('name', os.O_WRONLY | os.O_CREAT)", "O_CREAT"),
    ],
)
def test_every_way_to_create_a_file_is_detected(text: str, name: str) -> None:
    assert [each for _, each in find_writers(ast.parse(text))] == [name]


@pytest.mark.parametrize("text", ["open('w')", "path.open()", "path.open('rb')", "os.fdopen(3, 'wb')"])
def test_reading_a_file_is_not_reported_as_creating_one(text: str) -> None:
    assert not list(find_writers(ast.parse(text)))
