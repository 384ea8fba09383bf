"""``weft clean`` removes the directories of its project on ssh hosts, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from patience import PATIENCE_S
from ssh_hosts import SANDBOX, SshHost, SshHosts
from ssh_projects import run, weft

TASKS = {
    "a": {"command": "echo a > a; echo said", "outputs": ["a"], "requirements": 'arch == "x1"'},
    "b": {"command": "cat a > b", "inputs": ["a"], "outputs": ["b"], "requirements": 'arch == "x2"'},
}


def finish(grid: Path) -> None:
    engine = run(grid, TASKS)
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out


def own_files(hosts: SshHosts, project: Path) -> list[str]:
    """Return the files on the first two hosts that belong to a project."""
    [mirror] = {path.name for path in project.glob(".weft/mirror/host*/*") if len(path.name) == 16}
    found = []
    for host in list(hosts)[:2]:
        found += host.run("sh", "-c", f"find {SANDBOX}/{mirror} -type f 2>/dev/null || :").split()
    return found


def test_directories_of_the_project_alone_are_removed(
    grid: Path, ssh_hosts: SshHosts, tmp_path_factory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "grid.yaml").write_text((grid / "grid.yaml").read_text())
    finish(other)
    finish(grid)
    kept, own = own_files(ssh_hosts, other), own_files(ssh_hosts, grid)
    assert {path.rpartition("/")[2] for path in own} >= {"a", "b", "out", "err"}
    shown = weft(grid, "clean", "--dry-run")
    assert re.search(rf"ssh://host1;config=\w+{SANDBOX}", shown)
    assert own_files(ssh_hosts, grid) == own
    mirrors = [path for path in grid.glob(".weft/mirror/host*/*") if len(path.name) == 16]
    weft(grid, "clean")
    for host in list(ssh_hosts)[:2]:
        assert mirrors[0].name not in host.run("ls", SANDBOX).split()
    assert own_files(ssh_hosts, other) == kept
    assert "reused" in weft(other, "run", "flow.yaml", "--on", "grid.yaml")


def test_results_are_kept_on_request(grid: Path, ssh_hosts: SshHosts) -> None:
    finish(grid)
    weft(grid, "clean", "--keep-results")
    names = [path.rpartition("/")[2] for path in own_files(ssh_hosts, grid)]
    assert sorted(names) == ["a", "a", "b"]
    assert "reused" in weft(grid, "run", "flow.yaml", "--on", "grid.yaml")


def test_directories_on_a_host_that_does_not_answer_are_removed_later(
    grid: Path, ssh_hosts: SshHosts
) -> None:
    finish(grid)
    before = (ssh_hosts.known_hosts).read_text()
    ssh_hosts.known_hosts.write_text(before.replace("host1,", "gone1,").replace(ssh_hosts[0].address, "gone"))
    try:
        out = weft(grid, "clean")
    finally:
        ssh_hosts.known_hosts.write_text(before)
    assert "kept the directories on host1" in out
    assert "run `weft clean` again" in out
    assert [path.rpartition("/")[2] for path in own_files(ssh_hosts, grid) if path.endswith("/a")]
    weft(grid, "clean")
    assert not list(grid.glob(".weft/mirror/host1/*/1"))


def test_full_disk_is_cleaned_by_a_version_whose_bundle_is_not_there(grid: Path, ssh_hosts: SshHosts) -> None:
    finish(grid)
    host = ssh_hosts[0]
    folder = f"/home/{ssh_hosts.user}/.cache/weft"
    own = existing(host, own_files(ssh_hosts, grid))
    assert own
    host.run("sh", "-ec", f"cd {folder}; mv weft-*.pyz old.pyz; head -c 500M /dev/zero > /tmp/filling || :")
    try:
        weft(grid, "clean", "--dry-run")
        assert existing(host, own) == own
        out = weft(grid, "clean")
    finally:
        host.run("rm", "/tmp/filling")
    assert "kept the directories" not in out
    assert existing(host, own) == []
    assert not [name for name in host.run("ls", folder).split() if name.startswith("weft-")]
    weft(grid, "run", "flow.yaml", "--on", "grid.yaml")


def existing(host: SshHost, paths: list[str]) -> list[str]:
    """Return those of these files that exist on a host."""
    return [path for path in paths if host.run("sh", "-c", f"ls -d {path} 2>/dev/null || :").strip()]
