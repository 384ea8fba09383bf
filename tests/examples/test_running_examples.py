"""Every executable example completes in a copy of its folder."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import weft
from architecture.package import environment
from isolation_tools import need_isolation
from patience import PATIENCE_S
from weft import task
from weft.engine.history import History

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = {"convergence", "diet", "functions", "isolated", "layers", "secrets", "words"}
QUICK = {"step_s": 0.01, "slowness": 40}
"""Parameters with which the example's solver sleeps less."""
ATTIC = 2
"""Index of the machine that is slow in the second iteration."""


def run_copy(name, tmp_path, **options):
    """Run an example in a copy of its folder; return the folder and the outcome."""
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder)
    history = History()
    ran = weft.run(
        folder / "workflow.yaml",
        on=folder / "machines.yaml",
        project=folder,
        watch=lambda _: [lambda entry, engine: history.take(entry, engine.state)],
        **options,
    )
    assert ran.completed, str(ran)
    return folder, history.finish(), ran


@pytest.fixture(scope="module")
def converged(tmp_path_factory):
    return run_copy("convergence", tmp_path_factory.mktemp("run"), params=QUICK, planner="heft")


def expected_by_calls(folder, monkeypatch):
    """Call the functions of the example in sequence and return the expected results."""
    spec = importlib.util.spec_from_file_location("scf", EXAMPLES / "convergence" / "scf.py")
    scf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scf)
    deltas = []
    monkeypatch.chdir(folder)
    monkeypatch.setattr(task, "result", lambda delta: deltas.append(delta))
    monkeypatch.setattr(task, "restore", lambda default: default)
    monkeypatch.setattr(task, "on_checkpoint", lambda function: None)
    scf.start()
    while not deltas or deltas[-1] >= 0.01:
        scf.potential(0.6)
        for k in range(1, 5):
            scf.solve(k, 1.0, 0.0)
        scf.mix(4)
    scf.report(0.6)
    return deltas


def test_the_loop_converges_with_the_right_number_of_iterations(converged, tmp_path, monkeypatch):
    folder, history, _ = converged
    deltas = expected_by_calls(tmp_path, monkeypatch)
    assert history.runs[0].iterations == {"scf": len(deltas)} == {"scf": 5}
    assert (folder / "density.txt").read_text() == (tmp_path / "density.txt").read_text()
    completed = Counter(each.kind for each in history.attempts.values() if each.ending == "completed")
    assert completed == {"start": 1, "potential": 5, "solve": 20, "mix": 5, "report": 1}


def test_a_slow_task_migrates_with_its_restart_file(converged):
    _, history, _ = converged
    slow = [move for move in history.moves if move.source == ATTIC and move.iteration == 2 and not move.off]
    assert slow
    assert {move.reason for move in slow} == {"performance"}
    assert all(history.attempts[move.new].restart_from > 0 for move in slow)


def test_tasks_run_on_the_allocated_nodes(converged):
    solved = [each for each in converged[1].attempts.values() if each.kind == "solve"]
    assert {each.nodes for each in solved} == {2}


def test_the_promise_includes_all_iterations(converged):
    _, _, ran = converged
    one = weft.plan(EXAMPLES / "convergence" / "workflow.yaml", on=EXAMPLES / "convergence" / "machines.yaml",
                    params=QUICK, planner="heft")  # fmt: skip
    assert [run.predicted_p50_s for run in ran.runs] == pytest.approx([one.total_s])
    assert one.total_s > 3 * one.makespan_s


def test_word_count_example_completes_with_a_growing_graph(tmp_path):
    folder, history, _ = run_copy("words", tmp_path)
    assert (folder / "most").read_text().splitlines() == ["31 the", "10 and", "8 a", "8 is", "7 cloth"]
    completed = Counter(each.kind for each in history.attempts.values() if each.ending == "completed")
    assert completed == {"split": 1, "count": 3, "merge": 1}


def test_isolated_programs_see_only_their_own_files(tmp_path):
    need_isolation("bubblewrap")
    folder, _, _ = run_copy("isolated", tmp_path)
    lines, words, files, home, network, processes = (folder / "report").read_text().splitlines()
    assert (lines, words, files, home) == ("lines: 2", "words: 14", "files: seen ", "home: 0 files")
    assert network == "network interfaces: lo "
    assert int(processes.removeprefix("processes: ")) < 10


def test_the_key_of_the_example_is_used_and_not_stored(tmp_path):
    folder, _, _ = run_copy("secrets", tmp_path)
    key = (folder / "key.txt").read_text()
    signed = subprocess.run(
        ["cksum"], input=f"42 is the result\n{key}", capture_output=True, text=True, check=True
    )
    assert (folder / "signature").read_text() == signed.stdout
    found = [path for path in (folder / ".weft").rglob("*") if path.is_file()]
    holding = [path.name for path in found if key.strip().encode() in path.read_bytes()]
    assert holding == ["out"], "what the program itself has written"


def test_example_with_python_functions_gives_the_expected_results(tmp_path):
    script = EXAMPLES / "functions" / "circle.py"
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(script)], cwd=tmp_path, env=environment(), capture_output=True, text=True,
            timeout=PATIENCE_S, check=True,
        )  # fmt: skip
        assert done.stdout == "area 3.137 from 6 tasks\n"


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_the_machines_of_an_example_are_local(name):
    machines = weft.load_platform(EXAMPLES / name / "machines.yaml").machines
    assert 2 <= len(machines) <= 3
    assert {machine.backend["kind"] for machine in machines} == {"local"}


def test_every_example_folder_is_tested():
    assert {
        path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"
    } == FOLDERS


def test_the_demo_runs_the_loop_example_and_prints_the_path_of_the_report():
    makefile = (EXAMPLES.parent / "Makefile").read_text()
    recipe = makefile.partition("\ndemo:")[2].partition("\n\n")[0]
    assert "examples/convergence" in recipe
    assert "weft run workflow.yaml --on machines.yaml" in recipe
    assert "report.html" in recipe
    assert "/demo/" in (EXAMPLES.parent / ".gitignore").read_text().splitlines()
