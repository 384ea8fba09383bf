"""``weft check --on`` reports every wrong requirement and rank of a file, and notes attributes that count as 0."""

from __future__ import annotations

from cli.projects import Project

MACHINES = "weft: 1\nmachines:\n  one: {attributes: {CPU_MHZ: 2400}, backend: {kind: local}}\n"


def test_all_wrong_requirements_and_ranks_are_reported_at_once(project: Project) -> None:
    project.write("machines.yaml", MACHINES)
    project.write(
        "flow.yaml",
        "weft: 1\ntasks:\n"
        "  a: {command: 'true', requirements: memoryy > 1}\n"
        "  b: {command: 'true', requirements: memoryy > 1}\n"
        "  c: {command: 'true', requirements: nodes + 1}\n"
        "  d: {command: 'true', rank: speeed}\n"
        "  e: {command: 'true', sweep: {i: 1..3}, requirements: corres > i}\n",
    )
    for command in (("check",), ("run",), ("run", "-n"), ("plan",)):
        refused = project.weft(*command, "flow.yaml", "--on", "machines.yaml")
        assert refused.code == 2, (command, refused)
        assert len(refused.err.splitlines()) == 5, refused
        for task in "abce":
            assert f"tasks.{task}.requirements" in refused.err
        assert "tasks.d.rank" in refused.err
    assert not (project.folder / ".weft").exists()


def test_unknown_attributes_of_a_gridway_rank_are_noted(project: Project) -> None:
    project.write("machines.yaml", MACHINES)
    project.write("job.jt", "EXECUTABLE = /bin/true\nRANK = CPU_MHX + CPU_MHZ + FREE_MEM_MB\n")
    checked = project.weft("check", "job.jt", "--on", "machines.yaml")
    assert checked.code == 0, checked
    (note,) = [line for line in checked.out.splitlines() if line.startswith("note: rank")]
    assert "no machine states CPU_MHX, so it counts as 0; did you mean" in note
    assert "CPU_MHZ" in note
    assert project.weft("check", "job.jt").out.count("note: rank") == 0


MANY = """\
weft: 1
settings: {policy: nosuch}
tasks:
  a: {command: "./prog x", inputs: [./prog, ../outside]}
  b: {command: echo, requirements: memory > 10000*GB, selector: nosel}
  c: {work: 3}
  d: {command: echo, evaluator: ./noeval}
"""


def test_problems_of_all_groups_are_reported_at_once(project: Project) -> None:
    """Settings, selectors, programs, file names, missing files, tasks without program, requirements."""
    project.write("many.yaml", MANY)
    project.write("ok.yaml", "weft: 1\ntasks:\n  a: {command: echo}\n")
    done = project.weft("check", "many.yaml", "ok.yaml", "--on", "local")
    expected = [
        "unknown policy 'nosel'",
        "unknown policy 'nosuch'",
        "./noeval does not exist",
        "'../outside' is not a valid file name",
        "'./prog', a program of task 'a', does not exist",
        "1 task without a program (c)",
        "no machine can run b",
    ]
    assert (done.code, done.out) == (2, "")
    assert [text for text in expected if text not in done.err] == []
    assert done.err.count("error: many.yaml") == len(expected) == len(done.err.splitlines())


def test_files_are_checked_although_the_platform_is_wrong(project: Project) -> None:
    project.write("many.yaml", MANY)
    project.write(
        "grid.yaml",
        "weft: 1\nmachines:\n  m: {backend: {kind: local, sandbox: /proc/no}}\n  n: {backend: {kind: lcl}}\n",
    )
    done = project.weft("check", "many.yaml", "--on", "grid.yaml")
    assert done.code == 2
    assert "unknown backend 'lcl'" in done.err
    assert "/proc/no" in done.err
    assert "unknown policy 'nosuch'" in done.err
    missing = project.weft("check", "many.yaml", "--on", "nowhere.yaml")
    assert missing.err.startswith("error: no file 'nowhere.yaml'")
    assert "unknown policy 'nosuch'" in missing.err


def test_names_that_only_machines_can_define_are_noted_without_a_platform(project: Project) -> None:
    project.write("machines.yaml", MACHINES)
    project.write(
        "flow.yaml",
        "weft: 1\nparams: {least: 2}\ntasks:\n"
        "  a: {command: 'true', requirements: memoryy > 1, rank: queue_s}\n"
        "  b: {command: 'true', sweep: {i: 1..3}, requirements: cores > i and nodes >= least}\n"
        "  c: {command: 'true', rank: CPU_MHZ}\n",
    )
    checked = project.weft("check", "flow.yaml")
    assert checked.code == 0, checked
    notes = [line for line in checked.out.splitlines() if line.startswith("note: tasks.")]
    where, near = "note: tasks.a.requirements", "did you mean 'memory'?"
    stated = "machines may state it, which is only checked with `--on PLATFORM`"
    assert notes == [
        f"{where}: unknown name 'memoryy' at column 1 of expression `memoryy > 1`; {stated}; {near}",
        f"note: tasks.c.rank: unknown name 'CPU_MHZ' at column 1 of expression `CPU_MHZ`; {stated}",
    ]
    refused = project.weft("check", "flow.yaml", "--on", "machines.yaml")
    assert refused.code == 2
    assert "memoryy" in refused.err
    assert "CPU_MHZ" not in refused.err
