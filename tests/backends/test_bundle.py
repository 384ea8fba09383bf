"""The bundle runs without weft, uses Python 3.8 only, and performs file operations on a host."""

import ast
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import vermin

from weft.backends.attempt.host_files import decode_file, decode_problem
from weft.backends.bundle import HOST_MODULES, bundle_name, make_bundle

ROOT = Path(__file__).parents[2]
OLDEST = (3, 8)


def source_of(module: str) -> Path:
    return ROOT / "src/weft" / f"{module.replace('.', '/')}.py"


def python_version_needed(source: str) -> tuple[int, int]:
    """Return the oldest Python 3 that has the syntax and the library functions of a source."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            first, last = node.body[0].lineno - 1, node.body[-1].end_lineno
            indent = " " * node.body[0].col_offset
            lines[first:last] = [f"{indent}pass", *[""] * (last - first - 1)]  # never executed
    visitor = vermin.visit("\n".join(lines))
    return max((found for found in visitor.minimum_versions() if found and found[0] == 3), default=(3, 0))


def runtime_unions(source: str) -> list[int]:
    """Return the lines with ``isinstance(x, A | B)``, which needs Python 3.10 and which vermin misses."""
    calls = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call)]
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id in ("isinstance", "issubclass")
        and any(
            isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr) for part in ast.walk(call.args[1])
        )
    ]


@pytest.mark.parametrize("module", HOST_MODULES)
def test_module_of_the_bundle_needs_python_3_8_only(module: str) -> None:
    source = source_of(module).read_text()
    assert python_version_needed(source) <= OLDEST
    assert not runtime_unions(source)
    assert not [
        each.lineno
        for each in ast.parse(source).body
        if isinstance(each, ast.Assign | ast.AnnAssign)
        and isinstance(each.value, ast.Subscript)
        and isinstance(each.value.value, ast.Name)
        and each.value.value.id in ("dict", "list", "tuple", "set", "frozenset", "type")
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import functools\n@functools.cache\ndef f(): ...\n",
        "with (open('a') as a, open('b') as b):\n  pass\n",
        "x = {} | {}\n",
    ],
)
def test_newer_python_in_a_module_would_be_found(source: str) -> None:
    assert python_version_needed(source) > OLDEST


def test_union_in_isinstance_would_be_found() -> None:
    assert runtime_unions("isinstance(1, int | str)") == [1]


def test_modules_of_the_bundle_import_only_modules_of_the_bundle() -> None:
    inside = {f"weft.{module}" for module in HOST_MODULES}
    outside = set()
    for module in HOST_MODULES:
        for node in ast.walk(ast.parse(source_of(module).read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("weft"):
                outside |= {node.module} - inside
    assert not outside


def test_modules_of_the_bundle_are_formatted_for_python_3_8() -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["per-file-target-version"]
    listed = set()
    for pattern, target in targets.items():
        assert target == "py38"
        start, _, rest = pattern.partition("{")
        names, _, end = rest.partition("}")
        listed |= {f"{start}{name}{end}" for name in names.split(",")} if rest else {pattern}
    assert {f"src/weft/{module.replace('.', '/')}.py" for module in HOST_MODULES} <= listed


def test_bundle_is_the_same_each_time_and_named_by_its_content() -> None:
    first = make_bundle()
    make_bundle.cache_clear()
    assert make_bundle() == first
    assert bundle_name() == f"weft-{hashlib.blake2b(first, digest_size=8).hexdigest()}.pyz"


class FileServer:
    """A process that serves file operations from the bundle, without weft on its path."""

    def __init__(self, bundle: Path, python: str) -> None:
        command = [python, "-I", "-S", str(bundle), "files"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
        )
        self.count = 0

    def send(self, **request: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, object]:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def call(self, what: str, **arguments: object) -> object:
        self.count += 1
        self.send(id=self.count, do=what, **arguments)
        answer = self.receive()
        assert answer["id"] == self.count
        if "problem" in answer:
            raise decode_problem(answer["problem"])
        return answer["value"]

    def close(self) -> None:
        rest, errors = self.process.communicate(timeout=60)
        assert (self.process.returncode, rest, errors) == (0, b"", b"")


def find_old_python() -> str | None:
    """Return a Python that is older than the one weft needs, the oldest that is installed; None: there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "/nowhere"), "versions")
    for version in ("3.8", "3.9", "3.10"):
        for python in (shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python3"))):
            if python and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
                return python
    return None


@pytest.fixture(params=["this Python", "an older one"])
def server(request, tmp_path):
    python = sys.executable if request.param == "this Python" else find_old_python()
    if python is None:
        pytest.skip("no Python from 3.8 to 3.10 is installed")
    bundle = tmp_path / bundle_name()
    bundle.write_bytes(make_bundle())
    server = FileServer(bundle, python)
    yield server
    server.close()


def digest_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def test_file_is_received_placed_collected_and_copied(server, tmp_path) -> None:
    sandbox, arrivals = tmp_path / "sandbox", tmp_path / "sandbox/arrivals"
    server.call("make_workdir", sandbox=str(sandbox), parts=["p", "1", "2-ab"])
    workdir = sandbox / "p/1/2-ab"
    assert stat.S_IMODE(workdir.stat().st_mode) == 0o700
    content = os.urandom(100_000)
    digest = digest_of(content)
    assert server.call("find_arrived", folder=str(arrivals), digests=[digest]) == {}
    (arrivals / f"{digest}.part").write_bytes(content[:60_000])
    assert server.call("find_arrived", folder=str(arrivals), digests=[digest]) == {digest: 60_000}
    (arrivals / f"{digest}.part").write_bytes(content)
    server.call("accept", folder=str(arrivals), digest=digest)
    assert server.call("find_arrived", folder=str(arrivals), digests=[digest]) == {digest: -1}
    place = {"folder": str(arrivals), "digest": digest, "root": str(workdir)}
    server.call("place", **place, name="in/data", mode=0o640, modified_ns=10**18, keep=False)
    assert (workdir / "in/data").read_bytes() == content
    assert stat.S_IMODE((workdir / "in/data").stat().st_mode) == 0o640
    assert (workdir / "in/data").stat().st_mtime_ns == 10**18
    assert not any(arrivals.iterdir())
    (workdir / "out").mkdir()
    (workdir / "out/a").write_text("a")
    found = server.call("collect", root=str(workdir), patterns=["in/data", "out/"], missing_ok=False)
    files = [decode_file(each) for each in found]
    assert [(file.name, file.size_bytes) for file in files] == [("in/data", 100_000), ("out", 1)]
    assert files[0].digest == digest
    boot = server.call("describe")["boot"]
    assert server.call("find_intact", root=str(workdir), files=found, boot=boot) == [True, True]
    server.call("make_workdir", sandbox=str(sandbox), parts=["p", "1", "3-cd"])
    other = sandbox / "p/1/3-cd"
    source = {"source_root": str(workdir), "source": "out", "root": str(other), "name": "out"}
    server.call("copy", **source, digest=files[1].digest, modes="read-only")
    assert (other / "out/a").read_text() == "a"
    server.call("remove", root=str(sandbox / "p/1"), name="2-ab")
    assert not workdir.exists()


def test_damaged_arrival_is_removed_and_reported(server, tmp_path) -> None:
    digest = digest_of(b"right")
    (tmp_path / f"{digest}.part").write_bytes(b"wrong")
    with pytest.raises(Exception, match="differs from the one that was sent"):
        server.call("accept", folder=str(tmp_path), digest=digest)
    assert not (tmp_path / f"{digest}.part").exists()


def test_link_out_of_the_working_directory_is_refused(server, tmp_path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("x")
    (tmp_path / "work/out").symlink_to(tmp_path / "secret")
    with pytest.raises(Exception, match="leads out of"):
        server.call("collect", root=str(tmp_path / "work"), patterns=["out"], missing_ok=False)
    with pytest.raises(Exception, match="leads out of"):
        server.call("read", root=str(tmp_path / "work"), names=["out"])
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) & 0o200


def test_report_files_and_versions_are_read(server, tmp_path) -> None:
    (tmp_path / "progress").write_bytes(b"0.5\n\xff")
    found = server.call("read", root=str(tmp_path), names=["progress", "missing"])
    assert found == {"progress": "0.5\n\udcff"}
    versions = server.call("find_versions", root=str(tmp_path), patterns=["prog*", "missing"])
    status = (tmp_path / "progress").stat()
    assert list(versions) == ["progress"]
    assert versions["progress"][:2] == [5, status.st_mtime_ns]


@pytest.mark.parametrize(
    "line", [b"{}", b"[]", b"nonsense", b'{"id": 1, "do": "_answer"}', b'{"id": 1, "do": "remove"}', b"\xff"]
)
def test_invalid_request_is_answered_and_the_server_continues(server, line: bytes) -> None:
    server.process.stdin.write(line + b"\n")
    server.process.stdin.flush()
    assert "problem" in server.receive()
    assert "boot" in server.call("describe")


def test_bundle_contains_no_other_files() -> None:
    import io

    with zipfile.ZipFile(io.BytesIO(make_bundle())) as bundle:
        names = set(bundle.namelist())
    modules = {f"weft/{module.replace('.', '/')}.py" for module in HOST_MODULES}
    assert names - modules == {
        "__main__.py", "weft/__init__.py", "weft/backends/__init__.py", "weft/backends/attempt/__init__.py",
        "weft/backends/dask/__init__.py", "weft/backends/runner/__init__.py", "weft/backends/slurm/__init__.py",
    }  # fmt: skip
