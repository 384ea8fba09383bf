"""``weft sites`` with a real Dask cluster: detected and measured workers, and what cannot be used."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from cli.projects import Outcome, Project
from dask_clusters import DaskProcesses, await_workers, cluster, dask_processes

MEMORY = ("--memory-limit", "1GB")
OPTIONS = {
    "node-1": MEMORY,
    "node-2": MEMORY,
    "fast": ("--memory-limit", "0", "--resources", "GPU=2 licence=3", "--nthreads", "3"),
}


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with dask_processes(tmp_path_factory.mktemp("sites"), list(OPTIONS), options=OPTIONS) as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    """Return a project in the current folder, which the workers see, since they run on this host."""
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, capsys)


def sites(project: Project, *words: str, code: int = 0) -> Outcome:
    found = project.weft("sites", *words)
    assert found.code == code, (found.out, found.err)
    return found


def test_workers_are_detected_with_threads_memory_and_resources(
    workers: DaskProcesses, project: Project
) -> None:
    sites(project, "detect", "dask", workers.address, "--out", "workers.yaml")
    fast, first, second = weft.load_platform(project.folder / "workers.yaml").machines
    assert (fast.name, fast.nodes, fast.memory, fast.gpus) == ("fast", 3, None, 2)
    assert fast.resources == {"licence": 3.0}
    assert (first.name, first.nodes, first.memory) == ("node-1", 2, 1e9)
    settings = {"kind": "dask", "scheduler": workers.address, "worker": "node-2", "shared": True}
    assert second.backend == settings
    assert first.arch
    assert first.os == "linux"
    assert [path.name for path in project.folder.iterdir()] == ["workers.yaml"]


def test_alike_workers_are_one_machine_if_asked(workers: DaskProcesses, project: Project) -> None:
    out = sites(project, "detect", "dask", workers.address, "--group", "--json").out
    found = json.loads(out)
    assert list(found["platform"]["machines"]) == ["fast", "node"]
    node = found["platform"]["machines"]["node"]
    assert (node["nodes"], node["memory"]) == (4, "2GB")
    assert node["backend"]["workers"] == ["node-1", "node-2"]
    assert "worker" not in node["backend"]
    assert found["notes"] == ["node: a task runs on one of the workers, so it must take at most 2 nodes"]


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own for a worker needs root")
def test_worker_with_other_files_is_not_shared(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hide = f'mount -t tmpfs none {project.folder} && exec "$@"'
    apart = DaskProcesses(tmp_path_factory.mktemp("apart"), ["apart"])
    try:
        apart.start_scheduler()
        apart.start_worker("apart", "unshare", "-m", "sh", "-c", hide, "sh")
        await_workers(apart.address, 1)
        out = sites(project, "detect", "dask", apart.address).out
    finally:
        apart.end_all()
    assert "worker: apart}" in out


def test_detected_workers_are_checked_and_measured(workers: DaskProcesses, project: Project) -> None:
    sites(project, "detect", "dask", workers.address, "--out", "workers.yaml")
    text = (project.folder / "workers.yaml").read_text()
    text = text.replace("worker: node-1, shared: true", "worker: node-1")
    text = text.replace("worker: node-2, shared: true", "worker: gone, silence: 3")
    (project.folder / "workers.yaml").write_text(text)
    out = sites(project, "check", "workers.yaml", "--size", "4MB", "--json", code=1).out
    found = {each["machine"]: each for each in json.loads(out)["machines"]}
    for name in ("fast", "node-1"):
        assert found[name]["works"], found[name]
        assert min(found[name][key] for key in ("seconds", "startup_s", "bandwidth_Bps")) > 0
    assert "no worker of this name is connected" in found["node-2"]["problem"]
    measured = weft.load_platform(project.folder / "workers.measured.yaml")
    assert [{first, second} for first, second, _ in measured.links] == [{"fast", "node-1"}]
    assert not list(project.folder.glob(".weft*"))


def test_invalid_address_is_refused(project: Project) -> None:
    errors = sites(project, "detect", "dask", "cluster", code=2).err
    assert "scheduler cluster; must be an address with a port; write tcp://HOST:8786" in errors


def test_scheduler_that_is_not_there_is_named(project: Project) -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        errors = sites(project, "detect", "dask", address, code=1).err
    assert f"host {address}: no Dask scheduler answers" in errors
    assert "start it with `dask scheduler`, or correct its address" in errors


@pytest.mark.parametrize(
    ("count", "reason"), [(0, "no worker is connected"), (1, "has no name (`dask worker --name NAME`)")]
)
def test_cluster_without_named_workers_is_refused(project: Project, count: int, reason: str) -> None:
    with cluster(project.folder, workers=count) as address:
        errors = sites(project, "detect", "dask", address, code=1).err
    assert f"the Dask scheduler {address} has no worker that weft can use" in errors
    assert reason in errors
    assert f"`dask worker {address} --name NAME`" in errors


def test_missing_package_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    errors = sites(project, "detect", "dask", "tcp://127.0.0.1:8786", code=2).err
    assert "pip install 'weft[dask]'" in errors
