"""Mistyped commands and options are rejected with advice."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cli.projects import Project
from cli.shell import refused
from cli.warm_process import weft

PLAN = ("plan", "hello.yaml", "--on", "identical:2")

USAGE = {
    ("plan",): ["Missing argument 'WORKFLOW'"],
    ("paln", "hello.yaml"): ["'paln'", "Did you mean 'plan'?"],
    ("zzzzz",): ["No such command 'zzzzz'"],
    ("--zzz",): ["No such option"],
    (*PLAN, "--sed", "3"): ["--sed", "--seed"],
    (*PLAN, "--seed", "x"): ["--seed", "'x'"],
    (*PLAN, "--seed", "-1"): ["--seed", "-1"],
    (*PLAN, "--alpha", "x"): ["--alpha", "'x'"],
    (*PLAN, "--plan-steps", "0"): ["--plan-steps", "0"],
    (*PLAN, "--workers", "0"): ["--workers", "0"],
    (*PLAN, "--workers", "two"): ["--workers", "'two'"],
    (*PLAN, "--max-cost", "x"): ["--max-cost", "'x'"],
    (*PLAN, "extra"): ["extra"],
    (*PLAN, "--out", "x.txt"): ["--out", "x.txt", ".json", ".csv"],
    (*PLAN, "--json", "--out", "-"): ["--json and --out -"],
    (*PLAN, "--html", "-", "--out", "-"): ["--out - and --html -"],
    ("plan", "-", "--on", "-"): ["standard input"],
    ("convert", "hello.yaml"): ["Missing argument 'OUT'"],
    ("check",): ["Missing argument"],
    ("schema", "schedule"): ["'schedule'", "'workflow'", "'platform'", "'scenario'"],
    ("completion", "tcsh"): ["'tcsh'", "'bash'"],
}

VALUES = {
    (*PLAN, "--plan-time", "0"): ["planning time of 0 s", "above 0"],
    (*PLAN, "--plan-time", "-1"): ["--plan-time '-1'", "must be a time"],
    (*PLAN, "--plan-time", "long"): ["--plan-time 'long'", "must be a time", "1h30m"],
    (*PLAN, "--plan-time", "3", "--plan-steps", "4"): ["3 s and 4 planning steps", "only one"],
    (*PLAN, "--workers", "2", "--cluster", "tcp://127.0.0.1:9"): ["workers and cluster", "only one"],
    (*PLAN, "--cluster", "nonsense"): ["Dask scheduler is 'nonsense'", "tcp://HOST"],
    (*PLAN, "--planner", "auto:islands=-1"): ["auto:islands=-1", "at least 0"],
    (*PLAN, "--planner", "hefd"): ["planner 'hefd'", "did you mean 'heft'?"],
    (*PLAN, "--planner", ""): ["planner ''"],
    (*PLAN, "--objective", "makspan"): ["objective 'makspan'", "did you mean 'makespan'?"],
    (*PLAN, "--objective", "on-demnd"): ["objective 'on-demnd'", "did you mean 'on-demand'?"],
    (*PLAN, "--alpha", "0.5"): ["'makespan'", "no alpha", "on-demand"],
    (*PLAN, "--objective", "static", "--alpha", "1.5"): ["alpha is 1.5", "from 0", "to 1"],
    (*PLAN, "--objective", "static", "--alpha", "nan"): ["alpha is nan"],
    (*PLAN, "--deadline", "-5"): ["--deadline '-5'", "at least 0", "1h30m"],
    (*PLAN, "--deadline", "soon"): ["--deadline 'soon'", "must be a time"],
    (*PLAN, "--deadline", "1e400"): ["--deadline '1e400'"],
    (*PLAN, "--max-cost", "-1"): ["maximal cost is -1", "at least 0"],
    (*PLAN, "--max-cost", "inf"): ["maximal cost is inf"],
    (*PLAN, "--planner", "heft:zzz=1"): ["'heft'", "no option 'zzz'"],
    ("planners", "hefd"): ["planner 'hefd'", "did you mean 'heft'?"],
    (*PLAN, "--from", "dxa"): ["format 'dxa'", "did you mean 'dax'?"],
    (*PLAN, "--from", "mermaid"): ["'mermaid'", "not read"],
    (*PLAN, "--from", "dax"): ["hello.yaml:1", "XML"],
    (*PLAN, "--out", "nowhere/x.json"): ["nowhere/x.json"],
    (*PLAN, "--html", "nowhere/x.html"): ["nowhere/x.html"],
    (*PLAN, "-p", "sedes=3"): ["'sedes'", "seeds"],
    (*PLAN, "-p", "seeds"): ["-p 'seeds'", "NAME=VALUE"],
    (*PLAN, "-p", "=3"): ["-p '=3'", "NAME=VALUE"],
    (*PLAN, "-p", "seeds=[1"): ["-p seeds", "']'"],
    (*PLAN, "-p", "seeds=many"): ["'many'", "number"],
    (*PLAN, "-p", "seeds="): ["''", "number"],
    (*PLAN, "-p", "seeds=-4"): ["no values"],
    (*PLAN, "-p", "seeds=1e99"): ["at most", "allowed"],
    (*PLAN, "-p", "seeds=.nan"): ["finite"],
    (*PLAN, "--params-file", "nothing.yaml"): ["nothing.yaml"],
    (*PLAN, "--params-file", "sub"): ["sub", "directory"],
    (*PLAN, "--params-file", "empty.yaml"): ["empty.yaml", "empty"],
    (*PLAN, "--params-file", "list.yaml"): ["list.yaml:1:1", "mapping"],
    ("plan", "nothing.yaml"): ["no file 'nothing.yaml'"],
    ("plan", "helo.yaml"): ["no file 'helo.yaml'", "did you mean hello.yaml?"],
    ("plan", "sub"): ["'sub' is a directory"],
    ("plan", "hello.yaml/x"): ["hello.yaml/x"],
    ("show", "grid.yaml"): ["grid.yaml:1:1", "machines, not tasks"],
    ("convert", "hello.yaml", "x.foo"): ["'.foo'", ".dot", "--to"],
    ("convert", "hello.yaml", "x.yaml", "--to", "foo"): ["format 'foo'", "known"],
    ("convert", "hello.yaml", "-"): ["--to"],
    ("convert", "hello.yaml", "nowhere/x.yaml"): ["nowhere/x.yaml"],
    ("convert", "hello.yaml", "sub", "--to", "mermaid"): ["sub"],
    ("convert", "hello.yaml", "x.stg", "--to", "stg"): ["stg"],
}

PLATFORMS = {
    "identical": ["identical", "whole number"],
    "identical:": ["identical", "whole number"],
    "identical:0": ["identical:0", "from 1"],
    "identical:-1": ["identical:-1", "from 1"],
    "identical:x": ["identical:x", "whole number"],
    "identical:2.5": ["identical:2.5", "whole number"],
    "identical:²": ["identical:²", "whole number"],
    "identical:99999999999": ["100,000"],
    "identical:2,bandwith=1MB/s": ["'bandwith'", "did you mean 'bandwidth'?"],
    "identical:2,bandwidth=": ["bandwidth", "100MB/s"],
    "identical:2,bandwidth=-1MB/s": ["bandwidth", "-1MB/s"],
    "cluster:0": ["cluster:0", "from 1"],
    "random:0": ["random:0", "from 1"],
    "identicl:3": ["identicl:3"],
    "": ["the file name is empty"],
    "nothing.yaml": ["no file 'nothing.yaml'"],
    "sub": ["'sub' is a directory"],
    "empty.yaml": ["empty.yaml", "empty"],
    "list.yaml": ["list.yaml:1:1", "mapping"],
    "hello.yaml": ["hello.yaml:1:1", "tasks, not machines", "--on"],
    "none.yaml": ["none.yaml:2", "at least one machine"],
}


@pytest.fixture
def crowded(folder: Path) -> Path:
    (folder / "sub").mkdir()
    (folder / "empty.yaml").write_text("")
    (folder / "list.yaml").write_text("- a\n- b\n")
    (folder / "none.yaml").write_text("weft: 1\nmachines: {}\n")
    return folder


def short(value: object) -> str:
    return " ".join(value)[:60] if isinstance(value, tuple) else str(value)[:60]


@pytest.mark.parametrize("arguments", USAGE, ids=short)
def test_wrong_arguments_are_usage_errors(arguments: tuple[str, ...], crowded: Path) -> None:
    lines = refused(weft(*arguments, folder=crowded), 2, *USAGE[arguments])
    assert lines[0].startswith("Usage: weft")
    assert "--help" in lines[1]


@pytest.mark.parametrize("arguments", VALUES, ids=short)
def test_wrong_option_values_are_rejected(arguments: tuple[str, ...], crowded: Path) -> None:
    lines = refused(weft(*arguments, folder=crowded), 2, *VALUES[arguments])
    assert len(lines) == 1


@pytest.mark.parametrize("platform", PLATFORMS, ids=short)
def test_wrong_platforms_are_rejected(platform: str, crowded: Path) -> None:
    lines = refused(weft("plan", "hello.yaml", "--on", platform, folder=crowded), 2, *PLATFORMS[platform])
    assert len(lines) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "x" * 5000),
        ("plan", "hello.yaml", "--on", "x" * 5000),
        ("plan", "hello.yaml", "--on", "identical:" + "9" * 5000),
        (*PLAN, "-p", "seeds=" + "9" * 5000),
        (*PLAN, "-p", "x" * 5000),
        (*PLAN, "--planner", "x" * 5000),
        (*PLAN, "--seed", "9" * 5000),
        (*PLAN, "--out", "x" * 5000 + ".json"),
    ],
    ids=short,
)
def test_very_long_values_are_shortened_in_messages(arguments: tuple[str, ...], crowded: Path) -> None:
    shown = weft(*arguments, folder=crowded)
    assert (shown.code, shown.out) == (2, "")
    assert "Traceback" not in shown.err
    assert 1 <= len(shown.err.splitlines()) <= 4


def test_weft_without_arguments_prints_the_help(folder: Path) -> None:
    shown = weft(folder=folder)
    assert shown.code == 2
    assert "Commands:" in shown.err


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read and write everything")
def test_files_without_permission_are_reported(folder: Path) -> None:
    (folder / "hello.yaml").chmod(0)
    refused(weft("check", "hello.yaml", folder=folder), 2, "hello.yaml", "Permission denied")
    (folder / "hello.yaml").chmod(0o600)
    folder.chmod(0o500)
    refused(weft(*PLAN, "--out", "x.json", folder=folder), 2, "x.json", "Permission denied")


_WRITING = [
    (("run", "tiny.yaml"), ("--report", "--trace")),
    (("resume",), ("--report", "--trace")),
    (("simulate", "tiny.yaml", "--on", "machines.yaml"), ("--journal", "--html", "--csv")),
    (("plan", "tiny.yaml", "--on", "machines.yaml"), ("--out", "--html")),
    (("compare", "tiny.yaml", "--on", "machines.yaml"), ("--csv", "--html")),
    (("pareto", "tiny.yaml", "--on", "machines.yaml"), ("--out", "--html")),
    (("report",), ("--html", "--trace", "--events", "--wfformat")),
    (("generate", "montage"), ("--out", "--platform-out")),
]


@pytest.mark.parametrize(
    ("command", "option"), [(command, option) for command, options in _WRITING for option in options]
)
def test_unwritable_output_file_is_refused_before_any_work_is_done(
    project: Project, command: tuple[str, ...], option: str
) -> None:
    (project.folder / "folder.json").mkdir()
    (project.folder / "link.json").symlink_to("elsewhere")
    (project.folder / ".weft").mkdir(mode=0o700)
    (project.folder / "text").write_text("")
    for file, why in [
        ("no/such/file.json", "the folder 'no/such' does not exist; create it"),
        ("text/file.json", "the folder 'text' does not exist"),
        ("folder.json", "it is a folder"),
        ("link.json", "it is a symbolic link to 'elsewhere'"),
        (".weft/file.json", "weft keeps its own state in .weft"),
        (f"{project.folder}/.weft/x.json", "weft keeps its own state in .weft"),
        ("a\0.json", "null byte"),
    ]:
        refused(project.weft(*command, option, file), 2, f"{option}: cannot write {file!r}: ", why)
    assert list((project.folder / ".weft").iterdir()) == []
    assert not list(project.folder.glob(".weft-new-*"))


def test_read_only_output_file_is_refused_before_the_run(project: Project, monkeypatch) -> None:
    project.write("report.html", "old", 0o444)
    # Root may write it nevertheless.
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda file, *how, **more: file != "report.html" and access(file, *how, **more)
    )
    refused(project.weft("run", "tiny.yaml", "--report", "report.html"), 2, "Permission denied")
    assert (project.folder / "report.html").read_text() == "old"
    assert not (project.folder / ".weft").exists()


def test_two_options_cannot_write_one_file(project: Project) -> None:
    words = ("run", "tiny.yaml", "--report", "x", "--trace", f"{project.folder}/x")
    refused(project.weft(*words), 2, "--report and --trace cannot both write")
    assert project.weft("run", "tiny.yaml", "--report", "/dev/null", "--trace", "/dev/null").code == 0


def test_an_existing_file_is_kept_until_the_new_one_is_complete(project: Project) -> None:
    project.write("report.html", "old", 0o640)
    assert project.weft("run", "nothing.yaml", "--report", "report.html").code == 2
    assert (project.folder / "report.html").read_text() == "old"
    assert project.weft("run", "tiny.yaml", "--report", "report.html").code == 0
    assert (project.folder / "report.html").read_text().startswith("<!")
    assert stat.S_IMODE((project.folder / "report.html").stat().st_mode) == 0o640
