from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.platform.local import local_machine, usable_cores, usable_memory


def test_the_local_machine_has_plausible_values() -> None:
    machine = local_machine()
    assert list(machine.find_problems()) == []
    assert 1 <= machine.nodes == usable_cores() <= (os.cpu_count() or 1)
    assert machine.cores == 1
    assert machine.memory is not None
    assert 1e7 < machine.memory < 1e15
    assert machine.arch == os.uname().machine
    assert machine.os == os.uname().sysname.lower()


def _computer(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": "MemFree: 1 kB\nMemTotal:    1000000 kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 1_024_000_000),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "5000\n"}, 5000),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "7000\n"}, 7000),
        (
            {
                "proc/self/cgroup": "0::/a\n",
                "sys/fs/cgroup/a/memory.max": "max\n",
                "sys/fs/cgroup/memory.max": "9000\n",
            },
            9000,
        ),
        ({"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/memory.max": "6000\n"}, 6000),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/job\n",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4000\n",
            },
            4000,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            1_024_000_000,
        ),
        ({"proc/self/cgroup": "nonsense\n0::/a\n"}, 1_024_000_000),
    ],
)
def test_memory_is_the_minimum_of_installed_and_limit(
    tmp_path: Path, files: dict[str, str], expected: float
) -> None:
    assert usable_memory(_computer(tmp_path, files)) == expected


def test_memory_is_read_from_sysconf_if_meminfo_is_missing(tmp_path: Path) -> None:
    found = usable_memory(tmp_path)
    assert found == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
