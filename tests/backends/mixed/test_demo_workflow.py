"""The workflow of `make demo`, unchanged, on Slurm and Dask; a machine is killed, and a task goes on elsewhere."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import weft
from dask_clusters import DaskProcesses
from patience import PATIENCE_S
from slurm_cluster import SlurmCluster
from weft.engine.history import AttemptRecord, History

DEMO = Path(__file__).parents[3] / "examples" / "convergence"
QUICK, SLOW = {"step_s": 0.0, "strength": 0.1}, {"step_s": 0.12, "strength": 0.1}
"""Parameters without and with time for the death of a machine; they do not change the results."""
DASK = '{nodes: 2, speed: SPEED, backend: {kind: dask, scheduler: "ADDRESS", worker: NAME, silence: 8}}'
SLURM = "{nodes: 1, backend: {kind: slurm, partition: main, constraint: NAME, commands_per_s: 20, poll_every: 0.5}}"
TWO_WORKERS = {"worker1": DASK.replace("SPEED", "1"), "worker2": DASK.replace("SPEED", "1")}
WORKER_AND_SLURM = {"worker1": DASK.replace("SPEED", "4"), "fast": SLURM, "slow": SLURM}


def run_demo(folder: Path, machines: str, params: dict[str, float]) -> tuple[str, list[AttemptRecord]]:
    """Run a copy of the workflow; return its result and its attempts."""
    shutil.copytree(DEMO, folder)
    (folder / "machines.yaml").write_text(machines)
    history = History()
    ran = weft.run(
        folder / "workflow.yaml",
        on=folder / "machines.yaml",
        project=folder,
        params=params,
        planner="heft",  # takes both nodes of a machine for a task
        watch=lambda _: [lambda entry, engine: history.take(entry, engine.state)],
    )
    assert ran.completed, str(ran)
    return (folder / "density.txt").read_text(), list(history.finish().attempts.values())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    machines = "weft: 1\nmachines: {here: {nodes: 2, backend: {kind: local}}}\n"
    return run_demo(tmp_path_factory.mktemp("undisturbed") / "demo", machines, QUICK)[0]


@contextmanager
def disturbed(folder: Path, kill: Callable[[set[str]], bool]) -> Iterator[None]:
    """Call ``kill`` in a thread with the names of the kept restart files of ``folder`` until it returns True."""
    ended = threading.Event()
    failures: list[Exception] = []

    def wait() -> None:
        end_s = time.monotonic() + PATIENCE_S
        try:
            while not kill({path.name for path in folder.glob(".weft/checkpoints/*/*/*/restart.*")}):
                assert time.monotonic() < end_s, "no restart files of a running task are kept"
                if ended.wait(0.02):
                    return
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert failures == []


def continued(attempts: list[AttemptRecord]) -> list[tuple[AttemptRecord, AttemptRecord]]:
    """Return the pairs of attempts of a task of which the second goes on elsewhere from restart files."""
    found = []
    for new in attempts:
        before = [
            old
            for old in attempts
            if (old.task, old.iteration) == (new.task, new.iteration) and old.number < new.number
        ]
        if before and new.restart_from > 0.0 and before[-1].machine != new.machine:
            found.append((before[-1], new))
    return found


def run_with_a_death(
    folder: Path, machines: dict[str, str], workers: DaskProcesses
) -> tuple[str, list[AttemptRecord]]:
    """Run the workflow and kill a worker on which a task runs whose restart files are kept."""
    sandbox = workers.folder / ".cache/weft/sandbox"
    shutil.rmtree(sandbox, ignore_errors=True)
    killed: list[str] = []

    def kill(kept: set[str]) -> bool:
        for path in sandbox.glob("*/*/*/*/restart.*"):
            if path.name in kept and not path.with_name(path.name.replace("restart", "wave")).exists():
                killed.append(path.relative_to(sandbox).parts[0])
                workers.kill(killed[0])
                return True
        return False

    lines = [f"  {name}: {text.replace('NAME', name)}\n" for name, text in machines.items()]
    text = f"weft: 1\nmachines:\n{''.join(lines)}".replace("ADDRESS", workers.address)
    try:
        with disturbed(folder, kill):
            return run_demo(folder, text, SLOW)
    finally:
        for name in killed:
            workers.start_worker(name)


def test_demo_on_dask_goes_on_from_restart_files_after_the_death_of_a_worker(
    tmp_path: Path, two_workers: DaskProcesses, undisturbed: str
) -> None:
    found, attempts = run_with_a_death(tmp_path / "demo", TWO_WORKERS, two_workers)
    assert found == undisturbed
    assert continued(attempts)


def test_demo_goes_on_with_another_node_count_on_slurm_after_the_death_of_a_worker(
    tmp_path: Path,
    two_workers: DaskProcesses,
    slurm_cluster: SlurmCluster,
    undisturbed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm_cluster.environment[name])
    found, attempts = run_with_a_death(tmp_path / "demo", WORKER_AND_SLURM, two_workers)
    assert found == undisturbed
    assert (2, 1) in {(old.nodes, new.nodes) for old, new in continued(attempts)}


def test_demo_runs_on_slurm_alone_while_nodes_die_and_return(
    tmp_path: Path, slurm_cluster: SlurmCluster, undisturbed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm_cluster.environment[name])

    def kill(kept: set[str]) -> bool:
        for name in ("node1", "node2") if kept else ():
            slurm_cluster.kill_node(name)
        for name in ("node1", "node2") if kept else ():
            slurm_cluster.return_node(name)
        return bool(kept)

    machines = f"weft: 1\nmachines: {{cluster: {SLURM.replace(', constraint: NAME', '').replace('nodes: 1', 'nodes: 4')}}}\n"
    with disturbed(tmp_path / "demo", kill):
        found, attempts = run_demo(tmp_path / "demo", machines, SLOW)
    assert found == undisturbed
    assert any(attempt.cause in ("lost", "preempted") for attempt in attempts)
