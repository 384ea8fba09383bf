"""``weft sites`` with a real Slurm and real ssh hosts: detected and measured platforms."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from patience import PATIENCE_S
from slurm_cluster import SlurmCluster
from ssh_hosts import SshHosts


class SiteFolder:
    """A folder in which the command is called; Slurm is on the PATH."""

    def __init__(self, folder: Path, cluster: SlurmCluster) -> None:
        self.folder = folder
        self.environment = {**cluster.environment, "NO_COLOR": "1"}

    def weft(self, *words: str, code: int = 0) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "weft", "sites", *words],
            cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout, done.stderr


@pytest.fixture
def site(tmp_path: Path, slurm_cluster: SlurmCluster) -> SiteFolder:
    return SiteFolder(tmp_path, slurm_cluster)


def test_partitions_are_detected_by_kind_of_nodes(site: SiteFolder) -> None:
    _, notes = site.weft("detect", "slurm")
    assert "partition short shares nodes with main" in notes
    site.weft("detect", "slurm", "--out", "cluster.yaml")
    fast, slow = weft.load_platform(site.folder / "cluster.yaml").machines
    assert (fast.name, fast.nodes, fast.cores, fast.gpus) == ("main-fast-avx", 2, 4, 0)
    assert fast.memory_per_node == 4000 * 2**20
    assert fast.backend == {"kind": "slurm", "partition": "main", "constraint": "fast&avx"}
    assert fast.attributes == {"fast": True, "avx": True, "longest_job_s": 7200.0}
    assert (slow.name, slow.gpus) == ("main-slow", 4)
    assert slow.backend == {"kind": "slurm", "partition": "main", "constraint": "slow", "gres": "gpu:2"}


def test_named_partitions_are_detected(site: SiteFolder) -> None:
    out, _ = site.weft("detect", "slurm", "--partition", "gpu", "--json")
    machines = json.loads(out)["platform"]["machines"]
    assert list(machines) == ["gpu"]
    assert machines["gpu"]["gpus"] == 4
    _, errors = site.weft("detect", "slurm", "--partition", "gpux", code=2)
    assert "there is no partition 'gpux'" in errors
    assert "gpu" in errors


def test_missing_slurm_is_reported(tmp_path: Path, site: SiteFolder) -> None:
    site.environment["PATH"] = str(tmp_path)
    _, errors = site.weft("detect", "slurm", code=2)
    assert "Slurm is not installed here" in errors


def test_hosts_are_detected(site: SiteFolder, two_hosts: SshHosts) -> None:
    config = str(two_hosts.config)
    site.weft("detect", "ssh", "host1", "host2", "--config", config, "--out", "hosts.yaml")
    first, second = weft.load_platform(site.folder / "hosts.yaml").machines
    assert (first.name, second.name) == ("host1", "host2")
    assert first.backend == {"kind": "ssh", "host": "host1", "config": config}
    assert first.nodes >= 1
    assert first.memory is not None
    assert first.memory_per_node is None
    _, errors = site.weft("detect", "ssh", "host1", "--config", config, "--python", "nopython", code=1)
    assert "no command 'nopython'" in errors
    _, errors = site.weft("detect", "ssh", "nowhere.invalid", "--config", config, code=1)
    assert "host nowhere.invalid" in errors


def test_machines_of_all_kinds_are_checked_and_measured(site: SiteFolder, two_hosts: SshHosts) -> None:
    (site.folder / "grid.yaml").write_text(
        "weft: 1\nmachines:\n"
        "  here: {nodes: 2, speed: 4, backend: {kind: local}}\n"
        "  cluster: {nodes: 2, backend: {kind: slurm, partition: main, commands_per_s: 20, poll_every: 0.5}}\n"
        f"  away: {{nodes: 2, backend: {{kind: ssh, host: host1, config: {two_hosts.config}}}}}\n"
        f"  wrong: {{nodes: 2, backend: {{kind: ssh, host: host2, user: nobody, config: {two_hosts.config}}}}}\n"
    )
    out, _ = site.weft("check", "grid.yaml", "--size", "4MB", "--timeout", "60s", "--json", code=1)
    found = {each["machine"]: each for each in json.loads(out)["machines"]}
    assert [name for name, each in found.items() if each["works"]] == ["here", "cluster", "away"]
    assert found["wrong"]["problem"]
    for name in ("here", "cluster", "away"):
        assert min(found[name][key] for key in ("seconds", "startup_s", "bandwidth_Bps")) > 0
    platform = weft.load_platform(site.folder / "grid.measured.yaml")
    here, cluster, _, wrong = platform.machines
    assert here.speed == 4, "the first machine keeps its speed"
    assert cluster.startup_s > 0
    assert cluster.parallel_startup_s > 0
    assert (wrong.speed, wrong.startup_s) == (1.0, 0.0)
    pairs = {(first, second) for first, second, _ in platform.links}
    assert pairs == {("cluster", "here"), ("away", "here"), ("away", "cluster")}
    assert not list(site.folder.glob(".weft*")), "the temporary projects are removed"
    (site.folder / "flow.yaml").write_text("weft: 1\nname: f\ntasks: {a: {work: 4}}\n")
    on = site.folder / "only.yaml"
    on.write_text(f"weft: 1\nmachines: {{c: {{speed: 4, startup: {cluster.startup_s}s}}}}\n")
    assert weft.plan(site.folder / "flow.yaml", on=on).makespan_s == pytest.approx(1.0 + cluster.startup_s)
