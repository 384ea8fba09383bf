"""``-v`` prints the complete lists that commands shorten otherwise."""

from __future__ import annotations

from pathlib import Path

from cli.projects import Project
from cli.warm_process import weft

FAILING = """\
weft: 1
name: failing
tasks:
  part: {sweep: {k: 1..12}, command: "exit 3", retries: 0}
"""


def test_run_and_report_list_every_failure(project: Project) -> None:
    project.write("failing.yaml", FAILING)
    run = ("run", "failing.yaml", "--keep-going", "--fresh")
    short = project.weft(*run)
    assert short.code == 1
    last = "… and 7 more failures; `weft report -v` lists all"
    assert last in short.out.splitlines()
    assert sum(line.startswith("part[") for line in short.out.splitlines()) == 5
    shown = project.weft("report", "-v").out.splitlines()
    assert last in project.weft("report").out.splitlines()
    assert last not in shown
    assert sum(line.startswith("part[") for line in shown) == 12
    full = project.weft(*run, "-v")
    assert last not in full.out
    for k in range(1, 13):
        assert any(line.startswith(f"part[{k}]") for line in full.out.splitlines())


def test_tables_of_a_run_are_complete(project: Project) -> None:
    tasks = "".join(f'  t{number}: {{command: "true"}}\n' for number in range(23))
    project.write("wide.yaml", f"weft: 1\nname: wide\ntasks:\n{tasks}")
    short = project.weft("run", "wide.yaml").out.splitlines()
    assert "  … 3 more" in short
    assert any("kinds t0, t1, t2, t3, t4 and 18 more" in line for line in short)
    full = project.weft("report", "-v").out
    assert "more" not in full
    assert sum(line.startswith("  t") and "1/1" in line for line in full.splitlines()) == 23
    plan = ("plan", "wide.yaml", "--no-chart", "--planner", "heft")
    assert "t4 and 18 more) have no stated time" in project.weft(*plan).out
    assert "t21, t22) have no stated time" in project.weft(*plan, "-v").out
    assert "t21, t22) have no stated time" in project.weft("run", "wide.yaml", "--dry-run", "-v").out


def test_run_lists_every_reason_for_stale_results(project: Project) -> None:
    text = 'weft: 1\nname: old\ntasks:\n  a: {sweep: {k: 1..5}, command: "cat {k} > y.{k}", inputs: ["{k}"], outputs: ["y.{k}"]}\n'
    project.write("old.yaml", text)
    for k in range(1, 6):
        project.write(str(k), "before")
    assert project.weft("run", "old.yaml").code == 0
    for content, options, more in (("after", (), True), ("later", ("-v",), False)):
        for k in range(1, 6):
            project.write(str(k), content)
        (line,) = (
            line for line in project.weft("run", "old.yaml", *options).out.splitlines() if "5 stale" in line
        )
        assert line.endswith("; and 2 more reasons)") is more
        assert line.count("input") == (3 if more else 5)


def test_check_lists_every_problem(folder: Path) -> None:
    tasks = "".join(f"  t{number}: {{wrok: 1}}\n" for number in range(40))
    (folder / "bad.yaml").write_text(f"weft: 1\nname: bad\ntasks:\n{tasks}")
    short, full = (weft("check", "bad.yaml", *given, folder=folder) for given in ((), ("-v",)))
    assert (short.code, full.code) == (2, 2)
    assert len(short.err.splitlines()) == 31
    assert short.err.splitlines()[-1] == "… and 10 more problems"
    assert len(full.err.splitlines()) == 40


def test_show_draws_every_level(folder: Path) -> None:
    tasks = "".join(f"  t{number}: {{work: 1, after: t{number - 1}}}\n" for number in range(1, 35))
    wide = "".join(f"  w{number}: {{work: 1}}\n" for number in range(8))
    (folder / "deep.yaml").write_text(f"weft: 1\nname: deep\ntasks:\n  t0: {{work: 1}}\n{tasks}{wide}")
    short = weft("show", "deep.yaml", folder=folder).out
    assert "… 5 more levels" in short
    assert "  … 3 more\n" in short
    assert "t5 → …" in short
    full = weft("show", "deep.yaml", "-v", folder=folder).out
    assert "…" not in full
    assert "[w7]" in full
    assert "t33 → t34" in full


def test_plan_lists_every_task_that_is_placed_by_its_rank(folder: Path) -> None:
    tasks = "".join(f"  r{number}: {{work: 4, rank: -speed}}\n" for number in range(6))
    (folder / "ranked.yaml").write_text(f"weft: 1\nname: ranked\ntasks:\n{tasks}")
    plan = ("plan", "ranked.yaml", "--on", "grid.yaml", "--plan-steps", "50", "--no-chart")
    assert " and 3 more" in weft(*plan, folder=folder).out
    full = weft(*plan, "-v", folder=folder).out
    assert "more" not in full
    assert all(f"r{number} on " in full for number in range(6))


def test_compare_names_every_workflow_without_a_plan(folder: Path) -> None:
    names = [f"flow{number}" for number in range(4)]
    for name in names:
        (folder / f"{name}.yaml").write_text(f"weft: 1\nname: {name}\ntasks: {{a: {{work: 1}}}}\n")
    files = [f"{name}.yaml" for name in names]
    compare = ("compare", *files, "--on", "grid.yaml", "--planner", "heft,moldable-genetic")
    assert "flow0 and 3 others: " in weft(*compare, folder=folder).out
    assert "flow0, flow1, flow2, flow3: " in weft(*compare, "-v", folder=folder).out


def test_pareto_does_not_cut_the_last_column(folder: Path) -> None:
    machines = "".join(f"  a_machine_with_a_long_name_{number}: {{}}\n" for number in range(9))
    (folder / "long.yaml").write_text(f"weft: 1\nmachines:\n{machines}")
    pareto = ("pareto", "hello.yaml", "--on", "long.yaml", "--plan-steps", "50", "--points", "3")
    assert "…\n" in weft(*pareto, folder=folder).out
    full = weft(*pareto, "-v", folder=folder).out
    assert "…\n" not in full
    assert "1 on a_machine_with_a_long_name_3\n" in full


def test_tune_shows_every_experiment(folder: Path) -> None:
    (folder / "grid-of-42.yaml").write_text(
        f"weft: 1\ngrid: {{population: {list(range(4, 25))}, elitist: [true, false]}}\n"
    )
    tune = (
        "tune", "hello.yaml", "--on", "grid.yaml", "--planner", "genetic:preset=s1-tuned,generations=1",
        "--grid", "grid-of-42.yaml", "--repeat", "1",
    )  # fmt: skip
    short = weft(*tune, folder=folder).out
    assert "2 worse experiments not shown; -v shows all" in short
    full = weft(*tune, "-v", folder=folder).out
    assert "not shown" not in full
    assert sum(line.startswith("population=") for line in full.splitlines()) == 42
