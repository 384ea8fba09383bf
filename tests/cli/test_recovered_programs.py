"""Programs that outlive their engine: their results and times are used."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from cli.projects import Project, wait_for
from patience import PATIENCE_S

WORDS = """\
weft: 1
name: outliving
tasks:
  early:
    command: "echo on; until test -e {folder}/go-early; do sleep 0.05; done; cat seed.txt > x{more}"
    inputs: [seed.txt]
    outputs: [x]
  late:
    command: "echo on; until test -e {folder}/go-late; do sleep 0.05; done; echo '{{{{\\"seen\\": 3}}}}' > $WEFT_RESULT_FILE"
  after: {{command: "cat x > y", inputs: [x], outputs: [y], after: late}}
"""
PLATFORM = "weft: 1\nmachines:\n  only: {nodes: 2, backend: {kind: local}}\n"


class Outliving:
    """A project whose engine is killed while two programs run."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.engines: list[subprocess.Popen[str]] = []
        project.write("only.yaml", PLATFORM)
        project.write("seed.txt", "seed\n")
        self.describe()

    def describe(self, more: str = "") -> None:
        self.project.write("w.yaml", WORDS.format(folder=self.project.folder, more=more))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.engines.append(self.project.start(*arguments, **quiet))
        return self.engines[-1]

    def begin_and_kill(self) -> None:
        engine = self.start("run", "w.yaml", "--on", "only.yaml")
        logs = self.project.folder / ".weft" / "attempts"
        wait_for(lambda: [path.read_text() for path in logs.glob("*/*/out")] == ["on\n", "on\n"])
        engine.kill()
        engine.wait()

    def let_end(self, *names: str) -> None:
        """Let programs end and wait until their runner has recorded their ends."""
        before = self.ends()
        for name in names:
            self.project.write(f"go-{name}", "")
        wait_for(lambda: self.ends() == before + len(names))

    def ends(self) -> int:
        found = self.project.folder.glob(".weft/runners/*/*/ends")
        return sum(line.strip() != b"" for path in found for line in path.read_bytes().splitlines())

    def runner(self) -> int:
        (path,) = self.project.folder.glob(".weft/runners/*/*/pid")
        return int(json.loads(path.read_text().partition(" ")[2])["pid"])

    def resume(self) -> None:
        done = self.project.weft("resume")
        assert done.code == 0, done

    def again(self) -> str:
        """Run the workflow again and return the output lines about reuse."""
        done = self.project.weft("run", "w.yaml", "--on", "only.yaml")
        assert done.code == 0, done
        return done.out.partition("reuse of earlier results:\n")[2].partition("run 2")[0]

    def close(self) -> None:
        self.project.write("go-early", "")
        self.project.write("go-late", "")
        for engine in self.engines:
            self.project.end(engine)


@pytest.fixture
def outliving(project: Project) -> Iterator[Outliving]:
    made = Outliving(project)
    yield made
    made.close()


def test_results_of_programs_that_run_without_an_engine_are_recovered(outliving: Outliving) -> None:
    outliving.begin_and_kill()
    outliving.let_end("early")
    engine = outliving.start("resume")
    # When the outputs of the first exist, the new engine has recovered the second, which still runs.
    wait_for(lambda: list(outliving.project.folder.glob(".weft/attempts/1/*/exitcode")))
    outliving.project.write("go-late", "")
    assert engine.wait(timeout=PATIENCE_S) == 0
    printed = outliving.again()
    assert printed.split("\n")[:3] == ["  early: 1 reused", "  late: 1 reused", "  after: 1 reused"]
    assert (outliving.project.folder / "y").read_text() == "seed\n"


def test_records_of_a_dead_runner_are_recovered(outliving: Outliving) -> None:
    outliving.begin_and_kill()
    outliving.let_end("early", "late")
    os.kill(outliving.runner(), signal.SIGKILL)
    outliving.resume()
    assert "stale" not in outliving.again()


def test_changed_command_is_reported_as_the_reason_of_a_stale_product(outliving: Outliving) -> None:
    outliving.begin_and_kill()
    outliving.let_end("early", "late")
    outliving.resume()
    outliving.describe(more="; echo more >> x")
    printed = outliving.again()
    assert "  early: 1 stale (the command changed from 'echo on; until test -e " in printed
    assert "  late: 1 reused" in printed
    assert "  after: 1 stale (input x changed)" in printed


def test_product_is_stale_when_an_input_changed_during_the_run(
    outliving: Outliving,
) -> None:
    outliving.begin_and_kill()
    outliving.project.write("seed.txt", "another\n")
    outliving.let_end("early", "late")
    outliving.resume()
    assert (outliving.project.folder / "y").read_text() == "seed\n"
    assert "  early: 1 stale (input seed.txt changed)" in outliving.again()
    assert (outliving.project.folder / "y").read_text() == "another\n"


def test_the_next_engine_reports_why_a_product_was_stale(outliving: Outliving) -> None:
    outliving.project.write("go-early", "")
    outliving.project.write("go-late", "")
    assert outliving.project.weft("run", "w.yaml", "--on", "only.yaml").code == 0
    for name in ("go-early", "go-late"):
        (outliving.project.folder / name).unlink()
    outliving.project.write("seed.txt", "another\n")
    engine = outliving.start("run", "w.yaml", "--on", "only.yaml")
    logs = outliving.project.folder / ".weft" / "attempts" / "2"
    wait_for(lambda: [path.read_text() for path in logs.glob("*/out")] == ["on\n"])  # the other is reused
    engine.kill()
    engine.wait()
    outliving.project.write("go-early", "")
    done = outliving.project.weft("resume")
    assert done.code == 0, done
    assert "early: 1 stale (input seed.txt changed)" in done.out


def test_end_time_of_a_program_is_the_time_it_ended_and_not_the_time_of_the_report(
    outliving: Outliving,
) -> None:
    outliving.begin_and_kill()
    outliving.let_end("early", "late")
    over_at = time.time()
    time.sleep(1.0)  # no program runs
    resumed_at = time.time()
    outliving.resume()
    trace = outliving.project.weft("report", "--trace", "-").out
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(trace), delimiter="\t")}
    for name in ("early", "late"):
        assert _moment(rows[name]["submit"]) <= _moment(rows[name]["start"]) <= over_at
        assert _moment(rows[name]["start"]) < _moment(rows[name]["complete"]) < resumed_at
    assert _moment(rows["after"]["start"]) >= resumed_at
    report = outliving.project.json("report")
    path = report["critical_path"]
    idle_s = resumed_at - over_at
    assert path["waited_s"] >= 0.9 * idle_s
    assert path["ran_s"] + path["staged_s"] + path["waited_s"] == pytest.approx(report["took_s"], abs=1e-6)


def _moment(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
