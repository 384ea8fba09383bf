"""Explicit transfers: real copies of files between the sandboxes of two machines."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from architecture.package import environment
from backend_project import BackendProject
from cli.projects import Project, wait_for
from weft.api.project import OpenProject
from weft.backends.attempt.staging import is_intact
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.errors import InvalidInput
from weft.repository.products import ProductTable

EXAMPLES = Path(__file__).parents[2] / "examples"
MACHINES = """\
machines:
  left: {backend: {kind: local}}
  right: {backend: {kind: local}}
links: {default: {bandwidth: 100MB/s, latency: 1ms}}
"""
CHAIN = """\
name: chain
tasks:
  write: {machine: A, requirements: name == "left", work: 0.1s, outputs: {x: 4}, command: "printf abcd > x"}
  move: {kind: transfer, from: A, to: B, file: x}
  read: {machine: B, requirements: name == "right", work: 0.1s, inputs: [x], outputs: {y: 8}, command: "cat x x > y"}
"""


@pytest.fixture
def chain(real):
    real.write("machines.yaml", MACHINES)
    real.write("flow.yaml", CHAIN)
    return real


def product_of(folder, execution, task):
    """Return what the database has recorded as the output of a task of the first run of an execution."""
    with OpenProject.at(str(folder)) as opened:
        return ProductTable(opened.database).of(execution, 0, task)


def test_a_file_is_copied_to_the_sandbox_of_the_other_machine(chain):
    assert chain.run("flow.yaml").completed
    assert chain.text("y") == "abcdabcd"
    move = chain.attempt("move")
    assert (move.moved_from, move.machine, move.moved_bytes) == (0, 1, 4.0)
    assert move.ran_s > 0
    write, copy = product_of(chain.folder, 1, 0), product_of(chain.folder, 1, 1)
    assert copy.machine == "right"
    assert "/right/" in copy.directory
    assert copy.directory != write.directory
    assert [(file.name, file.digest) for file in copy.files] == [
        (file.name, file.digest) for file in write.files
    ]
    assert is_intact(Path(copy.directory), copy.files[0], thorough=True)


def test_the_reader_uses_the_copy_and_not_the_original(chain):
    """The original is changed after the transfer: the reader must not notice."""
    chain.write(
        "flow.yaml",
        CHAIN + '  gate: {after: move, work: 0.1s, command: "true"}\n'
        '  late: {machine: B, after: gate, inputs: [x], outputs: {z: 4}, work: 0.1s, command: "cat x > z"}\n',
    )
    changed = []

    def spoil(entry, engine):
        if isinstance(entry.event, ev.StagedIn) and not changed:
            (original,) = chain.folder.glob(".weft/sandbox/left/*/1/*/x")
            original.chmod(0o644)
            original.write_text("bad!")
            changed.append(original)

    weft.run(
        chain.folder / "flow.yaml",
        on=chain.folder / "machines.yaml",
        project=chain.folder,
        watch=lambda _: [spoil],
    )
    assert changed
    assert chain.text("z") == "abcd"


def test_simulated_and_real_transfers_have_the_same_machines_and_bytes(chain):
    ran = chain.run("flow.yaml")
    simulated = chain.simulate("flow.yaml")
    assert ran.completed
    for found in (chain.history, simulated.history):
        done = [each for each in found.attempts.values() if each.ending == "completed"]
        assert [(each.task, each.machine, each.nodes, each.moved_bytes) for each in done] == [
            ("write", 0, 1, None),
            ("move", 1, 0, 4.0),
            ("read", 1, 1, None),
        ]


def test_report_and_explanation_state_bytes_and_machines(chain, capsys):
    ran = chain.run("flow.yaml")
    assert "transfers      1; 4 B copied in " in str(ran)
    page = (ran.write_reports() / "report.html").read_text()
    table = page.partition("<h2>Transfers</h2>")[2].partition("</table>")[0]
    assert all(f">{cell}<" in table for cell in ("move", "left", "right", "4 B"))
    (moved,) = (row for row in ran.report.executed.as_record()["attempts"] if row["task"] == "move")
    assert moved["moved_bytes"] == 4
    shell = Project(chain.folder, capsys)
    explained = shell.weft("explain", "move").out
    assert "copying of its file from left was requested" in explained
    assert "its file arrived (4 B copied)" in explained
    assert "a transfer copies a file and runs no program" in shell.weft("logs", "move").err


def test_explanation_of_a_transfer_within_one_machine_says_that_nothing_was_copied(chain, capsys):
    chain.write("flow.yaml", CHAIN.replace('"right"', '"left"'))
    assert chain.run("flow.yaml").completed
    explained = Project(chain.folder, capsys).weft("explain", "move").out
    assert "its file was there already: nothing was copied" in explained
    assert not any(words in explained for words in ("was requested", "arrived"))


def test_second_run_reuses_the_copy_of_a_file_and_copies_changed_content_again(chain):
    chain.run("flow.yaml")
    again = chain.run("flow.yaml")
    assert again.report.executed.taken_over == 3
    assert [each.moved_bytes for each in chain.attempts("move")] == [0.0]
    assert product_of(chain.folder, 2, 1).directory == product_of(chain.folder, 1, 1).directory
    chain.write("flow.yaml", CHAIN.replace("printf abcd", "printf efgh"))
    chain.run("flow.yaml")
    assert chain.text("y") == "efghefgh"
    assert chain.attempt("move").reused_from is None
    copy = product_of(chain.folder, 1, 1)
    Path(copy.directory, "x").unlink()
    chain.write("flow.yaml", CHAIN)
    chain.run("flow.yaml")
    assert chain.attempt("move").reused_from is None, "the earlier copy is gone"
    assert chain.text("y") == "abcdabcd"


def test_transfer_within_one_machine_copies_nothing(real):
    real.write("machines.yaml", "machines: {only: {nodes: 2, backend: {kind: local}}}\n")
    real.write(
        "flow.yaml",
        CHAIN.replace('requirements: name == "left", ', "").replace('requirements: name == "right", ', ""),
    )
    assert real.run("flow.yaml").completed
    assert real.text("y") == "abcdabcd"
    assert real.attempt("move").moved_bytes == 0.0
    assert product_of(real.folder, 1, 1).directory == product_of(real.folder, 1, 0).directory


def test_a_directory_is_passed_on_by_a_second_transfer(real):
    real.write("machines.yaml", MACHINES)
    real.write(
        "flow.yaml",
        """\
name: several
tasks:
  write:
    {machine: A, requirements: name == "left", work: 0.1s, outputs: [parts/], command: "mkdir parts; echo 1 > parts/a; echo 2 > parts/b"}
  there: {kind: transfer, from: A, to: B, file: parts/, size: 4B}
  hold: {machine: B, requirements: name == "right", after: there, work: 0.1s, command: "true"}
  back: {kind: transfer, from: B, to: C, file: parts/, size: 4B}
  read:
    machine: C
    requirements: name == "left"
    work: 0.1s
    inputs: [parts/]
    outputs: [all]
    command: "cat parts/a parts/b > all"
""",
    )
    assert real.run("flow.yaml").completed
    assert real.text("all") == "1\n2\n"
    there, back = real.attempt("there"), real.attempt("back")
    assert (there.moved_from, there.machine, back.moved_from, back.machine) == (0, 1, 1, 0)
    assert back.staging_s >= there.ended_s


def test_every_iteration_of_a_loop_has_a_copy_of_its_own(real):
    real.write("machines.yaml", MACHINES)
    real.write(
        "flow.yaml",
        """\
name: rounds
tasks:
  first: {machine: A, requirements: name == "left", work: 0.1s, outputs: [x], command: "echo {iteration} > x"}
  move: {kind: transfer, from: A, to: B, file: x, size: 2B}
  last:
    machine: B
    requirements: name == "right"
    work: 0.1s
    inputs: [x]
    outputs: [seen]
    command: "cp x seen; test {iteration} = 3"
loops: {again: {from: last, to: first, until: last.exit_code == 0, max_iterations: 5}}
""",
    )
    assert real.run("flow.yaml").completed
    assert real.text("seen") == "3\n"
    moves = real.attempts("move")
    assert [each.iteration for each in moves] == [1, 2, 3]
    assert [each.moved_bytes for each in moves] == [2.0, 2.0, 2.0]


def test_failed_copy_is_retried_and_the_task_then_fails_with_the_cause_staging(chain):
    def spoil(entry, engine):
        for original in chain.folder.glob(".weft/sandbox/left/*/1/*/x"):
            if isinstance(entry.event, ev.Ended):
                original.unlink()

    ran = weft.run(
        chain.folder / "flow.yaml",
        on=chain.folder / "machines.yaml",
        project=chain.folder,
        watch=lambda _: [spoil],
    )
    assert ran.outcome == "failed"
    failures = [each.failed for each in ran.report.executed.failures]
    assert [(each.task, each.cause) for each in failures] == [("move", "staging")] * 4
    assert [each.for_good for each in failures] == [False, False, False, True]
    assert "the output of write was modified or removed" in failures[0].reason
    done = [each.task for each in ran.report.executed.attempts if each.ending == "completed"]
    assert done == ["write"], "a transfer that copied nothing is not completed"


def test_a_transfer_waits_for_all_its_predecessors(real):
    """Under a plan the transfer has a machine before its last predecessor has ended."""
    real.write("machines.yaml", MACHINES)
    tasks = CHAIN.replace(
        "move: {",
        'slow: {work: 0.5s, command: "sleep 0.5", after: quick}\n'
        '  quick: {work: 0.1s, command: "true"}\n  move: {after: [slow, quick], ',
    )
    real.write("flow.yaml", tasks)
    simulated = real.simulate("flow.yaml").history
    real.run("flow.yaml")
    for history in (simulated, real.history):
        slow, move = real.attempt("slow", history), real.attempt("move", history)
        assert move.staging_s >= slow.ended_s


def test_a_run_is_resumed_after_the_engine_was_killed_while_it_copied(chain):
    chain.write(
        "flow.yaml",
        CHAIN.replace("printf abcd > x", "head -c 50000000 /dev/zero > x").replace("cat x x", "wc -c < x"),
    )
    engine = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "flow.yaml", "--on", "machines.yaml"],
        cwd=chain.folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        # The file of the transfer is being copied, or was just copied.
        wait_for(lambda: list(chain.folder.glob(".weft/sandbox/right/*/1/*/*")) or engine.poll() is not None)
    finally:
        engine.send_signal(signal.SIGKILL)
        engine.wait()
    ran = weft.resume(project=chain.folder)
    assert ran.completed
    assert chain.text("y").strip() == "50000000"
    moved = [each for each in ran.report.executed.attempts if each.task == "move"]
    assert [(each.ending, each.moved_bytes) for each in moved] == [("completed", 5e7)]


TASKS = {
    "write": {"command": "head -c 100000000 /dev/zero > x", "outputs": ["x"], "machine": "A"},
    "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "100MB"},
    "read": {"command": "true", "inputs": ["x"], "machine": "B"},
}


@pytest.fixture
def moving(tmp_path):
    """Yield a backend in which the file of a transfer was written, and the commands of the transfer."""
    made = BackendProject("local", tmp_path, TASKS)
    made.start(0, "write")
    assert made.end().exit_code == 0
    place = {**made.place(1, "move", machine=1), "nodes": 0}
    parcel = cm.Parcel(source=0, size_bytes=1e8, files=1.0)
    yield made, [cm.Assign(**place), cm.StageIn(attempt=1, part=0, machine=1, parcels=(parcel,))]
    made.close()


def test_a_cancelled_transfer_ends_and_leaves_no_product(moving):
    made, commands = moving
    made.backend.execute([*commands, cm.Cancel(attempt=1, machine=1, reason="test")])
    ended = made.end()
    assert (ended.attempt, ended.exit_code, ended.cause) == (1, None, "cancelled")
    assert not [event for event in made.poll_for(0.3) if isinstance(event, ev.StagedIn)]
    assert made.products.of(1, 0, 1) is None


def test_interrupted_transfer_is_copied_again_by_the_next_engine(moving):
    made, commands = moving
    made.backend.execute(commands)
    made.backend.close(stop=False)
    del made.attempts[0]
    made.open()
    made.backend.find([made.recovered(1, "move", machine=1)])
    made.backend.execute(commands)
    (staged,) = made.wait_for(ev.StagedIn)
    assert (staged.problem, staged.moved_bytes) == ("", 1e8)
    product = made.products.of(1, 0, 1)
    assert [file.size_bytes for file in product.files] == [100_000_000]
    assert (made.workdir(1, machine=1) / "x").stat().st_size == 100_000_000


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ('{kind: transfer, from: A, to: B, file: x, command: "true"}', "a transfer task has a program"),
        ("{kind: transfer, from: A, to: B, file: x, inputs: [z]}", "a transfer task has inputs"),
        ('{kind: virtual, command: "true"}', "a virtual task has a program"),
        ("{kind: transfer, from: A, to: B, file: ../x}", "leads out of"),
        ("{kind: transfer, from: A, to: B, file: z}", "more moves 'z', which no task writes"),
    ],
)
def test_transfer_task_with_wrong_or_unsupported_keys_is_refused(chain, keys, words):
    chain.write("flow.yaml", f"{CHAIN}  more: {keys}\n")
    with pytest.raises(InvalidInput, match=words):
        chain.run("flow.yaml")
    assert not (chain.folder / ".weft" / "weft.db").exists()


def test_the_example_runs_for_real_and_under_the_preset_of_the_paper(tmp_path):
    for name in ("transfers.yaml", "local-machines.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    flow, machines = tmp_path / "transfers.yaml", tmp_path / "local-machines.yaml"
    ran = weft.run(flow, on=machines, project=tmp_path)
    assert ran.completed
    assert (tmp_path / "counts").read_text().split() == ["10000", "odd", "50", "c", "10050", "total"]
    moves = [each for each in ran.report.executed.attempts if each.is_transfer]
    assert sorted((each.task, each.ending) for each in moves) == [
        ("move-a", "completed"),
        ("move-b", "completed"),
        ("move-c", "completed"),
    ]
    assert sum(each.moved_bytes for each in moves) > 0
    for planner in ("heft", "genetic", "auto"):
        assert weft.simulate(flow, on="identical:3", preset="s1", planner=planner).outcome == "completed"
