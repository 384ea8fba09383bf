"""Benchmarks write to a disk, measure whole commands and compare two checkouts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import compare
import measurement

ROOT = Path(__file__).parents[1]


def test_benchmark_folder_in_memory_is_refused() -> None:
    if measurement.file_system(Path("/dev/shm")) != "tmpfs":
        pytest.skip("no file system in memory here")
    with pytest.raises(SystemExit, match=r"--where DIR"):
        measurement.disk_folder(Path("/dev/shm"))


def test_the_file_system_of_the_innermost_mount_is_found() -> None:
    assert measurement.file_system(Path("/proc/self")) == "proc"


def test_the_usage_of_a_command_includes_its_children() -> None:
    work = "sum(range(3_000_000))"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}]); print('done')"
    alone = measurement.run_command([sys.executable, "-c", "print('done')"])
    used = measurement.run_command([sys.executable, "-c", script])
    assert used.stdout == alone.stdout == "done\n"
    assert used.cpu_s > alone.cpu_s
    assert used.wall_s > 0.0


def test_the_usage_of_a_command_includes_a_process_that_outlives_it(tmp_path: Path) -> None:
    own = tmp_path / "own_s"
    work = f"import time; sum(range(10_000_000)); open({str(own)!r}, 'w').write(str(time.process_time()))"
    start = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {work!r}], start_new_session=True)"
    )
    used = measurement.run_command([sys.executable, "-W", "ignore", "-c", start])
    assert used.cpu_s > float(own.read_text())


def test_a_command_that_fails_ends_the_benchmark_with_its_error_output() -> None:
    with pytest.raises(SystemExit, match=r"exit code 3:\nno luck"):
        measurement.run_command(
            [sys.executable, "-c", "import sys; print('no luck', file=sys.stderr); sys.exit(3)"]
        )


def test_two_checkouts_are_compared_figure_by_figure(capsys: pytest.CaptureFixture[str]) -> None:
    if not (ROOT / ".venv" / "bin" / "python").exists():
        pytest.skip("this checkout has no virtual environment")
    compare.main([str(ROOT), str(ROOT), "--rounds", "1", "--only", "help"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["figure"] for line in lines] == ["about", "help/cpu_s", "help/wall_s"]
    assert all(line["old"] > 0 and line["new"] > 0 for line in lines[1:])
    assert lines[1]["within"] == (lines[1]["ratio"] <= 1.05)


def test_comparison_of_an_unknown_benchmark_is_refused() -> None:
    with pytest.raises(SystemExit):
        compare.main([str(ROOT), str(ROOT), "--only", "speed"])
