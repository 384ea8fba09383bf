"""The choice between plain and compiled kernels, the report of compilations and the cache of machine code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from weft.errors import InvalidInput
from weft.kernels import compilation
from weft.kernels.priorities import fill_downward_ranks

CHAIN = (
    3,
    np.array([0, 0, 1, 2], dtype=np.uint32),
    np.array([0, 1], dtype=np.uint32),
    np.ones(3),
    np.ones(2),
)


def ranks(work_s):
    found = np.zeros(3)
    compilation.run_kernel(fill_downward_ranks, CHAIN, (found,), work_s=work_s)
    return found.tolist()


@pytest.mark.parametrize("choice", ["plain", "compiled"])
def test_compiled_and_plain_kernels_return_the_same_ranks(choice, monkeypatch):
    monkeypatch.setenv("WEFT_KERNELS", choice)
    assert ranks(0.0) == [0.0, 2.0, 4.0]


def test_an_unknown_value_of_weft_kernels_is_refused(monkeypatch):
    monkeypatch.setenv("WEFT_KERNELS", "fast")
    with pytest.raises(InvalidInput, match="WEFT_KERNELS='fast'"):
        ranks(0.0)


SCRIPT = """
import sys
import numpy as np
from weft.kernels.compilation import report_compilation, run_kernel
from weft.kernels.priorities import fill_downward_ranks
ranks = np.zeros(3)
def run(work_s):
    pointer, before = np.array([0, 0, 1, 2], dtype=np.uint32), np.array([0, 1], dtype=np.uint32)
    run_kernel(fill_downward_ranks, (3, pointer, before, np.ones(3), np.ones(2)), (ranks,), work_s=work_s)
    return "numba" in sys.modules
with report_compilation(lambda name: print("compiling", name)):
    print(run(0.1), run(0.1), run(0.1), run(0.3), run(0.0), ranks.tolist())
"""


def run_script(**environment):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.splitlines()


RESULT = "False False False True True [0.0, 2.0, 4.0]"


def test_many_small_kernel_calls_trigger_one_reported_compilation(tmp_path):
    assert run_script(XDG_CACHE_HOME=str(tmp_path)) == ["compiling fill_downward_ranks", RESULT]
    assert run_script(XDG_CACHE_HOME=str(tmp_path)) == [RESULT]


AT_ONCE = """
import sys
import numpy as np
from weft.kernels.compilation import compile_kernel, run_kernel
from weft.kernels.priorities import fill_downward_ranks
print("ready", flush=True)
sys.stdin.readline()
pointer, before = np.array([0, 0, 1, 2], dtype=np.uint32), np.array([0, 1], dtype=np.uint32)
run_kernel(fill_downward_ranks, (3, pointer, before, np.ones(3), np.ones(2)), (np.zeros(3),), work_s=1.0)
print(sum(compile_kernel(fill_downward_ranks).stats.cache_misses.values()))
"""


def test_kernel_needed_by_several_processes_at_once_is_compiled_by_one_process(tmp_path):
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(tmp_path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 3
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sorted(process.communicate()[0] for process in processes) == ["0\n", "0\n", "1\n"]


def test_without_a_writable_home_machine_code_is_cached_in_a_private_temporary_folder(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    (tmp_path / "tmp").mkdir()
    environment = {"XDG_CACHE_HOME": str(blocked), "TMPDIR": str(tmp_path / "tmp")}
    assert run_script(**environment) == ["compiling fill_downward_ranks", RESULT]
    private = tmp_path / "tmp" / f"weft-{os.getuid()}"
    assert private.stat().st_mode & 0o077 == 0
    assert list(private.rglob("*.nbi"))
    assert run_script(**environment) == [RESULT]


def test_cache_folder_that_other_users_can_write_is_not_used(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    open_to_all = tmp_path / "tmp" / f"weft-{os.getuid()}"
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)
    environment = {"XDG_CACHE_HOME": str(blocked), "TMPDIR": str(tmp_path / "tmp")}
    assert run_script(**environment) == run_script(**environment) == ["compiling fill_downward_ranks", RESULT]
    assert list(open_to_all.rglob("*.nbi")) == []


def test_a_change_of_any_kernel_file_changes_the_cache_folder(tmp_path, monkeypatch):
    copy = tmp_path / "kernels"
    shutil.copytree(Path(compilation.__file__).parent, copy)
    monkeypatch.setattr(compilation, "__file__", str(copy / "compilation.py"))
    before = compilation._kernel_digest()
    digests = {before}
    for path in sorted(copy.glob("*.py")):
        path.write_text(path.read_text() + "\n")
        digests.add(compilation._kernel_digest())
    assert len(digests) == 1 + len(list(copy.glob("*.py")))


def test_kernels_call_only_kernels():
    """A kernel that calls a plain function would fail only when it is compiled."""
    for function in compilation._marked:
        called = [function.__globals__.get(name) for name in function.__code__.co_names]
        strange = [
            other.__name__
            for other in called
            if callable(other) and not isinstance(other, type) and other not in compilation._marked
        ]
        assert strange == [], function.__qualname__
